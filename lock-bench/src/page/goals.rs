//! The table of goals.

use maud::{Markup, html};

use super::figures::short;
use crate::compare::{Comparison, GOALS, Judged, goals as judged, slower_than};

/// Which store meets which goal.
pub(super) fn goals(comparison: &Comparison) -> Markup {
    let all = judged(comparison);
    let stores = comparison.stores.iter().map(|store| &store.label);
    let stores: Vec<&String> = stores.filter(|store| all.iter().any(|one| one.store == **store)).collect();
    let missed = all.iter().filter(|one| !one.is_met()).count();
    html! {
        @if !all.is_empty() {
            section {
                h2 { "Goals" }
                p.muted { (all.len() - missed) " of " (all.len()) " are met. The floor is the bare commands over the same driver; of \
                     hand-offs, one release and one acquire of it, where the store tells waiters. Fairness counts where the \
                     store serves in order." }
                div.scroll tabindex="0" role="region" aria-label="goals" {
                    table {
                        thead { tr {
                            th scope="col" { "store" }
                            @for goal in GOALS { th scope="col" { (goal) } }
                            th.text scope="col" { "faster than every other library" }
                        } }
                        tbody { @for store in stores { tr {
                            th scope="row" { (store) }
                            @for goal in GOALS {
                                @match all.iter().find(|one| one.store == *store && one.goal == goal) {
                                    Some(one) => { (figure(one)) }
                                    None => { td.muted { "–" } }
                                }
                            }
                            (beside_peers(comparison, store))
                        } } }
                    }
                }
            }
        }
    }
}

/// Whether the store was faster than other libraries on it, and where and why not.
fn beside_peers(comparison: &Comparison, store: &str) -> Markup {
    let cells = || comparison.cells.iter().filter(|cell| cell.store == store);
    let compared = || cells().flat_map(|cell| cell.peers.iter().map(move |peer| (cell, peer)));
    let slower = slower_than(comparison, store);
    let all = compared().count();
    html! {
        @if all == 0 {
            td.text.muted { "–" }
        } @else if slower.is_empty() {
            td.text { span.good { "yes" } small { "in " (all) " contests with one" } }
        } @else {
            td.wrap { span.bad { "not in " (slower.iter().map(|one| one.contests.len()).sum::<usize>()) " of " (all) }
                @for one in &slower {
                    small { (one.contests.join(", ")) ": " (one.peer) ", " (one.why) }
                }
            }
        }
    }
}

fn figure(one: &Judged) -> Markup {
    let (bound, mark) = (if one.is_most { "≤" } else { "≥" }, if one.is_met() { "met" } else { "missed" });
    html! {
        td {
            span.good[one.is_met()].bad[!one.is_met()] { (short(one.figure)) }
            small { (bound) " " (short(one.limit)) ", " (mark) }
        }
    }
}
