//! How often a test does the same again.

/// So many rounds, times `DISTLOCK_ROUNDS`, which is 1 if nothing is said.
///
/// A hundred lets the tests of docs/scenarios.md reach the numbers at which the faults were reported.
#[must_use]
pub fn rounds(usual: usize) -> usize {
    let factor = std::env::var("DISTLOCK_ROUNDS").map_or(1, |factor| {
        let factor = factor.parse().ok().filter(|factor| *factor > 0);
        factor.expect("DISTLOCK_ROUNDS is a whole number above 0")
    });
    usual.saturating_mul(factor)
}
