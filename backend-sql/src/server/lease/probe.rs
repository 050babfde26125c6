//! Asking the server how it is.

use std::time::Duration;

use distlock_core::{Health, Result, Warning};

use crate::server::connections::Lane;
use crate::server::store::Store;

/// The server's version, and what is wrong with its set-up.
pub(super) async fn probe(store: &Store) -> Result<Health> {
    let begun = store.clock().now();
    let answer = store.run(Lane::Attempt, store.sql.probe.with([])).await?;
    let took = store.clock().now().since(begun);
    let mut settings = Vec::new();
    if let Some(row) = answer.rows.first() {
        for at in 0..row.0.len() {
            settings.push(row.text(at)?.to_owned());
        }
    }
    let mut settings = settings.into_iter();
    let version = settings.next();
    let settings: Vec<_> = settings.collect();
    let mut health = Health::new(version, took);
    for (what, fix) in (store.sql.findings)(&settings) {
        health = health.warn(what, fix);
    }
    if let Some(Warning { what, fix, .. }) = compared_clocks(store).await? {
        health = health.warn(what, fix);
    }
    Ok(health)
}

async fn compared_clocks(store: &Store) -> Result<Option<Warning>> {
    let (asked, before) = (store.clock().now(), wall_time());
    let answer = store.run(Lane::Attempt, store.sql.now.with([])).await?;
    let took = store.clock().now().since(asked);
    let Some(row) = answer.rows.first() else { return Ok(None) };
    let server = u64::try_from(row.int(0)?).map(Duration::from_micros).unwrap_or_default();
    Ok(Warning::of_clocks(server, before, took))
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the server's for a warning, and used for nothing else"
)]
fn wall_time() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
