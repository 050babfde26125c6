//! Who may use the nodes.

use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, StoreUrl};
use distlock_zk::ZkBackend;

use crate::support::{backend, connect, folder, raw, refused, request, shared, take, tests};

tests! {
    nodes_for_their_creator_are_for_its_credentials_alone,
    credentials_outlive_the_connection,
    nodes_for_everybody_may_be_wanted_with_credentials_too,
    a_dead_port_is_named,
}

const LONG: Duration = Duration::from_secs(5);

async fn nodes_for_their_creator_are_for_its_credentials_alone() {
    let folder = folder();
    let one = connect(&format!("zk://me:secret@{}{folder}", shared())).await;
    let two = connect(&format!("zk://me:secret@{}{folder}", shared())).await;
    let held = request("k", LONG);
    take(&*one, &held).await;
    refused(&*two, &request("k", LONG)).await;
    for stranger in [format!("zk://{}{folder}", shared()), format!("zk://me:wrong@{}{folder}", shared())] {
        let error = match ZkBackend::from_url(&mut StoreUrl::parse(&stranger).unwrap()).await {
            Err(error) => error,
            Ok(backend) => backend.try_lock(&request("k", LONG)).await.expect_err("it is not for strangers"),
        };
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(!error.is_retryable() && !error.to_string().contains("wrong"), "{error}");
    }
    one.unlock(&held.claim).await.unwrap();
    take(&*two, &request("k", LONG)).await;
}

async fn credentials_outlive_the_connection() {
    let folder = folder();
    let proxy = distlock_conformance::Proxy::start(shared()).unwrap();
    let backend = connect(&format!("zk://me:secret@{}{folder}", proxy.address())).await;
    let held = request("k", LONG);
    let lease = take(&*backend, &held).await;
    for _ in 0..3 {
        proxy.reset().await;
        crate::support::eventually("it is renewed on a new connection", async || {
            match backend.renew(&lease, LONG).await {
                Ok(renewal) => {
                    assert!(matches!(renewal, distlock_core::Renewal::Renewed { .. }), "{renewal:?}");
                    true
                }
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    false
                }
            }
        })
        .await;
    }
}

async fn nodes_for_everybody_may_be_wanted_with_credentials_too() {
    let folder = folder();
    let one = connect(&format!("zk://me:secret@{}{folder}?acl=open", shared())).await;
    let held = request("k", LONG);
    take(&*one, &held).await;
    let stranger = backend(&folder).await;
    refused(&*stranger, &request("k", LONG)).await;
    let (acls, _) = raw().await.get_acl(&format!("{folder}/k")).await.unwrap();
    assert_eq!(acls[0].scheme(), "world");
}

async fn a_dead_port_is_named() {
    let url = "zk://127.0.0.1:1?connect_timeout=300ms";
    let error = ZkBackend::from_url(&mut StoreUrl::parse(url).unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), error.backend()), (ErrorKind::Unavailable, Some("zk")));
    assert!(error.is_retryable() && error.to_string().contains("no server can be reached"), "{error}");
}
