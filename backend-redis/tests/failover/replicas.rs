//! Waiting for replicas.

use distlock_conformance::Server as _;
use std::time::Duration;

use distlock_core::{Effect, ErrorKind, LockBackend, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};
use redis::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::cluster::key_on;
use crate::servers::{ask, connect, eventually, lock, raw, request, tests};

tests! {
    "sentinel":
        wait_answers_at_once_on_a_connection_that_wrote_nothing,
        b036_a_grant_that_does_not_arrive_is_given_back,
        a_replicated_grant_outlives_its_master;
    "cluster":
        a_node_s_grant_that_does_not_arrive_is_given_back;
}

const TTL: Duration = Duration::from_secs(12);

async fn connect_waiting(set: &ServiceSet, group: &str, replicas: u8) -> RedisBackend {
    connect(&format!("{}?wait_replicas={replicas}", set.url(group))).await
}

/// Stops a replica, and what is on its way to it.
async fn cut_off(master: &Server, replicas: &[Server]) {
    for replica in replicas {
        replica.pause().await;
    }
    let _: Value = ask(master, "CLIENT KILL TYPE replica").await.unwrap();
}

/// The facts that `replication.rs` relies on. What `WAIT` waits for belongs to its connection: so on
/// one that wrote nothing it says how many replicas there are, whatever another one has just written.
async fn wait_answers_at_once_on_a_connection_that_wrote_nothing(set: &ServiceSet) {
    let (master, replicas) = (set.server("ms0"), [set.server("ms1"), set.server("ms2")]);
    for replica in &replicas {
        replica.pause().await;
    }
    let mut writer = raw(&master).await;
    redis::cmd("SET").arg("k").arg("v").exec_async(&mut writer).await.unwrap();
    let wait = |limit: u64| {
        let mut command = redis::cmd("WAIT");
        command.arg(2).arg(limit);
        command
    };
    let here: i64 = wait(100).query_async(&mut writer).await.unwrap();
    assert_eq!(here, 0, "behind its own write it waits, in vain");
    assert_eq!(wait_first(&master, 2, 100).await, ":2", "it takes everything for replicated");
    let mut fresh = raw(&master).await;
    // A write of its own comes after the other one's in the stream, so it stands for both.
    redis::cmd("SET").arg("k2").arg("v").exec_async(&mut fresh).await.unwrap();
    let right: i64 = wait(100).query_async(&mut fresh).await.unwrap();
    assert_eq!(right, 0);
    for replica in &replicas {
        replica.resume().await;
    }
    eventually("both replicas have it", async || {
        let number: i64 = wait(100).query_async(&mut fresh).await.unwrap();
        number == 2
    })
    .await;
}

/// The answer to `WAIT` as a connection's first command: the client crate sends others before.
async fn wait_first(master: &Server, replicas: u8, limit: u32) -> String {
    let mut stream = BufReader::new(TcpStream::connect(master.address()).await.unwrap());
    stream.write_all(format!("WAIT {replicas} {limit}\r\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    line.trim().to_owned()
}

async fn b036_a_grant_that_does_not_arrive_is_given_back(set: &ServiceSet) {
    let (master, replicas) = (set.server("ms0"), [set.server("ms1"), set.server("ms2")]);
    let strict = connect_waiting(set, "sentinel", 1).await;
    let TryLock::Acquired(lease) = strict.try_lock(&request("k", TTL)).await.unwrap() else { panic!("free") };
    strict.unlock(&lease.claim).await.unwrap();
    cut_off(&master, &replicas).await;
    let error = strict.try_lock(&request("k", TTL)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::NotReplicated, Effect::None), "{error}");
    assert!(error.is_retryable());
    let owner: Option<String> = ask(&master, "HGET distlock:lock:k owner").await.unwrap();
    assert_eq!(owner, None, "the grant was given back");
    for replica in &replicas {
        replica.resume().await;
    }
    eventually("locks are granted again", async || {
        matches!(strict.try_lock(&request("k", TTL)).await, Ok(TryLock::Acquired(_)))
    })
    .await;
}

async fn a_replicated_grant_outlives_its_master(set: &ServiceSet) {
    let (strict, other) = (connect_waiting(set, "sentinel", 2).await, connect(set.url("sentinel")).await);
    let lease = lock(&strict, &request("k", Duration::from_secs(60))).await;
    set.server("ms0").kill9().await;
    let mut answer = None;
    eventually("the new master answers", async || {
        answer = other.try_lock(&request("k", TTL)).await.ok();
        answer.is_some()
    })
    .await;
    let Some(TryLock::Busy(busy)) = answer else { panic!("it is held: {answer:?}") };
    assert_eq!(busy.holder.unwrap().owner, lease.claim.owner);
}

async fn a_node_s_grant_that_does_not_arrive_is_given_back(set: &ServiceSet) {
    let (master, replica) = (set.server("cl0"), set.server("cl3"));
    let strict = connect_waiting(set, "cluster", 1).await;
    let key = key_on(&strict, set, &master, "key").await;
    cut_off(&master, std::slice::from_ref(&replica)).await;
    let error = strict.try_lock(&request(&key, TTL)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::NotReplicated, Effect::None), "{error}");
    replica.resume().await;
    eventually("locks are granted again", async || {
        matches!(strict.try_lock(&request(&key, TTL)).await, Ok(TryLock::Acquired(_)))
    })
    .await;
}
