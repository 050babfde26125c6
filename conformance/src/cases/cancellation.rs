//! A caller may go away at any point; nothing of it stays behind.

use distlock_core::{LockClient, LockOptions, Operation, TryLock, WaitPolicy};

use super::*;
use crate::decorators::Fault;
use crate::stepwise::polled_at_most;

cases! { "cancellation":
    an_attempt_dropped_at_any_point_can_be_swept,
    a_try_dropped_at_any_point_leaves_nothing,
    a_lock_dropped_at_any_point_leaves_nothing,
    a_wait_dropped_at_any_point_leaves_nothing,
    b023_a_release_dropped_at_any_point_still_happens,
    a_body_dropped_at_any_point_leaves_nothing,
    b022_time_limits_of_all_lengths_leave_nothing,
    time_limits_on_waiters_leave_nothing,
    an_answer_that_never_comes_leaves_nothing,
    an_attempt_that_lands_late_is_swept_again,
    a_quitter_at_the_hand_over_leaves_nothing,
    a_hundred_quitters_leave_nothing,
    nothing_is_sent_before_the_first_poll,
}

/// How soon a claim whose caller went away has to be out of a store that works.
fn soon(ctx: &Context) -> Duration {
    Duration::from_secs(3) + ctx.delay()
}

/// Asserts that nobody holds or awaits the lock any more, although its ttl is far from over.
async fn assert_nothing_left(ctx: &Context, what: &str) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    until(&format!("the lock to be free after {what}"), soon(ctx), || async {
        matches!(backend.try_lock(&request).await.unwrap(), TryLock::Acquired(_)).then_some(())
    })
    .await;
    if let Some(admin) = backend.admin() {
        // A request that was on its way may have landed only now, behind this one; it is swept all the same.
        until(&format!("nobody to wait after {what}"), soon(ctx), || async {
            let record = admin.inspect(&request.claim.key).await.unwrap().unwrap();
            (record.waiters.unwrap_or(0) == 0).then_some(())
        })
        .await;
    }
    backend.unlock(&request.claim).await.unwrap();
}

fn options(ctx: &Context) -> LockOptions {
    LockOptions::default().ttl(ctx.long())
}

/// The most await points that a call on a free lock is taken to have.
const POINTS: usize = 40;

async fn an_attempt_dropped_at_any_point_can_be_swept(ctx: &Context) {
    let backend = ctx.backend().await;
    for polls in 0..POINTS {
        let request = ctx.request("key");
        let done = polled_at_most(polls, backend.try_lock(&request)).await;
        // What was sent may land a little later: sweep, wait, sweep again, as the client does.
        backend.unlock(&request.claim).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        backend.unlock(&request.claim).await.unwrap();
        take(&*backend, &ctx.request(format!("key {polls}"))).await;
        let next = ctx.request("key");
        take_within(&*backend, &next, Duration::from_secs(1) + ctx.delay()).await;
        backend.unlock(&next.claim).await.unwrap();
        if done.is_some() {
            break;
        }
    }
}

async fn a_try_dropped_at_any_point_leaves_nothing(ctx: &Context) {
    let client = ctx.client().await;
    for polls in 0..POINTS {
        let done = polled_at_most(polls, client.try_lock_with(ctx.key("key"), &options(ctx))).await;
        let finished = done.is_some();
        drop(done);
        assert_nothing_left(ctx, &format!("a try dropped after {polls} polls")).await;
        if finished {
            break;
        }
    }
}

async fn a_lock_dropped_at_any_point_leaves_nothing(ctx: &Context) {
    let client = ctx.client().await;
    for polls in 0..POINTS {
        let done = polled_at_most(polls, client.lock_with(ctx.key("key"), &options(ctx))).await;
        let finished = done.is_some();
        drop(done);
        assert_nothing_left(ctx, &format!("a lock dropped after {polls} polls")).await;
        if finished {
            break;
        }
    }
}

async fn a_wait_dropped_at_any_point_leaves_nothing(ctx: &Context) {
    let client = ctx.client().await;
    let backend = ctx.backend().await;
    for polls in 0..10 {
        let holder = ctx.request("key");
        take(&*backend, &holder).await;
        let limit = Duration::from_millis(300);
        let options = options(ctx);
        let wait = polled_at_most(polls, client.lock_with(ctx.key("key"), &options));
        let done = tokio::time::timeout(limit, wait).await;
        assert!(!matches!(done, Ok(Some(_))), "the lock is held");
        backend.unlock(&holder.claim).await.unwrap();
        assert_nothing_left(ctx, &format!("a wait dropped after {polls} polls")).await;
    }
}

async fn b023_a_release_dropped_at_any_point_still_happens(ctx: &Context) {
    let client = ctx.client().await;
    for polls in 0..POINTS {
        let guard = client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
        let done = polled_at_most(polls, guard.unlock()).await;
        assert_nothing_left(ctx, &format!("a release dropped after {polls} polls")).await;
        if done.is_some() {
            break;
        }
    }
}

async fn a_body_dropped_at_any_point_leaves_nothing(ctx: &Context) {
    let client = ctx.client().await;
    for polls in 0..POINTS {
        let options = options(ctx);
        let call = client.with_lock_with(ctx.key("key"), &options, |_| tokio::task::yield_now());
        let done = polled_at_most(polls, call).await;
        assert_nothing_left(ctx, &format!("a body dropped after {polls} polls")).await;
        if done.is_some() {
            break;
        }
    }
}

async fn b022_time_limits_of_all_lengths_leave_nothing(ctx: &Context) {
    let client = ctx.client().await;
    for micros in (0..20).map(|n| n * n * 50) {
        let limit = Duration::from_micros(micros);
        let outcome = tokio::time::timeout(limit, client.lock_with(ctx.key("key"), &options(ctx))).await;
        drop(outcome);
        assert_nothing_left(ctx, &format!("a lock under a limit of {limit:?}")).await;
    }
}

async fn time_limits_on_waiters_leave_nothing(ctx: &Context) {
    let client = ctx.client().await;
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    for millis in 1..=20 {
        let limit = Duration::from_millis(millis);
        let outcome = tokio::time::timeout(limit, client.lock_with(ctx.key("key"), &options(ctx))).await;
        assert!(outcome.is_err(), "the lock is held");
    }
    backend.unlock(&holder.claim).await.unwrap();
    assert_nothing_left(ctx, "twenty waiters under a limit").await;
}

async fn an_answer_that_never_comes_leaves_nothing(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    for _ in 0..3 {
        script.once(Operation::TryLock, Fault::AnswerSwallowed);
        let limit = Duration::from_millis(100);
        let outcome = tokio::time::timeout(limit, client.lock_with(ctx.key("key"), &options(ctx))).await;
        assert!(outcome.is_err(), "no answer comes");
        assert_nothing_left(ctx, "a granted attempt without an answer").await;
    }
}

async fn an_attempt_that_lands_late_is_swept_again(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    // The request leaves, the caller goes away and is swept, and then the request arrives.
    script.once(Operation::TryLock, Fault::SentLate(Duration::from_millis(300)));
    let options = LockOptions::default().ttl(ctx.long()).op_timeout(Duration::from_millis(900));
    let outcome =
        tokio::time::timeout(Duration::from_millis(50), client.lock_with(ctx.key("key"), &options)).await;
    assert!(outcome.is_err(), "no answer comes so soon");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_nothing_left(ctx, "an attempt that landed after its withdrawal").await;
}

async fn a_quitter_at_the_hand_over_leaves_nothing(ctx: &Context) {
    let client = ctx.client().await;
    for polls in 1..8 {
        let holder = client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
        let waiter = {
            let (client, key, options) = (client.clone(), ctx.key("key"), options(ctx));
            tokio::spawn(
                async move { polled_at_most(polls, client.lock_with(key, &options)).await.is_some() },
            )
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (unlocked, _) = tokio::join!(holder.unlock(), async { waiter.abort() });
        unlocked.unwrap();
        let _ = waiter.await;
        assert_nothing_left(ctx, &format!("a waiter that quit at the hand-over, after {polls} polls")).await;
    }
}

async fn quit(client: LockClient, key: distlock_core::LockKey, options: LockOptions, after: Duration) {
    let _ = tokio::time::timeout(after, client.lock_with(key, &options)).await;
}

async fn a_hundred_quitters_leave_nothing(ctx: &Context) {
    let clients = [ctx.client().await, ctx.client().await];
    let mut rng = ctx.rng();
    let quitters: Vec<_> = (0..100)
        .map(|n| {
            let after = Duration::from_micros(rng.u64(..30_000));
            let options = options(ctx).wait(WaitPolicy::Forever);
            tokio::spawn(quit(clients[n % 2].clone(), ctx.key("key"), options, after))
        })
        .collect();
    for quitter in quitters {
        quitter.await.unwrap();
    }
    assert_nothing_left(ctx, "a hundred quitters").await;
}

async fn nothing_is_sent_before_the_first_poll(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    drop(client.lock(ctx.key("key")));
    drop(client.try_lock(ctx.key("key")));
    assert_eq!(script.calls(Operation::TryLock), 0);
    assert_nothing_left(ctx, "calls that were never polled").await;
}
