//! Giving back a lock whose token is known.

use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::error::Result;
use crate::fencing::FencingToken;
use crate::outcome::Release;

#[cfg(feature = "tracing")]
tokio::task_local! {
    static TOKEN: FencingToken;
}

/// Gives a lock back. The token is for the call's span: a claim has none, and no store needs it for that.
pub(crate) async fn unlock(
    backend: &dyn LockBackend,
    claim: &Claim,
    token: Option<FencingToken>,
) -> Result<Release> {
    #[cfg(feature = "tracing")]
    if let Some(token) = token {
        return TOKEN.scope(token, backend.unlock(claim)).await;
    }
    #[cfg(not(feature = "tracing"))]
    let _ = token;
    backend.unlock(claim).await
}

/// The token of the lock that the present task is giving back, if its holder said so.
#[cfg(feature = "tracing")]
pub(super) fn known_token() -> Option<FencingToken> {
    TOKEN.try_with(|token| *token).ok()
}
