//! The task that keeps track of which server to use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Least time between two looks at how the servers stand.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// The right to look after a link, which one task at most has, and the bell that calls it.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    is_busy: AtomicBool,
    bell: Arc<Notify>,
}

/// Has a [`Keeper`].
pub(super) trait Kept: Send + Sync + 'static {
    fn keeper(&self) -> &Keeper;

    /// Looks after the link until it is closed.
    fn keep(self: Arc<Self>) -> impl Future<Output = ()> + Send;
}

impl Keeper {
    /// Starts the task unless it runs: it ends with its runtime, and a client may outlive that.
    pub(super) fn start<K: Kept>(kept: &Arc<K>) {
        let is_busy = &kept.keeper().is_busy;
        if is_busy.load(Ordering::Relaxed) || is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let post = Post(Arc::clone(kept));
        #[expect(
            clippy::disallowed_methods,
            reason = "one task a backend follows the servers, whatever becomes of single calls; it ends when the link is closed"
        )]
        tokio::spawn(async move { Arc::clone(&post.0).keep().await });
    }

    /// Something changed, or may have: the task had better look.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// The same, from where no keeper is at hand.
    pub(super) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Waits until it is called, `most` at most, though never for less than a short pause.
    pub(super) async fn rest(&self, most: Duration) {
        tokio::time::sleep(LEAST_PAUSE).await;
        tokio::select! {
            () = self.bell.notified() => {}
            () = tokio::time::sleep(most) => {}
        }
    }
}

/// Rings unless the call it belongs to got an answer that shows the right server at work: failed
/// calls ring, and so do dropped ones.
#[derive(Debug)]
pub(super) struct Doubt<'a>(Option<&'a Keeper>);

impl<'a> Doubt<'a> {
    pub(super) const fn new(keeper: &'a Keeper) -> Self {
        Self(Some(keeper))
    }

    pub(super) fn dispel(mut self) {
        self.0 = None;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(keeper) = self.0 {
            keeper.ring();
        }
    }
}

struct Post<K: Kept>(Arc<K>);

impl<K: Kept> Drop for Post<K> {
    fn drop(&mut self) {
        self.0.keeper().is_busy.store(false, Ordering::Release);
    }
}
