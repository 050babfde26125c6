//! Keeping sessions alive, noticing when one has ended, and ending those whose time is over.

use std::sync::{Arc, Weak};
use std::time::Duration;

use distlock_core::{Claim, Instant, LockKey, LostReason, Release, Result, Running};

use super::attempt::failed;
use super::dialect::SessionDialect;
use super::ear::Ear;
use super::held::{AllHeld, Held};
use super::links::Links;
use crate::outlasting::Outlasting;
use crate::server::error::Trouble;

/// How often sessions are looked after.
const ROUND: Duration = Duration::from_millis(50);

/// The locks that are held, and the connections.
pub(super) struct Keeper<D: SessionDialect> {
    pub(super) links: Arc<Links<D>>,
    pub(super) ears: <D::Ear as Ear<D>>::Shared,
    /// For looking at locks while all other connections hold some.
    pub(super) spare: Links<D>,
    pub(super) held: AllHeld<D>,
    pub(super) table: String,
    pub(super) may_create: bool,
    pub(super) running: Running,
}

impl<D: SessionDialect> Keeper<D> {
    /// A lock's name at the server. No table has a zero byte in its name.
    pub(super) fn name_of(&self, key: &LockKey) -> Vec<u8> {
        [self.table.as_bytes(), &[0], key.as_bytes()].concat()
    }

    /// Prolongs a lock, and says when the statement was sent that did; `None` if the lock is lost.
    ///
    /// Waits for the answer for no longer than statements may take; it is taken in when it comes all the
    /// same, as long as the lock lasts.
    pub(super) async fn prolong(
        self: &Arc<Self>,
        held: &Arc<Held<D>>,
        ttl: Duration,
    ) -> Result<Option<Instant>> {
        let live = Outlasting::new(Arc::clone(self).live(Arc::clone(held), Some(ttl)));
        let limit = self.links.response_timeout();
        let lived = crate::server::connections::within(limit, live).await;
        Ok(lived.ok_or_else(|| crate::server::error::late(crate::server::error::Doing::Running))?)
    }

    /// Asks whether the session lives. When it does not, or gives no answer until the lock's time is over, the
    /// connection is closed, and the lock lost for good.
    async fn live(self: Arc<Self>, held: Arc<Held<D>>, ttl: Option<Duration>) -> Option<Instant> {
        let mut slot = held.slot.take_up().await;
        let sent = self.links.clock.now();
        let left = held.times.expires().since(sent);
        if left.is_zero() {
            *slot.link = None;
        }
        let longest = held.times.longest(ttl.unwrap_or_default());
        let answer = match slot.link.as_mut() {
            Some(open) => {
                self.links.count(1);
                let statement =
                    self.links.statements.live.with([held.name.as_slice().into(), D::idle_limit(longest)]);
                let set = self.links.statements.limit.as_ref().zip(open.new_limit(longest));
                let asked = async {
                    if let Some((statement, value)) = set {
                        open.run(&statement.with([value]), left).await?;
                    }
                    open.limit = Some(longest);
                    let given = open.run(&statement, left).await?;
                    let row = given.rows.first();
                    let (id, is_held) =
                        row.map_or(Ok((0, 0)), |row| Ok((row.int(0)?, row.int(1)?))).map_err(failed)?;
                    open.check(id)?;
                    Ok::<_, Trouble>(is_held != 0)
                };
                asked.await
            }
            None => Ok(false),
        };
        if matches!(answer, Ok(true)) {
            held.times.lives(sent, ttl);
            return Some(sent);
        }
        *slot.link = None;
        drop(slot);
        self.lost(&held);
        None
    }

    /// The session of a lock is over.
    fn lost(&self, held: &Arc<Held<D>>) {
        self.held.remove(held);
        held.end();
    }

    /// Gives a lock back; `None` if it is not held by this claim.
    pub(super) async fn release(self: Arc<Self>, claim: Claim) -> Result<Option<Release>> {
        let Some(held) = self.held.of(&claim) else { return Ok(None) };
        let mut slot = held.slot.take_up().await;
        let Some(mut link) = slot.link.take() else { return Ok(None) };
        held.end();
        self.links.count(1);
        let free = self.links.statements.free.with([held.name.as_slice().into()]);
        // Where this fails the connection is closed, and the lock freed by that.
        let given = link.run(&free, self.links.response_timeout()).await;
        // Not before: a repeat of this release waits for the slot, and is answered when the lock is free.
        self.held.remove(&held);
        drop(slot);
        let given = given?;
        let was_held = given.rows.first().map_or(Ok(Some(0)), |row| row.maybe_int(0))?.unwrap_or(0) != 0;
        self.links.check_in(link);
        Ok(Some(if was_held { Release::Released } else { Release::NotHeld(LostReason::SessionClosed) }))
    }

    /// Begins to look after a lock.
    pub(super) fn keep(self: &Arc<Self>, held: Arc<Held<D>>) {
        self.held.insert(held);
        let Some(running) = self.running.begin() else { return };
        let keeper = Arc::downgrade(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "one task looks after all sessions of the backend; it ends with the last of them"
        )]
        tokio::spawn(async move {
            let last = rounds(&keeper).await;
            drop(running);
            // A lock may have come between the last round and the end.
            if let Some(last) = last
                && let Some(held) = last.held.list().pop()
            {
                last.keep(held);
            }
        });
    }

    /// Listens for the end of a lock's session while nothing is asked of it.
    fn listen_for(self: &Arc<Self>, held: &Arc<Held<D>>) {
        let (slot, times) = (Arc::clone(&held.slot), Arc::clone(&held.times));
        let mut ear = D::Ear::new(&self.ears, &held.name);
        // Neither the backend nor the lock stays because of this.
        let (keeper, listened) = (Arc::downgrade(self), Arc::downgrade(held));
        #[expect(
            clippy::disallowed_methods,
            reason = "each connection is read from by itself; it ends with the lock"
        )]
        let task = tokio::spawn(async move {
            if slot.end_is_heard(&mut ear, &times).await
                && let Some((keeper, held)) = keeper.upgrade().zip(listened.upgrade())
            {
                keeper.lost(&held);
            }
        });
        held.listened_for_by(task.abort_handle());
    }

    /// Asks sessions that nothing was heard of for a while, and ends those whose time is over. Those that have not
    /// been listened to yet are from now on: most locks are given back before.
    fn look_after(self: &Arc<Self>) {
        let now = self.links.clock.now();
        for held in self.held.list() {
            let is_over = now >= held.times.expires();
            let is_due = is_over || now.since(held.times.lived()) >= held.times.silence();
            if !held.is_listened_for() {
                self.listen_for(&held);
            }
            // One statement at a time.
            if is_due && !held.slot.is_in_use() {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "one silent session must not keep the others waiting; it ends with the lock's time"
                )]
                drop(tokio::spawn(Arc::clone(self).live(held, None)));
            } else if is_over {
                held.slot.disturb();
            }
        }
    }
}

/// Goes round until no lock is held or the backend is gone.
async fn rounds<D: SessionDialect>(keeper: &Weak<Keeper<D>>) -> Option<Arc<Keeper<D>>> {
    loop {
        tokio::time::sleep(ROUND).await;
        let keeper = keeper.upgrade()?;
        keeper.look_after();
        if keeper.held.is_empty() {
            return Some(keeper);
        }
    }
}
