//! A member that is cut off with a client at its side.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_core::{ErrorKind, LockBackend, LockClient, LockGuard, LockOptions, LostReason};
use distlock_testbed::{Partition, ServiceSet};

use crate::load::{AGAIN, Load, TTL, connect};
use crate::polling::eventually;
use crate::tests;

tests! { true:
    a_client_of_the_minority_is_told_and_the_majority_goes_on,
    a_lock_of_the_minority_goes_to_the_majority_with_a_higher_token,
}

const PLACES: [&str; 4] = ["e0", "e1", "e2", "client"];
const AMPLE: Duration = Duration::from_secs(60);

async fn client(url: String) -> LockClient {
    LockClient::new(Arc::new(connect(&url).await) as Arc<dyn LockBackend>)
}

/// Takes a lock. Where a store that holds an election on a busy machine takes longer than a ttl to answer, the
/// call errs, and is repeated.
async fn locked(client: LockClient, name: &str, ttl: Duration) -> LockGuard {
    let (options, began) = (LockOptions::default().ttl(ttl), Instant::now());
    loop {
        match client.lock_with(name, &options).await {
            Ok(guard) => return guard,
            Err(error) => assert!(error.is_retryable() && began.elapsed() < AMPLE, "{error}"),
        }
    }
}

async fn a_client_of_the_minority_is_told_and_the_majority_goes_on() {
    let partition = Partition::new(&PLACES).unwrap();
    let set = ServiceSet::up_at(&partition, &["etcd3"]).await.unwrap();
    let url = set.url("etcd3").to_owned();
    let (inside, outside) = (partition.place("e0"), partition.place("client"));
    let load = outside.run({
        let url = url.clone();
        async move { Load::start(&url).await }
    });
    let load = load.await;
    let holder = inside.run(client(url)).await;
    let options = LockOptions::default().ttl(TTL);
    let guard = inside.run(locked(holder.clone(), "of the minority", TTL)).await;
    let cut = Instant::now();
    partition.cut("e0");
    let view = guard.view();
    let (reason, late) = inside
        .run(async move {
            let reason = view.lost().await;
            (reason, view.remaining())
        })
        .await;
    assert_eq!(reason, LostReason::Unreachable);
    eprintln!("lost {:?} after the cut, with {late:?} left", cut.elapsed());
    assert!(cut.elapsed() < TTL + Duration::from_secs(10), "told after {:?}", cut.elapsed());
    let (error, took) = inside
        .run({
            let (holder, options) = (holder.clone(), options.clone());
            async move {
                let called = Instant::now();
                (holder.try_lock_with("another", &options).await.map(drop), called.elapsed())
            }
        })
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    eprintln!("a try failed after {took:?}; its limit is {:?}", TTL / 6);
    assert!(took < TTL / 6 + Duration::from_secs(10));
    load.all_work_within("the majority", cut, AGAIN).await;
    let gap = load.longest_gap(cut);
    eprintln!("minority cut off: the longest time without a success was {gap:?}");
    assert!(gap < Duration::from_secs(10), "{gap:?} without a success");

    partition.heal("e0");
    let healed = Instant::now();
    drop(guard);
    eventually("the client works again", async || {
        let (holder, options) = (holder.clone(), options.clone());
        let tried = async move { holder.try_lock_with("another", &options).await };
        matches!(inside.run(tried).await, Ok(Some(_)))
    })
    .await;
    eprintln!("the minority's client works again {:?} after the healing", healed.elapsed());
    load.all_work_within("all of them", healed, AGAIN).await;
    inside.run(async move { holder.shutdown(Duration::from_secs(10)).await }).await;
    outside.run(async move { load.end().await }).await;
}

async fn a_lock_of_the_minority_goes_to_the_majority_with_a_higher_token() {
    let partition = Partition::new(&PLACES).unwrap();
    let set = ServiceSet::up_at(&partition, &["etcd3"]).await.unwrap();
    let url = set.url("etcd3").to_owned();
    let (inside, outside) = (partition.place("e0"), partition.place("client"));
    let (holder, other) = (inside.run(client(url.clone())).await, outside.run(client(url)).await);
    let first = inside.run(locked(holder.clone(), "key", TTL)).await;
    partition.cut("e0");
    let view = first.view();
    let (second, was_valid) = outside
        .run(async move {
            // For long: on a busy machine the election after the cut is healed may take more than a short ttl.
            let second = locked(other, "key", AMPLE).await;
            let was_valid = view.is_valid();
            (second, was_valid)
        })
        .await;
    assert!(!was_valid, "two holders at once");
    assert!(second.token() > first.token());
    partition.heal("e0");
    // What the first does now leaves the second alone.
    inside
        .run(async move {
            drop(first);
            holder.shutdown(Duration::from_secs(20)).await;
        })
        .await;
    let renewed = eventually("a renewal", async move || match second.renew().await {
        Ok(_) => true,
        Err(error) => {
            eprintln!("{error}");
            false
        }
    });
    outside.run(renewed).await;
}
