//! What a comparison found.

use std::path::Path;

use distlock::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, PeerFigures};
use super::conditions::Conditions;
use super::contest::Contest;
use super::peers::PeerAnswer;

/// The form of the JSON. What gains fields keeps its number.
const FORM: u32 = 1;

/// What a comparison found; its JSON is the file beside the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The form of this JSON.
    pub form: u32,
    /// The version of distlock.
    pub version: String,
    /// Whether the program was built with optimisation.
    pub optimised: bool,
    /// When it ended, in seconds since 1970.
    pub ended_at: u64,
    /// How often each figure was measured, but for those that are measured once.
    #[serde(default)]
    pub rounds: Option<usize>,
    /// How long a store worked in each round, in milliseconds.
    #[serde(default)]
    pub length_ms: Option<f64>,
    /// How durably the servers wrote, as whoever started them said.
    #[serde(default)]
    pub durability: Option<String>,
    /// What the machine was like.
    pub conditions: Conditions,
    /// The stores.
    pub stores: Vec<StoreSeen>,
    /// What they were compared in.
    pub contests: Vec<Contest>,
    /// The figures.
    pub cells: Vec<Cell>,
    /// What has no figures, and why.
    pub gaps: Vec<Gap>,
    /// The other libraries that were there.
    pub peers: Vec<PeerAnswer>,
}

/// A store that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreSeen {
    /// Its name in the report.
    pub label: String,
    /// Its backend.
    pub backend: String,
    /// The server's version, if it tells.
    pub version: Option<String>,
    /// Whether several processes can share it.
    pub shared: bool,
    /// When two holders are possible, as a clause.
    pub exclusion: String,
    /// Whether it serves first come, first served.
    pub fifo: bool,
    /// Whether a release wakes waiters elsewhere.
    #[serde(default)]
    pub pushes: bool,
    /// Whether a held lock outlives a restart.
    pub survives_restart: bool,
    /// Whether a held lock outlives the loss of a server.
    pub survives_failover: bool,
}

/// What has no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gap {
    /// What was to be measured.
    pub what: String,
    /// Why it was not.
    pub why: String,
    /// Whether something went wrong, so that the run failed.
    pub failed: bool,
}

impl Gap {
    pub(super) fn new(what: impl Into<String>, why: impl Into<String>, failed: bool) -> Self {
        Self { what: what.into(), why: why.into(), failed }
    }
}

impl Comparison {
    pub(super) fn new(conditions: Conditions, stores: Vec<StoreSeen>, contests: Vec<Contest>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            form: FORM,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            optimised: !cfg!(debug_assertions),
            ended_at: now.map_or(0, |since| since.as_secs()),
            rounds: None,
            length_ms: None,
            durability: None,
            conditions,
            stores,
            contests,
            cells: Vec::new(),
            gaps: Vec::new(),
            peers: Vec::new(),
        }
    }

    /// The figures of a store in a contest, if there are any.
    #[must_use]
    pub fn cell(&self, store: &str, contest: Contest) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.store == store && cell.contest == contest)
    }

    /// Why another library was faster in this contest, as it says itself.
    #[must_use]
    pub fn why_faster(&self, cell: &Cell, peer: &PeerFigures) -> &str {
        let why = self.peers.iter().find(|known| known.name == peer.name).map_or("", |known| {
            if cell.contest.is_contended() { &known.faster_contended } else { &known.faster_alone }
        });
        if why.is_empty() { "not known; please report it" } else { why }
    }

    /// Promises that stores broke while they were measured.
    #[must_use]
    pub fn broken_promises(&self) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.broke_a_promise()).collect()
    }

    /// Whether all was measured that should have been, and no promise was broken.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.broken_promises().is_empty() && !self.gaps.iter().any(|gap| gap.failed)
    }

    /// Reads a comparison that was written as JSON.
    ///
    /// # Errors
    /// `Corrupt` for a file that holds none or a newer one; `Other` for one that can't be read.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(ErrorKind::Other, format!("can't read {}", path.display())).caused_by(error)
        })?;
        let read: Self = serde_json::from_str(&text).map_err(|error| {
            let what = format!("{} holds no comparison of stores", path.display());
            Error::new(ErrorKind::Corrupt, what).caused_by(error)
        })?;
        if read.form > FORM {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{} was written by a newer distlock; update this one", path.display()),
            ));
        }
        Ok(read)
    }
}
