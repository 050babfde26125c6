//! What the locks protect: a fenced number in memory.

use std::sync::{Arc, Mutex};

use distlock_conformance::history::{Recorder, What};
use distlock_core::FencingToken;

#[derive(Debug)]
pub(crate) struct Resource {
    name: String,
    log: Arc<Recorder>,
    is_fenced: bool,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    seq: u64,
    token: u64,
    value: u64,
}

impl Resource {
    /// One that refuses stale tokens, as it says of itself in the history, if it `is_fenced`.
    pub(crate) fn new(name: &str, log: &Arc<Recorder>, is_fenced: bool) -> Self {
        Self { name: name.to_owned(), log: Arc::clone(log), is_fenced, content: Mutex::default() }
    }

    /// From now on lower tokens are refused.
    pub(crate) fn read_for(&self, token: FencingToken) -> u64 {
        let mut content = self.content.lock().unwrap();
        content.token = content.token.max(token.get());
        content.value
    }

    pub(crate) fn write(&self, token: FencingToken, value: u64) {
        let mut content = self.content.lock().unwrap();
        let accepted = token.get() >= content.token || !self.is_fenced;
        if accepted {
            *content = Content { seq: content.seq + 1, token: token.get(), value };
        }
        let (resource, seq, token) = (self.name.clone(), content.seq, token.get());
        self.log.record("", "", What::Write { resource, fenced: true, seq, token, value, accepted });
    }
}
