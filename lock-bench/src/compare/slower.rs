//! Where another library was faster.

use super::comparison::Comparison;

/// Contests in which another library was faster on a store, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slower {
    /// The other library.
    pub peer: String,
    /// In which contests.
    pub contests: Vec<&'static str>,
    /// Why, as it says itself.
    pub why: String,
}

/// Where others were faster on this store, by their pairs in a second. Empty if nobody was, or if the machine was too
/// noisy to tell.
#[must_use]
pub fn slower_than(comparison: &Comparison, store: &str) -> Vec<Slower> {
    let mut found: Vec<Slower> = Vec::new();
    let is_quiet = comparison.conditions.are_quiet();
    for cell in comparison.cells.iter().filter(|cell| is_quiet && cell.store == store) {
        for peer in cell.peers.iter().filter(|peer| peer.ratio < 1.0) {
            let why = comparison.why_faster(cell, peer);
            match found.iter_mut().find(|one| one.peer == peer.name && one.why == why) {
                Some(one) => one.contests.push(cell.contest.id()),
                None => found.push(Slower {
                    peer: peer.name.clone(),
                    contests: vec![cell.contest.id()],
                    why: why.to_owned(),
                }),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Cell, PeerFigures, Rounds};
    use super::super::conditions::Conditions;
    use super::super::contest::Contest;
    use super::super::peers::PeerAnswer;
    use super::super::spread::Spread;
    use super::*;

    #[test]
    fn contests_with_one_reason_stand_together() {
        let one = Spread::of([1.0]).unwrap();
        let cell = |contest, ratio| Cell {
            peers: vec![PeerFigures {
                name: "other".to_owned(),
                ops_per_s: one,
                p50_us: one,
                p99_us: one,
                ratio,
            }],
            ..Rounds::default().cell("a", contest, false)
        };
        let mut comparison = Comparison::new(Conditions::of(Vec::new()), Vec::new(), Vec::new());
        comparison.cells = vec![
            cell(Contest::Uncontended, 0.8),
            cell(Contest::Spread64, 0.9),
            cell(Contest::Hot8, 1.2),
            cell(Contest::Herd256, 0.7),
        ];
        comparison.peers = vec![PeerAnswer {
            name: "other".to_owned(),
            scheme: "redis".to_owned(),
            also_on: Vec::new(),
            differs: String::new(),
            faster_alone: "it keeps no token".to_owned(),
            faster_contended: String::new(),
        }];
        let found = slower_than(&comparison, "a");
        let seen: Vec<_> = found.iter().map(|one| (one.contests.join(" "), one.why.as_str())).collect();
        assert_eq!(seen[0], ("uncontended spread-64".to_owned(), "it keeps no token"));
        assert_eq!(seen[1], ("herd-256".to_owned(), "not known; please report it"));
        assert!(slower_than(&comparison, "b").is_empty());
        comparison.conditions.noise.push("others".to_owned());
        assert!(slower_than(&comparison, "a").is_empty());
    }
}
