//! Going to the leader. Every member takes a write, but all others pass it on, and answer once they have heard the outcome.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use etcd_client::Client;

use super::Link;
use crate::error::Failure;

/// The leader is looked for so long after its term was first heard of: who takes one lock and ends does not ask, and after
/// an election all members know it by then.
const SETTLING: Duration = Duration::from_millis(250);

/// Starts to look for the leader of a term that was just heard of.
pub(super) fn look_for_leader(link: Weak<Link>, term: u64) {
    #[expect(
        clippy::disallowed_methods,
        reason = "no call waits for it; it asks each member once, within the response time-out"
    )]
    tokio::spawn(async move {
        tokio::time::sleep(SETTLING).await;
        if let Some(link) = link.upgrade() {
            go_to_leader(&link, term).await;
        }
    });
}

/// Sends the calls to come to the member that leads, if one says so in this term.
async fn go_to_leader(link: &Arc<Link>, term: u64) {
    let (first, count) = (link.current.load(Ordering::Acquire), link.endpoints.len());
    for at in (0..count).map(|step| (first + step) % count) {
        // A later term has a search of its own.
        if link.term() > term {
            return;
        }
        if leads(link, at).await.unwrap_or(false) {
            link.current.store(at, Ordering::Release);
            return;
        }
    }
}

async fn leads(link: &Link, at: usize) -> Result<bool, Failure> {
    if link.rests(at) {
        return Ok(false);
    }
    let was_open = link.endpoints[at].opened().is_some();
    let ask = |client: &Client| {
        let mut maintenance = client.maintenance_client();
        async move { maintenance.status().await }
    };
    let until = link.clock.now().plus(link.response_timeout);
    let status = link.on(at, until, &ask).await;
    let leads = status.map(|status| status.header().is_some_and(|own| own.member_id() == status.leader()));
    // Not to keep a connection to every member.
    if !was_open && !matches!(leads, Ok(true)) {
        link.endpoints[at].hang_up();
    }
    leads
}
