//! What a case works with.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use distlock_core::{
    BackendInfo, Claim, Clock, ExpiryClock, LockBackend, LockClient, LockGuard, LockKey, LockOptions,
    LockRequest, Result, WaitPolicy,
};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::canary::Canary;
use crate::case::Profile;
use crate::decorators::{Interposed, Recorded, RecordedFaults, Script};
use crate::faults::Faults;
use crate::history::{self, Event, Promises, Recorder, Violation, What, nanos};
use crate::holder::Holder;
use crate::pace::Pace;
use crate::standstill::longest_call;
use crate::subject::Subject;
use crate::tracked::Tracked;

/// One case's access to the store: connections, keys that no other case has, ttls that fit the
/// store, and the history that is checked when the case is over.
pub(crate) struct Context {
    subject: Arc<dyn Subject>,
    profile: Profile,
    seed: u64,
    pace: Pace,
    prefix: String,
    log: Arc<Recorder>,
    faults: Option<RecordedFaults>,
    canary: Arc<Canary>,
    folder: TempDir,
    first: Arc<dyn LockBackend>,
    opened: Mutex<Vec<Arc<dyn LockBackend>>>,
    unchecked: Mutex<Vec<&'static str>>,
    /// Nanoseconds that were spent on a connection which the store did not take.
    in_vain: AtomicU64,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("prefix", &self.prefix)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Connects to the store. `seed` decides every random choice of the case, except owners.
    pub(crate) async fn new(
        subject: Arc<dyn Subject>,
        seed: u64,
        pace: Pace,
        canary: Arc<Canary>,
    ) -> Result<Self> {
        let first = subject.connect(&subject.url()).await?;
        let prefix = format!("suite/{:012x}/", fastrand::u64(..) >> 16);
        let log = Arc::new(Recorder::in_memory(first.clock()));
        Ok(Self {
            profile: Profile::of(&*subject),
            seed,
            pace,
            prefix,
            faults: RecordedFaults::of(&subject, &log),
            log,
            canary,
            folder: tempfile::tempdir().expect("the temporary folder is writable"),
            opened: Mutex::new(vec![Arc::clone(&first)]),
            first,
            subject,
            unchecked: Mutex::new(Vec::new()),
            in_vain: AtomicU64::new(0),
        })
    }

    pub(crate) const fn info(&self) -> &BackendInfo {
        &self.profile.info
    }

    pub(crate) fn faults(&self) -> &dyn Faults {
        self.faults.as_ref().expect("the case declared its need")
    }

    pub(crate) fn log(&self) -> &Arc<Recorder> {
        &self.log
    }

    pub(crate) fn clock(&self) -> Clock {
        self.first.clock()
    }

    /// An empty folder that is removed when the case is over.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A source of random choices that follows from the seed.
    pub(crate) fn rng(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// What all keys of this case begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key that no other case and no other run has.
    pub(crate) fn key(&self, name: impl AsRef<[u8]>) -> LockKey {
        let mut bytes = self.prefix.clone().into_bytes();
        bytes.extend_from_slice(name.as_ref());
        LockKey::new(bytes).expect("names in cases are short")
    }

    /// A fresh claim to a key of this case.
    pub(crate) fn claim(&self, name: impl AsRef<[u8]>) -> Claim {
        Claim::mint(self.key(name))
    }

    /// A plain try by a fresh claim, with a ttl that no case outlives.
    pub(crate) fn request(&self, name: impl AsRef<[u8]>) -> LockRequest {
        LockRequest::new(self.claim(name), self.long())
    }

    /// A plain try by a fresh claim, with a ttl that a case can wait for.
    pub(crate) fn brief_request(&self, name: impl AsRef<[u8]>) -> LockRequest {
        LockRequest::new(self.claim(name), self.brief())
    }

    /// A ttl that a case can wait for, as the store gives it.
    pub(crate) fn brief(&self) -> Duration {
        self.effective(self.pace.brief())
    }

    /// A ttl short enough to see several renewals, and long enough to survive a busy machine.
    pub(crate) fn renewable(&self) -> Duration {
        self.effective(self.paced(Duration::from_millis(1500)))
    }

    /// A ttl that no case outlives.
    pub(crate) fn long(&self) -> Duration {
        self.effective(Duration::from_secs(60))
    }

    fn effective(&self, wish: Duration) -> Duration {
        self.info().guarantees.effective_ttl(wish).expect("every store takes ttls of this size")
    }

    /// Whether a grant may state less than the announced ttl, because a session gives no more.
    pub(crate) fn may_cut_ttls(&self) -> bool {
        self.info().guarantees.expiry == ExpiryClock::Session
    }

    /// How much longer than its ttl a lease may be visible.
    pub(crate) fn lateness(&self) -> Duration {
        history::lateness(self.info()) + self.canary.worst()
    }

    /// For how long a dead process's place in a queue may stay, beyond its ttl.
    pub(crate) fn place(&self) -> Duration {
        Promises::of(self.info()).place
    }

    /// The longest scheduling delay that this machine showed so far.
    pub(crate) fn delay(&self) -> Duration {
        self.canary.worst()
    }

    /// Says that the machine stood still for so long that the case could not see what it wanted.
    pub(crate) fn note_stall(&self) {
        eprintln!("the machine stood still for {:?}; the case could not be decided further", self.delay());
    }

    /// One more independent connection to the store. What it does is recorded.
    pub(crate) async fn backend(&self) -> Arc<dyn LockBackend> {
        let began = Instant::now();
        self.connected(&self.subject.url()).await.unwrap_or_else(|error| {
            self.in_vain.fetch_max(nanos(began.elapsed()), Ordering::Relaxed);
            panic!("the store takes a connection: {error}")
        })
    }

    /// One more independent connection, to the address at which faults of the network strike. It has
    /// been used, so that there is something to strike although the backend connects when it must.
    pub(crate) async fn exposed(&self) -> Arc<dyn LockBackend> {
        let backend = self.connect_exposed().await.expect("the store takes a connection");
        let request = self.request(format!("first use {}", self.log.next_op()));
        backend.try_lock(&request).await.expect("the store works");
        backend.unlock(&request.claim).await.expect("the store works");
        backend
    }

    /// The same, when it may fail.
    pub(crate) async fn connect_exposed(&self) -> Result<Arc<dyn LockBackend>> {
        self.connected(&self.faults().exposed_url().unwrap_or_else(|| self.subject.url())).await
    }

    async fn connected(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        let backend = self.subject.connect(url).await?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&backend));
        Ok(Arc::new(Recorded::new(backend, Arc::clone(&self.log))))
    }

    /// One more connection, with a script of faults between it and the store.
    pub(crate) async fn interposed(&self) -> (Arc<dyn LockBackend>, Script) {
        let (backend, script) = Interposed::new(self.backend().await);
        (Arc::new(backend), script)
    }

    /// A client on a connection of its own.
    pub(crate) async fn client(&self) -> LockClient {
        LockClient::new(self.backend().await)
    }

    /// A client on a connection of its own that faults of the network strike.
    pub(crate) async fn exposed_client(&self) -> LockClient {
        LockClient::new(self.exposed().await)
    }

    /// A client with a script of faults between it and the store.
    pub(crate) async fn faulty_client(&self) -> (LockClient, Script) {
        let (backend, script) = self.interposed().await;
        (LockClient::new(backend), script)
    }

    /// A time that was chosen for the usual pace.
    pub(crate) fn paced(&self, time: Duration) -> Duration {
        time * self.pace.factor()
    }

    /// The longest time for which the store, which the case left alone, did not do what was asked of it.
    pub(crate) fn longest_silence(&self) -> Duration {
        Duration::from_nanos(self.in_vain.load(Ordering::Relaxed)).max(longest_call(&self.events()))
    }

    /// Records what the guard says from now on.
    pub(crate) fn track(&self, guard: LockGuard) -> Tracked {
        Tracked::new(guard, &self.log)
    }

    /// Takes a key of this case as a user would, and records how long that took.
    pub(crate) async fn wait_for(
        &self,
        client: &LockClient,
        name: &str,
        options: &LockOptions,
    ) -> Result<LockGuard> {
        let (op, key) = (self.log.next_op(), self.key(name));
        let patience = match options.wait {
            WaitPolicy::UpTo(patience) => Some(nanos(patience)),
            WaitPolicy::No => Some(0),
            _ => None,
        };
        self.log.record(&key, "", What::Wait { op, patience });
        let result = client.lock_with(&key, options).await;
        self.log.record(&key, "", What::Waited { op });
        result
    }

    /// A process of its own that takes orders.
    pub(crate) async fn holder(&self) -> Holder {
        Holder::start(self.subject.url(), self.folder()).await
    }

    /// The history so far, with those that holder processes have written.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = self.log.events();
        events.extend(history::read_folder(self.folder()).expect("holders' histories can be read"));
        events
    }

    /// Leaves a check out, because the case breaks its assumption on purpose. H7 rests on that of H1.
    pub(crate) fn without_check(&self, check: &'static str) {
        self.unchecked.lock().unwrap_or_else(PoisonError::into_inner).push(check);
    }

    /// Ends the faults that the case may have left behind.
    pub(crate) async fn heal(&self) {
        if let Some(faults) = &self.faults {
            faults.heal().await;
        }
    }

    /// Ends the recording, frees what the case left behind, and checks the history.
    pub(crate) async fn finish(&self) -> Vec<Violation> {
        self.log.record("", "", What::End { delay: nanos(self.canary.worst()) });
        let events = self.events();
        self.clean_up().await;
        let unchecked = self.unchecked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left_out = |check| unchecked.contains(&check) || (check == "H7" && unchecked.contains(&"H1"));
        history::check(&events, Promises::of(self.info()))
            .into_iter()
            .filter(|violation| !left_out(violation.check))
            .collect()
    }

    async fn clean_up(&self) {
        if let Some(admin) = self.first.admin()
            && let Ok(records) = admin.list(self.prefix.as_bytes(), None, 10_000).await
        {
            // Some at a time: one after the other they take too long on a busy machine.
            for some in records.chunks(32) {
                // What can't be freed runs out by itself.
                join_all(some.iter().map(|record| admin.force_unlock(&record.key))).await;
            }
        }
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        for backend in opened {
            let _ = backend.close().await;
        }
    }
}
