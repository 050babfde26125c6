//! Independent servers of a test's own.

use std::time::Duration;

use distlock_core::{Busy, Lease, LockBackend, LockRequest, Renewal, TryLock};
use distlock_redis::{RedlockBackend, RedlockOptions};

use crate::support::{Server, run};

/// A ttl that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Independent servers.
pub(crate) struct Servers(pub(crate) Vec<Server>);

impl Servers {
    pub(crate) async fn start(number: usize) -> Self {
        let mut servers = Vec::new();
        for _ in 0..number {
            servers.push(Server::start(&[]).await);
        }
        Self(servers)
    }

    pub(crate) async fn backend(&self) -> RedlockBackend {
        self.backend_with(patient()).await
    }

    pub(crate) async fn backend_with(&self, options: RedlockOptions) -> RedlockBackend {
        RedlockBackend::connect(self.0.iter().map(Server::config), options).await.unwrap()
    }

    /// Which servers have a holder of this key.
    pub(crate) async fn held_at(&self, key: &str) -> Vec<bool> {
        let mut held = Vec::new();
        for server in &self.0 {
            held.push(is_held(server, key).await);
        }
        held
    }
}

/// Whether one server has a holder of this key.
pub(crate) async fn is_held(server: &Server, key: &str) -> bool {
    let answer = run(&mut server.raw().await, &format!("HEXISTS distlock:lock:{key} owner")).await;
    answer == redis::Value::Int(1)
}

/// Waits for single servers for as long as a busy machine may make them take.
pub(crate) fn patient() -> RedlockOptions {
    RedlockOptions::default().node_timeout(Duration::from_secs(3))
}

pub(crate) async fn take(backend: &RedlockBackend, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("{busy:?}"),
    }
}

pub(crate) async fn busy(backend: &RedlockBackend, request: &LockRequest) -> Busy {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Busy(busy) => busy,
        TryLock::Acquired(lease) => panic!("{lease:?}"),
    }
}

pub(crate) async fn renewed(backend: &RedlockBackend, lease: &Lease) {
    let renewal = backend.renew(lease, lease.ttl).await.unwrap();
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}
