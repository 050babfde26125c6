//! Colours and layout, for light and dark.

use plotters::style::RGBColor;

/// The style sheet.
pub(super) const STYLE: &str = include_str!("style.css");

/// Colours of charts are names until the page is shown: each of these stands for a variable of the style sheet.
pub(super) const INK: RGBColor = RGBColor(1, 1, 1);
pub(super) const MUTED: RGBColor = RGBColor(2, 2, 2);
pub(super) const GRID: RGBColor = RGBColor(3, 3, 3);
pub(super) const BODY: RGBColor = RGBColor(4, 4, 4);
pub(super) const MARK: RGBColor = RGBColor(5, 5, 5);

const VARIABLES: [(&str, &str); 5] = [
    ("#010101", "var(--ink)"),
    ("#020202", "var(--muted)"),
    ("#030303", "var(--grid)"),
    ("#040404", "var(--accent)"),
    ("#050505", "var(--mark)"),
];

/// Puts the variables in, and lets the chart grow with the page.
pub(super) fn themed(svg: &str, title: &str) -> String {
    let svg = VARIABLES.iter().fold(svg.to_owned(), |svg, (colour, variable)| svg.replace(colour, variable));
    let name = maud::html! { (title) }.into_string();
    // Its own width and height would keep it from growing.
    match svg.find("<svg ").zip(svg.find("viewBox")) {
        Some((begin, view)) => format!("<svg role=\"img\" aria-label=\"{name}\" {}", &svg[view.max(begin)..]),
        None => svg,
    }
}
