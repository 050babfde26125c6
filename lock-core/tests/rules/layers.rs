//! Layers forward everything and add one thing.

use std::sync::Arc;

use distlock_core::layers::{Namespaced, Timed};
use distlock_core::{
    ClientOptions, ErrorKind, LockBackend, LockClient, LockRequest, MemoryBackend, Namespace, Operation,
    TryLock,
};

use crate::rig::{key, kind, ms, nine, secs};

fn in_namespace(store: &Arc<MemoryBackend>, name: &str) -> LockClient {
    let options = ClientOptions::default().namespace(Namespace::new(name).unwrap());
    LockClient::with_options(Arc::clone(store) as Arc<dyn LockBackend>, options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_apart_and_invisible_from_inside() {
    let store = Arc::new(MemoryBackend::new());
    let (a, b) = (in_namespace(&store, "a"), in_namespace(&store, "b"));
    let in_a = a.lock_with("k", &nine()).await.unwrap();
    let in_b = b.try_lock_with("k", &nine()).await.unwrap().expect("another namespace is another lock");
    assert_eq!(in_a.key(), &key("k"));
    tokio::time::sleep(secs(30)).await;
    assert!(in_a.is_valid() && in_b.is_valid(), "renewed through the namespace");
    let seen: Vec<_> = a.admin().unwrap().list(b"", None, 10).await.unwrap();
    assert_eq!(seen.iter().map(|record| &record.key).collect::<Vec<_>>(), [&key("k")]);
    let all = LockBackend::admin(&*store).unwrap().list(b"", None, 10).await.unwrap();
    assert_eq!(all.iter().map(|record| record.key.to_string()).collect::<Vec<_>>(), ["a/k", "b/k"]);
    let long = key(&"x".repeat(511));
    assert_eq!(kind(a.lock_with(&long, &nine()).await), ErrorKind::InvalidKey);
}

#[tokio::test(start_paused = true)]
async fn a_timed_backend_gives_up_in_time() {
    let store = Arc::new(MemoryBackend::new());
    let timed = Timed::new(Arc::clone(&store), ms(100));
    store.faults().hang(Operation::TryLock);
    let request = LockRequest::new(distlock_core::Claim::mint(key("k")), secs(9));
    let start = tokio::time::Instant::now();
    assert_eq!(kind(timed.try_lock(&request).await), ErrorKind::Unavailable);
    assert!(start.elapsed() <= ms(101));
    assert!(matches!(timed.try_lock(&request).await.unwrap(), TryLock::Acquired(_)));
}

#[tokio::test(start_paused = true)]
async fn layers_stack() {
    let store = Arc::new(MemoryBackend::new());
    let backend = Namespaced::new(Timed::new(Arc::clone(&store), secs(1)), Namespace::new("n").unwrap());
    let client = LockClient::new(Arc::new(backend));
    client.with_lock("k", |guard| async move { assert!(guard.is_valid()) }).await.unwrap();
    assert_eq!(client.info().name, "memory");
    assert!(client.backend().commands_sent().unwrap() > 0);
}

#[cfg(feature = "metrics")]
#[test]
fn operations_are_counted() {
    use metrics_util::debugging::DebuggingRecorder;
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let client = LockClient::new(Arc::new(MemoryBackend::new()));
            client.lock("k").await.unwrap().unlock().await.unwrap();
        });
    });
    let seen: Vec<String> =
        snapshotter.snapshot().into_vec().iter().map(|(key, ..)| format!("{:?}", key.key())).collect();
    for part in ["distlock_operations_total", "acquired", "released", "distlock_operation_seconds"] {
        assert!(seen.iter().any(|line| line.contains(part)), "{part} in {seen:#?}");
    }
    assert!(!seen.iter().any(|line| line.contains("\"k\"")), "a key is never a label");
}
