//! What is under way to several servers at once.

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// Calls under way, each to one server.
pub(super) struct Calls<T>(FuturesUnordered<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T: Send + 'static> Calls<T> {
    pub(super) fn new() -> Self {
        Self(FuturesUnordered::new())
    }

    /// One more. It is sent when an answer is waited for.
    pub(super) fn push(&self, call: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(call));
    }

    /// The next answer; none if nothing is under way any more.
    pub(super) async fn next(&mut self) -> Option<T> {
        self.0.next().await
    }

    /// The next answer, if it comes before the timer ends.
    pub(super) async fn next_before(&mut self, timer: Pin<&mut tokio::time::Sleep>) -> Option<T> {
        tokio::select! {
            biased;
            answer = self.next() => answer,
            () = timer => None,
        }
    }

    /// Finishes what is under way behind the caller's back; `hear` says what to send next.
    ///
    /// Nobody waits for it: it ends with the servers' answers, or with their connections' time-outs.
    pub(super) fn finish(mut self, mut hear: impl FnMut(T, &Self) + Send + 'static) {
        if self.0.is_empty() {
            return;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "who was slow must neither delay the caller nor be left with a lock; bounded by the connections' time-outs"
        )]
        tokio::spawn(async move {
            while let Some(answer) = self.next().await {
                hear(answer, &self);
            }
        });
    }
}

/// A timer that ends after `limit`.
pub(super) fn timer(limit: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(limit)
}
