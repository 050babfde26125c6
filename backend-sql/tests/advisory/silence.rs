//! B094, B101: holders that have gone without a word, while what stands between keeps the connection to the server.

use std::time::Duration;

use distlock_conformance::{Proxy, Way};
use distlock_core::{Claim, Lease, LockBackend, LockRequest, Renewal, StoreUrl, TryLock};
use distlock_sql::{mysql, postgres};

use crate::harness::{eventually, fresh, shared, tests};
use crate::key;
use crate::proxied::proxied;

tests! {
    ["postgres", "mysql"]
    b094_a_silent_session_is_ended_by_the_server_on_postgres,
    b101_a_silent_session_is_ended_by_the_server_on_mysql,
    b094_a_silent_holder_of_a_lease_row_runs_out,
}

const TTL: Duration = Duration::from_secs(4);

/// The store behind a proxy, and a way past it.
struct Store {
    proxy: Proxy,
    behind: String,
    direct: String,
}

impl Store {
    async fn new(group: &'static str) -> Self {
        let direct = shared(group).await;
        let (proxy, behind) = proxied(&direct);
        Self { proxy, behind, direct }
    }

    async fn sessions(&self, url: &str) -> Box<dyn LockBackend> {
        let mut url = StoreUrl::parse(url).unwrap();
        match url.scheme.as_str() {
            "mysql" => Box::new(mysql::named::from_url(&mut url).await.unwrap()),
            _ => Box::new(postgres::advisory::from_url(&mut url).await.unwrap()),
        }
    }

    async fn rows(&self, url: &str) -> Box<dyn LockBackend> {
        let mut url = StoreUrl::parse(url).unwrap();
        match url.scheme.as_str() {
            "mysql" => Box::new(mysql::from_url(&mut url).await.unwrap()),
            _ => Box::new(postgres::from_url(&mut url).await.unwrap()),
        }
    }

    /// The holder's network drops everything, and tells nobody. Then the lock is free by itself, and not before the
    /// holder has to count it as lost.
    async fn falls_silent(&self, holder: &dyn LockBackend, rival: &dyn LockBackend) -> Lease {
        let name = fresh("k");
        let lease = take(holder, &name).await.unwrap();
        assert!(take(rival, &name).await.is_none());
        for way in [Way::ToServer, Way::ToClient] {
            self.proxy.silence(way);
        }
        let mut next = None;
        eventually("the lock is free", async || {
            next = take(rival, &name).await;
            next.is_some()
        })
        .await;
        assert!(rival.clock().now() >= lease.valid_until, "the holder may still rely on it");
        assert!(next.unwrap().token > lease.token);
        lease
    }
}

async fn take(backend: &dyn LockBackend, name: &str) -> Option<Lease> {
    match backend.try_lock(&LockRequest::new(Claim::mint(key(name)), TTL)).await.unwrap() {
        TryLock::Acquired(lease) => Some(lease),
        TryLock::Busy(_) => None,
    }
}

async fn session_is_ended(group: &'static str) {
    let store = Store::new(group).await;
    let (holder, rival) = (store.sessions(&store.behind).await, store.sessions(&store.direct).await);
    let lease = store.falls_silent(&*holder, &*rival).await;
    tokio::time::timeout(Duration::from_secs(60), holder.watch_loss(&lease)).await.unwrap().unwrap();
}

async fn b094_a_silent_session_is_ended_by_the_server_on_postgres() {
    session_is_ended("postgres").await;
}

async fn b101_a_silent_session_is_ended_by_the_server_on_mysql() {
    session_is_ended("mysql").await;
}

async fn b094_a_silent_holder_of_a_lease_row_runs_out() {
    for group in ["postgres", "mysql"] {
        let store = Store::new(group).await;
        let (holder, rival) = (store.rows(&store.behind).await, store.rows(&store.direct).await);
        let lease = store.falls_silent(&*holder, &*rival).await;
        store.proxy.pass();
        eventually("it is told that it is lost", async || {
            matches!(holder.renew(&lease, TTL).await, Ok(Renewal::Lost(_)))
        })
        .await;
    }
}
