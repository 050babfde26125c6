//! A part of a long run, with faults and promises of its own.

use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::Promises;

use crate::lockprobe::Work;
use crate::nemesis::{Action, Target};

/// How long a record may stay that was written while the clock was ahead.
const AHEAD: Duration = Duration::from_secs(30);

/// What may be done to whom, and what holds all the same.
pub(crate) struct Phase {
    pub(super) name: &'static str,
    pub(super) targets: Vec<Arc<dyn Target>>,
    pub(super) actions: Vec<Action>,
    pub(crate) promises: Promises,
}

impl Phase {
    pub(crate) fn new(
        name: &'static str,
        targets: Vec<Arc<dyn Target>>,
        actions: &[Action],
        promises: Promises,
    ) -> Self {
        Self { name, targets, actions: actions.to_vec(), promises }
    }

    /// Its work: in a folder of its own and on keys of its own, since its history does not know of what was before.
    pub(super) fn work(&self, of_all: &Work, number: usize) -> Work {
        let of_this = |key: &String| format!("{}/{key}", self.name);
        let mut work = of_all.clone().keys(of_all.keys.iter().map(of_this));
        work.folder = of_all.folder.join(self.name);
        std::fs::create_dir_all(&work.folder).expect("the folder is writable");
        work.seed = of_all.seed.wrapping_add((number as u64) << 32);
        work.own = Some(format!("{}/probe-", self.name));
        work
    }

    pub(super) fn servers(&self) -> Vec<String> {
        let servers = self.targets.iter().filter(|target| target.suffers(Action::Restart));
        servers.map(|target| target.name()).collect()
    }

    pub(crate) fn jumps(&self) -> bool {
        self.actions.contains(&Action::Jump) && self.targets.iter().any(|target| target.suffers(Action::Jump))
    }

    /// How long the store may keep what a killed client had there.
    pub(super) fn longest_record(&self, ttl: Duration) -> Duration {
        let ahead = if self.jumps() { AHEAD } else { Duration::ZERO };
        ttl + self.promises.place + self.promises.lateness + ahead
    }
}
