//! F08 and F09: wall clocks that jump.

use std::time::Duration;

use crate::grid::{Class, Store, faults};
use crate::lockprobe::{Answer, Order, Scripted};
use crate::{ServiceSet, Surroundings, WallClock};

use super::rig::{AMPLE, Harm, Rig};
use super::usurping::{act_late, be_told, hold, release, succeed};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const TTL: Duration = Duration::from_secs(1);
/// Shorter than a jump.
const LONG: Duration = Duration::from_secs(20);
const JUMP: i64 = 60;

/// A client whose clock jumps lives through the same as one whose clock does not.
pub(super) async fn clients(rig: Rig) {
    let clock = WallClock::new().expect("a clock can be made");
    let (_set, url) = rig.unhurt().await;
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let mut one = rig.probe_under(&clock, &url).await;
    // A store in memory is each process's own.
    let mut two = if rig.store == Store::Memory { None } else { Some(rig.probe(&url).await) };
    let still = trace(&rig, &mut one, two.as_mut(), |_| ()).await;
    let right = wall_clock();
    clock.step(HOUR);
    let shown = one.wall_clock().await;
    assert!(shown > right + 3_500_000, "{}: void, since the clock did not move", rig.cell);
    clock.step(-HOUR);
    let moved = trace(&rig, &mut one, two.as_mut(), |seconds| clock.step(seconds)).await;
    assert_eq!(moved, still, "{}: a moved clock made a difference", rig.cell);
    let recovery = rig.recover([Some(one), two].into_iter().flatten().collect(), TTL).await;
    rig.judge(&info, "a preloaded library moves a client's wall clock by an hour", Harm::None, recovery);
}

/// The same where the store's clock is that of its clients.
pub(super) async fn everybody(rig: Rig) {
    let clock = WallClock::new().expect("a clock can be made");
    let (_set, url) = rig.unhurt().await;
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let mut one = rig.probe_under(&clock, &url).await;
    let mut two = if rig.store == Store::Memory { None } else { Some(rig.probe_under(&clock, &url).await) };
    let still = trace(&rig, &mut one, two.as_mut(), |_| ()).await;
    let moved = trace(&rig, &mut one, two.as_mut(), |hours| clock.step(hours * 24)).await;
    assert_eq!(moved, still, "{}: a moved clock made a difference", rig.cell);
    let recovery = rig.recover([Some(one), two].into_iter().flatten().collect(), TTL).await;
    rig.judge(&info, "a preloaded library moves all wall clocks by a day", Harm::None, recovery);
}

/// What two clients see of a lock that goes from one to the other, while the clock jumps forward and back.
async fn trace(
    rig: &Rig,
    one: &mut Scripted,
    mut two: Option<&mut Scripted>,
    step: impl Fn(i64),
) -> Vec<&'static str> {
    let key = rig.key();
    let mut seen = Vec::new();
    for seconds in [HOUR, -2 * HOUR, HOUR] {
        seen.push(told(&one.ask(&Scripted::lock_order(&key, TTL, AMPLE)).await));
        step(seconds);
        // It lives on renewals by then.
        tokio::time::sleep(TTL * 2).await;
        seen.push(told(&one.ask(&Order::State).await));
        if let Some(two) = two.as_deref_mut() {
            seen.push(told(&two.ask(&Scripted::lock_order(&key, TTL, Duration::ZERO)).await));
        }
        seen.push(told(&one.ask(&Order::Unlock).await));
        if let Some(two) = two.as_deref_mut() {
            seen.push(told(&two.ask(&Scripted::lock_order(&key, TTL, AMPLE)).await));
            seen.push(told(&one.ask(&Scripted::lock_order(&key, TTL, Duration::ZERO)).await));
            seen.push(told(&two.ask(&Order::Unlock).await));
        }
    }
    seen
}

/// An answer without its numbers.
fn told(answer: &Answer) -> &'static str {
    match answer {
        Answer::Held { .. } => "held",
        Answer::Busy => "busy",
        Answer::State { valid: true, lost: false } => "valid",
        Answer::State { .. } => "lost",
        Answer::Unlocked { released: true } => "released",
        Answer::Unlocked { released: false } => "not held",
        other => panic!("{other:?}"),
    }
}

/// The servers' clocks jump forward by more than a ttl, and back by a day.
pub(super) async fn servers(rig: Rig) {
    let clock = WallClock::new().expect("a clock can be made");
    let set =
        ServiceSet::up_in(&Surroundings::under(&clock), &[rig.group()]).await.expect("the servers start");
    let url = rig.options_of(set.url(rig.group()));
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let row = faults().into_iter().find(|row| row.id == "F09").expect("a cell belongs to a row");
    let breaks = row.class(rig.store) == Class::Fenced;
    let (mut one, mut two) = (rig.probe(&url).await, rig.probe(&url).await);
    let key = rig.key();
    // Longer than a lock takes to change hands.
    let long = if rig.store == Store::Redlock { Rig::HOLD_OFF / 3 } else { LONG };

    rig.until_it_grants(&url).await;
    let token = hold(&mut one, &key, long).await;
    clock.step(JUMP);
    if breaks {
        // It renews much later than the first, so that nothing of its own falls into the first's hold.
        succeed(&mut two, &key, long * 3, token).await;
        act_late(&mut one).await;
        be_told(&rig, &mut one, long + AMPLE).await;
        release(&mut two).await;
    } else {
        let answer = two.ask(&Scripted::lock_order(&key, TTL, TTL * 2)).await;
        assert_eq!(answer, Answer::Busy, "{}: a jump of the clock ended a lease", rig.cell);
        assert_eq!(one.ask(&Order::State).await, Answer::State { valid: true, lost: false });
        release(&mut one).await;
    }
    // A lease that ends must not last until the clock has come there again.
    let token = hold(&mut one, &key, TTL).await;
    one.pause();
    clock.step(-DAY);
    rig.until_it_grants(&url).await;
    succeed(&mut two, &key, TTL, token).await;
    one.resume();
    release(&mut two).await;
    be_told(&rig, &mut one, TTL + AMPLE).await;
    let recovery = rig.recover(vec![one, two], TTL).await;
    let harm = if breaks { Harm::Overlapped } else { Harm::None };
    rig.judge(&info, "a preloaded library moves the servers' wall clocks", harm, recovery);
    set.down().await;
}

fn wall_clock() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is long before the year 500 million")
}
