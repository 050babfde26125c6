//! The task that listens.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{Backoff, LockKey};

use super::pushed::Pushed;
use crate::server::connections::within;
use crate::server::error::Trouble;

/// How often the listener asks whether its connection still leads somewhere.
const PING_EVERY: Duration = Duration::from_secs(5);
/// How long it waits for the answer.
const PING_MOST: Duration = Duration::from_secs(2);
/// After so many pings with nobody waiting, it ends.
const IDLE_PINGS: u32 = 12;

/// A connection that hears of releases.
#[async_trait]
pub(crate) trait Listener: Debug + Send {
    /// The next message. May be dropped at any point without losing one.
    async fn next(&mut self) -> Result<String, Trouble>;

    /// Whether the connection still leads somewhere. To be polled to its end.
    async fn ping(&mut self) -> Result<(), Trouble>;
}

/// Listens until nobody has waited for a while, or the backend is closed.
pub(super) async fn run(pushed: &Pushed) {
    let mut pause = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    while !pushed.hub.waiters.is_closed() {
        if let Ok(listener) = pushed.store.calls.listen(&pushed.store.channel).await {
            pause.reset();
            pushed.hub.listens();
            let ended = serve(pushed, listener).await;
            pushed.hub.disconnected();
            if ended {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause.pause()) => {}
            () = pushed.attention.notified() => {}
        }
        if pushed.hub.waiters.is_empty() {
            return;
        }
    }
}

/// Stays with one connection; true if nobody needs it any more.
async fn serve(pushed: &Pushed, mut listener: Box<dyn Listener>) -> bool {
    let mut idle = 0;
    loop {
        tokio::select! {
            message = listener.next() => {
                match message {
                    Ok(message) => {
                        if let Some(key) = key_of(&message) {
                            pushed.hub.released(&key);
                        }
                        continue;
                    }
                    Err(_) => return false,
                }
            }
            () = tokio::time::sleep(PING_EVERY) => {}
            () = pushed.attention.notified() => {}
        }
        let waiters = &pushed.hub.waiters;
        if waiters.is_closed() {
            return true;
        }
        let was_used = waiters.take_new() || !waiters.is_empty();
        idle = if was_used { 0 } else { idle + 1 };
        if idle >= IDLE_PINGS {
            return true;
        }
        if within(PING_MOST, listener.ping()).await.is_none_or(|answer| answer.is_err()) {
            return false;
        }
    }
}

/// The key that a message names, as hexadecimal digits.
fn key_of(message: &str) -> Option<LockKey> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = message
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    LockKey::new(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_keys() {
        assert_eq!(key_of("61ff00"), Some(LockKey::new(b"a\xff\0").unwrap()));
        for strange in ["", "6", "6g", "  ", "é1"] {
            assert_eq!(key_of(strange), None, "{strange}");
        }
    }
}
