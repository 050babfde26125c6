//! Which failures another try may cure.

use std::time::Duration;

use distlock_core::{Clock, Effect, Instant};
use redis::{ErrorKind, RedisError, Value};

use super::Failure;

/// Between two tries of one call.
const PAUSE: Duration = Duration::from_millis(25);

/// What servers say while they change places.
const CHANGING_PLACES: &[&str] = &["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK"];

/// How a replica's refusal of one command stands within a script's error.
const OF_A_REPLICA: &str = ": -READONLY You can't write against a read only replica";

/// How long one call is tried. Only what certainly changed nothing is sent again, so a call's effect
/// is never hidden.
#[derive(Debug)]
pub(super) struct Patience {
    clock: Clock,
    until: Instant,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        let clock = Clock::system();
        Self { until: clock.now().plus(limit), clock }
    }

    /// Whether to try again.
    pub(super) fn bears(&self, failure: &Failure) -> bool {
        failure.effect == Effect::None && !is_lasting(&failure.error) && self.clock.now() < self.until
    }

    /// Gives the servers time.
    pub(super) async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Bounds what may be dropped at any point: questions, and calls whose caller says that they may have
/// been carried out.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = tokio::time::sleep(limit) => None,
    }
}

/// Whether somebody has to change something before another try can work.
pub(super) fn is_lasting(error: &RedisError) -> bool {
    match error.code() {
        Some(_) => !is_answer_of_changing_places(error),
        None => !matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound),
    }
}

/// Whether a server said that it is not, or not yet, the one to ask.
pub(super) fn is_answer_of_changing_places(error: &RedisError) -> bool {
    error.code().is_some_and(|code| CHANGING_PLACES.contains(&code)) || was_refused_in_a_script(error)
}

/// Whether a script ended at its first write because the server is a replica, as servers before
/// version 7 say it: so it changed nothing.
pub(super) fn was_refused_in_a_script(error: &RedisError) -> bool {
    error.code() == Some("ERR")
        && error.detail().is_some_and(|detail| {
            detail.starts_with("Error running script (call to ") && detail.contains(OF_A_REPLICA)
        })
}

/// Whether a server said that it is a replica. Servers before version 7 say it within a script's error.
pub(super) fn is_of_a_replica(error: &RedisError) -> bool {
    error.code().is_some_and(|code| matches!(code, "READONLY" | "MASTERDOWN"))
        || error.detail().is_some_and(|detail| detail.contains("READONLY "))
}

/// Whether an answer shows that the server is the one to ask.
pub(super) fn shows_the_right_server(result: &Result<Value, Failure>) -> bool {
    match result {
        Ok(_) => true,
        Err(failure) => {
            let error = &failure.error;
            error.code().is_some() && !is_answer_of_changing_places(error) && !is_of_a_replica(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ServerErrorKind;

    #[test]
    fn a_replica_is_known_by_what_it_says() {
        let within = "Error running script (call to f_1): @user_script:9: -READONLY You can't write against a read only replica.";
        let old = RedisError::from((
            ErrorKind::Server(ServerErrorKind::ResponseError),
            "An error",
            within.to_owned(),
        ));
        let failure = Failure::after_send(old.clone());
        assert_eq!(failure.effect, Effect::None, "the first write was refused, and so nothing written");
        assert!(Patience::new(Duration::from_secs(60)).bears(&failure));
        assert!(is_of_a_replica(&old) && !shows_the_right_server(&Err(failure)));
        // Whoever raises something alike may have written before.
        let alike = "user_script:1: -READONLY You can't write against a read only replica.";
        let kind = ErrorKind::Server(ServerErrorKind::ResponseError);
        let alike = RedisError::from((kind, "An error", alike.to_owned()));
        assert_eq!(Failure::after_send(alike).effect, Effect::Unknown);
        assert!(is_of_a_replica(&RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "no"))));
        assert!(!is_of_a_replica(&RedisError::from((ErrorKind::Server(ServerErrorKind::NoScript), "no"))));
    }

    #[test]
    fn only_what_changed_nothing_and_may_pass_is_tried_again() {
        let patience = Patience::new(Duration::from_secs(60));
        let refused = |kind| Failure::after_send(RedisError::from((ErrorKind::Server(kind), "no")));
        assert!(patience.bears(&refused(ServerErrorKind::ReadOnly)));
        assert!(patience.bears(&refused(ServerErrorKind::Moved)));
        assert!(!patience.bears(&refused(ServerErrorKind::NoScript)));
        assert!(!patience.bears(&refused(ServerErrorKind::TryAgain)), "another try with fewer keys helps");
        assert!(!patience.bears(&Failure::taken_over()), "it may have been carried out");
        assert!(patience.bears(&Failure::unsent(Failure::taken_over().error)));
        assert!(!patience.bears(&Failure::closed()));
        assert!(!Patience::new(Duration::ZERO).bears(&refused(ServerErrorKind::ReadOnly)));
    }
}
