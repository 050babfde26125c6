//! Waiting for what comes in its own time.

use std::time::Duration;

/// Waits until a condition holds, and fails when it never does.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("in vain for 30 s: {what}");
}
