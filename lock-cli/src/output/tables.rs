//! The statements that create a store's tables.

use serde::Serialize;

use super::Report;

/// The statements that create a store's tables, printed or carried out.
#[derive(Debug, Serialize)]
pub(crate) struct Tables {
    statements: Vec<String>,
    executed: bool,
    #[serde(skip)]
    script: String,
}

impl Tables {
    /// Of a script in which every statement ends with its line.
    pub(crate) fn new(script: String, executed: bool) -> Self {
        let statements = script.split(";\n").map(str::trim).filter(|statement| !statement.is_empty());
        let statements = statements.map(|statement| statement.trim_end_matches(';').to_owned()).collect();
        Self { statements, executed, script }
    }
}

impl Report for Tables {
    fn text(&self) -> String {
        if self.executed { String::new() } else { self.script.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart_and_printed_as_they_are() {
        let script = "BEGIN;\nCREATE TABLE a (\n  b int\n);\nCOMMIT;\n";
        let printed = Tables::new(script.to_owned(), false);
        assert_eq!(printed.text(), script);
        assert_eq!(printed.statements, ["BEGIN", "CREATE TABLE a (\n  b int\n)", "COMMIT"]);
        assert_eq!(Tables::new(script.to_owned(), true).text(), "");
    }
}
