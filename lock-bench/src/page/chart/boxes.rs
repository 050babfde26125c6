//! Distributions as lines, boxes and dots.

use plotters::coord::combinators::IntoLogRange;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::Color;

use super::super::figures::{tick, time};
use super::super::theme::{BODY, INK, MARK, MUTED};
use super::canvas::{Failure, chart, label, picture};

/// One distribution.
pub(super) struct Row {
    label: String,
    /// At 1, 25, 50, 75, 99 and 99.9 of 100.
    at: [f64; 6],
    mark: Option<f64>,
}

impl Row {
    /// `None` of a distribution without these points.
    pub(super) fn of(label: &str, points: &[[f64; 2]], mark: Option<f64>) -> Option<Self> {
        let mut at = [0.0; 6];
        for (at, part) in at.iter_mut().zip([0.01, 0.25, 0.5, 0.75, 0.99, 0.999]) {
            // A logarithmic axis has no zero.
            *at = points.iter().find(|point| (point[0] - part).abs() < 1e-9)?[1].max(0.01);
        }
        Some(Self { label: label.to_owned(), at, mark: mark.filter(|mark| *mark > 0.0) })
    }
}

/// Draws them on one logarithmic axis of time.
pub(super) fn draw(rows: &[Row]) -> Option<String> {
    let all = || rows.iter().flat_map(|row| row.at.iter().chain(&row.mark).copied());
    let least = all().fold(f64::INFINITY, f64::min);
    let most = all().fold(0.0, f64::max);
    // Whole powers of ten, so that the axis has ticks.
    let (from, to) = (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()));
    picture(rows.len(), |area| {
        let axis = (from..to.max(from * 10.0)).log_scale();
        let mut chart = chart(area, rows.len(), axis, 6, &|micros| tick(*micros))?;
        for (n, row) in rows.iter().enumerate() {
            let [low, quarter, middle, three, high, rare] = row.at;
            let (top, line, foot) = (n as f64 + 0.52, n as f64 + 0.7, n as f64 + 0.88);
            let line_of = |from, to, colour: &plotters::style::RGBColor| {
                PathElement::new(vec![from, to], colour.stroke_width(2))
            };
            chart.draw_series([line_of((low, line), (high, line), &BODY)])?;
            chart.draw_series([Rectangle::new([(quarter, top), (three, foot)], BODY.mix(0.45).filled())])?;
            chart.draw_series([line_of((middle, top - 0.04), (middle, foot + 0.04), &INK)])?;
            chart.draw_series([Circle::new((rare, line), 2, BODY.filled())])?;
            if let Some(mark) = row.mark {
                chart.draw_series([line_of((mark, top - 0.04), (mark, foot + 0.04), &MARK)])?;
            }
            let text = format!("{}: {}", row.label, time(middle));
            chart.draw_series([Text::new(text, (from, n as f64 + 0.46), label(&MUTED))])?;
        }
        Ok::<(), Failure>(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [f64; 7] = [0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1.0];

    #[test]
    fn each_row_has_its_label_and_time() {
        let points = PARTS.map(|part| [part, part * 1000.0]);
        let rows = ["one", "two"].map(|label| Row::of(label, &points, Some(300.0)).unwrap());
        let svg = draw(&rows).unwrap();
        assert!(svg.contains("one: 500 µs") && svg.contains("two: 500 µs"), "{svg}");
        assert!(svg.contains("10 µs") && svg.contains("1 ms"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_nothing_drawn() {
        assert!(Row::of("none", &[], None).is_none() && draw(&[]).is_none());
        let same = PARTS.map(|part| [part, 0.0]);
        assert!(draw(&[Row::of("zero", &same, None).unwrap()]).is_some(), "zero is no reason to fail");
    }
}
