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

use std::collections::BTreeMap;
use std::process::ExitCode;

use distlock_testbed::grid::{Measured, Outcome, Program, Store, summarise};

use choice::Wanted;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chosen = match words.as_slice() {
        ["groups", store] => {
            println!("{}", choice::groups(&stores(store)).join(" "));
            return ExitCode::SUCCESS;
        }
        ["summarise", file] => return write_summary(file),
        ["run", store, fault] => choice::cells(&stores(store), fault),
        ["quick"] => choice::quick(),
        _ => {
            eprintln!("faults run STORE FAULT | quick | groups STORE | summarise FILE");
            return ExitCode::from(64);
        }
    };
    if chosen.is_empty() {
        eprintln!("the fault applies to none of these stores");
        return ExitCode::from(64);
    }
    run(&chosen)
}

fn stores(name: &str) -> Vec<Store> {
    match (name, Store::named(name)) {
        ("all", _) => Store::ALL.into(),
        (_, Some(store)) => vec![store],
        _ => panic!("no store {name}; there are {:?}", Store::ALL.map(Store::name)),
    }
}

/// Runs one program after the other, each with all that is wanted of it.
fn run(chosen: &[Wanted]) -> ExitCode {
    let mut by_program: BTreeMap<Program, Vec<&Wanted>> = BTreeMap::new();
    for wanted in chosen {
        for program in wanted.evidence.programs(wanted.store) {
            by_program.entry(program).or_default().push(wanted);
        }
    }
    let built = programs::build(by_program.keys());
    let mut all: BTreeMap<(String, String, String), Option<bool>> = BTreeMap::new();
    for (program, wanted) in by_program {
        let Some(executable) = built.get(&(program.package.to_owned(), program.program.to_owned())) else {
            panic!("{}/{} was not built", program.package, program.program);
        };
        let names = programs::list(executable, program.store);
        let of = |wanted: &Wanted| {
            names
                .iter()
                .filter(|name| wanted.evidence.is(name, wanted.fault, wanted.store))
                .collect::<Vec<_>>()
        };
        let results = programs::run(executable, program.store, &names, |name| {
            wanted.iter().any(|wanted| of(wanted).contains(&name))
        });
        for wanted in wanted {
            let came: Vec<_> =
                of(wanted).into_iter().filter_map(|name| results.get(name).copied().flatten()).collect();
            let passed = (!came.is_empty()).then(|| came.iter().all(|passed| *passed));
            let label = wanted.evidence.label(wanted.fault, wanted.store);
            let name = (wanted.fault.to_owned(), wanted.store.name().to_owned(), label);
            let known = all.entry(name).or_default();
            // On several kinds of servers it has to pass on each.
            *known = match (*known, passed) {
                (Some(before), Some(now)) => Some(before && now),
                (before, now) => before.or(now),
            };
        }
    }
    report(&all)
}

fn report(all: &BTreeMap<(String, String, String), Option<bool>>) -> ExitCode {
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    for ((fault, store, evidence), came) in all {
        Outcome::new(fault, store, evidence.clone(), *came).note();
        match came {
            Some(true) => passed += 1,
            Some(false) => {
                failed += 1;
                println!("FAILED {fault} on {store}: {evidence}");
            }
            None => left_out += 1,
        }
    }
    println!("{passed} passed, {failed} failed, {left_out} do not apply or can't run here");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
