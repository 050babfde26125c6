//! Asking the Sentinels.

use std::collections::HashMap;
use std::sync::Arc;

use distlock_core::Result as CoreResult;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, PushInfo, PushKind, RedisError, RedisResult};
use tokio::sync::Notify;

use crate::config::RedisConfig;
use crate::connection::{Opener, Pushes, timed_out};
use crate::error::SENTINEL_CREDENTIALS;

/// The Sentinels that were named, and a connection to each that answers.
#[derive(Debug)]
pub(super) struct Panel {
    master: String,
    seats: Vec<Seat>,
    /// The highest epoch that was heard of: whoever knows less is behind.
    epoch: u64,
}

#[derive(Debug)]
struct Seat {
    opener: Opener,
    connection: Option<MultiplexedConnection>,
}

/// Who hears of what the Sentinels announce.
#[derive(Clone, Debug)]
pub(super) struct News {
    /// Calls the keeper.
    pub(super) bell: Arc<Notify>,
    /// Interrupts whoever waits for it at that moment.
    pub(super) told: Arc<Notify>,
}

/// What a Sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) epoch: u64,
    pub(super) address: String,
}

impl Panel {
    pub(super) fn new(config: &RedisConfig, master: &str) -> CoreResult<Self> {
        let own = RedisConfig {
            user: config.sentinel_user.clone(),
            password: config.sentinel_password.clone(),
            credentials: None,
            database: 0,
            ..config.clone()
        };
        let seat = |address: &String| Ok(Seat { opener: Opener::new(&own, address)?, connection: None });
        let seats = config.servers.iter().map(seat).collect::<CoreResult<_>>()?;
        Ok(Self { master: master.to_owned(), seats, epoch: 0 })
    }

    /// Asks all, and takes the newest of a majority's answers, or of all there are. Later on, `news`
    /// hears when one of them announces another master.
    pub(super) async fn ask(&mut self, news: &News) -> RedisResult<Verdict> {
        let enough = self.seats.len() / 2 + 1;
        let mut asked: FuturesUnordered<_> =
            self.seats.iter_mut().map(|seat| seat.ask(&self.master, news)).collect();
        let (mut newest, mut answers, mut trouble) = (None::<Verdict>, 0, None);
        while answers < enough
            && let Some(answer) = asked.next().await
        {
            match answer {
                Ok(verdict) => {
                    answers += 1;
                    if newest.as_ref().is_none_or(|newest| verdict.epoch > newest.epoch) {
                        newest = Some(verdict);
                    }
                }
                // What somebody has to change tells more than who is down.
                Err(error) if trouble.as_ref().is_none_or(RedisError::is_io_error) => trouble = Some(error),
                Err(_) => {}
            }
        }
        drop(asked);
        match newest {
            Some(verdict) if verdict.epoch >= self.epoch => {
                self.epoch = verdict.epoch;
                Ok(verdict)
            }
            Some(_) => {
                Err(std::io::Error::other("the Sentinels that answer have not heard of the last failover")
                    .into())
            }
            None => Err(trouble.unwrap_or_else(timed_out)),
        }
    }

    /// Closes the connections.
    pub(super) fn leave(&mut self) {
        for seat in &mut self.seats {
            seat.connection = None;
        }
    }
}

impl Seat {
    async fn ask(&mut self, master: &str, news: &News) -> RedisResult<Verdict> {
        // Put back when it has answered; whoever was interrupted is asked on a new one.
        if let Some(mut connection) = self.connection.take()
            && let Ok(verdict) = ask(&mut connection, master).await
        {
            self.connection = Some(connection);
            return Ok(verdict);
        }
        let mut connection = self.open(news).await?;
        let verdict = ask(&mut connection, master).await?;
        self.connection = Some(connection);
        Ok(verdict)
    }

    async fn open(&self, news: &News) -> RedisResult<MultiplexedConnection> {
        let news = news.clone();
        let pushes: Pushes = Arc::new(move |push: PushInfo| {
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                news.bell.notify_one();
                news.told.notify_waiters();
            }
        });
        let mut connection = self.opener.listen(pushes).await.map_err(at_sentinels)?;
        connection.subscribe("+switch-master").await?;
        Ok(connection)
    }
}

/// The epoch is asked for first: so the address is at least as new.
async fn ask(connection: &mut MultiplexedConnection, master: &str) -> RedisResult<Verdict> {
    let facts: RedisResult<HashMap<String, String>> =
        redis::cmd("SENTINEL").arg("MASTER").arg(master).query_async(connection).await;
    let facts = facts.map_err(|error| match error.detail() {
        Some(detail) if detail.contains("No such master") => unknown_master(),
        _ => error,
    })?;
    let epoch = facts.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let address: Option<(String, String)> =
        redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).query_async(connection).await?;
    let (host, port) = address.ok_or_else(unknown_master)?;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    Ok(Verdict { epoch: epoch.unwrap_or(0), address })
}

/// Tells credentials that the Sentinels refuse from those that the master does.
fn at_sentinels(error: RedisError) -> RedisError {
    match error.code() {
        Some("NOAUTH" | "WRONGPASS") => {
            (ErrorKind::AuthenticationFailed, SENTINEL_CREDENTIALS, error.to_string()).into()
        }
        _ => error,
    }
}

fn unknown_master() -> RedisError {
    (ErrorKind::MasterNameNotFoundBySentinel, "the Sentinels know no master of this name").into()
}
