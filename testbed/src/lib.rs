//! Real servers as processes, partitions, a nemesis and probes, for the tests of this workspace.
//!
//! | to | use |
//! |---|---|
//! | break servers without disturbing other tests | [`ServiceSet`], its [`Server`]s |
//! | cut the network between real servers and clients | [`Partition`] |
//! | do either at random, from a seed | [`Nemesis`] |
//! | see what clients in processes of their own lived through | [`lockprobe`] |
//! | all of it for minutes | [`Soak`] |
//!
//! It is a test rig: what must not fail panics, with what to do about it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    reason = "a test rig: it fails by panicking, and measures with real time"
)]

pub mod lockprobe;
mod nemesis;
mod partition;
mod services;
mod soak;

pub use nemesis::{Action, Nemesis, Step, Target};
pub use partition::{Link, Partition};
pub use services::{Data, Server, ServiceSet};
pub use soak::{Report, Soak};
