//! What runs under a lock, and what operators do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use distlock::{ErrorKind, FencingToken, LockOptions, LostReason};

use crate::{PATIENCE, stores, waiting};

#[test]
fn a_body_runs_under_its_lock_and_gives_it_back() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let token = one
            .with_lock("k", |view| {
                // What blocks is allowed inside, too.
                assert!(view.is_valid() && other.try_lock("k").unwrap().is_none());
                view.token()
            })
            .unwrap();
        assert!(other.try_lock("k").unwrap().unwrap().token() > token, "on {}", one.info().name);
    }
}

#[test]
fn a_body_is_not_started_without_its_lock() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let _held = other.lock("k").unwrap();
        let options = waiting(Duration::from_millis(50));
        let error = one.with_lock_with("k", &options, |_| -> u64 { unreachable!("it is held") }).unwrap_err();
        assert!(error.is_wait_timeout(), "{error}");
        assert_eq!(one.with_lock("", |_| ()).unwrap_err().kind(), ErrorKind::InvalidKey);
    }
}

#[test]
fn a_body_that_panics_leaves_no_lock() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let panic =
            catch_unwind(AssertUnwindSafe(|| one.with_lock("k", |_| -> u64 { panic!("in the body") })));
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "in the body");
        other.lock_with("k", &waiting(PATIENCE)).unwrap().unlock().unwrap();
    }
}

#[test]
fn a_body_that_lost_its_lock_is_told() {
    let (_folder, stores) = stores();
    let options = LockOptions::default().ttl(Duration::from_millis(1500));
    for (one, other) in stores {
        let error = one
            .with_lock_with("k", &options, |view| {
                other.admin().unwrap().force_unlock(view.key()).unwrap();
                assert_eq!(view.lost_within(PATIENCE), Some(LostReason::Expired));
            })
            .unwrap_err();
        assert!(error.is_lost() && error.to_string().contains('k'), "{error}");
    }
}

#[test]
fn operators_have_the_same_calls() {
    let (_folder, stores) = stores();
    for (one, other) in stores {
        let (guard, admin) = (one.lock("jobs/1").unwrap(), other.admin().unwrap());
        let record = admin.inspect(guard.key()).unwrap().unwrap();
        assert_eq!(record.holders[0].owner, guard.owner());
        let listed = admin.list(b"jobs/", None, 10).unwrap();
        assert_eq!(listed.iter().map(|record| &record.key).collect::<Vec<_>>(), [guard.key()]);
        assert!(admin.list(b"jobs/", Some(guard.key()), 10).unwrap().is_empty());
        let floor = FencingToken::new(guard.token().get() + 1000).unwrap();
        admin.raise_token_floor(floor).unwrap();
        assert_eq!(admin.force_unlock(guard.key()).unwrap().unwrap().token, guard.token());
        assert!(other.lock_with("jobs/1", &waiting(PATIENCE)).unwrap().token() > floor);
        drop(guard);
    }
}
