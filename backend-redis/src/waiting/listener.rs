//! The task that listens.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::Backoff;
use redis::{PushInfo, PushKind, Value};

use super::{Waiting, message};
use crate::connection::{Failure, Pushes, Subscription};

/// How often the listener asks whether its connection still leads somewhere.
const PING_EVERY: Duration = Duration::from_secs(5);
/// After so many pings with nobody waiting, it ends.
const IDLE_PINGS: u32 = 12;

/// Listens until nobody has waited for a while, or the backend is closed.
pub(super) async fn run(waiting: &Arc<Waiting>) {
    let mut pause = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    while !waiting.hub.is_closed() {
        if let Ok(subscription) = subscribe(waiting).await {
            pause.reset();
            waiting.hub.listens();
            let ended = serve(waiting, subscription).await;
            waiting.hub.disconnected();
            if ended {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause.pause()) => {}
            () = waiting.attention.notified() => {}
        }
        if waiting.hub.is_idle() {
            return;
        }
    }
}

async fn subscribe(waiting: &Arc<Waiting>) -> Result<Box<dyn Subscription>, Failure> {
    let hears = Arc::clone(waiting);
    let pushes: Pushes = Arc::new(move |push| receive(&hears, push));
    waiting.store.link.subscribe(&waiting.store.names, pushes).await
}

/// Stays with one subscription; true if nobody needs it any more.
async fn serve(waiting: &Arc<Waiting>, mut subscription: Box<dyn Subscription>) -> bool {
    let mut idle = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PING_EVERY) => {}
            () = waiting.attention.notified() => {}
            () = subscription.outdated() => return false,
        }
        if waiting.hub.is_closed() {
            return true;
        }
        idle = if waiting.hub.was_used() { 0 } else { idle + 1 };
        if idle >= IDLE_PINGS {
            return true;
        }
        if !subscription.is_alive().await {
            return false;
        }
    }
}

fn receive(waiting: &Waiting, push: PushInfo) {
    match (push.kind, push.data.as_slice()) {
        (PushKind::Message | PushKind::SMessage, [_channel, Value::BulkString(message)]) => {
            if let Some(whom) = message::read(message) {
                waiting.hub.released(whom);
            }
        }
        // The listener finds out at its next ping, which it does at once.
        (PushKind::Disconnection | PushKind::SUnsubscribe, _) => waiting.attention.notify_one(),
        _ => {}
    }
}
