//! What the driver's errors mean for a lock.

use std::io;

use distlock_core::{Effect, Error, ErrorKind};

use super::dialect::{Dialect, Meaning, Then};

/// What every call says after the backend was closed.
pub(crate) const CLOSED: &str = "the backend was closed; connect again";

/// An error, and what to do about it before anybody is told.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) error: Error,
    pub(crate) then: Then,
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        trouble.error
    }
}

impl Trouble {
    /// The same, but the server may have acted all the same.
    pub(crate) fn in_doubt(mut self) -> Self {
        self.error = self.error.with_effect(Effect::Unknown);
        self
    }
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Opening,
    Running,
}

/// Says what a failure means and what to do about it.
pub(crate) fn classify<D: Dialect>(error: sqlx::Error, doing: Doing) -> Trouble {
    let mut meaning = match &error {
        sqlx::Error::Database(error) => D::meaning(error.as_ref()),
        // How the driver's encryption says that it does not trust the server's certificate.
        sqlx::Error::Io(error) if doing == Doing::Opening && error.kind() == io::ErrorKind::InvalidData => {
            unencrypted()
        }
        sqlx::Error::Io(error) => of_io(error, doing),
        sqlx::Error::Tls(_) => unencrypted(),
        sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_) => Meaning::new(
            ErrorKind::Misconfigured,
            Effect::None,
            "the connection's settings can't be used; see the cause",
        ),
        sqlx::Error::PoolTimedOut => Meaning::new(
            ErrorKind::Overloaded,
            Effect::None,
            "the application's pool had no connection in time: its connections are all in use, or the server is down",
        ),
        sqlx::Error::PoolClosed => {
            Meaning::new(ErrorKind::Shutdown, Effect::None, "the application closed its pool")
        }
        sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => Meaning::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server's answer can't be read; see whether it is the kind of server that the URL says, and what stands between",
        )
        .then(Then::Close),
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::TypeNotFound { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. } => Meaning::new(
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the table is not as distlock made it; see who changed it, or name another one by `table`",
        ),
        _ => Meaning::new(ErrorKind::Other, Effect::Unknown, "the driver failed; see the cause")
            .then(Then::Close),
    };
    if doing == Doing::Opening {
        meaning.effect = Effect::None;
    }
    Trouble {
        error: Error::new(meaning.kind, meaning.message).with_effect(meaning.effect).caused_by(error),
        then: meaning.then,
    }
}

const fn unencrypted() -> Meaning {
    Meaning::new(
        ErrorKind::Misconfigured,
        Effect::None,
        "no encrypted connection came about; see the cause, whether the server has encryption on, and whether `ca` names who signed its certificate",
    )
}

fn of_io(error: &io::Error, doing: Doing) -> Meaning {
    let message = match (doing, error.kind()) {
        (Doing::Running, _) => "the connection broke; whether the server acted is not known",
        (_, io::ErrorKind::ConnectionRefused) => {
            "nobody listens at the server's address; see that it runs and that host and port are right"
        }
        (_, io::ErrorKind::NotFound) => {
            "there is no such socket; see that the server runs and where its socket is"
        }
        (_, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            "the server closed the connection at once; see its log"
        }
        _ => "the server can't be reached; see that it runs and that the network lets through",
    };
    Meaning::new(ErrorKind::Unavailable, Effect::Unknown, message).then(Then::Close)
}

/// The error of a call that got no answer in time.
pub(crate) fn late(doing: Doing) -> Trouble {
    let (message, effect) = match doing {
        Doing::Opening => (
            "the server can't be reached in time; see that it runs and that the network lets through",
            Effect::None,
        ),
        Doing::Running => {
            ("the server did not answer in time; whether it acted is not known", Effect::Unknown)
        }
    };
    Trouble { error: Error::new(ErrorKind::Unavailable, message).with_effect(effect), then: Then::Close }
}

/// The error of a call that got no connection in time.
pub(crate) fn exhausted() -> Trouble {
    let message = "all connections were in use for as long as a statement may take; raise `connections`, or see why the server is slow";
    Trouble { error: Error::new(ErrorKind::Overloaded, message).with_effect(Effect::None), then: Then::Fail }
}

/// The error of a call after the backend was closed.
pub(crate) fn closed() -> Trouble {
    Trouble { error: Error::new(ErrorKind::Shutdown, CLOSED).with_effect(Effect::None), then: Then::Fail }
}
