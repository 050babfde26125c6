//! Advisory locks of sessions.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use super::heard::{Heard, Reader};
use super::number::number;
use crate::postgres::connecting::settings;
use crate::server::{ServerConfig, SessionDialect, SessionStatements, Template, Value};

const NOW: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)";

/// Lock and token in one statement. If it fails, the session may have the lock all the same.
const TAKE: &str = "WITH got AS MATERIALIZED (
 SELECT n.slot, pg_try_advisory_lock(n.slot) AS is_free FROM (SELECT {number} AS slot) n),
bumped AS (
 INSERT INTO {tokens} AS t (slot, lock_key, token, owner, metadata)
 SELECT slot, :2, {now}, :3, :4 FROM got WHERE is_free
 ON CONFLICT (slot) DO UPDATE SET
   token = greatest(t.token + 1, excluded.token), owner = excluded.owner, metadata = excluded.metadata
  WHERE t.lock_key = excluded.lock_key
 RETURNING token)
SELECT CASE WHEN is_free THEN COALESCE((SELECT token FROM bumped), -1) ELSE 0 END, CAST(pg_backend_pid() AS bigint),
 CASE WHEN is_free THEN set_config('idle_session_timeout', :5, false) END FROM got";

const LIVE: &str =
    "SELECT CAST(pg_backend_pid() AS bigint), CASE WHEN CAST(:1 AS bytea) IS NULL THEN 0 ELSE 1 END,
 set_config('idle_session_timeout', :2, false)";

const FREE: &str = "SELECT CASE WHEN pg_advisory_unlock({number}) THEN 1 ELSE 0 END,
 set_config('idle_session_timeout', '0', false)";

/// Advisory locks that somebody holds alone.
const HELD: &str =
    "(SELECT CAST(pid AS bigint) AS pid, (CAST(classid AS bigint) << 32) | CAST(objid AS bigint) AS slot
 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";

const LOOK: &str = "SELECT COALESCE((SELECT h.pid FROM {held} h WHERE h.slot = n.slot), 0),
 t.lock_key, t.token, t.owner, t.metadata
 FROM (SELECT {number} AS slot, CAST(:2 AS bytea) AS lock_key) n LEFT JOIN {tokens} t ON t.slot = n.slot";

const LIST: &str =
    "SELECT t.lock_key, t.token, t.owner, t.metadata FROM {held} h JOIN {tokens} t ON t.slot = h.slot
 WHERE t.lock_key >= :1 AND t.lock_key > :2 AND t.lock_key < :3 ORDER BY t.lock_key LIMIT :4";

/// A session that holds another lock by now is left alone.
const END: &str = "SELECT CASE WHEN pg_terminate_backend(CAST(h.pid AS int)) THEN 1 ELSE 0 END
 FROM {held} h WHERE h.slot = {number} AND h.pid = :2";

const CREATE: &str = "BEGIN;
SET LOCAL lock_timeout = '10s';
SELECT pg_advisory_xact_lock(7236837542171246709);
CREATE TABLE IF NOT EXISTS {tokens} (
  slot bigint PRIMARY KEY,
  lock_key bytea NOT NULL CHECK (octet_length(lock_key) BETWEEN 1 AND 512),
  token bigint NOT NULL CHECK (token > 0),
  owner bytea NOT NULL CHECK (octet_length(owner) = 16),
  metadata text NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
COMMIT;
";

impl SessionDialect for Postgres {
    type Line = Heard;
    type Ear = Reader;

    const SESSION_BACKEND: &'static str = "postgres-advisory";

    fn session_statements(tokens: &str, _: &str) -> SessionStatements {
        let number = number(":1");
        let names = [("{held}", HELD), ("{number}", number.as_str()), ("{now}", NOW), ("{tokens}", tokens)];
        let plain = |text: &str| {
            names.iter().fold(text.to_owned(), |text, (name, meaning)| text.replace(name, meaning))
        };
        let of = |text: &str| Template::numbered(&plain(text));
        SessionStatements {
            id: of("SELECT CAST(pg_backend_pid() AS bigint)"),
            take: of(TAKE),
            limit: None,
            bump: None,
            live: of(LIVE),
            free: of(FREE),
            look: of(LOOK),
            list: of(LIST),
            end: of(END),
            now: of("SELECT {now}"),
            create: plain(CREATE),
        }
    }

    fn idle_limit(ttl: Duration) -> Value {
        // At least one, since 0 is for ever.
        ttl.as_millis().max(1).min(i32::MAX as u128).to_string().into()
    }

    fn opening(config: &ServerConfig) -> ServerConfig {
        // A pooler in session mode takes no settings along with the greeting.
        config.clone().pooled(true)
    }

    async fn set_up_session(connection: &mut PgConnection, config: &ServerConfig) -> Result<(), sqlx::Error> {
        // One that need not wait for its commits would forget tokens in a crash.
        let mut script = "SELECT set_config('synchronous_commit', 'on', false) \
                          WHERE current_setting('synchronous_commit') = 'off'; "
            .to_owned();
        for (name, value) in settings(config) {
            script.push_str(&format!("SET {name} = '{value}'; "));
        }
        // The server looks for clients that have gone without a word while a statement runs.
        script.push_str("SET client_connection_check_interval = '2s'; SET tcp_keepalives_idle = 5; \
                      SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '11s'");
        sqlx::raw_sql(AssertSqlSafe(script)).execute(connection).await.map(drop)
    }
}
