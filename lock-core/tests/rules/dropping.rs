//! Rule 9: drop never blocks, never spawns, never panics, wherever it happens.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, MemoryBackend, Operation};

use crate::rig::{nine, until};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn store_and_client() -> (Arc<MemoryBackend>, LockClient) {
    let store = Arc::new(MemoryBackend::new());
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    (store, client)
}

#[test]
fn on_a_plain_thread_while_the_runtime_lives() {
    let (store, client) = store_and_client();
    let runtime = runtime();
    let guard = runtime.block_on(client.lock("k")).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(until("it is released", || store.records() == 0));
}

#[test]
fn after_its_runtime_is_gone_and_released_by_the_next() {
    let (store, client) = store_and_client();
    let first = runtime();
    let guard = first.block_on(client.lock("k")).unwrap();
    let waiting = first.block_on(client.lock("k2")).unwrap();
    first.shutdown_timeout(Duration::from_secs(5));
    drop(guard);
    drop(waiting);
    let second = runtime();
    second.block_on(async {
        // Any use of the client in a living runtime takes up what was left.
        drop(client.try_lock("another").await.unwrap());
        until("all is released", || store.records() == 0).await;
    });
}

#[test]
fn a_release_under_way_when_its_runtime_ends_is_taken_up_by_the_next() {
    let (store, client) = store_and_client();
    let first = runtime();
    first.block_on(async {
        let guard = client.lock("k").await.unwrap();
        store.faults().hang(Operation::Unlock);
        drop(guard);
        until("the release is under way", || store.faults().scripts() == 0).await;
    });
    first.shutdown_timeout(Duration::from_secs(5));
    runtime().block_on(async {
        drop(client.try_lock("another").await.unwrap());
        until("it is released", || store.records() == 0).await;
    });
}

#[test]
fn a_release_under_way_when_its_runtime_ends_is_taken_up_by_one_that_runs_already() {
    let (store, client) = store_and_client();
    let (first, second) = (runtime(), runtime());
    second.block_on(async { drop(client.try_lock("another").await.unwrap()) });
    first.block_on(async {
        let guard = client.lock("k").await.unwrap();
        store.faults().hang(Operation::Unlock);
        drop(guard);
        until("the release is under way", || store.faults().scripts() == 0).await;
    });
    first.shutdown_timeout(Duration::from_secs(5));
    second.block_on(until("it is released", || store.records() == 0));
}

#[test]
fn during_unwinding_and_in_thread_locals() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<distlock_core::LockGuard>> = const { std::cell::RefCell::new(None) };
    }
    let (store, client) = store_and_client();
    let runtime = runtime();
    let (one, two) =
        runtime.block_on(async { (client.lock("a").await.unwrap(), client.lock("b").await.unwrap()) });
    let thread = std::thread::spawn(move || {
        KEPT.with(|kept| *kept.borrow_mut() = Some(one));
        let _two = two;
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    runtime.block_on(until("both are released", || store.records() == 0));
}

#[test]
fn a_lock_held_in_one_runtime_is_kept_while_another_comes_and_goes() {
    let (_, client) = store_and_client();
    let (first, second) = (runtime(), runtime());
    let options = nine().ttl(Duration::from_secs(4));
    let guard = first.block_on(client.lock_with("k", &options)).unwrap();
    second.block_on(async { drop(client.lock_with("k2", &options).await.unwrap()) });
    second.shutdown_timeout(Duration::from_secs(5));
    first.block_on(async { tokio::time::sleep(Duration::from_secs(6)).await });
    assert!(guard.is_valid());
}

#[test]
fn a_client_dropped_inside_a_task_ends_quietly() {
    let runtime = runtime();
    runtime.block_on(async {
        let (store, client) = store_and_client();
        let guard = client.lock("k").await.unwrap();
        tokio::spawn(async move {
            drop(client);
            drop(guard);
        })
        .await
        .unwrap();
        until("released although the client is gone", || store.records() == 0).await;
        until("and the background task ended, freeing the store", || Arc::strong_count(&store) == 1).await;
    });
}

#[test]
fn without_a_runtime_it_is_an_error_not_a_panic() {
    let (_, client) = store_and_client();
    let error = futures_util::FutureExt::now_or_never(client.lock("k")).unwrap().unwrap_err();
    assert_eq!(error.kind(), distlock_core::ErrorKind::Misconfigured);
}
