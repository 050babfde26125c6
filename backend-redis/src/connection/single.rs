//! One server.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use distlock_core::{Clock, Instant};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::authentication::Authentication;
use super::outstanding::Condition;
use super::{Failure, Link, Opener, Pushes};

/// One connection to one server, which all callers share, and which is replaced when it breaks.
///
/// The client crate's own manager is not enough: it answers the first call after a break with an
/// error, never leaves a server that is silent, and lets callers wait for several attempts in a row.
#[derive(Clone, Debug)]
pub(crate) struct Single(Arc<State>);

#[derive(Debug)]
struct State {
    opener: Opener,
    clock: Clock,
    current: Mutex<Current>,
    /// One opens for all. Holds the last failure, and when it came.
    opening: Arc<AsyncMutex<Option<(Instant, RedisError)>>>,
}

#[derive(Debug)]
enum Current {
    None,
    Open(Live),
    Closed,
}

#[derive(Clone, Debug)]
struct Live {
    connection: MultiplexedConnection,
    condition: Arc<Condition>,
    authentication: Arc<Authentication>,
}

impl Single {
    pub(crate) fn new(opener: Opener) -> Self {
        Self(Arc::new(State {
            opener,
            clock: Clock::system(),
            current: Mutex::new(Current::None),
            opening: Arc::new(AsyncMutex::new(None)),
        }))
    }

    /// The connection, opened if need be.
    async fn live(&self) -> Result<Live, Failure> {
        if let Some(live) = self.0.current()? {
            return Ok(live);
        }
        let asked = self.0.clock.now();
        let opening = Arc::clone(&self.0.opening).lock_owned().await;
        if let Some(live) = self.0.current()? {
            return Ok(live);
        }
        if let Some((failed, error)) = &*opening
            && *failed >= asked
        {
            return Err(Failure::unsent(error.clone()));
        }
        let state = Arc::clone(&self.0);
        #[expect(
            clippy::disallowed_methods,
            reason = "a caller in a hurry must not keep the next ones from a connection; bounded by the connection's time-out"
        )]
        let opened = tokio::spawn(async move { state.open(opening).await }).await;
        opened.unwrap_or_else(|_| Err(closed())).map_err(Failure::unsent)
    }
}

impl State {
    fn current(&self) -> Result<Option<Live>, Failure> {
        match &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            Current::Open(live) if !live.condition.is_over() => Ok(Some(live.clone())),
            Current::Closed => Err(Failure::unsent(closed())),
            _ => Ok(None),
        }
    }

    async fn open(&self, mut last: OwnedMutexGuard<Option<(Instant, RedisError)>>) -> RedisResult<Live> {
        let condition = Arc::new(Condition::new());
        let ends = Arc::clone(&condition);
        let pushes: Pushes = Arc::new(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                ends.end();
            }
        });
        // Read before they are asked for: a change meanwhile is noticed later.
        let authentication = Arc::new(Authentication::of(self.opener.credentials_version()));
        match self.opener.open(pushes).await {
            Ok(connection) => {
                let live = Live { connection, condition, authentication };
                let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                if matches!(*current, Current::Closed) {
                    return Err(closed());
                }
                *current = Current::Open(live.clone());
                Ok(live)
            }
            Err(error) => {
                *last = Some((self.clock.now(), error.clone()));
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Link for Single {
    async fn send(&self, command: &Cmd, _key: Option<&[u8]>) -> Result<Value, Failure> {
        match self.send_once(command).await {
            // The connection is not worth anything any more; a new one asks for the credentials.
            Err(failure) if failure.error.code() == Some("NOAUTH") && self.0.opener.has_provider() => {
                self.send_once(command).await
            }
            result => result,
        }
    }

    async fn listen(&self, pushes: Pushes) -> Result<MultiplexedConnection, Failure> {
        self.0.current()?;
        self.0.opener.listen(pushes).await.map_err(Failure::unsent)
    }

    fn close(&self) {
        *self.0.current.lock().unwrap_or_else(PoisonError::into_inner) = Current::Closed;
    }
}

impl Single {
    async fn send_once(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut live = self.live().await?;
        live.authentication.keep_up(&self.0.opener, &mut live.connection).await;
        let outstanding = live.condition.send();
        let result: RedisResult<Value> = command.query_async(&mut live.connection).await;
        match &result {
            Err(error) if error.is_unrecoverable_error() || error.code() == Some("NOAUTH") => {
                live.condition.end();
            }
            Err(error) if error.is_timeout() => {}
            _ => outstanding.answered(),
        }
        result.map_err(Failure::after_send)
    }
}

fn closed() -> RedisError {
    (ErrorKind::Client, crate::error::CLOSED).into()
}
