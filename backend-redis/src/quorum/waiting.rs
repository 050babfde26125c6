//! Hints of releases: a majority of the servers has to say so.

use std::sync::Arc;

use distlock_core::{Busy, Claim, Error, ErrorKind, Result};

use super::Quorum;
use super::ballot::majority;
use super::calls::Calls;
use crate::error::CLOSED;

/// Resolves when a majority of the servers has something new to say about the lock. One alone would
/// send the waiter to the others before they know.
pub(super) async fn watch(quorum: &Arc<Quorum>, claim: &Claim, busy: &Busy) -> Result<()> {
    let mut calls = Calls::new();
    for node in &quorum.nodes {
        let (node, claim, busy) = (Arc::clone(node), claim.clone(), busy.clone());
        calls.push(async move { node.backend.waiting.watch(&claim, &busy).await });
    }
    let mut hints = 0;
    while let Some(hint) = calls.next().await {
        match hint {
            Ok(()) => hints += 1,
            Err(error) if error.kind() == ErrorKind::Shutdown => {
                return Err(Error::new(ErrorKind::Shutdown, CLOSED));
            }
            // This server will not tell; perhaps enough of the others do.
            Err(_) => {}
        }
        if hints >= majority(quorum.nodes.len()) {
            return Ok(());
        }
    }
    std::future::pending().await
}
