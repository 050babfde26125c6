//! The tables: are they there, and are they ours.

use distlock_core::{Effect, Error, ErrorKind, Result};

use super::connections::Lane;
use super::dialect::Then;
use super::error::Trouble;
use super::store::Store;

/// The version of the tables that this version makes and understands.
const VERSION: i64 = 1;

/// The same, for statements.
pub(crate) const LAYOUT_VERSION: &str = "1";

/// Makes sure that the tables are there and are ours; creates them if that is allowed.
pub(crate) async fn ensure(store: &Store) -> Result<()> {
    match version(store).await {
        Ok(Some(version)) => check(version),
        // MySQL commits after each CREATE: another program is between two of them, or ended there.
        Ok(None) if store.may_create => create(store).await,
        Ok(None) => Err(incomplete()),
        Err(trouble) if trouble.then == Then::Create && store.may_create => create(store).await,
        Err(trouble) => Err(trouble.error),
    }
}

/// Creates what is missing. Several programs may do so at once.
pub(crate) async fn create(store: &Store) -> Result<()> {
    std::sync::Arc::clone(&store.calls).run_script(store.sql.create.clone()).await?;
    match version(store).await? {
        Some(version) => check(version),
        None => Err(incomplete()),
    }
}

fn incomplete() -> Error {
    let message = "the tables are not complete; drop them, or complete them with `distlock schema --url …`";
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None)
}

async fn version(store: &Store) -> Result<Option<i64>, Trouble> {
    let asked = std::sync::Arc::clone(&store.calls).run(Lane::Attempt, store.sql.layout.with([])).await?;
    let row = asked.rows.first();
    row.map(|row| row.int(0)).transpose().map_err(|error| Trouble { error, then: Then::Fail })
}

fn check(found: i64) -> Result<()> {
    let message = match found {
        VERSION => return Ok(()),
        newer if newer > VERSION => format!(
            "the tables were made by a newer distlock (layout {newer}, this one knows {VERSION}); upgrade this program"
        ),
        older => format!(
            "the tables have layout {older}, and this version needs {VERSION}; bring them up to date with `distlock schema --url …`"
        ),
    };
    Err(Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_layouts_are_refused_with_what_to_do() {
        assert_eq!(LAYOUT_VERSION, VERSION.to_string());
        check(VERSION).unwrap();
        for (version, part) in [(VERSION + 1, "upgrade this program"), (VERSION - 1, "distlock schema")] {
            let error = check(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
