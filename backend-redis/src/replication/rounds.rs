//! One `WAIT` for all grants that are on their way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Instant, Lease, Result};
use redis::{Pipeline, Value};
use tokio::sync::oneshot;

use super::Arrival;
use crate::acquire::micros;
use crate::connection::{Failure, Node};
use crate::error::{classify, unreadable};
use crate::reply::parts;
use crate::script::{self, By};
use crate::store::Store;

/// How many grants one round takes at most, so that a server is not kept from others for long.
const MOST: usize = 500;

/// The grants that are on their way to replicas, by the server that granted them. `WAIT`s on one
/// connection queue up behind each other; so while one is out, those that come join the next.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// A server with an entry has a task, which serves one round after another.
    waiting: Mutex<HashMap<Node, Vec<Member>>>,
}

/// One grant on its way.
#[derive(Debug)]
struct Member {
    lease: Lease,
    until: Instant,
    answer: oneshot::Sender<Result<Arrival>>,
}

impl Rounds {
    /// Takes part in the next round of the lease's server, which waits for `limit` at most.
    pub(super) fn join(
        &self,
        store: &Arc<Store>,
        lease: &Lease,
        limit: Duration,
    ) -> impl Future<Output = Result<Arrival>> + use<> {
        let (answer, answered) = oneshot::channel();
        let member = Member { lease: lease.clone(), until: store.clock.now().plus(limit), answer };
        let server = store.link.home(&store.names.record(&lease.claim.key));
        match self.waiting().entry(server.clone()) {
            Entry::Occupied(mut others) => others.get_mut().push(member),
            Entry::Vacant(none) => {
                none.insert(vec![member]);
                let turns = Turns { store: Arc::clone(store), server, is_over: false };
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a caller that gives up must not take the round of the others along; it ends with the last of them"
                )]
                tokio::spawn(turns.run());
            }
        }
        async move { answered.await.unwrap_or_else(|_| Err(abandoned())) }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Node, Vec<Member>>> {
        // Every change is complete before anything can panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One server's rounds, as long as anybody wants one.
struct Turns {
    store: Arc<Store>,
    server: Node,
    is_over: bool,
}

impl Turns {
    async fn run(mut self) {
        while let Some(members) = self.next() {
            serve(&self.store, members).await;
        }
    }

    fn next(&mut self) -> Option<Vec<Member>> {
        let mut waiting = self.store.rounds.waiting();
        let members = waiting.get_mut(&self.server)?;
        members.retain(|member| !member.answer.is_closed());
        let round: Vec<_> = members.drain(..members.len().min(MOST)).collect();
        if round.is_empty() {
            waiting.remove(&self.server);
            self.is_over = true;
            return None;
        }
        Some(round)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // The runtime ended; whoever waits hears of it.
        if !self.is_over {
            self.store.rounds.waiting().remove(&self.server);
        }
    }
}

/// Serves one round, and alone those whose slot has left the others' server.
async fn serve(store: &Store, members: Vec<Member>) {
    let (answers, number) = match send(store, &members).await {
        Ok(answers) => answers,
        Err(error) => return members.into_iter().for_each(|member| member.give(Err(error.clone()))),
    };
    let is_alone = members.len() == 1;
    for (member, renewed) in members.into_iter().zip(answers) {
        if matches!(&renewed, Err(error) if error.kind() == ErrorKind::Unavailable) && !is_alone {
            let again = send(store, std::slice::from_ref(&member)).await;
            let alone = again.and_then(|(mut renewed, number)| arrival(renewed.pop(), number));
            member.give(alone);
        } else {
            member.give(arrival(Some(renewed), number.clone()));
        }
    }
}

type Answers = (Vec<Result<Value>>, Result<Value>);

/// Renews and waits; what became of each renewal, and of the wait.
async fn send(store: &Store, members: &[Member]) -> Result<Answers> {
    // There is one at least.
    let record = store.names.record(&members[0].lease.claim.key);
    let mut answers = store.aside(&round(store, members, By::Hash), &record).await?;
    if answers.iter().any(|answer| code_of(answer) == Some("NOSCRIPT")) {
        answers = store.aside(&round(store, members, By::Text), &record).await?;
    }
    if answers.len() != members.len() + 1 {
        return unreadable();
    }
    let mut answers: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.extract_error().map_err(Failure::after_send).map_err(classify))
        .collect();
    let number = answers.pop().unwrap_or_else(unreadable);
    Ok((answers, number))
}

fn round(store: &Store, members: &[Member], by: By) -> Pipeline {
    let mut commands = redis::pipe();
    for Member { lease, .. } in members {
        let (owner, token) = (lease.claim.owner.to_string(), lease.token.to_string());
        let arguments = [&micros(lease.ttl), owner.as_bytes(), token.as_bytes()];
        commands.add_command(script::RENEW.invoke(by, &[store.names.record(&lease.claim.key)], &arguments));
    }
    // As long as the last of them waits; whoever has to go before goes.
    let now = store.clock.now();
    let left = members.iter().map(|member| member.until.since(now)).max().unwrap_or_default();
    let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
    commands.cmd("WAIT").arg(store.wait_replicas).arg(millis);
    commands
}

fn arrival(renewed: Option<Result<Value>>, number: Result<Value>) -> Result<Arrival> {
    match (parts(&renewed.unwrap_or_else(unreadable)?)?, number?) {
        ([Value::Int(1)], Value::Int(number)) => Ok(Arrival::On(number)),
        ([Value::Int(_)], _) => Ok(Arrival::Gone),
        _ => unreadable(),
    }
}

impl Member {
    fn give(self, arrival: Result<Arrival>) {
        // Whoever went does not need it.
        let _ = self.answer.send(arrival);
    }
}

fn code_of(answer: &Value) -> Option<&str> {
    match answer {
        Value::ServerError(error) => Some(error.code()),
        _ => None,
    }
}

fn abandoned() -> Error {
    Error::new(ErrorKind::Unavailable, "the runtime that waited for the replicas has ended")
}
