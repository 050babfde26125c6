//! Named locks of sessions.

use std::time::Duration;

use sqlx::{MySql, MySqlConnection};

use super::sleeper::Sleeper;
use crate::hex::push_hex;
use crate::server::{Plain, ServerConfig, SessionDialect, SessionStatements, Template, Value};

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Names are the whole server's, at most 64 characters long, and the same in small and capital letters:
/// so 240 bits of a hash of database, table and key.
const NAME: &str = "CONCAT('dl', LEFT(SHA2(CONCAT(CAST(LOWER(DATABASE()) AS BINARY), 0x00, :1), 256), 60))";

const BUMP: &str =
    "INSERT INTO {tokens} (lock_key, token, owner, metadata) VALUES (:1, LAST_INSERT_ID({now}), :2, :3)
 ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token + 1, {now})), owner = :2, metadata = :3";

const LOOK: &str =
    "SELECT CAST(COALESCE(IS_USED_LOCK({name}), 0) AS SIGNED), t.lock_key, t.token, t.owner, t.metadata
 FROM (SELECT 1) one LEFT JOIN {tokens} t ON t.lock_key = :2";

/// As `live`, after a wait for another lock, which is given back as soon as it is got. Whether it was got is the third
/// column. MySQL takes whole seconds only, and would not wait at all for less than half of one; MariaDB, which alone
/// carries out such comments, takes microseconds.
const SLICE: &str = "SELECT CONNECTION_ID(), IF(IS_USED_LOCK({name}) = CONNECTION_ID(), 1, 0),
 IF(GET_LOCK(:2, CEILING(:3 / 1000 /*M! * 1000000 */) /*M! / 1000000 */) = 1, RELEASE_LOCK(:2), 0)";

/// The server does not list such locks, so it is asked for each that has a token.
const LIST: &str = "SELECT lock_key, token, owner, metadata FROM {tokens}
 WHERE lock_key >= :1 AND lock_key > :2 AND lock_key < :3 AND IS_USED_LOCK({name_of_row}) IS NOT NULL
 ORDER BY lock_key LIMIT :4";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {tokens} (
  lock_key VARBINARY(512) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0),
  owner BINARY(16) NOT NULL,
  metadata VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC";

/// Shows that the session lives after a while, or at once when another lock becomes free. Name, other lock, milliseconds.
/// Gives what `live` gives, and whether the other lock was got.
pub(super) fn slice() -> Template {
    Template::in_order(&SLICE.replace("{name}", NAME))
}

/// Asks which session holds the lock of this name: 0 if there is none.
pub(super) fn holder(name: &[u8]) -> String {
    let mut literal = "0x".to_owned();
    push_hex(&mut literal, name);
    format!("SELECT CAST(COALESCE(IS_USED_LOCK({}), 0) AS SIGNED)", NAME.replace(":1", &literal))
}

impl SessionDialect for MySql {
    type Line = Plain<MySqlConnection>;
    type Ear = Sleeper;

    const SESSION_BACKEND: &'static str = "mysql-named";

    fn session_statements(tokens: &str, space: &str) -> SessionStatements {
        let name_of_row = NAME.replace(":1", &format!("'{space}', 0x00, lock_key"));
        let names =
            [("{name}", NAME), ("{name_of_row}", name_of_row.as_str()), ("{now}", NOW), ("{tokens}", tokens)];
        let plain = |text: &str| {
            names.iter().fold(text.to_owned(), |text, (name, meaning)| text.replace(name, meaning))
        };
        let of = |text: &str| Template::in_order(&plain(text));
        SessionStatements {
            id: of("SELECT CONNECTION_ID()"),
            take: of("SELECT GET_LOCK({name}, 0), CONNECTION_ID()"),
            limit: Some(of("SET SESSION wait_timeout = :1")),
            bump: Some(of(BUMP)),
            live: of("SELECT CONNECTION_ID(), IF(IS_USED_LOCK({name}) = CONNECTION_ID(), 1, 0)"),
            free: of("SELECT RELEASE_LOCK({name})"),
            look: of(LOOK),
            list: of(LIST),
            end: of("KILL :2"),
            now: of("SELECT {now}"),
            create: plain(CREATE),
        }
    }

    fn idle_limit(ttl: Duration) -> Value {
        // Whole seconds, and one more for what the server takes off; a year is its longest.
        let seconds = ttl.as_secs().saturating_add(2).min(31_536_000);
        i64::try_from(seconds).unwrap_or(31_536_000).into()
    }

    async fn set_up_session(_: &mut MySqlConnection, _: &ServerConfig) -> Result<(), sqlx::Error> {
        Ok(())
    }
}
