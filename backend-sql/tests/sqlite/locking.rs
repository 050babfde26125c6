//! Taking, keeping and giving back.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Busy, Claim, Clock, ErrorKind, LockBackend, LockClient, LockKey, LockRequest, LostReason, Metadata,
    Release, Renewal, TryLock,
};
use distlock_sql::sqlite::{Machine, ManualWallClock, SqliteBackend};

use crate::support::{MS, Place, SECOND, busy, claim, granted, now, queued, request, take};

#[tokio::test]
async fn one_holder_at_a_time_and_tokens_rise() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    let first = take(&one, "a", 10 * SECOND).await;
    let seen: Busy = busy(other.try_lock(&request("a", SECOND)).await);
    let holder = seen.holder.unwrap();
    assert_eq!((holder.owner, holder.token), (first.claim.owner, first.token));
    assert!(seen.free_in.unwrap() <= 10 * SECOND && seen.free_in.unwrap() > 9 * SECOND);
    assert_eq!(one.unlock(&first.claim).await.unwrap(), Release::Released);
    let second = take(&other, "a", SECOND).await;
    assert!(second.token > first.token);
    assert_eq!(one.unlock(&first.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
}

#[tokio::test]
async fn the_uncontended_ways_are_one_statement_each() {
    let place = Place::new();
    let backend = place.open().await;
    for _ in 0..3 {
        let before = backend.commands_sent().unwrap();
        let lease = take(&backend, "a", 10 * SECOND).await;
        assert_eq!(backend.commands_sent().unwrap() - before, 1, "try_lock");
        assert!(matches!(backend.renew(&lease, 10 * SECOND).await.unwrap(), Renewal::Renewed { .. }));
        assert_eq!(backend.commands_sent().unwrap() - before, 2, "renew");
        let next = granted(backend.hand_over(&lease, &request("a", SECOND)).await);
        assert_eq!(backend.commands_sent().unwrap() - before, 3, "hand_over");
        assert_eq!(backend.unlock(&next.claim).await.unwrap(), Release::Released);
        assert_eq!(backend.commands_sent().unwrap() - before, 4, "unlock");
    }
}

#[tokio::test]
async fn repeating_an_attempt_gives_the_same_grant_even_past_waiters() {
    let place = Place::new();
    let backend = place.open().await;
    let request = request("a", SECOND).metadata(Metadata::new([("job", "x")]).unwrap());
    let first = granted(backend.try_lock(&request).await);
    busy(backend.try_lock(&queued("a", SECOND)).await);
    let mut longer = request.clone();
    longer.ttl = 10 * SECOND;
    let again = granted(backend.try_lock(&longer.queue(true)).await);
    assert_eq!(again.token, first.token);
    assert!(again.valid_until > first.valid_until);
    let seen = busy(backend.try_lock(&queued("a", SECOND)).await);
    assert!(seen.free_in.unwrap() > 9 * SECOND);
    assert_eq!(seen.holder.unwrap().metadata.get("job").unwrap(), "x");
}

#[tokio::test]
async fn a_lease_runs_out_late_never_early() {
    let place = Place::new();
    let backend = place.open().await;
    let ttl = 120 * MS;
    let first = take(&backend, "a", ttl).await;
    let second = loop {
        if let TryLock::Acquired(lease) = backend.try_lock(&request("a", SECOND)).await.unwrap() {
            break lease;
        }
        tokio::time::sleep(MS).await;
    };
    // What a grant gives that is sent at the very moment at which the first could not rely on it any more.
    let earliest = second.margin.valid_until(first.valid_until, second.ttl);
    assert!(second.valid_until >= earliest, "granted while the first could rely on it");
    assert!(second.token > first.token);
    assert_eq!(backend.renew(&first, ttl).await.unwrap(), Renewal::Lost(LostReason::Stolen));
}

#[tokio::test]
async fn renewal_never_shortens_revives_or_takes_over() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = take(&backend, "a", 10 * SECOND).await;
    assert!(matches!(backend.renew(&lease, SECOND).await.unwrap(), Renewal::Renewed { .. }));
    assert!(busy(backend.try_lock(&request("a", SECOND)).await).free_in.unwrap() > 9 * SECOND);

    backend.unlock(&lease.claim).await.unwrap();
    assert_eq!(backend.renew(&lease, SECOND).await.unwrap(), Renewal::Lost(LostReason::Expired));
    let next = take(&backend, "a", SECOND).await;
    assert_eq!(backend.renew(&lease, SECOND).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    assert!(matches!(backend.renew(&next, SECOND).await.unwrap(), Renewal::Renewed { .. }));

    // Over, though nobody took it: it stays over, and the same claim gets a higher token.
    let short = request("b", 50 * MS);
    let over = granted(backend.try_lock(&short).await);
    tokio::time::sleep(60 * MS).await;
    assert_eq!(backend.renew(&over, SECOND).await.unwrap(), Renewal::Lost(LostReason::Expired));
    assert!(granted(backend.try_lock(&short).await).token > over.token);
    assert_eq!(backend.renew(&over, SECOND).await.unwrap(), Renewal::Lost(LostReason::Expired));
}

#[tokio::test]
async fn unlocking_says_whether_it_was_held() {
    let place = Place::new();
    let backend = place.open().await;
    assert_eq!(backend.unlock(&claim("never")).await.unwrap(), Release::NotHeld(LostReason::Expired));
    let short = take(&backend, "a", 50 * MS).await;
    tokio::time::sleep(60 * MS).await;
    assert_eq!(backend.unlock(&short.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
    let lease = take(&backend, "a", SECOND).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
}

#[tokio::test]
async fn b099_every_two_different_keys_are_two_locks() {
    let place = Place::new();
    let backend = place.open().await;
    let mut keys: Vec<Vec<u8>> = ["a", "A", "á", "a\u{301}", "a ", " a", "a\0", "%", "_", "'", "\"", "ab"]
        .iter()
        .map(|key| key.as_bytes().to_vec())
        .collect();
    keys.extend([vec![0], vec![0, 0], vec![0xff], vec![0xff; 512], vec![b'x'; 512], b"\xc3\x28".to_vec()]);
    let mut held = Vec::new();
    for key in &keys {
        let claim = Claim::mint(LockKey::new(key).unwrap());
        held.push(granted(backend.try_lock(&LockRequest::new(claim, 10 * SECOND)).await));
    }
    let listed = backend.admin().unwrap().list(b"", None, 100).await.unwrap();
    let mut sorted = keys.clone();
    sorted.sort();
    let listed: Vec<_> = listed.iter().map(|record| record.key.as_bytes().to_vec()).collect();
    assert_eq!(listed, sorted);
    for lease in held {
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
}

#[tokio::test]
async fn passing_on_raises_the_token_and_ends_the_old_hold() {
    let place = Place::new();
    let backend = place.open().await;
    let first = take(&backend, "a", 10 * SECOND).await;
    let next = queued("a", 5 * SECOND);
    busy(backend.try_lock(&next).await);
    let second = granted(backend.hand_over(&first, &next).await);
    assert!(second.token > first.token);
    assert_eq!(backend.renew(&first, SECOND).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    // The next holder's mark is gone, so nothing is in the way after it.
    backend.unlock(&second.claim).await.unwrap();
    let third = take(&backend, "a", 10 * SECOND).await;
    // Not held any more: there is nothing to pass on, whether the lock is free or not.
    let late = busy(backend.hand_over(&first, &queued("a", SECOND)).await);
    assert_eq!(late.holder.unwrap().owner, third.claim.owner);
    let elsewhere = backend.hand_over(&third, &request("b", SECOND)).await.unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::InvalidOptions);
    backend.unlock(&third.claim).await.unwrap();
    assert!(busy(backend.hand_over(&third, &queued("a", SECOND)).await).holder.is_none());
    assert!(place.rows("SELECT 1 FROM distlock_claims").await.is_empty(), "a hand-over does not queue");
    take(&backend, "a", SECOND).await;
}

#[tokio::test]
async fn a_lock_that_was_held_for_long_is_passed_on_past_the_waiters() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let machine = Machine::simulated("e", Clock::system(), &wall);
    let backend = SqliteBackend::connect(place.config().machine(machine)).await.unwrap();
    let first = take(&backend, "a", 60 * SECOND).await;
    busy(backend.try_lock(&queued("a", SECOND)).await);
    // The tokens that were reserved are all below the clock by now.
    wall.advance(180 * SECOND);
    let second = granted(backend.hand_over(&first, &queued("a", SECOND)).await);
    assert_eq!(second.token.get(), u64::try_from(wall.micros()).unwrap());
    assert_eq!(place.rows("SELECT 1 FROM distlock_claims").await.len(), 1);
}

#[tokio::test]
async fn a_stolen_lock_is_not_reported_as_released_when_somebody_waits_here() {
    let place = Place::new();
    let client = LockClient::new(Arc::new(place.open().await));
    let guard = client.lock("a").await.unwrap();
    let mut waiter = Box::pin(client.lock("a"));
    assert!(tokio::time::timeout(20 * MS, &mut waiter).await.is_err());
    client.admin().unwrap().force_unlock(guard.key()).await.unwrap();
    assert!(matches!(guard.unlock().await.unwrap(), Release::NotHeld(_)));
    waiter.await.unwrap().unlock().await.unwrap();
    assert!(place.rows("SELECT 1 FROM distlock_claims").await.is_empty());
}

#[tokio::test]
async fn a_batch_of_renewals_tells_each_lease_its_fate() {
    let place = Place::new();
    let backend = place.open().await;
    let mut leases = Vec::new();
    for n in 0..2500 {
        leases.push(take(&backend, &format!("key/{n}"), 10 * SECOND).await);
    }
    // Tokens reserved ahead for the grants before may still cost a statement beside the first batches.
    let mut statements = Vec::new();
    while statements.last() != Some(&3) {
        let before = backend.commands_sent().unwrap();
        let results = backend.renew_many(&leases, 20 * SECOND).await;
        assert!(results.iter().all(|result| matches!(result, Ok(Renewal::Renewed { .. }))));
        statements.push(backend.commands_sent().unwrap() - before);
        assert!(statements.len() <= 5, "{statements:?} statements, not one a thousand leases");
    }

    backend.unlock(&leases[5].claim).await.unwrap();
    backend.unlock(&leases[1500].claim).await.unwrap();
    take(&backend, "key/1500", SECOND).await;
    let results = backend.renew_many(&leases, 20 * SECOND).await;
    for (n, result) in results.iter().enumerate() {
        match (n, result.as_ref().unwrap()) {
            (5, Renewal::Lost(LostReason::Expired)) | (1500, Renewal::Lost(LostReason::Stolen)) => {}
            (5 | 1500, other) => panic!("{n}: {other:?}"),
            (_, Renewal::Renewed { valid_until }) => assert!(valid_until.since(now()) > 18 * SECOND),
            (_, lost) => panic!("{n}: {lost:?}"),
        }
    }
    // The same lease twice in one batch, and none at all.
    let twice = [leases[0].clone(), leases[0].clone()];
    let results = backend.renew_many(&twice, SECOND).await;
    assert!(results.iter().all(|result| matches!(result, Ok(Renewal::Renewed { .. }))));
    assert!(backend.renew_many(&[], SECOND).await.is_empty());
}

#[tokio::test]
async fn a_ttl_is_rounded_up_and_absurd_ones_refused_before_any_statement() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = granted(backend.try_lock(&request("a", Duration::from_micros(1_200_300))).await);
    assert_eq!(lease.ttl, 1201 * MS);
    assert_eq!(granted(backend.try_lock(&request("b", MS)).await).ttl, 50 * MS);
    let before = backend.commands_sent().unwrap();
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let error = backend.try_lock(&request("c", ttl)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert_eq!(backend.renew(&lease, ttl).await.unwrap_err().kind(), ErrorKind::InvalidOptions);
        let many = backend.renew_many(std::slice::from_ref(&lease), ttl).await;
        assert_eq!(many[0].as_ref().unwrap_err().kind(), ErrorKind::InvalidOptions);
    }
    assert_eq!(backend.commands_sent().unwrap(), before);
}

#[tokio::test]
async fn b108_ten_thousand_held_keys_are_in_nobodys_way() {
    let place = Place::new();
    let backend = place.open().await;
    for n in 0..10_000 {
        take(&backend, &format!("held/{n}"), 60 * SECOND).await;
    }
    let mut worst = Duration::ZERO;
    for n in 0..1000 {
        let begun = now();
        take(&backend, &format!("free/{n}"), 60 * SECOND).await;
        worst = worst.max(now().since(begun));
    }
    assert!(worst < 500 * MS, "a free key took {worst:?}");
}

#[tokio::test]
async fn after_close_everything_says_shutdown() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = take(&backend, "a", 10 * SECOND).await;
    let seen = busy(backend.try_lock(&request("a", SECOND)).await);
    backend.close().await.unwrap();
    backend.close().await.unwrap();
    let shutdown = |error: distlock_core::Error| assert_eq!(error.kind(), ErrorKind::Shutdown, "{error}");
    shutdown(backend.try_lock(&request("b", SECOND)).await.unwrap_err());
    shutdown(backend.renew(&lease, SECOND).await.unwrap_err());
    shutdown(backend.unlock(&lease.claim).await.unwrap_err());
    shutdown(backend.probe().await.unwrap_err());
    shutdown(backend.watch_release(&claim("a"), &seen).await.unwrap_err());
    shutdown(backend.renew_many(&[lease], SECOND).await.remove(0).unwrap_err());
}

#[tokio::test]
async fn errors_name_backend_operation_and_key() {
    let place = Place::new();
    let backend = place.open().await;
    let error = backend.try_lock(&request("a", Duration::ZERO)).await.unwrap_err();
    assert!(error.to_string().starts_with("sqlite try_lock `a`: "), "{error}");
    let health = backend.probe().await.unwrap();
    assert!(health.version.unwrap().contains("journal mode wal"));
    assert!(health.warnings.is_empty());
}
