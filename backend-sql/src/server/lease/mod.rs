//! Locks as rows with a time to live.

mod acquire;
mod admin;
mod backend;
mod hand_over;
mod list;
mod look;
mod probe;
mod prune;
mod record;
mod release;
mod renew;
mod together;

pub use backend::LeaseRows;
pub(super) use together::Together;
