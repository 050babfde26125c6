//! Real servers as processes, partitions, a nemesis and probes, for the tests of this workspace.
//!
//! | to | use |
//! |---|---|
//! | break servers without disturbing other tests | [`ServiceSet`], its [`Server`]s |
//! | cut the network between real servers and clients | [`Partition`] |
//! | do either at random, from a seed | [`Nemesis`] |
//! | see what clients in processes of their own lived through | [`lockprobe`] |
//! | tell a client in a process of its own what to do | [`lockprobe::Scripted`] |
//! | see that a holder who writes late does harm where no fence is | [`LateWriter`] |
//! | move the wall clock of servers and clients | [`WallClock`] |
//! | let a server's disk run full | [`SmallDisk`] |
//! | all of it for minutes | [`Soak`] |
//! | let a test do the same more often | [`rounds`](rounds()) |
//! | know which fault is shown by what | [`grid`] |
//!
//! It is a test rig: what must not fail panics, with what to do about it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    reason = "a test rig: it fails by panicking, and measures with real time"
)]

mod cells;
pub mod grid;
mod late_writer;
pub mod lockprobe;
mod nemesis;
mod partition;
mod rounds;
mod services;
mod small_disk;
mod soak;
mod soak_program;
mod wall_clock;
mod witness;

pub use cells::cells_program;
pub use late_writer::LateWriter;
pub use nemesis::{Action, Nemesis, Step, Target};
pub use partition::{Link, Partition, Place};
pub use rounds::rounds;
pub use services::{Server, ServiceSet, Surroundings};
pub use small_disk::SmallDisk;
pub use soak::{Recovery, Report, Soak};
pub use soak_program::soak_program;
pub use wall_clock::WallClock;

#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
mod testing_page {}
