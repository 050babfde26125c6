//! Rows that somebody else has written to, or that are damaged.

use distlock_core::{ErrorKind, LockBackend, Renewal};

use crate::support::{Kind, S, Tables, key, request, take, tests};

tests! {
    b118_a_damaged_row_is_corrupt_for_its_key_alone_and_can_be_replaced on BOTH,
    b118_a_damaged_free_row_is_corrupt_and_can_be_replaced on BOTH,
    a_time_beyond_all_bounds_costs_no_other_lock on BOTH,
}

/// What the tables' own checks do not refuse.
const fn of_a_held_lock(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Postgres => &[
            "owner = '\\x0102'",
            "ttl = NULL",
            "ttl = 0",
            "token = 0",
            "token = -5",
            "token = 9223372036854775807",
        ],
        Kind::MySql => &["token = 9223372036854775807"],
    }
}

async fn b118_a_damaged_row_is_corrupt_for_its_key_alone_and_can_be_replaced(tables: Tables) {
    let backend = tables.backend().await;
    let admin = backend.admin().unwrap();
    for damage in of_a_held_lock(tables.kind) {
        let [bad, good] = ["bad", "good"].map(|name| request(name, 30 * S));
        let (lease, other) = (take(&backend, &bad).await, take(&backend, &good).await);
        tables.execute(&format!("UPDATE {{t}} SET {damage} WHERE token = {}", lease.token)).await;

        for attempt in [request("bad", S), request("bad", S).queue(true)] {
            let error = backend.try_lock(&attempt).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{damage}: {error}");
            assert!(error.to_string().contains("force-unlock"), "{damage}: {error}");
        }
        assert_eq!(admin.inspect(&key("bad")).await.unwrap_err().kind(), ErrorKind::Corrupt, "{damage}");
        let listed = admin.list(b"", None, 10).await.unwrap();
        assert_eq!(listed.len(), 2, "{damage}: {listed:?}");
        // The holder may go on, or hear that it can't; another lock is not touched.
        let renewals = backend.renew_many(&[lease.clone(), other.clone()], 30 * S).await;
        assert!(matches!(renewals[1], Ok(Renewal::Renewed { .. })), "{damage}: {renewals:?}");
        backend.unlock(&good.claim).await.unwrap();

        admin.force_unlock(&key("bad")).await.unwrap();
        assert!(!matches!(backend.renew(&lease, 30 * S).await, Ok(Renewal::Renewed { .. })), "{damage}");
        let next = take(&backend, &request("bad", 30 * S)).await;
        assert!(next.token > lease.token, "{damage}: {} after {}", next.token, lease.token);
        assert!(next.token.get() < i64::MAX as u64 / 2, "{damage}: {}", next.token);
        admin.force_unlock(&key("bad")).await.unwrap();
    }
}

async fn b118_a_damaged_free_row_is_corrupt_and_can_be_replaced(tables: Tables) {
    let backend = tables.backend().await;
    let admin = backend.admin().unwrap();
    let lease = take(&backend, &request("bad", S)).await;
    backend.unlock(&lease.claim).await.unwrap();
    tables.execute("UPDATE {t} SET token = 9223372036854775807").await;
    let error = backend.try_lock(&request("bad", S)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("force-unlock"), "{error}");
    admin.force_unlock(&key("bad")).await.unwrap();
    assert!(take(&backend, &request("bad", S)).await.token > lease.token);
}

async fn a_time_beyond_all_bounds_costs_no_other_lock(tables: Tables) {
    let backend = tables.backend().await;
    let (bad, good) = (request("bad", 30 * S), request("good", 30 * S));
    let leases = [take(&backend, &bad).await, take(&backend, &good).await];
    tables
        .execute(&format!(
            "UPDATE {{t}} SET expires_at = -9223372036854775808 WHERE token = {}",
            leases[0].token
        ))
        .await;
    let renewals = backend.renew_many(&leases, 30 * S).await;
    assert!(matches!(renewals[0], Ok(Renewal::Lost(_))), "{renewals:?}");
    assert!(matches!(renewals[1], Ok(Renewal::Renewed { .. })), "{renewals:?}");
    assert!(backend.admin().unwrap().inspect(&key("bad")).await.unwrap().unwrap().holders.is_empty());
    assert!(take(&backend, &request("bad", 30 * S)).await.token > leases[0].token);
}
