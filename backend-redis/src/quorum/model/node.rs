//! What the scripts do on one node, in the model.

use super::super::ballot::Vote;
use super::super::tally::{Extension, Passing};
use super::Rules;

/// A claim's owner.
pub(super) type Owner = u32;

/// What is asked of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Vote,
    Confirm(u64),
    Extend {
        token: u64,
        put_back: bool,
    },
    /// Of the lease with the first of these tokens.
    Pass {
        tokens: [u64; 2],
        next: Owner,
    },
    Release,
    Withdraw,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Vote(Vote<Owner>),
    Confirmed(bool),
    Extended(Extension),
    Passed(Passing),
    Done,
}

/// One node's record of the one lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// How far its clock is ahead.
    pub(super) skew: u64,
    /// By how many thousandths it ends leases too early.
    pub(super) haste: u64,
    pub(super) token: u64,
    pub(super) owner: Option<Owner>,
    pub(super) deadline: u64,
    pub(super) before: u64,
    pub(super) agreed: u64,
    pub(super) attempt: u64,
    /// When it was first asked with the data that it has; none if it was not asked since it forgot all.
    pub(super) born: Option<u64>,
}

impl Node {
    pub(super) fn new(skew: u64, haste: u64) -> Self {
        Self { skew, haste, born: Some(0), ..Self::default() }
    }

    /// Everything is forgotten.
    pub(super) fn wipe(&mut self) {
        *self = Self { born: None, ..Self::new(self.skew, self.haste) };
    }

    pub(super) fn answer(
        &mut self,
        rules: &Rules,
        now: u64,
        owner: Owner,
        attempt: u64,
        request: Request,
    ) -> Answer {
        match request {
            Request::Vote => Answer::Vote(self.vote(rules, now, owner, attempt)),
            Request::Confirm(token) => {
                Answer::Confirmed(self.is_held_by(now, owner) && self.agree(rules, token))
            }
            Request::Extend { token, put_back } => {
                Answer::Extended(self.extend(rules, now, owner, token, put_back))
            }
            Request::Pass { tokens, next } => {
                Answer::Passed(self.pass(rules, now, owner, attempt, tokens, next))
            }
            Request::Release => {
                self.free_if(self.owner == Some(owner));
                Answer::Done
            }
            Request::Withdraw => {
                self.free_if(self.owner == Some(owner) && self.attempt <= attempt);
                Answer::Done
            }
        }
    }

    fn vote(&mut self, rules: &Rules, now: u64, owner: Owner, attempt: u64) -> Vote<Owner> {
        if self.is_held_by(now, owner) {
            self.deadline = self.deadline.max(self.end(rules, now));
            self.attempt = self.attempt.max(attempt);
            return Vote::Granted { token: self.token, agreed: self.agreed == self.token };
        }
        if self.is_held(now) {
            return Vote::Busy { holder: self.owner, agreed: self.agreed == self.token };
        }
        if self.holds_off(rules, now) {
            return Vote::Silent;
        }
        self.before = self.token;
        self.token = (self.token + 1).max(if rules.has_floor { now + self.skew } else { 0 });
        (self.owner, self.deadline, self.attempt) = (Some(owner), self.end(rules, now), attempt);
        Vote::Granted { token: self.token, agreed: false }
    }

    fn agree(&mut self, rules: &Rules, token: u64) -> bool {
        if self.agreed == self.token {
            return self.token == token;
        }
        if self.before >= token && rules.has_guard {
            return false;
        }
        (self.token, self.agreed) = (token, token);
        true
    }

    fn extend(&mut self, rules: &Rules, now: u64, owner: Owner, token: u64, put_back: bool) -> Extension {
        let puts_back = put_back && !self.holds_off(rules, now);
        if self.is_held_by(now, owner) {
            if !self.agree(rules, token) {
                return Extension::Gone;
            }
            self.deadline = self.deadline.max(self.end(rules, now));
            return Extension::Extended;
        }
        if self.is_held(now) {
            return Extension::Foreign;
        }
        let lapsed = self.owner == Some(owner) && self.token <= token;
        if self.token >= token && !lapsed {
            return Extension::Gone;
        }
        if !puts_back {
            return Extension::Forgotten;
        }
        (self.owner, self.deadline) = (Some(owner), self.end(rules, now));
        (self.token, self.agreed) = (token, token);
        Extension::Extended
    }

    fn pass(
        &mut self,
        rules: &Rules,
        now: u64,
        owner: Owner,
        attempt: u64,
        [token, next_token]: [u64; 2],
        next: Owner,
    ) -> Passing {
        if !self.is_held(now) {
            return Passing::Missing;
        }
        if self.owner != Some(owner) {
            return Passing::Foreign;
        }
        if rules.has_floor && next_token < now + self.skew {
            return Passing::Behind;
        }
        if !self.agree(rules, token) {
            return Passing::Missing;
        }
        (self.before, self.token, self.agreed) = (token, next_token, next_token);
        (self.owner, self.deadline, self.attempt) = (Some(next), self.end(rules, now), attempt);
        Passing::Passed
    }

    fn free_if(&mut self, is_meant: bool) {
        if is_meant {
            self.owner = None;
        }
    }

    fn end(&self, rules: &Rules, now: u64) -> u64 {
        now + self.ttl(rules)
    }

    /// How long it takes a ttl to be.
    pub(super) const fn ttl(&self, rules: &Rules) -> u64 {
        rules.ttl - rules.ttl * self.haste / 1000
    }

    fn is_held(&self, now: u64) -> bool {
        self.owner.is_some() && self.deadline > now
    }

    fn is_held_by(&self, now: u64, owner: Owner) -> bool {
        self.owner == Some(owner) && self.deadline > now
    }

    fn holds_off(&mut self, rules: &Rules, now: u64) -> bool {
        rules.hold_off > 0 && now < *self.born.get_or_insert(now) + rules.hold_off
    }
}
