//! What came of a run: lines of JSON in `target/faults/`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What became of one piece of evidence, run for one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// `F01` to `F43`.
    pub fault: String,
    /// The store, by its name.
    pub store: String,
    /// What was run, as the page calls it.
    pub evidence: String,
    /// Whether it passed; `None` where it did not apply or something was missing.
    pub passed: Option<bool>,
}

/// What a cell of this crate saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// The cell: `F01::redis`.
    pub cell: String,
    /// The seed of its choices.
    pub seed: u64,
    /// By which means the fault was brought about.
    pub means: String,
    /// How often each of H1 to H7 was broken.
    pub broken: BTreeMap<String, usize>,
    /// How many writes holders made after somebody else had been granted the lock.
    pub acted_beside: usize,
    /// How many updates of an unfenced resource were lost.
    pub lost_without_fence: usize,
    /// How long the slowest client took to get a lock after the fault was over, in milliseconds.
    pub recovery_ms: u64,
}

impl Outcome {
    /// An outcome of this piece of evidence.
    #[must_use]
    pub fn new(fault: &str, store: &str, evidence: String, passed: Option<bool>) -> Self {
        Self { fault: fault.to_owned(), store: store.to_owned(), evidence, passed }
    }

    /// Writes it down.
    ///
    /// # Panics
    /// If the folder is not writable.
    pub fn note(&self) {
        append("runs.jsonl", self);
    }

    /// All that were written down, the newest of each alone.
    #[must_use]
    pub fn noted() -> Vec<Self> {
        let mut newest = BTreeMap::new();
        for outcome in lines::<Self>("runs.jsonl") {
            let name = (outcome.fault.clone(), outcome.store.clone(), outcome.evidence.clone());
            newest.insert(name, outcome);
        }
        newest.into_values().collect()
    }
}

impl Measured {
    /// Writes it down.
    ///
    /// # Panics
    /// If the folder is not writable.
    pub fn note(&self) {
        append("cells.jsonl", self);
    }

    /// All that were written down, the newest of each cell alone.
    #[must_use]
    pub fn noted() -> Vec<Self> {
        let newest: BTreeMap<_, _> = lines::<Self>("cells.jsonl")
            .into_iter()
            .map(|measured| (measured.cell.clone(), measured))
            .collect();
        newest.into_values().collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/faults")
}

fn append(file: &str, line: &impl Serialize) {
    let folder = folder();
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    let mut text = serde_json::to_vec(line).expect("plain data");
    text.push(b'\n');
    let file = std::fs::File::options().create(true).append(true).open(folder.join(file));
    // One write a line: cells of several programs write at once.
    file.and_then(|mut file| file.write_all(&text)).expect("the target folder is writable");
}

fn lines<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
