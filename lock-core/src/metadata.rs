//! What a holder says about itself, for people who look.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::escape;

/// Labels stored beside a held lock: who holds it, for people and tools. Never used to decide anything.
///
/// At most 1 KiB in its encoded form. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Metadata(Option<Arc<str>>);

impl Metadata {
    /// Longest encoded form, in bytes.
    pub const MAX_LEN: usize = 1024;

    /// No labels.
    pub const NONE: Self = Self(None);

    /// Host name and process id, the default.
    #[must_use]
    pub fn of_this_process() -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        let pid = std::process::id().to_string();
        Self::new([("host", host.as_str()), ("pid", pid.as_str())]).unwrap_or_default()
    }

    /// These labels, in this order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOptions`] if a name is empty or contains `=` or white space, or if all
    /// together are longer than [`Metadata::MAX_LEN`].
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut text = String::new();
        for (name, value) in labels {
            append(&mut text, name, value)?;
        }
        Self::bounded(text)
    }

    /// These labels with one more, which replaces an earlier one of the same name.
    ///
    /// # Errors
    /// As [`Metadata::new`].
    pub fn label(&self, name: &str, value: &str) -> Result<Self, Error> {
        let mut text = String::new();
        for (old, old_value) in self.iter().filter(|(old, _)| old != name) {
            append(&mut text, &old, &old_value)?;
        }
        append(&mut text, name, value)?;
        Self::bounded(text)
    }

    /// The labels as one line of text, for a store's record: `name=value name=value`, escaped.
    #[must_use]
    pub fn encode(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Reads [`Metadata::encode`]'s form from a store's record. Unreadable parts are kept as they
    /// are: a damaged label must not hide a lock.
    #[must_use]
    pub fn decode(text: &str) -> Self {
        Self((!text.is_empty()).then(|| Arc::from(text)))
    }

    /// The labels, in order.
    pub fn iter(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.encode().split_ascii_whitespace().map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (name.to_owned(), unescape(value))
        })
    }

    /// The value of one label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.iter().find(|(label, _)| label == name).map(|(_, value)| value)
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encode().is_empty()
    }

    fn bounded(text: String) -> Result<Self, Error> {
        if text.len() > Self::MAX_LEN {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                format!(
                    "the labels take {} bytes and the limit is {}; shorten them",
                    text.len(),
                    Self::MAX_LEN
                ),
            ));
        }
        Ok(Self::decode(&text))
    }
}

fn append(text: &mut String, name: &str, value: &str) -> Result<(), Error> {
    if name.is_empty() || name.contains(|c: char| c == '=' || c == '%' || c.is_whitespace() || c.is_control())
    {
        return Err(Error::new(
            ErrorKind::InvalidOptions,
            format!(
                "`{}` is no label name: use letters, digits and punctuation other than `=` and `%`",
                name.escape_debug()
            ),
        ));
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(name);
    text.push('=');
    let mut escaped = String::new();
    // Writing to a String can't fail.
    let _ = escape::encode(value.as_bytes(), &mut escaped);
    text.push_str(&escaped.replace(' ', "%20"));
    Ok(())
}

fn unescape(value: &str) -> String {
    escape::decode(value)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| value.to_owned())
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encode())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Metadata {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back_whatever_they_hold() {
        let metadata = Metadata::new([("job", "nightly run = 50%"), ("note", "a\u{a0}b\n")]).unwrap();
        assert_eq!(Metadata::decode(metadata.encode()), metadata);
        assert_eq!(metadata.get("job").unwrap(), "nightly run = 50%");
        let (name, value) = metadata.iter().nth(1).unwrap();
        assert_eq!((name.as_str(), value.as_str()), ("note", "a\u{a0}b\n"));
    }

    #[test]
    fn a_label_replaces_its_namesake() {
        let metadata = Metadata::new([("a", "1"), ("b", "2")]).unwrap().label("a", "3").unwrap();
        assert_eq!(metadata.encode(), "b=2 a=3");
    }

    #[test]
    fn too_much_is_refused_with_the_numbers() {
        let error = Metadata::new([("a", "x".repeat(2000).as_str())]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.to_string().contains("1024"));
        assert!(Metadata::new([("a b", "")]).is_err());
    }

    #[test]
    fn this_process_says_host_and_pid() {
        let metadata = Metadata::of_this_process();
        assert_eq!(metadata.get("pid").unwrap(), std::process::id().to_string());
        assert!(metadata.get("host").is_some());
    }
}
