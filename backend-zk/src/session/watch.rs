//! Waiting for a node's change.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;
use zookeeper_client::{EventType, OneshotWatcher};

use super::link::Link;

/// What a watch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The node is gone.
    Gone,
    /// The node changed.
    Changed,
    /// The connection or the session changed, so that anything may have happened.
    Unsure,
}

/// One node's watch, which sees one event. Dropping it takes it off.
pub(crate) struct Watch(Pin<Box<dyn Future<Output = Event> + Send>>);

impl Watch {
    pub(super) fn new(watcher: OneshotWatcher, link: &Link) -> Self {
        let mut cuts = link.cuts();
        // The client crate panics where the connection's task was dropped together with its runtime.
        let seen = AssertUnwindSafe(watcher.changed()).catch_unwind();
        Self(Box::pin(async move {
            tokio::select! {
                biased;
                _ = cuts.wait_for(|is_cut| *is_cut) => Event::Unsure,
                seen = seen => match seen.map(|event| event.event_type) {
                    Ok(EventType::NodeDeleted) => Event::Gone,
                    Ok(EventType::Session) | Err(_) => Event::Unsure,
                    Ok(_) => Event::Changed,
                },
            }
        }))
    }

    /// Waits for the event.
    ///
    /// # Cancel safety
    /// May be polled through a reference; once it has given its event it must not be asked again.
    pub(crate) async fn event(&mut self) -> Event {
        (&mut self.0).await
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
