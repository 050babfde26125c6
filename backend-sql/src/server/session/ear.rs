//! Hearing of the ends of sessions.

use std::sync::Arc;

use super::dialect::SessionDialect;
use super::link::Link;
use super::links::Links;
use super::slot::Users;
use super::times::Times;

/// Hears of the end of one lock's session, while nobody uses its link.
pub(crate) trait Ear<D: SessionDialect>: Send + Sized + 'static {
    /// What the ears of a client have in common. Dropping it ends it.
    type Shared: Send + Sync;

    fn shared(links: &Arc<Links<D>>) -> Self::Shared;

    /// For the lock of this name.
    fn new(shared: &Self::Shared, name: &[u8]) -> Self;

    /// Listens until somebody wants the link, or for a while. Says whether the session was found to be over; if
    /// not, the link may be used.
    ///
    /// When dropped midway, the link is of no use any more.
    fn listen(
        &mut self,
        link: &mut Link<D>,
        times: &Times,
        users: &Users,
    ) -> impl Future<Output = bool> + Send;

    /// No ear hears anything from now on.
    fn close(shared: &Self::Shared);
}
