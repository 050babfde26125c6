//! Locks of sessions, on servers that other tests use too.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Claim, Effect, ErrorKind, Lease, LockBackend, LockRequest, LostReason, Release, Renewal, StoreUrl,
    TryLock,
};
use distlock_sql::{mysql, postgres};
use distlock_testbed::lockprobe::Scripted;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row as _};

use crate::harness::{Test, eventually, fresh, shared, tests};
use crate::key;

const TTL: Duration = Duration::from_secs(20);

pub(crate) type Backend = Arc<dyn LockBackend>;

macro_rules! each {
    ($name:ident, $group:literal) => {
        mod $name {
            use super::*;

            tests! {
                [$group]
                near_misses_are_different_locks,
                b090_one_session_is_never_shared,
                connections_come_back,
                too_many_at_once_are_refused_and_nothing_is_lost,
                an_ended_session_is_noticed,
            }

            async fn near_misses_are_different_locks() {
                super::near_misses_are_different_locks($group).await;
            }
            async fn b090_one_session_is_never_shared() {
                super::b090_one_session_is_never_shared($group).await;
            }
            async fn connections_come_back() {
                super::connections_come_back($group).await;
            }
            async fn too_many_at_once_are_refused_and_nothing_is_lost() {
                super::too_many_at_once_are_refused_and_nothing_is_lost($group).await;
            }
            async fn an_ended_session_is_noticed() {
                super::an_ended_session_is_noticed($group).await;
            }
        }
    };
}
each!(on_postgres, "postgres");
each!(on_mysql, "mysql");

mod of_one_kind {
    use super::*;

    tests! {
        ["postgres", "mysql", "pgbouncer"]
        a_number_that_is_another_key_s_is_refused,
        a_pooler_that_changes_sessions_is_refused,
        a_pooler_that_keeps_sessions_is_fine,
        b089_a_program_killed_behind_a_pooler_leaves_no_lock,
        a_server_that_closes_idle_sessions_does_not_find_one,
    }
}

pub(crate) fn tests() -> Vec<Test> {
    [on_postgres::tests(), on_mysql::tests(), of_one_kind::tests()].concat()
}

async fn connect(group: &'static str, options: &str) -> Backend {
    let url = format!("{}?{options}", shared(group).await);
    connect_to(group, &url).await.unwrap()
}

pub(crate) async fn connect_to(group: &str, url: &str) -> distlock_core::Result<Backend> {
    let mut url = StoreUrl::parse(url)?;
    match group {
        "mysql" => Ok(Arc::new(mysql::named::from_url(&mut url).await?)),
        _ => Ok(Arc::new(postgres::advisory::from_url(&mut url).await?)),
    }
}

fn request(name: &str) -> LockRequest {
    LockRequest::new(Claim::mint(key(name)), TTL)
}

pub(crate) async fn take(backend: &Backend, name: &str) -> Lease {
    match backend.try_lock(&request(name)).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub(crate) async fn is_busy(backend: &Backend, name: &str) -> bool {
    match backend.try_lock(&request(name)).await.unwrap() {
        TryLock::Acquired(lease) => {
            backend.unlock(&lease.claim).await.unwrap();
            false
        }
        TryLock::Busy(_) => true,
    }
}

/// How many sessions the user of this test has, and the statement that ends them.
pub(crate) async fn sessions(group: &'static str, user: &str, ends: bool) -> usize {
    let url = shared(group).await;
    if group == "mysql" {
        let mut raw = MySqlConnection::connect(&url).await.unwrap();
        let find =
            format!("SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = '{user}'");
        let ids = sqlx::raw_sql(AssertSqlSafe(find)).fetch_all(&mut raw).await.unwrap();
        for id in ids.iter().filter(|_| ends) {
            let kill = format!("KILL {}", id.get::<i64, _>(0));
            sqlx::raw_sql(AssertSqlSafe(kill)).execute(&mut raw).await.unwrap();
        }
        return ids.len();
    }
    let mut raw = PgConnection::connect(&url).await.unwrap();
    let what = if ends { "pg_terminate_backend(pid, 10000)" } else { "true" };
    let find = format!("SELECT {what} FROM pg_stat_activity WHERE usename = '{user}'");
    sqlx::raw_sql(AssertSqlSafe(find)).fetch_all(&mut raw).await.unwrap().len()
}

/// A backend with a user of its own, by whom its sessions are known.
pub(crate) async fn of_its_own(group: &'static str, options: &str) -> (Backend, String) {
    let (url, user) = user_of_its_own(group).await;
    (connect_to(group, &format!("{url}?{options}")).await.unwrap(), user)
}

/// The URL of a new user, and its name.
pub(crate) async fn user_of_its_own(group: &'static str) -> (String, String) {
    let (url, user) = (shared(group).await, fresh("u"));
    let create = match group {
        "mysql" => format!("CREATE USER {user} IDENTIFIED BY 'x'; GRANT ALL ON *.* TO {user}"),
        _ => format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 'x'"),
    };
    if group == "mysql" {
        let mut raw = MySqlConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut raw).await.unwrap();
    } else {
        let mut raw = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut raw).await.unwrap();
    }
    let (scheme, rest) = url.split_once("://").unwrap();
    let rest = rest.split_once('@').unwrap().1;
    (format!("{scheme}://{user}:x@{rest}"), user)
}

/// B098, B099, B108.
async fn near_misses_are_different_locks(group: &'static str) {
    let backend = connect(group, "connections=12").await;
    let name = fresh("k");
    let long = "x".repeat(512 - name.len());
    for ending in ["a", "A", "a ", "á", "a%", "ab", &long] {
        take(&backend, &format!("{name}{ending}")).await;
    }
    assert!(is_busy(&backend, &format!("{name}a")).await);
}

/// The pooler resets the dead program's session before it gives it to somebody else.
async fn b089_a_program_killed_behind_a_pooler_leaves_no_lock() {
    let url = shared("pgbouncer").await.replace("/transaction", "/session");
    let rival = connect_to("postgres", &url).await.unwrap();
    let (folder, name) = (tempfile::tempdir().unwrap(), fresh("k"));
    let program = Command::new(std::env::current_exe().unwrap());
    let mut probe = Scripted::start(program, &url, folder.path()).await;
    // Longer than it is waited for.
    probe.lock(&name, TTL * 6, TTL).await;
    assert!(is_busy(&rival, &name).await);
    probe.kill().await;
    eventually("it is free", async || !is_busy(&rival, &name).await).await;
}

/// B090: locks of a session are re-entrant, so no two claims may meet in one.
async fn b090_one_session_is_never_shared(group: &'static str) {
    let backend = connect(group, "connections=2").await;
    let name = fresh("k");
    let lease = take(&backend, &name).await;
    assert!(is_busy(&backend, &name).await);
    backend.unlock(&lease.claim).await.unwrap();
    let next = take(&backend, &name).await;
    assert!(next.token > lease.token);
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    assert!(is_busy(&backend, &name).await);
    backend.unlock(&next.claim).await.unwrap();
    for round in 0..20 {
        let name = format!("{name} {round}");
        let attempts = [request(&name), request(&name)].map(|request| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move { backend.try_lock(&request).await.unwrap() })
        });
        let mut granted = Vec::new();
        for attempt in attempts {
            if let TryLock::Acquired(lease) = attempt.await.unwrap() {
                granted.push(lease);
            }
        }
        assert_eq!(granted.len(), 1, "of two tasks that try at the same time one gets it");
        assert_eq!(backend.unlock(&granted[0].claim).await.unwrap(), Release::Released);
    }
}

/// B095.
async fn connections_come_back(group: &'static str) {
    let (backend, user) = of_its_own(group, "connections=4").await;
    let name = fresh("k");
    let held = take(&backend, &format!("{name}held")).await;
    for round in 0..200 {
        let lease = take(&backend, &format!("{name}{round}")).await;
        assert!(is_busy(&backend, &format!("{name}held")).await);
        backend.unlock(&lease.claim).await.unwrap();
    }
    assert!(sessions(group, &user, false).await <= 5, "four for locks, and one for looking");
    backend.unlock(&held.claim).await.unwrap();
    backend.close().await.unwrap();
    eventually("all sessions end", async || sessions(group, &user, false).await == 0).await;
}

async fn too_many_at_once_are_refused_and_nothing_is_lost(group: &'static str) {
    let backend = connect(group, "connections=2&response_timeout=300ms").await;
    let name = fresh("k");
    let one = take(&backend, &format!("{name}1")).await;
    let two = take(&backend, &format!("{name}2")).await;
    let error = backend.try_lock(&request(&format!("{name}3"))).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Overloaded, Effect::None), "{error}");
    for lease in [&one, &two] {
        assert!(matches!(backend.renew(lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    }
    backend.unlock(&one.claim).await.unwrap();
    take(&backend, &format!("{name}3")).await;
}

async fn an_ended_session_is_noticed(group: &'static str) {
    let (backend, user) = of_its_own(group, "connections=4").await;
    let name = fresh("k");
    let lease = take(&backend, &name).await;
    let watched = tokio::spawn({
        let (backend, lease) = (Arc::clone(&backend), lease.clone());
        async move { backend.watch_loss(&lease).await }
    });
    assert!(sessions(group, &user, true).await > 0);
    // Far less than the ttl of 20 s.
    tokio::time::timeout(Duration::from_secs(10), watched).await.unwrap().unwrap().unwrap();
    assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Lost(_)));
    let next = take(&backend, &name).await;
    assert!(next.token > lease.token);
}

async fn a_number_that_is_another_key_s_is_refused() {
    let url = shared("postgres").await;
    let (table, name) = (fresh("t"), fresh("k"));
    let backend = connect("postgres", &format!("table={table}")).await;
    let lease = take(&backend, &name).await;
    backend.unlock(&lease.claim).await.unwrap();
    let mut raw = PgConnection::connect(&url).await.unwrap();
    // As if another key with the same number had been there first.
    let other = format!("UPDATE {table}_sessions SET lock_key = 'another'");
    sqlx::raw_sql(AssertSqlSafe(other)).execute(&mut raw).await.unwrap();
    for _ in 0..2 {
        let error = backend.try_lock(&request(&name)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None), "{error}");
        assert!(error.to_string().contains("same 64-bit hash"), "{error}");
    }
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (CAST(classid AS bigint) << 32)
         | CAST(objid AS bigint) = (SELECT slot FROM {t}_sessions)";
    let held = held.replace("{t}", &table);
    eventually("the refused attempts leave no lock", async || {
        let count: i64 = sqlx::raw_sql(AssertSqlSafe(held.clone())).fetch_one(&mut raw).await.unwrap().get(0);
        count == 0
    })
    .await;
}

/// B089.
async fn a_pooler_that_changes_sessions_is_refused() {
    let error = connect_to("postgres", &shared("pgbouncer").await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("changes sessions between transactions"), "{error}");
}

async fn a_pooler_that_keeps_sessions_is_fine() {
    let url = shared("pgbouncer").await.replace("/transaction", "/session");
    let backend = connect_to("postgres", &url).await.unwrap();
    let name = fresh("k");
    let lease = take(&backend, &name).await;
    assert!(is_busy(&backend, &name).await);
    assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    let held = take(&backend, &name).await;
    // The pooler resets the session before it gives it to somebody else.
    drop(backend);
    let other = connect_to("postgres", &url).await.unwrap();
    eventually("the lock is free", async || !is_busy(&other, &name).await).await;
    assert!(take(&other, &name).await.token > held.token);
}

/// B096: a session that nothing is heard of is closed by the server; this one is asked often enough.
async fn a_server_that_closes_idle_sessions_does_not_find_one() {
    for group in ["postgres", "mysql"] {
        let backend = connect(group, "connections=4").await;
        let name = fresh("k");
        // The server's limit is the ttl.
        let brief = LockRequest::new(Claim::mint(key(&name)), Duration::from_secs(1));
        let TryLock::Acquired(lease) = backend.try_lock(&brief).await.unwrap() else { panic!("it is free") };
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let renewal = backend.renew(&lease, Duration::from_secs(1)).await.unwrap();
            assert!(matches!(renewal, Renewal::Renewed { .. }), "{group}: {renewal:?}");
        }
        // Nobody renews it any more.
        eventually("it runs out", async || !is_busy(&backend, &name).await).await;
        assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Lost(_)));
    }
}
