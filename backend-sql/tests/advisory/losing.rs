//! Sessions that end under their locks.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::{Data, Server};
use distlock_core::Lease;
use distlock_testbed::ServiceSet;
use distlock_testbed::lockprobe::Scripted;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row as _};

use crate::harness::{eventually, fresh, shared, tests};
use crate::sessions::{Backend, connect_to, is_busy, of_its_own, sessions, take};

tests! {
    ["postgres", "mysql"]
    an_ended_session_is_heard_on_postgres_before_it_is_asked,
    a_killed_server_is_heard_on_postgres_before_it_is_asked,
    a_killed_server_is_noticed_on_mysql,
    ended_sessions_are_heard_of_at_once,
    a_killed_program_s_locks_are_free_at_once,
}

/// Far less than the ttl of 20 s.
const SOON: Duration = Duration::from_secs(10);
/// How often it is tried to end a session right after it was asked, and long before it is asked again.
const TRIES: usize = 5;

async fn is_lost_soon(backend: &Backend, lease: &Lease) {
    tokio::time::timeout(SOON, backend.watch_loss(lease)).await.unwrap().unwrap();
}

/// Takes a lock, has its session end right after it was asked whether it lives, and says whether the loss was
/// noticed without another statement.
async fn is_heard(backend: &Backend, end: impl Future<Output = ()>) -> bool {
    let lease = take(backend, &fresh("k")).await;
    let taken = backend.commands_sent();
    eventually("it is asked", async || backend.commands_sent() > taken).await;
    let asked = backend.commands_sent();
    end.await;
    is_lost_soon(backend, &lease).await;
    backend.commands_sent() == asked
}

async fn an_ended_session_is_heard_on_postgres_before_it_is_asked() {
    let mut raw = PgConnection::connect(&shared("postgres").await).await.unwrap();
    for _ in 0..TRIES {
        let (backend, user) = of_its_own("postgres", "connections=4").await;
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'");
        let end = async {
            sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut raw).await.unwrap();
        };
        let is_heard = is_heard(&backend, end).await;
        eventually("no other session comes in its place", async || {
            sessions("postgres", &user, false).await == 0
        })
        .await;
        if is_heard {
            return;
        }
    }
    panic!("it was asked each time");
}

/// A server of a test's own, and the number of its process.
async fn own_server(group: &'static str) -> (ServiceSet, u32) {
    let set = ServiceSet::up(&[group]).await.unwrap();
    let id = process(group, set.url(group)).await;
    (set, id)
}

async fn process(group: &'static str, url: &str) -> u32 {
    let file: String = if group == "mysql" {
        let mut raw = MySqlConnection::connect(url).await.unwrap();
        let path: String = sqlx::raw_sql("SELECT @@pid_file").fetch_one(&mut raw).await.unwrap().get(0);
        std::fs::read_to_string(path).unwrap()
    } else {
        let mut raw = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql("SELECT pg_read_file('postmaster.pid')").fetch_one(&mut raw).await.unwrap().get(0)
    };
    file.lines().next().unwrap().trim().parse().unwrap()
}

fn kill(process: u32) {
    assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
}

async fn a_killed_server_is_heard_on_postgres_before_it_is_asked() {
    let (set, mut id) = own_server("postgres").await;
    let url = set.url("postgres");
    for _ in 0..TRIES {
        let backend = connect_to("postgres", url).await.unwrap();
        if is_heard(&backend, async { kill(id) }).await {
            return;
        }
        set.server("postgres").restart(Data::Kept).await;
        id = process("postgres", url).await;
    }
    panic!("it was asked each time");
}

async fn a_killed_server_is_noticed_on_mysql() {
    let (set, id) = own_server("mysql").await;
    let backend = connect_to("mysql", set.url("mysql")).await.unwrap();
    let lease = take(&backend, &fresh("k")).await;
    kill(id);
    is_lost_soon(&backend, &lease).await;
}

/// How long `ROUNDS` together may take of what a pause between two questions would make twelve times 125 ms.
const AT_ONCE: Duration = Duration::from_millis(600);
const ROUNDS: u32 = 12;

/// Whether something that happens `ROUNDS` times at any point of a pause between two questions does not wait for
/// the question.
async fn is_at_once(mut once: impl AsyncFnMut() -> Duration) {
    let mut took = Vec::new();
    for _ in 0..TRIES {
        let mut all = Duration::ZERO;
        for _ in 0..ROUNDS {
            all += once().await;
        }
        if all < AT_ONCE {
            return;
        }
        took.push(all);
    }
    panic!("{took:?}");
}

/// Until any point of a pause between two questions.
async fn some_time() {
    tokio::time::sleep(Duration::from_millis(200 + fastrand::u64(..250))).await;
}

async fn ended_sessions_are_heard_of_at_once() {
    for group in ["postgres", "mysql"] {
        let (backend, user) = of_its_own(group, "connections=4").await;
        is_at_once(async || {
            let lease = take(&backend, &fresh("k")).await;
            some_time().await;
            let lost = tokio::spawn({
                let backend = Arc::clone(&backend);
                async move {
                    is_lost_soon(&backend, &lease).await;
                    Instant::now()
                }
            });
            let begun = Instant::now();
            sessions(group, &user, true).await;
            lost.await.unwrap() - begun
        })
        .await;
    }
}

async fn a_killed_program_s_locks_are_free_at_once() {
    for group in ["postgres", "mysql"] {
        let url = shared(group).await;
        let (rival, folder) = (connect_to(group, &url).await.unwrap(), tempfile::tempdir().unwrap());
        is_at_once(async || {
            let name = fresh("k");
            let program = Command::new(std::env::current_exe().unwrap());
            let mut probe = Scripted::start(program, &url, folder.path()).await;
            probe.lock(&name, SOON * 6, SOON).await;
            some_time().await;
            assert!(is_busy(&rival, &name).await);
            let killed = Instant::now();
            probe.kill().await;
            eventually("it is free", async || !is_busy(&rival, &name).await).await;
            killed.elapsed()
        })
        .await;
    }
}
