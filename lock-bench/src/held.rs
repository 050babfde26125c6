//! Many held locks that the client keeps alive.

use std::time::{Duration, Instant};

use distlock::{BackendInfo, LockClient, LockGuard, LockKey, Release, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Handle;

use crate::figures::{Figures, rounded};
use crate::machine::{cpu_time, rss_kib};
use crate::options::Params;
use crate::pairs::Tally;
use crate::scenario::Scenario;

/// Locks taken or released at once.
const PARALLEL: usize = 64;
/// The least pause between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(20);
/// Probes in a ttl at most, so that they weigh as much beside the renewals whatever the ttl is.
const PROBES_PER_TTL: u32 = 500;
/// Probes between two looks at every lock.
const PROBES_PER_LOOK: u32 = 10;

/// Takes the locks, watches them for the duration, and gives them back.
pub(crate) async fn run(
    client: &LockClient,
    params: Params,
    prefix: &str,
    heap: Option<fn() -> usize>,
) -> Result<Figures> {
    let before = Footprint::now(heap);
    let guards = take(client, &params, prefix).await?;
    let filled = Footprint::now(heap);
    let mut watch = Watch::over(&guards);
    let (started, cpu, commands) = (Instant::now(), cpu_time(), client.backend().commands_sent());
    let (mut probes, pause) = (0, PROBE_EVERY.max(params.ttl / PROBES_PER_TTL));
    // At any one instant some call is under way; what is there for each lock is there all the time.
    let mut tasks = usize::MAX;
    while started.elapsed() < params.duration {
        tokio::time::sleep(pause).await;
        watch.probe(client, &guards).await?;
        probes += 1;
        tasks = tasks.min(Handle::current().metrics().num_alive_tasks());
        if probes % PROBES_PER_LOOK == 0 {
            watch.look(&guards);
        }
    }
    watch.look(&guards);
    let elapsed = started.elapsed();
    let cpu = cpu_time().saturating_sub(cpu);
    let sent = client.backend().commands_sent().zip(commands).map(|(after, before)| after - before);
    let tasks = tasks.min(Handle::current().metrics().num_alive_tasks());
    watch.tally.lost += release(guards).await?;
    let mut figures = watch.figures(client.info(), params, elapsed);
    figures.costs(sent, cpu);
    let growth = |before: usize, after: usize| (after.saturating_sub(before) / params.contenders) as u64;
    figures.rss_kib = rss_kib();
    figures.rss_bytes_per_lock = before.rss.zip(filled.rss).map(|(before, after)| growth(before, after));
    figures.heap_bytes_per_lock = before.heap.zip(filled.heap).map(|(before, after)| growth(before, after));
    figures.scheduler_tasks = Some(tasks.saturating_sub(before.tasks) as u64);
    Ok(figures)
}

async fn take(client: &LockClient, params: &Params, prefix: &str) -> Result<Vec<LockGuard>> {
    let options = params.lock_options();
    let mut guards = Vec::with_capacity(params.contenders);
    let mut taking = stream::iter(0..params.contenders)
        .map(|n| client.lock_with(format!("{prefix}/{n}"), &options))
        .buffer_unordered(PARALLEL);
    while let Some(guard) = taking.try_next().await? {
        guards.push(guard);
    }
    Ok(guards)
}

/// Gives all locks back; says how many were lost by then.
async fn release(guards: Vec<LockGuard>) -> Result<u64> {
    stream::iter(guards)
        .map(LockGuard::unlock)
        .buffer_unordered(PARALLEL)
        .try_fold(0, |lost, release| async move { Ok(lost + u64::from(release != Release::Released)) })
        .await
}

#[derive(Debug)]
struct Footprint {
    rss: Option<usize>,
    heap: Option<usize>,
    tasks: usize,
}

impl Footprint {
    fn now(heap: Option<fn() -> usize>) -> Self {
        Self {
            rss: rss_kib().and_then(|kib| usize::try_from(kib * 1024).ok()),
            heap: heap.map(|in_use| in_use()),
            tasks: Handle::current().metrics().num_alive_tasks(),
        }
    }
}

/// What is seen of the held locks.
#[derive(Debug)]
struct Watch {
    tally: Tally,
    valid_until: Vec<u64>,
    least_remaining: Duration,
    taken_twice: u64,
}

impl Watch {
    fn over(guards: &[LockGuard]) -> Self {
        Self {
            tally: Tally::new(guards.len()),
            valid_until: guards.iter().map(|guard| guard.valid_until().as_nanos()).collect(),
            least_remaining: Duration::MAX,
            taken_twice: 0,
        }
    }

    /// Renews one lock by hand while the scheduler does the others, and tries to take another one.
    async fn probe(&mut self, client: &LockClient, guards: &[LockGuard]) -> Result<()> {
        let guard = &guards[fastrand::usize(..guards.len())];
        let called = Instant::now();
        match guard.renew().await {
            Err(error) if !error.is_lost() => return Err(error),
            _ => self.tally.latency.record(called.elapsed()),
        }
        let held = &guards[fastrand::usize(..guards.len())];
        let key: &LockKey = held.key();
        if client.try_lock(key).await?.is_some() && held.is_valid() {
            self.taken_twice += 1;
        }
        Ok(())
    }

    /// Counts renewals since the last look, and sees how near to its end any lock came.
    fn look(&mut self, guards: &[LockGuard]) {
        for (n, guard) in guards.iter().enumerate() {
            let valid_until = guard.valid_until().as_nanos();
            self.tally.pairs[n] += u64::from(valid_until > self.valid_until[n]);
            self.valid_until[n] = valid_until;
            self.least_remaining = self.least_remaining.min(guard.remaining());
        }
    }

    fn figures(&self, info: &BackendInfo, params: Params, elapsed: Duration) -> Figures {
        let mut figures = Figures::of(info, Scenario::Held, params, &self.tally, elapsed);
        figures.least_remaining_ms = Some(rounded(self.least_remaining.as_secs_f64() * 1e3));
        figures.violations = self.taken_twice;
        figures
    }
}
