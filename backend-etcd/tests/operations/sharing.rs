//! One lease for all locks of a client.

use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, LostReason, Release, Renewal};
use distlock_etcd::EtcdBackend;

use crate::support::{FAST, Server, busy, eventually, queued, records, request, take, tests};

tests! {
    holders_on_one_lease_exclude_each_other,
    locks_of_a_shared_lease_end_together_and_the_next_one_starts_anew,
    one_renewal_prolongs_all,
    a_ttl_above_the_lease_s_is_refused,
    another_client_can_renew_and_release_what_hangs_on_a_shared_lease,
    a_dead_client_s_locks_go_with_its_lease,
}

const TTL: Duration = Duration::from_secs(20);

async fn sharing(server: &Server) -> EtcdBackend {
    EtcdBackend::connect(server.config().shared_lease(TTL)).await.unwrap()
}

async fn holders_on_one_lease_exclude_each_other() {
    let server = Server::start(&[]).await;
    let backend = sharing(&server).await;
    let (one, two) = (request("key", TTL), queued("key", TTL));
    let first = take(&backend, &one).await;
    busy(&backend, &request("key", TTL)).await;
    busy(&backend, &two).await;
    let mut raw = server.raw().await;
    let records = records(&mut raw, "key").await;
    assert!(records.len() == 2 && records[0].2 == records[1].2, "{records:?}");
    assert_eq!(take(&backend, &one).await.token, first.token);
    assert_eq!(backend.unlock(&one.claim).await.unwrap(), Release::Released);
    assert!(take(&backend, &two).await.token > first.token);
    assert_eq!(backend.unlock(&two.claim).await.unwrap(), Release::Released);
    assert_eq!(backend.unlock(&two.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
    assert_eq!(raw.leases().await.unwrap().leases().len(), 1, "the lease is kept for the next lock");
}

async fn locks_of_a_shared_lease_end_together_and_the_next_one_starts_anew() {
    let server = Server::start(&[]).await;
    let backend = sharing(&server).await;
    let leases = [take(&backend, &request("one", TTL)).await, take(&backend, &request("two", TTL)).await];
    let mut raw = server.raw().await;
    let shared = records(&mut raw, "one").await[0].2;
    raw.lease_revoke(shared).await.unwrap();
    for renewal in backend.renew_many(&leases, TTL).await {
        assert_eq!(renewal.unwrap(), Renewal::Lost(LostReason::Expired));
    }
    take(&backend, &request("one", TTL)).await;
    let release = backend.unlock(&leases[1].claim).await.unwrap();
    assert_eq!(release, Release::NotHeld(LostReason::Expired));
}

async fn one_renewal_prolongs_all() {
    let server = Server::start(&[]).await;
    let backend = sharing(&server).await;
    let mut leases = Vec::new();
    for n in 0..50 {
        leases.push(take(&backend, &request(&format!("key {n}"), TTL)).await);
    }
    // The first renewal opens the stream as well.
    backend.renew_many(&leases[..1], TTL).await;
    let before = backend.commands_sent().unwrap();
    let renewed = backend.renew_many(&leases, TTL).await;
    assert_eq!(backend.commands_sent().unwrap() - before, 2, "one exchange and one transaction");
    for (lease, renewal) in leases.iter().zip(renewed) {
        let Renewal::Renewed { valid_until } = renewal.unwrap() else { panic!("it is held") };
        assert!(valid_until > lease.valid_until);
    }
}

async fn a_ttl_above_the_lease_s_is_refused() {
    let server = Server::start(&[]).await;
    let backend = sharing(&server).await;
    let error = backend.try_lock(&request("key", TTL * 2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    assert!(error.to_string().contains("40s") && error.to_string().contains("20s"), "{error}");
}

async fn another_client_can_renew_and_release_what_hangs_on_a_shared_lease() {
    let server = Server::start(&[]).await;
    let (owner, other) = (sharing(&server).await, server.backend().await);
    let lease = take(&owner, &request("key", TTL)).await;
    let kept = take(&owner, &request("kept", TTL)).await;
    assert!(matches!(other.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(other.unlock(&lease.claim).await.unwrap(), Release::Released);
    assert!(matches!(owner.renew(&kept, TTL).await.unwrap(), Renewal::Renewed { .. }), "the others go on");
}

async fn a_dead_client_s_locks_go_with_its_lease() {
    let server = Server::start(FAST).await;
    let short = Duration::from_secs(2);
    let backend = EtcdBackend::connect(server.config().shared_lease(short)).await.unwrap();
    for name in ["one", "two"] {
        take(&backend, &request(name, short)).await;
    }
    let mut raw = server.raw().await;
    for name in ["one", "two"] {
        eventually("it is gone", async || records(&mut raw, name).await.is_empty()).await;
    }
}
