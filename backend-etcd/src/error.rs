//! What the client crate's errors mean.

use std::error::Error as StdError;

use distlock_core::{Effect, Error, ErrorKind, Result};
use etcd_client::Error as EtcdError;

use crate::config::EtcdConfig;

/// What is said after [`close`](distlock_core::LockBackend::close).
pub(crate) const CLOSED: &str = "the connection to the store was closed";

/// What is said of a connection that ended in the middle of a call.
const BROKE: &str = "broke";

/// A call that failed, and what to do about it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) verdict: Verdict,
}

/// What to do after a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It certainly changed nothing, and another member may do it.
    Elsewhere,
    /// It may have been carried out, or may be yet.
    Doubtful,
    /// The same, and the connection is of no use any more.
    Broken,
    /// The credentials of the connection are outdated; nothing changed.
    Authenticate,
    /// The store answered that there is no such lease.
    NoLease,
    /// The store refused it, and would everywhere; nothing changed.
    Refused,
}

impl Failure {
    fn new(verdict: Verdict, kind: ErrorKind, message: impl Into<String>) -> Self {
        let is_doubtful = matches!(verdict, Verdict::Doubtful | Verdict::Broken);
        let effect = if is_doubtful { Effect::Unknown } else { Effect::None };
        Self { error: Error::new(kind, message).with_effect(effect), verdict }
    }

    pub(crate) fn closed() -> Self {
        Self::new(Verdict::Refused, ErrorKind::Shutdown, CLOSED)
    }

    /// No answer within the time limit.
    pub(crate) fn late(server: &str) -> Self {
        Self::new(
            Verdict::Doubtful,
            ErrorKind::Unavailable,
            format!("{server} did not answer in time; whether it acted is not known"),
        )
    }

    /// The connection was not open within the time limit.
    pub(crate) fn unreachable(server: &str) -> Self {
        Self::new(
            Verdict::Elsewhere,
            ErrorKind::Unavailable,
            format!("{server} can't be reached in time; see whether it runs and its address is right"),
        )
    }

    /// A stream ended before it had answered.
    pub(crate) fn ended() -> Self {
        Self::new(
            Verdict::Doubtful,
            ErrorKind::Unavailable,
            "the server ended the stream before it had answered; whether it acted is not known",
        )
    }

    /// The runtime ended in which it was sent for several callers.
    pub(crate) const fn cut_off(error: Error) -> Self {
        Self { error, verdict: Verdict::Doubtful }
    }

    /// Whether a record's lease was prolonged can't be said.
    pub(crate) fn unsettled() -> Self {
        Self::new(
            Verdict::Elsewhere,
            ErrorKind::Unavailable,
            "the cluster changed its leader meanwhile; whether the lock's lease was prolonged is not known",
        )
    }

    pub(crate) fn is_no_lease(&self) -> bool {
        self.verdict == Verdict::NoLease
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// What may be behind a connection that breaks as soon as it is used.
pub(crate) fn with_hint(error: Error, config: &EtcdConfig) -> Error {
    let hint = match (config.tls, &config.cert) {
        _ if error.kind() != ErrorKind::Unavailable || !error.message().contains(BROKE) => return error,
        (false, _) => "if the server speaks TLS, write etcds://",
        (true, None) => {
            "if the server wants a client certificate, name its file and its key's with `cert` and `key`"
        }
        (true, Some(_)) => "see whether the server trusts the client certificate",
    };
    let message = format!("{}; {hint}", error.message());
    Error::new(error.kind(), message).with_effect(error.effect()).caused_by(error)
}

/// An answer that no etcd server gives.
pub(crate) fn unreadable<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::Other,
        "the server's answer can't be understood; see whether it is an etcd server of version 3.4 or later",
    ))
}

/// What an error of the client crate means. `server` is named in the text.
pub(crate) fn classify(error: EtcdError, server: &str) -> Failure {
    let failure = match &error {
        EtcdError::GRpcStatus(status) if status.source().is_some() => of_transport(&error, server),
        EtcdError::GRpcStatus(status) => of_status(i32::from(status.code()), status.message(), server),
        EtcdError::TransportError(_) | EtcdError::IoError(_) => of_transport(&error, server),
        EtcdError::LeaseKeepAliveError(text) if text.contains("lease not found") => {
            Failure::new(Verdict::NoLease, ErrorKind::Other, "the lease is gone")
        }
        EtcdError::LeaseKeepAliveError(_) | EtcdError::WatchError(_) => Failure::ended(),
        EtcdError::InvalidArgs(_) | EtcdError::InvalidUri(_) => Failure::new(
            Verdict::Refused,
            ErrorKind::InvalidOptions,
            format!("{server} is no address of a server; write `host:port`"),
        ),
        _ => Failure::new(Verdict::Doubtful, ErrorKind::Other, format!("the call to {server} failed")),
    };
    Failure { error: failure.error.caused_by(error), ..failure }
}

/// Trouble on the way: of a connection that could not be opened nothing was sent.
fn of_transport(error: &EtcdError, server: &str) -> Failure {
    // The types in between are private to the client's own stack; their texts are what there is.
    let text = format!("{error:?}");
    if let Some(meaning) = of_handshake(&text) {
        return Failure::new(Verdict::Refused, ErrorKind::Misconfigured, format!("{server}: {meaning}"));
    }
    if text.contains("tls handshake eof") {
        return Failure::new(
            Verdict::Elsewhere,
            ErrorKind::Unavailable,
            format!("{server} ended the TLS handshake; see whether it speaks TLS, or etcd:// is meant"),
        );
    }
    if text.contains("ConnectError") {
        return Failure::new(
            Verdict::Elsewhere,
            ErrorKind::Unavailable,
            format!("{server} can't be reached; see whether it runs and its address is right"),
        );
    }
    Failure::new(
        Verdict::Broken,
        ErrorKind::Unavailable,
        format!("the connection to {server} {BROKE}; whether it acted is not known"),
    )
}

/// What a failed handshake's text means.
fn of_handshake(text: &str) -> Option<&'static str> {
    let has = |part: &str| text.contains(part);
    if has("NotValidForName") || has("not valid for name") {
        Some("the server's certificate is for another name; connect by a name that stands in it")
    } else if has("invalid peer certificate: Expired")
        || has("InvalidCertificate(Expired")
        || has("InvalidCertificate(NotValidYet")
    {
        Some(
            "the server's certificate has expired or is not valid yet; renew it, and see that the clocks are right",
        )
    } else if has("UnknownIssuer") || has("BadSignature") || has("CaUsedAsEndEntity") {
        Some("the server's certificate comes from an authority that is not trusted; name its file with `ca`")
    } else if has("InvalidCertificate") {
        Some("the server's certificate is refused; see the cause")
    } else if has("AlertReceived(CertificateRequired") || has("AlertReceived(BadCertificate") {
        Some(
            "the server wants a client certificate of its authority; name its file and its key's with `cert` and `key`",
        )
    } else if has("AlertReceived") || has("InvalidMessage") || has("InvalidContentType") {
        Some(
            "the server and this program don't agree on encryption; see the cause, and whether etcd:// is meant",
        )
    } else {
        None
    }
}

/// What a server answered.
fn of_status(code: i32, text: &str, server: &str) -> Failure {
    let has = |part: &str| text.contains(part);
    let refused = |kind, message: &str| Failure::new(Verdict::Refused, kind, message);
    let elsewhere = |message: String| Failure::new(Verdict::Elsewhere, ErrorKind::Unavailable, message);
    match code {
        _ if has("requested lease not found") => {
            Failure::new(Verdict::NoLease, ErrorKind::Other, "the lease is gone")
        }
        _ if has("database space exceeded") => refused(
            ErrorKind::Unavailable,
            "the store is full (NOSPACE) and grants nothing until somebody makes room: compact and defragment it or raise its quota, then disarm the alarm; releases still work",
        ),
        _ if has("too many requests") => refused(
            ErrorKind::Overloaded,
            "the store has too much to do; ask less often, or see why it is slow",
        ),
        _ if has("invalid auth token") || has("revision of auth store is old") => Failure::new(
            Verdict::Authenticate,
            ErrorKind::PermissionDenied,
            "the server does not know this connection's user any more; see whether user and password still hold",
        ),
        _ if has("invalid user ID or password") => refused(
            ErrorKind::PermissionDenied,
            "the server refused user and password; percent-encode special characters of a password in a URL",
        ),
        _ if has("user name is empty") => refused(
            ErrorKind::PermissionDenied,
            "the server wants a user and a password; write etcd://user:password@host",
        ),
        _ if has("permission denied") => refused(
            ErrorKind::PermissionDenied,
            "the user may not do that; grant it readwrite on the prefix of the locks: etcdctl role grant-permission ROLE --prefix=true readwrite NAMESPACE/",
        ),
        _ if has("authentication is not enabled") => refused(
            ErrorKind::Misconfigured,
            "a user is given, but the server has authentication switched off; leave the user out, or run `etcdctl auth enable`",
        ),
        _ if has("no leader") || has("not leader") => {
            elsewhere(format!("{server} knows no leader: most members are down, or an election is under way"))
        }
        _ if has("learner") || has("not capable") || has("server stopped") => {
            elsewhere(format!("{server} does not serve now"))
        }
        12 => refused(
            ErrorKind::Misconfigured,
            "the server does not know etcd's calls; see whether it is an etcd server of version 3.4 or later",
        ),
        3 | 9 | 11 => refused(ErrorKind::Other, "the store refused the request; see the cause"),
        // Timed out, leader changed, cut off: it may still be carried out.
        1 | 4 | 10 | 14 => Failure::new(
            Verdict::Doubtful,
            ErrorKind::Unavailable,
            format!(
                "{server} could not finish in time, as when the leader changes; whether it acted is not known"
            ),
        ),
        _ => Failure::new(Verdict::Doubtful, ErrorKind::Other, format!("{server} failed; see the cause")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(code: i32, text: &str) -> (Verdict, ErrorKind, Effect) {
        let failure = of_status(code, text, "h:1");
        (failure.verdict, failure.error.kind(), failure.error.effect())
    }

    #[test]
    fn what_changed_nothing_is_told_from_what_may_have() {
        use ErrorKind::{Misconfigured, Overloaded, PermissionDenied, Unavailable};
        for (code, text, wanted) in [
            (14, "etcdserver: no leader", (Verdict::Elsewhere, Unavailable, Effect::None)),
            (14, "etcdserver: leader changed", (Verdict::Doubtful, Unavailable, Effect::Unknown)),
            (14, "etcdserver: request timed out", (Verdict::Doubtful, Unavailable, Effect::Unknown)),
            (4, "context deadline exceeded", (Verdict::Doubtful, Unavailable, Effect::Unknown)),
            (8, "etcdserver: mvcc: database space exceeded", (Verdict::Refused, Unavailable, Effect::None)),
            (8, "etcdserver: too many requests", (Verdict::Refused, Overloaded, Effect::None)),
            (7, "etcdserver: permission denied", (Verdict::Refused, PermissionDenied, Effect::None)),
            (16, "etcdserver: invalid auth token", (Verdict::Authenticate, PermissionDenied, Effect::None)),
            (9, "etcdserver: authentication is not enabled", (Verdict::Refused, Misconfigured, Effect::None)),
        ] {
            assert_eq!(verdict(code, text), wanted, "{text}");
        }
        assert_eq!(verdict(5, "etcdserver: requested lease not found").0, Verdict::NoLease);
    }

    #[test]
    fn a_lease_that_is_gone_is_known_on_a_stream_too() {
        let failure = classify(EtcdError::LeaseKeepAliveError("lease not found".to_owned()), "h:1");
        assert!(failure.is_no_lease());
    }
}
