//! Drops a future at a chosen await point.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Polls `future` at most `polls` times and then drops it; its output, if it was done by then.
pub(crate) async fn polled_at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    if polls == 0 {
        return None;
    }
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_is_dropped_at_the_chosen_point() {
        let two_yields = || async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            7
        };
        let mut outputs = Vec::new();
        for polls in 0..4 {
            outputs.push(polled_at_most(polls, two_yields()).await);
        }
        assert_eq!(outputs, [None, None, None, Some(7)]);
    }
}
