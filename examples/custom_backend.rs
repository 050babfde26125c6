//! A store of your own: implement `LockBackend`, and everything else comes from the client. Without
//! arguments the program uses it, through the client and by URL; `custom_backend suite [FILTER]` has
//! the conformance suite judge it.
//!
//! A real store would be a server or a file. This one is a map, so that only the rules remain to be
//! seen: compare owners inside the store, in the step that changes anything; answer a repeated
//! attempt as the first; let tokens rise for ever; end a lease late rather than early; let those who
//! wait go first.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::collections::HashMap;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use distlock::{
    BackendInfo, Busy, Claim, Driver, FencingToken, Guarantees, Health, Holder, Instant, Lease, LockBackend,
    LockKey, LockRequest, LostReason, Metadata, OwnerId, Release, Renewal, Result, Supports, TryLock,
};
use distlock_conformance::{RunOptions, Subject};
use distlock_examples::lock_url;
use tokio::sync::Notify;

/// Locks on a shelf of this process.
#[derive(Debug)]
struct Shelf {
    info: BackendInfo,
    records: Mutex<HashMap<LockKey, Record>>,
    /// Tells waiters to look again.
    changed: Notify,
}

/// One lock. It stays for ever, so that its tokens go on rising; a real store must find a way to
/// forget it all the same.
#[derive(Debug)]
struct Record {
    token: FencingToken,
    hold: Option<Hold>,
    /// Who waits, first come first served, and until when without asking again.
    queue: Vec<(OwnerId, Instant)>,
}

#[derive(Debug)]
struct Hold {
    owner: OwnerId,
    deadline: Instant,
    metadata: Metadata,
}

impl Shelf {
    fn new() -> Self {
        // What is declared here is what the suite will check.
        let info = BackendInfo::new("shelf", Guarantees::single_process(), Supports::NONE.queue().push());
        Self { info, records: Mutex::default(), changed: Notify::new() }
    }

    /// What makes `shelf:` a URL.
    fn driver() -> Driver {
        let shelf = Arc::new(Self::new());
        Driver::new(&["shelf"], &[], move |_url| {
            let shelf: Arc<dyn LockBackend> = Arc::<Self>::clone(&shelf);
            async move { Ok(shelf) }
        })
    }

    /// Whether an attempt of this claim would succeed now.
    fn is_next(&self, claim: &Claim) -> bool {
        let now = self.clock().now();
        self.records().get_mut(&claim.key).is_none_or(|record| {
            record.expire(now);
            record.hold.is_none() && record.queue.first().is_none_or(|(first, _)| *first == claim.owner)
        })
    }

    fn records(&self) -> MutexGuard<'_, HashMap<LockKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    const FIRST: Self = Self { token: FencingToken::MIN, hold: None, queue: Vec::new() };

    /// Forgets what is over.
    fn expire(&mut self, now: Instant) {
        self.queue.retain(|(_, until)| now < *until);
        if self.hold.as_ref().is_some_and(|hold| now >= hold.deadline) {
            self.hold = None;
        }
    }

    fn leave_queue(&mut self, owner: OwnerId) {
        self.queue.retain(|(waiter, _)| *waiter != owner);
    }

    /// Keeps the owner's place in the queue, or gives it the last one.
    fn queue(&mut self, owner: OwnerId, until: Instant) {
        match self.queue.iter_mut().find(|(waiter, _)| *waiter == owner) {
            Some((_, place)) => *place = until.max(*place),
            None => self.queue.push((owner, until)),
        }
    }

    fn busy(&self, now: Instant) -> Busy {
        let Some(hold) = &self.hold else { return Busy::unknown() };
        let left = hold.deadline.since(now);
        let holder = Holder::new(hold.owner, self.token).expires_in(left).metadata(hold.metadata.clone());
        Busy::by(holder, left)
    }
}

#[async_trait]
impl LockBackend for Shelf {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let ttl = self.info.guarantees.effective_ttl(request.ttl)?;
        let owner = request.claim.owner;
        // Before anything is sent: what the journey takes must come off the lease, not on top of it.
        let now = self.clock().now();
        let mut records = self.records();
        let record = records.entry(request.claim.key.clone()).or_insert(Record::FIRST);
        record.expire(now);
        match &mut record.hold {
            Some(hold) if hold.owner == owner => hold.deadline = hold.deadline.max(now.plus(ttl)),
            None if record.queue.first().is_none_or(|(first, _)| *first == owner) => {
                record.leave_queue(owner);
                record.token = FencingToken::new(record.token.get() + 1).unwrap_or(FencingToken::MAX);
                let metadata = request.metadata.clone();
                record.hold = Some(Hold { owner, deadline: now.plus(ttl), metadata });
            }
            _ => {
                if request.queue {
                    record.queue(owner, now.plus(ttl));
                }
                return Ok(TryLock::Busy(record.busy(now)));
            }
        }
        Ok(TryLock::Acquired(Lease::granted(request, record.token, ttl, now)))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let now = self.clock().now();
        let mut records = self.records();
        let Some(record) = records.get_mut(&lease.claim.key) else {
            return Ok(Renewal::Lost(LostReason::Expired));
        };
        record.expire(now);
        Ok(match &mut record.hold {
            Some(hold) if hold.owner == lease.claim.owner => {
                hold.deadline = hold.deadline.max(now.plus(ttl));
                lease.renewed(ttl, now)
            }
            Some(_) => Renewal::Lost(LostReason::Stolen),
            None => Renewal::Lost(LostReason::Expired),
        })
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let now = self.clock().now();
        let mut records = self.records();
        let Some(record) = records.get_mut(&claim.key) else {
            return Ok(Release::NotHeld(LostReason::Expired));
        };
        record.expire(now);
        record.leave_queue(claim.owner);
        // Even if it did not hold the lock, it may have been the first in the queue.
        self.changed.notify_waiters();
        match record.hold.take_if(|hold| hold.owner == claim.owner) {
            Some(_) => Ok(Release::Released),
            None if record.hold.is_some() => Ok(Release::NotHeld(LostReason::Stolen)),
            None => Ok(Release::NotHeld(LostReason::Expired)),
        }
    }

    // Only a hint: without it waiters would try again by time alone, and all would still be right.
    async fn watch_release(&self, claim: &Claim, _busy: &Busy) -> Result<()> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            // Looked at while listening, so that no change falls between the two.
            if self.is_next(claim) {
                return Ok(());
            }
            changed.await;
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
    // Your scheme beside those that are there; DISTLOCK_URL may still name another store.
    let registry = distlock::registry().with(Shelf::driver());
    let url = std::env::var_os("DISTLOCK_URL").map_or_else(|| "shelf:".to_owned(), |_| lock_url());
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
