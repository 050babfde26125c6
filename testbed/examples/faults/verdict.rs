//! Whether a run has shown what it was to show.

use std::collections::{BTreeMap, BTreeSet};

use distlock_testbed::grid::Store;

use crate::choice::{self, EACH, Wanted};
use crate::reading::Came;

/// A fault, a store and a piece of evidence, as results name them.
pub(crate) type Name = (&'static str, Store, String);

/// The cells of the choice for which nothing has passed.
pub(crate) fn without_evidence(chosen: &[Wanted], all: &BTreeMap<Name, Came>) -> Vec<String> {
    let shown = shown(all);
    let wanted: BTreeSet<_> = chosen.iter().map(|wanted| (wanted.fault, wanted.store)).collect();
    wanted
        .difference(&shown)
        .map(|(fault, store)| format!("{fault} on {}: nothing that is named for it has passed", store.name()))
        .collect()
}

/// What is missing of each fault on one of these stores at least, and of six faults on each of them.
pub(crate) fn uncovered(stores: &[Store], all: &BTreeMap<Name, Came>) -> Vec<String> {
    let shown = shown(all);
    let faults = choice::shown(stores)
        .into_iter()
        .filter(|fault| !shown.iter().any(|(other, _)| other == fault))
        .map(|fault| format!("{fault}: has passed on no store"));
    let few = stores.iter().filter_map(|store| {
        let has = shown.iter().filter(|(_, of)| of == store).count();
        (has < EACH).then(|| format!("{}: {has} faults have passed, not {EACH}", store.name()))
    });
    faults.chain(few).collect()
}

fn shown(all: &BTreeMap<Name, Came>) -> BTreeSet<(&'static str, Store)> {
    all.iter()
        .filter(|(_, came)| **came == Came::Passed)
        .map(|((fault, store, _), _)| (*fault, *store))
        .collect()
}
