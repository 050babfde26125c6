//! Connections that come and go.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use distlock_conformance::{Data, Server as _};
use distlock_core::{ErrorKind, LockBackend, LockClient, LockGuard, LockOptions, WaitPolicy};
use distlock_testbed::{ServiceSet, rounds};
use futures_util::future::join_all;

use crate::support::{ask, behind_proxy, connect, eventually, folder, request, shared, take, tests};

tests! {
    b065_lockers_go_on_when_the_leader_changes,
    b083_other_servers_cost_no_lock,
    b130_an_outage_leaks_no_files,
}

/// The one of three that leads.
async fn leader(set: &ServiceSet) -> String {
    for name in ["z1", "z2", "z3"] {
        let address = set.server(name).address().to_string();
        if ask(&address, "srvr").await.contains("Mode: leader") {
            return name.to_owned();
        }
    }
    panic!("nobody leads");
}

async fn b065_lockers_go_on_when_the_leader_changes() {
    let set = ServiceSet::up(&["zk3"]).await.unwrap();
    let url = format!("{}/locks?session_timeout=6s", set.url("zk3"));
    let rounds = Arc::new(AtomicUsize::new(0));
    let mut lockers = Vec::new();
    for _ in 0..3 {
        let (client, rounds) = (LockClient::new(connect(&url).await), Arc::clone(&rounds));
        lockers.push(tokio::spawn(async move {
            let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_secs(5)));
            loop {
                if let Ok(guard) = client.lock_with("k", &options).await {
                    let _ = guard.unlock().await;
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    for _ in 0..2 {
        let name = leader(&set).await;
        set.server(&name).kill9().await;
        let before = rounds.load(Ordering::Relaxed);
        eventually("they go on without it", async || rounds.load(Ordering::Relaxed) > before + 20).await;
        set.server(&name).restart(Data::Kept).await;
        set.whole("zk3").await;
        let before = rounds.load(Ordering::Relaxed);
        eventually("they go on with it", async || rounds.load(Ordering::Relaxed) > before + 20).await;
    }
    for locker in lockers {
        locker.abort();
    }
    set.down().await;
}

async fn b083_other_servers_cost_no_lock() {
    let folder = folder();
    let (old, url) = behind_proxy(shared(), &folder, "session_timeout=30s");
    let backend = connect(&url).await;
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    let held = join_all((0..20).map(|n| client.lock(format!("held {n}"))));
    let held: Vec<_> = held.await.into_iter().map(Result::unwrap).collect();
    let other = LockClient::new(connect(&format!("zk://{}{folder}", shared())).await);
    let theirs = other.lock("theirs").await.unwrap();
    let waiter = {
        let client = client.clone();
        tokio::spawn(async move { client.lock("theirs").await })
    };
    eventually("somebody waits", async || {
        let record = other.admin().unwrap().inspect(theirs.key()).await.unwrap();
        record.is_some_and(|record| record.waiters == Some(1))
    })
    .await;
    let (new, _) = behind_proxy(shared(), &folder, "");
    for servers in [Vec::new(), vec!["a,b".to_owned()]] {
        assert_eq!(backend.use_servers(servers).unwrap_err().kind(), ErrorKind::InvalidOptions);
    }
    // Not in use yet: nothing is connected there, and the old one is gone for good.
    backend.use_servers([new.address().to_string()]).unwrap();
    old.refuse().await;
    old.reset().await;
    let first: Vec<_> = held.iter().map(|guard| guard.valid_until()).collect();
    eventually("all are renewed twice over", async || {
        held.iter().zip(&first).all(|(guard, first)| {
            assert!(guard.is_valid(), "`{}` was lost", guard.key());
            guard.valid_until().since(*first) > guard.ttl()
        })
    })
    .await;
    assert!(!waiter.is_finished());
    theirs.unlock().await.unwrap();
    waiter.await.unwrap().expect("the waiter kept its place").unlock().await.unwrap();
    for released in join_all(held.into_iter().map(LockGuard::unlock)).await {
        released.unwrap();
    }
}

/// Set in the environment of the program whose files are counted.
const ALONE: &str = "DISTLOCK_TEST_ALONE";

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The open files are those of the whole program, so this test runs in a program of its own: other tests run beside it.
async fn b130_an_outage_leaks_no_files() {
    if std::env::var_os(ALONE).is_some() {
        return go_through_an_outage().await;
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", concat!(module_path!(), "::b130_an_outage_leaks_no_files")]).env(ALONE, "1");
    let ended = tokio::task::spawn_blocking(move || alone.output()).await.unwrap().unwrap();
    let (said, figures) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprint!("{figures}");
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

async fn go_through_an_outage() {
    let folder = folder();
    let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=20s");
    let backend = connect(&url).await;
    take(&*backend, &request("warm", Duration::from_secs(5))).await;
    proxy.refuse().await;
    proxy.reset().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = open_files();
    let mut most = before;
    for _ in 0..rounds(60) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(open_files());
    }
    assert!(most <= before + 5, "from {before} files to {most}");
    proxy.accept().await;
    eventually("it works again", async || backend.probe().await.is_ok()).await;
}
