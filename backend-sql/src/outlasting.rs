//! Calls that go on when their caller is gone.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A call that runs in its caller's task, and goes on in one of its own if the caller is dropped
/// midway: the driver can't bear to be stopped between the parts of a statement.
///
/// The call has to end by itself within bounded time. One that was not begun is not begun either.
#[must_use]
pub(crate) struct Outlasting<T: Send + 'static> {
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    is_begun: bool,
}

impl<T: Send + 'static> Outlasting<T> {
    pub(crate) fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self { call: Some(Box::pin(call)), is_begun: false }
    }
}

impl<T: Send + 'static> Future for Outlasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.is_begun = true;
        // Nobody polls a future that has ended.
        let Some(call) = self.call.as_mut() else { return Poll::Pending };
        let polled = call.as_mut().poll(context);
        if polled.is_ready() {
            self.call = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Outlasting<T> {
    fn drop(&mut self) {
        let Some(call) = self.call.take_if(|_| self.is_begun) else { return };
        // Without a runtime nothing can go on; the connection is closed then.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { drop(call.await) });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Outlasting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlasting").field("is_begun", &self.is_begun).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_dropped_call_goes_on_and_one_not_begun_does_not_begin() {
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let call = || {
            let (go, done) = (Arc::clone(&go), Arc::clone(&done));
            Outlasting::new(async move {
                go.notified().await;
                done.notify_one();
            })
        };
        drop(call());
        let mut begun = call();
        assert!((&mut begun).now_or_never().is_none());
        drop(begun);
        go.notify_one();
        done.notified().await;
        go.notify_one();
        assert!(done.notified().now_or_never().is_none(), "the other one was never begun");
    }
}
