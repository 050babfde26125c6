//! PostgreSQL's statements.

use crate::server::{Findings, KeptAs, Probing, Statements, Tables, Template, Texts, statements as common};

/// Read when the statement comes to it, not when it began. Exact up to the year 2242, and half the work of
/// `extract`, whose numbers have any number of digits.
const NOW: &str = "CAST(date_part('epoch', clock_timestamp()) * CAST(1000000 AS float8) AS bigint)";

/// All decisions about the row go by one reading of the time, which is taken before the row is waited for, and
/// is the token that a new row would have. A time that is a little old can only find the lock held for longer.
///
/// A lock that somebody else holds gives no row, and its own is not touched.
const ACQUIRE: &str = "INSERT INTO {locks} AS l (lock_key, token, owner, expires_at, ttl, metadata)
 VALUES (:1, {now}, :2, {now} + :3, :3, :4)
 {unless_held}
 RETURNING token";

const UNLESS_HELD: &str = "ON CONFLICT (lock_key) DO UPDATE SET
   token = CASE WHEN l.expires_at > excluded.token THEN l.token ELSE greatest(l.token + 1, excluded.token) END,
   owner = excluded.owner,
   expires_at = greatest(l.expires_at, excluded.expires_at),
   ttl = CASE WHEN l.expires_at > excluded.token THEN greatest(l.ttl, excluded.ttl) ELSE excluded.ttl END,
   metadata = excluded.metadata,
   awaited_until = CASE WHEN l.expires_at > excluded.token THEN l.awaited_until END
  WHERE l.expires_at IS NULL OR l.expires_at <= excluded.token OR l.owner = excluded.owner";

/// The same for many, with one reading of the time for each.
const ACQUIRE_MANY: &str = "INSERT INTO {locks} AS l (lock_key, token, owner, expires_at, ttl, metadata)
 SELECT r.k, r.n, r.o, r.n + r.t, r.t, r.m FROM (
   SELECT decode(k, 'hex') AS k, {now} AS n, decode(o, 'hex') AS o, t, convert_from(decode(m, 'hex'), 'UTF8') AS m
   FROM json_to_recordset(CAST(:1 AS json)) AS r(k text, o text, t bigint, m text) OFFSET 0) r
 {unless_held}
 RETURNING lock_key, {columns}";

/// The same, and where somebody else holds the lock a mark is left, and the row given as it is now. So there is
/// always one.
const ACQUIRE_OR_MARK: &str = "INSERT INTO {locks} AS l (lock_key, token, owner, expires_at, ttl, metadata)
 VALUES (:1, {now}, :2, {now} + :3, :3, :4)
 ON CONFLICT (lock_key) DO UPDATE SET
   token = CASE WHEN l.expires_at > excluded.token THEN l.token ELSE greatest(l.token + 1, excluded.token) END,
   owner = CASE WHEN l.expires_at > excluded.token THEN l.owner ELSE excluded.owner END,
   expires_at = CASE WHEN l.expires_at > excluded.token AND l.owner IS DISTINCT FROM excluded.owner THEN l.expires_at
     ELSE greatest(l.expires_at, excluded.expires_at) END,
   ttl = CASE WHEN NOT l.expires_at > excluded.token OR l.expires_at IS NULL THEN excluded.ttl
     WHEN l.owner = excluded.owner THEN greatest(l.ttl, excluded.ttl) ELSE l.ttl END,
   metadata = CASE WHEN l.expires_at > excluded.token AND l.owner IS DISTINCT FROM excluded.owner THEN l.metadata
     ELSE excluded.metadata END,
   awaited_until = CASE WHEN NOT l.expires_at > excluded.token OR l.expires_at IS NULL THEN NULL
     WHEN l.owner = excluded.owner THEN l.awaited_until
     ELSE greatest(l.awaited_until, l.expires_at + 1000000, excluded.token + 1001000) END
 RETURNING CASE WHEN l.owner = :2 THEN l.token ELSE 0 END, {columns}";

/// Keys stand in an array of their own, so that rows are found by the index however many the server
/// thinks the list has.
const RENEW: &str =
    "UPDATE {locks} l SET expires_at = greatest(l.expires_at, {now} + :2), ttl = greatest(l.ttl, :2)
 WHERE l.lock_key = ANY ({keys}) AND (l.lock_key, l.owner, l.token) IN (
   SELECT decode(k, 'hex'), decode(o, 'hex'), n
   FROM json_to_recordset(CAST(:1 AS json)) AS r(k text, o text, n bigint))
   AND l.expires_at > {now}";

const STANDING: &str =
    "SELECT lock_key, owner, token, CASE WHEN expires_at > 0 THEN expires_at - {now} END FROM {locks}
 WHERE lock_key = ANY ({keys})";

const HELD: &str = "SELECT lock_key, token FROM {locks} WHERE lock_key = ANY ({keys}) AND expires_at > {now}";

/// The keys of a list.
const KEYS: &str = "ARRAY(SELECT decode(k, 'hex') FROM json_to_recordset(CAST(:1 AS json)) AS r(k text))";

/// Announcing takes a lock of the whole database at commit, so it is done only when somebody waits. It gives an
/// empty text, so it has a place where one is written anyway, and no row need be given.
const ANNOUNCE: &str = "CASE WHEN awaited_until > {now} THEN CAST(pg_notify('{channel}', encode(lock_key, 'hex')) AS text) ELSE '' END";

const RELEASE: &str = "UPDATE {locks} SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = {announce}
 WHERE lock_key = :1 AND owner = :2 AND expires_at > {now}";

/// Rows are locked in the order of their keys before any is changed.
const RELEASE_MANY: &str = "WITH r AS MATERIALIZED (
   SELECT decode(k, 'hex') AS k, decode(o, 'hex') AS o, i
   FROM json_to_recordset(CAST(:1 AS json)) AS r(k text, o text, i int)),
 mine AS MATERIALIZED (
   SELECT lock_key FROM {locks} WHERE lock_key = ANY (ARRAY(SELECT k FROM r)) AND (lock_key, owner) IN (SELECT k, o FROM r)
   ORDER BY lock_key FOR UPDATE),
 freed AS (
   UPDATE {locks} l SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = {announce}
   FROM r WHERE l.lock_key = ANY (ARRAY(SELECT lock_key FROM mine)) AND l.lock_key = r.k AND l.owner = r.o
     AND l.expires_at > {now}
   RETURNING r.i)
 SELECT coalesce(sum(CAST(1 AS bigint) << i), 0)::bigint FROM freed";

const FORCE: &str = "UPDATE {locks}
 SET token = CASE WHEN token < {last_token} THEN greatest(token + 1, {now}) ELSE {now} END,
   owner = NULL, expires_at = NULL, ttl = NULL, metadata = {announce}
 WHERE lock_key = :1 AND token = :2";

const HAND_OVER: &str = "UPDATE {locks}
 SET token = greatest(token + 1, {now}), owner = :4, expires_at = {now} + :5, ttl = :5, metadata = :6
 WHERE lock_key = :1 AND owner = :2 AND token = :3 AND expires_at > {now}
 RETURNING token";

const MARK: &str = "UPDATE {locks}
 SET awaited_until = greatest(awaited_until, expires_at + 1000000, {now} + 1001000)
 WHERE lock_key = :1 AND expires_at > {now}";

/// Rows that somebody is about to use are left alone.
const PRUNE: &str = "DELETE FROM {locks} WHERE lock_key IN (
 SELECT lock_key FROM {locks} WHERE lock_key > :1 AND lock_key <= :2
   AND token < {now} - :3 AND (expires_at IS NULL OR expires_at <= {now})
 FOR UPDATE SKIP LOCKED)";

const PROBE: &str =
    "SELECT {now}, 'PostgreSQL ' || current_setting('server_version'), current_setting('synchronous_commit'),
 current_setting('fsync'), current_setting('transaction_isolation'), current_setting('full_page_writes'),
 CAST((SELECT count(*) FROM pg_stat_replication) AS text), current_setting('synchronous_standby_names')";

/// Programs that begin at the same time do it one after the other.
///
/// No checks on locks: each would be read and made ready again by every statement, a third of its work. What
/// a row says is checked when it is read.
const CREATE: &str = "BEGIN;
SET LOCAL lock_timeout = '10s';
SET LOCAL statement_timeout = '10s';
SELECT pg_advisory_xact_lock(7236837542171246707);
CREATE TABLE IF NOT EXISTS {locks} (
  lock_key bytea PRIMARY KEY,
  token bigint NOT NULL,
  owner bytea,
  expires_at bigint,
  ttl bigint,
  awaited_until bigint,
  metadata text NOT NULL DEFAULT ''
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE TABLE IF NOT EXISTS {claims} (
  lock_key bytea,
  owner bytea CHECK (octet_length(owner) = 16),
  token bigint,
  place bigint,
  expires_at bigint NOT NULL,
  ttl bigint NOT NULL,
  metadata text NOT NULL DEFAULT '',
  PRIMARY KEY (lock_key, owner)
);
CREATE TABLE IF NOT EXISTS {layout} (id int PRIMARY KEY CHECK (id = 1), version int NOT NULL);
INSERT INTO {layout} (id, version) VALUES (1, {version}) ON CONFLICT DO NOTHING;
COMMIT;
";

/// The statements on these tables.
pub(super) fn on(tables: &Tables) -> Statements {
    let channel = tables.channel();
    let names = [
        ("{announce}", ANNOUNCE),
        ("{channel}", channel.as_str()),
        ("{unless_held}", UNLESS_HELD),
        ("{gathers}", "1"),
        ("{keys}", KEYS),
        ("{now}", NOW),
        ("{last_token}", common::LAST_TOKEN),
        ("{locks}", tables.locks.as_str()),
        ("{claims}", tables.claims.as_str()),
        ("{layout}", tables.layout.as_str()),
        ("{version}", crate::server::LAYOUT_VERSION),
    ];
    let template = if tables.is_inline { Template::inline } else { Template::numbered };
    let texts = Texts { template, names: &names };
    Statements {
        layout: texts.of(common::LAYOUT),
        acquire: texts.of(ACQUIRE),
        acquire_many: texts.of(ACQUIRE_MANY),
        acquire_or_mark: texts.of(ACQUIRE_OR_MARK),
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
        probing: Probing { setup: texts.of(PROBE), replication: None, findings },
        create: texts.plain(CREATE),
    }
}

/// What settings endanger locks.
fn findings(settings: &[String], locks: KeptAs) -> Findings {
    let mut found = Vec::new();
    let mut say = |what: &str, fix: &str| found.push((what.to_owned(), fix.to_owned()));
    let is = |at: usize, value: &str| settings.get(at).is_some_and(|setting| setting == value);
    if is(0, "off") {
        say(
            "synchronous_commit is off: a crash of the server may forget the last grants, and give those locks to others",
            "ALTER ROLE … SET synchronous_commit = on, for the user of the locks",
        );
    }
    if is(1, "off") || is(3, "off") {
        say(
            "fsync or full_page_writes is off: a power cut may damage the data, or forget grants",
            "set both to on",
        );
    }
    if !is(2, "read committed") {
        say(
            "sessions of the application's pool have another isolation level than READ COMMITTED, so contended statements are repeated",
            "set default_transaction_isolation to 'read committed' for the user of the locks",
        );
    }
    match locks {
        KeptAs::Rows if settings.get(4).is_some_and(|standbys| standbys != "0") && is(5, "") => say(
            "standbys follow this server asynchronously: one that takes over may lack the last grants, and give those locks to others",
            "set synchronous_standby_names, or let the resource check tokens",
        ),
        KeptAs::Sessions if settings.get(4).is_some_and(|standbys| standbys != "0") => say(
            "standbys follow this server: one that takes over knows no locks of sessions, and gives those that are held to others",
            "let the resource check tokens, or use lease rows (postgres://) and set synchronous_standby_names",
        ),
        _ => {}
    }
    found
}
