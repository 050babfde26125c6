//! Slots that move from one node to another.

use distlock_conformance::Server as _;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_core::{Lease, LockBackend, LockClient, LockOptions, LockRequest, Renewal, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};

use crate::cluster::{key_on, nodes, record_of};
use crate::load::{AGAIN, Load};
use crate::servers::{ask, connect, eventually, lock, raw, request, tests};

tests! {
    "cluster":
        locks_go_on_while_their_slot_moves,
        renewals_go_on_while_records_of_one_slot_are_on_two_nodes,
        a_waiter_hears_of_a_release_after_its_slot_has_moved,
        a_waiter_hears_of_a_release_while_its_slot_moves,
        locks_are_listed_while_records_of_one_slot_are_on_two_nodes,
        a_queue_keeps_its_order_while_its_slot_moves;
}

const TTL: Duration = Duration::from_secs(30);

/// A slot on its way.
struct Move<'a> {
    set: &'a ServiceSet,
    slot: u16,
    from: Server,
    to: Server,
}

impl<'a> Move<'a> {
    /// Announces that the slot of a key's record moves to another node.
    async fn begin(set: &'a ServiceSet, key: &str) -> Self {
        let (from, record) = record_of(set, key).await;
        let to = nodes(set).into_iter().take(3).find(|node| node.name() != from.name()).unwrap();
        let slot: u16 = ask(&from, &format!("CLUSTER KEYSLOT {record}")).await.unwrap();
        let (from_id, to_id) = (id(&from).await, id(&to).await);
        ask::<()>(&to, &format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).await.unwrap();
        ask::<()>(&from, &format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).await.unwrap();
        Self { set, slot, from, to }
    }

    /// Moves some of the records.
    async fn records(&self, most: usize) {
        let names: Vec<String> =
            ask(&self.from, &format!("CLUSTER GETKEYSINSLOT {} {most}", self.slot)).await.unwrap();
        for name in names {
            let to = self.to.address();
            let migrate = format!("MIGRATE {} {} {name} 0 5000", to.ip(), to.port());
            let _: String = ask(&self.from, &migrate).await.unwrap();
        }
    }

    /// Moves the rest, and tells everybody.
    async fn end(self) {
        let id = id(&self.to).await;
        // Contenders write records at both ends meanwhile.
        self.records(1000).await;
        for node in [&self.to, &self.from] {
            ask::<()>(node, &format!("CLUSTER SETSLOT {} NODE {id}", self.slot)).await.unwrap();
        }
        self.set.whole("cluster").await;
    }
}

async fn id(node: &Server) -> String {
    ask(node, "CLUSTER MYID").await.unwrap()
}

async fn locks_go_on_while_their_slot_moves(set: &ServiceSet) {
    let load = Load::start(set.url("cluster")).await;
    let backend: Arc<dyn LockBackend> = Arc::new(connect(set.url("cluster")).await);
    let client = LockClient::new(Arc::clone(&backend));
    let guard = client.lock_with("held", &LockOptions::default().ttl(Duration::from_secs(2))).await.unwrap();
    for key in ["held", "load-0", "load-1", "load-2"] {
        let moving = Move::begin(set, key).await;
        let begun = Instant::now();
        load.all_work_within(&format!("while {key} is about to move"), begun, AGAIN).await;
        moving.records(1000).await;
        load.all_work_within(&format!("while {key} moves"), begun, AGAIN).await;
        let busy = connect(set.url("cluster")).await.try_lock(&request("held", TTL)).await.unwrap();
        assert!(matches!(busy, TryLock::Busy(_)), "{busy:?}");
        moving.end().await;
        load.all_work_within(&format!("after {key} moved"), begun, AGAIN).await;
    }
    assert!(guard.is_valid(), "it was renewed all the while: {:?}", guard.state());
    guard.unlock().await.unwrap();
    load.end_without_overlaps().await;
}

/// Locks of one group: their records are in one slot.
async fn three_of_one_slot(set: &ServiceSet, backend: &RedisBackend) -> Vec<Lease> {
    let mut leases = vec![lock(backend, &request("key-0", TTL)).await];
    let (node, record) = record_of(set, "key-0").await;
    let slot: u16 = ask(&node, &format!("CLUSTER KEYSLOT {record}")).await.unwrap();
    for number in 1..20_000 {
        let key = format!("key-{number}");
        let lease = lock(backend, &request(&key, TTL)).await;
        let names: Vec<String> = ask(&node, &format!("CLUSTER GETKEYSINSLOT {slot} 10")).await.unwrap();
        if names.iter().any(|name| name.ends_with(&format!("lock:{key}"))) {
            leases.push(lease);
        } else {
            backend.unlock(&lease.claim).await.unwrap();
        }
        if leases.len() == 3 {
            return leases;
        }
    }
    panic!("no three keys are in one slot");
}

async fn renewals_go_on_while_records_of_one_slot_are_on_two_nodes(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let leases = three_of_one_slot(set, &backend).await;
    let moving = Move::begin(set, "key-0").await;
    moving.records(1).await;
    let renewals = backend.renew_many(&leases, TTL).await;
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed { .. }))), "{renewals:?}");
    moving.end().await;
    let renewals = backend.renew_many(&leases, TTL).await;
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed { .. }))), "{renewals:?}");
}

async fn locks_are_listed_while_records_of_one_slot_are_on_two_nodes(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let leases = three_of_one_slot(set, &backend).await;
    let moving = Move::begin(set, "key-0").await;
    moving.records(1).await;
    let listed = backend.admin().unwrap().list(b"key-", None, 10).await.unwrap();
    let listed: HashSet<_> = listed.into_iter().map(|record| record.key).collect();
    assert_eq!(listed, leases.into_iter().map(|lease| lease.claim.key).collect());
    moving.end().await;
}

async fn a_waiter_hears_of_a_release_after_its_slot_has_moved(set: &ServiceSet) {
    let (backend, other) = (connect(set.url("cluster")).await, connect(set.url("cluster")).await);
    let key = key_on(&backend, set, &set.server("cl0"), "key").await;
    let lease = lock(&backend, &request(&key, TTL)).await;
    let waiter = request(&key, TTL);
    let heard = crate::waiting::hear(&other, &waiter);
    let heard = async {
        heard.await;
        Instant::now()
    };
    let moved = async {
        crate::waiting::marked(set, &key).await;
        let moving = Move::begin(set, &key).await;
        moving.end().await;
        Instant::now()
    };
    let (heard, moved) = tokio::join!(heard, moved);
    let after = heard.saturating_duration_since(moved);
    eprintln!("the waiter was woken {after:?} after the move");
    // The nodes are asked every 15 s in any case.
    assert!(after < Duration::from_secs(8), "not before the nodes were asked next: {after:?}");
    let heard = crate::waiting::hear(&other, &waiter);
    let released = async {
        crate::waiting::marked(set, &key).await;
        backend.unlock(&lease.claim).await.unwrap();
    };
    tokio::join!(heard, released);
}

async fn a_waiter_hears_of_a_release_while_its_slot_moves(set: &ServiceSet) {
    let (backend, other) = (connect(set.url("cluster")).await, connect(set.url("cluster")).await);
    let key = key_on(&backend, set, &set.server("cl0"), "key").await;
    let lease = lock(&backend, &request(&key, TTL)).await;
    let (_, record) = record_of(set, &key).await;
    let moving = Move::begin(set, &key).await;
    moving.records(1000).await;
    let waiter = request(&key, TTL);
    let heard = crate::waiting::hear(&other, &waiter);
    let released = async {
        let mut raw = raw(&moving.to).await;
        let mut look = redis::pipe();
        look.cmd("ASKING").ignore().cmd("HEXISTS").arg(record).arg("mark");
        eventually("the waiter left its mark", async || {
            look.query_async::<(bool,)>(&mut raw).await.unwrap().0
        })
        .await;
        backend.unlock(&lease.claim).await.unwrap();
    };
    tokio::join!(heard, released);
    moving.end().await;
}

async fn a_queue_keeps_its_order_while_its_slot_moves(set: &ServiceSet) {
    let url = format!("{}?queue=true&waiter_liveness=30s", set.url("cluster"));
    let (one, two) = (connect(&url).await, connect(&url).await);
    let mut waiters = vec![request("key", TTL).queue(true)];
    lock(&one, &waiters[0]).await;
    let queue_up = async |waiters: &mut Vec<LockRequest>| {
        for backend in [&one, &two] {
            let waiter = request("key", TTL).queue(true);
            let answer = backend.try_lock(&waiter).await.unwrap();
            assert!(matches!(answer, TryLock::Busy(_)), "{answer:?}");
            waiters.push(waiter);
        }
    };
    // The one who holds it gives it back, and of all who wait the next one gets it.
    let next = async |waiters: &mut Vec<LockRequest>| {
        one.unlock(&waiters.remove(0).claim).await.unwrap();
        for (nth, waiter) in waiters.iter().enumerate().rev() {
            let answer = two.try_lock(waiter).await.unwrap();
            assert_eq!(matches!(answer, TryLock::Acquired(_)), nth == 0, "{nth}: {answer:?}");
        }
    };
    queue_up(&mut waiters).await;
    let moving = Move::begin(set, "key").await;
    next(&mut waiters).await;
    queue_up(&mut waiters).await;
    moving.records(1000).await;
    next(&mut waiters).await;
    queue_up(&mut waiters).await;
    moving.end().await;
    while waiters.len() > 1 {
        next(&mut waiters).await;
    }
}
