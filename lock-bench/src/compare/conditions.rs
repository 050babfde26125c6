//! What the machine was like while it measured, and whether its figures can be compared.

use serde::{Deserialize, Serialize};

use super::contest::Contest;
use super::sample::{Sample, disturbances};
use super::spread::Spread;

/// The middle half of the loopback round trips must not lie further apart than this, as a part of the median.
const MOST_UNREST: f64 = 0.50;
/// The same of `fdatasync`, which is less even on a disk that nobody else uses, too.
const MOST_UNREST_OF_DISK: f64 = 1.0;

/// The looks at the machine around one round of a contest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoundSeen {
    /// Of what.
    pub contest: Contest,
    /// Which round, from 0.
    pub round: usize,
    /// How often it was measured, until the machine was quiet or patience was at its end.
    pub tries: usize,
    /// Before it was measured for the last time.
    pub before: Sample,
    /// After it.
    pub after: Sample,
}

impl RoundSeen {
    /// Why its figures can't be compared; empty if they can.
    #[must_use]
    pub fn noise(&self) -> Vec<String> {
        // The worse of both.
        disturbances(self.before.others.max(self.after.others), self.before.slowdown.max(self.after.slowdown))
    }
}

/// What the machine was like while it measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conditions {
    /// The processor's name, if the machine tells.
    pub processor: String,
    /// How many cores the program may use.
    pub cores: usize,
    /// Looks at the machine, before and between the measurements.
    pub samples: Vec<Sample>,
    /// The rounds, and the looks around each.
    #[serde(default)]
    pub rounds: Vec<RoundSeen>,
    /// Why the figures can't be compared; empty if they can.
    pub noise: Vec<String>,
}

impl Conditions {
    /// Judges the samples.
    #[must_use]
    pub fn of(samples: Vec<Sample>) -> Self {
        let noise = noise(&samples);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { processor: processor(), cores, samples, rounds: Vec::new(), noise }
    }

    /// Judges the samples, and each round by those around it: one round beside others' load is one too many.
    #[must_use]
    pub fn of_rounds(samples: Vec<Sample>, rounds: Vec<RoundSeen>) -> Self {
        let mut conditions = Self::of(samples);
        conditions.noise.extend(noise_of_rounds(&rounds));
        conditions.rounds = rounds;
        conditions
    }

    /// Whether the figures can be compared.
    #[must_use]
    pub const fn are_quiet(&self) -> bool {
        self.noise.is_empty()
    }

    /// One figure of all samples.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(figure))
    }
}

/// The reasons why figures taken beside these samples can't be compared.
fn noise(samples: &[Sample]) -> Vec<String> {
    let median =
        |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure)).map_or(0.0, |all| all.median);
    let mut reasons = disturbances(median(|sample| sample.others), median(|sample| sample.slowdown));
    let unrest = |figure: fn(&Sample) -> f64| middle_half(samples.iter().map(figure).collect());
    for (what, unrest, most) in [
        ("loopback round trips", unrest(|sample| sample.loopback_us), MOST_UNREST),
        ("times of fdatasync", unrest(|sample| sample.fdatasync_us), MOST_UNREST_OF_DISK),
    ] {
        if unrest > most {
            reasons.push(format!(
                "half of the {what} lay {:.0} % of their median apart, more than {:.0} %",
                unrest * 100.0,
                most * 100.0
            ));
        }
    }
    reasons
}

/// A line for each contest with noisy rounds: how many, and what was wrong with the last of them.
fn noise_of_rounds(rounds: &[RoundSeen]) -> Vec<String> {
    let mut reasons = Vec::new();
    for contest in Contest::FULL {
        let of_contest = || rounds.iter().filter(|seen| seen.contest == contest);
        let noisy: Vec<_> = of_contest().map(RoundSeen::noise).filter(|noise| !noise.is_empty()).collect();
        if let Some(last) = noisy.last() {
            let (some, all) = (noisy.len(), of_contest().count());
            reasons.push(format!("{some} of {all} rounds of {contest}: {}", last.join("; ")));
        }
    }
    reasons
}

/// How far the quartiles lie apart, as a part of the median.
fn middle_half(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values.get(values.len() * part / 4).copied().unwrap_or(0.0);
    let (low, middle, high) = (at(1), at(2), at(3));
    if values.len() < 4 || middle <= 0.0 { 0.0 } else { (high - low) / middle }
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(others: f64, slowdown: f64, loopback_us: f64) -> Sample {
        Sample { loopback_us, fdatasync_us: 100.0, others, slowdown }
    }

    #[test]
    fn a_quiet_machine_may_have_single_disturbances() {
        let mut samples = vec![sample(0.02, 0.01, 20.0); 9];
        samples.push(sample(0.9, 0.8, 400.0));
        assert!(Conditions::of(samples).are_quiet());
    }

    #[test]
    fn each_kind_of_noise_is_named() {
        for (noisy, word) in [
            (vec![sample(0.3, 0.0, 20.0); 5], "others"),
            (vec![sample(0.0, 0.2, 20.0); 5], "core"),
            ([10.0, 10.0, 20.0, 30.0, 30.0].map(|us| sample(0.0, 0.0, us)).to_vec(), "loopback"),
            (
                [100.0, 100.0, 200.0, 400.0, 400.0]
                    .map(|fdatasync_us| Sample { fdatasync_us, ..sample(0.0, 0.0, 20.0) })
                    .to_vec(),
                "fdatasync",
            ),
        ] {
            let conditions = Conditions::of(noisy);
            assert!(!conditions.are_quiet());
            assert!(
                conditions.noise.len() == 1 && conditions.noise[0].contains(word),
                "{:?}",
                conditions.noise
            );
        }
    }

    #[test]
    fn one_round_beside_others_load_is_named_however_quiet_the_rest_was() {
        let quiet = sample(0.02, 0.01, 20.0);
        let seen = |contest, round, before, after| RoundSeen { contest, round, tries: 1, before, after };
        let rounds = |before: Sample, after: Sample| {
            vec![
                seen(Contest::Uncontended, 0, before, after),
                seen(Contest::Uncontended, 1, quiet, quiet),
                seen(Contest::Hot8, 0, quiet, quiet),
            ]
        };
        let samples = vec![quiet; 20];
        assert!(Conditions::of_rounds(samples.clone(), rounds(quiet, quiet)).are_quiet());
        for (before, after, word) in [
            (sample(0.549, 0.0, 20.0), quiet, "others used 55 %"),
            (quiet, sample(0.999, 0.0, 20.0), "others used 100 %"),
            (quiet, sample(0.0, 0.3, 20.0), "for 30 %"),
        ] {
            let noise = Conditions::of_rounds(samples.clone(), rounds(before, after)).noise;
            assert_eq!(noise.len(), 1, "{noise:?}");
            assert!(
                noise[0].starts_with("1 of 2 rounds of uncontended") && noise[0].contains(word),
                "{noise:?}"
            );
        }
    }
}
