//! `make faults [B=etcd] [F=F13]`: runs what the grid names for these cells, and writes down what came of it.
//!
//! ```text
//! faults run [STORE|all] [FAULT|all]   runs cells; lines of results go to target/faults/
//! faults quick                         each fault on one store at least, each store with six at least
//! faults groups [STORE|all]            the servers that have to be up for that
//! faults summarise FILE                writes what is known of each cell, for the documentation
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program for developers")]

mod choice;
mod programs;
mod reading;
mod verdict;

use std::collections::BTreeMap;
use std::process::ExitCode;

use distlock_testbed::grid::{Evidence, Measured, Outcome, Program, Store, summarise};

use choice::Wanted;
use programs::Built;
use reading::Came;
use verdict::Name;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match obey(&words) {
        Ok(code) => code,
        Err(complaint) => {
            eprintln!("{complaint}");
            ExitCode::from(64)
        }
    }
}

fn obey(words: &[&str]) -> Result<ExitCode, String> {
    match words {
        ["groups", store] => {
            println!("{}", programs::groups(&stores(store)?).join(" "));
            Ok(ExitCode::SUCCESS)
        }
        ["summarise", file] => Ok(write_summary(file)),
        ["run", store, fault] => {
            let chosen = choice::cells(&stores(store)?, fault)?;
            if chosen.is_empty() {
                return Err(format!(
                    "nothing is to be run for {fault} on {store}; docs/guarantees.md says why"
                ));
            }
            let all = run(&chosen);
            Ok(report(&all, verdict::without_evidence(&chosen, &all)))
        }
        ["quick"] => {
            let stores = programs::built_stores();
            let chosen = choice::quick(&stores);
            let all = run(&chosen);
            let mut missing = verdict::without_evidence(&chosen, &all);
            missing.extend(verdict::uncovered(&stores, &all));
            Ok(report(&all, missing))
        }
        _ => Err("faults run STORE FAULT | quick | groups STORE | summarise FILE".to_owned()),
    }
}

fn stores(name: &str) -> Result<Vec<Store>, String> {
    let built = programs::built_stores();
    match (name, Store::named(name)) {
        ("all", _) => Ok(built),
        (_, Some(store)) if built.contains(&store) => Ok(vec![store]),
        (_, Some(_)) => Err(format!("what {name} needs can't be built on this machine")),
        _ => Err(format!("no store {name}; there are all, {}", Store::ALL.map(Store::name).join(", "))),
    }
}

/// Runs one program after the other, each with all that is wanted of it.
fn run(chosen: &[Wanted]) -> BTreeMap<Name, Came> {
    let mut by_program: BTreeMap<Program, Vec<&Wanted>> = BTreeMap::new();
    for wanted in chosen {
        for program in wanted.evidence.programs(wanted.store) {
            by_program.entry(program).or_default().push(wanted);
        }
    }
    let built = programs::build(by_program.keys());
    let mut all: BTreeMap<Name, Came> = BTreeMap::new();
    for (program, wanted) in by_program {
        let Some(executable) = built.get(&(program.package.to_owned(), program.program.to_owned())) else {
            panic!("{}/{} was not built", program.package, program.program);
        };
        for (wanted, came) in wanted.iter().zip(run_program(executable, program.store, &wanted)) {
            let name = (wanted.fault, wanted.store, wanted.evidence.label(wanted.fault, wanted.store));
            // On several kinds of servers it has to pass on each.
            let both = match all.remove(&name) {
                Some(before) => before.and(came),
                None => came,
            };
            all.insert(name, both);
        }
    }
    all
}

/// What became of each that is wanted of one program, in their order.
fn run_program(built: &Built, store: &str, wanted: &[&Wanted]) -> Vec<Came> {
    let names = match programs::list(built, store) {
        Ok(names) => names,
        Err(reason) => return wanted.iter().map(|_| Came::Failed(reason.clone())).collect(),
    };
    let is = |wanted: &Wanted, name: &str| wanted.evidence.is(name, wanted.fault, wanted.store);
    let results = programs::run(built, store, &names, |name| wanted.iter().any(|wanted| is(wanted, name)));
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let of = |wanted: &&Wanted| {
        let of_it = results.iter().filter(|(name, _)| is(wanted, name)).map(|(_, came)| came.clone());
        match (of_it.reduce(Came::and), wanted.evidence) {
            (None, _) => Came::Failed("the program has no such test".to_owned()),
            (Some(Came::Ignored(reason)), Evidence::Cell(_)) if is_required => {
                Came::Failed(format!("ignored, although CONFORMANCE_REQUIRE=1: {reason}"))
            }
            (Some(came), _) => came,
        }
    };
    wanted.iter().map(of).collect()
}

/// Writes down what became of all, and says what failed and what is missing.
fn report(all: &BTreeMap<Name, Came>, missing: Vec<String>) -> ExitCode {
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    for ((fault, store, evidence), came) in all {
        let has_passed = match came {
            Came::Passed => {
                passed += 1;
                Some(true)
            }
            Came::Failed(reason) => {
                failed += 1;
                println!("FAILED {fault} on {}: {evidence}: {reason}", store.name());
                Some(false)
            }
            Came::Ignored(reason) => {
                left_out += 1;
                println!("left out {fault} on {}: {evidence}: {reason}", store.name());
                None
            }
        };
        Outcome::new(fault, store.name(), evidence.clone(), has_passed).note();
    }
    for missing in &missing {
        println!("MISSING {missing}");
    }
    println!(
        "{passed} passed, {failed} failed, {left_out} do not apply or can't run here, {} missing",
        missing.len()
    );
    if failed == 0 && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_summary(file: &str) -> ExitCode {
    let cells = summarise(&Outcome::noted(), &Measured::noted());
    let lines: Vec<_> = cells.iter().map(|cell| serde_json::to_string(cell).expect("plain data")).collect();
    std::fs::write(file, format!("[\n{}\n]\n", lines.join(",\n"))).expect("the file is writable");
    let run = cells.iter().filter(|cell| cell.has_passed()).count();
    println!("{run} of {} cells have been run and passed", cells.len());
    for cell in cells.iter().filter(|cell| !cell.has_passed()) {
        println!(
            "  {} on {}: {}",
            cell.fault,
            cell.store,
            if cell.failed.is_empty() { "not run" } else { "FAILED" }
        );
    }
    ExitCode::SUCCESS
}
