//! Asking the servers how they are.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Health, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::ZkConfig;
use crate::store::Store;

/// Longest time for one server's report.
const PATIENCE: Duration = Duration::from_secs(1);
/// A report is not longer.
const REPORT: u64 = 16 * 1024;

/// Asks the leader for a sign of life, and servers for their version and mode.
pub(crate) async fn probe(store: &Arc<Store>, config: Option<&ZkConfig>) -> Result<Health> {
    let generation = store.generation().await?;
    let before = store.clock.now();
    generation.session.sync(generation.names.root()).await?;
    let round_trip = store.clock.now().since(before);
    let given = generation.session.beats().longest_ttl() * 2;
    let mut health;
    match config.zip(store.opener.servers()) {
        Some((config, servers)) => {
            let report = if config.tls { None } else { report(&servers).await };
            let field = |name: &str| {
                report
                    .as_deref()?
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(|value| value.trim().to_owned())
            };
            health = Health::new(field("Zookeeper version:"), round_trip);
            if field("Mode:").as_deref() == Some("standalone") {
                health = health.warn(
                    "there is one server: while it is down nobody gets a lock, and a lost disk loses the tokens",
                    "run three servers or more",
                );
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
        }
        None => health = Health::new(None, round_trip),
    }
    Ok(health)
}

/// The report of the first server that gives one. Servers may be set up not to.
async fn report(servers: &[String]) -> Option<String> {
    for server in servers {
        #[expect(clippy::disallowed_methods, reason = "a report that is dropped midway leaves nothing")]
        if let Ok(Ok(report)) = tokio::time::timeout(PATIENCE, ask(server)).await
            && report.contains("Mode:")
        {
            return Some(report);
        }
    }
    None
}

async fn ask(server: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"srvr").await?;
    let mut report = String::new();
    stream.take(REPORT).read_to_string(&mut report).await?;
    Ok(report)
}
