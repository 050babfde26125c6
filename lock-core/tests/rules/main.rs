//! The rules that make the core sound, each with tests that fail when it is broken. All run in
//! virtual time on the memory store, or on backends built here to misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and it spawns and times out on purpose"
)]

mod ambiguity;
mod cancellation;
mod dropping;
mod events;
mod exhaustion;
mod health;
mod layers;
#[cfg(feature = "metrics")]
mod metrics;
mod queueing;
mod renewal;
mod rig;
mod self_waits;
mod shutdown;
#[cfg(feature = "tracing")]
mod spans;
mod states;
mod tokens;
mod validity;
mod waiting;
