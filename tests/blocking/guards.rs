//! Locks and their guards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use distlock::blocking::{self, LockClient};
use distlock::{ErrorKind, LockOptions, LockState, LostReason, MemoryBackend, Release, RenewPolicy};

use crate::{PATIENCE, stores, until, waiting};

#[test]
fn threads_exclude_each_other_and_tokens_rise() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let (count, token) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..8 {
                let client = if number % 2 == 0 { one.clone() } else { other.clone() };
                let (count, token) = (&count, &token);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let guard = client.lock("k").unwrap();
                        // Two steps, between which nobody else may come.
                        let before = count.load(Ordering::Relaxed);
                        assert!(token.swap(guard.token().get(), Ordering::Relaxed) < guard.token().get());
                        thread::yield_now();
                        count.store(before + 1, Ordering::Relaxed);
                        assert_eq!(guard.unlock().unwrap(), Release::Released);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 160, "on {}", one.info().name);
    }
}

#[test]
fn a_busy_lock_is_told_as_by_the_asynchronous_client() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let guard = one.lock("k").unwrap();
        assert!(other.try_lock("k").unwrap().is_none());
        let error = other.lock_with("k", &waiting(Duration::from_millis(50))).unwrap_err();
        assert!(error.is_wait_timeout(), "{error}");
        assert_eq!(error.busy().unwrap().holder.as_ref().unwrap().owner, guard.owner());
        assert_eq!(other.lock("").unwrap_err().kind(), ErrorKind::InvalidKey);
        guard.unlock().unwrap();
        assert!(other.try_lock("k").unwrap().is_some());
    }
}

#[test]
fn a_guard_may_be_dropped_by_another_thread() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let guard = one.lock("k").unwrap();
        thread::spawn(move || drop(guard)).join().unwrap();
        let next = other.lock_with("k", &waiting(PATIENCE)).unwrap();
        assert!(next.remaining() > Duration::ZERO);
    }
}

#[test]
fn renewal_goes_on_while_all_threads_are_blocked() {
    let (_folder, stores) = stores();
    let ttl = Duration::from_millis(1500);
    for (one, other) in stores {
        let guard = one.lock_with("k", &LockOptions::default().ttl(ttl)).unwrap();
        let end = guard.valid_until().plus(ttl);
        until("renewals past the first lease", || guard.valid_until() > end);
        assert_eq!(guard.state(), LockState::Held);
        assert!(other.try_lock("k").unwrap().is_none());
    }
}

#[test]
fn a_guard_lives_on_without_its_client() {
    let (_folder, stores) = stores();
    let options = LockOptions::default().ttl(Duration::from_millis(1500));
    for (one, other) in stores {
        let guard = one.lock_with("k", &options).unwrap();
        drop((one, other));
        let granted = guard.valid_until();
        until("a renewal", || guard.valid_until() > granted);
        assert_eq!(guard.unlock().unwrap(), Release::Released);
    }
}

#[test]
fn a_store_that_falls_silent_costs_the_lock_in_time() {
    let store = Arc::new(MemoryBackend::new());
    let backend = Arc::clone(&store);
    let client = LockClient::open(async { Ok(distlock::LockClient::new(backend)) }).unwrap();
    let guard = client.lock_with("k", &LockOptions::default().ttl(Duration::from_secs(3))).unwrap();
    assert_eq!(guard.lost_within(Duration::from_millis(10)), None);
    let view = guard.view();
    let watcher = thread::spawn(move || {
        let mut seen = vec![view.state()];
        while seen.last().is_some_and(|state| state.is_valid()) {
            seen.push(view.state_changed(seen[seen.len() - 1]));
        }
        (seen, view.lost())
    });
    store.faults().silence(true);
    assert_eq!(guard.lost(), LostReason::Unreachable);
    assert!(!guard.is_valid());
    assert_eq!(guard.state_changed(guard.state()), LockState::Lost(LostReason::Unreachable));
    let (seen, reason) = watcher.join().unwrap();
    assert!(seen.contains(&LockState::Jeopardy), "a warning comes first: {seen:?}");
    assert_eq!(reason, Some(LostReason::Unreachable));
    assert_eq!(guard.renew().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.unlock().unwrap(), Release::NotHeld(LostReason::Unreachable));
}

#[test]
fn a_lock_that_is_taken_away_is_told() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let guard = one.lock_with("k", &LockOptions::default().ttl(Duration::from_millis(1500))).unwrap();
        let victim = other.admin().unwrap().force_unlock(guard.key()).unwrap();
        assert_eq!(victim.unwrap().owner, guard.owner());
        assert_eq!(guard.lost_within(PATIENCE), Some(LostReason::Expired));
        assert!(other.lock_with("k", &waiting(PATIENCE)).unwrap().token() > guard.token());
    }
}

#[test]
fn whoever_waits_for_a_loss_learns_of_the_release() {
    let (_folder, stores) = stores();
    for (one, _other) in stores {
        let guard = one.lock("k").unwrap();
        let view = guard.view();
        assert_eq!(view.lost_within(Duration::from_millis(1)), None);
        assert!(view.is_valid() && view.key() == guard.key() && view.token() == guard.token());
        let watcher = thread::spawn(move || (view.lost(), view.state()));
        guard.unlock().unwrap();
        assert_eq!(watcher.join().unwrap(), (None, LockState::Released));
    }
}

#[test]
fn a_view_outlives_all_that_it_looks_at() {
    let client = blocking::connect("memory:").unwrap();
    let view = client.lock("k").unwrap().view();
    drop(client);
    assert_eq!((view.lost(), view.lost_within(PATIENCE)), (None, None));
    assert_eq!(view.state_changed(LockState::Held), LockState::Released);
    assert_eq!(view.state_changed(LockState::Released), LockState::Released);
}

#[test]
fn a_lease_passes_from_guard_to_guard() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let guard = one.lock("k").unwrap();
        let (owner, token) = (guard.owner(), guard.token());
        let lease = guard.into_lease();
        assert!(one.try_lock("k").unwrap().is_none(), "nobody gave it back");
        let adopted = other.adopt(lease.clone()).unwrap();
        assert_eq!((adopted.owner(), adopted.token()), (owner, token));
        assert_eq!(adopted.unlock().unwrap(), Release::Released);
        assert_eq!(other.adopt(lease).unwrap_err().kind(), ErrorKind::Lost);
    }
}

#[test]
fn the_holder_may_renew_by_itself() {
    let client = blocking::connect("memory:").unwrap();
    let guard = client.lock_with("k", &LockOptions::default().renew(RenewPolicy::Manual)).unwrap();
    let granted = guard.valid_until();
    guard.renew().unwrap();
    assert!(guard.valid_until() > granted);
}

#[test]
fn shutdown_sends_waiters_away_and_gives_everything_back() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let guard = one.lock("k").unwrap();
        let waiter = one.clone();
        let waiter = thread::spawn(move || waiter.lock("k").unwrap_err().kind());
        let view = guard.view();
        let watcher = thread::spawn(move || view.lost());
        assert!(one.shutdown(PATIENCE).is_empty());
        assert_eq!(waiter.join().unwrap(), ErrorKind::Shutdown);
        assert_eq!(watcher.join().unwrap(), Some(LostReason::Shutdown));
        assert_eq!(guard.unlock().unwrap(), Release::NotHeld(LostReason::Shutdown));
        assert_eq!(one.lock("k").unwrap_err().kind(), ErrorKind::Shutdown);
        if other.info().name != "memory" {
            assert!(other.try_lock("k").unwrap().is_some(), "it was given back");
        }
    }
}
