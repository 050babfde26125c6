//! How the command ends: exit statuses, and which error gives which.

use std::process::ExitCode;

use distlock::{Error, ErrorKind};
use rustix::process::Signal;

/// The command's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for was done.
    Success,
    /// The check or the question had a negative result: failed cases, a declined question.
    Negative,
    /// The command line can't be carried out as it stands.
    BadUsage,
    /// A file that was given is damaged.
    BadData,
    /// The store can't be reached or can't serve now.
    Unreachable,
    /// The store refused, is set up wrongly or is damaged; or this machine refused.
    StoreError,
    /// Somebody else held the lock for as long as the caller would wait.
    Busy,
    /// The lock was lost while the command ran.
    Lost,
    /// The status of the command that was run.
    Command(u8),
}

impl Exit {
    /// The status as the shell sees it.
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::BadUsage => 64,
            Self::BadData => 65,
            Self::Unreachable => 69,
            Self::StoreError => 70,
            Self::Busy => 75,
            Self::Lost => 76,
            Self::Command(status) => status,
        }
    }

    /// The status after an interruption by this signal.
    pub(crate) fn by(signal: Signal) -> Self {
        Self::Command(128_u8.saturating_add(u8::try_from(signal.as_raw()).unwrap_or(0)))
    }

    /// The status for an error of this kind.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidKey
            | ErrorKind::InvalidOptions
            | ErrorKind::InvalidUrl
            | ErrorKind::FeatureDisabled => Self::BadUsage,
            ErrorKind::Unavailable
            | ErrorKind::Overloaded
            | ErrorKind::TooSlow
            | ErrorKind::NotReplicated => Self::Unreachable,
            ErrorKind::WaitTimeout => Self::Busy,
            ErrorKind::Lost => Self::Lost,
            _ => Self::StoreError,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

/// Why the command ends early: its status, and one line for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// The command line can't be carried out as it stands.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::BadUsage, message)
    }

    /// This machine refused something that must work.
    pub(crate) fn system(doing: &str, error: impl std::fmt::Display) -> Self {
        Self::new(Exit::StoreError, format!("{doing}: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(Exit::of(error.kind()), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_status() {
        for (kind, status) in [
            (ErrorKind::InvalidKey, 64),
            (ErrorKind::InvalidOptions, 64),
            (ErrorKind::InvalidUrl, 64),
            (ErrorKind::FeatureDisabled, 64),
            (ErrorKind::Unavailable, 69),
            (ErrorKind::Overloaded, 69),
            (ErrorKind::TooSlow, 69),
            (ErrorKind::Misconfigured, 70),
            (ErrorKind::Unsupported, 70),
            (ErrorKind::PermissionDenied, 70),
            (ErrorKind::Corrupt, 70),
            (ErrorKind::Shutdown, 70),
            (ErrorKind::Other, 70),
            (ErrorKind::WaitTimeout, 75),
            (ErrorKind::Lost, 76),
        ] {
            assert_eq!(Exit::of(kind).status(), status, "{kind:?}");
        }
    }

    #[test]
    fn an_interruption_gives_the_shells_status() {
        assert_eq!(Exit::by(Signal::TERM).status(), 143);
    }

    #[test]
    fn a_commands_status_passes_through() {
        assert_eq!(Exit::Command(137).status(), 137);
        assert_eq!((Exit::Success.status(), Exit::Negative.status(), Exit::BadData.status()), (0, 1, 65));
    }
}
