//! Which cells to run.

use distlock_testbed::grid::{Class, Evidence, Fault, Store, faults};

/// A piece of evidence, for one cell.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) fault: &'static str,
    pub(crate) store: Store,
    pub(crate) evidence: Evidence,
}

/// How many faults each store has at least in the quick choice.
pub(crate) const EACH: usize = 6;

/// All that is named for these stores, and for one fault or `all`.
///
/// # Errors
/// If there is no such fault.
pub(crate) fn cells(stores: &[Store], id: &str) -> Result<Vec<Wanted>, String> {
    let rows = faults();
    if id != "all" && !rows.iter().any(|fault| fault.id == id) {
        return Err(format!("no fault {id}; they are F01 to F43, without F36 to F38"));
    }
    let chosen = rows.iter().filter(|fault| id == "all" || fault.id == id);
    Ok(chosen.flat_map(|fault| stores.iter().flat_map(move |store| of(fault, *store))).collect())
}

fn of(fault: &Fault, store: Store) -> Vec<Wanted> {
    if fault.class(store) == Class::Absent {
        return Vec::new();
    }
    fault.evidence(store).map(|evidence| Wanted { fault: fault.id, store, evidence }).collect()
}

/// The faults that something shows on one of these stores.
pub(crate) fn shown(stores: &[Store]) -> Vec<&'static str> {
    let is_shown = |fault: &Fault| stores.iter().any(|store| !of(fault, *store).is_empty());
    faults().iter().filter(|fault| is_shown(fault)).map(|fault| fault.id).collect()
}

/// Each fault on one of these stores to which it applies, and each of them with some.
pub(crate) fn quick(stores: &[Store]) -> Vec<Wanted> {
    let rows = faults();
    let applies = |fault: &Fault, store: Store| !of(fault, store).is_empty();
    let mut chosen: Vec<(&Fault, Store)> = Vec::new();
    for (number, fault) in rows.iter().enumerate() {
        // Another store each time.
        let mut turn = stores.iter().copied().cycle().skip(number % stores.len()).take(stores.len());
        chosen.extend(turn.find(|store| applies(fault, *store)).map(|store| (fault, store)));
    }
    for store in stores.iter().copied() {
        for fault in rows.iter().filter(|fault| applies(fault, store)) {
            let has = chosen.iter().filter(|(_, of)| *of == store).count();
            if has < EACH && !chosen.iter().any(|(other, of)| other.id == fault.id && *of == store) {
                chosen.push((fault, store));
            }
        }
    }
    chosen.into_iter().flat_map(|(fault, store)| of(fault, store)).collect()
}
