//! The way to the cluster: one member at a time, the leader if that is known, and the next when that one fails.
//!
//! The client crate can spread calls over several members by itself, but then goes on choosing one
//! that is frozen, and fails calls that another one would have answered.

mod endpoint;
mod leader;
mod opener;
mod tls;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use distlock_core::{Clock, Instant, Result, Timers};
use etcd_client::{Client, Error as EtcdError, ResponseHeader, Txn};

use crate::config::EtcdConfig;
use crate::error::{Failure, Verdict, classify};
use crate::queue::Answer;
use endpoint::Endpoint;
use leader::look_for_leader;
use opener::Opener;

/// The way to the cluster.
#[derive(Debug)]
pub(crate) struct Link {
    itself: Weak<Self>,
    endpoints: Vec<Arc<Endpoint>>,
    current: AtomicUsize,
    clock: Clock,
    timers: Timers,
    connect_timeout: Duration,
    response_timeout: Duration,
    is_closed: AtomicBool,
    sent: AtomicU64,
    term: AtomicU64,
}

/// Whether a call may be sent to another member although the first may have carried it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It only reads, or twice does the same as once.
    Freely,
    /// The caller has to know.
    Never,
}

impl Link {
    pub(crate) fn new(config: &EtcdConfig) -> Result<Arc<Self>> {
        let opener = Opener::new(config)?;
        let endpoints =
            config.servers.iter().map(|server| Arc::new(Endpoint::new(server, opener.clone()))).collect();
        Ok(Self::with(config, endpoints))
    }

    /// The way that an application's own client takes.
    pub(crate) fn own(config: &EtcdConfig, client: Client) -> Arc<Self> {
        Self::with(config, vec![Arc::new(Endpoint::own(client))])
    }

    fn with(config: &EtcdConfig, endpoints: Vec<Arc<Endpoint>>) -> Arc<Self> {
        // Programs that start together spread over the members.
        let current = AtomicUsize::new(fastrand::usize(..endpoints.len().max(1)));
        Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            endpoints,
            current,
            clock: Clock::system(),
            timers: Timers::new(),
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
            is_closed: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            term: AtomicU64::new(0),
        })
    }

    /// Sends a call to a member, and to others in turn while it certainly has changed nothing.
    ///
    /// Bounded in time; may be dropped at any point, and then leaves nothing worse than a reply that
    /// nobody reads.
    pub(crate) async fn call<T, F>(
        &self,
        repeat: Repeat,
        operation: impl Fn(&Client) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let until = self.clock.now().plus(self.response_timeout);
        let mut tries = 0;
        loop {
            tries += 1;
            let result = self.try_call(until, &operation).await;
            let may_repeat = match result.as_ref().map_err(|failure| failure.verdict) {
                Err(Verdict::Elsewhere) => tries <= self.endpoints.len(),
                // The next connection shows who one is; a fresh one that is refused stays so.
                Err(Verdict::Authenticate) => tries <= 1,
                Err(Verdict::Doubtful | Verdict::Broken) => {
                    repeat == Repeat::Freely && tries < self.endpoints.len()
                }
                _ => false,
            };
            if !may_repeat || self.clock.now() >= until {
                return result;
            }
        }
    }

    /// Runs a transaction.
    pub(crate) async fn txn(&self, repeat: Repeat, txn: &Txn) -> Result<Answer, Failure> {
        let run = |client: &Client| {
            let (mut kv, txn) = (client.kv_client(), txn.clone());
            // In a box, since it is large: without, it would be copied on its way through those around it.
            Box::pin(async move { kv.txn(txn).await })
        };
        let response = self.call(repeat, run).await?;
        self.heard_of(response.header());
        Ok(Answer::from(response))
    }

    /// Notes the leader's term that an answer speaks of, and says which that is. The calls after a new one go to its leader
    /// soon.
    pub(crate) fn heard_of(&self, header: Option<&ResponseHeader>) -> u64 {
        let term = header.map_or(0, ResponseHeader::raft_term);
        if self.term.fetch_max(term, Ordering::Relaxed) < term && self.endpoints.len() > 1 {
            look_for_leader(Weak::clone(&self.itself), term);
        }
        term
    }

    /// The highest term of a leader that was heard of.
    pub(crate) fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }

    /// How many requests were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts requests on a stream.
    pub(crate) fn count(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens a stream on the member of the moment, and says which that is.
    pub(crate) async fn open<T, F>(
        &self,
        operation: impl Fn(&Client) -> F + Send + Sync,
    ) -> Result<(T, usize), Failure>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let until = self.clock.now().plus(self.response_timeout);
        let mut last = Failure::closed();
        for _ in 0..=self.endpoints.len() {
            let at = self.choose(until).await?;
            match self.on(at, until, &operation).await {
                Ok(opened) => return Ok((opened, at)),
                Err(failure) if matches!(failure.verdict, Verdict::Elsewhere | Verdict::Authenticate) => {
                    last = failure;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(last)
    }

    /// Uses a stream of this member for one exchange.
    pub(crate) async fn within<T>(
        &self,
        member: usize,
        exchange: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(endpoint) = self.endpoints.get(member) else { return Err(Failure::closed()) };
        let outstanding = endpoint.send();
        let Some(result) = self.timers.limit(self.response_timeout, exchange).await else {
            return Err(Failure::late(&endpoint.server));
        };
        outstanding.judge(&result);
        result
    }

    /// Whether this member failed a moment ago.
    pub(crate) fn rests(&self, member: usize) -> bool {
        self.endpoints.get(member).is_none_or(|endpoint| endpoint.rests_until() > self.clock.now())
    }

    /// Whether calls go to this member now.
    pub(crate) fn uses(&self, member: usize) -> bool {
        self.current.load(Ordering::Acquire) == member && !self.rests(member)
    }

    /// A stream of this member ended or fell silent.
    pub(crate) fn failed(&self, member: usize) {
        if let Some(endpoint) = self.endpoints.get(member) {
            endpoint.failed();
        }
    }

    /// Each member's name and what it answers.
    pub(crate) async fn each<T, F>(
        &self,
        operation: impl Fn(&Client) -> F + Send + Sync,
    ) -> Vec<(&str, Result<T, Failure>)>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let until = self.clock.now().plus(self.response_timeout);
        let asked = (0..self.endpoints.len()).map(|at| self.on(at, until, &operation));
        let answers = futures_util::future::join_all(asked).await;
        self.endpoints.iter().map(|endpoint| endpoint.server.as_str()).zip(answers).collect()
    }

    /// Sends nothing any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for endpoint in &self.endpoints {
            endpoint.hang_up();
        }
    }

    async fn try_call<T, F>(
        &self,
        until: Instant,
        operation: &(impl Fn(&Client) -> F + Send + Sync),
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let at = self.choose(until).await?;
        self.on(at, until, operation).await
    }

    /// Sends a call to one member.
    async fn on<T, F>(
        &self,
        at: usize,
        until: Instant,
        operation: &(impl Fn(&Client) -> F + Send + Sync),
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let Some(endpoint) = self.endpoints.get(at) else { return Err(Failure::closed()) };
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Failure::closed());
        }
        let outstanding = endpoint.send();
        let client = match endpoint.opened() {
            Some(client) => Ok(client),
            // In a box, since it is large, and each of the futures around it would have room for it.
            None => Box::pin(self.open_one(endpoint)).await,
        };
        let result = match client {
            Ok(client) => {
                self.count();
                let left = until.since(self.clock.now());
                let answer = self.timers.limit(left, operation(&client)).await;
                match answer {
                    Some(answer) => answer.map_err(|error| classify(error, &endpoint.server)),
                    None => {
                        // Judged by its silence.
                        drop(outstanding);
                        return Err(Failure::late(&endpoint.server));
                    }
                }
            }
            Err(failure) => Err(failure),
        };
        outstanding.judge(&result);
        result
    }

    async fn open_one(&self, endpoint: &Arc<Endpoint>) -> Result<Arc<Client>, Failure> {
        let limit = endpoint.opening_limit(self.connect_timeout, self.response_timeout);
        let opening = self.timers.limit(limit, endpoint.client(limit)).await;
        opening.unwrap_or_else(|| Err(Failure::unreachable(&endpoint.server)))
    }

    /// The member to use: the one used last unless it rests, and then the next that does not.
    async fn choose(&self, until: Instant) -> Result<usize, Failure> {
        loop {
            let now = self.clock.now();
            let first = self.current.load(Ordering::Acquire);
            let count = self.endpoints.len();
            let in_turn = (0..count).map(|step| (first + step) % count);
            let rested = |at: &usize| self.endpoints[*at].rests_until();
            let Some(best) =
                in_turn.clone().find(|at| rested(at) <= now).or_else(|| in_turn.min_by_key(rested))
            else {
                return Err(Failure::closed());
            };
            let wait = rested(&best).since(now);
            if wait.is_zero() || now >= until {
                self.current.store(best, Ordering::Release);
                return Ok(best);
            }
            tokio::time::sleep(wait.min(until.since(now))).await;
        }
    }
}
