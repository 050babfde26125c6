//! Many who wait for one lock.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, LockGuard, LockOptions, Queueing};
use distlock_zk::ZkBackend;
use futures_util::future::join_all;

use crate::support::{backend, eventually, folder, raw, tests};

tests! {
    a_hand_over_in_a_crowd_wakes_one_and_costs_few_requests,
    two_hundred_clients_hold_a_thousand_locks,
}

const BACKENDS: usize = 16;
const EACH: usize = 16;

fn sent(backends: &[Arc<ZkBackend>]) -> u64 {
    backends.iter().map(|backend| backend.commands_sent().unwrap()).sum()
}

/// What a crowd of waiters costs.
struct Cost {
    /// Requests for each hand-over.
    each: f64,
    /// How long one took, in seconds.
    took: f64,
    /// Requests a second while nothing happens.
    idle: f64,
}

impl Cost {
    /// A hand-over is three requests: giving back, looking, confirming. Those who still wait ask every five
    /// to ten seconds, in two requests, and so does each session for its own sake.
    fn is_little(&self) -> bool {
        let asked_meanwhile = 50.0 * self.took;
        self.each <= 4.0 + asked_meanwhile && self.idle <= 100.0
    }
}

async fn a_hand_over_in_a_crowd_wakes_one_and_costs_few_requests() {
    // Where the machine stands still, connections are given up, and everybody looks anew.
    for round in 1..=3 {
        let cost = crowd().await;
        if cost.is_little() {
            return;
        }
        let Cost { each, idle, .. } = cost;
        assert!(round < 3, "{each:.2} requests a hand-over, {idle:.0} a second before");
    }
}

async fn crowd() -> Cost {
    let folder = folder();
    let mut backends = Vec::new();
    for _ in 0..BACKENDS {
        backends.push(backend(&folder).await);
    }
    let raw = raw().await;
    let holder = LockClient::new(backend(&folder).await).lock("k").await.unwrap();
    let options = LockOptions::default().queue(Queueing::Strict);
    let mut waiters = tokio::task::JoinSet::new();
    for backend in &backends {
        let client = LockClient::new(Arc::<ZkBackend>::clone(backend));
        for _ in 0..EACH {
            let (client, options) = (client.clone(), options.clone());
            waiters
                .spawn(async move { client.lock_with("k", &options).await.unwrap().unlock().await.unwrap() });
        }
    }
    let all = BACKENDS * EACH + 1;
    let lock = format!("{folder}/k");
    eventually("all wait", async || raw.list_children(&lock).await.unwrap().len() == all).await;
    // Whoever has made its place still looks, and sees to its watch.
    let second = Duration::from_secs(1);
    eventually("all have done what they come with", async || {
        let before = sent(&backends);
        tokio::time::sleep(second).await;
        sent(&backends) - before < all as u64 / 2
    })
    .await;
    // Waiting itself costs little: looks from time to time, and a sign of life of each session.
    let (before, began) = (sent(&backends), std::time::Instant::now());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let idle = (sent(&backends) - before) as f64 / began.elapsed().as_secs_f64();
    let (before, began) = (sent(&backends), std::time::Instant::now());
    holder.unlock().await.unwrap();
    while let Some(served) = waiters.join_next().await {
        served.unwrap();
    }
    let took = began.elapsed().as_secs_f64();
    let each = (sent(&backends) - before) as f64 / (all - 1) as f64;
    eprintln!(
        "{} waiters: {idle:.0} requests a second while they wait; {each:.2} a hand-over, {:.1} ms",
        all - 1,
        took * 1000.0 / (all - 1) as f64
    );
    Cost { each, took: took / (all - 1) as f64, idle }
}

/// What this process takes, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn two_hundred_clients_hold_a_thousand_locks() {
    const CLIENTS: usize = 200;
    let folder = folder();
    let before = memory();
    let clients = join_all((0..CLIENTS).map(|_| async { LockClient::new(backend(&folder).await) })).await;
    let options = LockOptions::default();
    let guards = clients.iter().enumerate().flat_map(|(n, client)| {
        let options = &options;
        (0..5).map(move |lock| async move { client.lock_with(format!("{n} {lock}"), options).await.unwrap() })
    });
    let guards = join_all(guards).await;
    eprintln!("{CLIENTS} clients, {} locks: {} KiB", guards.len(), memory() - before);
    let first: Vec<_> = guards.iter().map(LockGuard::valid_until).collect();
    eventually("all are renewed twice over", async || {
        guards.iter().zip(&first).all(|(guard, first)| {
            assert!(guard.is_valid(), "`{}` was lost", guard.key());
            guard.valid_until().since(*first) > guard.ttl()
        })
    })
    .await;
    for released in join_all(guards.into_iter().map(LockGuard::unlock)).await {
        released.unwrap();
    }
}
