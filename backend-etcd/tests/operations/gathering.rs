//! Many callers at once, whose small transactions go to the server together.

use std::collections::HashMap;
use std::time::Duration;

use distlock_conformance::{Proxy, Way};
use distlock_core::{Error, LockBackend, LockRequest, Release, TryLock};
use distlock_etcd::{EtcdBackend, EtcdConfig};
use futures_util::future::{Either, join_all, select};

use crate::support::{Server, eventually, queued, records, request, take, tests};

tests! {
    callers_at_once_get_what_they_would_get_one_by_one,
    and_with_a_shared_lease_too,
    different_locks_share_requests,
    a_lease_that_is_gone_costs_no_lock_and_fails_no_other,
    a_server_that_takes_few_operations_at_once_is_asked_one_by_one,
    who_gives_up_leaves_room_for_others,
}

const TTL: Duration = Duration::from_secs(60);
/// A client keeps the leases of more claims than these.
const LOCKS: usize = 24;
/// How many requests are under way before others gather, and how many go into one.
const ABREAST: usize = 4;
const MOST: usize = 32;

async fn attempt_all(backend: &EtcdBackend, requests: &[LockRequest]) -> Vec<Result<TryLock, Error>> {
    join_all(requests.iter().map(|request| backend.try_lock(request))).await
}

async fn callers_at_once_get_what_they_would_get_one_by_one() {
    callers_at_once(|config| config).await;
}

async fn and_with_a_shared_lease_too() {
    callers_at_once(|config| config.shared_lease(TTL)).await;
}

/// Two claims ask for each lock, half of them with a place in the queue; one lock is held, and one record was there before.
async fn callers_at_once(set_up: fn(EtcdConfig) -> EtcdConfig) {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let backend = EtcdBackend::connect(set_up(server.config())).await.unwrap();
    let mut tokens = HashMap::new();
    for _ in 0..4 {
        let held = take(&backend, &request("held", TTL)).await;
        let mut requests = vec![request("held", TTL)];
        for number in 0..2 * LOCKS {
            let name = format!("{}", number / 2);
            requests.push(if number / 2 % 2 == 0 { request(&name, TTL) } else { queued(&name, TTL) });
        }
        let outcomes = attempt_all(&backend, &requests).await;
        assert!(matches!(&outcomes[0], Ok(TryLock::Busy(_))), "{:?}", outcomes[0]);
        for (requests, outcomes) in requests[1..].chunks(2).zip(outcomes[1..].chunks(2)) {
            let key = requests[0].claim.key.clone();
            let granted: Vec<_> = outcomes
                .iter()
                .filter_map(|outcome| match outcome.as_ref().unwrap() {
                    TryLock::Acquired(lease) => Some(lease),
                    TryLock::Busy(_) => None,
                })
                .collect();
            assert_eq!(granted.len(), 1, "of {key}: {outcomes:?}");
            let places = records(&mut raw, &key.to_string()).await.len();
            assert_eq!(places, if requests[0].queue { 2 } else { 1 }, "of {key}");
            let last = tokens.insert(key.clone(), granted[0].token);
            assert!(last.is_none_or(|last| last < granted[0].token), "of {key}");
        }
        let releases = join_all(requests.iter().map(|request| backend.unlock(&request.claim))).await;
        for (outcome, release) in outcomes.iter().zip(releases) {
            // One that waited had the lock if the holder's release came first.
            let (release, was_granted) = (release.unwrap(), matches!(outcome, Ok(TryLock::Acquired(_))));
            assert!(release == Release::Released || !was_granted, "{release:?}");
        }
        assert_eq!(backend.unlock(&held.claim).await.unwrap(), Release::Released);
        for number in 0..LOCKS {
            assert!(records(&mut raw, &number.to_string()).await.is_empty(), "something is left of {number}");
        }
    }
}

async fn different_locks_share_requests() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    for round in 0..3 {
        let requests: Vec<_> = (0..LOCKS).map(|number| queued(&number.to_string(), TTL)).collect();
        let before = backend.commands_sent().unwrap();
        for outcome in attempt_all(&backend, &requests).await {
            assert!(matches!(outcome.unwrap(), TryLock::Acquired(_)));
        }
        let taken = backend.commands_sent().unwrap();
        for release in join_all(requests.iter().map(|request| backend.unlock(&request.claim))).await {
            assert_eq!(release.unwrap(), Release::Released);
        }
        let (taking, giving) = (taken - before, backend.commands_sent().unwrap() - taken);
        // At first each claim needs a lease as well.
        assert!(round == 0 || taking <= LOCKS as u64 / 2, "{taking} requests for {LOCKS} locks");
        assert!(giving <= LOCKS as u64 / 2, "{giving} requests for {LOCKS} releases");
    }
}

async fn a_lease_that_is_gone_costs_no_lock_and_fails_no_other() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let requests = || (0..LOCKS).map(|number| queued(&number.to_string(), TTL)).collect::<Vec<_>>();
    let first = requests();
    for outcome in attempt_all(&backend, &first).await {
        assert!(matches!(outcome.unwrap(), TryLock::Acquired(_)));
    }
    join_all(first.iter().map(|request| backend.unlock(&request.claim))).await;
    let mut raw = server.raw().await;
    let leases = raw.leases().await.unwrap();
    assert!(leases.leases().len() > LOCKS / 2, "they are kept for the next locks");
    for lease in leases.leases().iter().step_by(3) {
        raw.lease_revoke(lease.id()).await.unwrap();
    }
    let second = requests();
    for outcome in attempt_all(&backend, &second).await {
        assert!(matches!(outcome.unwrap(), TryLock::Acquired(_)));
    }
    let count = raw.leases().await.unwrap().leases().len();
    assert!(count <= leases.leases().len(), "{count}: only who lost its lease needed another");
    for release in join_all(second.iter().map(|request| backend.unlock(&request.claim))).await {
        assert_eq!(release.unwrap(), Release::Released);
    }
}

async fn a_server_that_takes_few_operations_at_once_is_asked_one_by_one() {
    let server = Server::start(&["--max-txn-ops", "4"]).await;
    let backend = server.backend().await;
    let requests: Vec<_> = (0..LOCKS).map(|number| queued(&number.to_string(), TTL)).collect();
    for _ in 0..2 {
        for outcome in attempt_all(&backend, &requests).await {
            assert!(matches!(outcome.unwrap(), TryLock::Acquired(_)));
        }
        for release in join_all(requests.iter().map(|request| backend.unlock(&request.claim))).await {
            assert_eq!(release.unwrap(), Release::Released);
        }
    }
}

/// A request that went out for several callers ends when all of them are gone, not when its time is over.
async fn who_gives_up_leaves_room_for_others() {
    let server = Server::start(&[]).await;
    let way = Proxy::start(server.address()).unwrap();
    let config = EtcdConfig::new([way.address().to_string()]).shared_lease(TTL).response_timeout(TTL);
    let backend = &EtcdBackend::connect(config).await.unwrap();
    take(backend, &request("before", TTL)).await;
    way.silence(Way::ToServer);
    let before = backend.commands_sent().unwrap();
    let attempts = async |names: std::ops::Range<usize>| {
        let requests: Vec<_> = names.map(|name| request(&name.to_string(), TTL)).collect();
        attempt_all(backend, &requests).await
    };
    let sent =
        |count| eventually("they are sent", async move || backend.commands_sent().unwrap() >= before + count);
    let mut alone = Box::pin(attempts(0..ABREAST));
    in_vain(&mut alone, sent(ABREAST as u64)).await;
    let mut together = Box::pin(attempts(ABREAST..ABREAST + ABREAST * MOST));
    in_vain(&mut together, std::future::ready(())).await;
    drop(alone);
    in_vain(&mut together, sent(2 * ABREAST as u64)).await;
    drop(together);
    let mut next = Box::pin(attempts(1000..1001));
    in_vain(&mut next, sent(2 * ABREAST as u64 + 1)).await;
}

/// Goes on with attempts that get no answer, until something else has happened.
async fn in_vain<A: Future + Unpin>(attempts: &mut A, happens: impl Future<Output = ()>) {
    let first = select(attempts, Box::pin(happens)).await;
    assert!(matches!(first, Either::Right(_)), "nothing can have answered");
}
