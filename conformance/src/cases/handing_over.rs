//! A lock goes from one contender of a client straight to the next, and nobody is harmed by it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use distlock_core::{FencingToken, LockClient, LockGuard, LockOptions, Operation, Release, WaitPolicy};
use tokio::task::JoinHandle;

use super::*;
use crate::decorators::Fault;
use crate::holder::{Answer, Holder};

cases! { "handing_over":
    tokens_rise_along_the_line [HandOver],
    what_was_taken_away_is_not_passed_on [HandOver, Admin],
    a_lost_answer_leaves_one_holder [HandOver],
    an_answer_that_never_comes_leaves_one_holder [HandOver],
    a_request_that_never_arrives_blocks_nobody [HandOver],
    other_clients_get_their_turn [HandOver, Push],
    other_processes_get_their_turn [HandOver, Push, Processes],
}

/// Holds that a line may have before somebody else gets the lock: many times what it has in a row.
const MOST: usize = 400;

fn options(ctx: &Context) -> LockOptions {
    let patience = ctx.paced(Duration::from_secs(30));
    LockOptions::default()
        .ttl(ctx.long())
        .wait(WaitPolicy::UpTo(patience))
        .op_timeout(ctx.paced(Duration::from_millis(900)))
}

fn waiting(ctx: &Context, client: &LockClient) -> JoinHandle<distlock_core::Result<LockGuard>> {
    let (client, key, options) = (client.clone(), ctx.key("key"), options(ctx));
    tokio::spawn(async move { client.lock_with(key, &options).await })
}

/// Gives the contenders that were just spawned time to stand in line.
async fn stand(ctx: &Context) {
    tokio::time::sleep(Duration::from_millis(100) + ctx.delay()).await;
}

async fn tokens_rise_along_the_line(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let first = client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
    let tokens = Arc::new(Mutex::new(vec![first.token()]));
    let line: Vec<_> = (0..12)
        .map(|_| {
            let (next, tokens) = (waiting(ctx, &client), Arc::clone(&tokens));
            tokio::spawn(async move {
                let guard = next.await.unwrap().unwrap();
                tokens.lock().unwrap().push(guard.token());
                let view = guard.view();
                assert_eq!(guard.unlock().await.unwrap(), Release::Released);
                assert!(!view.is_valid(), "a lock that was passed on is not held any more");
            })
        })
        .collect();
    stand(ctx).await;
    first.unlock().await.unwrap();
    for served in line {
        served.await.unwrap();
    }
    let tokens: Vec<FencingToken> = tokens.lock().unwrap().clone();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "tokens went down the line as {tokens:?}");
    assert!(script.calls(Operation::HandOver) > 0, "nobody passed the lock on");
}

async fn what_was_taken_away_is_not_passed_on(ctx: &Context) {
    let client = ctx.client().await;
    let holder = client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
    let old = holder.token();
    let next = waiting(ctx, &client);
    stand(ctx).await;
    let backend = ctx.backend().await;
    backend.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    let rival = ctx.request("key").queue(false);
    let taken = matches!(backend.try_lock(&rival).await.unwrap(), distlock_core::TryLock::Acquired(_));
    assert!(matches!(holder.unlock().await.unwrap(), Release::NotHeld(_)), "it was taken away");
    if taken {
        assert!(!next.is_finished(), "the lock is another one's");
        backend.unlock(&rival.claim).await.unwrap();
    }
    let guard = next.await.unwrap().unwrap();
    assert!(guard.token() > old);
    guard.unlock().await.unwrap();
}

async fn a_lost_answer_leaves_one_holder(ctx: &Context) {
    one_holder_after(ctx, Fault::AnswerLost).await;
}

async fn an_answer_that_never_comes_leaves_one_holder(ctx: &Context) {
    one_holder_after(ctx, Fault::AnswerSwallowed).await;
}

async fn a_request_that_never_arrives_blocks_nobody(ctx: &Context) {
    one_holder_after(ctx, Fault::Silence).await;
}

/// Strikes a hand-over, and asserts that the next contender gets the lock alone, and that nothing of it is left.
async fn one_holder_after(ctx: &Context, fault: Fault) {
    let (client, script) = ctx.faulty_client().await;
    let holder = client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
    let (old, view) = (holder.token(), holder.view());
    let next = waiting(ctx, &client);
    stand(ctx).await;
    script.once(Operation::HandOver, fault);
    // Whether it says that it released or that it can't know: it holds nothing any more.
    let released = holder.unlock().await;
    assert!(!view.is_valid(), "after {released:?} the old guard still says that it holds the lock");
    assert_eq!(script.calls(Operation::HandOver), 1, "the lock was to be passed on");
    let guard = next.await.unwrap().unwrap();
    assert!(guard.token() > old, "the token went from {old} to {}", guard.token());
    refused(&*ctx.backend().await, &ctx.request("key")).await;
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    let limit = Duration::from_secs(5) + ctx.delay();
    take_within(&*ctx.backend().await, &ctx.request("key"), limit).await;
}

/// A line of contenders that take the lock again and again, and how often they had it.
struct Line {
    had: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
    contenders: Vec<JoinHandle<()>>,
}

impl Line {
    async fn of(ctx: &Context, client: &LockClient) -> Self {
        let (had, enough) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let contend = || {
            let (client, key, options) = (client.clone(), ctx.key("key"), options(ctx));
            let (had, enough) = (Arc::clone(&had), Arc::clone(&enough));
            tokio::spawn(async move {
                while !enough.load(Ordering::Relaxed) {
                    let guard = client.lock_with(&key, &options).await.unwrap();
                    had.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard.unlock().await.unwrap();
                }
            })
        };
        let line = Self { contenders: (0..4).map(|_| contend()).collect(), had, enough };
        let had = Arc::clone(&line.had);
        until("the line to move", ctx.paced(Duration::from_secs(20)), || async {
            (had.load(Ordering::Relaxed) > 20).then_some(())
        })
        .await;
        line
    }

    fn had(&self) -> usize {
        self.had.load(Ordering::Relaxed)
    }

    async fn end(self) {
        self.enough.store(true, Ordering::Relaxed);
        for contender in self.contenders {
            contender.await.unwrap();
        }
    }
}

async fn other_clients_get_their_turn(ctx: &Context) {
    let (client, other) = (ctx.client().await, ctx.client().await);
    let line = Line::of(ctx, &client).await;
    for _ in 0..3 {
        let before = line.had();
        let guard = other.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
        let passed = line.had() - before;
        guard.unlock().await.unwrap();
        assert!(passed < MOST, "a line of another client had the lock {passed} times before this one once");
    }
    line.end().await;
}

async fn other_processes_get_their_turn(ctx: &Context) {
    let mut process = ctx.holder().await;
    let line = Line::of(ctx, &ctx.client().await).await;
    let before = line.had();
    let patience = ctx.paced(Duration::from_secs(25));
    let answer = process.ask(&Holder::lock_order(&ctx.key("key"), ctx.long(), Some(patience))).await;
    let passed = line.had() - before;
    assert!(matches!(answer, Answer::Held { .. }), "another process waited in vain: {answer:?}");
    assert!(passed < MOST, "a line of another process had the lock {passed} times before this one once");
    process.kill().await;
    // Whoever was killed leaves the lock to its ttl.
    line.enough.store(true, Ordering::Relaxed);
    for contender in line.contenders {
        contender.abort();
    }
}
