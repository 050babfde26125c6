//! The tables: are they there, and are they ours.

use distlock_core::{Effect, Error, ErrorKind, Result};

use super::connections::Lane;
use super::dialect::Then;
use super::error::Trouble;
use super::statement::Row;
use super::store::Store;

/// The version of the tables that this version makes and understands.
const VERSION: i64 = 1;

/// The same, for statements.
pub(crate) const LAYOUT_VERSION: &str = "1";

/// Makes sure that the tables are there and are ours; creates them if that is allowed. Says whether the server can change several
/// locks by one statement.
pub(crate) async fn ensure(store: &Store) -> Result<bool> {
    match layout(store).await {
        Ok(Some(layout)) => check(layout),
        // MySQL commits after each CREATE: another program is between two of them, or ended there.
        Ok(None) if store.may_create => create(store).await,
        Ok(None) => Err(incomplete()),
        Err(trouble) if trouble.then == Then::Create && store.may_create => create(store).await,
        Err(trouble) => Err(trouble.error),
    }
}

/// Creates what is missing, and says the same. Several programs may do so at once.
pub(crate) async fn create(store: &Store) -> Result<bool> {
    std::sync::Arc::clone(&store.calls).run_script(store.sql.create.clone()).await?;
    match layout(store).await? {
        Some(layout) => check(layout),
        None => Err(incomplete()),
    }
}

fn incomplete() -> Error {
    let message = "the tables are not complete; drop them, or complete them with `distlock schema --url …`";
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None)
}

/// What the layout's table says.
#[derive(Clone, Copy, Debug)]
struct Layout {
    version: i64,
    gathers: bool,
}

async fn layout(store: &Store) -> Result<Option<Layout>, Trouble> {
    let asked = std::sync::Arc::clone(&store.calls).run(Lane::Attempt, store.sql.layout.with([])).await?;
    let row = asked.rows.first();
    let layout = |row: &Row| Ok(Layout { version: row.int(0)?, gathers: row.int(1)? == 1 });
    row.map(layout).transpose().map_err(|error| Trouble { error, then: Then::Fail })
}

fn check(found: Layout) -> Result<bool> {
    let message = match found.version {
        VERSION => return Ok(found.gathers),
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
        let check = |version| check(Layout { version, gathers: true });
        assert!(check(VERSION).unwrap());
        for (version, part) in [(VERSION + 1, "upgrade this program"), (VERSION - 1, "distlock schema")] {
            let error = check(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
