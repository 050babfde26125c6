//! A standby takes over while a lock is held.

use std::sync::Arc;

use distlock_conformance::Server;
use distlock_core::{Error, ErrorKind, LockBackend, LockClient, LockOptions, Renewal, TryLock, WaitPolicy};
use distlock_sql::postgres::ServerConfig;
use distlock_testbed::ServiceSet;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::{S, config, connect, eventually, request, take};

async fn run(url: &str, sql: &str) {
    let mut raw = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut raw).await.unwrap();
}

async fn ask(url: &str, sql: &str) -> bool {
    let mut raw = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut raw).await.unwrap().get(0)
}

/// Clients know both servers.
fn both(set: &ServiceSet) -> ServerConfig {
    let (primary, standby) = (set.url("pgstandby"), set.url("pgstandby_standby"));
    config(primary).servers([config(primary).servers, config(standby).servers].concat())
}

async fn backend(set: &ServiceSet) -> Arc<dyn LockBackend> {
    connect(set.url("pgstandby"), both(set)).await.unwrap()
}

/// Kills the primary, and makes the standby one. Clients hear that nobody takes writes meanwhile.
async fn fail_over(set: &ServiceSet, client: &dyn LockBackend) {
    set.server("pgs0").kill9().await;
    for n in 0..3 {
        let error = client.try_lock(&request(&format!("meanwhile{n}"), 30 * S)).await.unwrap_err();
        assert_passing(&error);
    }
    run(set.url("pgstandby_standby"), "SELECT pg_promote(true, 60)").await;
}

fn assert_passing(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.is_retryable(), "{error}");
}

/// What commits without waiting for a standby may be missing there: a second holder beside the first, with a
/// higher token.
pub(crate) async fn without_the_grant(set: ServiceSet) {
    let standby = set.url("pgstandby_standby").to_owned();
    let (holder, rival) = (LockClient::new(backend(&set).await), backend(&set).await);
    let watcher = backend(&set).await;
    take(&*rival, &request("other", 60 * S)).await;
    let first = holder.lock("k").await.unwrap();
    let earlier = first.token();
    first.unlock().await.unwrap();
    eventually("the standby has come so far", async || {
        ask(
            &standby,
            "SELECT count(*) = 2 FROM distlock_locks WHERE expires_at IS NULL OR lock_key = 'other'",
        )
        .await
    })
    .await;
    // From here on it hears nothing.
    run(&standby, "ALTER SYSTEM SET primary_conninfo = ''").await;
    run(&standby, "SELECT pg_reload_conf()").await;
    eventually("it receives nothing", async || {
        ask(&standby, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)").await
    })
    .await;
    let guard = holder.lock_with("k", &LockOptions::default().ttl(60 * S)).await.unwrap();
    assert!(guard.token() > earlier);
    fail_over(&set, &*watcher).await;

    // Nobody has to begin anew.
    let lease = take_again(&*rival, "k").await;
    assert!(guard.is_valid(), "the first holder does not know yet: H1 is broken, as the guarantees say");
    assert!(
        lease.token > guard.token(),
        "and fencing tells the two apart: {} {}",
        lease.token,
        guard.token()
    );
    // It is told at its next renewal, long before its ttl is over.
    tokio::time::timeout(50 * S, guard.lost()).await.expect("it is told");
    let limit = LockOptions::default().wait(WaitPolicy::UpTo(60 * S));
    let elsewhere = holder.lock_with("elsewhere", &limit).await.unwrap();
    elsewhere.unlock().await.unwrap();
    rival.unlock(&lease.claim).await.unwrap();
    let next = holder.lock_with("k", &limit).await.unwrap();
    assert!(next.token() > lease.token);
}

/// A grant that waits for the standby outlives the primary.
pub(crate) async fn with_the_grant(set: ServiceSet) {
    let primary = set.url("pgstandby");
    run(primary, "ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    run(primary, "SELECT pg_reload_conf()").await;
    eventually("the standby is waited for", async || {
        ask(primary, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").await
    })
    .await;
    let (holder, rival) = (backend(&set).await, backend(&set).await);
    let lease = take(&*holder, &request("k", 60 * S)).await;
    // The promoted server would wait for a standby of its own.
    run(set.url("pgstandby_standby"), "ALTER SYSTEM SET synchronous_standby_names = ''").await;
    fail_over(&set, &*rival).await;
    eventually("it is held there too", async || match rival.try_lock(&request("k", 30 * S)).await {
        Ok(TryLock::Busy(busy)) => {
            busy.holder.is_some_and(|holder| holder.owner == lease.claim.owner && holder.token == lease.token)
        }
        Ok(TryLock::Acquired(other)) => panic!("{other:?} beside {lease:?}"),
        Err(error) => {
            assert_passing(&error);
            false
        }
    })
    .await;
    eventually("it is renewed there", async || match holder.renew(&lease, 60 * S).await {
        Ok(Renewal::Renewed { .. }) => true,
        Ok(Renewal::Lost(reason)) => panic!("{reason}"),
        Err(error) => {
            assert_passing(&error);
            false
        }
    })
    .await;
}

/// Takes a lock as soon as the new primary answers.
async fn take_again(backend: &dyn LockBackend, key: &str) -> distlock_core::Lease {
    let mut taken = None;
    eventually("the new primary grants", async || match backend.try_lock(&request(key, 60 * S)).await {
        Ok(TryLock::Acquired(lease)) => {
            taken = Some(lease);
            true
        }
        Ok(TryLock::Busy(busy)) => panic!("busy: {busy:?}"),
        Err(error) => {
            assert_passing(&error);
            false
        }
    })
    .await;
    taken.unwrap()
}
