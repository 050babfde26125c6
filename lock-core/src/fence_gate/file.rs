//! A file that refuses writes from holders that came too late.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{FenceGate, stale_token};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::fencing::FencingToken;
use crate::key::LockKey;

/// A file on a local disk whose content is replaced only by holders whose token is not below the
/// last writer's. Several processes may share it.
///
/// The token is kept in a file of its own beside it (`NAME.fence`), which also serves as the lock
/// between writers. Content is replaced as a whole, by writing a new file and renaming it. A crash
/// between the two leaves the new token with the old content, which only makes the gate stricter.
/// The methods do blocking file I/O.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use distlock_core::FencedFile;
/// let folder = tempfile::tempdir()?;
/// let file = FencedFile::new(folder.path().join("report.txt"), "report")?;
/// file.write(8_u64.try_into()?, b"by holder 8")?;
/// assert!(file.write(7_u64.try_into()?, b"by holder 7").unwrap_err().is_lost());
/// assert_eq!(std::fs::read(file.path())?, b"by holder 8");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct FencedFile {
    path: PathBuf,
    fence: PathBuf,
    key: LockKey,
}

impl FencedFile {
    /// The file at `path`, protected by the lock `key`. Nothing is created yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidKey`], or [`ErrorKind::InvalidOptions`] if the path names no file.
    pub fn new(path: impl Into<PathBuf>, key: impl crate::key::IntoKey) -> Result<Self> {
        let path = path.into();
        let Some(name) = path.file_name() else {
            return Err(Error::new(ErrorKind::InvalidOptions, format!("`{}` names no file", path.display())));
        };
        let mut fence = name.to_owned();
        fence.push(".fence");
        Ok(Self { fence: path.with_file_name(fence), key: key.into_key()?, path })
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content, durably, if no higher token was seen.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if a higher token was seen; [`ErrorKind::Unavailable`] if the disk refuses.
    pub fn write(&self, token: FencingToken, content: &[u8]) -> Result<()> {
        let _fence = self.pass(token)?;
        self.replace(content).map_err(|error| self.failed("write", &self.path, error))
    }

    /// Admits the token; the writers' lock is held as long as the returned file is open.
    fn pass(&self, token: FencingToken) -> Result<File> {
        let failed = |error| self.failed("open", &self.fence, error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.fence)
            .map_err(failed)?;
        file.lock().map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        if let Some(highest) = highest_token(&text) {
            if highest > token {
                return Err(stale_token(&self.key, token, highest));
            }
            if highest == token {
                return Ok(file);
            }
        }
        // One line a token, appended: a torn line is ended and ignored, and the highest whole one counts.
        let end_torn = if text.is_empty() || text.ends_with('\n') { "" } else { "torn\n" };
        file.write_all(format!("{end_torn}{token}\n").as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(failed)?;
        Ok(file)
    }

    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let mut name = self.fence.clone().into_os_string();
        name.push(".new");
        let mut file = File::create(&name)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&name, &self.path)?;
        match self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => File::open(folder)?.sync_all(),
            None => File::open(".")?.sync_all(),
        }
    }

    fn failed(&self, verb: &str, path: &Path, error: io::Error) -> Error {
        Error::new(ErrorKind::Unavailable, format!("can't {verb} `{}`", path.display()))
            .with_effect(Effect::Unknown)
            .in_operation(Operation::Fence)
            .for_key(&self.key)
            .caused_by(error)
    }
}

fn highest_token(text: &str) -> Option<FencingToken> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| line.parse().ok()).max()
}

#[async_trait]
impl FenceGate for FencedFile {
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()> {
        if *key != self.key {
            return Err(Error::new(
                ErrorKind::InvalidKey,
                format!("this file is protected by the lock `{}`", self.key),
            )
            .in_operation(Operation::Fence)
            .for_key(key));
        }
        self.pass(token).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: u64) -> FencingToken {
        FencingToken::new(n).unwrap()
    }

    #[test]
    fn the_highest_token_survives_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        FencedFile::new(&path, "k").unwrap().write(token(5), b"five").unwrap();
        let reopened = FencedFile::new(&path, "k").unwrap();
        assert!(reopened.write(token(4), b"four").unwrap_err().is_lost());
        reopened.write(token(5), b"five again").unwrap();
        reopened.write(token(6), b"six").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"six");
    }

    #[test]
    fn a_torn_last_line_is_ignored() {
        assert_eq!(highest_token("7\n12"), Some(token(7)));
        assert_eq!(highest_token("7\n12\n"), Some(token(12)));
        assert_eq!(highest_token(""), None);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let file = FencedFile::new("/nowhere/at/all/data", "k").unwrap();
        let error = file.write(token(1), b"").unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
