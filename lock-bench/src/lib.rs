#![doc = include_str!("../README.md")]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures with real time, and starts contenders as tasks of its own"
)]

pub mod compare;
mod contender;
mod figures;
mod floor;
mod held;
mod latency;
mod line;
mod machine;
mod options;
pub mod page;
mod pairs;
mod processes;
mod rounds;
mod run;
mod scenario;
mod witness;

pub use contender::contend_if_asked;
pub use figures::Figures;
pub use options::{BenchOptions, Params};
pub use run::run;
pub use scenario::Scenario;

// Here, since the example takes the recorder that this crate has anyway.
#[cfg(all(doctest, feature = "metrics"))]
#[doc = include_str!("../../docs/operations/observing.md")]
mod observing_page {}
