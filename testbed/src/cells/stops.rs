//! F01 and F03: processes that are stopped and killed.

use std::time::Duration;

use distlock_conformance::history::What;

use crate::lockprobe::{Answer, Order, Scripted};

use super::rig::{AMPLE, Harm, Rig, until};
use super::usurping::{act_late, be_told, hold, release, succeed};

const TTL: Duration = Duration::from_secs(1);
/// How many processes wait, and how many tasks of each.
const PROCESSES: usize = 4;
const WAITERS: u64 = 25;

/// A holder is stopped for three times its ttl; its rival gets the lock and writes; then the first goes on.
pub(super) async fn pause(mut rig: Rig) {
    let (_set, url) = rig.unhurt().await;
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let (mut one, mut two) = (rig.probe(&url).await, rig.probe(&url).await);
    let key = rig.key();
    let token = hold(&mut one, &key, TTL).await;
    // In some phase of its renewals.
    tokio::time::sleep(rig.some(TTL)).await;
    one.pause();
    let over = tokio::time::sleep(TTL * 3);
    succeed(&mut two, &key, TTL, token).await;
    over.await;
    one.resume();
    act_late(&mut one).await;
    release(&mut two).await;
    be_told(&rig, &mut one, TTL + AMPLE).await;
    let recovery = rig.recover(vec![one, two], TTL).await;
    rig.judge(&info, "SIGSTOP of the holder for three ttls", Harm::Acted, recovery);
}

/// Of four processes with 25 waiters each, two are killed, the one at the head among them. All others are served.
pub(super) async fn kill_waiters(rig: Rig) {
    let (_set, url) = rig.unhurt().await;
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let key = rig.key();
    let mut holder = rig.probe(&url).await;
    holder.lock(&key, TTL, AMPLE).await;
    let mut waiting = Vec::new();
    for number in 0..PROCESSES {
        let mut probe = rig.probe(&url).await;
        let order = Order::Wait { key: key.clone(), ttl: 3000, waiters: WAITERS };
        assert_eq!(probe.ask(&order).await, Answer::Waiting);
        until("it stands in line", AMPLE, async || asking(&rig, &key) > number).await;
        waiting.push(probe);
    }
    let mut survivors = Vec::new();
    for (number, probe) in waiting.into_iter().enumerate() {
        if number % 2 == 0 { probe.kill().await } else { survivors.push(probe) }
    }
    release(&mut holder).await;
    let wanted = WAITERS * survivors.len() as u64;
    let took =
        until("all that live are served", AMPLE * 2, async || served(&mut survivors).await == wanted).await;
    eprintln!(
        "{}: {wanted} survivors of {} were served within {took:?}",
        rig.cell,
        WAITERS * PROCESSES as u64
    );
    survivors.push(holder);
    let recovery = rig.recover(survivors, TTL).await;
    rig.judge(&info, "SIGKILL of 50 of 100 waiters, those at the head among them", Harm::None, recovery);
}

async fn served(probes: &mut [Scripted]) -> u64 {
    let mut sum = 0;
    for probe in probes {
        let Answer::Served { served, failed } = probe.ask(&Order::Served).await else { panic!("no answer") };
        assert_eq!(failed, 0, "no wait fails");
        sum += served;
    }
    sum
}

/// How many processes other than the holder's have asked for the key.
fn asking(rig: &Rig, key: &str) -> usize {
    let asked = |what: &What| matches!(what, What::Ask { .. });
    let events = rig.events();
    let processes: std::collections::BTreeSet<_> = events
        .iter()
        .filter(|event| event.key == key && asked(&event.what))
        .map(|event| event.process)
        .collect();
    processes.len().saturating_sub(1)
}
