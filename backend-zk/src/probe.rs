//! Asking the servers how they are.

use std::sync::Arc;

use distlock_core::{Health, Result};

use crate::config::ZkConfig;
use crate::report::{Report, reports};
use crate::store::Store;

/// Asks the leader for a sign of life, and every server for its version and mode.
pub(crate) async fn probe(store: &Arc<Store>, config: Option<&ZkConfig>) -> Result<Health> {
    let generation = store.generation().await?;
    let before = store.clock.now();
    generation.session.sync(generation.names.root()).await?;
    let round_trip = store.clock.now().since(before);
    let given = generation.session.beats().longest_ttl() * 2;
    let Some((config, servers)) = config.zip(store.opener.servers()) else {
        return Ok(Health::new(None, round_trip));
    };
    let reports = reports(&servers, config).await?;
    let version = reports.iter().find_map(|report| report.field("Zookeeper version:"));
    let mut health = Health::new(version.map(str::to_owned), round_trip);
    if reports.iter().any(|report| report.field("Mode:") == Some("standalone")) {
        health = health.warn(
            "there is one server: while it is down nobody gets a lock, and a lost disk loses the tokens",
            "run three servers or more",
        );
    }
    for (server, report) in servers.iter().zip(&reports) {
        health = match report {
            Report::Silent => health.warn(
                format!("the server {server} gives no answer; once half of the servers are away nobody gets a lock"),
                format!("see that {server} runs and can be reached, or take it out of the URL"),
            ),
            Report::Idle => health.warn(
                format!("the server {server} serves nobody: it has no part in the ensemble, which bears the loss of fewer others"),
                format!("look into the log of {server}: it finds no leader, or too few of the others"),
            ),
            Report::Given(_) | Report::Kept => health,
        };
    }
    if given < config.session_timeout {
        health = health.warn(
            format!("the servers give sessions of {given:?} where {:?} are asked for, so that a lock's ttl is at most {:?}", config.session_timeout, given / 2),
            "raise maxSessionTimeout, or ask for less with session_timeout",
        );
    } else if given > config.session_timeout {
        health = health.warn(
            format!("the servers give sessions of {given:?} where {:?} are asked for, so that what a dead program leaves stays for longer", config.session_timeout),
            "lower minSessionTimeout, or ask for more with session_timeout",
        );
    }
    Ok(health)
}
