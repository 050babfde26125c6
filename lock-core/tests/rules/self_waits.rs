//! A call that seems to wait for its own task is warned of, once, and no other is.

use std::sync::Arc;

use distlock_core::{Events, LockBackend, LockChange, LockClient, LockEvent};

use crate::rig::{ms, nine, rig, secs, settle, waiting_up_to};

/// The warnings that are there already.
async fn warnings(events: &mut Events) -> Vec<LockEvent> {
    let mut seen = Vec::new();
    settle().await;
    while let Ok(Some(event)) = tokio::time::timeout(ms(0), events.next()).await {
        seen.push(event.unwrap());
    }
    seen.retain(|event| matches!(event.change, LockChange::SelfWait { .. }));
    seen
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_itself_is_warned_of_once_for_each_wait() {
    let (_, _, client) = rig();
    let mut events = client.events();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    client.lock_with("k", &waiting_up_to(secs(8))).await.unwrap_err();
    assert_eq!(warnings(&mut events).await, [], "less than a ttl");
    for _ in 0..2 {
        client.lock_with("k", &waiting_up_to(secs(60))).await.unwrap_err();
        let warned = warnings(&mut events).await;
        let [warning] = &warned[..] else { panic!("{warned:?}") };
        assert_eq!((&warning.key, warning.owner, warning.token), (guard.key(), guard.owner(), guard.token()));
        assert_eq!(warning.change, LockChange::SelfWait { waited: secs(9) });
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_others_is_not() {
    let (store, _, client) = rig();
    let mut events = client.events();
    let elsewhere = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let held = elsewhere.lock_with("elsewhere", &nine()).await.unwrap();
    let options = waiting_up_to(secs(60));
    let (first, second) =
        tokio::join!(client.lock_with("elsewhere", &options), client.lock_with("elsewhere", &options));
    assert!(first.is_err() && second.is_err());
    drop(held);
    // A line that moves: each holds it for less than a ttl.
    let turns = (0..5).map(|_| async {
        let guard = client.lock_with("moving", &options).await.unwrap();
        tokio::time::sleep(secs(7)).await;
        guard.unlock().await.unwrap();
    });
    futures_util::future::join_all(turns).await;
    assert_eq!(warnings(&mut events).await, []);
}

#[cfg(feature = "tracing")]
#[tokio::test(start_paused = true)]
async fn the_log_names_the_key_and_what_to_do() {
    use std::io::Write;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _scope = tracing::subscriber::set_default(subscriber);
    let (_, _, client) = rig();
    let _guard = client.lock_with("invoice/42", &nine()).await.unwrap();
    client.lock_with("invoice/42", &waiting_up_to(secs(60))).await.unwrap_err();
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.matches("WARN").count(), 1, "{text}");
    for part in ["invoice/42", "waited=9s", "give the guard back"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
