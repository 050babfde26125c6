//! The whole client on the memory store, in virtual time, through thousands of seeded storms.
//!
//! Each seed decides how many clients, tasks and keys there are, what the tasks do and when they give up, what
//! the network does to each call, and when the machine sleeps. The history of each run is held against H1 to
//! H7, and at the end nothing may be left in the store. A seed that fails is printed with the command that
//! replays it. `SIMULATION_SEEDS` sets how many there are, `SIMULATION_FROM` where they begin.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test rig: it fails by panicking"
)]

mod contender;
mod flawed;
mod resource;
mod weather;
mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::flawed::Flaw;
use crate::world::{Outcome, run};

const REPLAY: &str = "cargo test -p distlock-conformance --all-features --test simulation every_seed";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds on all cores until one fails; of those that do at the same time it is the first, so that none is passed over.
fn first_failure(from: u64, seeds: u64, flaw: Flaw) -> (Option<Outcome>, Totals) {
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let work = || {
        let mut totals = Totals::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(seeds) {
                break;
            }
            let outcome = run(seed, flaw);
            totals.add(&outcome);
            if !outcome.faults.is_empty() {
                stop.store(true, Ordering::Relaxed);
                return (Some(outcome), totals);
            }
        }
        (None, totals)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("no run panics"));
        let first =
            |one: Option<Outcome>, other| one.into_iter().chain(other).min_by_key(|outcome| outcome.seed);
        ends.reduce(|(one, sum), (other, more)| (first(one, other), sum.plus(more)))
            .expect("there is a thread")
    })
}

fn complaint(Outcome { seed, faults, .. }: &Outcome) -> String {
    format!("seed {seed}:\n{}\nreplay it by SIMULATION_SEED={seed} {REPLAY}", faults.join("\n"))
}

/// What happened in all runs together, to show that the storms are storms.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    seeds: u64,
    events: u64,
    grants: u64,
    losses: u64,
    troubles: u64,
    dropped: u64,
    jumps: u64,
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        let losses = outcome.count(|what| matches!(what, distlock_conformance::history::What::Lost { .. }));
        let grants =
            outcome.count(|what| matches!(what, distlock_conformance::history::What::Granted { .. }));
        *self = self.plus(Self {
            seeds: 1,
            events: outcome.events.len() as u64,
            grants,
            losses,
            troubles: outcome.troubles,
            dropped: outcome.dropped,
            jumps: outcome.jumps,
        });
    }

    const fn plus(self, more: Self) -> Self {
        Self {
            seeds: self.seeds + more.seeds,
            events: self.events + more.events,
            grants: self.grants + more.grants,
            losses: self.losses + more.losses,
            troubles: self.troubles + more.troubles,
            dropped: self.dropped + more.dropped,
            jumps: self.jumps + more.jumps,
        }
    }
}

#[test]
fn every_seed_keeps_the_promises() {
    if let Some(seed) = number("SIMULATION_SEED") {
        let outcome = run(seed, Flaw::None);
        for event in &outcome.events {
            println!("{}", serde_json::to_string(event).unwrap());
        }
        assert!(outcome.faults.is_empty(), "seed {seed}:\n{}", outcome.faults.join("\n"));
        return;
    }
    let (from, seeds) =
        (number("SIMULATION_FROM").unwrap_or(0), number("SIMULATION_SEEDS").unwrap_or(10_000));
    let (failed, totals) = first_failure(from, seeds, Flaw::None);
    println!("{totals:?}");
    if let Some(outcome) = failed {
        panic!("{}", complaint(&outcome));
    }
    // Every kind of trouble came up, often.
    let least = seeds / 4;
    for (what, times) in [("grants", totals.grants), ("troubles", totals.troubles), ("drops", totals.dropped)]
    {
        assert!(times > least, "{seeds} seeds had {times} {what}");
    }
    assert!(totals.losses > seeds / 50 && totals.jumps > seeds / 50, "{totals:?}");
}

#[test]
fn a_seed_gives_the_same_history_again() {
    for seed in 0..40 {
        let (one, two) = (run(seed, Flaw::None), run(seed, Flaw::None));
        assert!(one.faults.is_empty(), "{}", complaint(&one));
        assert_eq!(one.anonymous(), two.anonymous(), "seed {seed}");
    }
}

#[test]
fn a_seed_that_panics_comes_with_the_command_that_replays_it() {
    let (failed, _) = first_failure(7, 1_000, Flaw::TheRunPanics);
    let said = complaint(&failed.unwrap());
    for words in ["seed 7:", "the flaw of this run with seed 7", "SIMULATION_SEED=7 cargo test"] {
        assert!(said.contains(words), "{said}");
    }
}

/// A check that no mutant is meant for might see nothing at all.
#[test]
fn every_check_is_meant_for_some_flaw() {
    for (check, promise) in distlock_conformance::history::CHECKS {
        let meant = flawed::MEANT.iter().any(|(_, checks)| checks.contains(&check));
        assert!(meant, "no flaw is meant for {check}: {promise}");
    }
}

/// Every mutant is found, and by the check that is meant to find it.
#[test]
fn every_flaw_is_found_by_the_check_that_is_meant_to() {
    let mut unseen = Vec::new();
    for (flaw, checks) in flawed::MEANT {
        let mut found: Vec<String> = Vec::new();
        let mut from = 0;
        let missing =
            |found: &[String]| checks.iter().any(|check| !found.iter().any(|text| text.starts_with(check)));
        while missing(&found) && from < 2_000 {
            let (failed, _) = first_failure(from, 2_000 - from, *flaw);
            let Some(outcome) = failed else { break };
            from = outcome.seed + 1;
            found.extend(outcome.faults);
        }
        if missing(&found) {
            found.truncate(5);
            unseen
                .push(format!("{flaw:?} is to be found by {checks:?}, which saw:\n  {}", found.join("\n  ")));
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}
