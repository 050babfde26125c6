//! Trouble at random, from a seed.

mod target;

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Clock, Instant};

pub use target::{Action, Target};

/// Hurts one target after the other, at random, and makes good again each time before it goes on.
pub struct Nemesis {
    rng: fastrand::Rng,
    clock: Clock,
    targets: Vec<Arc<dyn Target>>,
    choices: Vec<(usize, Action)>,
    trouble: Duration,
    rest: Duration,
    log: Vec<Step>,
}

/// One thing that the nemesis did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// When it began, on the clock of histories.
    pub from: Instant,
    /// When it was made good.
    pub until: Instant,
    /// Whom it hurt.
    pub target: String,
    /// How.
    pub action: Action,
}

impl Nemesis {
    /// A nemesis that does these things to these targets, as far as each can suffer them. It prints
    /// its seed; the same seed makes the same choices.
    #[must_use]
    pub fn new(seed: u64, targets: Vec<Arc<dyn Target>>, actions: &[Action]) -> Self {
        let mut choices = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            choices.extend(
                actions.iter().filter(|action| target.suffers(**action)).map(|action| (number, *action)),
            );
        }
        assert!(!choices.is_empty(), "no target suffers any of {actions:?}");
        eprintln!("nemesis: seed {seed}");
        Self {
            rng: fastrand::Rng::with_seed(seed),
            clock: Clock::system(),
            targets,
            choices,
            trouble: Duration::from_secs(3),
            rest: Duration::from_secs(2),
            log: Vec::new(),
        }
    }

    /// How long a trouble (default: 3 s; a target may set its own) and the rest after it (default: 2 s) may last at most.
    #[must_use]
    pub const fn pace(mut self, trouble: Duration, rest: Duration) -> Self {
        self.trouble = trouble;
        self.rest = rest;
        self
    }

    /// Rages for about as long as `time`: no trouble begins later, and all is made good at the end.
    /// What it did is printed and returned.
    ///
    /// # Cancel safety
    /// None: dropped midway it leaves a trouble behind.
    pub async fn rage(mut self, time: Duration) -> Vec<Step> {
        let began = self.clock.now();
        while self.clock.now().since(began) < time {
            self.step(began).await;
            let rest = self.rest.mul_f64(self.rng.f64());
            tokio::time::sleep(rest).await;
        }
        self.log
    }

    async fn step(&mut self, began: Instant) {
        let (number, action) = self.choices[self.rng.usize(..self.choices.len())];
        let target = Arc::clone(&self.targets[number]);
        let trouble = target.longest(action, self.trouble).mul_f64(self.rng.f64());
        let from = self.clock.now();
        eprintln!("nemesis: {:8.3?} {action:?} {} for {trouble:.3?}", from.since(began), target.name());
        target.begin(action).await;
        tokio::time::sleep(trouble).await;
        target.end(action).await;
        let until = self.clock.now();
        self.log.push(Step { from, until, target: target.name(), action });
    }
}

impl std::fmt::Debug for Nemesis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let targets: Vec<_> = self.targets.iter().map(|target| target.name()).collect();
        f.debug_struct("Nemesis")
            .field("targets", &targets)
            .field("choices", &self.choices)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;

    /// Notes what is done to it, and that nothing is done twice.
    #[derive(Default)]
    struct Patient(Mutex<Vec<(Action, bool)>>);

    #[async_trait]
    impl Target for Patient {
        fn name(&self) -> String {
            "patient".to_owned()
        }
        fn suffers(&self, action: Action) -> bool {
            action != Action::Cut
        }
        async fn begin(&self, action: Action) {
            self.0.lock().unwrap().push((action, true));
        }
        async fn end(&self, action: Action) {
            self.0.lock().unwrap().push((action, false));
        }
    }

    async fn rage(seed: u64) -> Vec<(Action, bool)> {
        let patient = Arc::new(Patient::default());
        let targets: Vec<Arc<dyn Target>> = vec![Arc::clone(&patient) as Arc<dyn Target>];
        let actions = [Action::Pause, Action::Restart, Action::RestartWiped, Action::Cut];
        let pace = Duration::from_millis(5);
        let steps =
            Nemesis::new(seed, targets, &actions).pace(pace, pace).rage(Duration::from_millis(100)).await;
        let done = patient.0.lock().unwrap().clone();
        assert_eq!(done.len(), steps.len() * 2);
        assert!(steps.iter().all(|step| step.from <= step.until));
        done
    }

    #[tokio::test]
    async fn a_seed_repeats_its_choices_and_every_trouble_is_made_good() {
        let (one, two) = (rage(7).await, rage(7).await);
        assert!(one.len() >= 2, "{one:?}");
        for done in [&one, &two] {
            for pair in done.chunks(2) {
                assert_eq!((pair[0].0, pair[0].1, pair[1].1), (pair[1].0, true, false), "{done:?}");
                assert_ne!(pair[0].0, Action::Cut, "it does not suffer that");
            }
        }
        let both = one.len().min(two.len());
        assert_eq!(one[..both], two[..both]);
    }
}
