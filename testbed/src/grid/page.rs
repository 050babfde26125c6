//! The grid as a part of the documentation's page.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Cell, Class, Fault, Store, faults};

const HEAD: &str = "
# What happens under faults

Each fault below was brought about on each store, but for the cells that say *not run*. The stores are real servers and real
files throughout, and `memory` is itself; by what means the fault came is told by the names of what shows it:

| what shows it | by what means |
|---|---|
| `cells: …` | processes, clocks, networks and disks, in the same steps on every store; below it stands what was done |
| `crash::…` | clients in processes of their own, which are stopped or killed |
| `server::…` | the server's process, which is stopped or killed, with its data or without |
| `network::…`, `wire::…` | a proxy between client and server that cuts, loses, delays and doubles |
| any other case of the suite | a client's calls, and what happens to them within its process, between client and backend |
| a test of a backend, with its file | the means of that test, which may stand for the fault: see the notes |

A cell says what the fault may do to a lock at worst, and stands here only while what is named for it passes.
`make faults F=F13 B=etcd` runs the cell again.

A client knows its lock is valid until an instant on a clock that goes on while the client is stopped, so nobody *knows* that
it holds a lock that another one holds (H1) by a stop alone. But code that does not look again acts as if it did: F01 counts
only if a stopped holder wrote after its successor had been granted the lock, and an unfenced resource lost an update by that.

| in the table | means |
|---|---|
| safe | While the store meets the assumptions above, no two clients hold a key at once, and tokens increase with every grant. |
| late | The same, but locks are granted late, or not at all until the fault is over. |
| fence | A second client may be granted the lock; its token is higher, so a resource that checks tokens rejects the first. |
| none | The second client's token may be lower as well. Use the lock only to avoid duplicate work, or do what the note says. |
| – | The fault can't happen there. |
| not run | See the note. |

";

/// The page's part about faults, from what was measured.
#[must_use]
pub fn page(cells: &[Cell]) -> String {
    let mut text = HEAD.to_owned();
    let names = Store::ALL.map(Store::name).join(" | ");
    let _ = writeln!(text, "| fault | {names} |\n|---|{}", "---|".repeat(Store::ALL.len()));
    let rows = faults();
    for fault in &rows {
        let words = Store::ALL.map(|store| word(fault, store, cells)).join(" | ");
        let _ = writeln!(text, "| {} {} | {words} |", fault.id, fault.title);
    }
    let (applying, run) = count(&rows, cells);
    let _ = writeln!(text, "\n{run} of the {applying} cells to which a fault applies have been run.\n");
    text.push_str("F36 to F38 are faults of a lock server, which there is none of yet. `redis-failover` is Redis with\n");
    text.push_str("Sentinel, and Redis Cluster. A name without a file is a case of the conformance suite.\n");
    for fault in &rows {
        section(&mut text, fault, cells);
    }
    text
}

/// How many cells apply, and how many of them have been run and passed.
pub(super) fn count(rows: &[Fault], cells: &[Cell]) -> (usize, usize) {
    let all = || rows.iter().flat_map(|fault| Store::ALL.map(|store| (fault, store)));
    let applying = all().filter(|(fault, store)| fault.class(*store) != Class::Absent);
    let run =
        applying.clone().filter(|(fault, store)| find(fault, *store, cells).is_some_and(Cell::has_passed));
    (applying.count(), run.count())
}

impl Cell {
    /// Whether it was run, and nothing failed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        !self.shown.is_empty() && self.failed.is_empty()
    }
}

fn find<'a>(fault: &Fault, store: Store, cells: &'a [Cell]) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.fault == fault.id && cell.store == store.name())
}

fn word(fault: &Fault, store: Store, cells: &[Cell]) -> &'static str {
    if fault.class(store) != Class::Absent && !find(fault, store, cells).is_some_and(Cell::has_passed) {
        return "not run";
    }
    match fault.class(store) {
        Class::Safe => "safe",
        Class::Delayed => "late",
        Class::Fenced => "fence",
        Class::Unpromised => "none",
        Class::Absent => "–",
    }
}

/// What shows each cell, where stores have the same in common.
fn section(text: &mut String, fault: &Fault, cells: &[Cell]) {
    let _ = writeln!(text, "\n**{} {}**", fault.id, fault.title);
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for store in Store::ALL {
        let shown = match find(fault, store, cells) {
            Some(cell) => cell.shown.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>(),
            None => Vec::new(),
        };
        let mut line = shown.join(", ");
        if let Some(note) = fault.note(store) {
            line = if line.is_empty() { note.to_owned() } else { format!("{line}; {note}") };
        }
        if line.is_empty() && fault.class(store) == Class::Absent {
            continue;
        }
        if line.is_empty() {
            line = "not run yet".to_owned();
        }
        match told.iter_mut().find(|(other, _)| *other == line) {
            Some((_, stores)) => stores.push(store.name()),
            None => told.push((line, vec![store.name()])),
        }
    }
    text.push('\n');
    for (line, stores) in told {
        let _ = writeln!(text, "- {}: {line}", stores.join(", "));
    }
    let measured = cells.iter().filter(|cell| cell.fault == fault.id).flat_map(|cell| &cell.measured);
    let means: BTreeSet<&str> = measured.map(|measured| measured.means.as_str()).collect();
    if !means.is_empty() {
        let means: Vec<_> = means.into_iter().collect();
        let _ = writeln!(text, "- the cells' means: {}", means.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_failed_or_was_not_run_is_not_called_safe() {
        let fault = faults().into_iter().find(|fault| fault.id == "F05").unwrap();
        let cell = |shown: &[&str], failed: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Cell {
                fault: "F05".to_owned(),
                store: "redis".to_owned(),
                shown: names(shown),
                failed: names(failed),
                measured: Vec::new(),
            }
        };
        let said = |cells: &[Cell]| word(&fault, Store::Redis, cells);
        assert_eq!(said(&[cell(&["a"], &[])]), "safe");
        assert_eq!(said(&[cell(&["a"], &["b"])]), "not run");
        assert_eq!((said(&[cell(&[], &[])]), said(&[])), ("not run", "not run"));
    }
}
