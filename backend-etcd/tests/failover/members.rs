//! Members that die, stand still and come back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::{Data, Proxy, Server as _};
use distlock_core::{LockClient, LockOptions, Release};
use distlock_etcd::etcd_client::Client;
use distlock_etcd::{EtcdBackend, EtcdConfig};
use distlock_testbed::{Server, ServiceSet};

use crate::load::{AGAIN, Load, connect};
use crate::polling::eventually;
use crate::tests;

tests! { false:
    every_client_goes_to_the_leader,
    every_client_works_again_after_the_leader_was_killed,
    every_client_works_again_while_the_leader_stands_still,
    every_client_works_on_while_a_follower_is_frozen,
    every_client_works_again_after_all_members_were_killed,
    held_locks_go_on_while_each_member_in_turn_stands_still,
    b074_renewals_go_on_under_each_new_leader,
    every_client_works_on_while_each_member_is_replaced,
}

/// A gap of three seconds is what it takes on a machine with nothing else to do.
const GAP: Duration = Duration::from_secs(10);

pub(crate) async fn servers() -> (ServiceSet, [Server; 3]) {
    let set = ServiceSet::up(&["etcd3"]).await.unwrap();
    let servers = ["e0", "e1", "e2"].map(|name| set.server(name));
    (set, servers)
}

/// Whether a member says that it is the leader.
async fn is_leader(server: &Server) -> bool {
    let asked = async {
        let mut client = Client::connect([server.address().to_string()], None).await?;
        client.status().await
    };
    let Ok(Ok(status)) = tokio::time::timeout(Duration::from_secs(1), asked).await else { return false };
    status.header().is_some_and(|header| header.member_id() == status.leader())
}

/// The leader, and the others.
pub(crate) async fn leader_first(mut servers: [Server; 3]) -> [Server; 3] {
    eventually("a leader", async || {
        for at in 0..servers.len() {
            if is_leader(&servers[at]).await {
                servers.swap(0, at);
                return true;
            }
        }
        false
    })
    .await;
    servers
}

fn assert_gap(load: &Load, what: &str, since: Instant) {
    let gap = load.longest_gap(since);
    eprintln!("{what}: the longest time without a success was {gap:?}");
    assert!(gap < GAP, "{what}: {gap:?} without a success");
}

async fn every_client_goes_to_the_leader() {
    let (_set, servers) = servers().await;
    let [leader, two, three] = leader_first(servers).await;
    let mut ways: Vec<_> =
        [&leader, &two, &three].map(|server| Proxy::start(server.address()).unwrap()).into();
    let (one, rest) = (ways[0].address(), [ways[1].address(), ways[2].address()]);
    let mut clients = Vec::new();
    // Whichever of them is named first, and whichever each starts with.
    for servers in [[one, rest[0], rest[1]], [rest[0], one, rest[1]], [rest[0], rest[1], one]].repeat(3) {
        let config = EtcdConfig::new(servers.map(|address| address.to_string()));
        clients.push(LockClient::new(Arc::new(EtcdBackend::connect(config).await.unwrap())));
    }
    let is_only_way = async |clients: &[LockClient], ways: &[Proxy]| {
        let before: Vec<_> = ways.iter().map(|way| way.traffic().to_server).collect();
        for client in clients {
            client.lock("k").await.unwrap().unlock().await.unwrap();
        }
        let after = ways.iter().map(|way| way.traffic().to_server);
        after.zip(before).map(|(after, before)| after > before).collect::<Vec<_>>() == [true, false, false]
    };
    eventually("all go to the leader", async || is_only_way(&clients, &ways).await).await;
    leader.kill9().await;
    let [next, ..] = leader_first([two.clone(), three.clone(), leader]).await;
    if next.address() == three.address() {
        ways.swap(1, 2);
    }
    ways.swap(0, 1);
    eventually("all go to the next leader", async || is_only_way(&clients, &ways).await).await;
}

async fn every_client_works_again_after_the_leader_was_killed() {
    let (set, servers) = servers().await;
    let load = Load::start(set.url("etcd3")).await;
    let [leader, ..] = leader_first(servers).await;
    let killed = Instant::now();
    leader.kill9().await;
    load.all_work_within("without the leader", killed, AGAIN).await;
    assert_gap(&load, "leader killed", killed);
    let started = Instant::now();
    leader.start().await;
    set.whole("etcd3").await;
    load.all_work_within("with it again", Instant::now(), AGAIN).await;
    assert_gap(&load, "leader back", started);
    load.end().await;
    set.down().await;
}

async fn every_client_works_again_while_the_leader_stands_still() {
    let (set, servers) = servers().await;
    let load = Load::start(set.url("etcd3")).await;
    let [leader, ..] = leader_first(servers).await;
    let paused = Instant::now();
    leader.pause().await;
    load.all_work_within("without the leader", paused, AGAIN).await;
    assert_gap(&load, "leader paused", paused);
    let resumed = Instant::now();
    leader.resume().await;
    load.all_work_within("with it again", resumed, AGAIN).await;
    assert_gap(&load, "leader resumed", resumed);
    // One of an old release that goes on may end leases that the new one has prolonged (B072).
    load.end_with_overlaps().await;
    set.down().await;
}

async fn every_client_works_on_while_a_follower_is_frozen() {
    let (set, servers) = servers().await;
    let load = Load::start(set.url("etcd3")).await;
    let [_, one, two] = leader_first(servers).await;
    for follower in [one, two] {
        let paused = Instant::now();
        follower.pause().await;
        load.all_work_within("without a follower", paused, AGAIN).await;
        assert_gap(&load, "follower frozen", paused);
        follower.resume().await;
        load.all_work_within("with it again", Instant::now(), AGAIN).await;
    }
    load.end().await;
    set.down().await;
}

async fn every_client_works_again_after_all_members_were_killed() {
    let (set, servers) = servers().await;
    let load = Load::start(set.url("etcd3")).await;
    let killed = Instant::now();
    for server in &servers {
        server.kill9().await;
    }
    for server in &servers {
        server.start().await;
    }
    set.whole("etcd3").await;
    eprintln!("the cluster is whole again after {:?}", killed.elapsed());
    load.all_work_within("after the restart", Instant::now(), AGAIN).await;
    assert_gap(&load, "all restarted", killed);
    load.end().await;
    set.down().await;
}

async fn held_locks_go_on_while_each_member_in_turn_stands_still() {
    const LOCKS: usize = 30;
    let (set, servers) = servers().await;
    let options = LockOptions::default().ttl(Duration::from_secs(12));
    let mut guards = Vec::new();
    for client in 0..3 {
        // Each prefers another member.
        let mut hosts: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
        hosts.rotate_left(client);
        let client = LockClient::new(Arc::new(connect(&format!("etcd://{}", hosts.join(","))).await));
        for lock in 0..LOCKS / 3 {
            let key = format!("{} {lock}", guards.len());
            guards.push(client.lock_with(key, &options).await.unwrap());
        }
    }
    for server in leader_first(servers).await {
        let until: Vec<_> = guards.iter().map(|guard| guard.valid_until()).collect();
        server.pause().await;
        eventually("every lock is renewed", async || {
            guards.iter().zip(&until).all(|(guard, until)| guard.valid_until() > *until)
        })
        .await;
        server.resume().await;
        set.whole("etcd3").await;
    }
    for guard in guards {
        assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    }
    set.down().await;
}

async fn b074_renewals_go_on_under_each_new_leader() {
    let (set, mut servers) = servers().await;
    let client = LockClient::new(Arc::new(connect(set.url("etcd3")).await));
    let options = LockOptions::default().ttl(Duration::from_secs(12));
    let guard = client.lock_with("k", &options).await.unwrap();
    for _ in 0..3 {
        servers = leader_first(servers).await;
        servers[0].kill9().await;
        // The first may have been under way when the leader died.
        for _ in 0..2 {
            let until = guard.valid_until();
            eventually("it is renewed without that leader", async || guard.valid_until() > until).await;
        }
        servers[0].start().await;
        set.whole("etcd3").await;
    }
    assert!(guard.is_valid());
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    set.down().await;
}

/// Each is removed from the cluster in turn, and one without data is added in its place.
async fn every_client_works_on_while_each_member_is_replaced() {
    let (set, servers) = servers().await;
    let load = Load::start(set.url("etcd3")).await;
    for server in leader_first(servers).await {
        let killed = Instant::now();
        server.restart(Data::Wiped).await;
        set.whole("etcd3").await;
        let when = format!("with another member in the place of {}", server.name());
        load.all_work_within(&when, Instant::now(), AGAIN).await;
        assert_gap(&load, &when, killed);
    }
    load.end().await;
    set.down().await;
}
