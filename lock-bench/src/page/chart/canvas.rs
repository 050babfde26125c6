//! What all charts share: their size, their axis, their rows.

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::{Cartesian2d, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, IntoFont, RGBColor, TextStyle};

use super::super::theme::{GRID, MUTED};

/// As wide as a phone shows it, so that its letters are of their own size there.
const WIDTH: u32 = 340;
const ROW: usize = 32;
const AXIS: u32 = 26;
const LETTERS: f64 = 12.0;

pub(super) type Failure = DrawingAreaErrorKind<std::io::Error>;
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'r, 'a, X> = ChartContext<'r, SVGBackend<'a>, Cartesian2d<X, RangedCoordf64>>;

/// Draws so many rows, and gives the picture; `None` for no rows, or if they can't be drawn.
pub(super) fn picture(rows: usize, draw: impl FnOnce(&Area<'_>) -> Result<(), Failure>) -> Option<String> {
    if rows == 0 {
        return None;
    }
    let height = u32::try_from(rows * ROW).ok()? + AXIS;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area).and_then(|()| area.present()).ok()?;
    }
    Some(svg)
}

/// An axis along the bottom, and a unit of height for each row, counted from above.
pub(super) fn chart<'r, 'a, X>(
    area: &'r Area<'a>,
    rows: usize,
    axis: X,
    ticks: usize,
    tick: &dyn Fn(&f64) -> String,
) -> Result<Chart<'r, 'a, X::CoordDescType>, Failure>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let height: Range<f64> = rows as f64..0.0;
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(AXIS - 4)
        .margin_top(2)
        .margin_left(16)
        .margin_right(24)
        .build_cartesian_2d(axis, height)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(ticks)
        .bold_line_style(GRID)
        .light_line_style(GRID.mix(0.0))
        .axis_style(GRID)
        .label_style(letters(&MUTED))
        .x_label_formatter(tick)
        .draw()?;
    Ok(chart)
}

/// Small letters, beginning at the left and standing on their line.
pub(super) fn letters(colour: &'static RGBColor) -> TextStyle<'static> {
    let font = (FontFamily::SansSerif, LETTERS).into_font();
    TextStyle::from(font).color(colour)
}

/// Letters that begin at their point and stand on it.
pub(super) fn label(colour: &'static RGBColor) -> TextStyle<'static> {
    letters(colour).pos(Pos::new(HPos::Left, VPos::Bottom))
}
