//! How calls fail, and what that means.

use distlock_core::{Effect, Error, ErrorKind};
use zookeeper_client::Error as ZkError;

/// Why a session is over for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The servers ended it, or can't be reached for so long that they will have.
    Expired,
    /// The servers refuse the credentials.
    Denied,
    /// It was closed here, or its runtime ended.
    Closed,
}

/// How a call failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// There is no such node.
    NoNode,
    /// The node has another version.
    OtherVersion,
    /// The session is over, and its nodes are or will be gone.
    Over(End),
    /// It was not sent.
    Unsent,
    /// It was sent, and nobody knows whether it happened.
    Unknown(Option<ZkError>),
    /// The server refused it.
    Refused(ZkError),
}

impl Failure {
    /// Whether the call certainly changed nothing.
    pub(crate) const fn has_no_effect(&self) -> bool {
        !matches!(self, Self::Unknown(_) | Self::Over(_))
    }
}

impl From<ZkError> for Failure {
    fn from(error: ZkError) -> Self {
        match error {
            ZkError::NoNode => Self::NoNode,
            ZkError::BadVersion => Self::OtherVersion,
            ZkError::SessionExpired | ZkError::SessionMoved => Self::Over(End::Expired),
            ZkError::AuthFailed => Self::Over(End::Denied),
            ZkError::ClientClosed => Self::Over(End::Closed),
            ZkError::NoHosts
            | ZkError::Timeout
            | ZkError::ConnectionLoss
            | ZkError::UnexpectedError(_)
            | ZkError::UnmarshalError { .. }
            | ZkError::Custom(_) => Self::Unknown(Some(error)),
            _ => Self::Refused(error),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let effect = if failure.has_no_effect() { Effect::None } else { Effect::Unknown };
        let (kind, message, source) = match failure {
            Failure::Over(End::Expired) => (
                ErrorKind::Unavailable,
                "the session with the servers ended, and the locks held in it; a new one is opened when it is needed",
                None,
            ),
            Failure::Over(End::Denied) => (ErrorKind::PermissionDenied, DENIED, None),
            Failure::Over(End::Closed) => (
                ErrorKind::Unavailable,
                "the session was closed; a new one is opened when it is needed",
                None,
            ),
            Failure::Unsent => (
                ErrorKind::Unavailable,
                "no server can be reached; see that they run and have a leader",
                None,
            ),
            Failure::Unknown(source) => (
                ErrorKind::Unavailable,
                "the servers did not answer in time, or the connection broke; whether they acted is not known",
                source,
            ),
            Failure::Refused(source) => {
                let (kind, message) = refusal(&source);
                (kind, message, Some(source))
            }
            Failure::NoNode | Failure::OtherVersion => (
                ErrorKind::Unavailable,
                "somebody removes the lock's nodes all the time; see what else uses this path",
                None,
            ),
        };
        let error = Self::new(kind, message).with_effect(effect);
        match source {
            Some(source) => error.caused_by(source),
            None => error,
        }
    }
}

const DENIED: &str = "the servers refused user and password, or want SASL, which this backend does not speak; see the servers' log";

fn refusal(error: &ZkError) -> (ErrorKind, &'static str) {
    match error {
        ZkError::NoAuth => (
            ErrorKind::PermissionDenied,
            "the user may not do that; the nodes under the locks' path need create, delete, read and write for it (see the option acl)",
        ),
        ZkError::InvalidAcl => (
            ErrorKind::Misconfigured,
            "the servers refuse the access list; acl=creator needs a user and a password in the URL",
        ),
        ZkError::Throttled | ZkError::QuotaExceeded => {
            (ErrorKind::Overloaded, "the servers are at a limit of theirs; see their quotas and throttling")
        }
        ZkError::NotReadOnly => (
            ErrorKind::Unavailable,
            "the server has lost its leader and serves reads alone; it takes writes when one is elected",
        ),
        ZkError::Unimplemented => (
            ErrorKind::Misconfigured,
            "the server is too old or does not allow an operation; locks need ZooKeeper 3.6 or later",
        ),
        ZkError::NoChildrenForEphemerals => (
            ErrorKind::Corrupt,
            "the path of the locks leads through a node that ends with somebody's session; choose another path",
        ),
        _ => (ErrorKind::Other, "the server refused a request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_may_have_acted_and_a_refusal_has_not() {
        let error = Error::from(Failure::from(ZkError::ConnectionLoss));
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
        let error = Error::from(Failure::from(ZkError::NoAuth));
        assert_eq!((error.kind(), error.effect()), (ErrorKind::PermissionDenied, Effect::None));
        let error = Error::from(Failure::Unsent);
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None));
        assert!(Error::from(Failure::from(ZkError::SessionExpired)).is_retryable());
    }
}
