//! Sessions that sleep at the server while nobody uses them.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::Instant;
use futures_util::FutureExt as _;
use sqlx::MySql;

use super::session;
use super::watching::{Hold, Watching};
use crate::server::{Ear, Link, Links, Then, Times, Users};

/// For how long sessions are only asked after something went wrong with sleeping.
const AWAKE: Duration = Duration::from_secs(1);

/// A session that has not woken after so long is asked after.
const OVERDUE: Duration = Duration::from_secs(2);

/// Has a session sleep at the server, by waiting for a lock that another connection holds: the driver reads while a
/// statement is under way, so the session's end is heard. The session is woken when the other connection gives that
/// lock back. It wakes by itself once in a while, which shows that it lives.
pub(crate) struct Sleeper {
    shared: Arc<Watching>,
    /// The name of the session's own lock.
    name: Vec<u8>,
    /// What it sleeps on.
    hold: Option<Hold>,
    /// Until when it is only asked.
    awake_until: Option<Instant>,
}

impl Ear<MySql> for Sleeper {
    type Shared = Arc<Watching>;

    fn shared(links: &Arc<Links<MySql>>) -> Arc<Watching> {
        Arc::new(Watching::new(Arc::clone(links), session::slice()))
    }

    fn new(shared: &Arc<Watching>, name: &[u8]) -> Self {
        Self { shared: Arc::clone(shared), name: name.to_vec(), hold: None, awake_until: None }
    }

    async fn listen(&mut self, link: &mut Link<MySql>, times: &Times, users: &Users) -> bool {
        // Somebody may have come to the end of the line meanwhile, and be in it behind this.
        if users.want_it().now_or_never().is_some() {
            return false;
        }
        if let Some(pause) = self.pause() {
            tokio::select! {
                biased;
                () = users.want_it() => {}
                () = tokio::time::sleep(pause) => {}
            }
            return false;
        }
        if self.hold.is_none() {
            self.hold = tokio::select! {
                biased;
                () = users.want_it() => return false,
                hold = self.shared.hold() => hold,
            };
        }
        match &self.hold {
            Some(hold) => {
                let name = hold.name().to_owned();
                self.sleep(link, &name, times, users).await
            }
            None => {
                self.stay_awake();
                false
            }
        }
    }

    fn close(shared: &Arc<Watching>) {
        shared.close();
    }
}

impl Sleeper {
    /// Sleeps until the lock of this name, which is held for it, is free, or for a while.
    async fn sleep(&mut self, link: &mut Link<MySql>, on: &str, times: &Times, users: &Users) -> bool {
        let links = Arc::clone(&self.shared.links);
        let (sent, silence) = (links.clock.now(), times.silence());
        let left = times.expires().since(sent);
        if left.is_zero() {
            return true;
        }
        let millis = i64::try_from(silence.as_millis()).unwrap_or(i64::MAX);
        let values = [self.name.as_slice().into(), on.into(), millis.into()];
        let statement = self.shared.slice.with(values);
        // Nobody has to ask meanwhile.
        let user = users.begin();
        links.count(1);
        let answer = {
            let mut gone = std::pin::pin!(is_gone(&self.shared, &self.name, link.id));
            let mut answer = std::pin::pin!(link.run(&statement, left));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answer => break answer,
                    () = users.want_it() => {
                        if links.clock.now() >= times.expires() {
                            return true;
                        }
                        // This wakes it. Its answer has to be read all the same.
                        self.hold = None;
                    }
                    () = &mut gone => return true,
                }
            }
        };
        drop(user);
        let given = match answer {
            Ok(given) => given,
            Err(trouble) if trouble.then == Then::Close => return true,
            // Somebody cancelled the statement. Whether the session lives shows when it is asked.
            Err(_) => {
                self.stay_awake();
                return false;
            }
        };
        let column = |at| given.rows.first().and_then(|row| row.int(at).ok()).unwrap_or(0);
        let (id, is_held, was_woken) = (column(0), column(1) != 0, column(2) != 0);
        if link.check(id).is_err() || !is_held {
            return true;
        }
        times.lives(sent, None);
        // If nobody has woken it, the other connection is gone, or leads to another server, or the server does not
        // wait.
        let too_soon = links.clock.now().since(sent) < silence / 2;
        if self.hold.is_some() && (was_woken || too_soon) {
            self.stay_awake();
        }
        false
    }

    fn stay_awake(&mut self) {
        self.hold = None;
        self.awake_until = Some(self.shared.links.clock.now().plus(AWAKE));
    }

    /// For how long it has to stay awake.
    fn pause(&mut self) -> Option<Duration> {
        let left = self.awake_until?.since(self.shared.links.clock.now());
        if left.is_zero() {
            self.awake_until = None;
            return None;
        }
        Some(left)
    }
}

/// Resolves when the server says on another connection that the session does not hold its lock any more. One that has
/// forgotten the session says nothing on its own connection, on which nothing is sent meanwhile.
async fn is_gone(shared: &Watching, name: &[u8], session: i64) {
    loop {
        tokio::time::sleep(OVERDUE).await;
        if shared.holder(name).await.is_some_and(|holder| holder != session) {
            return;
        }
    }
}
