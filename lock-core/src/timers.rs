//! Time limits that cost little.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

/// So many timers are kept for the next operations.
const KEPT: usize = 64;

/// Time limits for many short operations, of which hardly any reaches its limit.
///
/// A timer that starts takes the lock of the runtime's timers and may wake the thread that watches
/// them; so does one that is dropped. For an operation of some microseconds that is much. The timers
/// here go on running after their operation, and the next one only puts their end off, which
/// takes neither. One that nobody uses any more runs out once and stays quiet.
#[derive(Debug, Default)]
pub struct Timers {
    idle: Mutex<Vec<Timer>>,
}

/// A timer works only in the runtime that it was made in.
#[derive(Debug)]
struct Timer {
    runtime: Id,
    sleep: Pin<Box<Sleep>>,
}

impl Timers {
    /// No timers yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }

    /// Runs an operation for at most `limit`, counted from when it first had to wait; `None` when
    /// that is over first, with the operation dropped.
    ///
    /// # Cancel safety
    /// That of the operation.
    ///
    /// # Panics
    /// Outside a tokio runtime with timers, if the operation has to wait.
    pub fn limit<F: Future>(&self, limit: Duration, operation: F) -> impl Future<Output = Option<F::Output>> {
        Limited { operation, running: Running { timers: self, timer: None }, limit }
    }

    /// A limit that several operations in a row share, counted from when the first of them had to wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// let timers = distlock_core::Timers::new();
    /// let mut limit = timers.shared_limit(Duration::from_millis(30));
    /// let pause = || Box::pin(tokio::time::sleep(Duration::from_millis(20)));
    /// assert_eq!(limit.run(pause()).await, Some(()));
    /// assert_eq!(limit.run(pause()).await, None);
    /// # }
    /// ```
    #[must_use]
    pub const fn shared_limit(&self, limit: Duration) -> TimeLimit<'_> {
        TimeLimit { running: Running { timers: self, timer: None }, limit }
    }

    fn take(&self, limit: Duration) -> Timer {
        let runtime = Handle::current().id();
        let kept = {
            let mut idle = self.idle();
            idle.iter().rposition(|timer| timer.runtime == runtime).map(|at| idle.swap_remove(at))
        };
        match kept {
            Some(mut timer) => {
                timer.sleep.as_mut().reset(Instant::now() + limit);
                timer
            }
            None => Timer { runtime, sleep: Box::pin(sleep(limit)) },
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Timer>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A limit that several operations in a row share: [`Timers::shared_limit`].
#[derive(Debug)]
pub struct TimeLimit<'a> {
    running: Running<'a>,
    limit: Duration,
}

impl TimeLimit<'_> {
    /// Runs an operation until the limit; `None` when that is over first, with the operation dropped.
    ///
    /// # Cancel safety
    /// That of the operation.
    ///
    /// # Panics
    /// As [`Timers::limit`].
    pub async fn run<F: Future + Unpin>(&mut self, mut operation: F) -> Option<F::Output> {
        poll_fn(|context| match Pin::new(&mut operation).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.running.poll(self.limit, context).map(|()| None),
        })
        .await
    }
}

pin_project! {
    /// An operation with its limit. As an `async fn` this would have room for the operation twice, and what is large is
    /// copied on its way to where it runs.
    struct Limited<'a, F> {
        #[pin]
        operation: F,
        running: Running<'a>,
        limit: Duration,
    }
}

impl<F: Future> Future for Limited<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.operation.poll(context) {
            return Poll::Ready(Some(output));
        }
        // Not before: a store inside the process answers at once, in less time than a timer takes.
        this.running.poll(*this.limit, context).map(|()| None)
    }
}

/// The timer of an operation that had to wait.
#[derive(Debug)]
struct Running<'a> {
    timers: &'a Timers,
    timer: Option<Timer>,
}

impl Running<'_> {
    fn poll(&mut self, limit: Duration, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| self.timers.take(limit));
        // Outside the task's budget, which the operation may have used up.
        pin!(unconstrained(timer.sleep.as_mut())).poll(context)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            let mut idle = self.timers.idle();
            if idle.len() < KEPT {
                idle.push(timer);
            } else if let Some(other) = idle.iter_mut().find(|kept| kept.runtime != timer.runtime) {
                // Its runtime may be over: then it would take up the room for ever.
                *other = timer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_operation_has_its_own_limit() {
        let timers = Timers::new();
        let begun = Instant::now();
        for millis in [300, 500, 20, 20, 1000] {
            let limit = Duration::from_millis(millis);
            let called = Instant::now();
            assert_eq!(timers.limit(limit, pending::<()>()).await, None);
            assert!((limit..=limit + Duration::from_millis(2)).contains(&called.elapsed()), "{millis}");
            assert_eq!(timers.limit(limit, sleep(limit / 2)).await, Some(()));
        }
        assert!(begun.elapsed() >= Duration::from_millis(2760));
        assert_eq!(timers.idle().len(), 1, "one timer served all");
    }

    #[tokio::test(start_paused = true)]
    async fn operations_in_a_row_share_a_limit_and_a_timer() {
        let timers = Timers::new();
        let mut limit = timers.shared_limit(Duration::from_millis(50));
        assert_eq!(limit.run(Box::pin(sleep(Duration::from_millis(20)))).await, Some(()));
        assert!(timers.idle().is_empty(), "the timer is kept for the next operation");
        assert_eq!(limit.run(Box::pin(sleep(Duration::from_millis(20)))).await, Some(()));
        assert_eq!(limit.run(pending::<()>()).await, None);
        assert_eq!(limit.run(pending::<()>()).await, None, "it stays over");
        assert_eq!(limit.run(ready(7)).await, Some(7));
        drop(limit);
        assert_eq!(timers.idle().len(), 1);
    }

    #[tokio::test]
    async fn an_operation_that_need_not_wait_takes_no_timer() {
        let timers = Timers::new();
        assert_eq!(timers.limit(Duration::ZERO, ready(7)).await, Some(7));
        assert!(timers.idle().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn operations_at_once_do_not_share_a_timer_and_few_are_kept() {
        let timers = Timers::new();
        let limit = |n: usize| Duration::from_millis(n as u64 % 7 + 1);
        let all = (0..KEPT * 2).map(|n| timers.limit(limit(n), pending::<()>()));
        assert!(futures_util::future::join_all(all).await.iter().all(Option::is_none));
        assert_eq!(timers.idle().len(), KEPT);
    }

    #[test]
    fn timers_of_runtimes_that_are_over_make_room() {
        let timers = Timers::new();
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let tick = Duration::from_millis(1);
            let all = (0..KEPT).map(|_| timers.limit(tick, pending::<()>()));
            assert!(runtime.block_on(futures_util::future::join_all(all)).iter().all(Option::is_none));
            let id = runtime.handle().id();
            assert!(timers.idle().iter().all(|timer| timer.runtime == id), "those of the last one are kept");
            assert_eq!(timers.idle().len(), KEPT);
        }
    }

    #[test]
    fn a_timer_stays_in_its_runtime() {
        let timers = Timers::new();
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let tick = Duration::from_millis(1);
            assert_eq!(runtime.block_on(timers.limit(tick, pending::<()>())), None);
        }
        assert_eq!(timers.idle().len(), 2);
    }
}
