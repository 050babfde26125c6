//! The report of a comparison: one page that needs nothing beside it.

mod chart;
mod figures;
mod goals;
mod tables;
mod theme;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::compare::{Comparison, summary};

/// Writes the page. `json` is the name of the file with the raw figures, which stands in the same folder.
#[must_use]
pub fn page(comparison: &Comparison, json: &str) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Lock stores compared" }
                style { (PreEscaped(theme::STYLE)) }
            }
            body {
                header {
                    h1 { "Lock stores compared" }
                    p.muted {
                        "distlock " (comparison.version) ", " (figures::date(comparison.ended_at))
                        @if !comparison.optimised { ", built without optimisation" }
                        " · " a href=(json) { "raw figures" }
                    }
                }
                main {
                    (warnings(comparison))
                    (conditions(comparison))
                    (verdicts(comparison))
                    (goals::goals(comparison))
                    (tables::figures(comparison))
                    (chart::latency(comparison))
                    (chart::hand_off(comparison))
                    (chart::commands(comparison))
                    (chart::gaps(comparison))
                    (tables::held(comparison))
                    (tables::peers(comparison))
                    (tables::stores(comparison))
                    (missing(comparison))
                }
            }
        }
    }
    .into_string()
}

/// What a reader must know before any figure.
fn warnings(comparison: &Comparison) -> Markup {
    let broken = comparison.broken_promises();
    html! {
        @if !broken.is_empty() {
            section.alarm role="alert" {
                h2 { "Promises were broken" }
                ul {
                    @for cell in broken {
                        li { (cell.contest) " on " (cell.store) ": " (cell.violations)
                            " times two held the lock at once, or a token did not rise" }
                    }
                }
            }
        }
        @if !comparison.conditions.are_quiet() {
            section.warning role="alert" {
                h2 { "Too noisy to compare" }
                p { "The machine was not quiet while it measured. The figures stand here as they were seen; stores and \
                     versions can't be compared by them, so none is recommended." }
                ul { @for why in &comparison.conditions.noise { li { (why) } } }
            }
        }
    }
}

fn conditions(comparison: &Comparison) -> Markup {
    let conditions = &comparison.conditions;
    let figure = |name: &str, spread: Option<crate::compare::Spread>, unit: &str, scale: f64| {
        html! {
            @if let Some(spread) = spread {
                div.fact {
                    dt { (name) }
                    dd { (figures::short(spread.median * scale)) " " (unit)
                        span.muted { " (" (figures::short(spread.least * scale)) "–" (figures::short(spread.most * scale)) ")" } }
                }
            }
        }
    };
    html! {
        section {
            h2 { "The machine" }
            dl.facts {
                div.fact { dt { "processor" } dd { (conditions.cores) " × " (conditions.processor) } }
                (figure("loopback round trip", conditions.spread(|sample| sample.loopback_us), "µs", 1.0))
                (figure("4 KiB and fdatasync", conditions.spread(|sample| sample.fdatasync_us), "µs", 1.0))
                @if let Some(durability) = &comparison.durability {
                    div.fact { dt { "servers write durably to" } dd { (durability) } }
                }
                @if let (Some(rounds), Some(length)) = (comparison.rounds, comparison.length_ms) {
                    div.fact { dt { "rounds" } dd { (rounds) " × " (figures::time(length * 1e3)) } }
                }
                (figure("used by others", conditions.spread(|sample| sample.others), "%", 100.0))
                (figure("kept from its core", conditions.spread(|sample| sample.slowdown), "%", 100.0))
            }
        }
    }
}

fn verdicts(comparison: &Comparison) -> Markup {
    let verdicts = summary(comparison);
    html! {
        @if !verdicts.is_empty() {
            section {
                h2 { "Which store for what" }
                p.muted { "By the figures below, of stores that several processes can share. Others are as good if the range of \
                     their rounds reaches that of the best." }
                div.cards {
                    @for verdict in &verdicts {
                        div.card {
                            p.muted { (verdict.wanted) }
                            p.winner { (verdict.store) }
                            p { (figures::short(verdict.figure)) @if !verdict.unit.is_empty() { " " (verdict.unit) }
                                @if !verdict.as_good.is_empty() {
                                    span.muted { ", as good: " (verdict.as_good.join(", ")) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn missing(comparison: &Comparison) -> Markup {
    html! {
        @if !comparison.gaps.is_empty() {
            section {
                h2 { "What is missing" }
                ul.missing {
                    @for gap in &comparison.gaps {
                        li.bad[gap.failed] { b { (gap.what) } ": " (gap.why) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Cell;

    /// As a run writes it: two stores, contended and not, with gaps, peers and what is missing.
    fn sample() -> Comparison {
        serde_json::from_str(include_str!("sample.json")).unwrap()
    }

    fn opened(page: &str, tag: &str) -> usize {
        page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count()
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_beside_it() {
        let page = page(&sample(), "report.json");
        for tag in ["section", "svg", "table", "div", "tr", "main"] {
            assert_eq!(opened(&page, tag), page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        let links = page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(links, 0, "nothing is loaded from elsewhere");
        assert!(!page.contains("<script") && !page.contains("src="));
        assert!(opened(&page, "svg") >= 5, "latency, hand-off, shares, commands, gaps");
        assert!(page.contains("Which store for what") && page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn every_store_and_contest_stands_in_the_table() {
        let (sample, page) = (sample(), page(&sample(), "report.json"));
        for store in &sample.stores {
            assert!(page.contains(&format!(">{}<", store.label)), "{}", store.label);
        }
        for contest in &sample.contests {
            assert!(page.contains(contest.id().trim_start_matches("held-")), "{contest}");
        }
        assert!(page.contains("rslock") && page.contains("What is missing"));
    }

    #[test]
    fn goals_are_judged_and_who_was_faster_says_why() {
        let mut sample = sample();
        let first = page(&sample, "x");
        assert!(
            first.contains(">Goals<") && first.contains("are met") && !first.contains("please report it")
        );
        let cell = sample.cells.iter_mut().find(|cell| !cell.peers.is_empty()).unwrap();
        cell.peers[0].ratio = 0.8;
        assert!(page(&sample, "x").contains("please report it"));
        let why = "it <writes> nothing".to_owned();
        sample.peers[0].faster_alone.clone_from(&why);
        sample.peers[0].faster_contended = why;
        assert!(page(&sample, "x").contains("it &lt;writes&gt; nothing"));
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let mut sample = sample();
        sample.stores[0].version = Some("<script>alert(1)</script>".to_owned());
        let page = page(&sample, "a\"b.json");
        assert!(!page.contains("<script") && page.contains("&lt;script"));
        assert!(page.contains("a&quot;b.json"));
    }

    #[test]
    fn violations_and_noise_come_first() {
        let mut sample = sample();
        assert!(!page(&sample, "x").contains("role=\"alert\""));
        sample.cells[0].violations = 2;
        sample.conditions.noise.push("others used 80 % of the machine".to_owned());
        let noisy = page(&sample, "x");
        let at = |text: &str| noisy.find(text).unwrap();
        assert!(at("Promises were broken") < at("Too noisy") && at("Too noisy") < at("The machine<"));
        assert!(!noisy.contains("Which store for what"), "nothing is recommended");
        let allowed = Cell { may_violate: true, ..sample.cells[0].clone() };
        sample.cells[0] = allowed;
        assert!(!page(&sample, "x").contains("Promises were broken"));
    }

    #[test]
    fn nothing_is_judged_where_it_was_noisy() {
        let mut sample = sample();
        let judged = |page: &str| ["class=\"best", "class=\"good", "×51.0"].map(|text| page.contains(text));
        assert_eq!(judged(&page(&sample, "x")), [true; 3], "×51.0 is the factor of a peer");
        sample.conditions.noise.push("1 of 3 rounds of hot-8: others used 99 % of the machine".to_owned());
        let noisy = page(&sample, "x");
        assert_eq!(judged(&noisy), [false; 3]);
        assert!(noisy.contains("1 of 3 rounds of hot-8"));
    }

    #[test]
    fn how_it_was_measured_stands_with_the_machine() {
        let mut sample = sample();
        (sample.rounds, sample.length_ms, sample.durability) =
            (Some(3), Some(400.0), Some("disk".to_owned()));
        let page = page(&sample, "x");
        assert!(page.contains("3 × 400 ms") && page.contains("<dd>disk</dd>"));
        assert!(page.contains("fdatasync") && page.contains("loopback"));
    }

    #[test]
    fn a_comparison_of_nothing_is_a_page_too() {
        let mut sample = sample();
        sample.cells.clear();
        assert!(page(&sample, "x").contains("</html>"));
    }
}
