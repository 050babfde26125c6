//! A store of your own: implement `LockBackend`, and everything else comes from the client. Without
//! arguments the program uses it, through the client and by URL; `custom_backend suite [FILTER]` has
//! the conformance suite judge it.
//!
//! A real store would be a server or a file. This one is a map, so that only the rules remain to be
//! seen: compare owners inside the store, in the step that changes anything; answer a repeated
//! attempt as the first; let tokens rise for ever; end a lease late rather than early.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use distlock::{
    BackendInfo, Busy, Claim, Driver, Fairness, FencingToken, Guarantees, Health, Holder, Instant, Lease,
    LockBackend, LockKey, LockRequest, LostReason, Metadata, OwnerId, Release, Renewal, Result, Supports,
    TryLock,
};
use distlock_conformance::{RunOptions, Subject};
use distlock_examples::lock_url;

/// Locks on a shelf of this process.
#[derive(Debug)]
struct Shelf {
    info: BackendInfo,
    records: Mutex<HashMap<LockKey, Record>>,
}

/// One lock. It stays for ever, so that its tokens go on rising; a real store must find a way to
/// forget it all the same.
#[derive(Debug)]
struct Record {
    token: FencingToken,
    hold: Option<Hold>,
}

#[derive(Debug)]
struct Hold {
    owner: OwnerId,
    deadline: Instant,
    metadata: Metadata,
}

impl Shelf {
    fn new() -> Self {
        let mut guarantees = Guarantees::single_process();
        guarantees.fairness = Fairness::None;
        Self { info: BackendInfo::new("shelf", guarantees, Supports::NONE), records: Mutex::default() }
    }

    /// What makes `shelf:` a URL.
    fn driver() -> Driver {
        let shelf = Arc::new(Self::new());
        Driver::new(&["shelf"], &[], move |_url| {
            let shelf: Arc<dyn LockBackend> = Arc::<Self>::clone(&shelf);
            async move { Ok(shelf) }
        })
    }

    fn records(&self) -> MutexGuard<'_, HashMap<LockKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// The present hold, unless its time is over.
    fn hold(&mut self, now: Instant) -> Option<&mut Hold> {
        if self.hold.as_ref().is_some_and(|hold| now >= hold.deadline) {
            self.hold = None;
        }
        self.hold.as_mut()
    }
}

#[async_trait]
impl LockBackend for Shelf {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let ttl = self.info.guarantees.effective_ttl(request.ttl)?;
        let Claim { key, owner, .. } = &request.claim;
        // Before anything is sent: what the journey takes must come off the lease, not on top of it.
        let now = self.clock().now();
        let mut records = self.records();
        let record = records.entry(key.clone()).or_insert(Record { token: FencingToken::MIN, hold: None });
        let token = record.token;
        match record.hold(now) {
            Some(hold) if hold.owner == *owner => hold.deadline = hold.deadline.max(now.plus(ttl)),
            Some(hold) => {
                let left = hold.deadline.since(now);
                let holder = Holder::new(hold.owner, token).expires_in(left).metadata(hold.metadata.clone());
                return Ok(TryLock::Busy(Busy::by(holder, left)));
            }
            None => {
                record.token = FencingToken::new(token.get() + 1).unwrap_or(FencingToken::MAX);
                let metadata = request.metadata.clone();
                record.hold = Some(Hold { owner: *owner, deadline: now.plus(ttl), metadata });
            }
        }
        Ok(TryLock::Acquired(Lease::granted(request, record.token, ttl, now)))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let now = self.clock().now();
        match self.records().get_mut(&lease.claim.key).and_then(|record| record.hold(now)) {
            Some(hold) if hold.owner == lease.claim.owner => {
                hold.deadline = hold.deadline.max(now.plus(ttl));
                Ok(lease.renewed(ttl, now))
            }
            Some(_) => Ok(Renewal::Lost(LostReason::Stolen)),
            None => Ok(Renewal::Lost(LostReason::Expired)),
        }
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let now = self.clock().now();
        let mut records = self.records();
        let Some(record) = records.get_mut(&claim.key) else {
            return Ok(Release::NotHeld(LostReason::Expired));
        };
        match record.hold(now).map(|hold| hold.owner == claim.owner) {
            Some(true) => {
                record.hold = None;
                Ok(Release::Released)
            }
            Some(false) => Ok(Release::NotHeld(LostReason::Stolen)),
            None => Ok(Release::NotHeld(LostReason::Expired)),
        }
    }

    async fn probe(&self) -> Result<Health> {
        Ok(Health::new(None, Duration::ZERO))
    }
}

// All that the suite needs to know.
struct OnTheShelf(Arc<Shelf>);

#[async_trait]
impl Subject for OnTheShelf {
    fn info(&self) -> BackendInfo {
        self.0.info.clone()
    }

    async fn connect(&self, _url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::<Shelf>::clone(&self.0))
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("suite") => judge(arguments.next().unwrap_or_default()),
        _ => match tokio::runtime::Runtime::new().map(|runtime| runtime.block_on(use_it())) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error)) => fail(&error),
            Err(error) => fail(&error),
        },
    }
}

async fn use_it() -> Result<()> {
    // Your scheme beside those that are there; LOCK_URL may still name another store.
    let registry = distlock::registry().with(Shelf::driver());
    let url = std::env::var_os("LOCK_URL").map_or_else(|| "shelf:".to_owned(), |_| lock_url());
    let client = registry.connect(&url).await?;
    println!("Connected to the store `{}`.", client.info().name);

    // Renewal, waiting, validity and clean-up are the client's: the store knows nothing of them.
    let first = client.lock("invoice/42").await?;
    println!("Holding {} with token {}.", first.key(), first.token());
    assert!(client.try_lock("invoice/42").await?.is_none());
    println!("Nobody else gets it meanwhile.");
    first.unlock().await?;
    let second = client.lock("invoice/42").await?;
    println!("The next holder has token {}.", second.token());
    second.unlock().await?;
    Ok(())
}

fn judge(filter: String) -> ExitCode {
    let options = RunOptions::default().filter(filter);
    let report = distlock_conformance::run(OnTheShelf(Arc::new(Shelf::new())), &options, |_| ());
    println!("{}", report.render(distlock_conformance::Format::Text));
    if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
