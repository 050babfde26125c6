//! Aligned text.

/// Rows in aligned columns. The last column is not padded.
pub(super) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Names and values, one pair a line.
pub(super) fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let rows: Vec<[String; 2]> = pairs.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_characters() {
        let rows = [["ä", "1", "x"], ["long", "22", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "ä     1   x\nlong  22\n");
    }
}
