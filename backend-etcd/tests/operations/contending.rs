//! Hand-overs beside those of etcd's own lock service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use distlock_core::{LockBackend, LockClient, LockOptions};
use distlock_etcd::etcd_client::LockOptions as EtcdLockOptions;

use crate::support::{Server, tests};

tests! {
    a_hot_lock_is_handed_over_faster_than_by_etcd_s_own_lock_service,
}

const CONTENDERS: usize = 8;
const LENGTH: Duration = Duration::from_secs(2);
/// A busy machine may slow down one of them for a while.
const ROUNDS: u32 = 10;

async fn a_hot_lock_is_handed_over_faster_than_by_etcd_s_own_lock_service() {
    let server = Server::start(&[]).await;
    for _ in 0..ROUNDS {
        let theirs = of_lock_service(&server).await;
        let shared = ours(&server, true).await;
        let own = ours(&server, false).await;
        eprintln!(
            "{CONTENDERS} contenders, hand-overs in {LENGTH:?}: lock service {theirs}, clients of their own {own}, one client {shared}"
        );
        if own > theirs && shared > theirs {
            return;
        }
    }
    panic!("never in {ROUNDS} rounds");
}

/// Contenders with a connection each.
async fn of_lock_service(server: &Server) -> u32 {
    let turns = Arc::new(AtomicU32::new(0));
    let until = Instant::now() + LENGTH;
    let mut contenders = Vec::new();
    for _ in 0..CONTENDERS {
        let (mut raw, turns) = (server.raw().await, Arc::clone(&turns));
        contenders.push(tokio::spawn(async move {
            let lease = raw.lease_grant(60, None).await.unwrap().id();
            while Instant::now() < until {
                let options = EtcdLockOptions::new().with_lease(lease);
                let held = raw.lock("service", Some(options)).await.unwrap();
                turns.fetch_add(1, Ordering::Relaxed);
                raw.unlock(held.key()).await.unwrap();
            }
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    turns.load(Ordering::Relaxed)
}

async fn ours(server: &Server, is_shared: bool) -> u32 {
    let turns = Arc::new(AtomicU32::new(0));
    let mut clients = Vec::new();
    for _ in 0..CONTENDERS {
        match clients.first() {
            Some(first) if is_shared => clients.push(LockClient::clone(first)),
            _ => {
                let backend = Arc::new(server.backend().await) as Arc<dyn LockBackend>;
                clients.push(LockClient::new(backend));
            }
        }
    }
    let until = Instant::now() + LENGTH;
    let options = LockOptions::default().ttl(Duration::from_secs(60));
    let contenders: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (turns, options) = (Arc::clone(&turns), options.clone());
            tokio::spawn(async move {
                while Instant::now() < until {
                    let guard = client.lock_with("ours", &options).await.unwrap();
                    turns.fetch_add(1, Ordering::Relaxed);
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for contender in contenders {
        contender.await.unwrap();
    }
    turns.load(Ordering::Relaxed)
}
