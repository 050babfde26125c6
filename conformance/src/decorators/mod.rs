//! Backends around a backend: one that writes the history down, one that stages faults. And faults around faults, whose
//! outages are written down.

mod interposed;
mod recorded;
mod recorded_faults;

pub(crate) use interposed::{Fault, Interposed, Script};
pub use recorded::Recorded;
pub(crate) use recorded_faults::RecordedFaults;
