//! F34: a server whose disk is full.

use std::time::Duration;

use crate::grid::Store;
use crate::lockprobe::{Answer, Order, Scripted};
use crate::{ServiceSet, SmallDisk, Surroundings};

use super::rig::{Harm, Rig};
use super::usurping::hold;

const TTL: Duration = Duration::from_secs(5);
/// How long somebody goes on locking until it notices that the disk is full.
const UNTIL_NOTICED: Duration = Duration::from_secs(60);

/// While the disk is full calls fail, and say why; nobody gets a lock that is held; once there is room again, all goes on.
pub(super) async fn full(rig: Rig) {
    let disk = SmallDisk::new(room(rig.store)).expect("disks can be made");
    let (set, url) = match rig.group {
        Some(group) => {
            let set = ServiceSet::up_in(&Surroundings::on(&disk), &[group]).await.expect("the servers start");
            let url = set.url(group).to_owned();
            (Some(set), url)
        }
        None => (None, rig.local_url(disk.folder())),
    };
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let (mut one, mut two) = (rig.probe(&url).await, rig.probe(&url).await);
    let key = rig.key();
    hold(&mut one, &key, TTL).await;
    disk.fill();
    let order = Order::Churn {
        prefix: format!("{key}/churn"),
        ttl: 5000,
        within: crate::lockprobe::millis(UNTIL_NOTICED),
    };
    let Answer::Churned { rounds, failed } = two.ask(&order).await else { panic!("no answer") };
    let failed =
        failed.unwrap_or_else(|| panic!("{}: void, since {rounds} locks fitted on a full disk", rig.cell));
    eprintln!("{}: after {rounds} locks: {failed}", rig.cell);
    assert!(!failed.starts_with("WaitTimeout"), "a full disk is not a busy lock: {failed}");
    // Somebody who can't be answered is not answered wrongly.
    let answer = two.ask(&Scripted::lock_order(&key, TTL, Duration::ZERO)).await;
    let held = one.ask(&Order::State).await == Answer::State { valid: true, lost: false };
    assert!(!held || !matches!(answer, Answer::Held { .. }), "{}: two holders", rig.cell);
    disk.free();
    if let (Some(set), Some(group)) = (&set, rig.group) {
        // Some end, and are started again.
        set.server(group).start().await;
    }
    let _ = one.ask(&Order::Unlock).await;
    let recovery = rig.recover(vec![one, two], TTL).await;
    rig.judge(&info, "a small tmpfs, filled to the last byte", Harm::None, recovery);
    if let Some(set) = set {
        set.down().await;
    }
}

/// Enough for the store's own files, in MiB.
const fn room(store: Store) -> u32 {
    match store {
        Store::Sqlite => 2,
        Store::Redis => 4,
        Store::Postgres => 96,
        Store::Etcd => 192,
        _ => 160,
    }
}
