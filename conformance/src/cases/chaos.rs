//! Everything at once, at random; the history is the judge.

use std::sync::atomic::{AtomicUsize, Ordering};

use distlock_core::{ErrorKind, LockClient, LockGuard, LockKey, LockOptions, Operation, WaitPolicy};

use super::*;
use crate::decorators::{Fault, Script};
use crate::history::Recorder;
use crate::holder::{Holder, Order};
use crate::register::Register;
use crate::tracked::Tracked;

cases! { "chaos":
    lost_updates_show_without_the_lock,
    random_faults_break_no_promise @alone,
    random_quitters_break_no_promise @alone,
    random_pauses_and_kills_break_no_promise @alone [Processes],
    random_network_trouble_breaks_no_promise @alone
        [Aside, HoldRequests, Outage, ResetConnections, Silence, SlowAnswers],
    random_server_trouble_breaks_no_promise @alone [Pause, Restart, SurvivesRestart],
}

/// How long the chaos lasts, at the usual pace.
const STORM: Duration = Duration::from_secs(5);
/// It goes on for up to so many times that, until the lock was taken often enough.
const LONGER: u32 = 4;

/// That the register itself hides nothing: without a lock, updates are lost.
async fn lost_updates_show_without_the_lock(ctx: &Context) {
    let unfenced = Register::unfenced(ctx.folder(), Arc::clone(ctx.log()));
    let token = distlock_core::FencingToken::MIN;
    let (one, two) = (unfenced.read(), unfenced.read());
    unfenced.write(token, one + 1);
    unfenced.write(token, two + 1);
    assert_eq!(unfenced.lost_updates(&ctx.events()), 1);
}

/// What stands between a contender and the store.
#[derive(Clone, Copy)]
enum Trouble {
    None,
    Scripted,
    OnTheWire,
}

/// One contender: its client, the trouble between it and the store, and its choices.
struct Contender {
    client: LockClient,
    script: Option<Script>,
    key: LockKey,
    ttl: Duration,
    fenced: Register,
    log: Arc<Recorder>,
    rng: fastrand::Rng,
}

impl Contender {
    async fn new(ctx: &Context, number: u64, trouble: Trouble) -> Self {
        let (client, script) = match trouble {
            Trouble::Scripted => {
                let (client, script) = ctx.faulty_client().await;
                (client, Some(script))
            }
            Trouble::OnTheWire => (ctx.exposed_client().await, None),
            Trouble::None => (ctx.client().await, None),
        };
        Self {
            client,
            script,
            key: ctx.key("key"),
            ttl: ctx.brief(),
            fenced: Register::fenced(ctx.folder(), Arc::clone(ctx.log())),
            log: Arc::clone(ctx.log()),
            rng: fastrand::Rng::with_seed(ctx.rng().u64(..) ^ number),
        }
    }

    fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    fn make_trouble(&mut self) {
        let ttl = self.ttl;
        let faults = [
            Fault::Refused(ErrorKind::Unavailable),
            Fault::AnswerLost,
            Fault::AnswerSwallowed,
            Fault::Silence,
            Fault::SentLate(self.some(ttl)),
            Fault::AnsweredLate(self.some(ttl * 2)),
            Fault::SentTwice(self.some(ttl)),
        ];
        let operations = [Operation::TryLock, Operation::Renew, Operation::Unlock, Operation::Watch];
        let (fault, operation) = (faults[self.rng.usize(..7)], operations[self.rng.usize(..4)]);
        if let Some(script) = &self.script {
            script.once(operation, fault);
        }
    }

    async fn contend(mut self, taken: Arc<AtomicUsize>, is_over: impl Fn(usize) -> bool) {
        while !is_over(taken.load(Ordering::Relaxed)) {
            if self.rng.bool() {
                self.make_trouble();
            }
            let patience = self.some(Duration::from_secs(2));
            let options = LockOptions::default().ttl(self.ttl).wait(WaitPolicy::UpTo(patience));
            let lock = self.client.lock_with(&self.key, &options);
            let granted = if self.rng.u8(..4) == 0 {
                let limit = Duration::from_micros(self.rng.u64(..50_000));
                tokio::time::timeout(limit, lock).await.ok().and_then(Result::ok)
            } else {
                lock.await.ok()
            };
            if let Some(guard) = granted {
                taken.fetch_add(1, Ordering::Relaxed);
                self.work(guard).await;
            }
        }
    }

    async fn work(&mut self, guard: LockGuard) {
        let guard = Tracked::new(guard, &self.log);
        let read = self.fenced.read();
        let pause = self.ttl / if self.rng.u8(..8) == 0 { 1 } else { 20 };
        let pause = self.some(pause * 2);
        tokio::time::sleep(pause).await;
        if guard.is_valid() {
            // Whether it is still valid at the write is for the fence to say.
            self.fenced.write(guard.guard().token(), read + 1);
        }
        match self.rng.u8(..4) {
            0 => drop(guard),
            1 => {
                let limit = self.some(self.ttl);
                let _ = tokio::time::timeout(limit, guard.unlock()).await;
            }
            _ => {
                let _ = guard.unlock().await;
            }
        }
    }
}

async fn contenders(ctx: &Context, trouble: Trouble) -> Vec<Contender> {
    let mut contenders = Vec::new();
    for number in 0..8 {
        contenders.push(Contender::new(ctx, number, trouble).await);
    }
    contenders
}

/// Lets contenders loose; they have to get the lock this often.
async fn storm(ctx: &Context, contenders: Vec<Contender>, least: usize) {
    let (length, began) = (ctx.paced(STORM), std::time::Instant::now());
    let is_over = move |taken| began.elapsed() >= length * if taken < least { LONGER } else { 1 };
    let taken = Arc::new(AtomicUsize::new(0));
    let contending = |contender: Contender| tokio::spawn(contender.contend(Arc::clone(&taken), is_over));
    for ended in join_all(contenders.into_iter().map(contending)).await {
        ended.expect("no contender panics");
    }
    let (taken, took) = (taken.load(Ordering::Relaxed), began.elapsed());
    assert!(taken >= least, "in {took:?} the lock was taken {taken} times");
}

/// Asserts that the lock is free soon after everybody left.
async fn settles(ctx: &Context) {
    let limit = ctx.brief() * 3 + ctx.lateness() + Duration::from_secs(5);
    take_within(&*ctx.backend().await, &ctx.request("key"), limit).await;
}

async fn random_faults_break_no_promise(ctx: &Context) {
    storm(ctx, contenders(ctx, Trouble::Scripted).await, 5).await;
    settles(ctx).await;
}

async fn random_quitters_break_no_promise(ctx: &Context) {
    storm(ctx, contenders(ctx, Trouble::None).await, 5).await;
    settles(ctx).await;
}

async fn random_network_trouble_breaks_no_promise(ctx: &Context) {
    let mut rng = ctx.rng();
    let faults = ctx.faults();
    let contenders = contenders(ctx, Trouble::OnTheWire).await;
    let nemesis = async {
        loop {
            tokio::time::sleep(Duration::from_millis(rng.u64(20..300))).await;
            match rng.u8(..6) {
                0 => faults.silence().await,
                1 => faults.silence_answers().await,
                2 => faults.outage().await,
                3 => faults.reset_connections().await,
                4 => faults.hold_requests().await,
                _ => faults.slow_answers(ctx.brief().mul_f64(rng.f64())).await,
            }
            tokio::time::sleep(ctx.brief().mul_f64(rng.f64())).await;
            faults.heal().await;
        }
    };
    tokio::select! {
        () = storm(ctx, contenders, 2) => {}
        () = nemesis => {}
    }
    faults.heal().await;
    settles(ctx).await;
}

async fn random_server_trouble_breaks_no_promise(ctx: &Context) {
    let mut rng = ctx.rng();
    let faults = ctx.faults();
    let contenders = contenders(ctx, Trouble::None).await;
    let nemesis = async {
        loop {
            tokio::time::sleep(Duration::from_millis(rng.u64(100..600))).await;
            if rng.bool() {
                faults.restart().await;
            } else {
                faults.pause().await;
                tokio::time::sleep(ctx.brief().mul_f64(rng.f64() * 2.0)).await;
                faults.heal().await;
            }
        }
    };
    tokio::select! {
        () = storm(ctx, contenders, 2) => {}
        () = nemesis => {}
    }
    // A restart that was dropped midway still ends by itself, before the next one begins.
    faults.heal().await;
    faults.restart().await;
    settles(ctx).await;
}

async fn random_pauses_and_kills_break_no_promise(ctx: &Context) {
    crash::ends_with_its_process(ctx, &*ctx.backend().await);
    let mut rng = ctx.rng();
    let millis = u64::try_from(ctx.brief().as_millis()).unwrap();
    let churn = Order::Churn { key: ctx.key("key").to_string(), ttl_ms: millis };
    let start = || async {
        let mut holder = ctx.holder().await;
        holder.send(&churn).await;
        holder
    };
    let mut holders: Vec<Holder> = Vec::new();
    for _ in 0..4 {
        holders.push(start().await);
    }
    let until = std::time::Instant::now() + ctx.paced(STORM);
    while std::time::Instant::now() < until {
        let at = rng.usize(..holders.len());
        if rng.u8(..5) == 0 {
            holders.swap_remove(at).kill().await;
            holders.push(start().await);
        } else {
            holders[at].stop();
            tokio::time::sleep(ctx.brief().mul_f64(rng.f64() * 2.0)).await;
            holders[at].go_on();
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(..100))).await;
    }
    for holder in holders {
        holder.kill().await;
    }
    let limit = ctx.brief() + ctx.lateness() + ctx.place() + Duration::from_secs(5);
    take_within(&*ctx.backend().await, &ctx.request("key"), limit).await;
    let fenced = Register::fenced(ctx.folder(), Arc::clone(ctx.log()));
    assert!(fenced.read() > 0, "nobody got any work done");
}
