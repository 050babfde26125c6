//! How often the core may allocate for a lock that nobody contends for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use allocation_counter::measure;
use distlock_core::{LockClient, MemoryBackend};

const TIMES: u64 = 200;
/// For a lock and its unlock together, with what the memory store itself takes.
const MOST: u64 = 8 + TRACED + MEASURED;
/// A layer boxes each of the two calls.
const TRACED: u64 = if cfg!(feature = "tracing") { 2 } else { 0 };
/// It boxes them too, and labels what it counts; so do call and hold.
const MEASURED: u64 = if cfg!(feature = "metrics") { 14 } else { 0 };

#[test]
fn a_pair_allocates_little() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let pairs = |times: u64| {
        runtime.block_on(async {
            for _ in 0..times {
                client.lock("invoice/42").await.unwrap().unlock().await.unwrap();
            }
        });
    };
    // Buffers that grow once and stay.
    pairs(50);
    let counted = measure(|| pairs(TIMES)).count_total;
    assert!(counted <= MOST * TIMES, "{counted} allocations for {TIMES} pairs; at most {MOST} each");
}

/// Spans that nobody wants cost a batch of renewals a box, however many leases it has.
#[cfg(feature = "tracing")]
#[test]
fn unwatched_batches_allocate_nothing_for_each_lease() {
    use std::time::Duration;

    use distlock_core::layers::Traced;
    use distlock_core::{Claim, Lease, LockBackend, LockKey, LockRequest, TryLock};

    const TTL: Duration = Duration::from_secs(3600);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Arc::new(MemoryBackend::new());
    let leases: Vec<Lease> = (0..200)
        .map(|number| {
            let claim = Claim::mint(LockKey::new(format!("invoice/{number}")).unwrap());
            match runtime.block_on(store.try_lock(&LockRequest::new(claim, TTL))).unwrap() {
                TryLock::Acquired(lease) => lease,
                TryLock::Busy(busy) => panic!("{busy:?}"),
            }
        })
        .collect();
    let batch = |backend: &dyn LockBackend, leases: &[Lease]| {
        let renew = || runtime.block_on(backend.renew_many(leases, TTL));
        assert!(renew().iter().all(Result::is_ok));
        measure(|| drop(renew())).count_total
    };
    let traced = Traced::new(Arc::clone(&store));
    for leases in [&leases[..1], &leases] {
        assert_eq!(batch(&traced, leases), batch(&*store, leases) + 1, "{} leases", leases.len());
    }
}
