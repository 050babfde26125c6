//! Cells of the grid that need more than one backend's tests can do: stopped and killed processes, clocks that jump,
//! servers that take over, networks that are cut and disks that run full, on any store and with the same steps.
//!
//! Each writes down what it saw, and fails if the store did more than the grid says, or if the fault did nothing.

mod clocks;
mod disks;
mod eviction;
mod failovers;
mod partitions;
mod rig;
mod stops;
mod tools;
mod usurping;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use distlock_core::{LockBackend, LockClient, Result};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::grid::Store;
use crate::{Partition, ServiceSet, SmallDisk, lockprobe};

use rig::{Connect, Rig};

type Run = fn(Rig) -> Pin<Box<dyn Future<Output = ()>>>;

/// A cell: its fault, its store, and the servers that it needs.
struct Cell {
    fault: &'static str,
    store: Store,
    group: Option<&'static str>,
    needs: Needs,
    run: Run,
}

/// What a cell needs of the machine beside its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Namespaces,
    Disk,
}

const SHARED: [(Store, Option<&str>); 9] = [
    (Store::Sqlite, None),
    (Store::Postgres, Some("postgres")),
    (Store::Mysql, Some("mysql")),
    (Store::Redis, Some("redis")),
    (Store::Failover, Some("sentinel")),
    (Store::Failover, Some("cluster")),
    (Store::Redlock, Some("redlock")),
    (Store::Etcd, Some("etcd")),
    (Store::Zk, Some("zk")),
];

fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |fault, needs, store, group, run: Run| cells.push(Cell { fault, store, group, needs, run });
    for (store, group) in SHARED {
        add("F01", Needs::Nothing, store, group, |rig| Box::pin(stops::pause(rig)));
        add("F03", Needs::Nothing, store, group, |rig| Box::pin(stops::kill_waiters(rig)));
        add("F08", Needs::Nothing, store, group, |rig| Box::pin(clocks::clients(rig)));
    }
    add("F08", Needs::Nothing, Store::Memory, None, |rig| Box::pin(clocks::clients(rig)));
    for store in [Store::Memory, Store::Sqlite] {
        add("F09", Needs::Nothing, store, None, |rig| Box::pin(clocks::everybody(rig)));
    }
    for (store, group) in SHARED {
        // A cluster of Redis takes a jump for the silence of all others.
        if !matches!(store, Store::Sqlite | Store::Etcd) && group != Some("cluster") {
            add("F09", Needs::Nothing, store, group, |rig| Box::pin(clocks::servers(rig)));
        }
    }
    add("F11", Needs::Nothing, Store::Failover, Some("sentinel"), |rig| Box::pin(failovers::forgotten(rig)));
    for (store, group) in [
        (Store::Postgres, "pgstandby"),
        (Store::Mysql, "mysqlreplica"),
        (Store::Failover, "sentinel"),
        (Store::Failover, "cluster"),
    ] {
        add("F12", Needs::Nothing, store, Some(group), |rig| Box::pin(failovers::taken_over(rig)));
    }
    for (store, group) in [(Store::Postgres, "postgres"), (Store::Mysql, "mysql")] {
        add("F13", Needs::Namespaces, store, Some(group), |rig| Box::pin(partitions::holder_cut_off(rig)));
    }
    for (store, group) in SHARED {
        if matches!(store, Store::Sqlite | Store::Postgres | Store::Mysql | Store::Redis | Store::Etcd) {
            add("F34", Needs::Disk, store, group, |rig| Box::pin(disks::full(rig)));
        }
    }
    add("F41", Needs::Nothing, Store::Redlock, Some("redlock"), |rig| Box::pin(eviction::refused(rig)));
    cells
}

impl Cell {
    fn name(&self) -> String {
        let name = format!("{}::{}", self.fault, self.store.name());
        match (self.store, self.group) {
            (Store::Failover, Some(group)) => format!("{name}::{group}"),
            _ => name,
        }
    }

    fn missing(&self) -> std::result::Result<(), String> {
        match self.needs {
            Needs::Nothing => Ok(()),
            Needs::Namespaces => Partition::available(),
            Needs::Disk => SmallDisk::available(),
        }
    }

    fn trial(self, connect: Connect) -> Trial {
        Trial::ignorable_test(self.name(), move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build()?;
            let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
            // Some machines have no right to make such things.
            if let Err(missing) = self.missing() {
                return without(missing, is_required);
            }
            if let Some(group) = self.group
                && let Err(missing) = runtime.block_on(ServiceSet::available(&[group]))
            {
                return without(missing, is_required);
            }
            let rig = Rig::new(self.name(), self.fault, self.store, self.group, connect);
            runtime.block_on((self.run)(rig));
            Ok(Completion::Completed)
        })
    }
}

/// What becomes of a cell on a machine that lacks something.
fn without(missing: String, is_required: bool) -> std::result::Result<Completion, Failed> {
    if is_required { Err(missing.into()) } else { Ok(Completion::ignored_with(missing)) }
}

/// The `main` of a program with the cells of these stores, of which `connect` makes clients. It starts itself again as
/// its probes, so nothing may be printed before. `FAULT_SEED` repeats the random choices of an earlier run.
pub fn cells_program<F, Fut>(stores: &[Store], connect: F) -> ExitCode
where
    F: Fn(String) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<LockClient>> + Send + 'static,
{
    if lockprobe::asked() {
        return lockprobe::main(|url| {
            let client = connect(url);
            async { Ok(Arc::clone(client.await?.backend()) as Arc<dyn LockBackend>) }
        });
    }
    let connect: Connect = Arc::new(move |url| Box::pin(connect(url)));
    let wanted: BTreeSet<Store> = stores.iter().copied().collect();
    let trials = all().into_iter().filter(|cell| wanted.contains(&cell.store));
    let trials = trials.map(|cell| cell.trial(Arc::clone(&connect))).collect();
    let mut arguments = Arguments::from_args();
    // They wait, most of the time.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, trials).exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{Evidence, faults};

    #[test]
    fn the_grid_names_these_cells_and_no_others() {
        let cells = all();
        let ours: BTreeSet<_> = cells.iter().map(|cell| (cell.fault, cell.store)).collect();
        let mut named = BTreeSet::new();
        for fault in faults() {
            for evidence in fault.shown {
                if let Evidence::Cell(stores) = evidence {
                    named.extend(stores.iter().map(|store| (fault.id, *store)));
                }
            }
        }
        assert_eq!(ours, named);
        let names: BTreeSet<_> = cells.iter().map(Cell::name).collect();
        assert_eq!(names.len(), cells.len());
    }

    #[test]
    fn what_is_missing_fails_where_all_has_to_run() {
        let of = |is_required| without("no network namespaces here".to_owned(), is_required);
        let failed = of(true).err().and_then(|failed| failed.message().map(str::to_owned));
        assert!(failed.is_some_and(|text| text.contains("namespaces")));
        assert!(matches!(of(false), Ok(Completion::Ignored { reason: Some(_) })));
    }
}
