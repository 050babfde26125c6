//! Damaged records, missing tables, and databases that stop taking writes.

use distlock_core::{Effect, ErrorKind, LockBackend, Renewal};
use sqlx::Row;

use crate::support::{Place, SECOND, granted, key, request, take};

#[tokio::test]
async fn b118_a_damaged_record_is_corrupt_for_its_key_alone_and_can_be_replaced() {
    for damage in [
        "deadline = NULL",
        "owner = NULL",
        "owner = x'0102'",
        "epoch = NULL",
        "ttl = NULL",
        "ttl = 0",
        "deadline = 0",
        "token = 0",
        "token = -5",
        "token = 9223372036854775807",
    ] {
        let place = Place::new();
        let backend = place.open().await;
        let admin = backend.admin().unwrap();
        let lease = take(&backend, "bad", 10 * SECOND).await;
        place.execute(&format!("UPDATE distlock_locks SET {damage}")).await;

        let error = backend.try_lock(&request("bad", SECOND)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{damage}: {error}");
        assert!(error.to_string().contains("force-unlock"), "{error}");
        // The mark is left and says so; its sweep takes it away although the record can't be read.
        let waiter = request("bad", SECOND).queue(true);
        let error = backend.try_lock(&waiter).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::Unknown));
        assert_eq!(backend.unlock(&waiter.claim).await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(admin.inspect(&key("bad")).await.unwrap_err().kind(), ErrorKind::Corrupt, "{damage}");
        let listed = admin.list(b"", None, 10).await.unwrap();
        assert_eq!((listed.len(), listed[0].holders.len()), (1, 0), "{damage}");
        take(&backend, "good", SECOND).await;

        admin.force_unlock(&key("bad")).await.unwrap();
        let next = granted(backend.try_lock(&request("bad", SECOND)).await);
        assert!(next.token > lease.token, "{damage}");
        assert!(next.token.get() < i64::MAX as u64 / 2, "{damage}: {}", next.token);
    }
}

#[tokio::test]
async fn a_damaged_record_is_not_renewed_and_takes_no_other_with_it() {
    for damage in ["deadline = NULL", "epoch = NULL", "ttl = NULL", "ttl = 0", "deadline = 0"] {
        let place = Place::new();
        let backend = place.open().await;
        let leases = [
            take(&backend, "good", 10 * SECOND).await,
            take(&backend, "bad", 10 * SECOND).await,
            take(&backend, "fine", 10 * SECOND).await,
        ];
        place.execute(&format!("UPDATE distlock_locks SET {damage} WHERE key = CAST('bad' AS BLOB)")).await;
        // A shorter ttl than what is left must not count as there already.
        for ttl in [20 * SECOND, SECOND] {
            let error = backend.renew(&leases[1], ttl).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{damage}: {error}");
            let renewals = backend.renew_many(&leases, ttl).await;
            assert!(matches!(renewals[0], Ok(Renewal::Renewed { .. })), "{damage}");
            assert_eq!(renewals[1].as_ref().unwrap_err().kind(), ErrorKind::Corrupt, "{damage}");
            assert!(matches!(renewals[2], Ok(Renewal::Renewed { .. })), "{damage}");
        }
    }
}

#[tokio::test]
async fn a_damaged_free_record_is_corrupt_too() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = take(&backend, "bad", SECOND).await;
    backend.unlock(&lease.claim).await.unwrap();
    place.execute("UPDATE distlock_locks SET deadline = 5").await;
    assert_eq!(backend.try_lock(&request("bad", SECOND)).await.unwrap_err().kind(), ErrorKind::Corrupt);
    let claims = backend.renew(&lease, SECOND).await.unwrap_err();
    assert_eq!(claims.kind(), ErrorKind::Corrupt);
    assert_eq!(backend.unlock(&lease.claim).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn b105_tables_that_are_gone_are_named_and_picked_up_when_they_come_back() {
    let place = Place::new();
    let backend = place.open().await;
    let first = take(&backend, "a", 10 * SECOND).await;
    for table in ["distlock_locks", "distlock_claims", "distlock_meta"] {
        place.execute(&format!("DROP TABLE {table}")).await;
        let error = backend.try_lock(&request("a", SECOND)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{table}: {error}");
        assert!(error.to_string().contains("tables of distlock are missing"), "{error}");
        assert!(backend.probe().await.is_err() || table != "distlock_meta");
        // Another program that starts makes them anew, and this one goes on.
        place.open().await;
        backend.try_lock(&request("a", SECOND)).await.unwrap();
        take(&backend, &format!("after {table}"), SECOND).await;
    }
    place.execute("DELETE FROM distlock_locks").await;
    assert!(take(&backend, "a", SECOND).await.token > first.token);
}

#[tokio::test]
async fn a_missing_row_of_bounds_is_named_and_made_anew_above_all_tokens() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = take(&backend, "a", 10 * SECOND).await;
    place.execute("DELETE FROM distlock_meta").await;
    let error = backend.try_lock(&request("b", SECOND)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("distlock_meta"), "{error}");
    assert!(backend.probe().await.is_err());
    place.open().await;
    assert!(take(&backend, "b", SECOND).await.token > lease.token);
}

#[tokio::test]
async fn a_write_that_is_refused_is_an_error_and_not_busy() {
    let place = Place::new();
    let backend = place.open().await;
    place
        .execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON distlock_locks
             BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
        )
        .await;
    assert!(backend.try_lock(&request("a", SECOND)).await.is_err());
    place.execute("DROP TRIGGER refuse").await;
    take(&backend, "a", SECOND).await;
    let rows = place.rows("PRAGMA integrity_check").await;
    assert_eq!(rows[0].get::<String, _>(0), "ok");
}

#[tokio::test]
async fn a_file_that_was_deleted_or_replaced_takes_no_more_locks() {
    let place = Place::new();
    let old = place.open().await;
    let lease = take(&old, "a", 10 * SECOND).await;
    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    for round in 0..2 {
        let error = old.try_lock(&request("b", SECOND)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None), "{round}");
        assert!(error.to_string().contains("deleted or replaced"), "{error}");
        assert_eq!(old.renew(&lease, SECOND).await.unwrap_err().kind(), ErrorKind::Misconfigured);
        assert_eq!(old.probe().await.unwrap_err().kind(), ErrorKind::Misconfigured, "{round}");
        // Another program starts and makes a new file: then it is replaced.
        take(&place.open().await, &format!("new {round}"), SECOND).await;
    }
}
