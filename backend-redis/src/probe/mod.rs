//! How the servers are doing, and whether they can be used at all.

mod findings;
pub(crate) mod report;

use std::collections::HashMap;

use distlock_core::{Effect, Error, ErrorKind, Health, Result};

use crate::config::{RedisConfig, Topology};
use crate::connection::Node;
use crate::error::{evicting, unreadable};
use crate::store::Store;
use findings::{Clocks, Findings};
use report::Report;

/// Settings that a report does not tell.
const SETTINGS: &[&str] = &["appendfsync", "save", "min-replicas-to-write"];

/// Asks every server how it is.
pub(crate) async fn probe(store: &Store) -> Result<Health> {
    let asked = store.clock.now();
    store.command(&redis::cmd("PING")).await?;
    let mut health = Health::new(None, store.clock.now().since(asked));
    let mut silent = Silent::default();
    for node in store.nodes().await? {
        let mut findings = Findings::of(&node);
        let looked = look_at(store, &node, &mut findings, &mut health).await;
        if silent.unless_silent(&node, looked)?.is_none() {
            findings.unreachable();
        }
        for (what, fix) in findings.take() {
            health = health.warn(what, fix);
        }
    }
    silent.check()?;
    Ok(health)
}

/// Asks one server.
async fn look_at(store: &Store, node: &Node, findings: &mut Findings, health: &mut Health) -> Result<()> {
    match report(store, node).await? {
        Some(report) => {
            health.version = health.version.take().or_else(|| report.version());
            findings.look_at(&report, &settings(store, node).await?);
            if report.is("cluster_enabled", "1") {
                findings.look_at_cluster(&cluster_state(store, node).await?);
            }
        }
        None => findings.without_report(),
    }
    if let Some(clocks) = allowed(clocks(store, node).await)? {
        findings.look_at_clocks(clocks);
    }
    Ok(())
}

/// The nodes of a Cluster that did not answer. The locks of the others go on.
#[derive(Debug, Default)]
struct Silent {
    trouble: Option<Error>,
    answered: bool,
}

impl Silent {
    /// What a node answered; none if it is one of several and can't be reached.
    fn unless_silent<T>(&mut self, node: &Node, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Err(error) if error.kind() == ErrorKind::Unavailable && !node.0.is_empty() => {
                self.trouble.get_or_insert(error);
                Ok(None)
            }
            answer => {
                self.answered = true;
                answer.map(Some)
            }
        }
    }

    /// Fails if all were silent.
    fn check(self) -> Result<()> {
        match self.trouble {
            Some(error) if !self.answered => Err(error),
            _ => Ok(()),
        }
    }
}

/// Refuses servers that lose locks as a matter of course, or can't grant any.
///
/// A server that does not tell is taken; the probe says so.
pub(crate) async fn refuse_unfit(store: &Store, config: &RedisConfig) -> Result<()> {
    let mut silent = Silent::default();
    for node in store.nodes().await? {
        let Some(report) = silent.unless_silent(&node, report(store, &node).await)?.flatten() else {
            continue;
        };
        if config.topology == Topology::Single && report.is("role", "slave") {
            return refuse(
                "the server is a replica, which can't grant locks; name its master, or connect through Sentinel",
            );
        }
        if let Some(policy) = report.evicts().filter(|_| !config.allow_eviction) {
            return Err(evicting(policy));
        }
    }
    silent.check()
}

/// What tells this run of a server from all others.
pub(crate) async fn run_id(store: &Store) -> Result<String> {
    let report = report(store, &Node::default()).await?;
    match report.as_ref().and_then(|report| report.field("run_id")) {
        Some(id) => Ok(id.to_owned()),
        None => refuse("the server does not say which one it is; grant +info to the user of the locks"),
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None))
}

/// What a server reports of itself, or `None` if the user may not ask. Managed servers that hide their
/// settings tell what matters most here.
async fn report(store: &Store, node: &Node) -> Result<Option<Report>> {
    Ok(match allowed(store.command_to(node, &redis::cmd("INFO")).await)? {
        Some(answer) => Some(Report::read(&answer).map_or_else(unreadable, Ok)?),
        None => None,
    })
}

/// The settings that can be read, by name.
async fn settings(store: &Store, node: &Node) -> Result<HashMap<&'static str, String>> {
    let mut settings = HashMap::new();
    for name in SETTINGS {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(name);
        let Some(answer) = allowed(store.command_to(node, &command).await)? else { continue };
        let values = redis::from_redis_value::<HashMap<String, String>>(answer).unwrap_or_default();
        if let Some(value) = values.into_values().next() {
            settings.insert(*name, value);
        }
    }
    Ok(settings)
}

async fn cluster_state(store: &Store, node: &Node) -> Result<Option<Report>> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("INFO");
    Ok(allowed(store.command_to(node, &command).await)?.and_then(|answer| Report::read(&answer)))
}

async fn clocks(store: &Store, node: &Node) -> Result<Clocks> {
    let asked = store.clock.now();
    let before = wall_micros();
    let server = store.server_time(node).await?;
    Ok(Clocks { before, server, took: store.clock.now().since(asked) })
}

/// `None` if the user may not do that, or the server does not know it.
fn allowed<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Other) => Ok(None),
        Err(error) => Err(error),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the server's for a warning, and used for nothing else"
)]
fn wall_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
