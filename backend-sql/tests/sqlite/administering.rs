//! Inspecting, listing, taking away.

use distlock_core::{ErrorKind, FencingToken, LockBackend, LostReason, Metadata, Release, Renewal};

use crate::support::{MS, Place, SECOND, busy, granted, key, queued, request, take};

#[tokio::test]
async fn inspect_shows_holder_waiters_and_the_last_token() {
    let place = Place::new();
    let backend = place.open().await;
    let admin = backend.admin().unwrap();
    assert_eq!(admin.inspect(&key("a")).await.unwrap(), None);
    let request = request("a", 10 * SECOND).metadata(Metadata::new([("host", "h")]).unwrap());
    let lease = granted(backend.try_lock(&request).await);
    busy(backend.try_lock(&queued("a", SECOND)).await);
    let record = admin.inspect(&key("a")).await.unwrap().unwrap();
    assert_eq!(record.holders.len(), 1);
    assert_eq!(record.holders[0].owner, lease.claim.owner);
    assert_eq!(record.holders[0].metadata.get("host").unwrap(), "h");
    assert_eq!((record.waiters, record.last_token), (Some(1), Some(lease.token)));
    backend.unlock(&lease.claim).await.unwrap();
    let record = admin.inspect(&key("a")).await.unwrap().unwrap();
    assert!(record.holders.is_empty());
    assert_eq!(record.last_token, Some(lease.token));
}

#[tokio::test]
async fn a_lease_that_is_over_shows_no_holder() {
    let place = Place::new();
    let backend = place.open().await;
    take(&backend, "a", 50 * MS).await;
    tokio::time::sleep(60 * MS).await;
    let admin = backend.admin().unwrap();
    assert!(admin.inspect(&key("a")).await.unwrap().unwrap().holders.is_empty());
    assert!(admin.list(b"", None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn list_pages_through_held_and_waited_for_locks() {
    let place = Place::new();
    let backend = place.open().await;
    for n in 0..25 {
        let lease = take(&backend, &format!("job/{n:02}"), 10 * SECOND).await;
        if n % 5 == 0 {
            backend.unlock(&lease.claim).await.unwrap();
        }
    }
    take(&backend, "jobs", 10 * SECOND).await;
    take(&backend, "other", 10 * SECOND).await;
    let admin = backend.admin().unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = admin.list(b"job/", after.as_ref(), 7).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 7);
        after = page.last().map(|record| record.key.clone());
        seen.extend(page.iter().map(|record| record.key.to_string()));
    }
    let wanted: Vec<_> = (0..25).filter(|n| n % 5 != 0).map(|n| format!("job/{n:02}")).collect();
    assert_eq!(seen, wanted);
    assert_eq!(admin.list(b"", None, 100).await.unwrap().len(), 22);
    assert!(admin.list(b"\xff", None, 100).await.unwrap().is_empty());
    assert!(admin.list(b"", None, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn force_unlock_names_the_victim_and_the_next_token_is_higher() {
    let place = Place::new();
    let backend = place.open().await;
    let admin = backend.admin().unwrap();
    assert_eq!(admin.force_unlock(&key("a")).await.unwrap(), None);
    let lease = take(&backend, "a", 10 * SECOND).await;
    let waiter = queued("a", SECOND);
    busy(backend.try_lock(&waiter).await);
    assert_eq!(admin.force_unlock(&key("a")).await.unwrap().unwrap().owner, lease.claim.owner);
    assert_eq!(backend.renew(&lease, SECOND).await.unwrap(), Renewal::Lost(LostReason::Expired));
    busy(backend.try_lock(&request("a", SECOND)).await);
    assert!(granted(backend.try_lock(&waiter).await).token > lease.token);
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
}

#[tokio::test]
async fn the_token_floor_lifts_every_key_and_stays() {
    let place = Place::new();
    let backend = place.open().await;
    let held = take(&backend, "held", 10 * SECOND).await;
    let floor = FencingToken::new(held.token.get() + 1_000_000_000_000).unwrap();
    backend.admin().unwrap().raise_token_floor(floor).await.unwrap();
    backend.admin().unwrap().raise_token_floor(FencingToken::MIN).await.unwrap();
    let before = backend.commands_sent().unwrap();
    assert!(take(&backend, "new", SECOND).await.token > floor);
    assert_eq!(backend.commands_sent().unwrap() - before, 1, "reserved ahead");
    backend.unlock(&held.claim).await.unwrap();
    assert!(take(&place.open().await, "held", SECOND).await.token > floor);
    let error = backend.admin().unwrap().raise_token_floor(FencingToken::MAX).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
}
