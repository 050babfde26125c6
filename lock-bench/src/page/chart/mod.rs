//! The charts of the report. Labels stand above their rows, so that a chart is readable on a narrow screen.

mod bars;
mod boxes;
mod canvas;
mod dots;

use maud::{Markup, PreEscaped, html};

use self::bars::Bar;
use self::boxes::Row;
use self::dots::Shares;
use super::figures::{short, time};
use crate::compare::{Cell, Comparison, Contest};

/// Distributions of the times of pairs, one chart a contest.
pub(super) fn latency(comparison: &Comparison) -> Markup {
    let charts = pairs(comparison).filter_map(|contest| {
        let floor = |cell: &Cell| cell.ratio.and(cell.floor_p50_us).map(|p50| p50.median);
        let rows = rows(comparison, contest, |cell| &cell.latency, floor);
        boxes::draw(&rows).map(|svg| (format!("{contest}: {}", contest.about()), svg))
    });
    section(
        "How long a pair takes",
        "Time of lock and unlock, on a logarithmic axis: the line spans 98 of 100 pairs, the box the middle half, its stroke the \
         median; the dot is the time that one pair of a thousand exceeds. The orange stroke is the floor's median.",
        charts,
    )
}

/// Distributions of hand-offs, and the contenders' shares.
pub(super) fn hand_off(comparison: &Comparison) -> Markup {
    let contended = || comparison.contests.iter().copied().filter(|contest| contest.is_contended());
    let hand_offs = contended().filter_map(|contest| {
        // Several processes have the floor right beside them.
        let beside = |cell: &Cell| cell.across_ratio.and(cell.floor_p50_us).map(|p50| p50.median);
        let floor = |cell: &Cell| beside(cell).or_else(|| floor_of_pair(comparison, &cell.store));
        let rows = rows(comparison, contest, |cell| &cell.hand_off, floor);
        boxes::draw(&rows).map(|svg| (format!("{contest}: hand-off, {}", contest.about()), svg))
    });
    let shares = contended().filter_map(|contest| {
        let cells = comparison.cells.iter().filter(|cell| cell.contest == contest && !cell.shares.is_empty());
        let shares: Vec<Shares> =
            cells.map(|cell| Shares { label: jain(cell), values: cell.shares.clone() }).collect();
        dots::draw(&shares).map(|svg| (format!("{contest}: shares of the contenders"), svg))
    });
    section(
        "Hand-off and fairness",
        "From one contender's unlock to the next one's grant, drawn as above; the orange stroke is one release and one acquire of \
         the floor, uncontended. Of several processes, hand-offs from one to another. Shares: what each contender got, as a \
         multiple of an equal share; Jain's index is the median of the rounds, and the least.",
        hand_offs.chain(shares),
    )
}

fn jain(cell: &Cell) -> String {
    let median = format!("{}, Jain {:.3}", cell.store, cell.fairness.unwrap_or(0.0));
    match cell.fairness_least {
        Some(least) => format!("{median} (least {least:.3})"),
        None => median,
    }
}

/// Commands for each grant.
pub(super) fn commands(comparison: &Comparison) -> Markup {
    let charts = pairs(comparison).filter(|contest| *contest != Contest::Spread1).filter_map(|contest| {
        let bars: Vec<Bar> = comparison
            .cells
            .iter()
            .filter(|cell| cell.contest == contest)
            .filter_map(|cell| Some(Bar::of(&cell.store, cell.commands_per_op?, short)))
            .collect();
        bars::draw(&bars).map(|svg| (format!("{contest}: commands for a grant and its release"), svg))
    });
    section(
        "Commands per grant",
        "Commands or statements that the client sends for one lock and its unlock.",
        charts,
    )
}

/// Times without a holder.
pub(super) fn gaps(comparison: &Comparison) -> Markup {
    let gaps = comparison.contests.iter().copied().filter(|contest| contest.is_gap());
    let charts = gaps.filter_map(|contest| {
        let cells = comparison.cells.iter().filter(|cell| cell.contest == contest);
        let bars: Vec<Bar> =
            cells.filter_map(|cell| Some(Bar::of(&cell.store, cell.gap_ms?, |ms| time(ms * 1e3)))).collect();
        bars::draw(&bars).map(|svg| (format!("{contest}: {}", contest.about()), svg))
    });
    section(
        "Recovery",
        "Crash: from SIGKILL of the holder, whose ttl is 2 s, to the next grant. Failover: the longest time without a grant of \
         any one lock when the leading server is killed.",
        charts,
    )
}

/// Contests whose operations are pairs of lock and unlock.
fn pairs(comparison: &Comparison) -> impl Iterator<Item = Contest> {
    comparison.contests.iter().copied().filter(|contest| !contest.is_gap() && !contest.is_held())
}

fn rows(
    comparison: &Comparison,
    contest: Contest,
    points: fn(&Cell) -> &Vec<[f64; 2]>,
    mark: impl Fn(&Cell) -> Option<f64>,
) -> Vec<Row> {
    let cells = comparison.cells.iter().filter(|cell| cell.contest == contest);
    cells.filter_map(|cell| Row::of(&cell.store, points(cell), mark(cell))).collect()
}

/// One release and one acquire of the floor, when nobody contends.
fn floor_of_pair(comparison: &Comparison, store: &str) -> Option<f64> {
    comparison.cell(store, Contest::Uncontended)?.floor_p50_us.map(|p50| p50.median)
}

fn section(title: &str, about: &str, charts: impl Iterator<Item = (String, String)>) -> Markup {
    let charts: Vec<(String, String)> = charts.collect();
    html! {
        @if !charts.is_empty() {
            section {
                h2 { (title) }
                p.muted { (about) }
                div.charts {
                    @for (name, svg) in &charts {
                        div.chart { h3 { (name) } (PreEscaped(super::theme::themed(svg, name))) }
                    }
                }
            }
        }
    }
}
