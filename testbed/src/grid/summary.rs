//! One line for each cell of the grid, to be kept with the documentation.

use serde::{Deserialize, Serialize};

use super::{Class, Fault, Measured, Outcome, Store, faults};

/// What is known of one fault on one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cell {
    /// `F01` to `F43`.
    pub fault: String,
    /// The store, by its name.
    pub store: String,
    /// What was run, and passed.
    pub shown: Vec<String>,
    /// What was run, and failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// What the cell of this crate saw, where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Measured>,
}

/// A line for each cell to which its fault applies.
#[must_use]
pub fn summarise(outcomes: &[Outcome], measured: &[Measured]) -> Vec<Cell> {
    let cells = faults().into_iter().flat_map(|fault| Store::ALL.map(|store| (fault, store)));
    cells
        .filter(|(fault, store)| fault.class(*store) != Class::Absent)
        .map(|(fault, store)| cell(&fault, store, outcomes, measured))
        .collect()
}

fn cell(fault: &Fault, store: Store, outcomes: &[Outcome], measured: &[Measured]) -> Cell {
    let of_cell = |outcome: &&Outcome| outcome.fault == fault.id && outcome.store == store.name();
    let came = |passed| {
        let known: Vec<_> =
            outcomes.iter().filter(of_cell).filter(|outcome| outcome.passed == Some(passed)).collect();
        // In the order of the table.
        fault
            .evidence(store)
            .map(|evidence| evidence.label(fault.id, store))
            .filter(|label| known.iter().any(|outcome| outcome.evidence == *label))
            .collect::<Vec<_>>()
    };
    let name = format!("{}::{}", fault.id, store.name());
    let is_ours = |measured: &&Measured| {
        measured.cell == name || measured.cell.strip_prefix(&name).is_some_and(|rest| rest.starts_with("::"))
    };
    Cell {
        fault: fault.id.to_owned(),
        store: store.name().to_owned(),
        shown: came(true),
        failed: came(false),
        measured: measured.iter().filter(is_ours).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_what_passed_and_what_failed() {
        let [passes, fails] =
            ["crash::a_killed_holder_is_succeeded", "crash::holders_killed_at_random_are_succeeded"];
        let outcome = |name: &str, passed| Outcome::new("F02", "redis", name.to_owned(), passed);
        let measured = Measured { cell: "F01::redis".to_owned(), seed: 7, ..Measured::default() };
        let outcomes = [outcome(passes, Some(true)), outcome(fails, Some(false))];
        let cells = summarise(&outcomes, std::slice::from_ref(&measured));
        let of =
            |fault: &str| cells.iter().find(|cell| cell.fault == fault && cell.store == "redis").unwrap();
        assert_eq!(
            (of("F02").shown.as_slice(), of("F02").failed.as_slice()),
            (&[passes.to_owned()][..], &[fails.to_owned()][..])
        );
        assert_eq!((of("F01").shown.len(), of("F01").measured.as_slice()), (0, &[measured][..]));
        assert!(!cells.iter().any(|cell| cell.fault == "F01" && cell.store == "memory"), "it does not apply");
    }
}
