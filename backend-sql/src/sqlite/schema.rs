//! The tables. ADR 0007 says why they look like this.

/// Marks a database as one of ours ("dlck"), in the file's header.
pub(super) const APPLICATION_ID: i64 = 0x646c_636b;

/// The layout's version, in the file's header. A higher one is refused.
pub(super) const VERSION: i64 = 1;

/// Bounds that hold for the whole store. One row.
const META: &str = "CREATE TABLE IF NOT EXISTS distlock_meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    -- Under which boot and time namespace the store was opened last.
    epoch TEXT NOT NULL,
    -- Every later token is higher.
    token_floor INTEGER NOT NULL,
    -- No token above it was ever granted; written through to the disk before it is made use of.
    token_reserve INTEGER NOT NULL,
    -- Tokens up to it may be granted; never above the reserve on the disk.
    token_ceiling INTEGER NOT NULL
) STRICT";

/// A lock's record, with its exclusive holder, or with only its last token while nobody holds it.
const LOCKS: &str = "CREATE TABLE IF NOT EXISTS distlock_locks (
    key BLOB NOT NULL PRIMARY KEY,
    owner BLOB,
    token INTEGER NOT NULL,
    -- Nanoseconds of boot time, comparable only under the same epoch.
    deadline INTEGER,
    epoch TEXT,
    -- Nanoseconds.
    ttl INTEGER,
    metadata TEXT,
    -- How often the deadline moved from one epoch to another in this hold.
    flips INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID";

/// Everybody else who has to do with a lock: waiters (no token), and holders of shared modes.
const CLAIMS: &str = "CREATE TABLE IF NOT EXISTS distlock_claims (
    key BLOB NOT NULL,
    owner BLOB NOT NULL,
    -- Place in the queue.
    seq INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    epoch TEXT NOT NULL,
    ttl INTEGER,
    token INTEGER,
    metadata TEXT,
    PRIMARY KEY (key, owner)
) STRICT, WITHOUT ROWID";

const QUEUE: &str = "CREATE INDEX IF NOT EXISTS distlock_queue ON distlock_claims (key, seq)";

/// Whoever is granted a lock or gives it back has left the queue, in the same statement.
const GRANTED: &str = "CREATE TRIGGER IF NOT EXISTS distlock_granted AFTER INSERT ON distlock_locks
BEGIN
    DELETE FROM distlock_claims WHERE key = NEW.key AND owner = NEW.owner;
END";
const CHANGED: &str = "CREATE TRIGGER IF NOT EXISTS distlock_changed AFTER UPDATE OF owner ON distlock_locks
WHEN OLD.owner IS NOT NEW.owner
BEGIN
    DELETE FROM distlock_claims WHERE key = NEW.key AND owner = coalesce(NEW.owner, OLD.owner);
END";

/// What makes an empty database ours, in order.
pub(super) const CREATE: [&str; 8] = [
    META,
    LOCKS,
    CLAIMS,
    QUEUE,
    GRANTED,
    CHANGED,
    "PRAGMA application_id = 1684824939",
    "PRAGMA user_version = 1",
];

/// The store's one row of bounds, made so that no token in the records can come again.
pub(super) const FIRST_BOUNDS: &str =
    "INSERT INTO distlock_meta (id, epoch, token_floor, token_reserve, token_ceiling)
 SELECT 1, ?1, coalesce(max(token), 0), coalesce(max(token), 0), coalesce(max(token), 0)
   FROM distlock_locks WHERE true
 ON CONFLICT (id) DO NOTHING";

/// What the file's header and catalogue say it is.
pub(super) const HEADER: &str = "SELECT
 (SELECT application_id FROM pragma_application_id),
 (SELECT user_version FROM pragma_user_version),
 (SELECT count(*) FROM sqlite_schema),
 (SELECT count(*) FROM sqlite_schema WHERE name IN ('distlock_meta', 'distlock_locks',
   'distlock_claims', 'distlock_queue', 'distlock_granted', 'distlock_changed'))";

/// How many things [`CREATE`] makes.
pub(super) const PARTS: i64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_numbers_in_the_statements_are_the_constants() {
        assert!(CREATE.contains(&format!("PRAGMA application_id = {APPLICATION_ID}").as_str()));
        assert!(CREATE.contains(&format!("PRAGMA user_version = {VERSION}").as_str()));
    }
}
