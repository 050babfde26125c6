//! A server that says no.

use std::time::Duration;

use distlock_conformance::free_port;
use distlock_core::{Effect, ErrorKind, LockBackend, StoreUrl};
use distlock_redis::RedisBackend;

use crate::support::*;

tests! {
    a_replica_grants_nothing,
    a_wrong_password_is_named_and_not_shown,
    a_missing_right_is_named,
    an_absent_server_is_named,
    credentials_at_sentinels_are_told_apart,
    a_url_for_another_kind_of_server_is_named,
    the_rights_in_the_documentation_are_enough,
    a_full_server_refuses_grants_but_takes_locks_back,
}

const LONG: Duration = Duration::from_secs(60);

async fn a_replica_grants_nothing() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    run(&mut raw, "REPLICAOF 127.0.0.1 1").await;
    for error in [
        backend.try_lock(&request("other", LONG)).await.unwrap_err(),
        backend.renew(&lease, LONG).await.unwrap_err(),
        backend.unlock(&lease.claim).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
        assert!(error.to_string().contains("replica"), "{error}");
    }
    run(&mut raw, "REPLICAOF NO ONE").await;
    backend.unlock(&lease.claim).await.unwrap();
}

async fn a_wrong_password_is_named_and_not_shown() {
    let server = Server::start(&["--requirepass", "right"]).await;
    RedisBackend::connect(server.config().password("right")).await.unwrap();
    for config in [server.config(), server.config().password("wrong-secret")] {
        let error = RedisBackend::connect(config).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("password") && !text.contains("wrong-secret"), "{text}");
    }
}

async fn a_missing_right_is_named() {
    let server = Server::start(&[]).await;
    run(&mut server.raw().await, "ACL SETUSER me on >pw ~other:* +@all").await;
    let backend = RedisBackend::connect(server.config().user("me").password("pw")).await.unwrap();
    let error = backend.try_lock(&request("k", LONG)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("grant it"), "{error}");
}

async fn an_absent_server_is_named() {
    let mut server = Server::start(&[]).await;
    server.kill();
    let error = RedisBackend::connect(server.config()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    assert!(error.to_string().contains("nobody listens"), "{error}");
}

async fn credentials_at_sentinels_are_told_apart() {
    let port = free_port().to_string();
    let _server = Server::start(&["--port", &port, "--requirepass", "right"]).await;
    for option in ["", "?sentinel_password=wrong-secret"] {
        let url = format!("redis+sentinel://me:right@127.0.0.1:{port}/mymaster{option}");
        let error = RedisBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("sentinel_password") && !text.contains("wrong-secret"), "{text}");
    }
}

async fn a_url_for_another_kind_of_server_is_named() {
    let port = free_port().to_string();
    let _server = Server::start(&["--port", &port]).await;
    for (url, advice) in [
        (format!("redis+cluster://127.0.0.1:{port}"), "connect with redis://"),
        (format!("redis+sentinel://127.0.0.1:{port}/mymaster"), "no Sentinel"),
        (format!("redis://127.0.0.1:{port}/99"), "no database of that number"),
    ] {
        let error = RedisBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}: {error}");
        assert!(error.to_string().contains(advice), "{url}: {error}");
    }
}

async fn the_rights_in_the_documentation_are_enough() {
    let server = Server::start(&[]).await;
    let readme = include_str!("../../README.md");
    let rights = readme.lines().find(|line| line.starts_with("ACL SETUSER locks")).unwrap();
    run(&mut server.raw().await, rights).await;
    let config = server.config().user("locks").password("secret");
    let backend = RedisBackend::connect(config).await.unwrap();
    let (holder, waiter) = (request("k", LONG), request("k", LONG));
    let lease = take(&backend, &holder).await;
    backend.renew(&lease, LONG).await.unwrap();
    let seen = busy(&backend, &waiter).await;
    let waits = async { backend.watch_release(&waiter.claim, &seen).await.unwrap() };
    let releases = async {
        let mut raw = server.raw().await;
        eventually("the mark is there", async || number(&mut raw, "HEXISTS distlock:lock:k mark").await == 1)
            .await;
        backend.unlock(&lease.claim).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(waits, releases) }).await.unwrap();
    assert!(backend.probe().await.unwrap().version.unwrap().starts_with("Redis "));
}

async fn a_full_server_refuses_grants_but_takes_locks_back() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    run(&mut raw, "CONFIG SET maxmemory 1").await;
    let error = backend.try_lock(&request("other", LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Overloaded, Effect::None), "{error}");
    assert!(error.to_string().contains("maxmemory"), "{error}");
    backend.unlock(&lease.claim).await.unwrap();
}
