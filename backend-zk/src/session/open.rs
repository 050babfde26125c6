//! Opening sessions.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use distlock_core::{Backoff, Clock, Effect, Error, ErrorKind, Instant, Result, Timers};
use zookeeper_client::{Client, Error as ZkError};

use super::dial::Dialer;
use super::link::Link;
use super::{ClientSession, Limits, Session};
use crate::config::{Access, ZkConfig};

/// Pauses between attempts, which the client crate itself lets grow without end.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_millis(500);

/// Opens sessions as a configuration says.
#[derive(Debug)]
pub(crate) struct Opener {
    source: Source,
    access: Access,
    limits: Limits,
    connect_timeout: Duration,
    clock: Clock,
    timers: Timers,
    sent: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Source {
    Servers(Dialer),
    /// The application's, which can't be opened anew.
    Given(Client),
}

impl Opener {
    pub(crate) fn new(config: &ZkConfig, given: Option<Client>, sent: Arc<AtomicU64>) -> Result<Self> {
        Ok(Self {
            source: match given {
                Some(client) => Source::Given(client),
                None => Source::Servers(Dialer::new(config)?),
            },
            access: config.effective_access(),
            limits: config.limits(),
            connect_timeout: config.connect_timeout,
            clock: Clock::system(),
            timers: Timers::new(),
            sent,
        })
    }

    /// Opens a session.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Session>> {
        let (link, dialer, opened) = match &self.source {
            Source::Given(client) => {
                if client.state().is_terminated() {
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        "the application's session is over; open another one and make a backend of it",
                    )
                    .with_effect(Effect::None));
                }
                (Link::new(client.clone(), None), None, None)
            }
            Source::Servers(dialer) => {
                let attempts = self.timers.limit(self.connect_timeout, self.attempts(dialer));
                let (link, opened) = attempts.await.unwrap_or_else(|| Err(unreachable(None)))?;
                (link, Some(dialer.clone()), Some(opened))
            }
        };
        let (limits, sent) = (self.limits, Arc::clone(&self.sent));
        Ok(Arc::new(ClientSession::new(link, dialer, opened, self.access, limits, sent)))
    }

    /// The servers of the moment, unless the session is the application's.
    pub(crate) fn servers(&self) -> Option<Vec<String>> {
        match &self.source {
            Source::Servers(dialer) => Some(dialer.servers().borrow().clone()),
            Source::Given(_) => None,
        }
    }

    /// Connects to these servers from now on; false if the session is the application's.
    pub(crate) fn use_servers(&self, servers: Vec<String>) -> bool {
        match &self.source {
            Source::Servers(dialer) => dialer.use_servers(servers),
            Source::Given(_) => return false,
        }
        true
    }

    /// Waits until it is known how long a session lives that the application opened.
    pub(crate) async fn confirm(&self, session: &dyn Session, root: &str) -> Result<()> {
        if matches!(self.source, Source::Given(_)) {
            session.beat(root).await?;
            tokio::time::sleep(session.beats().gap()).await;
            session.beat(root).await?;
        }
        Ok(())
    }

    async fn attempts(&self, dialer: &Dialer) -> Result<(Link, Instant)> {
        let mut pause = Backoff::new(PAUSE_FIRST, PAUSE_MOST);
        let deadline = self.clock.now().plus(self.connect_timeout.mul_f64(0.7));
        loop {
            let sent = self.clock.now();
            match dialer.dial(None).await {
                Ok(link) => return Ok((link, sent)),
                Err(ZkError::AuthFailed) => return Err(super::Failure::from(ZkError::AuthFailed).into()),
                Err(error @ ZkError::BadArguments(_)) => return Err(refused(error)),
                Err(error) if self.clock.now() >= deadline => return Err(unreachable(Some(error))),
                Err(_) => tokio::time::sleep(pause.pause()).await,
            }
        }
    }
}

fn unreachable(cause: Option<ZkError>) -> Error {
    let message = "no server can be reached; see that they run and have a leader, and that hosts and ports are right (zks:// for servers that encrypt)";
    let error = Error::new(ErrorKind::Unavailable, message).with_effect(Effect::None);
    match cause {
        Some(cause) => error.caused_by(cause),
        None => error,
    }
}

fn refused(cause: ZkError) -> Error {
    let message = "the client refuses these settings; see the crate's documentation for addresses and TLS";
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None).caused_by(cause)
}
