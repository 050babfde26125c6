//! The statements for MySQL and MariaDB.

use super::findings::findings;
use crate::server::{Probing, Statements, Tables, Template, Texts, statements as common};

/// When the statement began; the same wherever it stands in it.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The token of a grant leaves by `LAST_INSERT_ID`, which the server's answer carries anyway; 0 if there
/// is none. What is evaluated last counts.
///
/// Assignments are made from left to right, and see what those before them wrote, unless the SQL mode
/// SIMULTANEOUS_ASSIGNMENT is on. Here none reads a column that one before it has written: whether the
/// lock is held is told by `expires_at`, which comes last, and the one assignment that comes after
/// `owner` finds the same with the old owner and with the new one.
///
/// `VALUES` gives what the new row would have had, so each value is sent once, and the time is read once. MySQL calls it
/// outdated, and MariaDB knows no other way.
const ACQUIRE: &str = "INSERT INTO {locks} (lock_key, token, owner, expires_at, ttl, metadata)
 VALUES (:1, LAST_INSERT_ID({now}), :2, {now} + :3, :3, :4)
 ON DUPLICATE KEY UPDATE
   token = IF(expires_at > VALUES(token),
     IF(owner <=> VALUES(owner), LAST_INSERT_ID(token), token + LAST_INSERT_ID(0)),
     LAST_INSERT_ID(GREATEST(token + 1, VALUES(token)))),
   {unless_held}";

/// The assignments after that of the token.
const UNLESS_HELD: &str = "ttl = IF(expires_at > VALUES(token), IF(owner <=> VALUES(owner), GREATEST(ttl, VALUES(ttl)), ttl), VALUES(ttl)),
   metadata = IF(expires_at > VALUES(token) AND NOT owner <=> VALUES(owner), metadata, VALUES(metadata)),
   owner = IF(expires_at > VALUES(token), owner, VALUES(owner)),
   expires_at = IF(expires_at > VALUES(token) AND NOT owner <=> VALUES(owner), expires_at,
     GREATEST(COALESCE(expires_at, 0), VALUES(expires_at)))";

/// MariaDB from 10.6 on, which alone carries out such a comment. MySQL can't return what an insert left.
const GATHERS: &str = "0 /*M!100600 + 1 */";

/// As above. Who has a lock afterwards is read from what the row is then.
const ACQUIRE_MANY: &str = "INSERT INTO {locks} (lock_key, token, owner, expires_at, ttl, metadata)
 SELECT UNHEX(r.k), {now}, UNHEX(r.o), {now} + r.t, r.t, CONVERT(UNHEX(r.m) USING utf8mb4)
 FROM JSON_TABLE(:1, '$[*]' COLUMNS (
   k VARCHAR(1024) CHARACTER SET ascii PATH '$.k', o VARCHAR(32) CHARACTER SET ascii PATH '$.o', t BIGINT PATH '$.t',
   m VARCHAR(8192) CHARACTER SET ascii PATH '$.m')) r
 ON DUPLICATE KEY UPDATE
   token = IF(expires_at > VALUES(token), token, GREATEST(token + 1, VALUES(token))),
   {unless_held}
 RETURNING lock_key, {columns}";

/// Rows are looked up for each of the list, in this order: the other way round all rows would be locked.
const RENEW: &str = "UPDATE JSON_TABLE(:1, '$[*]' COLUMNS (
   k VARCHAR(1024) CHARACTER SET ascii PATH '$.k', o VARCHAR(32) CHARACTER SET ascii PATH '$.o', n BIGINT PATH '$.n')) r
 STRAIGHT_JOIN {locks} l FORCE INDEX (PRIMARY) ON l.lock_key = UNHEX(r.k)
 SET l.expires_at = GREATEST(l.expires_at, {now} + :2), l.ttl = GREATEST(l.ttl, :2)
 WHERE l.owner = UNHEX(r.o) AND l.token = r.n AND l.expires_at > {now}";

const STANDING: &str = "SELECT l.lock_key, l.owner, l.token, CASE WHEN l.expires_at > 0 THEN l.expires_at - {now} END FROM {keys}";

const HELD: &str = "SELECT l.lock_key, l.token FROM {keys} WHERE l.expires_at > {now}";

/// The rows of a list of keys.
const KEYS: &str = "JSON_TABLE(:1, '$[*]' COLUMNS (k VARCHAR(1024) CHARACTER SET ascii PATH '$.k')) r
 STRAIGHT_JOIN {locks} l FORCE INDEX (PRIMARY) ON l.lock_key = UNHEX(r.k)";

const RELEASE: &str = "UPDATE {locks} SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = ''
 WHERE lock_key = :1 AND owner = :2 AND expires_at > {now}";

/// An update returns no rows, so the one number that the answer carries gets a bit for each row that it changes.
const RELEASE_MANY: &str = "UPDATE (SELECT LAST_INSERT_ID(0) AS none) start STRAIGHT_JOIN JSON_TABLE(:1, '$[*]' COLUMNS (
   k VARCHAR(1024) CHARACTER SET ascii PATH '$.k', o VARCHAR(32) CHARACTER SET ascii PATH '$.o', i INT PATH '$.i')) r
 STRAIGHT_JOIN {locks} l FORCE INDEX (PRIMARY) ON l.lock_key = UNHEX(r.k)
 SET l.owner = NULL, l.expires_at = NULL, l.ttl = NULL,
   l.metadata = IF(LAST_INSERT_ID(LAST_INSERT_ID() | 1 << r.i) = 0, '', '')
 WHERE l.owner = UNHEX(r.o) AND l.expires_at > {now}";

const FORCE: &str = "UPDATE {locks}
 SET token = CASE WHEN token < {last_token} THEN GREATEST(token + 1, {now}) ELSE {now} END,
   owner = NULL, expires_at = NULL, ttl = NULL, metadata = ''
 WHERE lock_key = :1 AND token = :2";

const HAND_OVER: &str = "UPDATE {locks}
 SET token = LAST_INSERT_ID(GREATEST(token + 1, {now})), ttl = :5, metadata = :6, owner = :4, expires_at = {now} + :5
 WHERE lock_key = :1 AND owner = :2 AND token = :3 AND expires_at > {now}";

/// Nobody is told of a release here, so nobody leaves marks.
const MARK: &str = "SELECT 1 FROM {locks} WHERE lock_key = :1 AND expires_at > {now}";

const PRUNE: &str = "DELETE FROM {locks} WHERE lock_key > :1 AND lock_key <= :2
   AND token < {now} - :3 AND (expires_at IS NULL OR expires_at <= {now})";

const PROBE: &str =
    "SELECT {now}, version(), CAST(@@innodb_flush_log_at_trx_commit AS CHAR), CAST(@@innodb_doublewrite AS CHAR),
 CAST(@@log_bin AS CHAR), CAST(@@sync_binlog AS CHAR)";

/// How many replicas are attached, empty if this user can't see it, and whether one of them at least is waited for.
///
/// MySQL shows what others do to a user with the right PROCESS only, and leaves it out for others. MariaDB tells the number
/// to everybody.
const REPLICATION: &str = "SELECT CAST(
 /*M! COALESCE((SELECT MAX(VARIABLE_VALUE) FROM information_schema.global_status WHERE VARIABLE_NAME = 'Slaves_connected'), '') */
 /*!80000 IF(EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE PRIVILEGE_TYPE = 'PROCESS'
     AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')),
   (SELECT COUNT(*) FROM information_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'), '') */ AS CHAR),
 CAST(COALESCE((SELECT MAX(VARIABLE_VALUE) FROM /*M! information_schema */ /*!80000 performance_schema */ .global_status
   WHERE VARIABLE_NAME IN ('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')), 'OFF') AS CHAR)";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {locks} (
  lock_key VARBINARY(512) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0),
  owner BINARY(16) NULL,
  expires_at BIGINT NULL,
  ttl BIGINT NULL CHECK (ttl > 0),
  metadata VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  CHECK (owner IS NULL OR expires_at IS NOT NULL),
  CHECK ((ttl IS NULL) = (expires_at IS NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {claims} (
  lock_key VARBINARY(512) NOT NULL,
  owner BINARY(16) NOT NULL,
  token BIGINT NULL,
  place BIGINT NULL,
  expires_at BIGINT NOT NULL,
  ttl BIGINT NOT NULL,
  metadata VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  PRIMARY KEY (lock_key, owner)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {layout} (id INT NOT NULL PRIMARY KEY CHECK (id = 1), version INT NOT NULL) ENGINE = InnoDB;
INSERT INTO {layout} (id, version) VALUES (1, {version}) ON DUPLICATE KEY UPDATE version = version;
";

/// The statements on these tables.
pub(super) fn on(tables: &Tables) -> Statements {
    let names = [
        ("{gathers}", GATHERS),
        ("{unless_held}", UNLESS_HELD),
        ("{keys}", KEYS),
        ("{now}", NOW),
        ("{last_token}", common::LAST_TOKEN),
        ("{locks}", tables.locks.as_str()),
        ("{claims}", tables.claims.as_str()),
        ("{layout}", tables.layout.as_str()),
        ("{version}", crate::server::LAYOUT_VERSION),
    ];
    let texts = Texts { template: Template::in_order, names: &names };
    Statements {
        layout: texts.of(common::LAYOUT),
        acquire: texts.of(ACQUIRE),
        acquire_many: texts.of(ACQUIRE_MANY),
        acquire_or_mark: texts.of(ACQUIRE),
        look: texts.of(common::LOOK),
        renew: texts.of(RENEW),
        standing: texts.of(STANDING),
        release: texts.of(RELEASE),
        release_many: texts.of(RELEASE_MANY),
        withdraw: texts.of(common::WITHDRAW),
        hand_over: texts.of(HAND_OVER),
        cut: texts.of(common::CUT),
        mark: texts.of(MARK),
        held: texts.of(HELD),
        list: texts.of(common::LIST),
        force: texts.of(FORCE),
        prunable: texts.of(common::PRUNABLE),
        prune: texts.of(PRUNE),
        now: texts.of(common::NOW),
        probing: Probing { setup: texts.of(PROBE), replication: Some(texts.of(REPLICATION)), findings },
        create: texts.plain(CREATE),
    }
}
