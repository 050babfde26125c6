//! A list of rows as one parameter.

use std::fmt::Write;

use crate::hex::push_hex;

/// Rows for `json_each`, as a JSON list of lists. Bytes and text stand in hexadecimal, for `unhex`.
#[derive(Debug)]
pub(super) struct RowList(String);

impl RowList {
    /// Room for so many rows.
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut text = String::with_capacity(rows * 128 + 2);
        text.push('[');
        Self(text)
    }

    /// Begins a row with its first column.
    pub(super) fn row(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.push_str(if self.0.len() == 1 { "[\"" } else { "],[\"" });
        push_hex(&mut self.0, bytes);
        self.0.push('"');
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.push_str(",\"");
        push_hex(&mut self.0, bytes);
        self.0.push('"');
        self
    }

    pub(super) fn number(&mut self, number: i64) -> &mut Self {
        // Writing to a String can't fail.
        let _ = write!(self.0, ",{number}");
        self
    }

    pub(super) fn into_json(mut self) -> String {
        self.0.push_str(if self.0.len() == 1 { "]" } else { "]]" });
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_a_list_of_lists() {
        assert_eq!(RowList::with_capacity(0).into_json(), "[]");
        let mut list = RowList::with_capacity(2);
        list.row(b"k\n").bytes(b"").number(-7);
        list.row(b"").number(i64::MAX);
        assert_eq!(list.into_json(), r#"[["6b0a","",-7],["",9223372036854775807]]"#);
    }
}
