//! What a probe says of a server's version, and of the replicas that follow it.

use std::sync::Arc;

use distlock_core::{Health, LockBackend};
use distlock_sql::mysql::{ServerConfig, named};
use distlock_sql::postgres::advisory;
use distlock_testbed::ServiceSet;

use crate::{config, connect, eventually, execute};

/// Lease rows and locks of sessions on a server.
async fn backends(url: &str, config: ServerConfig) -> [Arc<dyn LockBackend>; 2] {
    let sessions: Arc<dyn LockBackend> = match url.starts_with("postgres") {
        true => Arc::new(advisory::connect(config.clone()).await.unwrap()),
        false => Arc::new(named::connect(config.clone()).await.unwrap()),
    };
    [connect(url, config).await.unwrap(), sessions]
}

async fn probed(backend: &dyn LockBackend) -> Health {
    let health = backend.probe().await.unwrap();
    let version = health.version.as_deref().unwrap_or_default();
    assert!(version.starts_with("PostgreSQL 1") || version.contains("MariaDB"), "{health:?}");
    health
}

fn finds(health: &Health, what: &str, fix: &str) -> bool {
    health.warnings.iter().any(|warning| warning.what.contains(what) && warning.fix.contains(fix))
}

/// The user has no more rights than the locks need.
pub(crate) async fn replicas_are_found_on_mysql(set: ServiceSet) {
    let url = set.url("mysqlreplica");
    execute(
        url,
        "CREATE USER locks IDENTIFIED BY 'x'; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON locks.* TO locks",
    )
    .await;
    let [rows, sessions] = backends(url, config(url).user("locks").password("x")).await;
    eventually("the replica shows", async || {
        finds(&probed(&*rows).await, "replicas follow this server asynchronously", "semi-synchronous")
    })
    .await;
    let health = probed(&*sessions).await;
    assert!(finds(&health, "one that takes over knows no locks of sessions", "lease rows"), "{health:?}");
    assert!(!health.warnings.iter().any(|warning| warning.what.contains("clock")), "{health:?}");
    execute(
        set.url("mysqlreplica_replica"),
        "SET GLOBAL rpl_semi_sync_slave_enabled = ON; STOP SLAVE; START SLAVE",
    )
    .await;
    execute(url, "SET GLOBAL rpl_semi_sync_master_enabled = ON").await;
    let health = probed(&*rows).await;
    assert!(!finds(&health, "replicas", ""), "{health:?}");
    assert!(
        finds(&probed(&*sessions).await, "knows no locks of sessions", ""),
        "waiting does not help sessions"
    );
}

pub(crate) async fn a_server_alone_has_no_replicas(set: ServiceSet, group: &str) {
    let url = set.url(group);
    for backend in backends(url, config(url)).await {
        let health = probed(&*backend).await;
        assert!(!finds(&health, "follow", ""), "{health:?}");
    }
}

pub(crate) async fn standbys_are_found_on_postgres(set: ServiceSet) {
    let url = set.url("pgstandby");
    let [rows, sessions] = backends(url, config(url)).await;
    let health = probed(&*rows).await;
    assert!(
        finds(&health, "standbys follow this server asynchronously", "synchronous_standby_names"),
        "{health:?}"
    );
    let health = probed(&*sessions).await;
    assert!(finds(&health, "one that takes over knows no locks of sessions", "lease rows"), "{health:?}");
}
