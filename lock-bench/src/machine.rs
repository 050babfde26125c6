//! What the process uses of its machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads of this process so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// Resident memory of this process in KiB, or `None` where `/proc` does not say.
pub(crate) fn rss_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_memory_and_has_used_time() {
        assert!(rss_kib().unwrap() > 100);
        let before = cpu_time();
        while cpu_time() == before {
            std::hint::spin_loop();
        }
    }
}
