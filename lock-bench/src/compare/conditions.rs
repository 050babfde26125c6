//! What the machine was like while it measured, and whether its figures can be compared.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use distlock::{Error, ErrorKind, Result};
#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::spread::Spread;
use crate::figures::rounded;
use crate::machine::cpu_time;

/// More of the machine than this must not have been somebody else's, by the median of the samples.
const MOST_OTHERS: f64 = 0.15;
/// A program that only computes must not have been kept from its core for more than this, by the median.
const MOST_SLOWDOWN: f64 = 0.10;
/// The middle half of the loopback round trips must not lie further apart than this, as a part of the median.
const MOST_UNREST: f64 = 0.50;

/// One look at the machine, between two measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// Median time of a byte to another thread and back over TCP on the loopback device, on one core where the system lets
    /// a thread choose.
    pub loopback_us: f64,
    /// Median time of writing 4 KiB and `fdatasync`, in the folder for temporary files.
    pub fdatasync_us: f64,
    /// The part of the machine that others used while this program rested; what idle servers do is in it.
    pub others: f64,
    /// How much longer a computation took than the core worked on it, as a part of the latter.
    pub slowdown: f64,
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
    /// Why the figures can't be compared; empty if they can.
    pub noise: Vec<String>,
}

impl Conditions {
    /// Judges the samples.
    #[must_use]
    pub fn of(samples: Vec<Sample>) -> Self {
        let noise = noise(&samples);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { processor: processor(), cores, samples, noise }
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

impl Sample {
    /// Looks at the machine; takes a fifth of a second on a quiet one.
    ///
    /// # Errors
    /// `Other` if there is no loopback device or no folder for temporary files.
    pub async fn take() -> Result<Self> {
        let others = others().await;
        let taken = tokio::task::spawn_blocking(move || {
            let (loopback_us, fdatasync_us) = (loopback()?, fdatasync()?);
            Ok(Self { loopback_us, fdatasync_us, others, slowdown: slowdown() })
        });
        let taken: std::io::Result<Self> = taken.await.map_err(crate::floor::ended)?;
        taken.map_err(|error| Error::new(ErrorKind::Other, "can't look at the machine").caused_by(error))
    }
}

/// The reasons why figures taken beside these samples can't be compared.
fn noise(samples: &[Sample]) -> Vec<String> {
    let median =
        |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure)).map_or(0.0, |all| all.median);
    let mut reasons = Vec::new();
    let (others, slowdown) = (median(|sample| sample.others), median(|sample| sample.slowdown));
    if others > MOST_OTHERS {
        reasons.push(format!(
            "others used {:.0} % of the machine, more than {:.0} %",
            others * 100.0,
            MOST_OTHERS * 100.0
        ));
    }
    if slowdown > MOST_SLOWDOWN {
        reasons.push(format!(
            "a computation was kept from its core for {:.0} % of its time, more than {:.0} %",
            slowdown * 100.0,
            MOST_SLOWDOWN * 100.0
        ));
    }
    let unrest = middle_half(samples.iter().map(|sample| sample.loopback_us).collect());
    if unrest > MOST_UNREST {
        reasons.push(format!(
            "half of the loopback round trips lay {:.0} % of their median apart, more than {:.0} %",
            unrest * 100.0,
            MOST_UNREST * 100.0
        ));
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

/// The part of the machine's time that others used, while this program rests.
async fn others() -> f64 {
    let (Some(before), own) = (busy(), cpu_time()) else { return 0.0 };
    tokio::time::sleep(Duration::from_millis(100)).await;
    let Some(after) = busy() else { return 0.0 };
    let all = after.1.saturating_sub(before.1).max(1) as f64;
    // The kernel counts in hundredths of a second.
    let own = (cpu_time().saturating_sub(own)).as_secs_f64() * 100.0;
    let used = after.0.saturating_sub(before.0) as f64 - own;
    rounded((used / all).clamp(0.0, 1.0))
}

/// Busy and all time of all cores since boot, where `/proc` tells.
fn busy() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let times: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|time| time.parse().ok()).collect();
    let all: u64 = times.iter().take(8).sum();
    let idle = times.get(3)? + times.get(4)?;
    Some((all - idle, all))
}

/// In a thread of its own, so that only that one is bound to a core.
fn loopback() -> std::io::Result<f64> {
    let exchange = std::thread::spawn(|| {
        stay_on_one_core();
        exchange()
    });
    exchange.join().unwrap_or_else(|_| Err(std::io::Error::other("measuring the loopback device panicked")))
}

fn exchange() -> std::io::Result<f64> {
    const TIMES: usize = 200;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    // It stays on the core of the thread that starts it.
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        while far.read(&mut byte)? > 0 {
            far.write_all(&byte)?;
        }
        Ok(())
    });
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let (mut byte, sent) = ([1], Instant::now());
        near.write_all(&byte)?;
        near.read_exact(&mut byte)?;
        times.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    drop(near);
    let _ = echo.join();
    Ok(Spread::of(times).map_or(0.0, |times| times.median))
}

/// Between two cores a round trip takes several times as long as on one, since the other has to wake up: where the threads
/// happen to run would look like noise.
fn stay_on_one_core() {
    #[cfg(target_os = "linux")]
    if let Ok(allowed) = sched_getaffinity(None)
        && let Some(core) = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core))
    {
        let mut one = CpuSet::new();
        one.set(core);
        // Where that is refused, the figure is as it comes.
        let _ = sched_setaffinity(None, &one);
    }
}

fn fdatasync() -> std::io::Result<f64> {
    const TIMES: usize = 10;
    let mut file = tempfile::tempfile()?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        file.write_all(&[0x5a; 4096])?;
        rustix::fs::fdatasync(&file)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(times).map_or(0.0, |times| times.median))
}

fn slowdown() -> f64 {
    let core_time = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (began, worked) = (Instant::now(), core_time());
    let mut sum = 0_u64;
    for n in 0..5_000_000_u64 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
    }
    let worked = core_time() - worked;
    if worked > 0.0 { rounded((began.elapsed().as_secs_f64() / worked - 1.0).max(0.0)) } else { 0.0 }
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

    #[tokio::test]
    async fn a_sample_measures_something() {
        let sample = Sample::take().await.unwrap();
        assert!(sample.loopback_us > 0.0 && sample.fdatasync_us > 0.0, "{sample:?}");
        assert!((0.0..=1.0).contains(&sample.others) && sample.slowdown >= 0.0, "{sample:?}");
    }
}
