//! Renewals: those that a failover loses, and what very many cost a Cluster.

use distlock_conformance::Server as _;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Lease, LockBackend, LockClient, LockOptions, LockState, Renewal, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::cluster::nodes;
use crate::servers::{ask, connect, eventually, is_master, lock, owner_at, request, tests};

tests! {
    "sentinel":
        a_renewal_that_was_not_replicated_is_lost_in_a_failover,
        waiting_for_replicas_does_not_save_a_renewal;
    "cluster":
        a_batch_costs_one_script_for_each_slot_it_touches,
        held_locks_cost_one_script_a_slot_and_cycle;
}

/// Long enough that a failover is over before the lease that was not renewed.
const TTL: Duration = Duration::from_secs(16);

async fn a_renewal_that_was_not_replicated_is_lost_in_a_failover(set: &ServiceSet) {
    lose_a_renewal(set, connect(set.url("sentinel")).await).await;
}

async fn waiting_for_replicas_does_not_save_a_renewal(set: &ServiceSet) {
    lose_a_renewal(set, connect(&format!("{}?wait_replicas=2", set.url("sentinel"))).await).await;
}

/// A replicated grant is renewed shortly before its master dies, and the next master has not heard of that.
async fn lose_a_renewal(set: &ServiceSet, first: RedisBackend) {
    let (master, replicas) = (set.server("ms0"), [set.server("ms1"), set.server("ms2")]);
    let second = connect(set.url("sentinel")).await;
    let granted = lock(&first, &request("k", TTL)).await;
    eventually("the replicas have the grant", async || {
        let mut have = true;
        for replica in &replicas {
            have &= owner_at(replica, "distlock:lock:k").await.is_some();
        }
        have
    })
    .await;
    let clock = first.clock();
    eventually("a part of the lease is over", async || granted.valid_until.since(clock.now()) < TTL / 2)
        .await;
    for replica in &replicas {
        replica.pause().await;
    }
    // What is in a socket's buffer already would still arrive.
    ask::<i64>(&master, "CLIENT KILL TYPE replica").await.unwrap();
    let Renewal::Renewed { valid_until } = first.renew(&granted, TTL).await.unwrap() else {
        panic!("it is held")
    };
    assert!(valid_until > granted.valid_until, "the master has acknowledged it");
    master.kill9().await;
    for replica in &replicas {
        replica.resume().await;
    }
    let won = lock(&second, &request("k", TTL)).await;
    let now = second.clock().now();
    assert!(now > granted.valid_until, "what was replicated is kept");
    assert!(now < valid_until && now < won.valid_until, "both believe in their locks");
    assert!(won.token > granted.token, "and the resource can tell: {} after {}", won.token, granted.token);
    let mut late = granted.clone();
    late.valid_until = valid_until;
    assert!(
        matches!(first.renew(&late, TTL).await.unwrap(), Renewal::Lost(_)),
        "it hears of it when it renews"
    );
}

/// How many locks are held. For measurements with more.
fn number() -> usize {
    std::env::var("FAILOVER_TEST_LOCKS").map_or(3000, |number| number.parse().unwrap())
}

async fn masters(set: &ServiceSet) -> Vec<Server> {
    let mut masters = Vec::new();
    for node in nodes(set) {
        if is_master(&node).await {
            masters.push(node);
        }
    }
    masters
}

/// How many scripts the nodes have run.
async fn scripts(masters: &[Server]) -> u64 {
    let mut number = 0;
    for node in masters {
        let stats: String = ask(node, "INFO commandstats").await.unwrap();
        let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
        for calls in lines.filter_map(|line| line.split_once("calls=")) {
            number += calls.1.split(',').next().unwrap().parse::<u64>().unwrap();
        }
    }
    number
}

/// How many slots the locks are in.
async fn slots(masters: &[Server]) -> u64 {
    let mut groups = HashSet::new();
    for node in masters {
        let names: Vec<String> = ask(node, "KEYS distlock:{*}lock:*").await.unwrap();
        groups.extend(names.iter().filter_map(|name| Some(name.split_once('}')?.0.to_owned())));
    }
    u64::try_from(groups.len()).unwrap()
}

async fn a_batch_costs_one_script_for_each_slot_it_touches(set: &ServiceSet) {
    let (backend, masters) = (connect(set.url("cluster")).await, masters(set).await);
    let ttl = Duration::from_secs(60);
    let requests: Vec<_> = (0..number()).map(|number| request(&format!("k{number}"), ttl)).collect();
    let taking: FuturesUnordered<_> = requests.iter().map(|request| backend.try_lock(request)).collect();
    let leases: Vec<Lease> = taking
        .map(|outcome| match outcome.unwrap() {
            TryLock::Acquired(lease) => lease,
            TryLock::Busy(busy) => panic!("{busy:?}"),
        })
        .collect()
        .await;
    let (slots, before) = (slots(&masters).await, scripts(&masters).await);
    assert!(slots > 100, "they are in many slots: {slots}");
    let renewals = backend.renew_many(&leases, ttl).await;
    let cost = scripts(&masters).await - before;
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed { .. }))), "{renewals:?}");
    eprintln!("{} renewals in {slots} slots took {cost} scripts", leases.len());
    assert_eq!(cost, slots);
}

async fn held_locks_cost_one_script_a_slot_and_cycle(set: &ServiceSet) {
    let (backend, masters) = (Arc::new(connect(set.url("cluster")).await), masters(set).await);
    let client = LockClient::new(Arc::<RedisBackend>::clone(&backend));
    let ttl = Duration::from_secs(10);
    let options = LockOptions::default().ttl(ttl);
    let taking: FuturesUnordered<_> =
        (0..number()).map(|number| client.lock_with(format!("k{number}"), &options)).collect();
    let guards: Vec<_> = taking.map(Result::unwrap).collect().await;
    let mut batches = 1;
    let (slots, mut before, mut cycles) = (slots(&masters).await, scripts(&masters).await, 0);
    let since = std::time::Instant::now();
    while cycles < 4 {
        let last: Vec<_> = guards.iter().map(distlock_core::LockGuard::valid_until).collect();
        eventually("all are renewed", async || {
            guards.iter().zip(&last).all(|(guard, last)| guard.valid_until() > *last)
        })
        .await;
        cycles += 1;
        if cycles == 1 {
            // In the first the locks fall due as they were taken.
            before = scripts(&masters).await;
            // Since then, those within a tenth of the interval go out together. On a busy computer they lie further apart.
            let ends: Vec<_> = guards.iter().map(distlock_core::LockGuard::valid_until).collect();
            let spread = ends.iter().max().unwrap().since(*ends.iter().min().unwrap());
            batches = spread.as_millis().div_ceil((ttl / 3 / 10).as_millis()).max(1);
        }
    }
    let cost = scripts(&masters).await - before;
    eprintln!(
        "{} locks in {slots} slots: {cost} scripts in 3 cycles of {batches} batches, {:?} in all",
        guards.len(),
        since.elapsed()
    );
    assert!(guards.iter().all(|guard| guard.state() == LockState::Held), "none is lost");
    // Those of a slow cycle may go out in two halves.
    let most = 3 * slots * u64::try_from(batches.max(2)).unwrap();
    assert!(cost <= most, "{cost} scripts, {most} at most");
}
