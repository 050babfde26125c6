//! Several stores in one run, put side by side.

mod breaker;
mod cell;
mod changes;
mod comparison;
mod conditions;
mod contest;
mod driver;
mod failover;
mod goals;
mod lookout;
mod member;
mod options;
mod peers;
mod recovery;
mod sample;
mod slower;
mod spread;
mod summary;

pub use cell::{Cell, PeerFigures};
pub use changes::{Change, Changes, Measure, changes};
pub use comparison::{Comparison, Gap, StoreSeen};
pub use conditions::{Conditions, RoundSeen};
pub use contest::Contest;
pub use driver::compare;
pub use goals::{GOALS, Judged, goals};
pub use options::{CompareOptions, Progress, StoreToCompare};
pub use peers::{PeerAnswer, PeerOrder, PeerRound};
pub use sample::Sample;
pub use slower::{Slower, slower_than};
pub use spread::Spread;
pub use summary::{Verdict, summary};
