//! Connections that break, and silent ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock_core::{Effect, ErrorKind, LockBackend, TryLock};
use distlock_redis::{RedisBackend, RedisConfig};
use tokio::net::{TcpListener, UnixStream};

use crate::support::*;

tests! {
    a_restarted_server_is_served_again,
    a_frozen_server_is_an_error_in_time,
    a_connection_that_leads_nowhere_is_replaced,
    a_server_that_became_a_replica_is_left_for_who_stands_at_its_address_now,
    no_text_form_of_a_backend_shows_a_password,
    the_application_s_client_and_connection_will_do,
    impatient_callers_do_not_keep_a_connection_from_opening,
}

const LONG: Duration = Duration::from_secs(60);

async fn a_restarted_server_is_served_again() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    let backend = server.backend().await;
    let held = request("k", LONG);
    let lease = take(&backend, &held).await;
    server.kill();
    eventually("the death is noticed", async || backend.try_lock(&held).await.is_err()).await;
    let error = backend.try_lock(&held).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    server.start_again().await;
    eventually("it is served again", async || backend.try_lock(&held).await.is_ok()).await;
    assert_eq!(take(&backend, &held).await.token, lease.token, "the file has kept the lock");
}

async fn a_frozen_server_is_an_error_in_time() {
    let server = Server::start(&[]).await;
    let backend =
        RedisBackend::connect(server.config().response_timeout(Duration::from_millis(200))).await.unwrap();
    let held = request("k", LONG);
    take(&backend, &held).await;
    server.pause();
    let clock = backend.clock();
    let asked = clock.now();
    for n in 0..6 {
        let error = backend.try_lock(&held).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(n > 0 || error.effect() == Effect::Unknown, "it may act when it goes on");
    }
    assert!(clock.now().since(asked) < Duration::from_secs(20));
    server.resume();
    eventually("it is served again", async || backend.try_lock(&held).await.is_ok()).await;
}

/// A half-open connection: the other end is gone, and nothing says so.
async fn a_connection_that_leads_nowhere_is_replaced() {
    let server = Server::start(&[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (socket, accepted) = (server.socket(), Arc::new(AtomicUsize::new(0)));
    let swallow = Arc::new(AtomicUsize::new(0));
    let proxy = {
        let (accepted, swallow) = (Arc::clone(&accepted), Arc::clone(&swallow));
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut far = UnixStream::connect(&socket).await.unwrap();
                let number = accepted.fetch_add(1, Ordering::AcqRel) + 1;
                let swallow = Arc::clone(&swallow);
                tokio::spawn(async move {
                    let silenced = async {
                        while swallow.load(Ordering::Acquire) < number {
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = silenced => std::future::pending::<()>().await,
                    }
                });
            }
        })
    };
    let config = RedisConfig::new(address).response_timeout(Duration::from_millis(300));
    let backend = RedisBackend::connect(config).await.unwrap();
    let held = request("k", LONG);
    let token = take(&backend, &held).await.token;
    swallow.store(accepted.load(Ordering::Acquire), Ordering::Release);
    eventually("nothing comes back", async || {
        backend.try_lock(&held).await.is_err_and(|error| error.effect() == Effect::Unknown)
    })
    .await;
    eventually("another connection is opened", async || backend.try_lock(&held).await.is_ok()).await;
    assert_eq!(take(&backend, &held).await.token, token);
    proxy.abort();
}

async fn the_application_s_client_and_connection_will_do() {
    let server = Server::start(&[]).await;
    let client = server.client();
    let manager = client.get_connection_manager().await.unwrap();
    let config = server.config();
    let one = RedisBackend::from_client(&client, config.clone()).await.unwrap();
    let two = RedisBackend::from_connection_manager(manager, &client, config).await.unwrap();
    for (holder, waiter) in [(&one, &two), (&two, &one)] {
        let lease = take(holder, &request("k", LONG)).await;
        let next = request("k", LONG);
        let seen = busy(waiter, &next).await;
        holder.unlock(&lease.claim).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(20), waiter.watch_release(&next.claim, &seen));
        woken.await.unwrap().unwrap();
        assert!(matches!(waiter.try_lock(&next).await.unwrap(), TryLock::Acquired(_)));
        waiter.unlock(&next.claim).await.unwrap();
    }
}

async fn impatient_callers_do_not_keep_a_connection_from_opening() {
    let mut server = Server::start(&[]).await;
    let backend = server.backend().await;
    server.kill();
    server.start_again().await;
    let held = request("k", LONG);
    eventually("one of them finds it open", async || {
        let attempt = tokio::time::timeout(Duration::from_micros(300), backend.try_lock(&held)).await;
        attempt.is_ok_and(|result| result.is_ok())
    })
    .await;
}

/// As behind an address that moves to the new master while the old one goes on.
async fn a_server_that_became_a_replica_is_left_for_who_stands_at_its_address_now() {
    let (old, new) = (Server::start(&[]).await, Server::start(&[]).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let target = Arc::new(Mutex::new(old.socket()));
    let behind = Arc::clone(&target);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = behind.lock().unwrap().clone();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(socket).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let backend = RedisBackend::connect(RedisConfig::new(address)).await.unwrap();
    take(&backend, &request("before", LONG)).await;
    run(&mut old.raw().await, "REPLICAOF 127.0.0.1 1").await;
    *target.lock().unwrap() = new.socket();
    eventually("the new master is found", async || match backend.try_lock(&request("after", LONG)).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
            false
        }
    })
    .await;
    assert_eq!(number(&mut new.raw().await, "EXISTS distlock:lock:after").await, 1);
}

async fn no_text_form_of_a_backend_shows_a_password() {
    let server = Server::start(&["--requirepass", "very-secret"]).await;
    let config = server.config().password("very-secret");
    let backend = RedisBackend::connect(config.clone()).await.unwrap();
    take(&backend, &request("k", LONG)).await;
    let gate = distlock_redis::RedisFenceGate::connect(config.clone()).await.unwrap();
    for text in [format!("{backend:?}"), format!("{gate:?}"), format!("{config:?}")] {
        assert!(!text.contains("very-secret"), "{text}");
    }
    let wrong = RedisBackend::connect(server.config().password("very-wrong")).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::PermissionDenied);
    assert!(!format!("{wrong} {wrong:?}").contains("very-wrong"), "{wrong:?}");
}
