//! The resource that a lock protects, with a fence and without.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use distlock_core::FencingToken;
use serde::{Deserialize, Serialize};

use crate::history::{Event, Recorder, What, lost_updates};

/// A number in a file, which several processes read, increase and write back under a lock. The
/// fenced one refuses a token lower than one it has seen. Every write is recorded.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
    fenced: bool,
    log: Arc<Recorder>,
}

/// Longer than any content, so that each write covers the one before in one step: a process killed
/// between two steps would leave half of it.
const LENGTH: usize = 128;

#[derive(Default, Serialize, Deserialize)]
struct Content {
    seq: u64,
    token: u64,
    value: u64,
}

impl Register {
    /// The fenced register of `folder`.
    #[must_use]
    pub fn fenced(folder: &Path, log: Arc<Recorder>) -> Self {
        Self { path: folder.join("fenced"), fenced: true, log }
    }

    /// Its twin that takes whatever comes, which shows whether a fault did any harm.
    #[must_use]
    pub fn unfenced(folder: &Path, log: Arc<Recorder>) -> Self {
        Self { path: folder.join("unfenced"), fenced: false, log }
    }

    /// The value.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.open().1.value
    }

    /// The value, for a holder that goes by it when it writes later. From now on the fenced register
    /// refuses lower tokens: a write that came in between would be overwritten unseen.
    #[must_use]
    pub fn read_for(&self, token: FencingToken) -> u64 {
        let (mut file, mut content) = self.open();
        if self.fenced && token.get() > content.token {
            content.token = token.get();
            put(&mut file, &content);
        }
        content.value
    }

    /// Writes `value`; whether the register took it.
    pub fn write(&self, token: FencingToken, value: u64) -> bool {
        let (mut file, mut content) = self.open();
        let accepted = !self.fenced || token.get() >= content.token;
        if accepted {
            content = Content { seq: content.seq + 1, token: token.get().max(content.token), value };
            put(&mut file, &content);
        }
        let resource = self.path.display().to_string();
        let (fenced, seq, token) = (self.fenced, content.seq, token.get());
        self.log.record("", "", What::Write { resource, fenced, seq, token, value, accepted });
        accepted
    }

    /// How many updates were overwritten by writers that had not seen them.
    #[must_use]
    pub fn lost_updates(&self, events: &[Event]) -> usize {
        lost_updates(events, &self.path.display().to_string())
    }

    /// The file, locked against other processes until it is closed, and what is in it.
    fn open(&self) -> (File, Content) {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)
            .expect("the case's folder is writable");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("files can be locked");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("the register can be read");
        let content =
            if text.is_empty() { Content::default() } else { serde_json::from_str(&text).expect("ours") };
        (file, content)
    }
}

fn put(file: &mut File, content: &Content) {
    file.seek(SeekFrom::Start(0)).expect("the register can be written");
    let text = serde_json::to_string(content).expect("plain data");
    file.write_all(format!("{text:LENGTH$}").as_bytes()).expect("the register can be written");
}

#[cfg(test)]
mod tests {
    use distlock_core::Clock;

    use super::*;

    #[test]
    fn who_read_for_a_token_is_not_overtaken_by_a_lower_one() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::fenced(folder.path(), Arc::new(Recorder::in_memory(Clock::system())));
        let token = |value| FencingToken::new(value).unwrap();
        let (first, second) = (register.read_for(token(7)), register.read_for(token(8)));
        assert!(!register.write(token(7), first + 1), "the second has read already");
        assert!(register.write(token(8), second + 1));
        assert_eq!(register.read_for(token(7)), 1);
        assert!(register.write(token(8), 2), "a lower one that reads takes nothing away");
    }
}
