//! A figure that was measured several times.

use serde::{Deserialize, Serialize};

use crate::figures::rounded;

/// A figure that was measured in several rounds: the one in the middle, and the two at the ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spread {
    /// The median of the rounds.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
}

impl Spread {
    /// `None` without a value.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median: rounded(median), least: rounded(least), most: rounded(most) })
    }

    /// How far the ends lie apart, as a part of the median.
    #[must_use]
    pub fn width(&self) -> f64 {
        if self.median > 0.0 { (self.most - self.least) / self.median } else { 0.0 }
    }

    /// Whether some round of one could have been a round of the other.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_ends() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.least, odd.median, odd.most), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of([4.0, 2.0]).unwrap().median, 3.0);
        assert!((odd.width() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn spreads_meet_when_their_ranges_do() {
        let [low, middle, high] =
            [[1.0, 2.0], [2.0, 5.0], [6.0, 7.0]].map(|values| Spread::of(values).unwrap());
        assert!(low.meets(&middle) && middle.meets(&low));
        assert!(!middle.meets(&high) && !high.meets(&middle));
    }
}
