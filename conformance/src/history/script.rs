//! Hand-made histories for the checks' own tests, all of the key `k`.

use super::event::{Event, What};

pub(super) const TTL: u64 = 50;

#[derive(Clone, Default)]
pub(super) struct Script {
    events: Vec<Event>,
    op: u64,
}

impl Script {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn at(mut self, at: u64, owner: &str, what: What) -> Self {
        self.events.push(Event { at, process: 1, key: "k".to_owned(), owner: owner.to_owned(), what });
        self
    }

    fn next(&mut self) -> u64 {
        self.op += 1;
        self.op
    }

    pub(super) fn grant(mut self, owner: &str, asked: u64, got: u64, token: u64, valid_until: u64) -> Self {
        let op = self.next();
        self.at(asked, owner, What::Ask { op, queue: false, handed: false, ttl: TTL }).at(
            got,
            owner,
            What::Granted { op, token, ttl: TTL, valid_until },
        )
    }

    /// A queueing attempt that is served at once.
    pub(super) fn ask_in_queue(mut self, owner: &str, asked: u64, got: u64, token: u64) -> Self {
        let op = self.next();
        self.at(asked, owner, What::Ask { op, queue: true, handed: false, ttl: TTL }).at(
            got,
            owner,
            What::Granted { op, token, ttl: TTL, valid_until: got + TTL },
        )
    }

    pub(super) fn busy(mut self, owner: &str, asked: u64, got: u64, queue: bool) -> Self {
        let op = self.next();
        self.at(asked, owner, What::Ask { op, queue, handed: false, ttl: TTL }).at(
            got,
            owner,
            What::Busy { op },
        )
    }

    pub(super) fn renew(mut self, owner: &str, asked: u64, got: u64, valid_until: u64) -> Self {
        let op = self.next();
        self.at(asked, owner, What::Renew { op, ttl: TTL }).at(got, owner, What::Renewed { op, valid_until })
    }

    pub(super) fn not_renewed(mut self, owner: &str, asked: u64, got: u64) -> Self {
        let op = self.next();
        self.at(asked, owner, What::Renew { op, ttl: TTL }).at(got, owner, What::RenewLost { op })
    }

    pub(super) fn unlock(self, owner: &str, asked: u64, got: u64) -> Self {
        self.unlocked(owner, asked, got, true)
    }

    pub(super) fn unlocked(mut self, owner: &str, asked: u64, got: u64, released: bool) -> Self {
        let op = self.next();
        self.at(asked, owner, What::Unlock { op, handed: false }).at(
            got,
            owner,
            What::Unlocked { op, released },
        )
    }

    pub(super) fn look(mut self, at: u64, holder: &str, token: u64, left: u64) -> Self {
        let op = self.next();
        let seen = What::Seen { op, holder: Some(holder.to_owned()), token: Some(token), left: Some(left) };
        self.at(at, "", What::Look { op }).at(at, "", seen)
    }

    /// The events, sorted.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = self.events.clone();
        super::recorder::sort(&mut events);
        events
    }
}
