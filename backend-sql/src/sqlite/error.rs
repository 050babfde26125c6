//! What SQLite's errors mean for a lock.

use std::path::Path;

use distlock_core::{Effect, Error, ErrorKind};
use sqlx::error::DatabaseError;

/// SQLite's result codes, without their extensions. <https://sqlite.org/rescode.html>
mod code {
    pub(super) const ERROR: i32 = 1;
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const NOMEM: i32 = 7;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const SCHEMA: i32 = 17;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const MISMATCH: i32 = 20;
    pub(super) const AUTH: i32 = 23;
    pub(super) const NOTADB: i32 = 26;
}

/// Whether another connection was in the way, so that the same statement may succeed at once.
pub(super) fn is_contention(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    matches!(result_code(error.as_ref()), code::BUSY | code::LOCKED | code::PROTOCOL | code::SCHEMA)
}

/// Whether the connection's own thread is gone, so that a new connection is needed.
pub(super) const fn is_broken_connection(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::WorkerCrashed)
}

/// Says what a failed statement on the database at `path` means and what to do about it.
pub(crate) fn classify(error: sqlx::Error, path: &Path) -> Error {
    let file = path.display();
    let sqlx::Error::Database(database) = &error else {
        return Error::new(ErrorKind::Unavailable, "the connection to the database broke").caused_by(error);
    };
    let (kind, effect, message) = match result_code(database.as_ref()) {
        code::BUSY | code::LOCKED | code::PROTOCOL | code::SCHEMA => {
            (ErrorKind::Unavailable, Effect::None, locked(path))
        }
        code::READONLY | code::PERM | code::AUTH => (
            ErrorKind::PermissionDenied,
            Effect::None,
            format!(
                "{file} can't be written; give this user the right to write the file and its folder, and see that the file system is not mounted read-only"
            ),
        ),
        code::NOTADB => (
            ErrorKind::Misconfigured,
            Effect::None,
            format!("{file} is not an SQLite database; name another file, it is created when missing"),
        ),
        code::CORRUPT => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            format!(
                "the database {file} is damaged; stop all programs that use it, move it away with its -wal and -shm files, and raise the token floor of the new one"
            ),
        ),
        code::FULL => {
            (ErrorKind::Unavailable, Effect::None, format!("no room left for {file}; free some disk space"))
        }
        code::IOERR => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            format!("reading or writing {file} failed; look into the system's log for the disk"),
        ),
        code::CANTOPEN => (
            ErrorKind::Unavailable,
            Effect::None,
            format!(
                "{file} or its -wal or -shm file can't be opened; see the rights of its folder and this process's limit of open files"
            ),
        ),
        code::NOMEM => {
            (ErrorKind::Overloaded, Effect::None, "SQLite got no memory; give this process more".to_owned())
        }
        code::ERROR if is_schema_gone(database.message()) => (
            ErrorKind::Misconfigured,
            Effect::None,
            format!(
                "the tables of distlock are missing from {file}; restart one program that uses it, which creates them anew"
            ),
        ),
        code::CONSTRAINT | code::MISMATCH => (
            ErrorKind::Corrupt,
            Effect::None,
            format!(
                "the tables in {file} are not as distlock made them; move the file away and let it be created anew"
            ),
        ),
        _ => (ErrorKind::Other, Effect::Unknown, "SQLite refused a statement".to_owned()),
    };
    Error::new(kind, message).with_effect(effect).caused_by(error)
}

/// The text for a database that somebody else keeps locked.
pub(super) fn locked(path: &Path) -> String {
    format!(
        "another program keeps {} locked; end its transaction (`fuser` shows who has the file open), or raise busy_timeout",
        path.display()
    )
}

fn is_schema_gone(message: &str) -> bool {
    ["no such table: distlock_", "no such column: ", "has no column named "]
        .iter()
        .any(|beginning| message.contains(beginning))
        || message.starts_with("no such table: main.distlock_")
}

fn result_code(error: &dyn DatabaseError) -> i32 {
    // The lower eight bits; the others tell apart cases of one code.
    error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(code::ERROR) & 0xff
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::error::Error as StdError;
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Reported(i32, &'static str);

    impl fmt::Display for Reported {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.1)
        }
    }
    impl StdError for Reported {}
    impl DatabaseError for Reported {
        fn message(&self) -> &str {
            self.1
        }
        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.to_string().into())
        }
        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }
        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }
        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }
        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    fn reported(code: i32, message: &'static str) -> sqlx::Error {
        sqlx::Error::Database(Box::new(Reported(code, message)))
    }

    #[test]
    fn every_code_has_its_kind_and_effect() {
        use Effect::{None, Unknown};
        use ErrorKind::{Corrupt, Misconfigured, Other, Overloaded, PermissionDenied, Unavailable};
        for (code, message, kind, effect) in [
            (5, "database is locked", Unavailable, None),
            (261, "database is locked", Unavailable, None),
            (517, "database is locked", Unavailable, None),
            (6, "database table is locked", Unavailable, None),
            (262, "database table is locked", Unavailable, None),
            (15, "locking protocol", Unavailable, None),
            (17, "database schema has changed", Unavailable, None),
            (8, "attempt to write a readonly database", PermissionDenied, None),
            (1032, "attempt to write a readonly database", PermissionDenied, None),
            (3, "access permission denied", PermissionDenied, None),
            (23, "not authorized", PermissionDenied, None),
            (26, "file is not a database", Misconfigured, None),
            (11, "database disk image is malformed", Corrupt, Unknown),
            (267, "database disk image is malformed", Corrupt, Unknown),
            (13, "database or disk is full", Unavailable, None),
            (10, "disk I/O error", Unavailable, Unknown),
            (1034, "disk I/O error", Unavailable, Unknown),
            (14, "unable to open database file", Unavailable, None),
            (7, "out of memory", Overloaded, None),
            (1, "no such table: distlock_locks", Misconfigured, None),
            (1, "no such table: main.distlock_claims", Misconfigured, None),
            (1, "no such column: l.owner", Misconfigured, None),
            (1, "table distlock_locks has no column named flips", Misconfigured, None),
            (1, "near \"SELEC\": syntax error", Other, Unknown),
            (3091, "cannot store TEXT value in INTEGER column", Corrupt, None),
            (1299, "NOT NULL constraint failed", Corrupt, None),
            (9, "interrupted", Other, Unknown),
        ] {
            let error = classify(reported(code, message), Path::new("/x/locks.db"));
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{code} {message}: {error}");
        }
        let broken = classify(sqlx::Error::WorkerCrashed, Path::new("x"));
        assert_eq!((broken.kind(), broken.effect()), (Unavailable, Unknown));
    }

    #[test]
    fn only_contention_is_tried_again_at_once() {
        for code in [5, 261, 517, 6, 262, 15, 17] {
            assert!(is_contention(&reported(code, "")), "{code}");
        }
        for code in [1, 8, 10, 11, 13, 14, 26] {
            assert!(!is_contention(&reported(code, "")), "{code}");
        }
        assert!(!is_contention(&sqlx::Error::WorkerCrashed));
        assert!(is_broken_connection(&sqlx::Error::WorkerCrashed));
    }
}
