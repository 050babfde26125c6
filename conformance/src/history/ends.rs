//! Where each process's recording ended, and how late that process ran.

use std::collections::BTreeMap;

use super::event::{Event, What};

/// The end of one process's recording. A process that was killed has none and owes no promptness; one
/// that was stopped has measured that as a delay.
pub(super) struct End {
    pub(super) at: u64,
    pub(super) delay: u64,
}

/// By process.
pub(super) fn of(events: &[&Event]) -> BTreeMap<u32, End> {
    let end = |event: &&Event| match event.what {
        What::End { delay } => Some((event.process, End { at: event.at, delay })),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}
