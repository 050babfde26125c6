//! Renewals that end too early or too late, and losses that nobody hears of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, LockOptions, LostReason, Release, Renewal};
use distlock_etcd::EtcdBackend;
use rustix::process::Signal;
use tokio::net::TcpListener;

use crate::support::{FAST, Server, busy, eventually, records, request, take, tests};

tests! {
    b004_an_attempt_dropped_at_any_point_leaves_nothing_on_a_lease_that_lives_on,
    b019_a_lease_does_not_outlive_the_code_that_owned_its_lock,
    b075_a_server_that_ends_its_streams_normally_costs_no_lock,
    b076_renewing_a_lease_that_is_gone_says_lost,
    b078_without_a_server_nobody_dials_without_a_pause,
    b079_every_record_has_a_lease,
}

const TTL: Duration = Duration::from_secs(60);

async fn b004_an_attempt_dropped_at_any_point_leaves_nothing_on_a_lease_that_lives_on() {
    const STEP: Duration = Duration::from_micros(100);
    let server = Server::start(&[]).await;
    let shared = EtcdBackend::connect(server.config().shared_lease(TTL)).await.unwrap();
    let client = LockClient::new(Arc::new(shared));
    // What keeps the lease alive, and with it whatever is left behind.
    let kept = client.lock("kept").await.unwrap();
    let mut raw = server.raw().await;
    for is_held in [false, true] {
        let holder = server.backend().await;
        let held = request("key", TTL);
        if is_held {
            take(&holder, &held).await;
        }
        for step in 0..40 {
            drop(tokio::time::timeout(STEP * step, client.lock("key")).await);
            drop(tokio::time::timeout(STEP * step, client.try_lock("key")).await);
        }
        let others = usize::from(is_held);
        eventually("all is swept", async || records(&mut raw, "key").await.len() == others).await;
        holder.unlock(&held.claim).await.unwrap();
        holder.close().await.unwrap();
        client.lock("key").await.unwrap().unlock().await.unwrap();
    }
    assert_eq!(raw.leases().await.unwrap().leases().len(), 1, "the shared one alone");
    assert_eq!(kept.unlock().await.unwrap(), Release::Released);
}

async fn b019_a_lease_does_not_outlive_the_code_that_owned_its_lock() {
    let server = Server::start(&[]).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    let panics = tokio::spawn({
        let client = client.clone();
        async move {
            let _guard = client.lock("panics").await.unwrap();
            panic!("as the scenario wants it");
        }
    });
    let aborted = tokio::spawn({
        let client = client.clone();
        async move {
            let _guard = client.lock("aborted").await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    assert!(panics.await.unwrap_err().is_panic());
    let mut raw = server.raw().await;
    eventually("the other one holds its lock", async || !records(&mut raw, "aborted").await.is_empty()).await;
    aborted.abort();
    for name in ["panics", "aborted"] {
        eventually("its lock is free", async || records(&mut raw, name).await.is_empty()).await;
    }
    eventually("no lease is left", async || raw.leases().await.unwrap().leases().is_empty()).await;
    client.lock("panics").await.unwrap().unlock().await.unwrap();
}

async fn b075_a_server_that_ends_its_streams_normally_costs_no_lock() {
    let mut server = Server::start(FAST).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    let options = LockOptions::default().ttl(Duration::from_secs(20));
    let guard = client.lock_with("key", &options).await.unwrap();
    let token = guard.token();
    guard.renew().await.unwrap();
    let before = guard.valid_until();
    server.signal(Signal::TERM);
    server.start_again().await;
    let view = guard.view();
    tokio::select! {
        reason = view.lost() => panic!("lost: {reason}"),
        () = eventually("a renewal", async || view.valid_until() > before) => {}
    }
    assert_eq!(guard.token(), token);
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
}

async fn b076_renewing_a_lease_that_is_gone_says_lost() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    // The first renewal opens the stream, the second one uses it.
    for name in ["opening", "using"] {
        let lease = take(&backend, &request(name, TTL)).await;
        let store_lease = records(&mut raw, name).await[0].2;
        raw.lease_revoke(store_lease).await.unwrap();
        let renewal = backend.renew(&lease, TTL).await.unwrap();
        assert_eq!(renewal, Renewal::Lost(LostReason::Expired), "{name}");
        let other = take(&backend, &request("other", TTL)).await;
        assert!(matches!(backend.renew(&other, TTL).await.unwrap(), Renewal::Renewed { .. }));
        backend.unlock(&other.claim).await.unwrap();
    }
    // A record that somebody deleted by hand, with its lease still there.
    let lease = take(&backend, &request("record", TTL)).await;
    let name = records(&mut raw, "record").await[0].0.clone();
    raw.delete(name, None).await.unwrap();
    let renewal = backend.renew(&lease, TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Lost(LostReason::Expired));
}

async fn b078_without_a_server_nobody_dials_without_a_pause() {
    /// How many dials a second are no flood.
    const MOST: u32 = 10;
    const WATCHED: Duration = Duration::from_secs(5);
    let mut server = Server::start(FAST).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    let address = server.address();
    server.kill();
    // In its place somebody who hangs up on everybody.
    let stranger = TcpListener::bind(address).await.unwrap();
    let dials = Arc::new(AtomicU32::new(0));
    let counting = tokio::spawn({
        let dials = Arc::clone(&dials);
        async move {
            while stranger.accept().await.is_ok() {
                dials.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let waiting: Vec<_> = (0..8)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.lock(format!("key {n}")).await.map(drop) })
        })
        .collect();
    tokio::time::sleep(WATCHED).await;
    let dialled = dials.load(Ordering::Relaxed);
    eprintln!("eight waiters dialled {dialled} times in {WATCHED:?}");
    assert!(dialled > 0 && dialled <= MOST * 5, "{dialled} dials in {WATCHED:?}");
    counting.abort();
    let _ = counting.await;
    server.start_again().await;
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
}

async fn b079_every_record_has_a_lease() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    for (name, ttl) in [("long", TTL), ("short", Duration::from_millis(500))] {
        take(&backend, &request(name, ttl)).await;
        busy(&backend, &request(name, ttl).queue(true)).await;
        let records = records(&mut raw, name).await;
        assert_eq!(records.len(), 2);
        for (_, value, lease) in records {
            assert_ne!(lease, 0, "{value}");
            assert!(raw.lease_time_to_live(lease, None).await.unwrap().ttl() > 0);
        }
    }
}
