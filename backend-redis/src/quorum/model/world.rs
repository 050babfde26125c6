//! Clients, nodes and messages that take their time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::ballot::{Ballot, Course, Defeat, Vote};
use super::super::tally::{Extensions, Passage, Passing, Verdict, passage};
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

    fn begin_round(&mut self, client: usize) {
        self.clients[client].attempt += 1;
        let Client { owner, attempt, .. } = self.clients[client];
        self.at(ROUND, Due { client, owner, attempt, event: Event::TimeUp });
    }

    fn act(&mut self, client: usize) {
        let now = self.now;
        match &self.clients[client].stage {
            Stage::Holding { token, ends, .. } if now < *ends && now < self.clients[client].valid_until => {
                let token = *token;
                self.begin_round(client);
                self.clients[client].sent = now;
                if let Stage::Holding { renewing, .. } = &mut self.clients[client].stage {
                    *renewing = Some(Extensions::new(self.rules.nodes));
                }
                self.send_all(client, Request::Extend { token, put_back: false });
            }
            Stage::Holding { token, .. } if now < self.clients[client].valid_until => {
                let token = *token;
                if self.rules.passes_on && self.rng.u32(..3) == 0 {
                    self.pass(client, token)
                } else {
                    self.end_hold(client)
                }
            }
            Stage::Holding { .. } => self.end_hold(client),
            _ => {
                self.begin_round(client);
                self.clients[client].sent = now;
                let ballot = Ballot::new(self.clients[client].owner, self.rules.nodes);
                self.clients[client].stage = Stage::Attempting(ballot);
                self.send_all(client, Request::Vote);
            }
        }
    }

    fn pass(&mut self, client: usize, token: u64) {
        self.begin_round(client);
        let next = self.next_owner();
        (self.clients[client].sent, self.clients[client].valid_until) = (self.now, 0);
        let answers = vec![None; self.rules.nodes];
        // Now and then the clocks have passed it by when it arrives.
        let clocks = self.nodes.iter().map(|node| self.now + node.skew).max().unwrap_or_default();
        let ahead = clocks + self.rng.u64(..40);
        let next_token = if self.rules.has_floor { ahead.max(token + 1) } else { token + 1 };
        self.clients[client].stage = Stage::Passing { token: next_token, next, answers };
        self.send_all(client, Request::Pass { tokens: [token, next_token], next });
    }

    fn end_passing(&mut self, client: usize) {
        let Stage::Passing { token, next, answers } = &self.clients[client].stage else { return };
        let (Some(passage), token, next) = (passage(answers), *token, *next) else { return };
        let old = std::mem::replace(&mut self.clients[client].owner, next);
        if passage == Passage::Passed && self.hold(client, token) {
            return;
        }
        self.send_all(client, Request::Withdraw);
        self.clients[client].owner = old;
        self.end_hold(client);
    }

    fn end_hold(&mut self, client: usize) {
        // Some just vanish.
        if self.rng.u32(..4) > 0 {
            self.send_all(client, Request::Release);
        }
        self.clients[client].valid_until = 0;
        self.clients[client].stage = Stage::Resting;
        self.renew_claim(client);
        self.later(client, 60, Event::Act);
    }

    fn hear(&mut self, client: usize, node: usize, answer: Answer) {
        match (&mut self.clients[client].stage, answer) {
            (Stage::Attempting(ballot), Answer::Vote(vote)) => {
                let proposed = ballot.proposed().filter(|_| matches!(vote, Vote::Granted { .. }));
                ballot.vote(node, vote);
                if let Some(token) = proposed {
                    self.send(client, node, Request::Confirm(token));
                }
                self.step(client);
            }
            (Stage::Attempting(ballot), Answer::Confirmed(took_over)) => {
                ballot.confirm(node, took_over);
                self.step(client);
            }
            // A straggler of the attempt that won.
            (Stage::Holding { token, .. }, Answer::Vote(Vote::Granted { .. })) => {
                let token = *token;
                self.send(client, node, Request::Confirm(token));
            }
            (Stage::Passing { answers, .. }, Answer::Passed(passing)) => {
                answers[node] = Some(passing);
                self.end_passing(client);
            }
            (Stage::Holding { renewing: Some(extensions), .. }, Answer::Extended(extension)) => {
                extensions.note(node, extension);
                self.judge(client);
            }
            _ => {}
        }
    }

    fn time_up(&mut self, client: usize) {
        match &mut self.clients[client].stage {
            Stage::Attempting(ballot) => {
                let _ = ballot.close();
                self.step(client);
            }
            Stage::Holding { renewing: Some(extensions), .. } => {
                let _ = extensions.close();
                self.judge(client);
            }
            Stage::Passing { answers, .. } => {
                for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
                    *answer = Some(Passing::Silent);
                }
                self.end_passing(client);
            }
            _ => {}
        }
    }

    fn step(&mut self, client: usize) {
        let Stage::Attempting(ballot) = &mut self.clients[client].stage else { return };
        match ballot.course() {
            Course::Wait => {}
            Course::Propose(token) if self.rules.is_single_phase => self.win(client, token),
            Course::Propose(token) => {
                for node in ballot.propose(token) {
                    self.send(client, node, Request::Confirm(token));
                }
            }
            Course::Won(token) => self.win(client, token),
            Course::Failed(defeat) => self.fail(client, defeat),
        }
    }

    fn win(&mut self, client: usize, token: u64) {
        if !self.hold(client, token) {
            self.fail(client, Defeat::Disagreed);
        }
    }

    /// False if it took too long for that.
    fn hold(&mut self, client: usize, token: u64) -> bool {
        let valid_until = self.clients[client].sent + self.rules.validity();
        if valid_until <= self.now {
            return false;
        }
        self.clients[client].valid_until = valid_until;
        self.grants += 1;
        self.broken.exclusion |= self.is_held_by_another(client);
        self.broken.tokens |= token <= self.last_token;
        self.last_token = self.last_token.max(token);
        let ends = self.now + self.rng.u64(1..self.rules.ttl) * self.rng.u64(..3) / 2;
        self.clients[client].stage = Stage::Holding { token, renewing: None, ends };
        let first = (ends - self.now + 1).min(self.rules.ttl / 2);
        self.later(client, first, Event::Act);
        true
    }

    fn is_held_by_another(&self, client: usize) -> bool {
        let others = self.clients.iter().enumerate().filter(|(other, _)| *other != client);
        others
            .into_iter()
            .any(|(_, other)| matches!(other.stage, Stage::Holding { .. }) && other.valid_until > self.now)
    }

    fn fail(&mut self, client: usize, defeat: Defeat) {
        let Stage::Attempting(ballot) = &self.clients[client].stage else { return };
        if defeat != (Defeat::Split { goes_first: true }) {
            for node in
                (0..self.nodes.len()).filter(|node| ballot.may_have_granted(*node)).collect::<Vec<_>>()
            {
                self.send(client, node, Request::Withdraw);
            }
        }
        self.clients[client].stage = Stage::Resting;
        if self.rng.u32(..4) == 0 {
            self.send_all(client, Request::Release);
            self.renew_claim(client);
        }
        let pause = if defeat == Defeat::Held { self.rules.ttl / 2 } else { 60 };
        self.later(client, pause, Event::Act);
    }

    fn judge(&mut self, client: usize) {
        let (now, sent) = (self.now, self.clients[client].sent);
        let is_over = now >= self.clients[client].valid_until;
        let Stage::Holding { token, renewing, .. } = &mut self.clients[client].stage else { return };
        let Some(extensions) = renewing else { return };
        let token = *token;
        match extensions.verdict() {
            Verdict::Wait => {}
            Verdict::Lost(_) => self.end_hold(client),
            _ if is_over => self.end_hold(client),
            Verdict::TopUp => {
                let forgotten: Vec<_> = extensions.forgotten().collect();
                extensions.top_up();
                for node in forgotten {
                    self.send(client, node, Request::Extend { token, put_back: true });
                }
                self.begin_second_round(client);
            }
            Verdict::Renewed => {
                let forgotten: Vec<_> = extensions.forgotten().collect();
                for node in forgotten {
                    self.send(client, node, Request::Extend { token, put_back: true });
                }
                self.end_renewal(client);
                let valid_until = sent + self.rules.validity();
                self.clients[client].valid_until = self.clients[client].valid_until.max(valid_until);
                self.broken.exclusion |= self.is_held_by_another(client);
            }
            Verdict::Inconclusive => self.end_renewal(client),
        }
    }

    fn begin_second_round(&mut self, client: usize) {
        let Client { owner, attempt, .. } = self.clients[client];
        self.at(ROUND, Due { client, owner, attempt, event: Event::TimeUp });
    }

    fn end_renewal(&mut self, client: usize) {
        if let Stage::Holding { renewing, .. } = &mut self.clients[client].stage {
            *renewing = None;
        }
        self.later(client, self.rules.ttl / 3, Event::Act);
    }
}
