//! Writes the history down.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use distlock_core::{Clock, Instant};

use super::event::{Event, What, process};

/// Collects events of one process, in memory or, so that they outlive a kill, in a file of JSON lines.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    next: AtomicU64,
    sink: Mutex<Sink>,
}

#[derive(Debug)]
enum Sink {
    Memory(Vec<Event>),
    File(File),
}

impl Recorder {
    /// A recorder that keeps events in memory, with instants of `clock`.
    #[must_use]
    pub const fn in_memory(clock: Clock) -> Self {
        Self::with(clock, Sink::Memory(Vec::new()))
    }

    /// A recorder that appends every event to the file at `path` at once.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub fn to_file(clock: Clock, path: &Path) -> std::io::Result<Self> {
        Ok(Self::with(clock, Sink::File(File::options().create(true).append(true).open(path)?)))
    }

    /// A recorder that does so in a file of this process in a folder, whose name ends in `.jsonl`.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub fn in_folder(clock: Clock, folder: &Path) -> std::io::Result<Self> {
        Self::to_file(clock, &folder.join(format!("{}.jsonl", process())))
    }

    const fn with(clock: Clock, sink: Sink) -> Self {
        Self { clock, next: AtomicU64::new(0), sink: Mutex::new(sink) }
    }

    /// The present instant, on the history's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A number that links a call to its answer, unique among all processes.
    #[must_use]
    pub fn next_op(&self) -> u64 {
        (u64::from(process()) << 32) | self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that something happens now.
    pub fn record(&self, key: impl ToString, owner: impl ToString, what: What) {
        self.record_at(self.now(), key, owner, what);
    }

    /// Records that something happened at an instant read before.
    pub fn record_at(&self, at: Instant, key: impl ToString, owner: impl ToString, what: What) {
        self.push(Event::new(at, key, owner, what));
    }

    fn push(&self, event: Event) {
        match &mut *self.sink.lock().expect("no panic while an event is written") {
            Sink::Memory(events) => events.push(event),
            Sink::File(file) => {
                let mut line = serde_json::to_vec(&event).expect("events are plain data");
                line.push(b'\n');
                // One write a line, so that a kill leaves at most one torn line at the end.
                file.write_all(&line).expect("the history file stays writable");
            }
        }
    }

    /// The events so far, in order of their instants; those of a file stay in the file.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut events = match &*self.sink.lock().expect("no panic while an event is written") {
            Sink::Memory(events) => events.clone(),
            Sink::File(_) => Vec::new(),
        };
        sort(&mut events);
        events
    }
}

/// Writes events into a file of JSON lines, and says where that is.
pub(crate) fn save(events: &[Event], path: &Path) -> std::io::Result<String> {
    let mut events = events.to_vec();
    sort(&mut events);
    let mut text = Vec::new();
    for event in &events {
        serde_json::to_writer(&mut text, event)?;
        text.push(b'\n');
    }
    std::fs::write(path, text)?;
    Ok(path.display().to_string())
}

/// Puts events into the order of their instants; those of one instant keep their order.
pub(crate) fn sort(events: &mut [Event]) {
    events.sort_by_key(|event| event.at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_outlives_its_writer_and_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let writer = Recorder::to_file(Clock::system(), &path).unwrap();
        writer.record("k", "o", What::Ask { op: 1, queue: false, handed: false, ttl: 5 });
        writer.record("k", "o", What::Granted { op: 1, token: u64::MAX, ttl: 5, valid_until: 9 });
        File::options().append(true).open(&path).unwrap().write_all(b"{\"at\":1,").unwrap();
        let events = crate::history::read(&path).unwrap();
        assert_eq!(events.len(), 2);
        assert_eq!(events[1].what, What::Granted { op: 1, token: u64::MAX, ttl: 5, valid_until: 9 });
    }
}
