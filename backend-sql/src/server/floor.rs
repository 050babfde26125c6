//! Token floors, which the server's clock keeps.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, FencingToken, Result};

/// How far a token floor may be ahead of the server's clock: as long as an operator waits.
const AHEAD_MOST: Duration = Duration::from_secs(2);

/// Waits until the server's clock, of which `now` gives the microseconds, has passed `floor`.
///
/// Tokens are never below that clock, so a floor that it has passed needs nothing to be stored.
pub(crate) async fn raise<N>(floor: FencingToken, mut now: impl FnMut() -> N + Send) -> Result<()>
where
    N: Future<Output = Result<i64>> + Send,
{
    loop {
        let now = u64::try_from(now().await?).unwrap_or(0);
        let ahead = Duration::from_micros((floor.get() + 1).saturating_sub(now));
        if ahead.is_zero() {
            return Ok(());
        }
        if ahead > AHEAD_MOST {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                format!(
                    "a token floor of {floor} is {ahead:.0?} ahead of the server's clock, which tokens follow; set the clock right, then try again"
                ),
            )
            .with_effect(Effect::None));
        }
        tokio::time::sleep(ahead).await;
    }
}
