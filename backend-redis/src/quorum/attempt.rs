//! One attempt at a lock: votes, a token that a majority takes over, and no trace where it fails.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Effect, Error, ErrorKind, Instant, Lease, LockRequest, OwnerId, Result, TryLock};

use super::ballot::{Ballot, Course, Defeat, Vote};
use super::calls::Calls;
use super::node::{Node, Voted};
use super::requests::Paper;
use super::rivals::Rivals;
use super::{Quorum, TokenMode};
use crate::acquire;
use crate::prepared::Prepared;

/// So many times at most a split vote is held again.
const ROUNDS: u32 = 16;

/// What one server answered.
enum Answer {
    Vote(usize, Result<Voted>),
    Confirm(usize, Result<bool>),
    Withdrawn(usize, Result<()>),
}

/// Takes the lock if a majority grants it, and if not finds out who has it.
///
/// # Cancel safety
/// Dropped midway, the claim may hold the lock in some servers, or all.
pub(super) async fn try_lock(quorum: &Arc<Quorum>, request: &LockRequest, ttl: Duration) -> Result<TryLock> {
    acquire::refuse_other_modes(request)?;
    let limit = quorum.options.limit(ttl);
    let give_up = quorum.clock.now().plus(limit * 3);
    for round in 0.. {
        let mut attempt = Attempt::new(quorum, request, ttl, limit);
        let course = attempt.decide().await;
        let may_repeat = round < ROUNDS && quorum.clock.now() < give_up;
        match course {
            Course::Won(token) => return attempt.won(token, request, ttl).await,
            Course::Failed(defeat) if defeat != Defeat::Held && attempt.may_hold() => {
                return Err(attempt.unavailable());
            }
            Course::Failed(Defeat::Split { goes_first: true }) if may_repeat => {
                // The others need as long to make room as the vote took.
                tokio::time::sleep(attempt.took()).await;
            }
            Course::Failed(defeat @ (Defeat::Split { .. } | Defeat::Disagreed | Defeat::Doubtful))
                if may_repeat && (round == 0 || defeat != Defeat::Doubtful) =>
            {
                // A release that a majority has answered may not have come to the others yet.
                let pause = attempt.took() * (1 + place(request.claim.owner, round));
                attempt.withdraw().await;
                tokio::time::sleep(pause).await;
            }
            course => return attempt.failed(course).await,
        }
    }
    // The loop ends by the last arm when it may not go on.
    Err(Error::new(ErrorKind::Other, "an attempt without an end"))
}

/// Contenders that failed together come back one after the other.
fn place(owner: OwnerId, round: u32) -> u32 {
    u32::from(owner.as_bytes()[round as usize % 16] % 4)
}

struct Attempt {
    quorum: Arc<Quorum>,
    paper: Arc<Paper>,
    /// Has the proposed token taken over.
    confirm: Option<Arc<Prepared>>,
    limit: Duration,
    /// Read before the first request left.
    sent: Instant,
    ballot: Ballot<OwnerId>,
    calls: Calls<Answer>,
    failures: Vec<(usize, Error)>,
    rivals: Rivals,
    has_doubt: bool,
}

impl Attempt {
    fn new(quorum: &Arc<Quorum>, request: &LockRequest, ttl: Duration, limit: Duration) -> Self {
        let number = quorum.next_attempt();
        let paper = Arc::new(Paper::new(request, ttl, number, quorum.options.restart_holdoff));
        let vote = paper.vote(quorum.names());
        let mut attempt = Self {
            quorum: Arc::clone(quorum),
            paper,
            confirm: None,
            limit,
            sent: quorum.clock.now(),
            ballot: Ballot::new(request.claim.owner, quorum.nodes.len()),
            calls: Calls::new(),
            failures: Vec::new(),
            rivals: Rivals::new(quorum.nodes.len()),
            has_doubt: false,
        };
        for (at, node) in quorum.nodes.iter().enumerate() {
            let (node, vote) = (Arc::clone(node), Arc::clone(&vote));
            if node.is_admitted() {
                attempt.calls.push(async move { Answer::Vote(at, node.vote(&vote).await) });
                continue;
            }
            let quorum = Arc::clone(quorum);
            attempt.calls.push(async move {
                let vote = async {
                    quorum.admit(&node, limit).await?;
                    node.vote(&vote).await
                };
                Answer::Vote(at, vote.await)
            });
        }
        for node in quorum.slow_nodes() {
            attempt.ballot.vote(node, Vote::Silent);
        }
        attempt
    }

    /// Asks until it is decided, for at most two rounds of the limit.
    async fn decide(&mut self) -> Course {
        let quorum = Arc::clone(&self.quorum);
        let mut deadline = quorum.timers.shared_limit(self.limit);
        loop {
            match self.ballot.course() {
                Course::Wait => {}
                Course::Propose(token) => {
                    self.confirm = Some(self.paper.confirm(quorum.names(), token));
                    for node in self.ballot.propose(token) {
                        self.ask_to_confirm(node);
                    }
                    if self.quorum.options.token == TokenMode::BestEffort {
                        return Course::Won(token);
                    }
                    deadline = quorum.timers.shared_limit(self.limit);
                    continue;
                }
                course => return course,
            }
            match self.calls.next_before(&mut deadline).await {
                Some(answer) => self.hear(answer),
                None => {
                    self.has_doubt = true;
                    for node in self.ballot.close() {
                        self.quorum.nodes[node].was_slow();
                    }
                }
            }
        }
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Vote(node, Ok(voted)) => {
                self.ballot.vote(node, voted.vote());
                if self.ballot.granted(node) {
                    self.ask_to_confirm(node);
                }
                match voted {
                    Voted::Busy { busy, token, is_agreed } => self.rivals.add(busy, token, is_agreed),
                    Voted::HeldOff(left) => self.failures.push((node, held_off(left))),
                    Voted::Granted { .. } => {}
                }
            }
            Answer::Vote(node, Err(error)) => {
                self.ballot.vote(node, Vote::Silent);
                self.fail(node, error);
            }
            Answer::Confirm(node, Ok(took_over)) => self.ballot.confirm(node, took_over),
            Answer::Confirm(node, Err(error)) => {
                self.ballot.confirm(node, false);
                self.fail(node, error);
            }
            Answer::Withdrawn(node, result) => {
                if let Err(error) = result {
                    self.fail(node, error);
                }
            }
        }
    }

    /// Asks a server that granted the lock to take over the token, if there is one.
    fn ask_to_confirm(&self, node: usize) {
        if let Some(request) = &self.confirm {
            self.calls.push(confirm(&self.quorum.nodes[node], node, request));
        }
    }

    fn fail(&mut self, node: usize, error: Error) {
        self.has_doubt |= error.effect() == Effect::Unknown;
        self.failures.push((node, error));
    }

    /// Whether the server can't have heard of the attempt, or told that it did nothing.
    fn was_refused(&self, node: usize) -> bool {
        self.failures.iter().any(|(failed, error)| *failed == node && error.effect() == Effect::None)
    }

    fn took(&self) -> Duration {
        self.quorum.clock.now().since(self.sent).max(Duration::from_micros(200))
    }

    async fn won(mut self, token: u64, request: &LockRequest, ttl: Duration) -> Result<TryLock> {
        let Some(token) = distlock_core::FencingToken::new(token) else {
            return crate::error::unreadable();
        };
        let lease = Lease::granted(request, token, ttl, self.sent);
        let left = lease.valid_until.since(self.quorum.clock.now());
        if left <= self.quorum.options.min_validity {
            self.withdraw().await;
            let effect = self.effect();
            let message = format!(
                "the servers granted the lock, but {left:?} were left of its ttl of {ttl:?} by then, and more than {:?} is asked for; it is given back (use a longer ttl, or see why the servers are slow)",
                self.quorum.options.min_validity
            );
            return Err(Error::new(ErrorKind::TooSlow, message).with_effect(effect));
        }
        self.finish(true);
        Ok(TryLock::Acquired(lease))
    }

    async fn failed(mut self, course: Course) -> Result<TryLock> {
        self.withdraw().await;
        match course {
            Course::Failed(Defeat::Held | Defeat::Doubtful) => Ok(TryLock::Busy(self.rivals.busy())),
            Course::Failed(Defeat::Split { .. }) => {
                let mut busy = Busy::unknown();
                busy.free_in = Some(self.took());
                Ok(TryLock::Busy(busy))
            }
            Course::Failed(Defeat::Disagreed) if self.failures.is_empty() => Err(Error::new(
                ErrorKind::TooSlow,
                "the servers granted the lock, but not for long enough to agree on its token; it is given back (use a longer ttl, or see why the servers are slow)",
            )
            .with_effect(self.effect())),
            _ => Err(self.unavailable()),
        }
    }

    /// Whether an earlier attempt of the claim may have won, and this one failed for want of answers alone. Then
    /// the lock stays as it is, for the next attempt to find out: the holder's token must not change.
    fn may_hold(&self) -> bool {
        self.ballot.was_agreed() && (self.has_doubt || !self.failures.is_empty())
    }

    fn unavailable(&self) -> Error {
        let effect = if self.may_hold() { Effect::Unknown } else { self.effect() };
        self.quorum.unavailable(&self.failures).with_effect(effect)
    }

    fn effect(&self) -> Effect {
        if self.has_doubt { Effect::Unknown } else { Effect::None }
    }

    /// Takes back what was granted, and waits for that; what is still on its way is taken back behind.
    async fn withdraw(&mut self) {
        let nodes = 0..self.quorum.nodes.len();
        let request = self.paper.withdraw(self.quorum.names());
        let mut waits_for = 0;
        for node in nodes.filter(|node| self.ballot.may_have_granted(*node)) {
            let granted = self.ballot.granted(node);
            // Who has not voted yet may have nothing to take back.
            if granted || self.ballot.is_silent(node) && !self.was_refused(node) {
                self.calls.push(withdraw(&self.quorum.nodes[node], node, &request));
                waits_for += usize::from(granted);
            }
        }
        let quorum = Arc::clone(&self.quorum);
        let mut deadline = quorum.timers.shared_limit(self.limit);
        while waits_for > 0 {
            match self.calls.next_before(&mut deadline).await {
                Some(Answer::Withdrawn(node, result)) => {
                    waits_for -= usize::from(self.ballot.granted(node));
                    self.hear(Answer::Withdrawn(node, result));
                }
                Some(Answer::Vote(node, Ok(Voted::Granted { .. }))) => {
                    self.calls.push(withdraw(&self.quorum.nodes[node], node, &request));
                }
                Some(_) => {}
                None => {
                    self.has_doubt = true;
                    break;
                }
            }
        }
        self.finish(false);
    }

    /// Leaves to the background what is still under way: late grants get the token, or are taken back.
    fn finish(&mut self, has_won: bool) {
        let calls = std::mem::replace(&mut self.calls, Calls::new());
        let (quorum, paper) = (Arc::clone(&self.quorum), Arc::clone(&self.paper));
        let confirmed = self.confirm.take().filter(|_| has_won);
        calls.finish(move |answer, calls| match (answer, &confirmed) {
            (Answer::Vote(at, Ok(Voted::Granted { .. })), Some(request)) => {
                calls.push(confirm(&quorum.nodes[at], at, request));
            }
            (Answer::Vote(at, Ok(Voted::Granted { .. })), None)
            | (Answer::Confirm(at, Ok(false)), Some(_)) => {
                calls.push(withdraw(&quorum.nodes[at], at, &paper.withdraw(quorum.names())));
            }
            _ => {}
        });
    }
}

fn confirm(node: &Arc<Node>, at: usize, request: &Arc<Prepared>) -> impl Future<Output = Answer> + use<> {
    let (node, request) = (Arc::clone(node), Arc::clone(request));
    async move { Answer::Confirm(at, node.confirm(&request).await) }
}

fn withdraw(node: &Arc<Node>, at: usize, request: &Arc<Prepared>) -> impl Future<Output = Answer> + use<> {
    let (node, request) = (Arc::clone(node), Arc::clone(request));
    async move { Answer::Withdrawn(at, node.withdraw(&request).await) }
}

fn held_off(left: Duration) -> Error {
    let message = format!(
        "it was restarted or lost its data, may have forgotten locks, and grants none for another {left:.1?} (restart_holdoff)"
    );
    Error::new(ErrorKind::Unavailable, message).with_effect(Effect::None)
}
