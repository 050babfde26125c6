//! Servers and clients that are killed, stopped and restarted.

use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::Promises;
use distlock_conformance::{Data, Server as _};
use distlock_core::{LockBackend, LockClient, LockOptions, LostReason, WaitPolicy};
use distlock_testbed::lockprobe::Work;
use distlock_testbed::{Action, ServiceSet, Soak};
use distlock_zk::ZkBackend;

use crate::support::{ask, connect, eventually, tests};

tests! {
    a_killed_leader_costs_no_lock,
    a_probe_names_the_servers_that_are_away,
    a_restart_within_the_session_s_time_costs_no_lock,
    an_outage_beyond_the_validity_costs_the_lock_and_serves_the_waiter,
    stopped_and_killed_clients_break_no_promise,
    stopped_servers_break_no_promise,
}

fn up_to(seconds: u64) -> LockOptions {
    LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_secs(seconds)))
}

async fn a_killed_leader_costs_no_lock() {
    let set = ServiceSet::up(&["zk3"]).await.unwrap();
    let client = LockClient::new(connect(&format!("{}/locks?session_timeout=20s", set.url("zk3"))).await);
    let waiting = LockClient::new(connect(&format!("{}/locks?session_timeout=20s", set.url("zk3"))).await);
    let guard = client.lock("k").await.unwrap();
    let waiter = tokio::spawn(async move { waiting.lock_with("k", &up_to(60)).await });
    let mut leader = "";
    for name in ["z1", "z2", "z3"] {
        if ask(&set.server(name).address().to_string(), "srvr").await.contains("Mode: leader") {
            leader = name;
        }
    }
    set.server(leader).kill9().await;
    let before = guard.valid_until();
    eventually("it is renewed without that leader", async || guard.valid_until() > before).await;
    assert!(guard.is_valid());
    let token = guard.token();
    guard.unlock().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.token() > token, "tokens rise over leaders");
    let again = {
        next.unlock().await.unwrap();
        client.lock_with("k", &up_to(30)).await.unwrap()
    };
    assert!(again.token().get() >> 32 > token.get() >> 32, "a new leader counts on from a higher number");
    set.down().await;
}

/// Whichever of them it is, and in whatever order they are named.
async fn a_probe_names_the_servers_that_are_away() {
    let set = ServiceSet::up(&["zk3"]).await.unwrap();
    let backend = connect(&format!("{}/locks", set.url("zk3"))).await;
    let silent = async || {
        // While they choose another leader nobody answers for the ensemble.
        let health = backend.probe().await.ok()?;
        assert!(health.version.as_deref().is_some_and(|version| version.starts_with("3.")), "{health:?}");
        let warnings = health.warnings.into_iter().map(|warning| warning.what);
        let mut servers: Vec<_> = warnings.filter(|what| what.contains("gives no answer")).collect();
        (servers.len() <= 1).then(|| servers.pop())
    };
    eventually("all answer", async || silent().await == Some(None)).await;
    for name in ["z1", "z2", "z3"] {
        let server = set.server(name);
        server.kill9().await;
        let address = server.address().to_string();
        eventually("the killed one is named", async || {
            silent().await.flatten().is_some_and(|what| what.contains(&address))
        })
        .await;
        server.restart(Data::Kept).await;
        set.whole("zk3").await;
    }
}

async fn a_restart_within_the_session_s_time_costs_no_lock() {
    let set = ServiceSet::up(&["zk"]).await.unwrap();
    let url = format!("{}/locks?session_timeout=30s", set.url("zk"));
    let (client, waiting) = (LockClient::new(connect(&url).await), LockClient::new(connect(&url).await));
    let guard = client.lock("k").await.unwrap();
    let waiter = tokio::spawn(async move { waiting.lock_with("k", &up_to(60)).await });
    for _ in 0..2 {
        set.server("zk").restart(Data::Kept).await;
        let before = guard.valid_until();
        eventually("it is renewed after the restart", async || guard.valid_until() > before).await;
    }
    assert!(guard.is_valid() && !waiter.is_finished());
    guard.unlock().await.unwrap();
    waiter.await.unwrap().unwrap().unlock().await.unwrap();
    set.down().await;
}

async fn an_outage_beyond_the_validity_costs_the_lock_and_serves_the_waiter() {
    let set = ServiceSet::up(&["zk"]).await.unwrap();
    let url = format!("{}/locks?session_timeout=2s", set.url("zk"));
    let (client, waiting) = (LockClient::new(connect(&url).await), LockClient::new(connect(&url).await));
    let guard = client.lock("k").await.unwrap();
    let options = up_to(60).ttl(Duration::from_secs(30));
    let waiter = tokio::spawn(async move { waiting.lock_with("k", &options).await });
    eventually("somebody waits", async || {
        let record = client.admin().unwrap().inspect(guard.key()).await.unwrap();
        record.is_some_and(|record| record.waiters == Some(1))
    })
    .await;
    set.server("zk").kill9().await;
    let reason =
        tokio::time::timeout(Duration::from_secs(30), guard.lost()).await.expect("the loss is announced");
    assert_eq!(reason, LostReason::Unreachable);
    tokio::time::sleep(Duration::from_secs(3)).await;
    set.server("zk").start().await;
    let token = guard.token();
    drop(guard);
    let next = waiter.await.unwrap().expect("the waiter is served");
    assert!(next.token() > token);
    set.down().await;
}

async fn soaked(url: &str, seconds: u64, targets: Vec<Arc<dyn distlock_testbed::Target>>) {
    let folder = tempfile::tempdir().unwrap();
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let soak = Soak::new(Work::new(url, folder.path(), seed), 3, Duration::from_secs(seconds));
    let report =
        soak.run(targets, &[Action::Pause, Action::Restart], Promises::of(&ZkBackend::describe())).await;
    assert_eq!(report.complaints(), Vec::<String>::new(), "{report}");
    assert!(report.grants >= 10, "{report}");
}

/// Sessions of one second end while the probes are stopped.
async fn stopped_and_killed_clients_break_no_promise() {
    let set = ServiceSet::up(&["zk"]).await.unwrap();
    soaked(&format!("{}/locks?session_timeout=1s", set.url("zk")), 20, Vec::new()).await;
    set.down().await;
}

async fn stopped_servers_break_no_promise() {
    let set = ServiceSet::up(&["zk3"]).await.unwrap();
    let targets: Vec<Arc<dyn distlock_testbed::Target>> =
        vec![Arc::new(set.server("z1")), Arc::new(set.server("z2"))];
    soaked(&format!("{}/locks?session_timeout=4s", set.url("zk3")), 25, targets).await;
    set.down().await;
}
