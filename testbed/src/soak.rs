//! Probes and a nemesis for a long time, and the history as the judge.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::{self, Event, Promises, Violation, What};

use crate::Partition;
use crate::lockprobe::{self, ProbeSlot, Work};
use crate::nemesis::{Action, Nemesis, Step, Target};
use crate::witness::Witness;

/// A long run: some probes at work on one store, and a nemesis that hurts them, and whatever else it
/// is given. The calling program must be able to serve as a probe: see [`lockprobe`].
#[derive(Debug)]
pub struct Soak {
    work: Work,
    probes: usize,
    time: Duration,
    place: Option<(Arc<Partition>, String)>,
    rest: Option<Duration>,
}

/// What came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The choices' seed.
    pub seed: u64,
    /// How many locks were granted.
    pub grants: usize,
    /// How many updates of unfenced resources were lost: the harm that fences prevented elsewhere.
    pub lost_without_fence: usize,
    /// What the nemesis did.
    pub steps: Vec<Step>,
    /// How long a client took to get a lock after the last trouble, if one was asked.
    pub recovery: Option<Duration>,
    /// What memory it took before the troubles and after the rest, in KiB.
    pub memory: Option<(u64, u64)>,
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Everything that happened.
    pub events: Vec<Event>,
}

impl Soak {
    /// `probes` probes do this work for about `time`.
    #[must_use]
    pub const fn new(work: Work, probes: usize, time: Duration) -> Self {
        Self { work, probes, time, place: None, rest: None }
    }

    /// Lets the probes be at a place of a network.
    #[must_use]
    pub fn at(mut self, partition: &Arc<Partition>, place: &str) -> Self {
        self.place = Some((Arc::clone(partition), place.to_owned()));
        self
    }

    /// Lets a client that nothing is done to live through it as well, and rest for so long when all is over. The
    /// report says what is left of its memory and how soon it worked again.
    #[must_use]
    pub const fn witnessed(mut self, rest: Duration) -> Self {
        self.rest = Some(rest);
        self
    }

    /// Runs it, and holds the history against `promises`. The nemesis stops and kills probes, and
    /// does what `actions` says to the `targets`.
    ///
    /// # Panics
    /// If a probe fails by itself.
    pub async fn run(self, targets: Vec<Arc<dyn Target>>, actions: &[Action], promises: Promises) -> Report {
        let Self { work, probes, time, place, rest } = self;
        let witness = match rest {
            Some(_) => {
                let key = work.keys.first().expect("there is work");
                Some(Witness::start(&work.url, &work.folder, key, work.ttl, place.as_ref(), None).await)
            }
            None => None,
        };
        let slots: Vec<_> = (0..probes)
            .map(|number| {
                let mut own = work.clone();
                own.seed = work.seed.wrapping_add(number as u64);
                Arc::new(ProbeSlot::start(number, own, place.clone()))
            })
            .collect();
        let servers: Vec<_> = targets
            .iter()
            .filter(|target| target.suffers(Action::Restart))
            .map(|target| target.name())
            .collect();
        let mut all: Vec<Arc<dyn Target>> = targets;
        all.extend(slots.iter().map(|slot| Arc::clone(slot) as Arc<dyn Target>));
        let pace = (work.ttl * 2, work.ttl);
        let steps = Nemesis::new(work.seed, all, actions).pace(pace.0, pace.1).rage(time).await;
        let testimony = match (witness, rest) {
            (Some(witness), Some(rest)) => {
                let (testimony, ()) = tokio::join!(witness.testify(rest), finish(&slots));
                Some(testimony)
            }
            _ => {
                finish(&slots).await;
                None
            }
        };
        let mut events = lockprobe::histories(&work.folder).expect("the histories can be read");
        events.extend(outages(&steps, &servers));
        Report {
            seed: work.seed,
            grants: events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count(),
            lost_without_fence: lost_without_fence(&events),
            steps,
            recovery: testimony.map(|testimony| testimony.recovery),
            memory: testimony.map(|testimony| testimony.memory),
            violations: history::check(&events, promises),
            events,
        }
    }
}

/// When a server did not serve.
fn outages(steps: &[Step], servers: &[String]) -> Vec<Event> {
    let is_outage = |step: &&Step| {
        servers.contains(&step.target)
            && matches!(step.action, Action::Pause | Action::Restart | Action::RestartWiped)
    };
    let events =
        |step: &Step| [Event::new(step.from, "", "", What::Down), Event::new(step.until, "", "", What::Up)];
    steps.iter().filter(is_outage).flat_map(events).collect()
}

async fn finish(slots: &[Arc<ProbeSlot>]) {
    for slot in slots {
        slot.finish().await;
    }
}

pub(crate) fn lost_without_fence(events: &[Event]) -> usize {
    let unfenced = events.iter().filter_map(|event| match &event.what {
        What::Write { resource, fenced: false, .. } => Some(resource.as_str()),
        _ => None,
    });
    let resources: std::collections::BTreeSet<&str> = unfenced.collect();
    resources.into_iter().map(|resource| history::lost_updates(events, resource)).sum()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} grants, {} events, {} troubles, {} updates lost where no fence was, {} violations",
            self.seed,
            self.grants,
            self.events.len(),
            self.steps.len(),
            self.lost_without_fence,
            self.violations.len()
        )?;
        if let (Some(recovery), Some((before, after))) = (self.recovery, self.memory) {
            writeln!(
                f,
                "  a client worked again after {recovery:.3?}, and takes {after} KiB, after {before} before"
            )?;
        }
        for violation in self.violations.iter().take(20) {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}
