//! Single figures as bars.

use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::Color;

use super::super::figures::short;
use super::super::theme::{BODY, INK, MUTED};
use super::canvas::{Failure, chart, label, picture};
use crate::compare::Spread;

/// One figure and the range of its rounds.
pub(super) struct Bar {
    label: String,
    figure: Spread,
}

impl Bar {
    pub(super) fn of(store: &str, figure: Spread, text: impl Fn(f64) -> String) -> Self {
        Self { label: format!("{store}: {}", text(figure.median)), figure }
    }
}

/// Draws them on one axis that begins at zero.
pub(super) fn draw(bars: &[Bar]) -> Option<String> {
    let most = bars.iter().map(|bar| bar.figure.most).fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.02 } else { 1.0 };
    picture(bars.len(), |area| {
        let mut chart = chart(area, bars.len(), 0.0..most, 5, &|value| short(*value))?;
        for (n, bar) in bars.iter().enumerate() {
            let (top, line, foot) = (n as f64 + 0.52, n as f64 + 0.7, n as f64 + 0.88);
            let Spread { median, least, most, .. } = bar.figure;
            chart.draw_series([Rectangle::new([(0.0, top), (median, foot)], BODY.mix(0.55).filled())])?;
            chart.draw_series([PathElement::new(vec![(least, line), (most, line)], INK.stroke_width(1))])?;
            chart.draw_series([Text::new(bar.label.clone(), (0.0, n as f64 + 0.46), label(&MUTED))])?;
        }
        Ok::<(), Failure>(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_named_with_their_figure() {
        let bars = [("a", 1900.0), ("b", 20.0)]
            .map(|(store, ms)| Bar::of(store, Spread::of([ms]).unwrap(), |ms| format!("{ms} ms")));
        let svg = draw(&bars).unwrap();
        assert!(svg.contains("a: 1900 ms") && svg.contains("b: 20 ms"), "{svg}");
        assert!(draw(&[]).is_none());
        assert!(draw(&[Bar::of("zero", Spread::of([0.0]).unwrap(), short)]).is_some());
    }
}
