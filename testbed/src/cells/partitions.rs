//! F13: a holder that is cut off.

use std::time::Duration;

use crate::lockprobe::{Answer, Order, Probe};
use crate::{Partition, ServiceSet};

use super::rig::{AMPLE, Harm, Rig};
use super::usurping::{act_late, be_told, hold, release, succeed};

const TTL: Duration = Duration::from_secs(2);

/// The holder's cable is pulled; it is told by its deadline, somebody else succeeds it, and both work on when the cable
/// is in again.
pub(super) async fn holder_cut_off(rig: Rig) {
    let partition = Partition::new(&[rig.group(), "one", "two"]).expect("networks can be made");
    let set = ServiceSet::up_at(&partition, &[rig.group()]).await.expect("the servers start");
    let url = set.url(rig.group()).to_owned();
    let info = partition.place("two").run(rig.client(&url)).await;
    let info = info.expect("the store takes clients").info().clone();
    let program = Probe::this_program().get_program().to_owned();
    let mut one = rig.probe_by(partition.command("one", &program), &url).await;
    let mut two = rig.probe_by(partition.command("two", &program), &url).await;
    let key = rig.key();
    let token = hold(&mut one, &key, TTL).await;
    partition.cut("one");
    succeed(&mut two, &key, TTL, token).await;
    assert_eq!(
        one.ask(&Order::State).await,
        Answer::State { valid: false, lost: true },
        "it was told in time"
    );
    act_late(&mut one).await;
    release(&mut two).await;
    partition.heal("one");
    be_told(&rig, &mut one, AMPLE).await;
    let recovery = rig.recover(vec![one, two], TTL).await;
    rig.judge(&info, "network namespaces; the holder's link is down", Harm::Acted, recovery);
    set.down().await;
}
