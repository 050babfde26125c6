//! What a test program says about its tests.

use std::collections::BTreeMap;

/// What became of something that was to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Passed,
    /// Also if nobody knows what became of it. Why, in words.
    Failed(String),
    /// It does not apply or can't run here. Why, in its own words.
    Ignored(String),
}

impl Came {
    /// What has to hold for both: a failure outweighs what passed, and that what does not apply.
    pub(crate) fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Failed(_), _) | (_, Self::Ignored(_)) => self,
            _ => other,
        }
    }
}

/// What a line of a program's output says about one test.
pub(crate) fn result(line: &str) -> Option<(String, Came)> {
    let (name, words) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let came = match words {
        "ok" => Came::Passed,
        _ => match words.strip_prefix("ignored").map(reason) {
            Some("") => Came::Failed("ignored, and no reason given".to_owned()),
            Some(reason) => Came::Ignored(reason.to_owned()),
            None => Came::Failed(words.to_owned()),
        },
    };
    // Names stand in columns.
    Some((name.split_whitespace().collect::<Vec<_>>().join(" "), came))
}

/// One harness writes `ignored, REASON`, the other `ignored (REASON)`.
fn reason(words: &str) -> &str {
    let words = words.trim_start_matches([',', ' ']);
    words.strip_prefix('(').map_or(words, |words| words.strip_suffix(')').unwrap_or(words)).trim()
}

/// What became of each test that a program was to run, from what it said and how it ended.
pub(crate) fn complete(
    wanted: &[&String],
    said: &BTreeMap<String, Came>,
    has_succeeded: bool,
    ended: &str,
) -> BTreeMap<String, Came> {
    let mut came: BTreeMap<String, Came> = wanted
        .iter()
        .map(|name| {
            let missing = || Came::Failed(format!("the program said nothing of it, and ended with {ended}"));
            ((*name).clone(), said.get(*name).cloned().unwrap_or_else(missing))
        })
        .collect();
    if !has_succeeded && !came.values().any(|came| matches!(came, Came::Failed(_))) {
        for came in came.values_mut() {
            *came = Came::Failed(format!("no test failed, but the program ended with {ended}"));
        }
    }
    came
}
