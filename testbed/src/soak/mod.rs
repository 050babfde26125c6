//! Probes and a nemesis for a long time, and the history as the judge.

mod left_behind;
mod phase;
mod recovery;
mod report;
mod stopped_holder;

use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::{self, Event, Promises, What};
use distlock_core::Clock;

use crate::Partition;
use crate::lockprobe::{self, ProbeSlot, Work};
use crate::nemesis::{Action, Nemesis, Step, Target};
use crate::witness::Witness;

pub(crate) use phase::Phase;
pub use recovery::Recovery;
pub use report::Report;
use stopped_holder::StoppedHolder;

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
    /// report says what is left of its memory and how soon it, and each of the probes, worked again.
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
        self.run_phases(&[Phase::new("all", targets, actions, promises)]).await
    }

    /// Runs one phase after the other, each with its share of the time, and holds the history of each against its own
    /// promises.
    pub(crate) async fn run_phases(self, phases: &[Phase]) -> Report {
        let mut report = Report::new(self.work.seed, self.work.ttl);
        let folder = self.work.folder.join("witness");
        let mut witness = self.witness(&folder).await;
        let time = self.time.div_f64(phases.len() as f64);
        let mut testimony = None;
        for (number, phase) in phases.iter().enumerate() {
            let is_last = number + 1 == phases.len();
            let work = phase.work(&self.work, number);
            // Its ttl is what the store gives where it is asked for the work's.
            let ttl = self.stop_a_holder(phase, &work, &mut report).await;
            let slots = self.slots(&work);
            let mut targets = phase.targets.clone();
            targets.extend(slots.iter().map(|slot| Arc::clone(slot) as Arc<dyn Target>));
            let steps = Nemesis::new(work.seed, targets, &phase.actions)
                .pace(work.ttl * 2, work.ttl)
                .rage(time)
                .await;
            if is_last && let (Some(witness), Some(rest)) = (witness.take(), self.rest) {
                testimony = Some(tokio::spawn(witness.testify(rest)));
            }
            let healed = steps.last().expect("there is trouble at once").until;
            let limit = recovery::limit(ttl);
            if self.rest.is_some() {
                // Whether each probe works again shows only while they work.
                tokio::time::sleep(limit.saturating_sub(Clock::system().now().since(healed))).await;
            }
            finish(&slots).await;
            // The witness goes on between two phases.
            let prefix = if is_last { "" } else { phase.name };
            report.left_behind.extend(
                left_behind::wait(&work, self.place.as_ref(), prefix, phase.longest_record(ttl)).await,
            );
            let mut events = lockprobe::histories(&work.folder).expect("the histories can be read");
            if self.rest.is_some() {
                report.recoveries.extend(recovery::of_probes(phase.name, &events, healed, limit));
            }
            events.extend(outages(&steps, &phase.servers()));
            report.add(steps, events, phase.promises);
        }
        if let (Some(testimony), Some(phase)) = (testimony, phases.last()) {
            let testimony = testimony.await.expect("the witness does not panic");
            (report.recovery, report.memory) = (Some(testimony.recovery), Some(testimony.memory));
            let mut events = lockprobe::histories(&folder).expect("the histories can be read");
            events.extend(outages(&report.steps, &phase.servers()));
            report.add(Vec::new(), events, phase.promises);
        }
        report
    }

    async fn witness(&self, folder: &std::path::Path) -> Option<Witness> {
        self.rest?;
        std::fs::create_dir_all(folder).expect("the folder is writable");
        let Work { url, keys, ttl, .. } = &self.work;
        let key = keys.first().expect("there is work");
        Some(Witness::start(url, folder, key, *ttl, self.place.as_ref(), None).await)
    }

    async fn stop_a_holder(&self, phase: &Phase, work: &Work, report: &mut Report) -> Duration {
        if !phase.actions.contains(&Action::Pause) {
            return work.ttl;
        }
        let stopped = StoppedHolder::observe(work, self.place.as_ref()).await;
        report.lost_by_stops.push((phase.name.to_owned(), lost_without_fence(&stopped.events)));
        report.add(Vec::new(), stopped.events, phase.promises);
        stopped.ttl
    }

    fn slots(&self, work: &Work) -> Vec<Arc<ProbeSlot>> {
        let slot = |number: usize| {
            let mut own = work.clone();
            own.seed = work.seed.wrapping_add(number as u64);
            own.own = work.own.as_ref().map(|key| format!("{key}{number}"));
            Arc::new(ProbeSlot::start(number, own, self.place.clone()))
        };
        (0..self.probes).map(slot).collect()
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
