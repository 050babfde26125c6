//! Asking the server how it is.

use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{Clock, ErrorKind, Health, Result, Warning};

use super::statement::{Row, Statement, Template};

/// What a server is asked about itself, and what is to be said of its answers.
#[derive(Clone, Debug)]
pub(crate) struct Probing {
    /// The server's time, its version, then settings as texts.
    pub(crate) setup: Template,
    /// How others follow the server, as texts that come after the settings. It may lack what this takes, or keep it from
    /// this user.
    pub(crate) replication: Option<Template>,
    /// What is wrong with those settings, and what to do.
    pub(crate) findings: fn(&[String], KeptAs) -> Findings,
}

/// What is wrong, and what to do, for each.
pub(crate) type Findings = Vec<(String, String)>;

/// What a server keeps locks as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptAs {
    /// Rows, which a replica may have too.
    Rows,
    /// Something of a session's, in memory.
    Sessions,
}

/// Where statements are sent.
#[async_trait]
pub(super) trait Asked: Send {
    fn clock(&self) -> &Clock;

    async fn ask(&mut self, statement: Statement) -> Result<Vec<Row>>;
}

/// The server's version, and what is wrong with its set-up and its clock.
pub(super) async fn probe(server: &mut impl Asked, probing: &Probing, locks: KeptAs) -> Result<Health> {
    let (begun, before) = (server.clock().now(), wall_time());
    let setup = server.ask(probing.setup.with([])).await?;
    let took = server.clock().now().since(begun);
    let mut settings = setup.first().map_or(Ok(Vec::new()), |row| texts(row, 1))?;
    let time = setup.first().map(|row| row.int(0)).transpose()?;
    let version = (!settings.is_empty()).then(|| settings.remove(0));
    if let Some(replication) = &probing.replication {
        match server.ask(replication.with([])).await {
            Ok(rows) => settings.extend(rows.first().map_or(Ok(Vec::new()), |row| texts(row, 0))?),
            Err(error) if is_about_the_server(error.kind()) => return Err(error),
            // It does not say.
            Err(_) => {}
        }
    }
    let mut health = Health::new(version, took);
    for (what, fix) in (probing.findings)(&settings, locks) {
        health = health.warn(what, fix);
    }
    let time = time.map(|time| u64::try_from(time).map(Duration::from_micros).unwrap_or_default());
    if let Some(Warning { what, fix, .. }) = time.and_then(|time| Warning::of_clocks(time, before, took)) {
        health = health.warn(what, fix);
    }
    Ok(health)
}

fn texts(row: &Row, from: usize) -> Result<Vec<String>> {
    (from..row.0.len()).map(|at| row.text(at).map(str::to_owned)).collect()
}

/// Whether an error says that the server is away, rather than that it does not carry out this one statement.
const fn is_about_the_server(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::TooSlow | ErrorKind::Shutdown)
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the server's for a warning, and used for nothing else"
)]
fn wall_time() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
