//! Clients, nodes and messages that take their time.

mod rounds;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::ballot::Ballot;
use super::super::tally::{Extensions, Passing};
use super::node::{Answer, Node, Owner, Request};
use super::{Broken, Rules, Step};

/// How long a client waits for a round's answers.
const ROUND: u64 = 120;

/// Something that happens at its time.
#[derive(Clone, Debug)]
enum Event {
    Arrive {
        node: usize,
        request: Request,
    },
    Answer {
        node: usize,
        answer: Answer,
    },
    /// The round's time is up.
    TimeUp,
    /// The client does the next thing.
    Act,
    Wipe {
        node: usize,
    },
}

/// Something that happens to a client, in one of his rounds.
#[derive(Clone, Debug)]
struct Due {
    client: usize,
    owner: Owner,
    attempt: u64,
    event: Event,
}

#[derive(Debug)]
enum Stage {
    Resting,
    Attempting(Ballot<Owner>),
    Holding {
        token: u64,
        renewing: Option<Extensions>,
        ends: u64,
    },
    /// To a claim of the same client, with this token.
    Passing {
        token: u64,
        next: Owner,
        answers: Vec<Option<Passing>>,
    },
}

#[derive(Debug)]
struct Client {
    owner: Owner,
    attempt: u64,
    sent: u64,
    valid_until: u64,
    stage: Stage,
}

/// One run.
pub(super) struct World<'a> {
    rules: &'a Rules,
    rng: fastrand::Rng,
    now: u64,
    count: u64,
    owners: Owner,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    /// How many messages of a hundred are late or lost.
    trouble: u32,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    due: Vec<Option<Due>>,
    last_token: u64,
    pub(super) grants: u64,
    pub(super) broken: Broken,
    /// What happened at the nodes, where that is asked for.
    pub(super) steps: Option<Vec<Step>>,
}

impl<'a> World<'a> {
    pub(super) fn new(rules: &'a Rules, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let node = |rng: &mut fastrand::Rng| Node::new(rng.u64(..40), rng.u64(..8));
        let nodes = (0..rules.nodes).map(|_| node(&mut rng)).collect();
        let trouble = rng.u32(..20);
        let mut world = Self {
            rules,
            trouble,
            rng,
            now: rules.start,
            count: 0,
            owners: 0,
            nodes,
            clients: Vec::new(),
            queue: BinaryHeap::new(),
            due: Vec::new(),
            last_token: 0,
            grants: 0,
            broken: Broken::default(),
            steps: None,
        };
        for client in 0..rules.clients {
            world.clients.push(Client {
                owner: 0,
                attempt: 0,
                sent: 0,
                valid_until: 0,
                stage: Stage::Resting,
            });
            world.renew_claim(client);
            world.later(client, 200, Event::Act);
        }
        for _ in 0..rules.wipes {
            let (node, after) = (world.rng.usize(..rules.nodes), 2 * rules.ttl * world.rng.u64(1..4));
            world.later(0, after, Event::Wipe { node });
        }
        world
    }

    pub(super) fn run(&mut self, events: usize) {
        for _ in 0..events {
            let Some(Reverse((at, _, slot))) = self.queue.pop() else { return };
            self.now = at;
            if let Some(due) = self.due[slot].take() {
                self.happen(due);
            }
        }
    }

    fn happen(&mut self, due: Due) {
        let Due { client, owner, attempt, .. } = due;
        let is_current = self.clients[client].owner == owner && self.clients[client].attempt == attempt;
        match due.event {
            Event::Wipe { node } => {
                self.nodes[node].wipe();
                self.note(node, owner, attempt, None);
            }
            Event::Arrive { node, request } => {
                let answer = self.nodes[node].answer(self.rules, self.now, owner, attempt, request);
                self.note(node, owner, attempt, Some((request, answer.clone())));
                let delay = self.delay();
                self.at(delay, Due { event: Event::Answer { node, answer }, ..due });
            }
            Event::Answer { node, answer } if is_current => self.hear(client, node, answer),
            Event::TimeUp if is_current => self.time_up(client),
            Event::Act if is_current => self.act(client),
            _ => {}
        }
    }

    fn note(&mut self, node: usize, owner: Owner, attempt: u64, asked: Option<(Request, Answer)>) {
        let (now, after) = (self.now, &self.nodes[node]);
        if let Some(steps) = &mut self.steps {
            steps.push(Step { node, now, owner, attempt, asked, after: after.clone() });
        }
    }

    /// Most messages are quick, some are late, and some never come.
    fn delay(&mut self) -> u64 {
        if self.rng.u32(..100) >= self.trouble {
            return self.rng.u64(1..20);
        }
        if self.rng.u32(..8) == 0 { u64::MAX } else { self.rng.u64(1..self.rules.ttl) }
    }

    fn at(&mut self, delay: u64, due: Due) {
        if delay == u64::MAX {
            return;
        }
        self.count += 1;
        let at = self.now + delay;
        self.queue.push(Reverse((at, self.count, self.due.len())));
        self.due.push(Some(due));
    }

    fn later(&mut self, client: usize, most: u64, event: Event) {
        let delay = self.rng.u64(1..=most);
        let Client { owner, attempt, .. } = self.clients[client];
        self.at(delay, Due { client, owner, attempt, event });
    }

    fn send(&mut self, client: usize, node: usize, request: Request) {
        let delay = self.delay();
        let Client { owner, attempt, .. } = self.clients[client];
        self.at(delay, Due { client, owner, attempt, event: Event::Arrive { node, request } });
    }

    fn send_all(&mut self, client: usize, request: Request) {
        for node in 0..self.nodes.len() {
            self.send(client, node, request);
        }
    }

    fn renew_claim(&mut self, client: usize) {
        self.clients[client].owner = self.next_owner();
    }

    fn next_owner(&mut self) -> Owner {
        self.owners += 1;
        // Owners are random, so that nobody goes first for ever.
        self.owners.wrapping_mul(2_654_435_761)
    }
}
