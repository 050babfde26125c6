//! Giving a lock back in a majority of servers.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Backoff, Claim, Effect, Release, Result};

use super::Quorum;
use super::calls::Calls;
use super::node::Node;
use super::requests;
use super::tally::{Ending, Freed, ending};
use crate::prepared::Prepared;

/// How long to wait for one server, since a claim does not tell its ttl.
const LIMIT: Duration = Duration::from_millis(900);
/// How often a server that was asked and did not answer is asked again, behind the caller's back.
const REPEATS: usize = 5;

/// Frees the lock wherever the claim holds it, and tells by the majority whether it was held.
pub(super) async fn unlock(quorum: &Arc<Quorum>, claim: &Claim) -> Result<Release> {
    let mut answers = vec![None; quorum.nodes.len()];
    let request = requests::release(quorum.names(), claim);
    let mut calls = Calls::new();
    for (at, node) in quorum.nodes.iter().enumerate() {
        calls.push(release(Arc::clone(node), at, Arc::clone(&request)));
    }
    for node in quorum.slow_nodes() {
        answers[node] = Some(Freed::Silent);
    }
    let mut failures = Vec::new();
    let mut deadline = quorum.timers.shared_limit(quorum.options.node_timeout.unwrap_or(LIMIT));
    let ending = loop {
        if let Some(ending) = ending(&answers) {
            break ending;
        }
        match calls.next_before(&mut deadline).await {
            Some((at, Ok(freed))) => answers[at] = Some(freed),
            Some((at, Err(error))) => {
                answers[at] = Some(Freed::Silent);
                failures.push((at, error));
            }
            None => {
                for (at, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| answer.is_none()) {
                    *answer = Some(Freed::Silent);
                    quorum.nodes[at].was_slow();
                }
            }
        }
    };
    for (at, error) in &failures {
        if error.effect() == Effect::Unknown {
            calls.push(sweep(Arc::clone(&quorum.nodes[*at]), *at, Arc::clone(&request)));
        }
    }
    finish(quorum, calls, request);
    match ending {
        Ending::Released => Ok(Release::Released),
        Ending::NotHeld(reason) => Ok(Release::NotHeld(reason)),
        Ending::Unavailable => Err(quorum.unavailable(&failures).with_effect(Effect::Unknown)),
    }
}

type Answer = (usize, Result<Freed>);

fn finish(quorum: &Arc<Quorum>, calls: Calls<Answer>, request: Arc<Prepared>) {
    let quorum = Arc::clone(quorum);
    calls.finish(move |(at, result), calls| {
        if result.is_err_and(|error| error.effect() == Effect::Unknown) {
            calls.push(sweep(Arc::clone(&quorum.nodes[at]), at, Arc::clone(&request)));
        }
    });
}

async fn release(node: Arc<Node>, at: usize, request: Arc<Prepared>) -> Answer {
    (at, node.release(&request).await)
}

/// Asks a server that did not answer once more, and again, for as long as it may have something of the claim.
async fn sweep(node: Arc<Node>, at: usize, request: Arc<Prepared>) -> Answer {
    let mut pause = Backoff::new(Duration::from_millis(500), Duration::from_secs(4));
    let mut last = Ok(Freed::Silent);
    for _ in 0..REPEATS {
        tokio::time::sleep(pause.pause()).await;
        last = node.release(&request).await;
        if last.is_ok() {
            break;
        }
    }
    // Whatever it was, the record's expiry is left.
    (at, last.or(Ok(Freed::Silent)))
}
