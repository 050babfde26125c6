//! Rules 7 and 8: tokens rise with every grant, whatever ended the one before, and are enforced.

use std::sync::Arc;

use distlock_core::{
    ErrorKind, FenceGate, FencingToken, LockBackend, LockClient, MemoryBackend, MemoryGate, Operation,
    RenewPolicy,
};

use crate::rig::{kind, nine, rig, secs};

#[tokio::test(start_paused = true)]
async fn every_grant_has_a_higher_token() {
    let (store, _, client) = rig();
    let mut last = client.lock_with("k", &nine()).await.unwrap().token();
    for ending in 0..5 {
        let guard = client.lock_with("k", &nine().renew(RenewPolicy::Manual)).await.unwrap();
        assert!(guard.token() > last, "after ending {ending}");
        last = guard.token();
        match ending {
            0 => drop(guard.unlock().await.unwrap()),
            1 => drop(guard),
            2 => {
                tokio::time::sleep(secs(10)).await;
                drop(guard);
            }
            3 => {
                client.admin().unwrap().force_unlock(guard.key()).await.unwrap();
                std::mem::forget(guard);
            }
            _ => std::mem::forget(guard.into_lease()),
        }
    }
    store.faults().duplicate(Operation::TryLock);
    assert!(client.lock_with("other", &nine()).await.unwrap().token().get() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_made_later_starts_above_and_a_floor_is_kept() {
    let first = LockClient::new(Arc::new(MemoryBackend::new()));
    let early = first.lock("k").await.unwrap().token();
    let later = LockClient::new(Arc::new(MemoryBackend::new()));
    later.admin().unwrap().raise_token_floor(FencingToken::new(early.get() + 1000).unwrap()).await.unwrap();
    assert!(later.lock("k").await.unwrap().token().get() > early.get() + 1000);
    let highest = later.admin().unwrap().raise_token_floor(FencingToken::MAX).await;
    assert_eq!(kind(highest), ErrorKind::InvalidOptions, "no token would be left");
}

#[tokio::test(start_paused = true)]
async fn a_resource_with_a_gate_refuses_the_holder_that_came_too_late() {
    let (store, _, client) = rig();
    let gate = MemoryGate::default();
    let (mut gated, mut bare) = (Vec::new(), Vec::new());
    let slow = client.lock_with("k", &nine().renew(RenewPolicy::Manual)).await.unwrap();
    // The slow holder is paused here, and its lease runs out.
    tokio::time::sleep(secs(10)).await;
    let fast = client.lock_with("k", &nine()).await.unwrap();
    for guard in [&fast, &slow] {
        bare.push(guard.token());
        if gate.admit(guard.key(), guard.token()).await.is_ok() {
            gated.push(guard.token());
        }
    }
    assert_eq!(bare.last(), Some(&slow.token()), "without a gate the late write wins");
    assert_eq!(gated, [fast.token()]);
    drop(store);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_lease_keeps_its_token() {
    let (_, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let (token, owner) = (guard.token(), guard.owner());
    let lease = guard.into_lease();
    let other = LockClient::new(Arc::clone(client.backend()));
    let adopted = other.adopt(lease.clone()).await.unwrap();
    assert_eq!((adopted.token(), adopted.owner()), (token, owner));
    tokio::time::sleep(secs(30)).await;
    assert!(adopted.is_valid(), "renewed by its new client");
    adopted.unlock().await.unwrap();
    assert!(other.adopt(lease).await.unwrap_err().is_lost());
    assert!(client.backend().info().supports.adopt);
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn a_stored_lease_counts_as_over_until_it_is_adopted() {
    let (_, _, client) = rig();
    let guard = client.lock_with(b"bytes\xff", &nine()).await.unwrap();
    let token = guard.token();
    let text = serde_json::to_string(&guard.into_lease()).unwrap();
    assert!(text.contains(&format!("\"{token}\"")) && text.contains("bytes%FF"), "{text}");
    let lease: distlock_core::Lease = serde_json::from_str(&text).unwrap();
    assert_eq!(lease.valid_until, distlock_core::Instant::ORIGIN);
    let adopted = client.adopt(lease).await.unwrap();
    assert!(adopted.is_valid() && adopted.token() == token);
}
