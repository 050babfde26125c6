//! What Redis' errors mean for a lock.

use std::error::Error as StdError;

use distlock_core::{Effect, Error, ErrorKind, Result};
use redis::{ErrorKind as RedisKind, RedisError};

use crate::connection::{Failure, tls};

/// What every call says after the backend was closed.
pub(crate) const CLOSED: &str = "the backend was closed; connect again";

/// What an opening says when the provider of credentials has none.
pub(crate) const NO_CREDENTIALS: &str = "the credentials provider gave no credentials";

/// What a Sentinel's refusal says.
pub(crate) const SENTINEL_CREDENTIALS: &str = "the Sentinels refused user and password";

/// What an opening says of a server that throws keys away.
pub(crate) const EVICTS: &str = "the server throws keys away when its memory is full";

/// Codes with which a server refuses a script before it writes anything.
pub(crate) const REFUSALS: &[&str] = &[
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "WRONGPASS",
];

/// Says what a failed command means and what to do about it.
pub(crate) fn classify(failure: Failure) -> Error {
    let Failure { error, effect } = failure;
    if error.kind() == RedisKind::InvalidClientConfig && error.to_string().contains(EVICTS) {
        return evicting(error.detail().unwrap_or_default());
    }
    let (kind, message) = match error.code() {
        Some(code) => of_code(code, error.detail().unwrap_or_default()),
        None => of_connection(&error, effect),
    };
    Error::new(kind, message).with_effect(effect).caused_by(error)
}

/// Says why a connection can't even be tried.
pub(crate) fn classify_opening(error: RedisError) -> Error {
    let message =
        "the client refuses these connection settings; see the crate's documentation for addresses and TLS";
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None).caused_by(error)
}

/// The error for a server that throws keys away by this policy.
pub(crate) fn evicting(policy: &str) -> Error {
    let message = format!(
        "{EVICTS} (maxmemory-policy {policy}), locks among them; set maxmemory-policy to noeviction, or accept it with allow_eviction=true"
    );
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None)
}

/// The error for a record that is not one of ours.
pub(crate) fn damaged() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the store has something under this lock's name that is not distlock's, or is damaged; see who else uses this prefix, then delete the record or take the lock away with force-unlock",
    )
    .with_effect(Effect::None)
}

/// The error for an answer that no script of ours gives.
pub(crate) fn unreadable<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::Corrupt,
        "the server's answer can't be read; see whether a proxy stands between that does not pass scripts through",
    ))
}

/// Whether a script's records are on two nodes, since their slot is on its way: one by one they can be reached.
pub(crate) fn is_split(error: &Error) -> bool {
    let mut source = StdError::source(error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<RedisError>() {
            return cause.code() == Some("TRYAGAIN");
        }
        source = cause.source();
    }
    false
}

fn of_code(code: &str, detail: &str) -> (ErrorKind, &'static str) {
    match code {
        "READONLY" => (
            ErrorKind::Unavailable,
            "the server is a replica, which can't grant locks; connect to the master, or through Sentinel so that failovers are followed",
        ),
        "LOADING" => (ErrorKind::Unavailable, "the server still loads its data; it serves when that is done"),
        "BUSY" => (
            ErrorKind::Unavailable,
            "the server is busy with somebody's script; SCRIPT KILL ends it if it lasts",
        ),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => (
            ErrorKind::Unavailable,
            "the servers are changing places, or one of them is down; with a Cluster, use redis+cluster://",
        ),
        "MOVED" | "ASK" => (
            ErrorKind::Unavailable,
            "another node of a Cluster has this lock; connect with redis+cluster://, and if you do, wait until its slots have moved",
        ),
        "NOREPLICAS" => (
            ErrorKind::Unavailable,
            "the server takes no writes while too few replicas follow it (min-replicas-to-write)",
        ),
        "MISCONF" => (
            ErrorKind::Unavailable,
            "the server takes no writes because it can't save to disk; see its log and its disk",
        ),
        "OOM" => (
            ErrorKind::Overloaded,
            "the server is at its memory limit; raise maxmemory or store less beside the locks",
        ),
        "NOAUTH" => {
            (ErrorKind::PermissionDenied, "the server wants a password; write redis://user:password@host")
        }
        "WRONGPASS" => (
            ErrorKind::PermissionDenied,
            "the server refused user and password; percent-encode special characters of a password in a URL",
        ),
        "NOPERM" => (
            ErrorKind::PermissionDenied,
            "the user may not do that; grant it ~PREFIX* &PREFIX* +@hash +@scripting +@pubsub +time +exists +pexpireat +ping +info +hello, with the prefix of the locks, and with Sentinel +role, in a Cluster +cluster|nodes +asking, for wait_replicas +wait, to list and take away locks +scan +del",
        ),
        "CROSSSLOT" => {
            (ErrorKind::Misconfigured, "the server is part of a Cluster; connect with redis+cluster://")
        }
        _ if detail.contains("WRONGTYPE") || code == "WRONGTYPE" => (
            ErrorKind::Corrupt,
            "the store has something under this lock's name that is not distlock's; choose another prefix",
        ),
        // What servers before 7 pass on of an error within a script.
        _ if detail.contains("READONLY") => of_code("READONLY", ""),
        _ if detail.contains("OOM ") => of_code("OOM", ""),
        _ if detail.contains("NOPERM") => of_code("NOPERM", ""),
        _ => of_text(detail),
    }
}

/// What a refusal without a code of its own says of a URL that means another kind of server.
fn of_text(text: &str) -> (ErrorKind, &'static str) {
    let unknown = text.strip_prefix("unknown command ").map(|name| name.trim_start_matches(['\'', '`']));
    match unknown {
        Some(name) if name.starts_with("SENTINEL") => (
            ErrorKind::Misconfigured,
            "the server is no Sentinel; name the Sentinels, which listen at port 26379 unless set up otherwise",
        ),
        Some(_) => (
            ErrorKind::Misconfigured,
            "the server lacks a command that locks need; a Sentinel does, and is named by redis+sentinel://h1,h2,h3/master; else see what was renamed or switched off",
        ),
        None if text.contains("cluster support disabled") => {
            (ErrorKind::Misconfigured, "the server is not part of a Cluster; connect with redis://")
        }
        None if text.contains("DB index is out of range") => (
            ErrorKind::Misconfigured,
            "the server has no database of that number; see `databases` in its configuration",
        ),
        None => (ErrorKind::Other, "the server refused a command"),
    }
}

fn of_connection(error: &RedisError, effect: Effect) -> (ErrorKind, &'static str) {
    match error.kind() {
        RedisKind::Client if effect == Effect::None && error.to_string().contains(CLOSED) => {
            (ErrorKind::Shutdown, CLOSED)
        }
        RedisKind::Client if error.to_string().contains(NO_CREDENTIALS) => {
            (ErrorKind::Unavailable, "the credentials provider gave no credentials; see the cause")
        }
        RedisKind::AuthenticationFailed if error.to_string().contains(SENTINEL_CREDENTIALS) => (
            ErrorKind::PermissionDenied,
            "the Sentinels want a user or a password of their own; give the options sentinel_user and sentinel_password",
        ),
        RedisKind::AuthenticationFailed => (
            ErrorKind::PermissionDenied,
            "the server refused user and password; percent-encode special characters of a password in a URL",
        ),
        RedisKind::MasterNameNotFoundBySentinel => (
            ErrorKind::Misconfigured,
            "the Sentinels know no master of that name; see `sentinel monitor` in their configuration",
        ),
        RedisKind::RESP3NotSupported => (
            ErrorKind::Misconfigured,
            "the server does not know the protocol RESP3; it takes Redis 6 or later, or Valkey",
        ),
        RedisKind::InvalidClientConfig => {
            (ErrorKind::Misconfigured, "the connection's settings contradict each other")
        }
        _ if effect == Effect::None => unsent(error),
        _ if error.is_timeout() => {
            (ErrorKind::Unavailable, "the server did not answer in time; whether it acted is not known")
        }
        _ => (ErrorKind::Unavailable, "the connection broke; whether the server acted is not known"),
    }
}

/// Why a command could not be sent.
fn unsent(error: &RedisError) -> (ErrorKind, &'static str) {
    if error.is_connection_refusal() {
        return (
            ErrorKind::Unavailable,
            "nobody listens at the server's address; see that it runs and that host and port are right",
        );
    }
    if let Some(meaning) = tls::meaning(&error.to_string()) {
        return (ErrorKind::Misconfigured, meaning);
    }
    let meaning = if error.is_timeout() {
        "the server can't be reached in time; see that it runs, that the network lets through, and that it speaks TLS if rediss:// is meant, and none with redis://"
    } else if error.is_connection_dropped() {
        "the server closed the connection at once; see its log, and whether it wants rediss:// instead of redis://"
    } else {
        "the server can't be reached; see that it runs and that the network lets through"
    };
    (ErrorKind::Unavailable, meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: RedisKind, text: &'static str) -> Failure {
        Failure::after_send(RedisError::from((kind, text)))
    }

    #[test]
    fn silence_may_have_acted_and_a_refusal_has_not() {
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let error = classify(Failure::after_send(broken.clone()));
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
        let error = classify(Failure::unsent(broken));
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None));
        let refused = failure(RedisKind::Server(redis::ServerErrorKind::ReadOnly), "replica");
        let error = classify(refused);
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None));
        assert!(error.to_string().contains("replica"), "{error}");
    }

    #[test]
    fn a_missing_right_may_have_stopped_a_script_halfway() {
        let error = classify(failure(RedisKind::Server(redis::ServerErrorKind::NoPerm), "no"));
        assert_eq!((error.kind(), error.effect()), (ErrorKind::PermissionDenied, Effect::Unknown));
    }

    #[test]
    fn a_sentinel_that_is_taken_for_a_server_is_named() {
        for text in ["unknown command 'EVALSHA', with args", "unknown command `EVALSHA`, with args"] {
            let (kind, message) = of_code("ERR", text);
            assert_eq!(kind, ErrorKind::Misconfigured);
            assert!(message.contains("redis+sentinel://"), "{message}");
        }
    }

    #[test]
    fn a_closed_backend_says_so() {
        let error = classify(Failure::unsent(RedisError::from((RedisKind::Client, CLOSED))));
        assert_eq!(error.kind(), ErrorKind::Shutdown);
    }
}
