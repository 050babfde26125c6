//! The grid of faults: what each fault is expected to do to a lock on each store, and what shows it.
//!
//! One table says it all. The documentation's page is made of it and of what was measured; the runner of
//! `make faults` runs what it names; a test asserts that everything that it names exists.

mod client_faults;
mod evidence;
mod input_faults;
mod outcome;
mod page;
mod server_faults;
mod summary;

pub use evidence::{Evidence, Program};
pub use outcome::{Measured, Outcome};
pub use page::page;
pub use summary::{Cell, summarise};

/// The note of a cell whose fault no server and no network has a part in.
const BETWEEN: &str = "within the client's process, between client and backend";

/// The stores of the grid, in the order of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a test rig: a new column is to break what lists them")]
#[expect(missing_docs, reason = "they are named by themselves")]
pub enum Store {
    Memory,
    Sqlite,
    Postgres,
    Mysql,
    Redis,
    /// Redis with Sentinel, and Redis Cluster.
    Failover,
    Redlock,
    Etcd,
    Zk,
}

impl Store {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::Sqlite,
        Self::Postgres,
        Self::Mysql,
        Self::Redis,
        Self::Failover,
        Self::Redlock,
        Self::Etcd,
        Self::Zk,
    ];

    /// Its name in commands and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Failover => "redis-failover",
            Self::Redlock => "redlock",
            Self::Etcd => "etcd",
            Self::Zk => "zk",
        }
    }

    /// The store of a name, or of what its servers are called.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sentinel" | "cluster" => Some(Self::Failover),
            "etcd3" => Some(Self::Etcd),
            "zk3" => Some(Self::Zk),
            _ => Self::ALL.into_iter().find(|store| store.name() == name),
        }
    }
}

/// What a fault may do to a lock, at worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a test rig: the page has a sentence for each")]
pub enum Class {
    /// Nothing.
    Safe,
    /// It is late, or not there for a while.
    Delayed,
    /// A second holder, with a higher token.
    Fenced,
    /// A second holder, whose token may be lower.
    Unpromised,
    /// This fault can't happen here.
    Absent,
}

/// A row of the grid.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// `F01` to `F43`.
    pub id: &'static str,
    /// What happens.
    pub title: &'static str,
    /// What it may do, in the order of [`Store::ALL`].
    pub classes: [Class; 9],
    /// What shows it.
    pub shown: &'static [Evidence],
    /// What has to be known beside the class, for some stores: also why a cell is not run.
    pub notes: &'static [(Store, &'static str)],
}

impl Fault {
    /// What it may do to a lock on this store.
    #[must_use]
    pub const fn class(&self, store: Store) -> Class {
        self.classes[store as usize]
    }

    /// What shows that.
    pub fn evidence(&self, store: Store) -> impl Iterator<Item = Evidence> {
        self.shown.iter().copied().filter(move |evidence| evidence.concerns(store))
    }

    /// What has to be known beside it.
    #[must_use]
    pub fn note(&self, store: Store) -> Option<&'static str> {
        self.notes.iter().find(|(noted, _)| *noted == store).map(|(_, note)| *note)
    }
}

// Why most faults of servers can't happen to these.
const ALONE: (Store, &str) = (Store::Memory, "the store lives in the process itself");
const FILE: (Store, &str) = (Store::Sqlite, "the store is a file, without a server or a network");

/// All rows, in order.
#[must_use]
pub fn faults() -> Vec<Fault> {
    let mut rows = [client_faults::ROWS, server_faults::ROWS, input_faults::ROWS]
        .into_iter()
        .flatten()
        .copied()
        .collect::<Vec<_>>();
    rows.sort_by_key(|fault| fault.id);
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_is_a_row_except_those_of_a_lock_server() {
        let rows = faults();
        let found: Vec<_> = rows.iter().map(|fault| fault.id.to_owned()).collect();
        let wanted: Vec<_> =
            (1..=43).filter(|n| !(36..=38).contains(n)).map(|number| format!("F{number:02}")).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn whatever_applies_has_evidence_or_a_reason() {
        for fault in faults() {
            for store in Store::ALL {
                let shown = fault.evidence(store).count() > 0;
                match fault.class(store) {
                    Class::Absent => {
                        let is_run = fault.evidence(store).any(|evidence| !evidence.is_case());
                        assert!(!is_run, "{} {store:?}", fault.id);
                        assert!(
                            fault.note(store).is_some(),
                            "{} on {store:?}: absent, and no reason",
                            fault.id
                        );
                    }
                    _ => assert!(
                        shown || fault.note(store).is_some(),
                        "{} on {store:?}: not run, and no reason",
                        fault.id
                    ),
                }
            }
        }
    }

    #[test]
    fn what_is_named_exists() {
        let cases: BTreeSet<_> = distlock_conformance::case_ids().collect();
        let mut missing = Vec::new();
        for fault in faults() {
            for evidence in fault.shown {
                if !evidence.exists(&cases) {
                    missing.push(format!("{}: {evidence:?}", fault.id));
                }
            }
        }
        assert!(missing.is_empty(), "the grid names what is not there: {missing:#?}");
    }

    #[test]
    fn stores_are_found_by_their_names() {
        for store in Store::ALL {
            assert_eq!(Store::named(store.name()), Some(store));
        }
        assert_eq!((Store::named("cluster"), Store::named("nobody")), (Some(Store::Failover), None));
    }
}
