//! The store: the session of the moment, and what outlives it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use distlock_core::{Clock, Contended, Effect, Error, ErrorKind, Instant, Result};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use zookeeper_client::Client;

use crate::config::ZkConfig;
use crate::generation::{Bereft, Generation};
use crate::keeper;
use crate::names::Names;
use crate::session::{Failure, Opener};
use crate::silence::Silences;

/// The store: the session of the moment, and what outlives it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) names: Names,
    pub(crate) clock: Clock,
    pub(crate) bereft: Bereft,
    pub(crate) silences: Silences,
    pub(crate) contended: Contended,
    pub(crate) opener: Opener,
    current: Mutex<Current>,
    /// One opens for all. Holds the last failure, and when it came.
    opening: Arc<AsyncMutex<Option<(Instant, Error)>>>,
    sent: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Current {
    None,
    Live(Arc<Generation>),
    Closed,
}

impl Store {
    pub(crate) fn new(config: &ZkConfig, given: Option<Client>) -> Result<Arc<Self>> {
        let sent = Arc::new(AtomicU64::new(0));
        Ok(Arc::new(Self {
            names: Names::new(&config.path),
            clock: Clock::system(),
            bereft: Bereft::default(),
            silences: Silences::default(),
            contended: Contended::default(),
            opener: Opener::new(config, given, Arc::clone(&sent))?,
            current: Mutex::new(Current::None),
            opening: Arc::new(AsyncMutex::new(None)),
            sent,
        }))
    }

    /// The session of the moment, opened if need be.
    pub(crate) async fn generation(self: &Arc<Self>) -> Result<Arc<Generation>> {
        if let Some(generation) = self.live()? {
            return Ok(generation);
        }
        let asked = self.clock.now();
        let opening = Arc::clone(&self.opening).lock_owned().await;
        if let Some(generation) = self.live()? {
            return Ok(generation);
        }
        if let Some((failed, error)) = &*opening
            && *failed >= asked
        {
            return Err(error.clone());
        }
        let store = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "a caller in a hurry must not keep the next ones from a session; bounded by the time to connect"
        )]
        let opened = tokio::spawn(async move { store.open(opening).await }).await;
        opened.unwrap_or_else(|_| Err(closed()))
    }

    /// How many requests were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Opens no session any more. That of the moment goes on until no lock is held in it.
    pub(crate) fn close(&self) {
        if let Current::Live(generation) = std::mem::replace(&mut *self.current(), Current::Closed) {
            generation.stop();
        }
    }

    fn live(&self) -> Result<Option<Arc<Generation>>> {
        match &*self.current() {
            Current::Live(generation) if generation.ended().is_none() => Ok(Some(Arc::clone(generation))),
            Current::Closed => Err(closed()),
            _ => Ok(None),
        }
    }

    async fn open(&self, mut last: OwnedMutexGuard<Option<(Instant, Error)>>) -> Result<Arc<Generation>> {
        let opened = self.try_open().await;
        if let Err(error) = &opened {
            *last = Some((self.clock.now(), error.clone()));
        }
        opened
    }

    async fn try_open(&self) -> Result<Arc<Generation>> {
        let session = self.opener.open().await?;
        // Every grant reads the floor, and a node that is there costs the server less than none.
        let floor = self.names.token_floor();
        match session.read(&floor).await {
            Ok(_) => {}
            Err(Failure::NoNode) => session.create_folder(&floor).await?,
            Err(failure) => return Err(failure.into()),
        }
        self.opener.confirm(&*session, self.names.root()).await?;
        let generation = Generation::new(session, self.names.clone(), self.bereft.clone());
        let mut current = self.current();
        if matches!(*current, Current::Closed) {
            return Err(closed());
        }
        *current = Current::Live(Arc::clone(&generation));
        drop(current);
        #[expect(
            clippy::disallowed_methods,
            reason = "one task keeps the session alive and clears up; it ends with the session"
        )]
        tokio::spawn(keeper::keep(Arc::clone(&generation)));
        Ok(generation)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Shutdown, "the backend was closed; connect again").with_effect(Effect::None)
}
