//! What is under way to several servers at once.

use std::pin::Pin;

use distlock_core::TimeLimit;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

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

    /// The next answer, if it comes in time; none, too, if nothing is under way any more.
    pub(super) async fn next_before(&mut self, deadline: &mut TimeLimit<'_>) -> Option<T> {
        deadline.run(self.0.next()).await.flatten()
    }

    /// Finishes what is under way behind the caller's back; `hear` says what to send next.
    ///
    /// Nobody waits for it: it ends with the servers' answers, or with their connections' time-outs.
    pub(super) fn finish(mut self, mut hear: impl FnMut(T, &Self) + Send + 'static) {
        // What has come already needs no task.
        while let Some(answer) = self.next().now_or_never() {
            match answer {
                Some(answer) => hear(answer, &self),
                None => return,
            }
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
