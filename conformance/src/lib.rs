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
mod network;
mod pace;
mod proxy;
pub mod recording;
mod register;
mod report;
mod runner;
mod server;
mod standstill;
mod steps;
mod stepwise;
mod subject;
mod tracked;

pub use faults::{FaultAbilities, Faults};
pub use network::NetworkFaults;
pub use proxy::{Proxy, Traffic, Way};
pub use report::{Format, Outcome, Report, Verdict};
pub use runner::{RunOptions, case_ids, main, run};
pub use server::{Data, Server, ServerCommand, ServerProcess, free_port};
pub use subject::Subject;
