//! Many programs with many waiters: their order, that all are served, and what it costs the store.

use std::collections::HashMap;

use distlock_core::LockBackend;

use crate::program::{Program, SERVED};
use crate::rig::*;
use crate::support::{Server, eventually, request, take, tests};

tests! {
    programs_are_served_in_the_order_of_their_waiters,
    a_crowd_in_a_queue_costs_few_commands_and_starves_nobody,
    a_crowd_strictly_in_order_starves_nobody,
    a_crowd_without_a_queue_costs_one_attempt_a_program,
    a_herd_in_one_program_costs_no_more_than_a_pair,
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
async fn crowd(kind: &str, (count, waiters): (usize, usize), turns: usize) -> (f64, Vec<String>) {
    let server = Server::start(&[]).await;
    let mut programs = programs(&server, count).await;
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
    (each, served)
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
    let (each, served) = crowd("auto", (PROGRAMS, WAITERS), 10).await;
    assert!(each <= 4.0, "{each}");
    let programs = served.iter().map(|name| name.split('.').next().unwrap());
    let gap = longest_gap(programs, PROGRAMS);
    eprintln!("at most {gap} grants between two of one program");
    // Each program passes the lock on 17 times in a row, and then stands behind the seven others.
    assert!(gap <= 3 * 17 * PROGRAMS, "{gap}");
}

async fn a_crowd_strictly_in_order_starves_nobody() {
    let (each, served) = crowd("strict", (PROGRAMS, WAITERS), 4).await;
    // Queueing, taking and giving back; and each shows itself once a second.
    assert!(each <= 12.0, "{each}");
    let gap = longest_gap(served.iter().map(String::as_str), PROGRAMS * WAITERS);
    eprintln!("at most {gap} grants between two of one waiter");
    // Once it stands in the queue again, all others pass once; some more while it gets there.
    assert!(gap <= 2 * PROGRAMS * WAITERS, "{gap}");
}

async fn a_crowd_without_a_queue_costs_one_attempt_a_program() {
    let (each, _) = crowd("never", (PROGRAMS, WAITERS), 10).await;
    assert!(each <= 9.0, "{each}");
}

async fn a_herd_in_one_program_costs_no_more_than_a_pair() {
    for kind in ["auto", "never"] {
        let (each, _) = crowd(kind, (1, 256), 10).await;
        assert!(each <= 3.0, "{kind}: {each}");
    }
}
