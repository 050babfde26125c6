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
const EACH: usize = 6;

/// All that is named for these stores, and for one fault or `all`.
pub(crate) fn cells(stores: &[Store], id: &str) -> Vec<Wanted> {
    let rows = faults();
    assert!(id == "all" || rows.iter().any(|fault| fault.id == id), "no fault {id}; they are F01 to F43");
    rows.iter()
        .filter(|fault| id == "all" || fault.id == id)
        .flat_map(|fault| stores.iter().flat_map(move |store| of(fault, *store)))
        .collect()
}

fn of(fault: &Fault, store: Store) -> Vec<Wanted> {
    if fault.class(store) == Class::Absent {
        return Vec::new();
    }
    fault.evidence(store).map(|evidence| Wanted { fault: fault.id, store, evidence }).collect()
}

/// Each fault on a store to which it applies, and each store with some.
pub(crate) fn quick() -> Vec<Wanted> {
    let rows = faults();
    let applies = |fault: &Fault, store: Store| !of(fault, store).is_empty();
    let mut chosen: Vec<(&Fault, Store)> = Vec::new();
    for (number, fault) in rows.iter().enumerate() {
        // Another store each time.
        let turn = Store::ALL.into_iter().cycle().skip(number % Store::ALL.len()).take(Store::ALL.len());
        chosen.extend(turn.into_iter().find(|store| applies(fault, *store)).map(|store| (fault, store)));
    }
    for store in Store::ALL {
        for fault in rows.iter().filter(|fault| applies(fault, store)) {
            let has = chosen.iter().filter(|(_, of)| *of == store).count();
            if has < EACH && !chosen.iter().any(|(other, of)| other.id == fault.id && *of == store) {
                chosen.push((fault, store));
            }
        }
    }
    chosen.into_iter().flat_map(|(fault, store)| of(fault, store)).collect()
}

/// The servers that tests on these stores expect to find.
pub(crate) fn groups(stores: &[Store]) -> Vec<&'static str> {
    let of = |store: &Store| -> &[&str] {
        match store {
            Store::Memory | Store::Sqlite => &[],
            Store::Postgres => &["postgres", "pgbouncer"],
            Store::Mysql => &["mysql"],
            Store::Redis => &["redis"],
            Store::Failover => &["sentinel", "cluster"],
            Store::Redlock => &["redlock"],
            Store::Etcd => &["etcd", "etcd3"],
            Store::Zk => &["zk", "zk3"],
        }
    };
    stores.iter().flat_map(of).copied().collect()
}
