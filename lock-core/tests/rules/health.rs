//! Health says whether a client is of use now, and never takes long to say so.

use distlock_core::{ErrorKind, Operation};

use crate::rig::{kind, ms, rig, secs};

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_known_in_time_and_a_mended_one_at_once() {
    let (store, _, client) = rig();
    client.health().await.unwrap();
    store.faults().silence(true);
    let asked = client.clock().now();
    let error = client.health().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unavailable, Some(Operation::Probe)));
    assert!(client.clock().now().since(asked) <= secs(2) + ms(5));
    store.faults().silence(false);
    client.health().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_shut_down_is_of_no_use() {
    let (_, _, client) = rig();
    client.shutdown(secs(1)).await;
    assert_eq!(kind(client.health().await), ErrorKind::Shutdown);
}
