//! Data in ZooKeeper, guarded by tokens.

use distlock_core::{ErrorKind, FenceGate, FencingToken};
use distlock_zk::zookeeper_client::{Acls, CreateMode};
use distlock_zk::{ZkConfig, ZkFenceGate};
use futures_util::future::join_all;

use crate::support::{folder, key, raw, shared, tests};

tests! {
    a_stale_holder_s_write_is_refused_in_the_same_step,
    writers_at_once_leave_the_highest_token,
}

fn token(n: u64) -> FencingToken {
    FencingToken::new(n).unwrap()
}

async fn gate(folder: &str) -> ZkFenceGate {
    ZkFenceGate::connect(ZkConfig::new([shared()]).path(folder)).await.unwrap()
}

async fn a_stale_holder_s_write_is_refused_in_the_same_step() {
    let folder = folder();
    let (one, two, raw) = (gate(&folder).await, gate(&folder).await, raw().await);
    let data = format!("{folder}/data");
    let error = one.write("k", token(5), &data, b"x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    raw.create(&data, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    one.write("k", token(5), &data, b"five").await.unwrap();
    one.write("k", token(5), &data, b"five again").await.unwrap();
    two.admit(&key("k"), token(6)).await.unwrap();
    let error = one.write("k", token(5), &data, b"late").await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert_eq!(raw.get_data(&data).await.unwrap().0, b"five again");
    two.write("k", token(6), &data, b"six").await.unwrap();
    one.write("other", token(1), &data, b"other lock").await.unwrap();
    assert!(one.admit(&key("k"), token(5)).await.unwrap_err().is_lost());
    // What the gate keeps is no lock.
    let backend = crate::support::backend(&folder).await;
    let listed = distlock_core::LockBackend::admin(&*backend).unwrap().list(b"", None, 10).await.unwrap();
    assert_eq!(listed, []);
}

async fn writers_at_once_leave_the_highest_token() {
    let folder = folder();
    let (gate, raw) = (gate(&folder).await, raw().await);
    let data = format!("{folder}/data");
    raw.create(&data, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let writes = (1..=40).map(|n| {
        let (gate, data) = (&gate, &data);
        async move {
            // One that others pass over and over may be told so, and tries again.
            loop {
                match gate.write("k", token(n), data, n.to_string().as_bytes()).await {
                    Err(error) if error.kind() == ErrorKind::Overloaded => {}
                    Err(error) => return assert!(error.is_lost(), "{error}"),
                    Ok(()) => return,
                }
            }
        }
    });
    join_all(writes).await;
    assert_eq!(raw.get_data(&data).await.unwrap().0, b"40");
}
