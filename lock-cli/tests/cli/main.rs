//! The command as its users meet it: real processes, real signals, a real terminal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests: a failure is a panic, time is the wall's, conditions are polled"
)]

mod rig;

mod checking;
mod comparing;
#[cfg(feature = "sqlite")]
mod documented;
#[cfg(feature = "sqlite")]
mod exclusion;
#[cfg(feature = "sqlite")]
mod fields;
mod first_process;
#[cfg(feature = "sqlite")]
mod kills;
#[cfg(feature = "sqlite")]
mod looking;
#[cfg(feature = "sqlite")]
mod loss;
#[cfg(feature = "sqlite")]
mod mayhem;
#[cfg(all(feature = "metrics", feature = "sqlite"))]
mod measuring;
mod orphans;
#[cfg(feature = "sqlite")]
mod page;
#[cfg(feature = "sqlite")]
mod pages;
mod reference;
mod running;
mod signals;
mod stores;
mod terminal;
mod usage;
#[cfg(feature = "sqlite")]
mod watching;
