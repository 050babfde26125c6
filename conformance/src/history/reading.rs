//! Reads recorded histories, and says where a file is damaged.

use std::fmt;
use std::path::{Path, PathBuf};

use super::event::Event;

/// Why a recorded history can't be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from one; none if it is not about a line.
    pub line: Option<usize>,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.path.display(), self.text),
            None => write!(f, "{}: {}", self.path.display(), self.text),
        }
    }
}

impl std::error::Error for ReadError {}

/// The events in the file of JSON lines at `path`. A last line without its line end is what a killed
/// process leaves, and left out; any other line that is no event is an error.
///
/// # Errors
/// If the file can't be read, is damaged, or has no events.
pub fn read(path: &Path) -> Result<Vec<Event>, ReadError> {
    let failed = |line, text| ReadError { path: path.to_owned(), line, text };
    let bytes = std::fs::read(path).map_err(|error| failed(None, error.to_string()))?;
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // What follows the last line end: nothing, or a torn line.
    lines.pop();
    let mut events = Vec::with_capacity(lines.len());
    for (number, line) in (1..).zip(lines) {
        match serde_json::from_slice(line) {
            Ok(event) => events.push(event),
            Err(error) => return Err(failed(Some(number), reason(line, &error))),
        }
    }
    if events.is_empty() {
        return Err(failed(None, "there are no events in it".to_owned()));
    }
    Ok(events)
}

/// The events in all files of JSON lines in `folder`, as processes that may have been killed left them: one that has not
/// written a whole line yet is left out.
///
/// # Errors
/// If the folder or a file can't be read, or a file is damaged elsewhere than at its end.
pub fn read_folder(folder: &Path) -> Result<Vec<Event>, ReadError> {
    let unread = |path: &Path, error: std::io::Error| ReadError {
        path: path.to_owned(),
        line: None,
        text: error.to_string(),
    };
    let mut events = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unread(folder, error))? {
        let path = entry.map_err(|error| unread(folder, error))?.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        if std::fs::read(&path).map_err(|error| unread(&path, error))?.contains(&b'\n') {
            events.extend(read(&path)?);
        }
    }
    Ok(events)
}

fn reason(line: &[u8], error: &serde_json::Error) -> String {
    if line.is_empty() {
        return "it is empty".to_owned();
    }
    // The line is known; the library's own count of lines is always one here.
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("no event of a history: {text} at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: &str =
        r#"{"at":1,"process":7,"key":"k","owner":"o","what":"ask","op":1,"queue":false,"ttl":5}"#;

    fn read_text(text: &str) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.jsonl");
        std::fs::write(&path, text).unwrap();
        read(&path).map(|events| events.len()).map_err(|error| {
            let text = error.to_string();
            text.split_once("h.jsonl").unwrap().1.to_owned()
        })
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_any_other_damage_is_named() {
        assert_eq!(read_text(&format!("{ASK}\n{ASK}\n")), Ok(2));
        assert_eq!(read_text(&format!("{ASK}\n{}", &ASK[..20])), Ok(1));
        let damaged = read_text(&format!("{ASK}\n{}\n{ASK}\n", &ASK[..20])).unwrap_err();
        assert!(damaged.starts_with(", line 2: no event of a history: EOF"), "{damaged}");
        let foreign = read_text(&format!("{ASK}\n{}\n", ASK.replace("ask", "beg"))).unwrap_err();
        assert!(foreign.starts_with(", line 2: ") && foreign.contains("unknown variant `beg`"), "{foreign}");
        assert_eq!(read_text(&format!("\n{ASK}\n")), Err(", line 1: it is empty".to_owned()));
        assert_eq!(read_text(""), Err(": there are no events in it".to_owned()));
        assert!(read(Path::new("/nowhere/h.jsonl")).unwrap_err().to_string().contains("No such file"));
    }
}
