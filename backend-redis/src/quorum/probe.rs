//! How the servers are, each and all together.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Health, Result};
use futures_util::future::join_all;

use super::Quorum;
use super::ballot::majority;
use crate::connection::within;
use crate::probe;

/// Longest time for all that one server is asked.
const LIMIT: Duration = Duration::from_secs(2);

/// What every server reports, with its name; fails if too few answer.
pub(super) async fn probe(quorum: &Arc<Quorum>) -> Result<Health> {
    let asked = quorum.nodes.iter().map(|node| within(LIMIT, probe::probe(&node.backend.store)));
    let answers = join_all(asked).await;
    let mut failures = Vec::new();
    let mut healths = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Some(Ok(health)) => healths.push((at, health)),
            Some(Err(error)) => failures.push((at, error)),
            None => failures.push((at, Error::new(ErrorKind::Unavailable, "it did not answer in time"))),
        }
    }
    let needed = majority(quorum.nodes.len());
    if healths.len() < needed {
        return Err(quorum.unavailable(&failures));
    }
    let mut trips: Vec<_> = healths.iter().map(|(_, health)| health.round_trip).collect();
    trips.sort_unstable();
    // As long as an answer of the majority takes.
    let mut whole =
        Health::new(healths.iter().find_map(|(_, health)| health.version.clone()), trips[needed - 1]);
    for (at, error) in &failures {
        let left = healths.len() - needed;
        whole = whole.warn(
            format!(
                "{} can't be used ({}); {left} more may fail before locks do",
                quorum.nodes[*at].name,
                error.message()
            ),
            "bring it back",
        );
    }
    for (at, health) in healths {
        for warning in health.warnings {
            whole = whole.warn(format!("{}: {}", quorum.nodes[at].name, warning.what), warning.fix);
        }
    }
    if quorum.options.restart_holdoff.is_zero() {
        whole = whole.warn(
            "a server that is restarted votes at once, although it may have forgotten who has a lock: two holders are possible until the forgotten leases are over",
            "set restart_holdoff to the longest ttl in use; or keep a server that comes back away from clients for as long",
        );
    }
    Ok(whole)
}
