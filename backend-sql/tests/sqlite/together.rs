//! Grants and releases of callers that wait for the connection at the same time.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use distlock_core::{
    Claim, Effect, ErrorKind, LockAdmin, LockBackend, LostReason, Metadata, Release, TryLock,
};
use distlock_sql::sqlite::SqliteBackend;
use futures_util::future::join_all;
use sqlx::{Connection, Row, SqliteConnection};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Place, SECOND, busy, claim, eventually, granted, key, queued, request, take};

/// Keeps every writer out until it is given back.
async fn keep_out(place: &Place) -> SqliteConnection {
    let mut blocker = place.raw().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut blocker).await.unwrap();
    blocker
}

async fn let_in(mut blocker: SqliteConnection) {
    sqlx::query("COMMIT").execute(&mut blocker).await.unwrap();
    blocker.close().await.unwrap();
}

#[tokio::test]
async fn callers_at_once_get_what_they_would_get_one_by_one() {
    let place = Place::new();
    let backend = place.open().await;
    let admin = backend.admin().unwrap();
    let held = take(&backend, "held", 20 * SECOND).await;
    let mut first = request("label", 20 * SECOND);
    first.metadata = Metadata::new([("who", "\"Zoë\"\\\n=[1]")]).unwrap();
    // A waiter that comes first, once the holder is gone.
    let before = granted(backend.try_lock(&request("queue", 20 * SECOND)).await);
    let waiter = queued("queue", 20 * SECOND);
    busy(backend.try_lock(&waiter).await);
    backend.unlock(&before.claim).await.unwrap();

    let mut requests = vec![first.clone(), request("held", SECOND), request("queue", SECOND)];
    requests.extend((0..200).map(|n| request(&format!("free/{}", n / 2), (5 + n % 3) * SECOND)));
    let outcomes = join_all(requests.iter().map(|request| backend.try_lock(request))).await;
    let grants = outcomes.iter().filter(|outcome| matches!(outcome, Ok(TryLock::Acquired(_)))).count();
    assert_eq!(grants, 101, "{outcomes:?}");
    assert!(matches!(outcomes[1], Ok(TryLock::Busy(_))) && matches!(outcomes[2], Ok(TryLock::Busy(_))));

    let records = admin.list(b"", None, 1000).await.unwrap();
    let holders: HashMap<_, _> = records
        .iter()
        .filter_map(|record| Some((record.key.clone(), record.holders.first()?.clone())))
        .collect();
    for (request, outcome) in requests.iter().zip(&outcomes) {
        if let Ok(TryLock::Acquired(lease)) = outcome {
            let holder = &holders[&request.claim.key];
            assert_eq!((holder.owner, holder.token), (lease.claim.owner, lease.token));
            assert_eq!(holder.metadata, request.metadata);
            let left = holder.expires_in.unwrap();
            assert!(left <= request.ttl && left + 4 * SECOND > request.ttl, "{left:?}: {request:?}");
        }
    }
    assert_eq!(holders[&key("held")].token, held.token);

    let claims: Vec<Claim> = requests.iter().map(|request| request.claim.clone()).collect();
    let releases = join_all(claims.iter().map(|claim| backend.unlock(claim))).await;
    for (outcome, release) in outcomes.iter().zip(releases) {
        let expected = matches!(outcome, Ok(TryLock::Acquired(_)));
        assert_eq!(release.unwrap() == Release::Released, expected);
    }
    let again = join_all(claims.iter().map(|claim| backend.unlock(claim))).await;
    for (claim, release) in claims.iter().zip(again) {
        let reason = if claim.key == key("held") { LostReason::Stolen } else { LostReason::Expired };
        assert_eq!(release.unwrap(), Release::NotHeld(reason));
    }
    granted(backend.try_lock(&waiter).await);
}

#[tokio::test]
async fn different_locks_share_statements() {
    let place = Place::new();
    let backend = place.open().await;
    let requests: Vec<_> = (0..100).map(|n| request(&format!("k/{n}"), 10 * SECOND)).collect();
    let before = backend.commands_sent().unwrap();
    for outcome in join_all(requests.iter().map(|request| backend.try_lock(request))).await {
        granted(outcome);
    }
    let taken = backend.commands_sent().unwrap();
    for release in join_all(requests.iter().map(|request| backend.unlock(&request.claim))).await {
        assert_eq!(release.unwrap(), Release::Released);
    }
    let (taking, giving) = (taken - before, backend.commands_sent().unwrap() - taken);
    assert!(
        taking <= 20 && giving <= 20,
        "{taking} statements to take 100 locks, {giving} to give them back"
    );
}

#[tokio::test]
async fn tokens_of_grants_made_at_once_rise() {
    let place = Place::new();
    let backend = Arc::new(place.open().await);
    let mut last = vec![0; 40];
    for _ in 0..20 {
        let requests: Vec<_> = (0..40).map(|n| request(&format!("k/{n}"), 10 * SECOND)).collect();
        let outcomes = join_all(requests.iter().map(|request| backend.try_lock(request))).await;
        for (last, outcome) in last.iter_mut().zip(outcomes) {
            let token = granted(outcome).token.get();
            assert!(token > *last, "{token} after {last}");
            *last = token;
        }
        join_all(requests.iter().map(|request| backend.unlock(&request.claim))).await;
    }
}

#[tokio::test]
async fn a_caller_dropped_while_it_waits_has_changed_nothing() {
    let place = Place::new();
    let backend = Arc::new(place.open().await);
    let blocker = keep_out(&place).await;
    let attempt = |name: &'static str| {
        let (backend, request) = (Arc::clone(&backend), request(name, 20 * SECOND));
        tokio::spawn(async move { granted(backend.try_lock(&request).await) })
    };
    // One has its turn and is kept out, the others wait behind it.
    let attempts = [attempt("a"), attempt("b"), attempt("c"), attempt("d")];
    let begun = backend.commands_sent().unwrap();
    eventually(10 * SECOND, "somebody tries", async || backend.commands_sent().unwrap() > begun).await;
    attempts[2].abort();
    eventually(10 * SECOND, "it is dropped", async || attempts[2].is_finished()).await;
    let_in(blocker).await;
    let [a, b, _, d] = attempts;
    for (name, lease) in [("a", a.await), ("b", b.await), ("d", d.await)] {
        let holder = backend.inspect(&key(name)).await.unwrap().unwrap();
        assert_eq!(holder.holders[0].owner, lease.unwrap().claim.owner);
    }
    let rows = place.rows("SELECT count(*) FROM distlock_locks WHERE key = CAST('c' AS BLOB)").await;
    assert_eq!(rows[0].get::<i64, _>(0), 0);
}

#[tokio::test]
async fn a_record_that_refuses_a_change_takes_no_other_with_it() {
    let place = Place::new();
    let backend = place.open().await;
    place
        .execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON distlock_locks WHEN NEW.key = CAST('k/7' AS BLOB)
             BEGIN SELECT RAISE(ABORT, 'not this one'); END",
        )
        .await;
    let requests: Vec<_> = (0..20).map(|n| request(&format!("k/{n}"), 10 * SECOND)).collect();
    let outcomes = join_all(requests.iter().map(|request| backend.try_lock(request))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        if n == 7 {
            let error = outcome.unwrap_err();
            assert!(error.to_string().contains("k/7"), "{error}");
            assert!(error.effect() == Effect::None || error.kind() == ErrorKind::Other, "{error:?}");
        } else {
            granted(outcome);
        }
    }
}

#[test]
fn callers_of_another_runtime_are_not_left_waiting() {
    let place = Place::new();
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (ends, lasts) = (runtime(), runtime());
    let backend: Arc<SqliteBackend> = Arc::new(lasts.block_on(place.open()));
    let blocker = lasts.block_on(keep_out(&place));
    // In `runtime`, and it waits when this returns.
    let begin = |runtime: &Runtime, name: &'static str| {
        let (backend, (waits, told)) = (Arc::clone(&backend), std::sync::mpsc::channel());
        let attempt = runtime.spawn(async move {
            let claim = claim(name);
            let mut release = backend.unlock(&claim);
            poll_fn(|context| {
                let polled = release.as_mut().poll(context);
                // Only the first time there is somebody who listens.
                let _ = waits.send(());
                polled
            })
            .await
        });
        told.recv_timeout(10 * SECOND).unwrap();
        attempt
    };
    // The first is kept out, the second sends for all who wait behind it, the third waits for that.
    drop(begin(&ends, "a"));
    drop(begin(&ends, "b"));
    let third = begin(&lasts, "c");
    ends.shutdown_timeout(10 * SECOND);
    let error = lasts.block_on(async {
        let outcome = tokio::time::timeout(20 * SECOND, third).await.expect("it is told").unwrap();
        let_in(blocker).await;
        outcome.unwrap_err()
    });
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown), "{error}");
    // The next ones are served.
    lasts.block_on(async {
        let claims: Vec<_> = (0..8).map(|n| claim(&format!("k/{n}"))).collect();
        for release in join_all(claims.iter().map(|claim| backend.unlock(claim))).await {
            assert_eq!(release.unwrap(), Release::NotHeld(LostReason::Expired));
        }
    });
}
