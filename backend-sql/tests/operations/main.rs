//! Lease rows on database servers of each test's own, which are killed, made read-only, or have a standby
//! beside them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::future_not_send,
    reason = "a test may panic, and ends its tasks"
)]

mod encrypting;
mod mariadb;
mod probing;
mod promoting;

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::{Data, Server};
use distlock_core::{
    Claim, ErrorKind, Lease, LockBackend, LockClient, LockKey, LockRequest, StoreUrl, TryLock,
};
use distlock_sql::mysql::{self, ServerConfig};
use distlock_sql::postgres;
use distlock_testbed::ServiceSet;
use libtest_mimic::{Arguments, Completion, Trial};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

type Test = (&'static str, &'static str, fn(ServiceSet, &'static str) -> Pin<Box<dyn Future<Output = ()>>>);

const TESTS: &[Test] = &[
    ("the_server_that_takes_writes_is_found", "pgstandby", |set, group| {
        Box::pin(a_primary_is_found(set, group))
    }),
    ("the_server_that_takes_writes_is_found", "mysqlreplica", |set, group| {
        Box::pin(a_primary_is_found(set, group))
    }),
    ("a_killed_server_is_taken_up_again_under_load", "postgres", |set, group| {
        Box::pin(killed_under_load(set, group))
    }),
    ("a_killed_server_is_taken_up_again_under_load", "mysql", |set, group| {
        Box::pin(killed_under_load(set, group))
    }),
    ("a_standby_that_lacks_a_grant_is_promoted", "pgstandby", |set, _| {
        Box::pin(promoting::without_the_grant(set))
    }),
    ("a_synchronous_standby_is_promoted", "pgstandby", |set, _| Box::pin(promoting::with_the_grant(set))),
    ("a_probe_finds_replicas", "mysqlreplica", |set, _| Box::pin(probing::replicas_are_found_on_mysql(set))),
    ("a_probe_finds_replicas", "pgstandby", |set, _| Box::pin(probing::standbys_are_found_on_postgres(set))),
    ("a_probe_finds_no_replicas_of_a_server_alone", "postgres", |set, group| {
        Box::pin(probing::a_server_alone_has_no_replicas(set, group))
    }),
    ("a_probe_finds_no_replicas_of_a_server_alone", "mysql", |set, group| {
        Box::pin(probing::a_server_alone_has_no_replicas(set, group))
    }),
    ("an_authority_of_one_s_own_is_enough", "postgres", |set, _| Box::pin(encrypting::on_postgres(set))),
    // The group says whether the programs are there; the test has a server of its own.
    ("an_authority_of_one_s_own_is_enough", "mysql", |_, _| Box::pin(encrypting::on_mariadb())),
    ("b096_connections_that_the_server_closed_are_noticed", "mysql", |set, _| Box::pin(b096(set))),
    ("b106_a_server_that_takes_no_writes_is_not_busy", "mysql", |set, _| Box::pin(b106(set))),
];

fn main() -> ExitCode {
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let trials = TESTS.iter().map(|(name, group, run)| {
        let trial = Trial::ignorable_test(*name, move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                match ServiceSet::available(&[group]).await {
                    Err(missing) if !is_required => return Ok(Completion::ignored_with(missing)),
                    Err(missing) => return Err(missing.into()),
                    Ok(()) => {}
                }
                run(ServiceSet::up(&[group]).await.unwrap(), group).await;
                Ok(Completion::Completed)
            })
        });
        trial.with_kind(*group)
    });
    let trials = trials.chain([Trial::ignorable_test("b097_nodes_are_refused", move || {
        match mariadb::has_galera() {
            Err(missing) if !is_required => return Ok(Completion::ignored_with(missing)),
            Err(missing) => return Err(missing.into()),
            Ok(()) => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(b097());
        Ok(Completion::Completed)
    })
    .with_kind("galera")]);
    let mut arguments = Arguments::from_args();
    // Each has servers of its own.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

const S: Duration = Duration::from_secs(1);

fn config(url: &str) -> ServerConfig {
    ServerConfig::from_url(&mut StoreUrl::parse(url).unwrap()).unwrap()
}

async fn connect(url: &str, config: ServerConfig) -> distlock_core::Result<Arc<dyn LockBackend>> {
    Ok(match url.starts_with("postgres") {
        true => Arc::new(postgres::connect(config).await?),
        false => Arc::new(mysql::connect(config).await?),
    })
}

fn request(key: &str, ttl: Duration) -> LockRequest {
    LockRequest::new(Claim::mint(LockKey::new(key).unwrap()), ttl)
}

async fn take(backend: &dyn LockBackend, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Waits until a condition holds, for at most a minute.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("in vain: {what}");
}

async fn execute(url: &str, sql: &str) {
    let mut raw = MySqlConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut raw).await.unwrap();
}

async fn a_primary_is_found(set: ServiceSet, group: &str) {
    let standby = if group == "pgstandby" { "pgstandby_standby" } else { "mysqlreplica_replica" };
    let (primary, standby) = (set.url(group), set.url(standby));
    let error = connect(primary, config(standby)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("takes no writes"), "{error}");
    let both = [config(standby).servers, config(primary).servers].concat();
    let backend = connect(primary, config(primary).servers(both)).await.unwrap();
    take(&*backend, &request("k", 30 * S)).await;
}

/// Tokens rise, nobody holds beside another, and all go on by themselves.
async fn killed_under_load(set: ServiceSet, name: &str) {
    let url = set.url(name);
    let held = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut workers = Vec::new();
    for _ in 0..4 {
        let client = LockClient::new(connect(url, config(url)).await.unwrap());
        let held = Arc::clone(&held);
        workers.push(tokio::spawn(async move {
            let mut turns = 0_u32;
            let mut last = None;
            while turns < 60 {
                let options = distlock_core::LockOptions::default().ttl(3 * S);
                let Ok(guard) = client.lock_with("k", &options).await else { continue };
                assert!(last < Some(guard.token()), "tokens rise");
                last = Some(guard.token());
                if guard.is_valid() {
                    let token = guard.token().get();
                    let before = held.fetch_max(token, std::sync::atomic::Ordering::AcqRel);
                    assert!(before < token, "{before} was granted before {token}");
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                turns += 1;
                let _ = guard.unlock().await;
            }
        }));
    }
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        set.server(name).kill9().await;
        set.server(name).restart(Data::Kept).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn b096(set: ServiceSet) {
    let url = set.url("mysql");
    execute(url, "SET GLOBAL wait_timeout = 1").await;
    let backend = connect(url, config(url)).await.unwrap();
    let lease = take(&*backend, &request("k", 60 * S)).await;
    for _ in 0..2 {
        tokio::time::sleep(2 * S).await;
        assert!(matches!(
            backend.renew(&lease, 60 * S).await.unwrap(),
            distlock_core::Renewal::Renewed { .. }
        ));
    }
    tokio::time::sleep(2 * S).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), distlock_core::Release::Released);
}

async fn b097() {
    let folder = tempfile::tempdir().unwrap();
    let (_node, url) = mariadb::start_galera(folder.path());
    eventually("it is refused", async || {
        let error = connect(&url, config(&url)).await.unwrap_err();
        error.kind() == ErrorKind::Misconfigured && error.to_string().contains("Galera")
    })
    .await;
}

async fn b106(set: ServiceSet) {
    let url = set.url("mysql");
    let rights = "CREATE USER locks IDENTIFIED BY 'x'; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON locks.* TO locks";
    execute(url, rights).await;
    let config = config(url).user("locks").password("x");
    let backend = connect(url, config.clone()).await.unwrap();
    let lease = take(&*backend, &request("k", 60 * S)).await;
    execute(url, "SET GLOBAL read_only = ON").await;
    for refused in [
        backend.try_lock(&request("k", 30 * S)).await.unwrap_err(),
        backend.unlock(&lease.claim).await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.to_string().contains("takes no writes"), "{refused}");
    }
    execute(url, "SET GLOBAL read_only = OFF").await;
    eventually("it takes writes again", async || backend.unlock(&lease.claim).await.is_ok()).await;
}
