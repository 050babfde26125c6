//! What shows what a fault does: a case of the suite, a test of a backend, or a cell of this crate.

use std::collections::BTreeSet;
use std::path::Path;

use super::Store;

/// Something that runs and may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a test rig: a new kind is to break what runs them")]
pub enum Evidence {
    /// A case of the conformance suite, on every store that has what it needs.
    Case(&'static str),
    /// A test of a package's test program, which is about these stores.
    Test {
        /// Which stores it says something about.
        stores: &'static [Store],
        /// The package.
        package: &'static str,
        /// The test program.
        program: &'static str,
        /// What the test's name is, or ends with.
        name: &'static str,
    },
    /// A fault cell of this crate, on these stores.
    Cell(&'static [Store]),
}

/// A test program, and the store that it is to be run on by `CONFORMANCE_STORE`, if it wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Program {
    /// The package.
    pub package: &'static str,
    /// The test program.
    pub program: &'static str,
    /// For `CONFORMANCE_STORE`; may be empty.
    pub store: &'static str,
}

/// The groups of cases that need a network or a server to break.
const HURTING: [&str; 3] = ["network::", "wire::", "server::"];

impl Evidence {
    /// Whether it says something about this store.
    #[must_use]
    pub fn concerns(self, store: Store) -> bool {
        match self {
            Self::Case(name) => !suites(store, name).is_empty(),
            Self::Test { stores, .. } | Self::Cell(stores) => stores.contains(&store),
        }
    }

    /// Whether it is a case of the suite, which says itself where it applies.
    #[must_use]
    pub const fn is_case(self) -> bool {
        matches!(self, Self::Case(_))
    }

    /// The programs that have to be run for it on this store.
    #[must_use]
    pub fn programs(self, store: Store) -> Vec<Program> {
        match self {
            Self::Case(name) => suites(store, name),
            Self::Test { package, program, .. } => vec![Program { package, program, store: "" }],
            Self::Cell(_) => vec![cells(store)],
        }
    }

    /// Its name on the page, for the fault `id` on this store.
    #[must_use]
    pub fn label(self, id: &str, store: Store) -> String {
        match self {
            Self::Case(name) => name.to_owned(),
            Self::Test { package, program, name, .. } => {
                format!("{}/{program}: {name}", package.trim_start_matches("distlock-"))
            }
            Self::Cell(_) => format!("cells: {id}::{}", store.name()),
        }
    }

    /// Whether the test that is listed as `found` is this one, for the fault `id` on this store.
    #[must_use]
    pub fn is(self, found: &str, id: &str, store: Store) -> bool {
        // What stands in brackets says on which servers it runs.
        let (kind, found) = match found.strip_prefix('[').and_then(|found| found.split_once("] ")) {
            Some((kind, name)) => (kind, name),
            None => ("", found),
        };
        let other = match store {
            Store::Postgres => kind.starts_with("mysql"),
            Store::Mysql => kind.starts_with("pg") || kind.starts_with("postgres"),
            _ => false,
        };
        let matches = match self {
            Self::Case(name) => found == name,
            Self::Test { name, .. } => found == name || found.ends_with(&format!("::{name}")),
            Self::Cell(_) => {
                let cell = format!("{id}::{}", store.name());
                found.strip_prefix(&cell).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            }
        };
        matches && !other
    }

    /// Whether it is there at all, where the suite has these cases.
    #[must_use]
    pub fn exists(self, cases: &BTreeSet<&str>) -> bool {
        match self {
            Self::Case(name) => cases.contains(name),
            Self::Test { package, program, name, .. } => {
                let folder = match package {
                    "distlock-core" => "lock-core".to_owned(),
                    _ => package.replace("distlock-", "backend-"),
                };
                let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("tests");
                sources(&tests.join(program))
                    .chain(std::fs::read_to_string(tests.join(format!("{program}.rs"))))
                    .any(|text| mentions(&text, name))
            }
            // They are looked up by the program that runs them.
            Self::Cell(_) => true,
        }
    }
}

/// The programs that run this case of the suite on this store.
fn suites(store: Store, case: &str) -> Vec<Program> {
    let hurting = HURTING.iter().any(|group| case.starts_with(group));
    let of = |package, program, store| Program { package, program, store };
    match (store, hurting) {
        (Store::Memory, false) => vec![of("distlock-conformance", "memory", "")],
        (Store::Sqlite, false) => vec![of("distlock-sql", "conformance", "sqlite")],
        (Store::Postgres, false) => vec![of("distlock-sql", "conformance", "postgres")],
        (Store::Postgres, true) => vec![of("distlock-sql", "faults", "postgres")],
        (Store::Mysql, false) => vec![of("distlock-sql", "conformance", "mysql")],
        (Store::Mysql, true) => vec![of("distlock-sql", "faults", "mysql")],
        (Store::Redis, false) => vec![of("distlock-redis", "conformance", "redis")],
        (Store::Redis, true) => vec![of("distlock-redis", "faults", "")],
        (Store::Failover, false) => {
            vec![
                of("distlock-redis", "conformance", "sentinel"),
                of("distlock-redis", "conformance", "cluster"),
            ]
        }
        (Store::Redlock, false) => vec![of("distlock-redis", "redlock_conformance", "redlock")],
        (Store::Etcd, false) => vec![of("distlock-etcd", "conformance", "etcd3")],
        (Store::Etcd, true) => vec![of("distlock-etcd", "faults", "")],
        (Store::Zk, false) => vec![of("distlock-zk", "conformance", "zk3")],
        (Store::Zk, true) => vec![of("distlock-zk", "faults", "")],
        (Store::Memory | Store::Sqlite | Store::Failover | Store::Redlock, true) => Vec::new(),
    }
}

/// The program with the cells of a store. etcd's client takes protoc to be built, and has its own.
fn cells(store: Store) -> Program {
    let package = if store == Store::Etcd { "distlock-etcd" } else { "distlock-testbed" };
    Program { package, program: "cells", store: "" }
}

fn mentions(text: &str, name: &str) -> bool {
    [format!("fn {name}("), format!("fn {name}<"), format!("\"{name}\"")]
        .iter()
        .any(|wanted| text.contains(wanted))
}

fn sources(folder: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_known_by_its_name_and_its_servers() {
        let test = Evidence::Test { stores: &[], package: "distlock-sql", program: "p", name: "works" };
        assert!(test.is("[pgstandby] works", "F01", Store::Postgres));
        assert!(!test.is("[mysql] works", "F01", Store::Postgres));
        assert!(test.is("[mysql] a::works", "F01", Store::Mysql));
        assert!(!test.is("[mysql] fireworks", "F01", Store::Mysql));
        let cell = Evidence::Cell(&[]);
        assert!(cell.is("F01::redis", "F01", Store::Redis));
        assert!(!cell.is("F01::redis-failover::cluster", "F01", Store::Redis));
        assert!(cell.is("F01::redis-failover::cluster", "F01", Store::Failover));
    }
}
