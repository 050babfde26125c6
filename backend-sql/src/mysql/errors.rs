//! What the errors of MySQL and MariaDB mean.
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>

use distlock_core::{Effect, ErrorKind};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;

use crate::server::{Meaning, Then};

/// What an error means.
pub(super) fn meaning(error: &dyn DatabaseError) -> Meaning {
    of_number(error.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number))
}

fn of_number(number: u16) -> Meaning {
    let nothing = |kind, message| Meaning::new(kind, Effect::None, message);
    match number {
        // A deadlock; a row that changed since it was read, on MariaDB.
        1213 | 1020 => nothing(
            ErrorKind::Unavailable,
            "other transactions were in the way again and again; see who else writes to the table",
        )
        .then(Then::Again),
        1205 | 3572 => nothing(
            ErrorKind::Unavailable,
            "somebody keeps the lock's row or the table locked; end that transaction (information_schema.innodb_trx shows it)",
        )
        .then(Then::Again),
        // A statement that was cancelled or took too long.
        1317 | 1969 | 3024 => nothing(
            ErrorKind::Unavailable,
            "the server cancelled the statement, which took too long; see why it is slow",
        ),
        1290 | 1792 | 1836 | 3032 => nothing(
            ErrorKind::Unavailable,
            "the server takes no writes: it is a replica, or set to read_only; name the primary, or several servers, of which the one that takes writes is used",
        )
        .then(Then::Close),
        1040 | 1203 | 1226 => nothing(
            ErrorKind::Overloaded,
            "the server has no connection left; raise max_connections, or lower `connections` here and elsewhere",
        )
        .then(Then::Close),
        1021 | 1114 => nothing(ErrorKind::Unavailable, "the server's disk or table space is full; free some space"),
        1037 | 1038 | 1041 => nothing(ErrorKind::Overloaded, "the server is out of memory; see its log"),
        1044 | 1045 | 1130 | 1698 => nothing(
            ErrorKind::PermissionDenied,
            "the server refused user, password or this host; percent-encode special characters of a password in a URL",
        ),
        1142 | 1143 | 1227 => nothing(
            ErrorKind::PermissionDenied,
            "the user may not do that; grant it SELECT, INSERT, UPDATE and DELETE on the tables (`distlock schema --print` lists them), and CREATE on the database if they are to be created here",
        ),
        1049 => nothing(
            ErrorKind::Misconfigured,
            "there is no such database; name another one in the path of the URL, or create it",
        ),
        1146 => nothing(
            ErrorKind::Misconfigured,
            "the tables are missing; create them with `distlock schema --url …`, or let them be created with `create=on`",
        )
        .then(Then::Create),
        1665 => nothing(
            ErrorKind::Misconfigured,
            "the server's binary log has the format STATEMENT, which does not go with READ COMMITTED; set binlog_format to MIXED or ROW",
        ),
        1054 | 1072 | 1136 => nothing(
            ErrorKind::Misconfigured,
            "the tables are not as this version of distlock makes them; name others by `table`",
        ),
        1053 | 1077 | 1080 | 1152..=1161 | 1184 | 1927 | 4031 => Meaning::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server ended the connection; whether it acted is not known",
        )
        .then(Then::Close),
        1264 | 1366 | 1406 | 1690 | 3819 | 4025 => nothing(
            ErrorKind::Corrupt,
            "the lock's row holds what no version of distlock writes; force-unlock it, or delete the row",
        ),
        1034 | 1194 | 1712 => Meaning::new(
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server says that its data is damaged; see its log",
        ),
        _ => Meaning::new(ErrorKind::Other, Effect::Unknown, "the server refused a statement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_changed_nothing_and_broken_connections_may_have() {
        for (number, kind, effect, then) in [
            (1213, ErrorKind::Unavailable, Effect::None, Then::Again),
            (1205, ErrorKind::Unavailable, Effect::None, Then::Again),
            (1290, ErrorKind::Unavailable, Effect::None, Then::Close),
            (1927, ErrorKind::Unavailable, Effect::Unknown, Then::Close),
            (1146, ErrorKind::Misconfigured, Effect::None, Then::Create),
            (1142, ErrorKind::PermissionDenied, Effect::None, Then::Fail),
            (1040, ErrorKind::Overloaded, Effect::None, Then::Close),
            (4025, ErrorKind::Corrupt, Effect::None, Then::Fail),
            (1064, ErrorKind::Other, Effect::Unknown, Then::Fail),
        ] {
            let meaning = of_number(number);
            assert_eq!((meaning.kind, meaning.effect, meaning.then), (kind, effect, then), "{number}");
        }
    }
}
