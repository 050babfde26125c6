//! Tests of the program behind `make faults`, an example that is built without a harness of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../examples/faults/choice.rs"]
mod choice;
#[path = "../examples/faults/reading.rs"]
mod reading;
#[path = "../examples/faults/verdict.rs"]
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use distlock_testbed::grid::{Store, faults};

use choice::{EACH, Wanted, cells, quick, shown};
use reading::{Came, complete, result};
use verdict::{Name, uncovered, without_evidence};

fn assert_covered(stores: &[Store]) {
    let chosen: BTreeSet<_> = quick(stores).iter().map(|wanted| (wanted.fault, wanted.store)).collect();
    let named: BTreeSet<_> = chosen.iter().map(|(fault, _)| *fault).collect();
    assert_eq!(named, shown(stores).into_iter().collect());
    for store in Store::ALL {
        let has = chosen.iter().filter(|(_, of)| *of == store).count();
        assert!(if stores.contains(&store) { has >= EACH } else { has == 0 }, "{store:?} has {has}");
    }
}

#[test]
fn the_quick_choice_has_each_fault_once_and_each_store_six_times_at_least() {
    assert_covered(&Store::ALL);
    assert_eq!(shown(&Store::ALL).len(), faults().len());
}

#[test]
fn so_it_has_without_a_store_that_can_not_be_built() {
    let built: Vec<_> = Store::ALL.into_iter().filter(|store| *store != Store::Etcd).collect();
    assert_covered(&built);
}

#[test]
fn cells_are_of_one_fault_or_of_all() {
    let of_one = cells(&Store::ALL, "F13").unwrap();
    assert!(!of_one.is_empty() && of_one.iter().all(|wanted| wanted.fault == "F13"));
    assert!(cells(&Store::ALL, "all").unwrap().len() > of_one.len());
    assert!(cells(&[Store::Memory], "F13").unwrap().is_empty(), "it does not apply");
    assert!(cells(&Store::ALL, "F36").unwrap_err().contains("no fault F36"));
}

fn read(wanted: &[&str], output: &str, has_succeeded: bool) -> Vec<Came> {
    let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    let said = output.lines().filter_map(result).collect();
    let came = complete(&wanted.iter().collect::<Vec<_>>(), &said, has_succeeded, "exit status: 101");
    wanted.iter().map(|name| came[name].clone()).collect()
}

fn is_failure(came: &Came, says: &str) -> bool {
    matches!(came, Came::Failed(why) if why.contains(says))
}

#[test]
fn results_are_read_from_both_harnesses() {
    let output = "running 4 tests\ntest [pg]    a::one ... ok\ntest two ... FAILED\n\
        test three ... ignored, no root\ntest four  ... ignored (no network ... here)\ntest result: FAILED.";
    let came = read(&["[pg] a::one", "two", "three", "four"], output, false);
    assert_eq!(came[0], Came::Passed);
    assert!(is_failure(&came[1], "FAILED"));
    assert_eq!(came[2], Came::Ignored("no root".to_owned()));
    assert_eq!(came[3], Came::Ignored("no network ... here".to_owned()));
}

#[test]
fn a_test_that_is_ignored_without_a_reason_has_failed() {
    let output = "test one ... ignored\ntest two ... ignored ()\ntest three ... ignored, \n";
    assert!(read(&["one", "two", "three"], output, true).iter().all(|came| is_failure(came, "no reason")));
}

#[test]
fn a_test_of_which_nothing_is_said_has_failed() {
    let came = read(&["one", "two"], "test one ... ok\n", true);
    assert_eq!(came[0], Came::Passed);
    assert!(is_failure(&came[1], "said nothing of it"), "{came:?}");
}

#[test]
fn a_crash_fails_what_was_not_over() {
    let came = read(&["one", "two"], "test one ... ok\ntest two ... ", false);
    assert_eq!(came[0], Came::Passed);
    assert!(matches!(came[1], Came::Failed(_)), "{came:?}");
}

#[test]
fn a_crash_after_all_tests_passed_fails_them_all() {
    let came = read(&["one", "two"], "test one ... ok\ntest two ... ignored, no root\n", false);
    assert!(came.iter().all(|came| is_failure(came, "exit status: 101")), "{came:?}");
}

#[test]
fn a_failure_outweighs_what_passed_and_that_what_does_not_apply() {
    let failed = Came::Failed("why".to_owned());
    let ignored = Came::Ignored("because".to_owned());
    for (one, other, both) in [
        (&Came::Passed, &failed, &failed),
        (&ignored, &failed, &failed),
        (&Came::Passed, &ignored, &Came::Passed),
        (&ignored, &ignored, &ignored),
    ] {
        assert_eq!(one.clone().and(other.clone()), *both);
        assert_eq!(other.clone().and(one.clone()), *both);
    }
}

fn all_passed(chosen: &[Wanted]) -> BTreeMap<Name, Came> {
    let name =
        |wanted: &Wanted| (wanted.fault, wanted.store, wanted.evidence.label(wanted.fault, wanted.store));
    chosen.iter().map(|wanted| (name(wanted), Came::Passed)).collect()
}

#[test]
fn a_cell_needs_one_piece_of_evidence_that_passed() {
    let chosen = cells(&[Store::Redis], "F04").unwrap();
    let mut all = all_passed(&chosen);
    assert_eq!(without_evidence(&chosen, &all), [""; 0]);
    let mut left = all.len();
    for came in all.clone().into_keys() {
        all.insert(came, Came::Ignored("no root".to_owned()));
        left -= 1;
        assert_eq!(without_evidence(&chosen, &all).len(), usize::from(left == 0));
    }
}

#[test]
fn a_quick_run_covers_each_fault_and_each_store() {
    let all = all_passed(&quick(&Store::ALL));
    assert_eq!(uncovered(&Store::ALL, &all), [""; 0]);
    let without_one: BTreeMap<_, _> =
        all.clone().into_iter().filter(|((fault, ..), _)| *fault != "F10").collect();
    let missing = uncovered(&Store::ALL, &without_one);
    assert!(missing.iter().any(|missing| missing == "F10: has passed on no store"), "{missing:?}");
    let mut kept = BTreeSet::new();
    let five: BTreeMap<_, _> = all
        .into_iter()
        .filter(|((fault, store, _), _)| {
            *store != Store::Zk || kept.contains(fault) || (kept.len() < EACH - 1 && kept.insert(*fault))
        })
        .collect();
    let missing = uncovered(&Store::ALL, &five);
    assert!(missing.iter().any(|missing| missing == "zk: 5 faults have passed, not 6"), "{missing:?}");
}
