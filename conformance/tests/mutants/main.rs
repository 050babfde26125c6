//! Broken stores: the suite must reject each of them, and for the right reason. The sound store they
//! are made from must pass everything.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test rig")]

mod backend;
mod flaw;
mod rejections;
mod remote;
mod subject;
mod toy;

use std::process::ExitCode;
use std::sync::Arc;

use distlock_conformance::{RunOptions, Subject, Verdict, run};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::flaw::Flaw;
use crate::rejections::{MUTANTS, REMOTE};
use crate::remote::RemoteMutant;
use crate::subject::Mutant;
use crate::toy::Toy;

/// Runs the named cases on a mutant, and asserts that each fails and says why.
fn is_rejected<S: Subject>(
    flaw: Flaw,
    subject: fn(Flaw) -> S,
    reasons: &[(&str, &str)],
) -> Result<(), Failed> {
    for (id, reason) in reasons {
        let report = run(subject(flaw), &RunOptions::default().filter(*id).threads(1).seed(1), |_| ());
        let Some(outcome) = report.outcomes.iter().find(|outcome| outcome.id == *id) else {
            return Err(format!("there is no case `{id}`").into());
        };
        match &outcome.verdict {
            Verdict::Failed(text) if text.contains(reason) => {}
            Verdict::Failed(text) => {
                return Err(format!("`{id}` fails for another reason than `{reason}`:\n{text}").into());
            }
            other => return Err(format!("`{id}` does not reject {flaw:?}: {other:?}").into()),
        }
    }
    Ok(())
}

fn toy(flaw: Flaw) -> Mutant {
    Mutant(Arc::new(Toy::new(flaw)))
}

/// Runs the whole suite on the sound store.
fn the_sound_store_passes() -> Result<(), Failed> {
    let report = run(toy(Flaw::None), &RunOptions::default(), |_| ());
    if report.is_success() && report.passed() >= 70 {
        Ok(())
    } else {
        Err(report.render(Default::default()).into())
    }
}

/// Runs a group on the sound store behind TCP.
fn the_sound_remote_store_passes(group: &str, least: usize) -> Result<(), Failed> {
    let report = run(RemoteMutant::new(Flaw::None), &RunOptions::default().filter(group), |_| ());
    if report.is_success() && report.passed() >= least {
        Ok(())
    } else {
        Err(report.render(Default::default()).into())
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(8);
    let mut trials = vec![Trial::test("the_sound_store_passes", the_sound_store_passes)];
    for (group, least) in [("network::", 15), ("wire::", 8), ("chaos::", 4)] {
        let name = format!("the_sound_remote_store_passes_{}", group.trim_end_matches(':'));
        trials.push(Trial::test(name, move || the_sound_remote_store_passes(group, least)));
    }
    for (flaw, reasons) in MUTANTS {
        trials.push(Trial::test(format!("{flaw:?}_is_rejected"), || is_rejected(*flaw, toy, reasons)));
    }
    for (flaw, reasons) in REMOTE {
        let name = format!("{flaw:?}_is_rejected_behind_tcp");
        trials.push(Trial::test(name, || is_rejected(*flaw, RemoteMutant::new, reasons)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
