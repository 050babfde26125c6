//! What a client does in its rounds.

use super::super::super::ballot::{Ballot, Course, Defeat, Vote};
use super::super::super::tally::{Extensions, Passage, Passing, Verdict, passage};
use super::super::node::{Answer, Request};
use super::{Client, Due, Event, ROUND, Stage, World};

impl World<'_> {
    pub(super) fn begin_round(&mut self, client: usize) {
        self.clients[client].attempt += 1;
        let Client { owner, attempt, .. } = self.clients[client];
        self.at(ROUND, Due { client, owner, attempt, event: Event::TimeUp });
    }

    pub(super) fn act(&mut self, client: usize) {
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

    pub(super) fn hear(&mut self, client: usize, node: usize, answer: Answer) {
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

    pub(super) fn time_up(&mut self, client: usize) {
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
