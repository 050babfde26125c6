//! What stands in the tree.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, Metadata};
use distlock_testbed::rounds;
use distlock_zk::zookeeper_client::{Acls, CreateMode};
use futures_util::future::join_all;

use crate::support::{ask, backend, client, eventually, folder, raw, refused, request, shared, take, tests};

tests! {
    b029_every_node_says_whose_it_is,
    b086_many_first_calls_open_one_session,
    b126_idle_locks_leave_no_nodes,
    b128_nested_names_are_locks_of_their_own,
    b129_tries_leave_no_nodes,
    b131_strange_numbers_keep_their_order,
}

const LONG: Duration = Duration::from_secs(5);

async fn b029_every_node_says_whose_it_is() {
    let folder = folder();
    let (one, raw) = (backend(&folder).await, raw().await);
    let held = request("k", LONG).metadata(Metadata::new([("job", "x y")]).unwrap());
    take(&*one, &held).await;
    let names = raw.list_children(&format!("{folder}/k")).await.unwrap();
    let [name] = names.as_slice() else { panic!("one node, not {names:?}") };
    let id: String = name.strip_prefix("_c_").unwrap()[..36].replace('-', "");
    assert_eq!(id, held.claim.owner.to_string());
    let (data, _) = raw.get_data(&format!("{folder}/k/{name}")).await.unwrap();
    assert_eq!(String::from_utf8(data).unwrap(), format!("distlock/1 5000 {}", held.metadata.encode()));
}

async fn b086_many_first_calls_open_one_session() {
    let folder = folder();
    let backend = backend(&folder).await;
    let requests: Vec<_> = (0..100).map(|n| request(&format!("k{n}"), LONG)).collect();
    join_all(requests.iter().map(|request| take(&*backend, request))).await;
    let raw = raw().await;
    let mut sessions = std::collections::BTreeSet::new();
    for n in 0..100 {
        let lock = format!("{folder}/k{n}");
        for name in raw.list_children(&lock).await.unwrap() {
            let stat = raw.check_stat(&format!("{lock}/{name}")).await.unwrap().unwrap();
            sessions.insert(stat.ephemeral_owner);
        }
    }
    assert_eq!(sessions.len(), 1);
    for request in &requests {
        assert_eq!(backend.unlock(&request.claim).await.unwrap(), distlock_core::Release::Released);
    }
}

async fn b126_idle_locks_leave_no_nodes() {
    let folder = folder();
    let (backend, raw) = (backend(&folder).await, raw().await);
    for round in 0..rounds(2) {
        let all = (0..500).map(|n| {
            let (backend, request) = (Arc::clone(&backend), request(&format!("k{round} {n}"), LONG));
            async move {
                take(&*backend, &request).await;
                backend.unlock(&request.claim).await.unwrap();
            }
        });
        join_all(all).await;
    }
    eventually("the locks' nodes are gone", async || {
        raw.list_children(&folder).await.unwrap().iter().all(|name| name.starts_with('.'))
    })
    .await;
}

async fn b128_nested_names_are_locks_of_their_own() {
    let folder = folder();
    let (backend, raw) = (backend(&folder).await, raw().await);
    for name in ["a", "a/0", "a/lock-0000000001", "a/b/c"] {
        take(&*backend, &request(name, LONG)).await;
    }
    // Somebody else's child of a lock's node is none of its contenders.
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let free = request("free", LONG);
    take(&*backend, &free).await;
    raw.create(&format!("{folder}/free/0"), b"", &open).await.unwrap();
    backend.unlock(&free.claim).await.unwrap();
    take(&*backend, &request("free", LONG)).await;
    assert!(raw.check_stat(&format!("{folder}/free/0")).await.unwrap().is_some(), "nobody deleted it");
}

async fn b129_tries_leave_no_nodes() {
    let folder = folder();
    let (backend, raw) = (backend(&folder).await, raw().await);
    let held = request("k", LONG * 2);
    take(&*backend, &held).await;
    for _ in 0..20 {
        let tries = (0..50).map(|_| {
            let (backend, request) = (Arc::clone(&backend), request("k", LONG));
            async move { refused(&*backend, &request).await }
        });
        join_all(tries).await;
        take(&*backend, &held).await;
    }
    let names = raw.list_children(&format!("{folder}/k")).await.unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    // No node serves as a sign of life either.
    let dump = ask(shared(), "dump").await;
    let ours = dump.lines().filter(|line| line.contains(&folder)).count();
    assert_eq!(ours, 1, "{dump}");
}

async fn b131_strange_numbers_keep_their_order() {
    let folder = folder();
    let (backend, raw) = (backend(&folder).await, raw().await);
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    raw.mkdir(&format!("{folder}/k"), &open).await.unwrap();
    // Not padded, and below all that the server will give.
    let first = format!("{folder}/k/lock-0");
    for path in [&first, &format!("{folder}/k/lock-none"), &format!("{folder}/k/write-0000000000")] {
        raw.create(path, b"10.0.0.1", &open).await.unwrap();
    }
    refused(&*backend, &request("k", LONG)).await;
    let record = backend.admin().unwrap().inspect(&crate::support::key("k")).await.unwrap().unwrap();
    assert_eq!(record.holders.len(), 1, "another program holds it");
    raw.delete(&first, None).await.unwrap();
    let guard = client(&folder).await.try_lock("k").await.unwrap().expect("it is free now");
    guard.unlock().await.unwrap();
}
