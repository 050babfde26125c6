//! One look at the machine.

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

/// More of the machine than this must not have been somebody else's.
const MOST_OTHERS: f64 = 0.15;
/// A program that only computes must not have been kept from its core for more than this.
const MOST_SLOWDOWN: f64 = 0.10;

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

impl Sample {
    /// Looks at the machine; takes half a second on a quiet one.
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

    /// Why what is measured beside it can't be compared; empty if it can.
    #[must_use]
    pub fn noise(&self) -> Vec<String> {
        disturbances(self.others, self.slowdown)
    }
}

/// What these parts of the machine, and of a computation's time, say of it.
pub(super) fn disturbances(others: f64, slowdown: f64) -> Vec<String> {
    let mut reasons = Vec::new();
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
    reasons
}

/// The part of the machine's time that others used, while this program rests.
async fn others() -> f64 {
    let (Some(before), own) = (busy(), cpu_time()) else { return 0.0 };
    tokio::time::sleep(Duration::from_millis(250)).await;
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
    for n in 0..20_000_000_u64 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
    }
    let worked = core_time() - worked;
    if worked > 0.0 { rounded((began.elapsed().as_secs_f64() / worked - 1.0).max(0.0)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sample_measures_something() {
        let sample = Sample::take().await.unwrap();
        assert!(sample.loopback_us > 0.0 && sample.fdatasync_us > 0.0, "{sample:?}");
        assert!((0.0..=1.0).contains(&sample.others) && sample.slowdown >= 0.0, "{sample:?}");
    }
}
