//! Connections, each for one lock at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Clock, Deadline, Result};
use tokio::sync::Semaphore;

use super::dialect::{SessionDialect, SessionStatements};
use super::link::{Link, pooled};
use crate::server::connections::{Line, within};
use crate::server::error::{Doing, Trouble, classify, closed, exhausted, late};
use crate::server::{Opener, ServerConfig};

/// A connection that nobody has used for so long is closed.
const IDLE_MOST: Duration = Duration::from_secs(30);

/// Connections, each for one lock at a time.
pub(crate) struct Links<D: SessionDialect> {
    pub(crate) statements: SessionStatements,
    pub(crate) clock: Clock,
    config: ServerConfig,
    opener: Opener<D>,
    idle: Mutex<Vec<Link<D>>>,
    /// One permit for each connection.
    all: Arc<Semaphore>,
    sent: AtomicU64,
}

impl<D: SessionDialect> Links<D> {
    pub(super) fn new(config: &ServerConfig, tokens: &str, most: u32) -> Result<Self> {
        Ok(Self {
            statements: D::session_statements(tokens, &config.table),
            clock: Clock::system(),
            config: config.clone(),
            opener: Opener::new(config)?,
            idle: Mutex::default(),
            all: Arc::new(Semaphore::new(most as usize)),
            sent: AtomicU64::new(0),
        })
    }

    pub(crate) const fn response_timeout(&self) -> Duration {
        self.config.response_timeout
    }

    pub(crate) fn count(&self, statements: u64) {
        self.sent.fetch_add(statements, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// A connection that nobody uses, and whether it was opened before.
    pub(super) async fn check_out(&self) -> Result<(Link<D>, bool), Trouble> {
        if let Some(link) = self.take_idle() {
            return Ok((link, true));
        }
        Ok((self.open().await?, false))
    }

    /// A connection beside those for locks, with an idle limit of its own.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "MySQL needs it"))]
    pub(crate) async fn open_beside(&self, idle_limit: Duration) -> Result<D::Line, Trouble> {
        if self.all.is_closed() {
            return Err(closed());
        }
        let deadline = Deadline::after(&self.clock, self.response_timeout());
        let mut line: D::Line = self.opener.open(&self.clock, deadline).await?;
        if let Some(statement) = &self.statements.limit {
            self.count(1);
            let statement = statement.with([D::idle_limit(idle_limit)]);
            let set = async { D::run(line.connection().await?, &statement).await };
            let set = within(self.response_timeout(), set).await;
            set.ok_or_else(|| late(Doing::Opening))?.map_err(|error| classify::<D>(error, Doing::Opening))?;
        }
        Ok(line)
    }

    /// A connection that is ready for another lock.
    pub(super) fn check_in(&self, mut link: Link<D>) {
        if !self.all.is_closed() {
            link.used = self.clock.now();
            self.idle().push(link);
        }
    }

    /// Those that lie idle, which are probably closed by the server if one of them is.
    pub(super) fn forget_idle(&self) {
        self.idle().clear();
    }

    /// Refuses what lies between if it hands sessions around: two connections have sessions of their own.
    pub(super) async fn refuse_poolers(&self) -> Result<(), Trouble> {
        let (mut one, mut other) = (self.open_bare().await?, self.open_bare().await?);
        for _ in 0..2 {
            let first = self.ask_id(&mut one.line).await?;
            let second = self.ask_id(&mut other.line).await?;
            if first == second || one.check(first).is_err() || other.check(second).is_err() {
                return Err(pooled());
            }
        }
        for mut link in [one, other] {
            self.set_up(&mut link).await?;
            self.check_in(link);
        }
        Ok(())
    }

    pub(super) async fn create(&self) -> Result<(), Trouble> {
        let (mut link, _) = self.check_out().await?;
        let create = async { D::run_script(link.line.connection().await?, &self.statements.create).await };
        match within(self.response_timeout(), create).await {
            Some(Ok(())) => self.check_in(link),
            Some(Err(error)) => return Err(classify::<D>(error, Doing::Running)),
            None => return Err(late(Doing::Running)),
        }
        Ok(())
    }

    /// Closes those that lie idle; later calls fail with `Shutdown`.
    pub(super) async fn close(&self) {
        self.all.close();
        let idle = std::mem::take(&mut *self.idle());
        let closing = idle.into_iter().map(|link| link.line.close());
        let _ = within(self.response_timeout(), futures_util::future::join_all(closing)).await;
    }

    fn take_idle(&self) -> Option<Link<D>> {
        let now = self.clock.now();
        let mut idle = self.idle();
        // Half of the limit, so that none is used that the server is about to close.
        idle.retain(|link| {
            now.since(link.used) < link.limit.map_or(IDLE_MOST, |limit| IDLE_MOST.min(limit / 2))
        });
        idle.pop()
    }

    async fn open(&self) -> Result<Link<D>, Trouble> {
        let mut link = self.open_bare().await?;
        self.set_up(&mut link).await?;
        Ok(link)
    }

    async fn set_up(&self, link: &mut Link<D>) -> Result<(), Trouble> {
        self.count(1);
        let set_up = async { D::set_up_session(link.line.connection().await?, &self.config).await };
        match within(self.response_timeout(), set_up).await {
            Some(done) => done.map_err(|error| classify::<D>(error, Doing::Opening)),
            None => Err(late(Doing::Opening)),
        }
    }

    /// Without any settings, which behind a pooler others would get.
    async fn open_bare(&self) -> Result<Link<D>, Trouble> {
        let deadline = Deadline::after(&self.clock, self.response_timeout());
        let permit = within(self.response_timeout(), Arc::clone(&self.all).acquire_owned()).await;
        let permit = permit.ok_or_else(exhausted)?.map_err(|_| closed())?;
        let mut line = self.opener.open(&self.clock, deadline).await?;
        let id = self.ask_id(&mut line).await?;
        Ok(Link { line, id, limit: None, used: self.clock.now(), _permit: permit })
    }

    async fn ask_id(&self, line: &mut D::Line) -> Result<i64, Trouble> {
        self.count(1);
        let id = self.statements.id.with([]);
        let asking = async { D::run(line.connection().await?, &id).await };
        let asked = within(self.response_timeout(), asking).await;
        let given = asked.ok_or_else(|| late(Doing::Opening))?;
        let given = given.map_err(|error| classify::<D>(error, Doing::Opening))?;
        let id = given.rows.first().map_or(Ok(0), |row| row.int(0));
        id.map_err(|error| Trouble { error, then: crate::server::Then::Fail })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link<D>>> {
        // Every change is complete before anything can panic.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
