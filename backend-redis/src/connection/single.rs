//! One connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use distlock_core::{Clock, Instant, Timers};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::authentication::Authentication;
use super::open::timed_out;
use super::outstanding::{Condition, Outstanding};
use super::retry::is_of_a_replica;
use super::{Failure, Opener, Pushes, closed};

/// One connection to one server, which all callers share, and which is replaced when it breaks.
///
/// The client crate's own manager is not enough: it answers the first call after a break with an
/// error, never leaves a server that is silent, and lets callers wait for several attempts in a row.
#[derive(Clone, Debug)]
pub(super) struct Single(Arc<State>);

#[derive(Debug)]
struct State {
    opener: Opener,
    clock: Clock,
    timers: Arc<Timers>,
    current: Mutex<Current>,
    /// One opens for all. Holds the last failure, and when it came.
    opening: Arc<AsyncMutex<Option<(Instant, RedisError)>>>,
}

#[derive(Debug)]
enum Current {
    None,
    Open(Arc<Live>),
    Closed,
}

/// A connection that is open, as far as is known.
#[derive(Debug)]
pub(super) struct Live {
    connection: MultiplexedConnection,
    condition: Arc<Condition>,
    authentication: Arc<Authentication>,
    timers: Arc<Timers>,
    response_timeout: Duration,
}

impl Single {
    pub(super) fn new(opener: Opener) -> Self {
        Self(Arc::new(State {
            opener,
            clock: Clock::system(),
            timers: Arc::default(),
            current: Mutex::new(Current::None),
            opening: Arc::new(AsyncMutex::new(None)),
        }))
    }

    /// The connection, opened if need be, with the credentials of the moment.
    pub(super) async fn ready(&self) -> Result<Arc<Live>, Failure> {
        let live = self.opened().await?;
        live.authentication.keep_up(&self.0.opener, &live.connection).await;
        Ok(live)
    }

    async fn opened(&self) -> Result<Arc<Live>, Failure> {
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

    /// Fails if the connection was closed for good.
    pub(super) fn check_open(&self) -> Result<(), Failure> {
        self.0.current().map(drop)
    }

    /// Closes it for good.
    pub(super) fn close(&self) {
        *self.0.current.lock().unwrap_or_else(PoisonError::into_inner) = Current::Closed;
    }
}

impl State {
    fn current(&self) -> Result<Option<Arc<Live>>, Failure> {
        match &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            Current::Open(live) if !live.condition.is_over() => Ok(Some(Arc::clone(live))),
            Current::Closed => Err(Failure::closed()),
            _ => Ok(None),
        }
    }

    async fn open(&self, mut last: OwnedMutexGuard<Option<(Instant, RedisError)>>) -> RedisResult<Arc<Live>> {
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
                let (timers, response_timeout) = (Arc::clone(&self.timers), self.opener.response_timeout());
                let live = Arc::new(Live { connection, condition, authentication, timers, response_timeout });
                let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                if matches!(*current, Current::Closed) {
                    return Err(closed());
                }
                *current = Current::Open(Arc::clone(&live));
                Ok(live)
            }
            Err(error) => {
                *last = Some((self.clock.now(), error.clone()));
                Err(error)
            }
        }
    }
}

impl Live {
    /// Sends one command and waits for its reply.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut connection = self.connection.clone();
        let outstanding = self.condition.send();
        let answer = command.query_async(&mut connection);
        let result =
            self.timers.limit(self.response_timeout, answer).await.unwrap_or_else(|| Err(timed_out()));
        self.judge(outstanding, &result);
        result.map_err(Failure::after_send)
    }

    /// Sends commands in a row and waits for their replies; an error of one is a value.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let mut connection = self.connection.clone();
        let outstanding = self.condition.send();
        let answers = connection.send_packed_commands(commands, 0, commands.len());
        let result =
            self.timers.limit(self.response_timeout, answers).await.unwrap_or_else(|| Err(timed_out()));
        self.judge(outstanding, &result);
        if let Ok(answers) = &result {
            self.judge_answers(answers);
        }
        result.map_err(Failure::after_send)
    }

    fn judge_answers(&self, answers: &[Value]) {
        let errors = answers.iter().filter(|answer| matches!(answer, Value::ServerError(_)));
        for error in errors.filter_map(|answer| answer.clone().extract_error().err()) {
            if is_of_a_replica(&error) {
                self.condition.end_unless_young();
            }
        }
    }

    fn judge<T>(&self, outstanding: Outstanding<'_>, result: &RedisResult<T>) {
        match result {
            // Behind the same address another server may stand by now.
            Err(error) if is_of_a_replica(error) => {
                outstanding.answered();
                self.condition.end_unless_young();
            }
            // The next one authenticates itself.
            Err(error) if error.is_unrecoverable_error() || error.code() == Some("NOAUTH") => {
                self.condition.end();
            }
            Err(error) if error.is_timeout() => {}
            _ => outstanding.answered(),
        }
    }
}
