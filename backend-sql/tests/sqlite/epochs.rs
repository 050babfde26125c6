//! Deadlines across reboots, time namespaces and clocks that jump.

use std::time::Duration;

use distlock_core::{Clock, ErrorKind, LockBackend, LostReason, ManualClock, Release, Renewal};
use distlock_sql::sqlite::{Machine, ManualWallClock, SqliteBackend};

use crate::support::{MS, Place, SECOND, busy, child, claim, given, granted, request, take};

const TTL: Duration = Duration::from_secs(10);

/// A boot of the machine: its own epoch, with a clock that begins at one second.
async fn boot(place: &Place, epoch: &str) -> (SqliteBackend, ManualClock) {
    let (clock, hand) = Clock::manual();
    let machine = Machine::simulated(epoch, clock, &ManualWallClock::new());
    (SqliteBackend::connect(place.config().machine(machine)).await.unwrap(), hand)
}

#[tokio::test]
async fn a_lease_from_before_a_reboot_is_not_void_and_runs_out_after_its_ttl() {
    let place = Place::new();
    let (before, hand) = boot(&place, "boot-1").await;
    // A deadline that would look long past to the next boot's clock, and one far ahead of it.
    hand.advance(1000 * SECOND);
    let lease = take(&before, "a", TTL).await;
    before.close().await.unwrap();

    let (after, hand) = boot(&place, "boot-2").await;
    let seen = busy(after.try_lock(&request("a", TTL)).await);
    assert_eq!(seen.free_in.unwrap(), TTL, "nobody knows how much of it is left");
    hand.advance(TTL - MS);
    assert!(busy(after.try_lock(&request("a", TTL)).await).free_in.unwrap() <= MS);
    hand.advance(MS);
    assert!(take(&after, "a", TTL).await.token > lease.token);
}

#[tokio::test]
async fn a_small_deadline_of_another_boot_does_not_look_past() {
    let place = Place::new();
    let (before, _) = boot(&place, "boot-1").await;
    take(&before, "a", TTL).await;
    let (after, hand) = boot(&place, "boot-2").await;
    hand.advance(5000 * SECOND);
    assert_eq!(busy(after.try_lock(&request("a", TTL)).await).free_in.unwrap(), TTL);
}

#[tokio::test]
async fn a_holder_in_another_epoch_keeps_its_lease_by_renewing() {
    let place = Place::new();
    let (holder, holders) = boot(&place, "boot/0").await;
    let (rival, rivals) = boot(&place, "boot/1000").await;
    rivals.advance(1000 * SECOND);
    let lease = take(&holder, "a", TTL).await;
    for _ in 0..3 {
        busy(rival.try_lock(&request("a", TTL)).await);
        for hand in [&holders, &rivals] {
            hand.advance(TTL - SECOND);
        }
        assert!(matches!(holder.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    }
    busy(rival.try_lock(&request("a", TTL)).await);
    assert_eq!(holder.unlock(&lease.claim).await.unwrap(), Release::Released);
    assert!(take(&rival, "a", TTL).await.token > lease.token);
}

#[tokio::test]
async fn the_holder_of_a_stamp_that_was_moved_can_release_and_repeat() {
    let place = Place::new();
    let (holder, _) = boot(&place, "boot/0").await;
    let (rival, _) = boot(&place, "boot/1000").await;
    let request_a = request("a", TTL);
    let lease = granted(holder.try_lock(&request_a).await);
    busy(rival.try_lock(&request("a", TTL)).await);
    assert_eq!(granted(holder.try_lock(&request_a).await).token, lease.token);
    busy(rival.try_lock(&request("a", TTL)).await);
    let batch = holder.renew_many(std::slice::from_ref(&lease), TTL).await;
    assert!(matches!(batch[0], Ok(Renewal::Renewed { .. })));
    busy(rival.try_lock(&request("a", TTL)).await);
    assert_eq!(holder.unlock(&lease.claim).await.unwrap(), Release::Released);
    assert_eq!(holder.unlock(&lease.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
}

#[tokio::test]
async fn a_stamp_that_keeps_flipping_is_misconfigured_and_still_runs_out() {
    let place = Place::new();
    let (holder, _) = boot(&place, "kernel-1/0").await;
    let (rival, hand) = boot(&place, "kernel-2/0").await;
    let lease = take(&holder, "a", TTL).await;
    let mut errors = 0;
    for _ in 0..8 {
        match rival.try_lock(&request("a", TTL)).await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Misconfigured);
                assert!(error.to_string().contains("one file, several kernels"), "{error}");
                errors += 1;
            }
        }
        // The holder itself goes on undisturbed.
        assert!(matches!(holder.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    }
    assert!(errors >= 3, "{errors}");
    // The holder dies: the rival's complaint has stamped the record, so it runs out all the same.
    rival.try_lock(&request("a", TTL)).await.unwrap_err();
    hand.advance(TTL);
    assert!(take(&rival, "a", TTL).await.token > lease.token);
    // A new hold starts to count from nothing.
    holder.try_lock(&request("a", TTL)).await.unwrap();
}

#[tokio::test]
async fn a_deadline_further_away_than_the_ttl_is_cut() {
    let place = Place::new();
    let (ahead, hand) = boot(&place, "vm").await;
    hand.advance(100_000 * SECOND);
    let lease = take(&ahead, "a", TTL).await;
    // The machine was set back to a snapshot: same boot, earlier clock.
    let (back, hand) = boot(&place, "vm").await;
    assert_eq!(busy(back.try_lock(&request("a", TTL)).await).free_in.unwrap(), TTL);
    hand.advance(TTL);
    assert!(take(&back, "a", TTL).await.token > lease.token);
}

#[tokio::test]
async fn marks_of_an_earlier_boot_are_forgotten() {
    let place = Place::new();
    let (before, _) = boot(&place, "boot-1").await;
    let lease = take(&before, "a", TTL).await;
    busy(before.try_lock(&request("a", TTL).queue(true)).await);
    before.unlock(&lease.claim).await.unwrap();
    let (after, _) = boot(&place, "boot-2").await;
    take(&after, "a", TTL).await;
    assert!(place.rows("SELECT * FROM distlock_claims").await.is_empty());
}

const FILE: &str = "DISTLOCK_TEST_EPOCH_FILE";

/// Runs in another time namespace, where boot time is ahead by more than the lease's ttl.
#[tokio::test]
async fn child_in_another_time_namespace() {
    let Some(file) = given(FILE) else { return };
    let backend = SqliteBackend::connect(distlock_sql::sqlite::SqliteConfig::new(file)).await.unwrap();
    let seen = busy(backend.try_lock(&request("a", TTL)).await);
    let left = seen.free_in.unwrap();
    assert!(left > TTL - SECOND && left <= TTL, "{left:?}");
    println!("child saw the lock held for {left:?}, boot time {:?}", Clock::system().now());
}

#[tokio::test]
async fn a_time_namespace_with_shifted_boot_time_does_not_expire_a_lease() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = take(&backend, "a", TTL).await;
    let test = child("epochs::child_in_another_time_namespace", &[(FILE, place.file().to_str().unwrap())]);
    let mut unshared = std::process::Command::new("unshare");
    unshared
        .args(["--time", "--boottime", "1000000", "--fork"])
        .arg(test.get_program())
        .args(test.get_args());
    unshared.env(FILE, place.file());
    let output = tokio::task::spawn_blocking(move || unshared.output()).await.unwrap();
    match output {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("unshare") => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains("child saw"), "{text}");
        }
        refused => {
            println!("no time namespace here, an injected epoch stands in for it: {refused:?}");
            let (shifted, hand) = boot(&place, "this-boot/1000000").await;
            hand.advance(1_000_000 * SECOND);
            assert_eq!(busy(shifted.try_lock(&request("a", TTL)).await).free_in.unwrap(), TTL);
        }
    }
    assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(backend.unlock(&claim("a")).await.unwrap(), Release::NotHeld(LostReason::Stolen));
}
