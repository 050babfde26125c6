//! The database file: whether it can hold locks, and connections to it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

use super::connection::Use;
use super::error::classify;

/// How long SQLite itself waits for a lock. Short: it keeps the connection's thread from all other
/// work, and the time bound into the statement grows stale. Longer waits are made between attempts.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_millis(5);

/// How long a checkpoint that wants writers out waits for its turn among them.
const CHECKPOINT_BUSY_TIMEOUT: Duration = Duration::from_millis(200);

/// The database file.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    /// Device and inode of the file that was opened first.
    opened: Arc<OnceLock<(u64, u64)>>,
    /// Set once commits are known to go to a write-ahead log, which bears being synced rarely.
    has_log: Arc<OnceLock<()>>,
}

impl DatabaseFile {
    /// The file at `path`, which need not exist yet.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let text = path.to_str().unwrap_or_default();
        if text.is_empty() || text == ":memory:" || text.contains('\0') {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                "locks need a database file with a plain UTF-8 path; for locks inside this process alone there is the memory backend",
            ));
        }
        // Absolute, so that SQLite doesn't read a name like `file:x` as a URI, and that a later
        // change of folder doesn't matter.
        let path = std::path::absolute(path).map_err(|source| {
            Error::new(ErrorKind::Misconfigured, "can't tell the current folder; give an absolute path")
                .caused_by(source)
        })?;
        Ok(Self { path, opened: Arc::default(), has_log: Arc::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks what can be told without opening the file. It is not opened here: closing it again
    /// would release every lock that this process's SQLite connections have on it.
    pub(super) async fn check(&self) -> Result<()> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || check_path(&path)).await.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::Other, "the check of the database's folder did not end")
                .caused_by(error))
        })
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, use_for: Use) -> Result<SqliteConnection> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(use_for == Use::Writing && self.opened.get().is_none())
            .busy_timeout(match use_for {
                Use::Writing | Use::Reading => SQLITE_BUSY_TIMEOUT,
                Use::Checkpoints => CHECKPOINT_BUSY_TIMEOUT,
            })
            .foreign_keys(false)
            .disable_statement_logging();
        let options = match use_for {
            // The log is copied elsewhere.
            Use::Writing | Use::Checkpoints => options.pragma("wal_autocheckpoint", "0"),
            Use::Reading => options.pragma("query_only", "ON"),
        };
        // A connection that takes another's place goes on as that one did.
        let options = if use_for == Use::Writing && self.has_log.get().is_some() {
            options.pragma("synchronous", "NORMAL")
        } else {
            options
        };
        let opened = options.connect().await;
        let opened = opened.map_err(|error| self.denied().unwrap_or_else(|| classify(error, &self.path)))?;
        if self.opened.get().is_some() {
            self.check_in_place()?;
        }
        Ok(opened)
    }

    /// Notes which file has the name, right after it was opened, and how it takes commits.
    pub(super) fn remember(&self, has_log: bool) {
        if has_log {
            self.has_log.get_or_init(|| ());
        }
        if let Some(identity) = identity(&self.path) {
            self.opened.get_or_init(|| identity);
        }
    }

    /// Checks that the name still leads to the file that is open. After it was deleted or replaced,
    /// programs that start now use another file than this one, and would not see its locks.
    pub(super) fn check_in_place(&self) -> Result<()> {
        if self.opened.get().copied() == identity(&self.path) {
            return Ok(());
        }
        let message = format!(
            "{} was deleted or replaced while it was open, so other programs no longer see its locks; restart this program",
            self.path.display()
        );
        Err(Error::new(ErrorKind::Misconfigured, message))
    }

    /// The error of a file or folder that this user may not write.
    fn denied(&self) -> Option<Error> {
        let denied = |path: &Path, what: &str| {
            let errno = access(path, Access::READ_OK | Access::WRITE_OK).err()?;
            let advice = match errno {
                Errno::ROFS => "its file system is mounted read-only; choose a file elsewhere",
                Errno::ACCESS | Errno::PERM => {
                    "give this user the right to read and write it, or choose another file"
                }
                _ => return None,
            };
            let message = format!("the {what} {} can't be written: {advice}", path.display());
            Some(Error::new(ErrorKind::PermissionDenied, message).caused_by(std::io::Error::from(errno)))
        };
        denied(&self.path, "database file").or_else(|| denied(folder(&self.path), "database's folder"))
    }
}

fn check_path(path: &Path) -> Result<()> {
    let misconfigured = |message: String| Err(Error::new(ErrorKind::Misconfigured, message));
    let folder = folder(path);
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return misconfigured(format!("{} is no folder; choose another file", folder.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return misconfigured(format!(
                "the folder {} does not exist; create it (mkdir -p {0}) or choose another file",
                folder.display()
            ));
        }
        Err(error) => {
            let message = format!(
                "can't look into the folder {}; give this user access or choose another file",
                folder.display()
            );
            return Err(Error::new(ErrorKind::PermissionDenied, message).caused_by(error));
        }
    }
    if path.is_dir() {
        return misconfigured(format!("{} is a folder; name a file in it", path.display()));
    }
    if std::fs::metadata(path).is_ok_and(|found| found.nlink() > 1) {
        return misconfigured(format!(
            "{} has several names (hard links), and SQLite keeps a log for each name, so programs would not see each other's locks; remove the other names and use this one everywhere",
            path.display()
        ));
    }
    match network_file_system(if path.exists() { path } else { folder }) {
        Some(name) => misconfigured(format!(
            "{} is on a network file system ({name}), where SQLite's file locks do not hold; choose a local file, or a store with a server",
            path.display()
        )),
        None => Ok(()),
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    // Asks for the name alone. To open the file here, and close it, would end SQLite's locks on it.
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(target_os = "linux")]
fn network_file_system(path: &Path) -> Option<&'static str> {
    let magic = rustix::fs::statfs(path).ok()?.f_type;
    // Some magic numbers have their highest bit set, which a signed field of 32 bits extends.
    network_name(u32::try_from(i128::from(magic) & 0xffff_ffff).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_path: &Path) -> Option<&'static str> {
    None
}

/// Names of the network file systems by their numbers in `statfs`. Not among them: FUSE, 9p and
/// virtiofs, which are local as often as not.
#[cfg(any(target_os = "linux", test))]
const fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xfe53_4d42 => "SMB2",
        0xff53_4d42 => "CIFS",
        0x564c => "NCP",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB2"), (0x00c3_6400, "Ceph")]
        {
            assert_eq!(network_name(magic), Some(name));
        }
        // ext4, XFS, Btrfs, ZFS, tmpfs, overlay, FUSE, 9p
        for magic in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x2fc1_2fc1,
            0x0102_1994,
            0x794c_7630,
            0x6573_5546,
            0x0102_1997,
        ] {
            assert_eq!(network_name(magic), None, "{magic:x}");
        }
        assert_eq!(network_file_system(&std::env::temp_dir()), None);
    }

    #[test]
    fn paths_that_are_no_files_are_refused() {
        for path in ["", ":memory:", "a\0b"] {
            assert_eq!(DatabaseFile::new(Path::new(path)).unwrap_err().kind(), ErrorKind::InvalidOptions);
        }
        let file = DatabaseFile::new(Path::new("file:x")).unwrap();
        assert!(file.path().is_absolute());
    }

    #[test]
    fn a_missing_folder_is_named_with_advice() {
        let error = check_path(Path::new("/no/such/folder/locks.db")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("mkdir -p /no/such/folder"), "{error}");
        assert!(check_path(&std::env::temp_dir()).unwrap_err().to_string().contains("name a file in it"));
    }
}
