//! Waits for a quiet machine before each round, and says which rounds to measure again.

use std::time::{Duration, Instant};

use distlock::Result;

use super::conditions::{Conditions, RoundSeen};
use super::contest::Contest;
use super::sample::Sample;

/// How long one round waits for the machine to become quiet.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Between two looks while it waits, and before a look after a round: servers have things to finish.
const PAUSE: Duration = Duration::from_millis(300);
/// How long servers may go on with that after a round before it is taken for others' work.
const SETTLING: Duration = Duration::from_millis(1500);
/// The same of servers that were started anew in the round.
const SETTLING_ANEW: Duration = Duration::from_secs(15);
/// How often a round is measured at most.
const MOST_TRIES: usize = 3;

/// What is looked at.
pub(super) trait Machine {
    fn look(&mut self) -> impl Future<Output = Result<Sample>> + Send;

    /// Lets it be for so long.
    fn rest(&mut self, length: Duration) -> impl Future<Output = ()> + Send;

    fn now(&self) -> Instant;
}

/// The one that this program runs on.
#[derive(Debug)]
pub(super) struct ThisMachine;

impl Machine for ThisMachine {
    async fn look(&mut self) -> Result<Sample> {
        Sample::take().await
    }

    async fn rest(&mut self, length: Duration) {
        tokio::time::sleep(length).await;
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Looks at the machine around each round. Waiting and measuring again share one patience, so that a run ends.
#[derive(Debug)]
pub(super) struct Lookout<M> {
    machine: M,
    patience: Duration,
    /// The last look.
    before: Sample,
    began: Instant,
    tries: usize,
    samples: Vec<Sample>,
    rounds: Vec<RoundSeen>,
}

impl<M: Machine> Lookout<M> {
    /// Begins once the machine has settled, or without that if it does not.
    pub(super) async fn new(mut machine: M, patience: Duration) -> Result<Self> {
        // What starting this program and its servers left to do is none of the run's.
        machine.rest(PAUSE).await;
        let before = machine.look().await?;
        let (samples, rounds) = (Vec::new(), Vec::new());
        let began = machine.now();
        let mut lookout = Self { machine, patience, before, began, tries: 0, samples, rounds };
        lookout.wait_for_quiet(LONGEST_WAIT).await?;
        lookout.samples.push(lookout.before);
        Ok(lookout)
    }

    /// Before a round, and before it is measured again.
    pub(super) async fn before(&mut self) -> Result<()> {
        self.wait_for_quiet(LONGEST_WAIT).await?;
        self.began = self.machine.now();
        self.tries += 1;
        Ok(())
    }

    /// After it. Whether it has to be measured again, since the machine was not quiet.
    pub(super) async fn after(&mut self, contest: Contest, round: usize) -> Result<bool> {
        let took = self.machine.now() - self.began;
        let (before, tries) = (self.before, self.tries);
        self.machine.rest(PAUSE).await;
        self.before = self.machine.look().await?;
        let settling = if contest == Contest::Failover { SETTLING_ANEW } else { SETTLING };
        self.wait_for_quiet(settling).await?;
        let after = self.before;
        let seen = RoundSeen { contest, round, tries, before, after };
        if !seen.noise().is_empty() && tries < MOST_TRIES && took <= self.patience {
            self.patience -= took;
            return Ok(true);
        }
        self.samples.push(after);
        self.rounds.push(seen);
        self.tries = 0;
        Ok(false)
    }

    pub(super) fn conditions(self) -> Conditions {
        Conditions::of_rounds(self.samples, self.rounds)
    }

    async fn wait_for_quiet(&mut self, longest: Duration) -> Result<()> {
        let (began, limit) = (self.machine.now(), longest.min(self.patience));
        while !self.before.noise().is_empty() && self.machine.now() - began < limit {
            self.machine.rest(PAUSE).await;
            self.before = self.machine.look().await?;
        }
        self.patience = self.patience.saturating_sub(self.machine.now() - began);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Others' part of the machine, look by look, of which the last one goes on; and a clock that rests move.
    struct Told(Vec<f64>, Instant);

    impl Machine for Told {
        async fn look(&mut self) -> Result<Sample> {
            let others = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] };
            Ok(Sample { loopback_us: 20.0, fdatasync_us: 90.0, others, slowdown: 0.0 })
        }

        async fn rest(&mut self, length: Duration) {
            self.1 += length;
        }

        fn now(&self) -> Instant {
            self.1
        }
    }

    /// The first one, and those until servers must have settled.
    const LOOKS_AFTER: usize = 6;

    async fn lookout(others: &[f64]) -> Lookout<Told> {
        Lookout::new(Told(others.to_vec(), Instant::now()), Duration::from_secs(100)).await.unwrap()
    }

    #[tokio::test]
    async fn it_settles_and_measures_a_noisy_round_again() {
        let mut others = vec![0.9, 0.9, 0.0];
        others.extend([0.5; LOOKS_AFTER + 2]);
        others.push(0.0);
        let mut lookout = lookout(&others).await;
        lookout.before().await.unwrap();
        lookout.machine.rest(Duration::from_secs(5)).await;
        assert!(lookout.after(Contest::Hot8, 0).await.unwrap(), "others came meanwhile");
        lookout.before().await.unwrap();
        assert!(!lookout.after(Contest::Hot8, 0).await.unwrap());
        let found = lookout.conditions();
        assert!(found.are_quiet(), "{:?}", found.noise);
        assert_eq!((found.rounds.len(), found.rounds[0].tries, found.samples.len()), (1, 2, 2));
    }

    #[tokio::test]
    async fn what_servers_do_for_a_moment_after_a_round_is_not_others_load() {
        let mut lookout = lookout(&[0.0, 0.5, 0.5, 0.0]).await;
        lookout.before().await.unwrap();
        assert!(!lookout.after(Contest::Hot8, 0).await.unwrap());
        assert!(lookout.conditions().are_quiet());
        // Those that were started anew in a failover take longer.
        let mut others = vec![0.0];
        others.extend([0.5; LOOKS_AFTER + 3]);
        others.push(0.0);
        let mut lookout = self::lookout(&others).await;
        lookout.before().await.unwrap();
        assert!(!lookout.after(Contest::Failover, 0).await.unwrap());
        assert!(lookout.conditions().are_quiet());
    }

    #[tokio::test]
    async fn a_machine_that_stays_noisy_is_named_and_ends_the_waiting() {
        let mut lookout = lookout(&[0.9]).await;
        let began = lookout.began;
        for round in 0..3 {
            loop {
                lookout.before().await.unwrap();
                lookout.machine.rest(Duration::from_secs(15)).await;
                if !lookout.after(Contest::Hot8, round).await.unwrap() {
                    break;
                }
            }
        }
        // All rounds once, and the patience.
        let took = lookout.machine.now() - began;
        assert!(took < Duration::from_secs(3 * 15 + 100 + 5), "{took:?}");
        assert!(took > Duration::from_secs(3 * 15 + 80), "it waited, and tried again: {took:?}");
        assert!(lookout.conditions().noise.iter().any(|why| why.contains("3 of 3 rounds of hot-8")));
    }

    #[tokio::test]
    async fn a_round_that_stays_noisy_is_tried_three_times() {
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(0.0);
            others.extend([0.5; LOOKS_AFTER]);
        }
        others.push(0.0);
        let mut lookout = lookout(&others).await;
        let mut again = Vec::new();
        for _ in 0..3 {
            lookout.before().await.unwrap();
            again.push(lookout.after(Contest::Crash, 0).await.unwrap());
        }
        assert_eq!(again, [true, true, false]);
        let noise = lookout.conditions().noise;
        assert!(noise.iter().any(|why| why.contains("1 of 1 rounds of crash")), "{noise:?}");
    }
}
