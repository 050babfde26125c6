//! Sessions that end under their locks.

use std::process::Command;
use std::time::Duration;

use distlock_conformance::{Data, Server};
use distlock_core::Lease;
use distlock_testbed::ServiceSet;
use distlock_testbed::lockprobe::Scripted;
use sqlx::{Connection, MySqlConnection, PgConnection, Row as _};

use crate::harness::{eventually, fresh, shared, tests};
use crate::sessions::{Backend, connect_to, is_busy, of_its_own, sessions, take, user_of_its_own};
use crate::sleeping::{direct, sleepers};

tests! {
    ["postgres", "mysql"]
    an_ended_session_is_heard_before_it_is_asked,
    a_killed_server_is_heard_before_it_is_asked,
    a_killed_program_s_lock_is_free,
}

/// Far less than the ttl of 20 s.
const SOON: Duration = Duration::from_secs(10);
/// How often it is tried to end a session right after it was asked, and long before it is asked again.
const TRIES: usize = 20;

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

async fn an_ended_session_is_heard_before_it_is_asked() {
    for group in ["postgres", "mysql"] {
        let mut are_heard = false;
        for _ in 0..TRIES {
            let (backend, user) = of_its_own(group, "connections=4").await;
            let end = async {
                sessions(group, &user, true).await;
            };
            are_heard = is_heard(&backend, end).await;
            eventually("no other session comes in its place", async || {
                sessions(group, &user, false).await == 0
            })
            .await;
            if are_heard {
                break;
            }
        }
        assert!(are_heard, "{group}: it was asked each time");
    }
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

async fn a_killed_server_is_heard_before_it_is_asked() {
    for group in ["postgres", "mysql"] {
        let (set, mut id) = own_server(group).await;
        let url = set.url(group);
        let mut is_heard_of = false;
        for _ in 0..TRIES {
            let backend = connect_to(group, url).await.unwrap();
            is_heard_of = is_heard(&backend, async { kill(id) }).await;
            if is_heard_of {
                break;
            }
            set.server(group).restart(Data::Kept).await;
            id = process(group, url).await;
        }
        assert!(is_heard_of, "{group}: it was asked each time");
    }
}

async fn a_killed_program_s_lock_is_free() {
    for group in ["postgres", "mysql"] {
        let (url, user) = user_of_its_own(group).await;
        let rival = connect_to(group, &shared(group).await).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let name = fresh("k");
        let program = Command::new(std::env::current_exe().unwrap());
        let mut probe = Scripted::start(program, &url, folder.path()).await;
        // Longer than it is waited for.
        probe.lock(&name, SOON * 12, SOON).await;
        if group == "mysql" {
            sleepers(&mut direct().await, &user, 1).await;
        }
        assert!(is_busy(&rival, &name).await);
        probe.kill().await;
        eventually("it is free", async || !is_busy(&rival, &name).await).await;
    }
}
