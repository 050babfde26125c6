//! A store can do what it declares, and says so where it can't.

use distlock_core::{Deadline, Renewal, TryLock};

use super::*;

cases! { "capabilities":
    the_description_is_constant_and_sane,
    a_probe_answers,
    admin_is_there [Admin],
    no_admin_is_there [NoAdmin],
    a_declared_queue_keeps_its_waiters [Queue],
    without_a_queue_nobody_stands_in_it [NoQueue],
    a_declared_push_reaches_another_connection [Push],
    a_declared_loss_push_tells_the_holder [LossPush, Admin],
    a_declared_batch_costs_few_commands @alone [BatchRenew],
    a_declared_hand_over_halves_the_commands @alone [HandOver],
    a_declared_native_wait_asks_once @alone [NativeWait],
    commands_are_counted_upwards @alone,
    closing_leaves_held_locks_to_their_expiry [Processes, SurvivesDisconnect],
}

async fn the_description_is_constant_and_sane(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    assert_eq!(one.info(), two.info(), "every connection describes itself alike");
    assert_eq!(one.info(), ctx.info(), "the subject's static description is the backend's");
    let guarantees = &ctx.info().guarantees;
    assert!(!ctx.info().name.is_empty() && ctx.info().name.len() <= 32);
    assert!(!guarantees.ttl_grain.is_zero(), "a grain of zero can't be rounded to");
    assert!(guarantees.ttl_min <= Duration::from_secs(60), "a floor of {:?} is no use", guarantees.ttl_min);
    assert!(guarantees.ttl_max >= Duration::from_secs(3600));
    assert_eq!(
        guarantees.effective_ttl(guarantees.ttl_min).unwrap(),
        guarantees.ttl_min,
        "the floor is a multiple of the grain"
    );
}

async fn a_probe_answers(ctx: &Context) {
    let health = ctx.backend().await.probe().await.unwrap();
    assert!(health.round_trip < Duration::from_secs(10));
    for warning in health.warnings {
        assert!(!warning.what.is_empty() && !warning.fix.is_empty(), "a warning says what to do");
    }
}

async fn admin_is_there(ctx: &Context) {
    let backend = ctx.backend().await;
    let admin = backend.admin().expect("admin is declared");
    assert!(admin.inspect(&ctx.key("key")).await.unwrap().is_none_or(|record| record.holders.is_empty()));
    assert_eq!(admin.list(ctx.prefix().as_bytes(), None, 10).await.unwrap(), []);
}

async fn no_admin_is_there(ctx: &Context) {
    assert!(ctx.backend().await.admin().is_none(), "admin is there, but not declared");
}

async fn a_declared_queue_keeps_its_waiters(ctx: &Context) {
    let backend = ctx.backend().await;
    let (holder, waiter) = (ctx.request("key"), ctx.request("key").queue(true));
    take(&*backend, &holder).await;
    refused(&*backend, &waiter).await;
    backend.unlock(&holder.claim).await.unwrap();
    // The waiter has not asked again, and still nobody else gets past it.
    refused(&*backend, &ctx.request("key")).await;
    take(&*backend, &waiter).await;
}

async fn without_a_queue_nobody_stands_in_it(ctx: &Context) {
    let backend = ctx.backend().await;
    let (holder, waiter) = (ctx.request("key"), ctx.request("key").queue(true));
    take(&*backend, &holder).await;
    refused(&*backend, &waiter).await;
    backend.unlock(&waiter.claim).await.unwrap();
    backend.unlock(&holder.claim).await.unwrap();
    take(&*backend, &ctx.request("key")).await;
}

async fn a_declared_push_reaches_another_connection(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let (holder, waiter) = (ctx.request("key"), ctx.request("key").queue(true));
    take(&*one, &holder).await;
    let busy = refused(&*two, &waiter).await;
    // Subscribed, then released.
    let watching = {
        let (two, claim, busy) = (Arc::clone(&two), waiter.claim.clone(), busy.clone());
        tokio::spawn(async move { two.watch_release(&claim, &busy).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    one.unlock(&holder.claim).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), watching)
        .await
        .expect("a release wakes a waiter of another connection")
        .unwrap()
        .unwrap();
    take(&*two, &waiter).await;
}

async fn a_declared_loss_push_tells_the_holder(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.request("key")).await;
    let watching = {
        let (backend, lease) = (Arc::clone(&backend), lease.clone());
        tokio::spawn(async move { backend.watch_loss(&lease).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    ctx.backend().await.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), watching)
        .await
        .expect("a loss is announced")
        .unwrap()
        .unwrap();
    assert!(matches!(backend.renew(&lease, lease.ttl).await.unwrap(), Renewal::Lost(_)));
}

/// How many leases make a batch.
const BATCH: u64 = 600;

async fn a_declared_batch_costs_few_commands(ctx: &Context) {
    let backend = ctx.backend().await;
    // All at once, so that they are held together for no longer than any store's ttl.
    let requests: Vec<_> = (0..BATCH).map(|n| ctx.request(format!("key {n}"))).collect();
    let leases = join_all(requests.iter().map(|request| take(&*backend, request))).await;
    let before = backend.commands_sent();
    let results = backend.renew_many(&leases, ctx.long()).await;
    assert_eq!(results.len(), leases.len());
    assert!(results.iter().all(|result| matches!(result, Ok(Renewal::Renewed { .. }))), "{results:?}");
    if let (Some(before), Some(after)) = (before, backend.commands_sent()) {
        // Room for stores that share the locks among parts of theirs, though not for one a lease.
        assert!(after - before <= BATCH / 2, "a batch of {BATCH} cost {} commands", after - before);
    }
}

async fn a_declared_hand_over_halves_the_commands(ctx: &Context) {
    const TIMES: usize = 10;
    /// For what else the client does meanwhile.
    const ROOM: u64 = 8;
    let backend = ctx.backend().await;
    let mut lease = take(&*backend, &ctx.request("key")).await;
    let before = backend.commands_sent();
    for _ in 0..TIMES {
        match backend.hand_over(&lease, &ctx.request("key")).await.unwrap() {
            TryLock::Acquired(next) => {
                assert!(next.token > lease.token, "the next owner gets a higher token");
                lease = next;
            }
            TryLock::Busy(busy) => panic!("nobody else wants the lock, yet handing over gave {busy:?}"),
        }
    }
    let between = backend.commands_sent();
    for _ in 0..TIMES {
        backend.unlock(&lease.claim).await.unwrap();
        lease = take(&*backend, &ctx.request("key")).await;
    }
    if let (Some(before), Some(between), Some(after)) = (before, between, backend.commands_sent()) {
        let (passed, pairs) = (between - before, after - between);
        assert!(
            2 * passed <= pairs + ROOM,
            "{TIMES} hand-overs cost {passed} commands, as many releases and attempts {pairs}"
        );
    }
}

async fn a_declared_native_wait_asks_once(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let holder = ctx.request("key");
    take(&*one, &holder).await;
    let before = two.commands_sent();
    let waiter = {
        let (two, request, clock) = (Arc::clone(&two), ctx.request("key").queue(true), ctx.clock());
        let deadline = Deadline::after(&clock, Duration::from_secs(20));
        tokio::spawn(async move { two.lock(&request, deadline).await })
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiter.is_finished(), "the lock is held");
    let during = two.commands_sent();
    one.unlock(&holder.claim).await.unwrap();
    waiter.await.unwrap().unwrap();
    if let (Some(before), Some(during)) = (before, during) {
        assert!(during - before <= 4, "waiting in the store costs {} commands", during - before);
    }
}

async fn commands_are_counted_upwards(ctx: &Context) {
    let backend = ctx.backend().await;
    let Some(before) = backend.commands_sent() else { return };
    let request = ctx.request("key");
    take(&*backend, &request).await;
    backend.unlock(&request.claim).await.unwrap();
    let after = backend.commands_sent().expect("who counts goes on counting");
    assert!(after >= before + 2, "two operations cost {} commands", after - before);
}

async fn closing_leaves_held_locks_to_their_expiry(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let sent = ctx.clock().now();
    let lease = take(&*holder, &ctx.brief_request("key")).await;
    holder.close().await.unwrap();
    assert_not_early(ctx, &*rival, sent, lease.ttl).await;
}
