//! Waiting for replicas.

use distlock_conformance::Server as _;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Effect, ErrorKind, LockBackend, LockClient, LockOptions, Release, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};
use redis::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::cluster::key_on;
use crate::servers::{ask, connect, eventually, lock, raw, request, tests};

tests! {
    "sentinel":
        wait_answers_at_once_on_a_connection_that_wrote_nothing,
        b036_a_grant_that_does_not_arrive_is_given_back,
        many_grants_that_do_not_arrive_are_all_given_back_in_time,
        grants_at_once_share_their_waits,
        a_hand_over_that_does_not_arrive_is_a_release,
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

async fn many_grants_that_do_not_arrive_are_all_given_back_in_time(set: &ServiceSet) {
    let (master, replicas) = (set.server("ms0"), [set.server("ms1"), set.server("ms2")]);
    let client = LockClient::new(Arc::new(connect_waiting(set, "sentinel", 1).await));
    client.try_lock("first").await.unwrap().expect("it is free").unlock().await.unwrap();
    cut_off(&master, &replicas).await;
    let mut grants = JoinSet::new();
    for number in 0..300 {
        let client = client.clone();
        // Operations may take 2 s; some come while the wait of others is out.
        let options = LockOptions::default().ttl(TTL);
        grants.spawn(async move {
            tokio::time::sleep(Duration::from_millis(5 * (number % 100))).await;
            client.try_lock_with(format!("k{number}"), &options).await
        });
    }
    for outcome in grants.join_all().await {
        let error = outcome.expect_err("no replica has it");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::NotReplicated, Effect::None), "{error}");
    }
    for replica in &replicas {
        replica.resume().await;
    }
    eventually("locks are granted again", async || matches!(client.try_lock("k0").await, Ok(Some(_)))).await;
}

async fn waits(master: &Server) -> u64 {
    let stats: String = ask(master, "INFO commandstats").await.unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

async fn grants_at_once_share_their_waits(set: &ServiceSet) {
    const GRANTS: u64 = 400;
    let master = set.server("ms0");
    let strict = Arc::new(connect_waiting(set, "sentinel", 2).await);
    lock(&strict, &request("first", TTL)).await;
    let before = waits(&master).await;
    let mut grants = JoinSet::new();
    for number in 0..GRANTS {
        let strict = Arc::clone(&strict);
        grants.spawn(async move { strict.try_lock(&request(&format!("k{number}"), TTL)).await });
    }
    for outcome in grants.join_all().await {
        assert!(matches!(outcome, Ok(TryLock::Acquired(_))), "{outcome:?}");
    }
    let waited = waits(&master).await - before;
    eprintln!("{GRANTS} grants at once took {waited} waits");
    assert!((1..GRANTS / 2).contains(&waited), "{waited}");
}

async fn a_hand_over_that_does_not_arrive_is_a_release(set: &ServiceSet) {
    let (master, replicas) = (set.server("ms0"), [set.server("ms1"), set.server("ms2")]);
    let client = LockClient::new(Arc::new(connect_waiting(set, "sentinel", 1).await));
    let options = LockOptions::default().ttl(TTL);
    let held = client.lock_with("k", &options).await.unwrap();
    let next = client.lock_with("k", &options);
    tokio::pin!(next);
    assert!(futures_util::FutureExt::now_or_never(&mut next).is_none(), "it stands in line");
    cut_off(&master, &replicas).await;
    assert_eq!(held.unlock().await.unwrap(), Release::Released);
    let owner: Option<String> = ask(&master, "HGET distlock:lock:k owner").await.unwrap();
    assert_eq!(owner, None, "the next one does not have it either");
    for replica in &replicas {
        replica.resume().await;
    }
    drop(tokio::time::timeout(Duration::from_secs(60), next).await.unwrap().unwrap());
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
