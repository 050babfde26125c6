//! What operators see and do.

use distlock_core::{LockClient, LockOptions, LostReason, Metadata, Release, Renewal};

use super::*;

cases! { "admin":
    a_held_lock_is_shown [Admin],
    a_free_lock_has_no_holder [Admin],
    waiters_are_counted [Admin, Queue],
    pages_follow_each_other [Admin],
    only_held_and_awaited_locks_are_listed [Admin],
    a_forced_release_frees_and_says_from_whom [Admin],
    a_forced_release_of_a_free_lock_is_nothing [Admin],
    the_victim_learns_of_it [Admin],
    the_victim_can_t_hurt_its_successor [Admin],
    forcing_over_and_over_keeps_tokens_rising [Admin],
    by_the_client_it_works_too [Admin],
}

async fn a_held_lock_is_shown(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.request("key").metadata(Metadata::new([("job", "nightly")]).unwrap());
    let lease = take(&*one, &request).await;
    let record = two.admin().unwrap().inspect(&request.claim.key).await.unwrap().expect("it is held");
    assert_eq!(record.key, request.claim.key);
    let [holder] = record.holders.as_slice() else { panic!("one claim holds it, not {:?}", record.holders) };
    assert_eq!((holder.owner, holder.token), (request.claim.owner, lease.token));
    assert_eq!(holder.metadata, request.metadata);
    if let Some(left) = holder.expires_in {
        assert!(left <= lease.ttl && left > lease.ttl / 2, "{left:?} of {:?}", lease.ttl);
    }
}

async fn a_free_lock_has_no_holder(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    let holders = || async {
        let record = backend.admin().unwrap().inspect(&request.claim.key).await.unwrap();
        record.map_or(0, |record| record.holders.len())
    };
    assert_eq!(holders().await, 0);
    take(&*backend, &request).await;
    assert_eq!(holders().await, 1);
    backend.unlock(&request.claim).await.unwrap();
    assert_eq!(holders().await, 0);
}

async fn waiters_are_counted(ctx: &Context) {
    let backend = ctx.backend().await;
    take(&*backend, &ctx.request("key")).await;
    for count in 0..4 {
        let record = backend.admin().unwrap().inspect(&ctx.key("key")).await.unwrap().unwrap();
        if let Some(waiters) = record.waiters {
            assert_eq!(waiters, count);
        }
        refused(&*backend, &ctx.request("key").queue(true)).await;
    }
}

async fn pages_follow_each_other(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut wanted = Vec::new();
    for n in 0..25 {
        let request = ctx.request(format!("key {n}"));
        take(&*backend, &request).await;
        wanted.push(request.claim.key);
    }
    wanted.sort();
    for limit in [1, 7, 25, 100] {
        let mut seen = Vec::new();
        loop {
            let page =
                backend.admin().unwrap().list(ctx.prefix().as_bytes(), seen.last(), limit).await.unwrap();
            assert!(page.len() <= limit, "a page of {limit} has {}", page.len());
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|record| record.key));
        }
        assert_eq!(seen, wanted, "pages of {limit}");
    }
}

async fn only_held_and_awaited_locks_are_listed(ctx: &Context) {
    let backend = ctx.backend().await;
    let released = ctx.request("released");
    take(&*backend, &ctx.request("held")).await;
    take(&*backend, &released).await;
    backend.unlock(&released.claim).await.unwrap();
    let expired = take(&*backend, &ctx.brief_request("expired")).await;
    tokio::time::sleep(expired.ttl + ctx.lateness()).await;
    let listed = backend.admin().unwrap().list(ctx.prefix().as_bytes(), None, 10).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|record| record.key).collect();
    assert_eq!(listed, [ctx.key("held")]);
}

async fn a_forced_release_frees_and_says_from_whom(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    let operator = ctx.backend().await;
    let victim =
        operator.admin().unwrap().force_unlock(&request.claim.key).await.unwrap().expect("it was held");
    assert_eq!((victim.owner, victim.token), (request.claim.owner, lease.token));
    let next = take(&*backend, &ctx.request("key")).await;
    assert!(next.token > lease.token);
}

async fn a_forced_release_of_a_free_lock_is_nothing(ctx: &Context) {
    let backend = ctx.backend().await;
    let admin = backend.admin().unwrap();
    assert_eq!(admin.force_unlock(&ctx.key("key")).await.unwrap(), None);
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    backend.unlock(&request.claim).await.unwrap();
    assert_eq!(admin.force_unlock(&ctx.key("key")).await.unwrap(), None);
    assert!(take(&*backend, &ctx.request("key")).await.token > lease.token);
}

async fn the_victim_learns_of_it(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    backend.admin().unwrap().force_unlock(&request.claim.key).await.unwrap();
    assert!(matches!(backend.renew(&lease, lease.ttl).await.unwrap(), Renewal::Lost(_)));
    assert!(matches!(backend.unlock(&request.claim).await.unwrap(), Release::NotHeld(_)));
    take(&*backend, &ctx.request("key")).await;
}

async fn the_victim_can_t_hurt_its_successor(ctx: &Context) {
    let backend = ctx.backend().await;
    let victim = ctx.request("key");
    let old = take(&*backend, &victim).await;
    backend.admin().unwrap().force_unlock(&victim.claim.key).await.unwrap();
    let successor = ctx.request("key");
    let new = take(&*backend, &successor).await;
    assert_eq!(backend.renew(&old, old.ttl).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    assert_eq!(backend.unlock(&victim.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    refused(&*backend, &victim).await;
    assert_eq!(take(&*backend, &successor).await.token, new.token);
}

async fn forcing_over_and_over_keeps_tokens_rising(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut last = None;
    for _ in 0..10 {
        let lease = take(&*backend, &ctx.request("key")).await;
        assert!(Some(lease.token) > last, "{:?} after {last:?}", lease.token);
        last = Some(lease.token);
        backend.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
        backend.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    }
}

async fn by_the_client_it_works_too(ctx: &Context) {
    let client: LockClient = ctx.client().await;
    let options = LockOptions::default().ttl(ctx.renewable());
    let guard = client.lock_with(ctx.key("key"), &options).await.unwrap();
    let record = client.admin().unwrap().inspect(guard.key()).await.unwrap().unwrap();
    assert_eq!(record.holders[0].owner, guard.owner());
    let victim = client.admin().unwrap().force_unlock(guard.key()).await.unwrap().unwrap();
    assert_eq!(victim.token, guard.token());
    let limit = guard.ttl() + ctx.lateness();
    tokio::time::timeout(limit, guard.lost()).await.expect("the holder learns of it at its next renewal");
}
