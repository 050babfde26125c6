//! The table of JSON fields in docs/cli.md, and what is printed against it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// Fields that take something that these tests don't have.
const NOT_HERE: [&str; 6] = [
    // A store that has a lock of its own.
    "peer_p50_us",
    "peer_ops_per_s",
    "peer_ratio",
    // A program that counts its heap.
    "heap_bytes_per_lock",
    // Several tasks in each process, which the command does not start.
    "tasks_per_process",
    "inside_p50_us",
];

/// The table: by what it is of, the fields and whether each is always there.
pub(crate) struct Documented {
    rows: BTreeMap<String, BTreeMap<String, bool>>,
    /// What was printed, by row.
    printed: BTreeMap<String, BTreeSet<String>>,
    tokens: usize,
}

impl Documented {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, table) = text.split_once("| of | fields | meaning |\n|---|---|---|\n").expect("the table");
        let rows = table.lines().take_while(|line| line.starts_with('|')).map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let fields = cells[2].split(", ").filter(|field| !field.is_empty()).map(|field| {
                let is_optional = field.starts_with("(`") && field.ends_with("`)");
                (field.trim_matches(['(', ')', '`']).to_owned(), !is_optional)
            });
            (cells[1].replace(['`', '*'], ""), fields.collect())
        });
        Self { rows: rows.collect(), printed: BTreeMap::new(), tokens: 0 }
    }

    /// Compares the object with the row of this name.
    pub(crate) fn see(&mut self, row: &str, object: &Value) {
        let fields = self.rows.get(row).unwrap_or_else(|| panic!("docs/cli.md has no row `{row}`"));
        let printed: BTreeSet<String> =
            object.as_object().unwrap_or_else(|| panic!("{row}: {object}")).keys().cloned().collect();
        for field in &printed {
            assert!(fields.contains_key(field), "`{row}` prints `{field}`, which docs/cli.md does not have");
        }
        for (field, is_always) in fields {
            assert!(
                !is_always || printed.contains(field),
                "`{row}` lacks the documented `{field}`: {object}"
            );
        }
        for name in ["token", "last_token"] {
            if let Some(token) = object.get(name).filter(|token| !token.is_null()) {
                let token =
                    token.as_str().unwrap_or_else(|| panic!("{row}: a token is a string, not {token}"));
                assert!(token.parse::<u64>().unwrap() > 0, "{row}: {token}");
                self.tokens += 1;
            }
        }
        self.printed.entry(row.to_owned()).or_default().extend(printed);
    }

    pub(crate) fn see_each(&mut self, row: &str, list: &Value) {
        let list = list.as_array().unwrap_or_else(|| panic!("{row}: {list} is no list"));
        assert!(!list.is_empty(), "nothing to compare with the row `{row}`");
        list.iter().for_each(|object| self.see(row, object));
    }

    /// Every row was compared, and every field was printed at least once.
    pub(crate) fn assert_complete(&self, not_seen: &[&str]) {
        for (row, fields) in self.rows.iter().filter(|(row, _)| !not_seen.contains(&row.as_str())) {
            let printed =
                self.printed.get(row).unwrap_or_else(|| panic!("nothing printed what `{row}` says"));
            for field in fields.keys().filter(|field| !NOT_HERE.contains(&field.as_str())) {
                assert!(printed.contains(field), "`{row}` never printed `{field}`");
            }
        }
        assert!(self.tokens > 6, "{} tokens were seen", self.tokens);
    }
}
