//! Many callers at once, whose attempts and releases go to the server together.

use std::collections::HashMap;
use std::sync::Arc;

use distlock_conformance::Way;
use distlock_core::{Error, ErrorKind, LockBackend, LockRequest, Metadata, Release, TryLock};
use distlock_sql::postgres::LeaseRows;
use futures_util::future::join_all;

use crate::proxied::proxied;
use crate::support::{S, Tables, eventually, request, take, tests};

tests! {
    callers_at_once_get_what_they_would_get_one_by_one on BOTH,
    different_locks_share_statements on BOTH,
    two_clients_that_want_the_same_locks_get_each_once on BOTH,
    a_damaged_row_fails_no_other on BOTH,
    a_row_that_somebody_keeps_locked_fails_no_other on BOTH,
    tables_that_are_gone_are_made_anew_for_all on BOTH,
}

const LOCKS: usize = 48;

fn requests() -> Vec<LockRequest> {
    (0..LOCKS).map(|number| request(format!("{number}"), 60 * S)).collect()
}

async fn attempt_all(backend: &LeaseRows, requests: &[LockRequest]) -> Vec<Result<TryLock, Error>> {
    join_all(requests.iter().map(|request| backend.try_lock(request))).await
}

async fn release_all(backend: &LeaseRows, requests: &[LockRequest]) -> Vec<Release> {
    let releases = join_all(requests.iter().map(|request| backend.unlock(&request.claim))).await;
    releases.into_iter().map(|release| release.unwrap()).collect()
}

fn is_granted(outcome: &Result<TryLock, Error>) -> bool {
    matches!(outcome.as_ref().unwrap(), TryLock::Acquired(_))
}

/// Every third lock is held by somebody else, and every fifth claim releases what it does not hold.
async fn callers_at_once_get_what_they_would_get_one_by_one(tables: Tables) {
    let (backend, other) = (tables.backend().await, tables.backend().await);
    let mut tokens = HashMap::new();
    for round in 0..4 {
        let mut held = HashMap::new();
        for number in (0..LOCKS).step_by(3) {
            held.insert(number, take(&other, &request(format!("{number}"), 60 * S)).await);
        }
        let labels = format!("round {round}, 'ä' \"\\");
        let with_labels = |mut request: LockRequest| {
            request.metadata = Metadata::new([("labels", labels.as_str())]).unwrap();
            request
        };
        let requests: Vec<_> = requests().into_iter().map(with_labels).collect();
        for (number, outcome) in attempt_all(&backend, &requests).await.into_iter().enumerate() {
            match (outcome.unwrap(), held.get(&number)) {
                (TryLock::Busy(busy), Some(holder)) => assert_eq!(busy.holder.unwrap().token, holder.token),
                (TryLock::Acquired(lease), None) => {
                    let last = tokens.insert(number, lease.token);
                    assert!(last.is_none_or(|last| last < lease.token), "{last:?}, {lease:?}");
                    let record = other.admin().unwrap().inspect(&lease.claim.key).await.unwrap().unwrap();
                    assert_eq!(record.holders[0].token, lease.token);
                    assert_eq!(record.holders[0].metadata, requests[number].metadata);
                }
                (outcome, holder) => panic!("{number}: {outcome:?}, {holder:?}"),
            }
        }
        let claims: Vec<_> = (0..LOCKS)
            .map(|at| if at % 5 == 0 { request(format!("{at}"), S) } else { requests[at].clone() })
            .collect();
        for (number, release) in release_all(&backend, &claims).await.into_iter().enumerate() {
            let is_held = number % 5 != 0 && !held.contains_key(&number);
            assert_eq!(release == Release::Released, is_held, "{number}: {release:?}");
        }
        for (number, release) in release_all(&backend, &requests).await.into_iter().enumerate() {
            let is_held = number % 5 == 0 && !held.contains_key(&number);
            assert_eq!(release == Release::Released, is_held, "{number}, the rest: {release:?}");
        }
        for lease in held.values() {
            assert_eq!(other.unlock(&lease.claim).await.unwrap(), Release::Released);
        }
    }
}

/// While the first get no answer the others gather.
async fn different_locks_share_statements(tables: Tables) {
    let (proxy, url) = proxied(&tables.url);
    let backend = tables.connect(Tables { url, ..tables.clone() }.config()).await;
    let held_up = async |before: u64| {
        eventually("the first are sent", async || backend.commands_sent().unwrap() > before).await;
        proxy.pass();
    };
    for _ in 0..3 {
        let requests = requests();
        let before = backend.commands_sent().unwrap();
        proxy.hold(Way::ToServer);
        let (outcomes, ()) = tokio::join!(attempt_all(&backend, &requests), held_up(before));
        assert!(outcomes.iter().all(is_granted));
        let taken = backend.commands_sent().unwrap();
        proxy.hold(Way::ToServer);
        let (releases, ()) = tokio::join!(release_all(&backend, &requests), held_up(taken));
        assert!(releases.iter().all(|release| *release == Release::Released));
        let (taking, giving) = (taken - before, backend.commands_sent().unwrap() - taken);
        assert!(taking <= LOCKS as u64 / 2, "{taking} statements for {LOCKS} locks");
        assert!(giving <= LOCKS as u64 / 2, "{giving} statements for {LOCKS} releases");
    }
}

/// They meet in the same rows, in any order.
async fn two_clients_that_want_the_same_locks_get_each_once(tables: Tables) {
    let backends = [tables.backend().await, tables.backend().await];
    for _ in 0..20 {
        let turns = backends.iter().map(async |backend| {
            let mut requests = requests();
            fastrand::shuffle(&mut requests);
            let outcomes = attempt_all(backend, &requests).await;
            (requests, outcomes)
        });
        let turns = join_all(turns).await;
        let granted: usize =
            turns.iter().map(|(_, outcomes)| outcomes.iter().filter(|one| is_granted(one)).count()).sum();
        assert_eq!(granted, LOCKS);
        for (backend, (requests, outcomes)) in backends.iter().zip(&turns) {
            let releases = release_all(backend, requests).await;
            for (release, outcome) in releases.into_iter().zip(outcomes) {
                assert_eq!(release == Release::Released, is_granted(outcome));
            }
        }
    }
}

async fn a_damaged_row_fails_no_other(tables: Tables) {
    let backend = tables.backend().await;
    let mut raw = tables.raw().await;
    assert!(attempt_all(&backend, &requests()[..1]).await.iter().all(is_granted));
    // No token can follow this one.
    raw.execute("UPDATE {t} SET token = 9223372036854775807, owner = NULL, expires_at = NULL, ttl = NULL")
        .await;
    let outcomes = attempt_all(&backend, &requests()).await;
    assert_eq!(outcomes[0].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(outcomes[1..].iter().all(is_granted));
}

async fn a_row_that_somebody_keeps_locked_fails_no_other(tables: Tables) {
    let backend = tables.backend().await;
    let first = requests();
    assert!(attempt_all(&backend, &first[..1]).await.iter().all(is_granted));
    assert!(release_all(&backend, &first[..1]).await.iter().all(|release| *release == Release::Released));
    let mut raw = tables.raw().await;
    raw.execute("BEGIN").await;
    // By its key, so that no gaps between rows are locked.
    raw.execute("UPDATE {t} SET token = token + 1 WHERE lock_key = '0'").await;
    let mut requests = requests();
    // Last, so that it is none of those that go at once.
    requests.rotate_left(1);
    let outcomes = attempt_all(&backend, &requests).await;
    let (locked, others) = outcomes.split_last().unwrap();
    assert_eq!(locked.as_ref().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(others.iter().all(is_granted), "{others:?}");
    raw.execute("ROLLBACK").await;
}

async fn tables_that_are_gone_are_made_anew_for_all(tables: Tables) {
    let backend: Arc<LeaseRows> = tables.backend().await;
    assert!(attempt_all(&backend, &requests()).await.iter().all(is_granted));
    tables.raw().await.execute("DROP TABLE {t}").await;
    assert!(attempt_all(&backend, &requests()).await.iter().all(is_granted));
}
