//! Prolonging leases in a majority of servers, and putting back what single servers forgot.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Effect, Error, Instant, Lease, Renewal, Result};
use futures_util::future::join_all;

use super::Quorum;
use super::calls::Calls;
use super::node::Node;
use super::requests;
use super::tally::{Extension, Extensions, Verdict};
use crate::prepared::Prepared;

/// How many leases one script prolongs, as with a single server.
const BATCH: usize = 500;

/// What one server answered: which leases it was asked about, and what it said of each.
struct Answer {
    node: usize,
    leases: Arc<Vec<usize>>,
    result: Result<Vec<Extension>>,
    /// Whether it was asked to put back what it forgot.
    is_repeat: bool,
}

/// Prolongs many leases, with one command a server for each batch; the results stand in the leases' order.
pub(super) async fn renew_many(
    quorum: &Arc<Quorum>,
    leases: &[Lease],
    ttl: Duration,
) -> Vec<Result<Renewal>> {
    let batches = leases.chunks(BATCH).map(|batch| renew_batch(quorum, batch.to_vec(), ttl));
    join_all(batches).await.into_iter().flatten().collect()
}

async fn renew_batch(quorum: &Arc<Quorum>, leases: Vec<Lease>, ttl: Duration) -> Vec<Result<Renewal>> {
    let mut round = Round::new(quorum, Arc::new(leases), ttl);
    round.ask_all();
    round.decide().await;
    if round.top_up() {
        round.decide().await;
    }
    let results = round.results();
    round.finish();
    results
}

struct Round {
    quorum: Arc<Quorum>,
    leases: Arc<Vec<Lease>>,
    ttl: Duration,
    sent: Instant,
    tallies: Vec<Extensions>,
    calls: Calls<Answer>,
    failures: Vec<(usize, Error)>,
}

impl Round {
    fn new(quorum: &Arc<Quorum>, leases: Arc<Vec<Lease>>, ttl: Duration) -> Self {
        let tallies = leases.iter().map(|_| Extensions::new(quorum.nodes.len())).collect();
        let sent = quorum.clock.now();
        let (quorum, calls) = (Arc::clone(quorum), Calls::new());
        Self { quorum, leases, ttl, sent, tallies, calls, failures: Vec::new() }
    }

    fn ask_all(&mut self) {
        let all = Arc::new((0..self.leases.len()).collect::<Vec<_>>());
        for node in 0..self.quorum.nodes.len() {
            self.ask(node, Arc::clone(&all), false);
        }
        for node in self.quorum.slow_nodes() {
            self.tallies.iter_mut().for_each(|tally| tally.note(node, Extension::Silent));
        }
    }

    fn ask(&self, node: usize, leases: Arc<Vec<usize>>, puts_back: bool) {
        self.calls.push(extend(
            Arc::clone(&self.quorum),
            node,
            Arc::clone(&self.leases),
            leases,
            self.ttl,
            puts_back,
        ));
    }

    /// Takes answers until each lease is decided, for at most the limit of one server.
    async fn decide(&mut self) {
        let quorum = Arc::clone(&self.quorum);
        let mut deadline = quorum.timers.shared_limit(quorum.options.limit(self.ttl));
        while self.tallies.iter().any(|tally| tally.verdict() == Verdict::Wait) {
            match self.calls.next_before(&mut deadline).await {
                Some(answer) => self.hear(answer),
                None => {
                    for node in self.tallies.iter_mut().flat_map(Extensions::close) {
                        self.quorum.nodes[node].was_slow();
                    }
                }
            }
        }
    }

    fn hear(&mut self, answer: Answer) {
        match answer.result {
            Ok(said) => {
                for (lease, extension) in answer.leases.iter().zip(said) {
                    self.tallies[*lease].note(answer.node, extension);
                }
            }
            Err(error) => {
                for lease in answer.leases.iter() {
                    self.tallies[*lease].note(answer.node, Extension::Silent);
                }
                self.failures.push((answer.node, error));
            }
        }
    }

    /// Puts back where that makes a majority; false if there is nothing to put back.
    fn top_up(&mut self) -> bool {
        let wanted: Vec<_> =
            (0..self.tallies.len()).filter(|at| self.tallies[*at].verdict() == Verdict::TopUp).collect();
        self.put_back(&wanted);
        for lease in &wanted {
            self.tallies[*lease].top_up();
        }
        !wanted.is_empty()
    }

    fn put_back(&self, wanted: &[usize]) {
        for node in 0..self.quorum.nodes.len() {
            let has_forgotten = |lease: &&usize| self.tallies[**lease].forgotten().any(|at| at == node);
            let leases: Vec<_> = wanted.iter().filter(has_forgotten).copied().collect();
            if !leases.is_empty() {
                self.ask(node, Arc::new(leases), true);
            }
        }
    }

    fn results(&self) -> Vec<Result<Renewal>> {
        let result = |(lease, tally): (&Lease, &Extensions)| match tally.verdict() {
            Verdict::Renewed => Ok(lease.renewed(self.ttl, self.sent)),
            Verdict::Lost(reason) => Ok(Renewal::Lost(reason)),
            _ => Err(self.quorum.unavailable(&self.failures).with_effect(Effect::Unknown)),
        };
        self.leases.iter().zip(&self.tallies).map(result).collect()
    }

    /// Behind the caller's back: puts back what single servers forgot of leases that go on, and frees what
    /// single servers still have of leases that are over.
    fn finish(self) {
        let is = |at: &usize, wanted: fn(Verdict) -> bool| wanted(self.tallies[*at].verdict());
        let all = 0..self.leases.len();
        let renewed: Vec<_> =
            all.clone().filter(|at| is(at, |verdict| verdict == Verdict::Renewed)).collect();
        self.put_back(&renewed);
        for lost in all.filter(|at| is(at, |verdict| matches!(verdict, Verdict::Lost(_)))) {
            if self.tallies[lost].any_extended() {
                let request = requests::release(self.quorum.names(), &self.leases[lost].claim);
                for (at, node) in self.quorum.nodes.iter().enumerate() {
                    self.calls.push(free(Arc::clone(node), at, Arc::clone(&request)));
                }
            }
        }
        let Self { quorum, leases, ttl, tallies, calls, .. } = self;
        let goes_on: Vec<_> = tallies.iter().map(|tally| tally.verdict() == Verdict::Renewed).collect();
        calls.finish(move |answer, calls| {
            let Ok(said) = answer.result else { return };
            let forgotten = answer
                .leases
                .iter()
                .zip(said)
                .filter(|(at, extension)| goes_on[**at] && *extension == Extension::Forgotten);
            let forgotten: Vec<_> = forgotten.map(|(at, _)| *at).collect();
            if !forgotten.is_empty() && !answer.is_repeat {
                calls.push(extend(
                    Arc::clone(&quorum),
                    answer.node,
                    Arc::clone(&leases),
                    Arc::new(forgotten),
                    ttl,
                    true,
                ));
            }
        });
    }
}

async fn extend(
    quorum: Arc<Quorum>,
    at: usize,
    leases: Arc<Vec<Lease>>,
    chosen: Arc<Vec<usize>>,
    ttl: Duration,
    puts_back: bool,
) -> Answer {
    let node = &quorum.nodes[at];
    let asked = async {
        quorum.admit(node, quorum.options.limit(ttl)).await?;
        let hold_off = quorum.options.restart_holdoff;
        if chosen.len() == leases.len() {
            return node.extend(&leases, ttl, puts_back, hold_off).await;
        }
        let some: Vec<_> = chosen.iter().map(|lease| leases[*lease].clone()).collect();
        node.extend(&some, ttl, puts_back, hold_off).await
    };
    let result = asked.await;
    Answer { node: at, leases: chosen, result, is_repeat: puts_back }
}

async fn free(node: Arc<Node>, at: usize, request: Arc<Prepared>) -> Answer {
    let result = node.release(&request).await.map(|_| Vec::new());
    Answer { node: at, leases: Arc::default(), result, is_repeat: true }
}
