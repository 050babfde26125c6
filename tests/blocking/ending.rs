//! How clients end, and threads that drive async tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use distlock::blocking::{self, GuardView, LockClient, LockGuard};
use distlock::{ErrorKind, MemoryBackend, Operation};
use tokio::runtime::Handle;

use crate::{PATIENCE, stores, until, waiting};

/// A mark that is there for as long as the runtime of the client.
fn mark(client: &LockClient) -> Weak<()> {
    let mark = Arc::new(());
    let kept = Arc::downgrade(&mark);
    client.block_on(async {
        drop(Handle::current().spawn(async move {
            std::future::pending::<()>().await;
            drop(mark);
        }));
    });
    kept
}

#[test]
fn the_thread_ends_with_the_last_handle_and_guard() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let runtime = mark(&one);
        let guard = one.lock("k").unwrap();
        let clone = one.clone();
        drop((one, other));
        drop(clone);
        assert!(runtime.upgrade().is_some(), "the guard needs it");
        drop(guard);
        until("the end of the thread", || runtime.upgrade().is_none());
    }
}

#[test]
fn the_thread_releases_what_was_dropped_before_it_ends() {
    let store = Arc::new(MemoryBackend::new());
    let open = || {
        let backend = Arc::clone(&store);
        LockClient::open(async { Ok(distlock::LockClient::new(backend)) }).unwrap()
    };
    let guard = open().lock("k").unwrap();
    let other = open();
    store.faults().delay(Operation::Unlock, Duration::from_millis(300));
    drop(guard);
    drop(other.lock_with("k", &waiting(PATIENCE)).unwrap());
}

#[test]
fn a_client_that_could_not_connect_leaves_no_thread() {
    let mut runtime = Weak::new();
    let error = LockClient::open(async {
        let mark = Arc::new(());
        runtime = Arc::downgrade(&mark);
        drop(Handle::current().spawn(async move {
            std::future::pending::<()>().await;
            drop(mark);
        }));
        distlock::connect("memroy:").await
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidUrl);
    until("the end of the thread", || runtime.upgrade().is_none());
}

/// What a call inside a runtime panics with.
fn panicked<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).err().expect("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn inside_a_runtime_calls_panic_and_drops_do_not() {
    let client = blocking::connect("memory:").unwrap();
    let (held, dropped) = (client.lock("held").unwrap(), client.lock("dropped").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, view) = (client.clone(), held.view());
        drop(dropped);
        assert!(held.is_valid() && view.is_valid());
        for message in [
            panicked(|| blocking::connect("memory:")),
            panicked(|| client.lock("k")),
            panicked(|| client.try_lock("k")),
            panicked(|| client.with_lock("k", |_| ())),
            panicked(|| client.admin().unwrap().inspect(held.key())),
            panicked(|| view.lost()),
            panicked(|| held.lost_within(PATIENCE)),
            panicked(|| client.shutdown(PATIENCE)),
            panicked(|| held.unlock()),
        ] {
            assert!(message.contains("runtime"), "{message}");
        }
        // Where blocking is allowed it is allowed here, too.
        let blocked = tokio::task::spawn_blocking(move || client.lock("k").map(|guard| guard.token()));
        assert!(blocked.await.unwrap().is_ok());
    });
    for key in ["held", "dropped"] {
        client.lock_with(key, &waiting(PATIENCE)).unwrap().unlock().unwrap();
    }
}

#[test]
fn b134_the_last_handle_may_go_inside_a_runtime() {
    let client = blocking::connect("memory:").unwrap();
    let (thread, guard) = (mark(&client), client.lock("k").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { drop((client, guard)) });
    until("the end of the thread", || thread.upgrade().is_none());
}

#[test]
fn handles_guards_and_views_go_from_thread_to_thread() {
    fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<LockClient>();
    any_thread::<LockGuard>();
    any_thread::<GuardView>();
}
