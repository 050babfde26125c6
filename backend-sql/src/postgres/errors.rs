//! What PostgreSQL's errors mean. <https://www.postgresql.org/docs/current/errcodes-appendix.html>

use distlock_core::{Effect, ErrorKind};
use sqlx::error::DatabaseError;

use crate::server::{Meaning, Then};

/// What an error means.
pub(super) fn meaning(error: &dyn DatabaseError) -> Meaning {
    of_code(error.code().as_deref().unwrap_or_default(), error.message())
}

fn of_code(code: &str, message: &str) -> Meaning {
    let nothing = |kind, message| Meaning::new(kind, Effect::None, message);
    match code {
        "40001" | "40P01" => nothing(
            ErrorKind::Unavailable,
            "other transactions were in the way again and again; see who else writes to the table",
        )
        .then(Then::Again),
        "55P03" => nothing(
            ErrorKind::Unavailable,
            "somebody keeps the lock's row or the table locked; end that transaction (pg_stat_activity and pg_locks show it)",
        ),
        "57014" => nothing(
            ErrorKind::Unavailable,
            "the server cancelled the statement, which took too long; see why it is slow",
        ),
        "25006" => nothing(
            ErrorKind::Unavailable,
            "the server takes no writes: it is a standby, or default_transaction_read_only is on; name the primary, or several servers, of which the one that takes writes is used",
        )
        .then(Then::Close),
        "57P03" | "57P05" => {
            nothing(ErrorKind::Unavailable, "the server is starting or stopping; it serves when that is done")
                .then(Then::Close)
        }
        "57P01" | "57P02" => Meaning::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server ended the connection; whether it acted is not known",
        )
        .then(Then::Close),
        "53300" => nothing(
            ErrorKind::Overloaded,
            "the server has no connection left; raise max_connections, or lower `connections` here and elsewhere",
        )
        .then(Then::Close),
        "53100" => nothing(ErrorKind::Unavailable, "the server's disk is full; free some space"),
        "53200" | "53400" => nothing(
            ErrorKind::Overloaded,
            "the server is at a limit of its memory or configuration; see its log",
        ),
        "28P01" | "28000" => nothing(
            ErrorKind::PermissionDenied,
            "the server refused user and password, or this host (pg_hba.conf); percent-encode special characters of a password in a URL",
        ),
        "42501" => nothing(
            ErrorKind::PermissionDenied,
            "the user may not do that; grant it SELECT, INSERT, UPDATE and DELETE on the tables (`distlock schema --print` lists them), and CREATE on the schema if they are to be created here",
        ),
        "3D000" => nothing(
            ErrorKind::Misconfigured,
            "there is no such database; name another one in the path of the URL, or create it",
        ),
        "3F000" => nothing(
            ErrorKind::Misconfigured,
            "there is no such schema; create it with CREATE SCHEMA, or name another one by `schema`",
        ),
        "42P01" => nothing(
            ErrorKind::Misconfigured,
            "the tables are missing; create them with `distlock schema --url …`, or let them be created with `create=on`",
        )
        .then(Then::Create),
        "08P01" if message.contains("startup parameter") => nothing(
            ErrorKind::Misconfigured,
            "a connection pooler stands in between that does not pass on settings; connect to the server itself, or let PgBouncer do so (ignore_startup_parameters = options)",
        ),
        "26000" | "42P05" => nothing(
            ErrorKind::Misconfigured,
            "a connection pooler stands in between that changes servers between statements; connect to the server itself, or by a pool in session mode",
        )
        .then(Then::Close),
        "0A000" if message.contains("cached plan") => nothing(
            ErrorKind::Unavailable,
            "the tables have just been changed; the next statement knows them",
        )
        .then(Then::Close),
        "42703" | "42804" | "42883" | "42P10" => nothing(
            ErrorKind::Misconfigured,
            "the tables are not as this version of distlock makes them; name others by `table`",
        ),
        "XX001" | "XX002" => Meaning::new(
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server says that its data is damaged; see its log",
        ),
        _ if code.starts_with("08") || code.starts_with("57") => Meaning::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server ended the connection; whether it acted is not known",
        )
        .then(Then::Close),
        _ if code.starts_with("22") || code.starts_with("23") => nothing(
            ErrorKind::Corrupt,
            "the lock's row holds what no version of distlock writes; force-unlock it, or delete the row",
        ),
        _ => Meaning::new(ErrorKind::Other, Effect::Unknown, "the server refused a statement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_changed_nothing_and_broken_connections_may_have() {
        for (code, kind, effect, then) in [
            ("40001", ErrorKind::Unavailable, Effect::None, Then::Again),
            ("25006", ErrorKind::Unavailable, Effect::None, Then::Close),
            ("57P01", ErrorKind::Unavailable, Effect::Unknown, Then::Close),
            ("42P01", ErrorKind::Misconfigured, Effect::None, Then::Create),
            ("42501", ErrorKind::PermissionDenied, Effect::None, Then::Fail),
            ("53300", ErrorKind::Overloaded, Effect::None, Then::Close),
            ("23514", ErrorKind::Corrupt, Effect::None, Then::Fail),
            ("XX000", ErrorKind::Other, Effect::Unknown, Then::Fail),
        ] {
            let meaning = of_code(code, "");
            assert_eq!((meaning.kind, meaning.effect, meaning.then), (kind, effect, then), "{code}");
        }
    }
}
