//! Shares of contenders as dots.

use plotters::element::{Circle, PathElement, Text};
use plotters::style::Color;

use super::super::figures::short;
use super::super::theme::{BODY, MARK, MUTED};
use super::canvas::{Failure, chart, label, picture};

/// What each contender had, as multiples of an equal share.
pub(super) struct Shares {
    pub(super) label: String,
    pub(super) values: Vec<f64>,
}

/// Draws a dot for each contender, and a stroke where all would be if they had the same.
pub(super) fn draw(shares: &[Shares]) -> Option<String> {
    let most = shares.iter().flat_map(|row| row.values.iter().copied()).fold(2.0, f64::max);
    picture(shares.len(), |area| {
        let mut chart = chart(area, shares.len(), 0.0..most, 5, &|share| format!("×{}", short(*share)))?;
        for (n, row) in shares.iter().enumerate() {
            let (top, line, foot) = (n as f64 + 0.52, n as f64 + 0.7, n as f64 + 0.88);
            chart.draw_series([PathElement::new(vec![(1.0, top), (1.0, foot)], MARK.stroke_width(2))])?;
            let dots = row.values.iter().map(|share| Circle::new((*share, line), 3, BODY.mix(0.5).filled()));
            chart.draw_series(dots)?;
            chart.draw_series([Text::new(row.label.clone(), (0.0, n as f64 + 0.46), label(&MUTED))])?;
        }
        Ok::<(), Failure>(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_a_dot() {
        let shares = [Shares { label: "redis, Jain 0.9".to_owned(), values: vec![0.5, 1.0, 1.5] }];
        let svg = draw(&shares).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        assert!(svg.contains("redis, Jain 0.9"));
    }
}
