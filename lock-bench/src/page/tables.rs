//! The tables of the report.

use maud::{Markup, html};

use super::figures::{short, time};
use crate::compare::{Cell, Comparison, Contest, Spread};

/// Rounds that lie further apart than this part of their median are marked.
const UNSTEADY: f64 = 0.5;

/// Store by contest, each figure with its ratio to the floor.
pub(super) fn figures(comparison: &Comparison) -> Markup {
    let contests: Vec<Contest> =
        comparison.contests.iter().copied().filter(|contest| !contest.is_held()).collect();
    html! {
        section {
            h2 { "Figures" }
            p.muted { "Of each pair of lock and unlock: the median time, as a multiple of the floor's (the bare commands over the \
                 same driver), and pairs in a second. Of several processes: a hand-off from one to another, as a multiple of one \
                 release and one acquire of the floor right beside, and one inside of a process. Of crashes and failovers: the \
                 time without a holder. Medians of rounds; ~ marks rounds that lay far apart, bold the best shared store." }
            div.scroll tabindex="0" role="region" aria-label="figures" {
                table {
                    thead { tr {
                        th scope="col" { "store" }
                        @for contest in &contests { th scope="col" title=(contest.about()) { (contest) } }
                    } }
                    tbody {
                        @for store in &comparison.stores {
                            tr {
                                th scope="row" { (store.label) }
                                @for contest in &contests {
                                    @match comparison.cell(&store.label, *contest) {
                                        Some(cell) => { (figure(cell, &judgement(comparison, cell))) }
                                        None => { td.muted { "–" } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What may be said of a figure besides it; nothing if the machine was too noisy to tell.
struct Judgement {
    is_best: bool,
    is_near_floor: bool,
    is_far_from_floor: bool,
}

fn judgement(comparison: &Comparison, cell: &Cell) -> Judgement {
    let (is_quiet, ratio) = (comparison.conditions.are_quiet(), cell.ratio.map(|ratio| ratio.median));
    Judgement {
        is_best: is_quiet && best(comparison, cell.contest) == Some(&cell.store),
        is_near_floor: is_quiet && ratio.is_some_and(|ratio| ratio <= 1.15),
        is_far_from_floor: is_quiet && ratio.is_some_and(|ratio| ratio > 2.0),
    }
}

fn figure(cell: &Cell, judged: &Judgement) -> Markup {
    let measured = cell.gap_ms.map(|gap| (gap, gap.median * 1e3));
    let Some((spread, micros)) = measured.or_else(|| cell.p50_us.map(|p50| (p50, p50.median))) else {
        return html! { td.muted { "–" } };
    };
    let range = format!("{} to {} in {} rounds", short(spread.least), short(spread.most), cell.rounds);
    html! {
        td.bad[cell.broke_a_promise()] title=(range) {
            span.best[judged.is_best].unsteady[spread.width() > UNSTEADY] { (time(micros)) }
            @if let Some(ratio) = cell.ratio {
                " " span.good[judged.is_near_floor].bad[judged.is_far_from_floor] { "×" (short(ratio.median)) }
            }
            @if let Some(ops) = cell.ops_per_s { small { (short(ops.median)) "/s" (of_floor(cell.ops_ratio)) } }
            @if let Some(across) = cell.across_p50_us {
                small { "hand-off " (time(across.median)) @if let Some(ratio) = cell.across_ratio { ", ×" (short(ratio.median)) } }
            }
            @if let Some(inside) = cell.inside_p50_us { small { "inside " (time(inside.median)) } }
            @if cell.violations > 0 {
                small { (cell.violations) " violations" @if cell.may_violate { " (may happen)" } }
            }
        }
    }
}

fn of_floor(ratio: Option<Spread>) -> Markup {
    html! { @if let Some(ratio) = ratio { ", ×" (short(ratio.median)) } }
}

/// The shared store with the least time, if several were measured.
fn best(comparison: &Comparison, contest: Contest) -> Option<&String> {
    let key = |cell: &Cell| cell.gap_ms.or(cell.p50_us).map(|spread| spread.median);
    let shared = comparison.stores.iter().filter(|store| store.shared);
    let cells: Vec<(&String, f64)> = shared
        .filter_map(|store| Some((&store.label, key(comparison.cell(&store.label, contest)?)?)))
        .collect();
    let best = cells.iter().min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (cells.len() > 1).then_some(best.0)
}

/// What it takes to keep many locks alive.
pub(super) fn held(comparison: &Comparison) -> Markup {
    let cells: Vec<&Cell> = comparison.cells.iter().filter(|cell| cell.contest.is_held()).collect();
    html! {
        @if !cells.is_empty() {
            section {
                h2 { "Held locks" }
                p.muted { "Locks with a ttl of 10 s, of Redis and PostgreSQL 10 000 with 30 s, each renewed every third of it. The \
                     part of a core is that of this program for 10 000 locks with a ttl of 30 s, from the CPU time of a renewal." }
                div.scroll tabindex="0" role="region" aria-label="held locks" {
                    table {
                        thead { tr {
                            th scope="col" { "store" } th scope="col" { "locks" } th scope="col" { "renewals" }
                            th scope="col" { "CPU of a renewal" } th scope="col" { "part of a core" }
                            th scope="col" { "commands of a renewal" } th scope="col" { "memory of a lock" }
                            th scope="col" { "lost" }
                        } }
                        tbody { @for cell in cells { (held_row(cell)) } }
                    }
                }
            }
        }
    }
}

fn held_row(cell: &Cell) -> Markup {
    // 10 000 locks, renewed every 10 s.
    let core = cell.cpu_us_per_op.map(|cpu| cpu.median * 1000.0 / 1e6 * 100.0);
    html! {
        tr {
            th scope="row" { (cell.store) }
            td { (cell.contest.id().trim_start_matches("held-")) }
            td { @if let Some(ops) = cell.ops_per_s { (short(ops.median)) "/s" } }
            td { @if let Some(cpu) = cell.cpu_us_per_op { (time(cpu.median)) } }
            td { @if let Some(core) = core { (short(core)) " %" } }
            td { @if let Some(commands) = cell.commands_per_op { (short(commands.median)) } @else { "–" } }
            td { @if let Some(bytes) = cell.bytes_per_lock { (short(bytes as f64)) " B" } @else { "–" } }
            td.bad[cell.lost > 0] { (cell.lost) }
        }
    }
}

/// What other libraries do on the same stores.
pub(super) fn peers(comparison: &Comparison) -> Markup {
    let cells: Vec<&Cell> = comparison.cells.iter().filter(|cell| !cell.peers.is_empty()).collect();
    let is_quiet = comparison.conditions.are_quiet();
    html! {
        @if !cells.is_empty() {
            section {
                h2 { "Beside other libraries" }
                p.muted { "As many tasks through another library, in turn with this one. The factor is this one's pairs in a second \
                     as a multiple of the other's, where the machine was quiet." }
                ul { @for peer in &comparison.peers { li { b { (peer.name) } ": " (peer.differs) } } }
                div.scroll tabindex="0" role="region" aria-label="peers" {
                    table {
                        thead { tr {
                            th scope="col" { "store" } th.text scope="col" { "contest" } th.text scope="col" { "library" }
                            th scope="col" { "distlock" } th scope="col" { "other" } th scope="col" { "factor" }
                            th scope="col" { "p50" } th scope="col" { "other's p50" }
                            th scope="col" { "p99" } th scope="col" { "other's p99" }
                            th.text scope="col" { "why it is faster" }
                        } }
                        tbody { @for cell in cells { @for peer in &cell.peers { tr {
                            th scope="row" { (cell.store) }
                            td.text { (cell.contest) }
                            td.text { (peer.name) }
                            td { (per_second(cell.ops_per_s)) }
                            td { (per_second(Some(peer.ops_per_s))) }
                            @if is_quiet {
                                td.good[peer.ratio >= 1.0].bad[peer.ratio < 1.0] { "×" (short(peer.ratio)) }
                            } @else {
                                td.muted { "–" }
                            }
                            td { (median_time(cell.p50_us)) }
                            td { (time(peer.p50_us.median)) }
                            td { (median_time(cell.p99_us)) }
                            td { (time(peer.p99_us.median)) }
                            td.wrap { @if is_quiet && peer.ratio < 1.0 { (comparison.why_faster(cell, peer)) } }
                        } } } }
                    }
                }
            }
        }
    }
}

fn per_second(ops: Option<Spread>) -> String {
    ops.map_or_else(|| "–".to_owned(), |ops| format!("{}/s", short(ops.median)))
}

fn median_time(time_us: Option<Spread>) -> String {
    time_us.map_or_else(|| "–".to_owned(), |spread| time(spread.median))
}

/// What the stores promise, so that no figure is read without it.
pub(super) fn stores(comparison: &Comparison) -> Markup {
    let yes = |promise: bool| if promise { "yes" } else { "no" };
    html! {
        section {
            h2 { "What the stores promise" }
            div.scroll tabindex="0" role="region" aria-label="promises" {
                table {
                    thead { tr {
                        th scope="col" { "store" } th.text scope="col" { "backend" } th.text scope="col" { "server" }
                        th.text scope="col" { "exclusion" } th.text scope="col" { "waiters in order" }
                        th.text scope="col" { "held over a restart" } th.text scope="col" { "held over the loss of a server" }
                    } }
                    tbody {
                        @for store in &comparison.stores {
                            tr {
                                th scope="row" { (store.label) }
                                td.text { (store.backend) }
                                td.text { (store.version.as_deref().unwrap_or("–")) }
                                td.text { (store.exclusion) }
                                td.text { (yes(store.fifo)) }
                                td.text { (yes(store.survives_restart)) }
                                td.text { (yes(store.survives_failover)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
