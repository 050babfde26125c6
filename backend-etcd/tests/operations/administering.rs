//! A store that is full, records that are damaged, and the floor of tokens.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Effect, ErrorKind, FencingToken, LockBackend, LockClient, LockOptions, LostReason, Release, Renewal,
    TryLock,
};
use distlock_etcd::EtcdBackend;
use distlock_etcd::etcd_client::{AlarmAction, AlarmOptions, AlarmType, CompactionOptions};

use crate::support::{Server, busy, key, queued, records, request, take, tests};

tests! {
    a_full_store_says_so_and_still_renews_and_releases,
    a_damaged_record_is_named_and_replaced_by_force,
    a_raised_floor_counts_for_waiters_and_keeps_the_holder_s_token,
    a_waiter_that_moves_up_while_the_floor_is_raised_is_above_it,
    a_floor_without_room_above_it_is_refused,
    an_application_s_own_client_will_do,
    a_forced_release_reaches_the_holder_long_before_its_renewal,
    the_probe_names_the_version_and_members_that_are_away,
}

const TTL: Duration = Duration::from_secs(60);

async fn a_full_store_says_so_and_still_renews_and_releases() {
    let server = Server::start(&["--quota-backend-bytes", "4000000"]).await;
    let backend = server.backend().await;
    let held = request("held", TTL);
    let lease = take(&backend, &held).await;
    let mut raw = server.raw().await;
    let filler = vec![b'x'; 100_000];
    let mut count = 0;
    while raw.put(format!("filler {count}"), filler.clone(), None).await.is_ok() {
        count += 1;
        // The server counts what it has every 100 ms.
        assert!(count < 1000, "it does not fill up");
    }
    let error = backend.try_lock(&request("free", TTL)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    assert!(error.to_string().contains("NOSPACE") && error.is_retryable(), "{error}");
    assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    let health = backend.probe().await.unwrap();
    assert!(health.warnings.iter().any(|warning| warning.fix.contains("alarm disarm")), "{health:?}");
    assert_eq!(backend.unlock(&held.claim).await.unwrap(), Release::Released);
    for filled in 0..count {
        raw.delete(format!("filler {filled}"), None).await.unwrap();
    }
    let now = raw.get("up", None).await.unwrap().header().unwrap().revision();
    raw.compact(now, Some(CompactionOptions::new().with_physical())).await.unwrap();
    raw.defragment().await.unwrap();
    let member = raw.status().await.unwrap().header().unwrap().member_id();
    let mut of = AlarmOptions::new();
    of.with_member(member);
    raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(of)).await.unwrap();
    take(&backend, &request("free", TTL)).await;
}

async fn a_damaged_record_is_named_and_replaced_by_force() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    let ours = "0123456789abcdef0123456789abcdef";
    for (name, owner, value) in [
        ("value", ours, "something else"),
        ("version", ours, "2 exclusive lease 1 0 "),
        ("owner", "somebody", "1 exclusive lease 30000000 0 "),
    ] {
        raw.put(format!("distlock/{name}\0/{owner}"), value, None).await.unwrap();
        let error = backend.try_lock(&request(name, TTL)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::None), "{error}");
        let admin = backend.admin().unwrap();
        assert_eq!(admin.inspect(&key(name)).await.unwrap_err().kind(), ErrorKind::Corrupt);
        let listed = admin.list(name.as_bytes(), None, 10).await.unwrap();
        assert!(listed.len() == 1 && listed[0].holders.is_empty(), "{listed:?}");
        assert_eq!(records(&mut raw, name).await.len(), 1, "nothing is removed silently");
        assert_eq!(admin.force_unlock(&key(name)).await.unwrap(), None);
        take(&backend, &request(name, TTL)).await;
    }
    assert!(raw.leases().await.unwrap().leases().len() >= 3);
    take(&backend, &request("others go on", TTL)).await;
}

async fn a_raised_floor_counts_for_waiters_and_keeps_the_holder_s_token() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    let (holder, waiter) = (request("key", TTL), queued("key", TTL));
    let held = take(&one, &holder).await;
    busy(&two, &waiter).await;
    let floor = FencingToken::new(held.token.get() + 1_000_000).unwrap();
    one.admin().unwrap().raise_token_floor(floor).await.unwrap();
    assert_eq!(take(&one, &holder).await.token, held.token);
    assert!(matches!(one.renew(&held, TTL).await.unwrap(), Renewal::Renewed { .. }));
    busy(&two, &waiter).await;
    one.unlock(&holder.claim).await.unwrap();
    let next = take(&two, &waiter).await;
    assert!(next.token > floor, "{} is not above {floor}", next.token);
    // A client that knows nothing of it, and one that did not ask since.
    let (fresh, free) = (server.backend().await, request("free", TTL));
    assert!(take(&fresh, &free).await.token > floor);
    assert!(take(&one, &request("another", TTL)).await.token > floor);
}

async fn a_waiter_that_moves_up_while_the_floor_is_raised_is_above_it() {
    // With such elections leases are of 8 s at least, which leaves time to move up.
    let server = Server::start(&["--heartbeat-interval", "500", "--election-timeout", "5000"]).await;
    let (one, two, admin) = (server.backend().await, server.backend().await, server.backend().await);
    let mut floor = 1_000_000;
    let raise = async |floor: u64| {
        let floor = FencingToken::new(floor).unwrap();
        admin.admin().unwrap().raise_token_floor(floor).await.unwrap();
        floor
    };
    // Kept by a lease, and by writing.
    for ttl in [TTL, Duration::from_secs(7)] {
        let (holder, waiter, last) = (request("key", TTL), queued("key", ttl), queued("key", TTL));
        take(&one, &holder).await;
        busy(&two, &waiter).await;
        busy(&two, &last).await;
        one.unlock(&holder.claim).await.unwrap();
        // It is first by now, and has not heard of that.
        let raised = raise(floor).await;
        let lease = take(&two, &waiter).await;
        assert!(lease.token > raised, "{} is not above {raised}", lease.token);
        assert_eq!(take(&two, &waiter).await.token, lease.token);
        let shown = admin.admin().unwrap().inspect(&waiter.claim.key).await.unwrap().unwrap();
        assert_eq!(shown.holders[0].token, lease.token);
        two.unlock(&waiter.claim).await.unwrap();
        let next = take(&two, &last).await;
        assert!(next.token > lease.token, "and the places are kept");
        two.unlock(&last.claim).await.unwrap();
        floor *= 10;
        // Both at the same time.
        for _ in 0..20 {
            let (holder, waiter) = (request("key", TTL), queued("key", ttl));
            take(&one, &holder).await;
            busy(&two, &waiter).await;
            let (raised, released) = futures_util::join!(raise(floor), one.unlock(&holder.claim));
            released.unwrap();
            let lease = take(&two, &waiter).await;
            assert!(lease.token > raised, "{} is not above {raised}", lease.token);
            two.unlock(&waiter.claim).await.unwrap();
            floor += 1_000_000;
        }
    }
}

async fn a_floor_without_room_above_it_is_refused() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let error = backend.admin().unwrap().raise_token_floor(FencingToken::MAX).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidOptions, Effect::None), "{error}");
}

async fn an_application_s_own_client_will_do() {
    let server = Server::start(&[]).await;
    let own = EtcdBackend::from_client(server.raw().await, server.config()).await.unwrap();
    let other = server.backend().await;
    let (holder, waiter) = (request("key", TTL), queued("key", TTL));
    let lease = take(&own, &holder).await;
    assert!(matches!(own.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    let seen = busy(&other, &waiter).await;
    own.unlock(&holder.claim).await.unwrap();
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, other.watch_release(&waiter.claim, &seen)).await.expect("a hint").unwrap();
    take(&other, &waiter).await;
    own.close().await.unwrap();
    assert_eq!(own.try_lock(&holder).await.unwrap_err().kind(), ErrorKind::Shutdown);
    let release = other.unlock(&waiter.claim).await.unwrap();
    assert_eq!(release, Release::Released);
    let release = other.unlock(&waiter.claim).await.unwrap();
    assert_eq!(release, Release::NotHeld(LostReason::Expired));
}

async fn a_forced_release_reaches_the_holder_long_before_its_renewal() {
    let server = Server::start(&[]).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    // It renews every 40 s.
    let guard = client.lock_with("key", &LockOptions::default().ttl(TTL * 2)).await.unwrap();
    let operator = server.backend().await;
    let victim = operator.admin().unwrap().force_unlock(&key("key")).await.unwrap().unwrap();
    assert_eq!(victim.token, guard.token());
    let told = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await;
    assert_eq!(told.expect("it is told at once"), LostReason::Expired);
    assert_eq!(guard.unlock().await.unwrap(), Release::NotHeld(LostReason::Expired));
}

async fn the_probe_names_the_version_and_members_that_are_away() {
    let server = Server::start(&[]).await;
    let servers = [server.address().to_string(), "127.0.0.1:1".to_owned()];
    let backend = EtcdBackend::connect(server.config().servers(servers)).await.unwrap();
    let health = backend.probe().await.unwrap();
    assert!(health.version.as_ref().unwrap().starts_with("etcd 3."));
    // Old releases have a fault that matters where there are several members (B072).
    let (early, told): (Vec<_>, Vec<_>) = health
        .warnings
        .iter()
        .map(|warning| warning.what.as_str())
        .partition(|what| what.contains("end leases early"));
    assert!(early.len() <= 1 && early.iter().all(|what| what.starts_with(&server.address().to_string())));
    assert!(told.len() == 1 && told[0].contains("127.0.0.1:1 does not say"), "{told:?}");
    for n in 0..20 {
        let request = request(&format!("key {n}"), TTL);
        assert!(matches!(backend.try_lock(&request).await.unwrap(), TryLock::Acquired(_)));
    }
}
