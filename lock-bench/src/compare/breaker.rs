//! The program that kills the leading server of a store.

use std::path::Path;

use distlock::{Error, ErrorKind, Result};
use tokio::process::Command;

/// What the breaker is told to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Break,
    Mend,
}

/// Has the deed done to the store, and returns when it is done.
pub(super) async fn order(breaker: &Path, deed: Deed, store: &str) -> Result<()> {
    let word = match deed {
        Deed::Break => "break",
        Deed::Mend => "mend",
    };
    let output = Command::new(breaker).args([word, store]).kill_on_drop(true).output().await;
    let failed = |what: String| Error::new(ErrorKind::Other, format!("can't {word} `{store}`: {what}"));
    let output = output.map_err(|error| failed(format!("{}: {error}", breaker.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("the breaker ended with {}: {}", output.status, said.trim())))
}
