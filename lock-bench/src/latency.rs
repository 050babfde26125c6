//! A distribution of latencies.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// A distribution of latencies, exact to three digits.
#[derive(Clone, PartialEq)]
pub(crate) struct Latency(Histogram<u64>);

/// Not each of its thousands of buckets.
impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latency({} of up to {} ns)", self.0.len(), self.0.max())
    }
}

impl Latency {
    pub(crate) fn new() -> Self {
        #[expect(clippy::expect_used, reason = "three digits are always possible")]
        Self(Histogram::new(3).expect("a histogram of three digits"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        // A histogram that grows by itself takes every value.
        let _ = self.0.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX / 2));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The latency that this share of all did not exceed, in microseconds.
    pub(crate) fn micros(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut latency = Latency::new();
        for micros in 1..=1000 {
            latency.record(Duration::from_micros(micros));
        }
        let mut sum = Latency::new();
        sum.add(&latency);
        assert!((sum.micros(0.5) - 500.0).abs() < 2.0, "{}", sum.micros(0.5));
        assert!((sum.micros(0.99) - 990.0).abs() < 2.0);
        assert!(!sum.is_empty() && Latency::new().is_empty());
    }
}
