//! Sessions: how long they live, whose they are, and how they end.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, LockClient, LockOptions, WaitPolicy};
use distlock_zk::{ZkBackend, ZkConfig};

use crate::support::{
    backend, client, connect, eventually, folder, raw, refused, request, shared, take, tests,
};

tests! {
    a_probe_says_what_servers_give,
    a_long_ttl_is_cut_to_half_of_the_session_s_time_out,
    the_application_s_own_session_will_do,
    closing_ends_the_session_once_nothing_is_held,
    a_shut_down_client_leaves_no_node,
}

async fn a_probe_says_what_servers_give() {
    let folder = folder();
    let health = backend(&folder).await.probe().await.unwrap();
    assert!(health.version.as_deref().is_some_and(|version| version.starts_with("3.")), "{health:?}");
    assert!(health.warnings.iter().any(|warning| warning.what.contains("one server")), "{health:?}");
    let greedy = connect(&format!("zk://{}{folder}?session_timeout=5m", shared())).await;
    let health = greedy.probe().await.unwrap();
    assert!(health.warnings.iter().any(|warning| warning.fix.contains("maxSessionTimeout")), "{health:?}");
}

async fn a_long_ttl_is_cut_to_half_of_the_session_s_time_out() {
    let backend = connect(&format!("zk://{}{}?session_timeout=8s", shared(), folder())).await;
    let lease = take(&*backend, &request("k", Duration::from_secs(30))).await;
    assert_eq!(lease.ttl, Duration::from_secs(4));
    let short = take(&*backend, &request("short", Duration::from_secs(1))).await;
    assert_eq!(short.ttl, Duration::from_secs(1));
    let guard = LockClient::new(backend).lock("held").await.unwrap();
    assert_eq!(guard.ttl(), Duration::from_secs(4));
    // Past that, it is held because it is renewed as often as it needs.
    let first = guard.valid_until();
    eventually("it is renewed for long enough", async || {
        assert!(guard.is_valid());
        guard.valid_until().since(first) > Duration::from_secs(6)
    })
    .await;
}

async fn the_application_s_own_session_will_do() {
    let folder = folder();
    let raw = raw().await;
    let backend =
        Arc::new(ZkBackend::from_client(raw.clone(), ZkConfig::default().path(&folder)).await.unwrap());
    let held = request("k", Duration::from_secs(1));
    let lease = take(&*backend, &held).await;
    assert!(lease.valid_until > backend.clock().now());
    let name = raw.list_children(&format!("{folder}/k")).await.unwrap().remove(0);
    let stat = raw.check_stat(&format!("{folder}/k/{name}")).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, raw.session_id().0);
    let guard = LockClient::new(Arc::<ZkBackend>::clone(&backend)).lock("other").await.unwrap();
    guard.unlock().await.unwrap();
    backend.close().await.unwrap();
    assert_eq!(backend.try_lock(&held).await.unwrap_err().kind(), ErrorKind::Shutdown);
    raw.check_stat(&folder).await.expect("the application's session goes on");
}

async fn closing_ends_the_session_once_nothing_is_held() {
    let folder = folder();
    let (one, raw) = (backend(&folder).await, raw().await);
    let (held, waiter) =
        (request("k", Duration::from_secs(2)), request("k", Duration::from_secs(60)).queue(true));
    take(&*one, &held).await;
    refused(&*one, &waiter).await;
    one.close().await.unwrap();
    let places = async || raw.list_children(&format!("{folder}/k")).await.map_or(0, |names| names.len());
    eventually("the waiter's place is given up", async || places().await == 1).await;
    eventually("the lease runs out", async || places().await == 0).await;
    take(&*backend(&folder).await, &request("k", Duration::from_secs(1))).await;
}

async fn a_shut_down_client_leaves_no_node() {
    let folder = folder();
    let (client, raw) = (client(&folder).await, raw().await);
    let guard = client.lock("k").await.unwrap();
    let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_secs(60)));
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.lock_with("k", &options).await.map(drop) })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    let left = client.shutdown(Duration::from_secs(10)).await;
    assert_eq!(left.claims, []);
    waiting.await.unwrap().unwrap_err();
    drop(guard);
    let names = raw.list_children(&format!("{folder}/k")).await.unwrap_or_default();
    assert!(names.is_empty(), "{names:?}");
}
