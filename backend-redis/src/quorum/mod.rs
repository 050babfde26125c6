//! Locks in a majority of independent servers: Redlock, with fencing tokens.
//!
//! `ballot` and `tally` decide, without any I/O, and `model` holds them against every kind of trouble;
//! `attempt`, `renewal`, `hand_over` and `release` ask the servers and do what was decided.

mod admin;
mod admission;
mod attempt;
mod backend;
mod ballot;
mod calls;
mod config;
mod hand_over;
#[cfg(test)]
mod model;
mod node;
mod probe;
mod release;
mod renewal;
mod requests;
mod rivals;
mod tally;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use distlock_core::{Clock, Effect, Error, ErrorKind, Timers};

pub use backend::RedlockBackend;
pub use config::{RedlockOptions, TokenMode};

use ballot::majority;
use node::Node;

use crate::names::Names;

/// The servers and how they vote.
#[derive(Debug)]
pub(crate) struct Quorum {
    nodes: Vec<Arc<Node>>,
    options: RedlockOptions,
    clock: Clock,
    last_attempt: AtomicU64,
    timers: Timers,
}

impl Quorum {
    fn new(nodes: Vec<Node>, options: RedlockOptions) -> Arc<Self> {
        let nodes = nodes.into_iter().map(Arc::new).collect();
        Arc::new(Self {
            nodes,
            options,
            clock: Clock::system(),
            last_attempt: AtomicU64::new(0),
            timers: Timers::new(),
        })
    }

    /// How locks are named, in all servers alike.
    fn names(&self) -> &Names {
        &self.nodes[0].backend.store.names
    }

    /// The number of a new attempt: higher than those before, of another backend of this process, too.
    fn next_attempt(&self) -> u64 {
        let now = self.clock.now().as_nanos() / 1000;
        let next = |last: u64| Some(now.max(last + 1));
        let last = self.last_attempt.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        // The closure never gives none.
        now.max(last.unwrap_or_else(|last| last) + 1)
    }

    /// Those that were too slow the last time, unless it takes some of them to decide anything.
    fn slow_nodes(&self) -> Vec<usize> {
        let slow: Vec<_> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_slow()).collect();
        if slow.len() > self.nodes.len() - majority(self.nodes.len()) { Vec::new() } else { slow }
    }

    /// The error for too few servers, of which these failed and why.
    fn unavailable(&self, failures: &[(usize, Error)]) -> Error {
        let total = self.nodes.len();
        let count = |kind: ErrorKind| failures.iter().filter(|(_, error)| error.kind() == kind).count();
        // What somebody has to change is worth more than that something is slow.
        let worst = failures.iter().find(|(_, error)| !error.is_retryable());
        let kind = match worst {
            Some((_, error)) if count(error.kind()) > total - majority(total) => error.kind(),
            _ => ErrorKind::Unavailable,
        };
        let mut message =
            format!("too few of the {total} servers can be used, and {} are needed", majority(total));
        let told = worst.or_else(|| failures.first());
        match told {
            Some((node, error)) => {
                message.push_str(&format!("; {}: {}", self.nodes[*node].name, error.message()));
            }
            None => message.push_str("; they did not answer in time"),
        }
        let error = Error::new(kind, message);
        match told {
            Some((_, cause)) => error.caused_by(cause.clone()),
            None => error.with_effect(Effect::Unknown),
        }
    }
}
