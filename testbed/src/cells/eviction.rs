//! F41: servers that would evict locks when they are full.

use std::time::Duration;

use distlock_core::ErrorKind;

use super::rig::{AMPLE, Harm, Rig, until};
use super::tools::redis;

/// A majority of servers that evict is refused, until they are put right.
pub(super) async fn refused(rig: Rig) {
    let set = rig.servers().await;
    let url = rig.options_of(set.url(rig.group()));
    let servers: Vec<_> = (0..5).map(|number| set.server(&format!("redlock{number}"))).collect();
    let all = |policy: &str| {
        for server in &servers {
            redis(server, &format!("CONFIG SET maxmemory-policy {policy}")).expect("a server can be set up");
        }
    };
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    all("allkeys-lru");
    let refusal = match rig.client(&url).await {
        Ok(client) => client.try_lock(rig.key().as_str()).await.err(),
        Err(error) => Some(error),
    };
    let refusal = refusal.unwrap_or_else(|| panic!("{}: servers that evict were taken", rig.cell));
    assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
    all("noeviction");
    // They may still keep off since their start, which is not what is measured.
    let client = rig.client(&url).await.expect("the store takes clients");
    until("the store grants locks", AMPLE, async || client.try_lock(rig.key().as_str()).await.is_ok()).await;
    let recovery = rig.recover(vec![rig.probe(&url).await], Duration::from_secs(1)).await;
    rig.judge(&info, "all five servers are told to evict", Harm::None, recovery);
    set.down().await;
}
