//! Passing a held lock on in a majority of servers.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Effect, Error, ErrorKind, FencingToken, Lease, LockRequest, Result, TryLock};

use super::Quorum;
use super::calls::Calls;
use super::node::Node;
use super::requests::Paper;
use super::tally::{Passage, Passing, passage};
use crate::acquire::refuse_other_modes;
use crate::prepared::Prepared;

/// The next token is so far ahead of the servers' clocks: they refuse one that they have passed by when it arrives.
const LEAD: u64 = 100_000;

type Answer = (usize, Result<Passing>);

/// Passes the lock of `lease` on to `next`, in one round trip: each server that has the lease gives it to `next`, with
/// a token above the lease's and all that was a floor so far. It counts once a majority has. `Busy` if a majority refuses.
///
/// Nobody else can be granted the lock meanwhile, nor have been given that token: it takes a majority, and one server of each
/// has the lease, or `next`.
///
/// # Cancel safety
/// Dropped midway, either claim may hold the lock in some servers, or all.
pub(super) async fn hand_over(
    quorum: &Arc<Quorum>,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(next)?;
    next.require_key_of(lease)?;
    let micros = quorum.clock.now().as_nanos() / 1000;
    let clocks = quorum.nodes.iter().filter_map(|node| node.time(micros)).max();
    let token = clocks.map_or(0, |time| time.saturating_add(LEAD)).max(lease.token.get().saturating_add(1));
    let Some(token) = FencingToken::new(token) else { return crate::error::unreadable() };
    let limit = quorum.options.limit(ttl);
    let paper = Paper::new(next, ttl, quorum.next_attempt(), quorum.options.restart_holdoff);
    let request = paper.pass(quorum.names(), lease, token);
    let sent = quorum.clock.now();
    let mut answers = vec![None; quorum.nodes.len()];
    let mut calls = Calls::new();
    for at in 0..quorum.nodes.len() {
        calls.push(pass(Arc::clone(quorum), at, Arc::clone(&request), micros, limit));
    }
    for node in quorum.slow_nodes() {
        answers[node] = Some(Passing::Silent);
    }
    let mut failures = Vec::new();
    let mut deadline = quorum.timers.shared_limit(limit);
    let passage = loop {
        if let Some(passage) = passage(&answers) {
            break passage;
        }
        match calls.next_before(&mut deadline).await {
            Some((at, Ok(passing))) => answers[at] = Some(passing),
            Some((at, Err(error))) => {
                answers[at] = Some(Passing::Silent);
                failures.push((at, error));
            }
            None => {
                for (at, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| answer.is_none()) {
                    *answer = Some(Passing::Silent);
                    quorum.nodes[at].was_slow();
                }
            }
        }
    };
    let granted = Lease::granted(next, token, ttl, sent);
    let left = granted.valid_until.since(quorum.clock.now());
    let is_long_enough = left > quorum.options.min_validity;
    if passage == Passage::Passed && is_long_enough {
        calls.finish(|_, _| {});
        return Ok(TryLock::Acquired(granted));
    }
    let request = paper.withdraw(quorum.names());
    for (at, answer) in answers.iter().enumerate() {
        if matches!(answer, Some(Passing::Passed | Passing::Silent)) {
            calls.push(withdraw(Arc::clone(&quorum.nodes[at]), at, Arc::clone(&request)));
        }
    }
    finish(quorum, calls, request);
    match passage {
        Passage::Refused => Ok(TryLock::Busy(Busy::unknown())),
        Passage::Unavailable => Err(quorum.unavailable(&failures).with_effect(Effect::Unknown)),
        Passage::Passed => {
            let message = format!(
                "the lock was passed on, but {left:?} were left of its ttl of {ttl:?} by then, and more than {:?} is asked for; it is given back (use a longer ttl, or see why the servers are slow)",
                quorum.options.min_validity
            );
            Err(Error::new(ErrorKind::TooSlow, message).with_effect(Effect::Unknown))
        }
    }
}

/// Behind the caller's back: takes back what servers pass on too late.
fn finish(quorum: &Arc<Quorum>, calls: Calls<Answer>, request: Arc<Prepared>) {
    let quorum = Arc::clone(quorum);
    calls.finish(move |(at, result), calls| {
        if matches!(result, Ok(Passing::Passed)) {
            calls.push(withdraw(Arc::clone(&quorum.nodes[at]), at, Arc::clone(&request)));
        }
    });
}

async fn pass(quorum: Arc<Quorum>, at: usize, request: Arc<Prepared>, sent: u64, limit: Duration) -> Answer {
    let node = &quorum.nodes[at];
    let passing = async {
        quorum.admit(node, limit).await?;
        node.pass(&request, sent).await
    };
    (at, passing.await)
}

async fn withdraw(node: Arc<Node>, at: usize, request: Arc<Prepared>) -> Answer {
    (at, node.withdraw(&request).await.map(|()| Passing::Missing))
}
