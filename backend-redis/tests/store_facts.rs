//! What the server and its client do, as far as the backend relies on it.
//! What `WAIT` does is in `failover/replicas.rs`, where there are replicas.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves two programs"
)]

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;

use support::{Server, eventually, number, run, tests};

tests! {
    time_stands_still_within_a_script,
    lua_rounds_numbers_unless_told_how_to_write_them,
    a_script_s_writes_are_replicated_not_its_text,
    a_script_that_fails_midway_keeps_what_it_wrote,
    a_failed_call_inside_pcall_changes_nothing,
    an_error_within_a_script_keeps_its_code,
    an_unknown_hash_is_no_script,
    a_key_s_expiry_follows_the_wall_clock,
    a_dropped_call_is_carried_out_all_the_same,
}

fn main() -> std::process::ExitCode {
    support::main(tests())
}

async fn eval(raw: &mut MultiplexedConnection, script: &str) -> redis::RedisResult<Value> {
    redis::cmd("EVAL").arg(script).arg(0).query_async(raw).await
}

fn text(value: Value) -> String {
    redis::from_redis_value(value).unwrap()
}

async fn time_stands_still_within_a_script() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let script = "local a = redis.call('TIME') for i = 1, 200000 do local _ = i * i end \
                  local b = redis.call('TIME') return (b[1] - a[1]) * 1000000 + b[2] - a[2]";
    let moved: i64 = redis::from_redis_value(eval(&mut raw, script).await.unwrap()).unwrap();
    // Not relied on, but the reason why a script reads it once: versions differ.
    assert!(moved >= 0, "time within a script never goes back: {moved}");
}

async fn lua_rounds_numbers_unless_told_how_to_write_them() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let rounded = eval(&mut raw, "return tostring(1780000000000001)").await.unwrap();
    assert_eq!(text(rounded), "1.78e+15");
    let exact = eval(&mut raw, "return string.format('%.0f', 9007199254740991)").await.unwrap();
    assert_eq!(text(exact), "9007199254740991");
    let beyond = eval(&mut raw, "return string.format('%.0f', 9007199254740992 + 1)").await.unwrap();
    assert_eq!(text(beyond), "9007199254740992", "a counter would stand still there");
}

async fn a_script_s_writes_are_replicated_not_its_text() {
    let server = Server::start(&["--appendonly", "yes", "--appenddirname", "log"]).await;
    let mut raw = server.raw().await;
    eval(&mut raw, "return redis.call('SET', 'k', redis.call('TIME')[1])").await.unwrap();
    let folder = server.socket().parent().unwrap().join("log");
    eventually("the write is in the file", async || {
        let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let log: Vec<u8> = files.flat_map(|file| std::fs::read(file).unwrap()).collect();
        let log = String::from_utf8_lossy(&log);
        assert!(!log.contains("TIME"), "the text would give another time on a replica");
        log.contains("SET")
    })
    .await;
}

async fn a_script_that_fails_midway_keeps_what_it_wrote() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    eval(&mut raw, "redis.call('SET', 'k', 1) redis.call('HGET', 'k', 'f')").await.unwrap_err();
    assert_eq!(number(&mut raw, "EXISTS k").await, 1, "why a missing right may have had an effect");
}

async fn a_failed_call_inside_pcall_changes_nothing() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "SET k x").await;
    let script = "return redis.pcall('HMGET', 'k', 'f').err";
    assert!(text(eval(&mut raw, script).await.unwrap()).contains("WRONGTYPE"));
}

async fn an_error_within_a_script_keeps_its_code() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "REPLICAOF 127.0.0.1 1").await;
    let error = eval(&mut raw, "return redis.call('SET', 'k', 1)").await.unwrap_err();
    assert_eq!(error.code(), Some("READONLY"), "{error}");
}

async fn an_unknown_hash_is_no_script() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let hash = "0123456789012345678901234567890123456789";
    let error = redis::cmd("EVALSHA").arg(hash).arg(0).exec_async(&mut raw).await.unwrap_err();
    assert_eq!(error.code(), Some("NOSCRIPT"));
}

async fn a_key_s_expiry_follows_the_wall_clock() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "SET k x").await;
    assert_eq!(number(&mut raw, "PEXPIREAT k 1000").await, 1);
    assert_eq!(number(&mut raw, "EXISTS k").await, 0, "a moment in the past deletes at once");
}

/// Why a withdrawn attempt must be swept.
async fn a_dropped_call_is_carried_out_all_the_same() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    server.pause();
    let mut other = raw.clone();
    let call = redis::cmd("SET").arg("k").arg("x").exec_async(&mut other).await;
    assert!(call.unwrap_err().is_timeout());
    let mut dropped = raw.clone();
    let call = async { redis::cmd("SET").arg("l").arg("x").exec_async(&mut dropped).await };
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    server.resume();
    eventually("both were carried out", async || number(&mut raw, "EXISTS k l").await == 2).await;
}
