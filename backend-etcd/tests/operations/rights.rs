//! Users, their rights, and tokens that run out.

use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::{Proxy, Way};
use distlock_core::{Effect, ErrorKind, FencingToken, LockBackend, LockClient, Release, Renewal};
use distlock_etcd::etcd_client::{Client, ConnectOptions, Permission};
use distlock_etcd::{EtcdBackend, EtcdConfig};

use crate::support::{Server, busy, eventually, key, queued, request, take, tests};

tests! {
    a_user_with_the_documented_rights_can_do_everything,
    outside_its_namespace_a_user_is_refused,
    who_a_user_is_is_asked_once_for_callers_in_a_hurry,
    refused_credentials_are_named,
    a_token_that_the_server_forgot_is_replaced,
    a_holder_whose_right_is_taken_away_is_told_in_time,
}

const TTL: Duration = Duration::from_secs(60);

/// A server with authentication, and the user `locks`, who may do what the documentation says.
async fn guarded() -> Server {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    raw.user_add("root", "root-secret", None).await.unwrap();
    raw.user_grant_role("root", "root").await.unwrap();
    raw.user_add("locks", "secret", None).await.unwrap();
    raw.role_add("locks").await.unwrap();
    let right = Permission::read_write("distlock/").with_prefix();
    raw.role_grant_permission("locks", right).await.unwrap();
    raw.user_grant_role("locks", "locks").await.unwrap();
    raw.auth_enable().await.unwrap();
    server
}

async fn root(server: &Server) -> Client {
    let options = ConnectOptions::new().with_user("root", "root-secret");
    Client::connect([server.address().to_string()], Some(options)).await.unwrap()
}

async fn allowed(server: &Server) -> EtcdBackend {
    EtcdBackend::connect(server.config().user("locks", "secret")).await.unwrap()
}

async fn a_user_with_the_documented_rights_can_do_everything() {
    let server = guarded().await;
    let (one, two) = (allowed(&server).await, allowed(&server).await);
    for ttl in [TTL, Duration::from_millis(500)] {
        let (holder, waiter) = (request("key", ttl), queued("key", ttl));
        let lease = take(&one, &holder).await;
        assert!(matches!(one.renew(&lease, ttl).await.unwrap(), Renewal::Renewed { .. }));
        let seen = busy(&two, &waiter).await;
        let admin = two.admin().unwrap();
        assert_eq!(admin.inspect(&key("key")).await.unwrap().unwrap().waiters, Some(1));
        assert_eq!(admin.list(b"", None, 10).await.unwrap().len(), 1);
        assert_eq!(one.unlock(&holder.claim).await.unwrap(), Release::Released);
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, two.watch_release(&waiter.claim, &seen)).await.expect("a hint").unwrap();
        let lease = take(&two, &waiter).await;
        admin.force_unlock(&key("key")).await.unwrap().unwrap();
        admin.raise_token_floor(FencingToken::new(lease.token.get() + 10).unwrap()).await.unwrap();
        two.unlock(&waiter.claim).await.unwrap();
    }
    let lease = take(&one, &request("fenced", TTL)).await;
    let gate = one.fence_gate();
    distlock_core::FenceGate::admit(&gate, &key("fenced"), lease.token).await.unwrap();
    gate.write_while_held(&lease.claim, lease.token, []).await.unwrap();
    let health = one.probe().await.unwrap();
    assert!(health.warnings.is_empty(), "{:?}", health.warnings);
    let shared = server.config().user("locks", "secret").shared_lease(TTL);
    let shared = EtcdBackend::connect(shared).await.unwrap();
    let request = request("shared", TTL);
    take(&shared, &request).await;
    assert_eq!(shared.unlock(&request.claim).await.unwrap(), Release::Released);
}

async fn who_a_user_is_is_asked_once_for_callers_in_a_hurry() {
    let server = guarded().await;
    let way = Proxy::start(server.address()).unwrap();
    let config = EtcdConfig::new([way.address().to_string()])
        .user("locks", "secret")
        .response_timeout(Duration::from_secs(10));
    let backend = EtcdBackend::connect(config).await.unwrap();
    let hurried = async || {
        let request = request("key", TTL);
        let limit = Duration::from_millis(100);
        tokio::time::timeout(limit, backend.try_lock(&request)).await.map(|answer| answer.map(drop))
    };
    // Held rather than cut: a connection that broke is made again by the client crate, too.
    let before = way.traffic().connections;
    way.hold(Way::ToClient);
    eventually("another one is opened", async || {
        hurried().await.is_err() && way.traffic().connections > before
    })
    .await;
    let opened = way.traffic().connections;
    // Some only wait until the member is tried again.
    for _ in 0..20 {
        assert!(hurried().await.is_err(), "nobody answers");
    }
    way.pass();
    eventually("a call is done", async || matches!(hurried().await, Ok(Ok(())))).await;
    assert_eq!(way.traffic().connections, opened, "it was opened again");
}

async fn outside_its_namespace_a_user_is_refused() {
    let server = guarded().await;
    let elsewhere = server.config().user("locks", "secret").namespace("other");
    let error = EtcdBackend::connect(elsewhere).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::PermissionDenied, Effect::None), "{error}");
    assert!(error.to_string().contains("grant-permission") && !error.is_retryable(), "{error}");
}

async fn refused_credentials_are_named() {
    let server = guarded().await;
    let open = Server::start(&[]).await;
    for (config, kind, part) in [
        (server.config().user("locks", "wrong"), ErrorKind::PermissionDenied, "user and password"),
        (server.config(), ErrorKind::PermissionDenied, "etcd://user:password@host"),
        (open.config().user("locks", "secret"), ErrorKind::Misconfigured, "switched off"),
    ] {
        let error = EtcdBackend::connect(config).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(part) && !text.contains("wrong") && !text.contains("secret"), "{text}");
    }
}

async fn a_token_that_the_server_forgot_is_replaced() {
    let mut server = guarded().await;
    let backend = allowed(&server).await;
    let (kept, freed) = (request("kept", TTL), request("freed", TTL));
    let lease = take(&backend, &kept).await;
    take(&backend, &freed).await;
    assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    // It keeps tokens in its memory alone.
    server.kill();
    server.start_again().await;
    eventually("a release", async || backend.unlock(&freed.claim).await.is_ok()).await;
    let renewal = backend.renew(&lease, TTL).await.unwrap();
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    take(&backend, &request("new", TTL)).await;
}

async fn a_holder_whose_right_is_taken_away_is_told_in_time() {
    let server = guarded().await;
    let client = LockClient::new(Arc::new(allowed(&server).await));
    let options = distlock_core::LockOptions::default().ttl(Duration::from_secs(3));
    let guard = client.lock_with("key", &options).await.unwrap();
    let mut root = root(&server).await;
    root.user_revoke_role("locks", "locks").await.unwrap();
    let reason = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("it is told");
    assert_eq!(reason, distlock_core::LostReason::Denied);
    let error = client.try_lock("another").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}
