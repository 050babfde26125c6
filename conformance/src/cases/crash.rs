//! Other processes, killed and stopped.

use distlock_core::{LockOptions, WaitPolicy};

use super::*;
use crate::holder::{Answer, Holder, Order};
use crate::register::Register;

cases! { "crash":
    another_process_is_kept_out [Processes],
    updates_from_many_processes_are_not_lost @alone [Processes],
    a_killed_holder_is_succeeded [Processes],
    a_killed_holder_is_not_succeeded_early [Processes, SurvivesDisconnect],
    holders_killed_at_random_are_succeeded [Processes],
    a_killed_waiter_blocks_nobody [Processes],
    a_stopped_waiter_blocks_nobody_for_long [Processes],
    a_stopped_holder_knows_that_it_lost [Processes],
    a_stopped_holder_is_fenced_off [Processes],
    a_process_that_shuts_down_leaves_nothing [Processes],
    a_process_that_waits_is_woken [Processes],
    a_process_that_locks_again_lets_others_in [Processes],
    a_lease_is_adopted_by_another_process [Processes, Adopt],
    a_lost_lease_is_not_adopted_by_another_process [Processes, Adopt],
    held_locks_survive_a_restart @alone [Restart, SurvivesRestart],
}

/// The order to take the case's `key` this many times, and to count each time.
fn count(ctx: &Context, rounds: u64) -> Order {
    let ttl_ms = u64::try_from(ctx.long().as_millis()).expect("a case's times are short");
    Order::Count { key: ctx.key("key").to_string(), ttl_ms, rounds }
}

/// A process that waits for the case's `key`, which somebody else holds.
async fn waiting(ctx: &Context) -> Holder {
    let mut waiter = ctx.holder().await;
    waiter.send(&Holder::lock_order(&ctx.key("key"), ctx.brief(), None)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    waiter
}

async fn another_process_is_kept_out(ctx: &Context) {
    let client = ctx.client().await;
    let mut other = ctx.holder().await;
    let token = other.lock(&ctx.key("key"), ctx.long()).await;
    assert!(client.try_lock(ctx.key("key")).await.unwrap().is_none(), "another process holds it");
    client.try_lock(ctx.key("other key")).await.unwrap().expect("it is free").unlock().await.unwrap();
    assert!(matches!(other.ask(&Order::Unlock).await, Answer::Unlocked { released: true }));
    let guard = client.try_lock(ctx.key("key")).await.unwrap().expect("the other process gave it back");
    assert!(guard.token() > token);
    let patience = Some(Duration::from_millis(200));
    let answer = other.ask(&Holder::lock_order(&ctx.key("key"), ctx.long(), patience)).await;
    assert!(matches!(answer, Answer::Busy), "this process holds it, yet the other one got {answer:?}");
    guard.unlock().await.unwrap();
    other.lock(&ctx.key("key"), ctx.long()).await;
}

async fn updates_from_many_processes_are_not_lost(ctx: &Context) {
    const PROCESSES: usize = 4;
    const ROUNDS: u64 = 20;
    let mut holders = Vec::new();
    for _ in 0..PROCESSES {
        holders.push(ctx.holder().await);
    }
    for holder in &mut holders {
        holder.send(&count(ctx, ROUNDS)).await;
    }
    for holder in &mut holders {
        let answer = holder.answer().await;
        assert!(matches!(answer, Answer::Counted), "{answer:?}");
    }
    let wanted = PROCESSES as u64 * ROUNDS;
    assert_eq!(Register::fenced(ctx.folder(), Arc::clone(ctx.log())).read(), wanted);
    assert_eq!(
        Register::unfenced(ctx.folder(), Arc::clone(ctx.log())).read(),
        wanted,
        "an update was lost under the lock"
    );
}

async fn a_killed_holder_is_succeeded(ctx: &Context) {
    let rival = ctx.backend().await;
    ends_with_its_process(ctx, &*rival);
    let mut holder = ctx.holder().await;
    let token = holder.lock(&ctx.key("key"), ctx.brief()).await;
    refused(&*rival, &ctx.request("key")).await;
    holder.kill().await;
    let lease = take_within(&*rival, &ctx.request("key"), ctx.brief() + ctx.lateness()).await;
    assert!(lease.token > token);
}

/// Where the store frees the locks of a process that is gone, those are free while their leases last.
pub(super) fn ends_with_its_process(ctx: &Context, backend: &dyn distlock_core::LockBackend) {
    if !backend.info().guarantees.survives_disconnect {
        ctx.without_check("H1");
        ctx.without_check("H4");
    }
}

async fn a_killed_holder_is_not_succeeded_early(ctx: &Context) {
    let rival = ctx.backend().await;
    let mut holder = ctx.holder().await;
    let sent = ctx.clock().now();
    holder.lock(&ctx.key("key"), ctx.renewable()).await;
    holder.kill().await;
    // Renewals can only have moved the end later.
    assert_not_early(ctx, &*rival, sent, ctx.renewable()).await;
}

async fn holders_killed_at_random_are_succeeded(ctx: &Context) {
    let mut rng = ctx.rng();
    let rival = ctx.backend().await;
    ends_with_its_process(ctx, &*rival);
    for _ in 0..4 {
        let mut holder = ctx.holder().await;
        holder.send(&Holder::lock_order(&ctx.key("key"), ctx.brief(), None)).await;
        // Before the lock, in the middle of it, or while it is held.
        tokio::time::sleep(Duration::from_micros(rng.u64(..20_000))).await;
        holder.kill().await;
        let request = ctx.request("key");
        let limit = ctx.brief() + ctx.lateness() + ctx.place();
        take_within(&*rival, &request, limit).await;
        rival.unlock(&request.claim).await.unwrap();
    }
}

async fn a_killed_waiter_blocks_nobody(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiter = waiting(ctx).await;
    waiter.kill().await;
    let client = ctx.client().await;
    let next = {
        let (client, key) = (client.clone(), ctx.key("key"));
        tokio::spawn(async move { client.lock(key).await?.unlock().await })
    };
    backend.unlock(&holder.claim).await.unwrap();
    let limit = ctx.brief() + ctx.lateness() + ctx.place() + Duration::from_secs(5);
    tokio::time::timeout(limit, next).await.expect("a dead waiter's place runs out").unwrap().unwrap();
}

async fn a_stopped_waiter_blocks_nobody_for_long(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let mut waiter = waiting(ctx).await;
    waiter.stop();
    backend.unlock(&holder.claim).await.unwrap();
    let limit = ctx.brief() + ctx.lateness() + ctx.place() + Duration::from_secs(5);
    let next = ctx.request("key").queue(true);
    take_within(&*backend, &next, limit).await;
    waiter.go_on();
    backend.unlock(&next.claim).await.unwrap();
    let answer = waiter.answer().await;
    assert!(matches!(answer, Answer::Held { .. }), "it waits on, and gets the lock in the end: {answer:?}");
}

async fn a_stopped_holder_knows_that_it_lost(ctx: &Context) {
    let rival = ctx.backend().await;
    let mut holder = ctx.holder().await;
    holder.lock(&ctx.key("key"), ctx.brief()).await;
    holder.stop();
    let request = ctx.request("key");
    let lease = take_within(&*rival, &request, ctx.brief() + ctx.lateness()).await;
    // Asked before it runs again, so that this is the first thing it does.
    holder.send(&Order::State).await;
    holder.send(&Order::Unlock).await;
    holder.go_on();
    let state = holder.answer().await;
    assert!(matches!(state, Answer::State { valid: false, lost: true }), "after a pause it said {state:?}");
    let unlocked = holder.answer().await;
    assert!(matches!(unlocked, Answer::Unlocked { released: false }), "it released what it had lost");
    assert_eq!(take(&*rival, &request).await.token, lease.token, "its successor still holds the lock");
    holder.ask(&Order::Shutdown).await;
}

async fn a_stopped_holder_is_fenced_off(ctx: &Context) {
    let rival = ctx.backend().await;
    let fenced = Register::fenced(ctx.folder(), Arc::clone(ctx.log()));
    let unfenced = Register::unfenced(ctx.folder(), Arc::clone(ctx.log()));
    let mut holder = ctx.holder().await;
    holder.lock(&ctx.key("key"), ctx.brief()).await;
    assert!(matches!(holder.ask(&Order::Read).await, Answer::Read { value: 0 }));
    holder.stop();
    let request = ctx.request("key");
    let lease = take_within(&*rival, &request, ctx.brief() + ctx.lateness()).await;
    assert!(fenced.write(lease.token, fenced.read() + 1));
    assert!(unfenced.write(lease.token, unfenced.read() + 1));
    holder.send(&Order::Write).await;
    holder.go_on();
    let answer = holder.answer().await;
    assert!(matches!(answer, Answer::Wrote { fenced: false }), "the fence let a stale holder's write in");
    assert!(fenced.write(lease.token, fenced.read() + 1));
    assert!(unfenced.write(lease.token, unfenced.read() + 1));
    assert_eq!(fenced.read(), 2, "with the fence every update counts");
    assert!(
        unfenced.lost_updates(&ctx.events()) > 0,
        "without the fence no update was lost, so the pause did not bite"
    );
}

async fn a_process_that_shuts_down_leaves_nothing(ctx: &Context) {
    let mut holder = ctx.holder().await;
    holder.lock(&ctx.key("key"), ctx.long()).await;
    let answer = holder.ask(&Order::Shutdown).await;
    assert!(matches!(answer, Answer::ShutDown { unreleased: 0 }), "{answer:?}");
    holder.ended().await;
    take(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn a_process_that_waits_is_woken(ctx: &Context) {
    let client = ctx.client().await;
    let mut other = ctx.holder().await;
    for _ in 0..5 {
        let guard = client.lock(ctx.key("key")).await.unwrap();
        other.send(&Holder::lock_order(&ctx.key("key"), ctx.long(), None)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        guard.unlock().await.unwrap();
        let limit = Duration::from_secs(3) + ctx.delay();
        let answer = tokio::time::timeout(limit, other.answer()).await.expect("a waiting process is served");
        assert!(matches!(answer, Answer::Held { .. }), "{answer:?}");
        other.ask(&Order::Unlock).await;
    }
}

async fn a_process_that_locks_again_lets_others_in(ctx: &Context) {
    let client = ctx.client().await;
    let mut other = ctx.holder().await;
    other.send(&count(ctx, 3000)).await;
    // It locks over and over; this process gets its turns between.
    let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_secs(10)));
    for turn in 0..3 {
        let guard = client.lock_with(ctx.key("key"), &options).await;
        let guard = guard.unwrap_or_else(|error| panic!("turn {turn} never came: {error}"));
        guard.unlock().await.unwrap();
    }
    other.kill().await;
}

async fn a_lease_is_adopted_by_another_process(ctx: &Context) {
    let client = ctx.client().await;
    let guard = client.lock_with(ctx.key("key"), &LockOptions::default().ttl(ctx.long())).await.unwrap();
    let token = guard.token();
    let mut other = ctx.holder().await;
    let lease = guard.into_lease();
    let Answer::Held { token: adopted, .. } = other.ask(&Order::Adopt { lease }).await else {
        panic!("a held lease can be adopted");
    };
    assert_eq!(adopted, token, "adopting does not change the token");
    refused(&*ctx.backend().await, &ctx.request("key")).await;
    // And back.
    let Answer::Lease { lease } = other.ask(&Order::GiveAway).await else { panic!("it holds the lock") };
    let guard = client.adopt(lease).await.unwrap();
    assert_eq!(guard.token(), token);
    assert!(guard.is_valid());
    other.kill().await;
    guard.unlock().await.unwrap();
    take(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn a_lost_lease_is_not_adopted_by_another_process(ctx: &Context) {
    let client = ctx.client().await;
    let guard = client.lock_with(ctx.key("key"), &LockOptions::default().ttl(ctx.brief())).await.unwrap();
    let lease = guard.into_lease();
    let rival = ctx.request("key");
    let backend = ctx.backend().await;
    let held = take_within(&*backend, &rival, ctx.brief() + ctx.lateness()).await;
    let mut other = ctx.holder().await;
    let answer = other.ask(&Order::Adopt { lease }).await;
    assert!(matches!(answer, Answer::Failed { .. }), "a lost lease was adopted: {answer:?}");
    assert_eq!(take(&*backend, &rival).await.token, held.token);
}

async fn held_locks_survive_a_restart(ctx: &Context) {
    let request = ctx.request("key");
    let first = ctx.backend().await;
    let lease = take(&*first, &request).await;
    ctx.faults().restart().await;
    let backend = ctx.backend().await;
    refused(&*backend, &ctx.request("key")).await;
    let holder = if ctx.info().supports.adopt { backend } else { first };
    assert_eq!(take_again(&*holder, &request).await.token, lease.token, "its holder still holds it");
}
