//! A lock that somebody else gets while its holder still goes by it.

use std::time::Duration;

use crate::lockprobe::{Answer, Order, Scripted};

use super::rig::{AMPLE, Rig, until};

/// Takes the lock, and reads what it protects.
pub(super) async fn hold(probe: &mut Scripted, key: &str, ttl: Duration) -> u64 {
    let (_, token) = probe.lock(key, ttl, AMPLE).await;
    assert_eq!(probe.ask(&Order::Read).await, Answer::Read);
    token
}

/// Takes the lock that `before` had the token of, and changes what it protects.
pub(super) async fn succeed(probe: &mut Scripted, key: &str, ttl: Duration, before: u64) {
    let token = hold(probe, key, ttl).await;
    assert!(token > before, "the successor's token is {token}, after {before}");
    assert_eq!(probe.ask(&Order::Write).await, Answer::Wrote { fenced: true, unfenced: true });
}

/// Lets a holder that was succeeded write: the fence refuses it, and without a fence an update is lost.
pub(super) async fn act_late(probe: &mut Scripted) {
    assert_eq!(probe.ask(&Order::Write).await, Answer::Wrote { fenced: false, unfenced: true });
}

/// Waits until a holder knows, and lets it give back what it has not got.
pub(super) async fn be_told(rig: &Rig, probe: &mut Scripted, limit: Duration) {
    until(&format!("{}: the first holder is told", rig.cell), limit, async || {
        probe.ask(&Order::State).await == Answer::State { valid: false, lost: true }
    })
    .await;
    let answer = probe.ask(&Order::Unlock).await;
    assert_ne!(answer, Answer::Unlocked { released: true }, "it was not its own any more");
}

pub(super) async fn release(probe: &mut Scripted) {
    assert_eq!(probe.ask(&Order::Unlock).await, Answer::Unlocked { released: true });
}
