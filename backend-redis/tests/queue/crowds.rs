//! Many programs with many waiters: their order, that all are served, and what it costs the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock_core::LockBackend;
use distlock_redis::{RedisBackend, RedisConfig};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::program::{Program, SERVED};
use crate::rig::*;
use crate::support::{Server, busy, eventually, request, run, take, tests};

tests! {
    programs_are_served_in_the_order_of_their_waiters,
    a_crowd_in_a_queue_costs_few_commands_and_starves_nobody,
    a_crowd_strictly_in_order_starves_nobody,
    a_crowd_without_a_queue_costs_one_attempt_a_program,
    a_herd_in_one_program_costs_no_more_than_a_pair,
    no_program_starves_without_a_queue,
    who_hears_of_a_release_first_changes,
}

const PROGRAMS: usize = 8;
const WAITERS: usize = 32;

async fn programs(server: &Server, count: usize) -> Vec<Program> {
    let mut programs = Vec::new();
    for _ in 0..count {
        programs.push(Program::start(server).await);
    }
    programs
}

async fn served(server: &Server) -> Vec<String> {
    redis::cmd("LRANGE").arg(SERVED).arg(0).arg(-1).query_async(&mut server.raw().await).await.unwrap()
}

async fn programs_are_served_in_the_order_of_their_waiters() {
    const EACH: usize = 6;
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let mut programs = programs(&server, PROGRAMS).await;
    for n in 0..PROGRAMS * EACH {
        programs[n % PROGRAMS].order(&format!("wait {} 60000", n + 1)).await;
        eventually("it queues", async || queued(&mut raw).await == n + 1).await;
    }
    backend.unlock(&lease.claim).await.unwrap();
    let all = PROGRAMS * EACH;
    eventually("all are served", async || served(&server).await.len() == all).await;
    let order: Vec<_> = (1..=all).map(|n| n.to_string()).collect();
    assert_eq!(served(&server).await, order);
}

/// Lets so many waiters in each of so many programs contend; the commands for one hand-off, and who
/// was served.
async fn crowd(kind: &str, (count, waiters): (usize, usize), turns: usize) -> (f64, Vec<String>, Duration) {
    let server = Server::start(&[]).await;
    let mut programs = programs(&server, count).await;
    let begun = Instant::now();
    for (n, program) in programs.iter_mut().enumerate() {
        program.order(&format!("herd {n} {waiters} {turns} {kind}")).await;
    }
    let mut commands = 0;
    for program in &mut programs {
        let answer = program.answer().await;
        commands += answer.strip_prefix("done ").unwrap().parse::<u32>().unwrap();
    }
    let served = served(&server).await;
    assert_eq!(served.len(), count * waiters * turns, "each got each of its turns");
    let each = f64::from(commands) / served.len() as f64;
    eprintln!("{kind}: {each:.2} commands for a hand-off among {count} programs with {waiters} waiters");
    (each, served, begun.elapsed())
}

/// The most grants of others between two of one name's, while all contend.
fn longest_gap<'a>(served: impl Iterator<Item = &'a str>, among: usize) -> usize {
    let mut last: HashMap<&str, usize> = HashMap::new();
    let mut longest = 0;
    for (at, name) in served.enumerate() {
        if let Some(before) = last.insert(name, at)
            && last.len() == among
        {
            longest = longest.max(at - before);
        }
    }
    longest
}

async fn a_crowd_in_a_queue_costs_few_commands_and_starves_nobody() {
    let (each, served, _) = crowd("auto", (PROGRAMS, WAITERS), 10).await;
    assert!(each <= 4.0, "{each}");
    let programs = served.iter().map(|name| name.split('.').next().unwrap());
    let gap = longest_gap(programs, PROGRAMS);
    eprintln!("at most {gap} grants between two of one program");
    // Each program passes the lock on 17 times in a row, and then stands behind the seven others.
    assert!(gap <= 3 * 17 * PROGRAMS, "{gap}");
}

async fn a_crowd_strictly_in_order_starves_nobody() {
    let (each, served, took) = crowd("strict", (PROGRAMS, WAITERS), 4).await;
    // Coming, and giving back, which serves the next of the same program, too. A busy machine takes
    // long enough for waiters to show themselves several times.
    let signs = took.as_secs_f64() * (PROGRAMS * WAITERS) as f64 / served.len() as f64;
    assert!(each <= 3.0 + (signs - 0.5).max(0.0), "{each} in {took:?}");
    let gap = longest_gap(served.iter().map(String::as_str), PROGRAMS * WAITERS);
    eprintln!("at most {gap} grants between two of one waiter");
    // Once it stands in the queue again, all others pass once; some more while it gets there.
    assert!(gap <= 2 * PROGRAMS * WAITERS, "{gap}");
}

async fn a_crowd_without_a_queue_costs_one_attempt_a_program() {
    let (each, ..) = crowd("never", (PROGRAMS, WAITERS), 10).await;
    assert!(each <= 9.0, "{each}");
}

async fn a_herd_in_one_program_costs_no_more_than_a_pair() {
    for kind in ["auto", "never"] {
        let (each, ..) = crowd(kind, (1, 256), 10).await;
        assert!(each <= 3.0, "{kind}: {each}");
    }
}

async fn all_listen(raw: &mut MultiplexedConnection) -> bool {
    let clients: String = redis::from_redis_value(run(raw, "CLIENT LIST TYPE pubsub").await).unwrap();
    clients.lines().filter(|client| client.contains("sub=1")).count() == PROGRAMS
}

async fn no_program_starves_without_a_queue() {
    const GRANTS: usize = 4000;
    /// Of all grants. An equal share is 0.125; where a release reached the programs in the same order
    /// each time, the last of them got 0.003.
    const LEAST: f64 = 0.01;
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let mut programs = programs(&server, PROGRAMS).await;
    for (n, program) in programs.iter_mut().enumerate() {
        program.order(&format!("contend {n} {GRANTS}")).await;
    }
    eventually("all wait", async || all_listen(&mut raw).await).await;
    backend.unlock(&lease.claim).await.unwrap();
    for program in &mut programs {
        program.answer().await;
    }
    let served = served(&server).await;
    let mut shares = [0; PROGRAMS];
    for name in &served[..GRANTS] {
        shares[name.parse::<usize>().unwrap()] += 1;
    }
    eprintln!("of {GRANTS} grants the programs had {shares:?}");
    let least = f64::from(*shares.iter().min().unwrap()) / GRANTS as f64;
    assert!(least >= LEAST, "{shares:?}");
}

/// One thread serves all who wait here, in the order in which they hear of a release, so that the
/// server's order alone decides who is first.
async fn who_hears_of_a_release_first_changes() {
    const RELEASES: usize = 300;
    let server = Server::start(&[]).await;
    let (config, raw) = (server.config(), server.client());
    let firsts = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, who_hears_first(config, raw, RELEASES))
    });
    let firsts = firsts.await.unwrap();
    eprintln!("of {RELEASES} releases the waiters heard first of {firsts:?}");
    // Of all of them, where all hear in the same order each time. Lanes are drawn by lot; that all lie
    // close together, so that one is first this often, happens once in thousands.
    assert!(*firsts.iter().max().unwrap() < RELEASES * 4 / 5, "{firsts:?}");
}

/// How many releases each of several waiters heard of first.
async fn who_hears_first(config: RedisConfig, raw: redis::Client, releases: usize) -> Vec<usize> {
    let holder = RedisBackend::connect(config.clone()).await.unwrap();
    let mut raw = raw.get_multiplexed_async_connection().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..PROGRAMS {
        let backend = RedisBackend::connect(config.clone()).await.unwrap();
        waiters.push((Arc::new(backend), request("k", LONG)));
    }
    let mut firsts = vec![0; PROGRAMS];
    // In the first round the listeners connect.
    for round in 0..=releases {
        let lease = take(&holder, &request("k", LONG)).await;
        let (waiting, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let mut woken = JoinSet::new();
        for (at, (backend, request)) in waiters.iter().cloned().enumerate() {
            let (waiting, order) = (Arc::clone(&waiting), Arc::clone(&order));
            woken.spawn_local(async move {
                let seen = busy(&backend, &request).await;
                waiting.fetch_add(1, Ordering::Relaxed);
                backend.watch_release(&request.claim, &seen).await.unwrap();
                order.lock().unwrap().push(at);
            });
        }
        while waiting.load(Ordering::Relaxed) < PROGRAMS || round == 0 && !all_listen(&mut raw).await {
            tokio::task::yield_now().await;
        }
        holder.unlock(&lease.claim).await.unwrap();
        woken.join_all().await;
        if round > 0 {
            let first = order.lock().unwrap()[0];
            firsts[first] += 1;
        }
    }
    firsts
}
