//! What a program of your own needs to write a [`history`](crate::history) that the checks can judge.
//!
//! Wrap the backend in [`Recorded`], each guard in [`Tracked`], let the holders increase a [`Register`],
//! and end the recording with the delay that a [`Canary`] measured. Without that end, losses that were
//! announced late are not judged: the process counts as killed.

pub use crate::canary::Canary;
pub use crate::decorators::Recorded;
pub use crate::register::Register;
pub use crate::tracked::Tracked;
