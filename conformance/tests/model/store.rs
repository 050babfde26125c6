//! What the store does with a request, in one step.

use crate::flaw::Flaw;

/// Owners are the numbers of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    pub(crate) owner: u8,
    pub(crate) token: u8,
    pub(crate) grant: u8,
    pub(crate) left: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) record: Option<Record>,
    /// The last token.
    pub(crate) counter: u8,
    /// How often it granted the lock.
    pub(crate) grants: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Request {
    TryLock,
    Renew,
    Unlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    Granted {
        token: u8,
        grant: u8,
    },
    Renewed,
    /// To a release, whether there was something to release or not.
    Released,
}

impl Store {
    /// The effect of a request, and the answer. A refusal is not sent: it tells a client nothing that it could
    /// rely on, so that it does what it also does without any answer.
    pub(crate) fn serve(&mut self, owner: u8, request: Request, ttl: u8, flaw: Flaw) -> Option<Answer> {
        let own = self.record.is_some_and(|record| record.owner == owner);
        match request {
            Request::TryLock if own && flaw != Flaw::RepeatDrawsAToken => {
                let record = self.record.as_mut()?;
                record.left = ttl;
                Some(Answer::Granted { token: record.token, grant: record.grant })
            }
            Request::TryLock if own || self.record.is_none() => Some(self.grant(owner, ttl)),
            Request::TryLock => None,
            Request::Renew if own || flaw == Flaw::RenewIgnoresTheOwner => {
                self.record.as_mut()?.left = ttl;
                Some(Answer::Renewed)
            }
            Request::Renew if self.record.is_none() && flaw == Flaw::RenewRecreates => {
                self.grant(owner, ttl);
                Some(Answer::Renewed)
            }
            Request::Renew => None,
            Request::Unlock => {
                if own || flaw == Flaw::UnlockIgnoresTheOwner {
                    self.clear(flaw);
                }
                Some(Answer::Released)
            }
        }
    }

    fn grant(&mut self, owner: u8, ttl: u8) -> Answer {
        self.counter += 1;
        self.grants += 1;
        let (token, grant) = (self.counter, self.grants);
        self.record = Some(Record { owner, token, grant, left: ttl });
        Answer::Granted { token, grant }
    }

    /// A tick passes on the store's clock.
    pub(crate) fn tick(&mut self, flaw: Flaw) {
        if let Some(record) = &mut self.record
            && flaw != Flaw::NeverExpires
        {
            record.left -= 1;
            if record.left == 0 {
                self.clear(flaw);
            }
        }
    }

    fn clear(&mut self, flaw: Flaw) {
        self.record = None;
        if flaw == Flaw::TokensStartAgain {
            self.counter = 0;
        }
    }
}
