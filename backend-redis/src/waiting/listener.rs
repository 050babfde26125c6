//! The task that listens.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::Backoff;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, RedisResult, Value};

use super::{Waiting, message};
use crate::connection::{Failure, Pushes};

/// How often the listener asks whether its connection still leads somewhere.
const PING_EVERY: Duration = Duration::from_secs(5);
/// After so many pings with nobody waiting, it ends.
const IDLE_PINGS: u32 = 12;

/// Listens until nobody has waited for a while, or the backend is closed.
pub(super) async fn run(waiting: &Arc<Waiting>) {
    let mut pause = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    while !waiting.hub.is_closed() {
        if let Ok(connection) = subscribe(waiting).await {
            pause.reset();
            waiting.hub.listens();
            let ended = serve(waiting, connection).await;
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

async fn subscribe(waiting: &Arc<Waiting>) -> Result<MultiplexedConnection, Failure> {
    let hears = Arc::clone(waiting);
    let pushes: Pushes = Arc::new(move |push| receive(&hears, push));
    let mut connection = waiting.store.link.listen(pushes).await?;
    connection.subscribe(waiting.store.names.channel()).await.map_err(Failure::unsent)?;
    Ok(connection)
}

/// Stays with one connection; true if nobody needs it any more.
async fn serve(waiting: &Arc<Waiting>, mut connection: MultiplexedConnection) -> bool {
    let mut idle = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PING_EVERY) => {}
            () = waiting.attention.notified() => {}
        }
        if waiting.hub.is_closed() {
            return true;
        }
        idle = if waiting.hub.was_used() { 0 } else { idle + 1 };
        if idle >= IDLE_PINGS {
            return true;
        }
        let answer: RedisResult<Value> = redis::cmd("PING").query_async(&mut connection).await;
        if answer.is_err() {
            return false;
        }
    }
}

fn receive(waiting: &Waiting, push: PushInfo) {
    match (push.kind, push.data.as_slice()) {
        (PushKind::Message, [_channel, Value::BulkString(message)]) => {
            if let Some(whom) = message::read(message) {
                waiting.hub.released(whom);
            }
        }
        // The listener finds out at its next ping, which it does at once.
        (PushKind::Disconnection, _) => waiting.attention.notify_one(),
        _ => {}
    }
}
