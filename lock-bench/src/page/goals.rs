//! The table of goals.

use maud::{Markup, html};

use super::figures::short;
use crate::compare::{Comparison, GOALS, Judged, goals as judged};

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
                        } }
                        tbody { @for store in stores { tr {
                            th scope="row" { (store) }
                            @for goal in GOALS {
                                @match all.iter().find(|one| one.store == *store && one.goal == goal) {
                                    Some(one) => { (figure(one)) }
                                    None => { td.muted { "–" } }
                                }
                            }
                        } } }
                    }
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
