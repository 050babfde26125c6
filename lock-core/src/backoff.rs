//! Growing, jittered pauses.

use std::time::Duration;

/// Pauses that double from `first` to `most`, each drawn at random from its upper half so that
/// clients that failed together do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `most`.
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most: most.max(first), next: first }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.most);
        jittered(pause)
    }

    /// Starts over, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A random duration between half of `most` and `most`.
#[must_use]
pub fn jittered(most: Duration) -> Duration {
    most.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_start_over() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(10), ms(35));
        for bound in [10, 20, 35, 35] {
            let pause = backoff.pause();
            assert!(pause >= ms(bound) / 2 && pause <= ms(bound), "{pause:?} for {bound}");
        }
        backoff.reset();
        assert!(backoff.pause() <= ms(10));
    }
}
