//! Checks that contenders of one process are served in the order in which they came.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

/// Numbers contenders in the order in which they come, and counts those served out of order.
#[derive(Debug, Default)]
pub(crate) struct Line {
    last_number: Mutex<u64>,
    highest_served: AtomicU64,
    inversions: AtomicU64,
}

impl Line {
    /// Runs `lock`, which joins its queue when first polled; returns its output and the number.
    pub(crate) async fn join<T>(&self, lock: impl Future<Output = T>) -> (u64, T) {
        let mut lock = pin!(lock);
        let mut number = 0;
        std::future::poll_fn(|context| {
            if number > 0 {
                return lock.as_mut().poll(context).map(|output| (number, output));
            }
            // Numbering and queueing as one step, or two contenders could swap between the two.
            let mut last = self.last_number.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            number = *last;
            match lock.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready((number, output)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Notes that the contender with this number holds the lock.
    pub(crate) fn served(&self, number: u64) {
        if self.highest_served.fetch_max(number, Ordering::AcqRel) > number {
            self.inversions.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn inversions(&self) -> u64 {
        self.inversions.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn numbers_rise_and_overtaking_is_counted() {
        let line = Line::default();
        let (first, ()) = line.join(async {}).await;
        let (second, ()) = line.join(tokio::task::yield_now()).await;
        assert!(first < second);
        line.served(second);
        line.served(first);
        assert_eq!(line.inversions(), 1);
    }
}
