//! What becomes of leases when another member leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::Server as _;
use distlock_core::{
    Claim, LockBackend as _, LockClient, LockGuard, LockKey, LockOptions, LockRequest, OwnerId, Release,
    TryLock,
};
use distlock_etcd::etcd_client::{Client, GetOptions};
use distlock_testbed::Server;
use tokio::task::JoinHandle;

use crate::load::connect;
use crate::members::{leader_first, servers};
use crate::polling::eventually;
use crate::tests;

tests! { false:
    records_move_to_leases_that_the_next_leader_granted,
    b072_a_leader_that_stood_still_ends_no_lease_when_it_goes_on,
}

/// An election takes less than half of it.
const TTL: Duration = Duration::from_secs(6);

/// Holders, of which some share a lease, and one who waits for the first of their locks.
struct Locks {
    guards: Vec<LockGuard>,
    waiter: JoinHandle<LockGuard>,
}

impl Locks {
    async fn take(servers: &[Server; 3]) -> Self {
        let options = LockOptions::default().ttl(TTL);
        let mut guards = Vec::new();
        for options_of_url in ["", "", "?shared_lease=8s"] {
            let client = LockClient::new(Arc::new(connect(&(url(servers) + options_of_url)).await));
            for _ in 0..3 {
                guards.push(client.lock_with(format!("held {}", guards.len()), &options).await.unwrap());
            }
        }
        let waiting = LockClient::new(Arc::new(connect(&url(servers)).await));
        let waiter = tokio::spawn(async move { waiting.lock_with("held 0", &options).await.unwrap() });
        let locks = Self { guards, waiter };
        eventually("one waits", async || leases(servers).await.len() == 10).await;
        locks
    }

    /// Waits until each was renewed from now on.
    async fn renewed(&self) {
        let until: Vec<_> = self.guards.iter().map(LockGuard::valid_until).collect();
        eventually("every lock is renewed", async || {
            self.guards.iter().zip(&until).all(|(guard, until)| guard.valid_until() > *until)
        })
        .await;
    }

    /// Fails if one was lost; gives the waiter's.
    async fn release(self) -> LockGuard {
        for guard in self.guards {
            let key = guard.key().clone();
            assert_eq!(guard.unlock().await.unwrap(), Release::Released, "{key}");
        }
        self.waiter.await.unwrap()
    }
}

fn url(servers: &[Server; 3]) -> String {
    let hosts: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("etcd://{}", hosts.join(","))
}

async fn client(servers: &[Server; 3]) -> Client {
    Client::connect(servers.each_ref().map(|server| server.address().to_string()), None).await.unwrap()
}

/// The leases of all records by their names.
async fn leases(servers: &[Server; 3]) -> BTreeMap<Vec<u8>, i64> {
    let all = GetOptions::new().with_prefix();
    let Ok(found) = client(servers).await.get("", Some(all)).await else { return BTreeMap::new() };
    let records = found.kvs().iter().filter(|kv| kv.key_str().is_ok_and(|name| name.contains("held")));
    records.map(|kv| (kv.key().to_vec(), kv.lease())).collect()
}

async fn records_move_to_leases_that_the_next_leader_granted() {
    let (set, servers) = servers().await;
    let servers = leader_first(servers).await;
    let locks = Locks::take(&servers).await;
    let before = leases(&servers).await;
    let next =
        Client::connect([servers[1].address().to_string()], None).await.unwrap().status().await.unwrap();
    let next = next.header().unwrap().member_id();
    let mut leader = Client::connect([servers[0].address().to_string()], None).await.unwrap();
    leader.move_leader(next).await.unwrap();
    eventually("every record is on another lease", async || {
        let now = leases(&servers).await;
        now.len() == before.len() && now.iter().all(|(name, lease)| before.get(name) != Some(lease))
    })
    .await;
    locks.renewed().await;
    let waiter = locks.release().await;
    assert_eq!(waiter.unlock().await.unwrap(), Release::Released);
    // Those that are kept for the next locks end by themselves.
    eventually("no lease is left", async || {
        client(&servers).await.leases().await.is_ok_and(|found| found.leases().is_empty())
    })
    .await;
    set.down().await;
}

async fn b072_a_leader_that_stood_still_ends_no_lease_when_it_goes_on() {
    let (set, mut servers) = servers().await;
    let operator = connect(&url(&servers)).await;
    // In one time out of four it would.
    for round in 0..3 {
        servers = leader_first(servers).await;
        let locks = Locks::take(&servers).await;
        // Tokens are of one order all over the cluster: that of who was in the queue before is lower, as long as it stays there.
        let claim = Claim::new(LockKey::new(format!("later {round}")).unwrap(), OwnerId::random());
        let later = operator.try_lock(&LockRequest::new(claim, TTL)).await.unwrap();
        let TryLock::Acquired(later) = later else { panic!("it is free") };
        let paused = Instant::now();
        servers[0].pause().await;
        locks.renewed().await;
        // By the reckoning of the one that stands still all leases are over by then.
        eventually("it stood still for long", async || paused.elapsed() > TTL + Duration::from_secs(2)).await;
        servers[0].resume().await;
        set.whole("etcd3").await;
        locks.renewed().await;
        let waiter = locks.release().await;
        assert!(waiter.token() < later.token, "{} after {}", waiter.token(), later.token);
        assert_eq!(waiter.unlock().await.unwrap(), Release::Released);
    }
    set.down().await;
}
