#![doc = include_str!("../README.md")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    reason = "a test rig: it fails by panicking, and measures with real time"
)]

mod canary;
mod case;
mod cases;
mod context;
mod decorators;
mod execute;
mod faults;
pub mod history;
mod holder;
pub mod recording;
mod register;
mod report;
mod runner;
mod steps;
mod stepwise;
mod subject;
mod tracked;

pub use faults::{FaultAbilities, Faults};
pub use report::{Format, Outcome, Report, Verdict};
pub use runner::{RunOptions, case_ids, main, run};
pub use subject::Subject;
