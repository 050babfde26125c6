//! The dashboard and the alert rules ask for metrics, labels and values that there are.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FILES: [&str; 2] = ["docs/operations/grafana-dashboard.json", "docs/operations/alerts.yml"];
/// What Prometheus adds when it collects.
const COLLECTED: [&str; 2] = ["job", "le"];

/// Type and labels of each metric.
type Documented = BTreeMap<String, (String, BTreeSet<String>)>;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the file is there")
}

/// The metrics that docs/metrics.md lists, with their type and their labels.
fn documented() -> Documented {
    let page = read("docs/metrics.md");
    let lines = page.lines().filter(|line| line.starts_with("| `distlock_"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let plain = |text: &str| text.replace(['`', ' '], "");
            let labels = plain(cells[3]).split(',').map(str::to_owned).collect();
            (plain(cells[1]), (cells[2].to_owned(), labels))
        })
        .collect()
}

/// Every place where a text names a metric, with what follows the name.
fn named(text: &str) -> Vec<(&str, &str)> {
    let starts = text.match_indices("distlock_").map(|(at, _)| &text[at..]);
    starts
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.split_at(end)
        })
        .collect()
}

/// The name without what Prometheus adds to that of a histogram.
fn base<'a>(name: &'a str, known: &Documented) -> &'a str {
    let mut parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
    let is_histogram = |base: &&str| known.get(*base).is_some_and(|(kind, ..)| kind == "histogram");
    parts.find(is_histogram).unwrap_or(name)
}

#[test]
fn every_metric_that_is_asked_for_is_documented_and_every_other_is_shown() {
    let known = documented();
    assert_eq!(known.len(), distlock::METRICS.len());
    let mut shown = BTreeSet::new();
    for file in FILES {
        let text = read(file);
        for (name, _) in named(&text) {
            let base = base(name, &known);
            let (kind, ..) = known.get(base).unwrap_or_else(|| panic!("{file}: there is no {name}"));
            assert!(
                kind != "histogram" || base != name,
                "{file}: {name} is a histogram; ask for a part of it"
            );
            shown.insert(base.to_owned());
        }
    }
    assert_eq!(shown, known.into_keys().collect());
}

#[test]
fn every_label_and_value_that_is_asked_for_exists() {
    let known = documented();
    let page = read("docs/metrics.md");
    for file in FILES {
        // Quotes inside of JSON have a backslash.
        let text = read(file).replace("\\\"", "\"");
        for (name, rest) in named(&text) {
            let (_, labels) = &known[base(name, &known)];
            let Some((inside, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
                continue;
            };
            for condition in inside.split(',') {
                let (label, value) = condition.split_once(['=', '!']).expect("a condition");
                assert!(
                    labels.contains(label) || COLLECTED.contains(&label),
                    "{file}: {name} has no label {label}"
                );
                let value = value.trim_start_matches(['=', '~']).trim_matches('"');
                for value in value.split('|').filter(|value| !value.starts_with('$')) {
                    assert!(page.contains(&format!("`{value}`")), "{file}: {name} has no {label} {value}");
                }
            }
        }
    }
}

#[test]
fn the_dashboard_is_json_with_a_query_in_each_panel() {
    let dashboard: serde_json::Value = serde_json::from_str(&read(FILES[0])).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() >= 8);
    for panel in panels {
        let targets = panel["targets"].as_array().expect("queries");
        assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()), "{panel}");
    }
}
