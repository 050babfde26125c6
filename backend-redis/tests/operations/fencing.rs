//! Data that refuses writers that came too late.

use std::time::Duration;

use distlock_core::{
    Effect, ErrorKind, FenceGate, FencingToken, LockBackend, LockClient, LockOptions, RenewPolicy,
};
use distlock_redis::{FencedScript, RedisConfig, RedisFenceGate};
use redis::Value;

use crate::support::{Server, key, run, tests};

tests! {
    a_token_below_the_newest_is_refused_and_changes_nothing,
    a_stale_writer_loses_where_an_unfenced_one_overwrites,
    tokens_beyond_lua_s_numbers_are_told_apart,
    a_script_sees_its_own_keys_and_returns_what_it_likes,
    what_is_no_token_is_corrupt_and_left_alone,
    the_check_works_in_a_script_of_one_s_own,
    a_gate_bears_a_server_that_forgot_its_scripts,
    a_server_that_would_forget_is_refused,
}

const NONE: &[&[u8]] = &[];

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

fn set() -> FencedScript {
    FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])")
}

async fn get(server: &Server, name: &str) -> Value {
    run(&mut server.raw().await, &format!("GET {name}")).await
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

async fn a_token_below_the_newest_is_refused_and_changes_nothing() {
    let server = Server::start(&[]).await;
    let gate = RedisFenceGate::connect(server.config()).await.unwrap();
    gate.admit(&key("a"), token(8)).await.unwrap();
    gate.admit(&key("a"), token(8)).await.unwrap();
    gate.write(&key("a"), token(9), &set(), &["data"], &["nine"]).await.unwrap();
    let error = gate.write(&key("a"), token(8), &set(), &["data"], &["eight"]).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Lost, Effect::None));
    assert!(error.to_string().contains("token 9 was seen"), "{error}");
    assert_eq!(get(&server, "data").await, text("nine"));
    assert!(gate.admit(&key("a"), token(7)).await.unwrap_err().is_lost());
    gate.admit(&key("another"), token(1)).await.unwrap();
    assert_eq!(get(&server, "distlock:fence:a").await, text("9"));
}

async fn a_stale_writer_loses_where_an_unfenced_one_overwrites() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let gate = backend.fence_gate();
    let client = LockClient::new(std::sync::Arc::new(backend));
    // Not renewed, as when its holder is paused.
    let options = LockOptions::default().ttl(Duration::from_millis(200)).renew(RenewPolicy::Manual);
    let paused = client.lock_with("account", &options).await.unwrap();
    let (key, stale) = (paused.key().clone(), paused.token());
    paused.lost().await;
    let guard = client.lock("account").await.unwrap();
    gate.write(&key, guard.token(), &set(), &["fenced"], &["new"]).await.unwrap();
    let mut raw = server.raw().await;
    run(&mut raw, "SET unfenced new").await;
    // The paused one goes on.
    assert!(gate.write(&key, stale, &set(), &["fenced"], &["old"]).await.unwrap_err().is_lost());
    run(&mut raw, "SET unfenced old").await;
    assert_eq!(get(&server, "fenced").await, text("new"));
    assert_eq!(get(&server, "unfenced").await, text("old"), "without a fence the update is lost");
    guard.unlock().await.unwrap();
}

async fn tokens_beyond_lua_s_numbers_are_told_apart() {
    let server = Server::start(&[]).await;
    let gate = RedisFenceGate::connect(server.config()).await.unwrap();
    let most = FencingToken::MAX.get();
    for value in [9, 10, 99, 100, (1 << 53) + 1, most - 1, most] {
        gate.admit(&key("a"), token(value)).await.unwrap();
        let error = gate.admit(&key("a"), token(value - 1)).await.unwrap_err();
        assert!(error.is_lost() && error.to_string().contains(&value.to_string()), "{error}");
    }
}

async fn a_script_sees_its_own_keys_and_returns_what_it_likes() {
    let server = Server::start(&[]).await;
    let gate = server.backend().await.fence_gate();
    let echo = FencedScript::new("return { #KEYS, KEYS[1], #ARGV, ARGV[2] }");
    let answer = gate.write(&key("a"), token(1), &echo, &["k"], &["x", "y"]).await.unwrap();
    assert_eq!(answer, Value::Array(vec![Value::Int(1), text("k"), Value::Int(2), text("y")]));
    let nothing = FencedScript::new("");
    assert_eq!(gate.write(&key("a"), token(1), &nothing, NONE, NONE).await.unwrap(), Value::Nil);
    let wrong = FencedScript::new("return redis.call('HGET', KEYS[1], 'f')");
    run(&mut server.raw().await, "SET k text").await;
    let error = gate.write(&key("a"), token(1), &wrong, &["k"], NONE).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
}

async fn what_is_no_token_is_corrupt_and_left_alone() {
    let server = Server::start(&[]).await;
    let gate = server.backend().await.fence_gate();
    let mut raw = server.raw().await;
    for line in ["SET distlock:fence:a hello", "SET distlock:fence:a 007", "RPUSH distlock:fence:b x"] {
        run(&mut raw, line).await;
        let key = key(if line.contains("fence:a") { "a" } else { "b" });
        let error = gate.write(&key, token(9), &set(), &["data"], &["x"]).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::None), "{line}");
    }
    assert_eq!(get(&server, "data").await, Value::Nil);
}

async fn the_check_works_in_a_script_of_one_s_own() {
    let server = Server::start(&[]).await;
    let gate = server.backend().await.fence_gate();
    let script = format!(
        "{}
         if refuse(KEYS[1], ARGV[1]) ~= nil then return redis.error_reply('STALE a later holder wrote') end
         return redis.call('SET', KEYS[2], ARGV[2])",
        FencedScript::CHECK
    );
    let script = redis::Script::new(&script);
    let mut raw = server.raw().await;
    let mut write = async |token: &str, value: &str| {
        let mut call = script.key(gate.fence_name(&key("a")));
        call.key("data").arg(token).arg(value).invoke_async::<Value>(&mut raw).await
    };
    write("5", "five").await.unwrap();
    assert_eq!(write("4", "four").await.unwrap_err().code(), Some("STALE"));
    assert_eq!(get(&server, "data").await, text("five"));
    assert!(gate.admit(&key("a"), token(4)).await.unwrap_err().is_lost(), "both see the same tokens");
}

async fn a_gate_bears_a_server_that_forgot_its_scripts() {
    let server = Server::start(&[]).await;
    let gate = RedisFenceGate::connect(server.config()).await.unwrap();
    gate.admit(&key("a"), token(2)).await.unwrap();
    run(&mut server.raw().await, "SCRIPT FLUSH").await;
    gate.admit(&key("a"), token(3)).await.unwrap();
    assert!(gate.admit(&key("a"), token(2)).await.unwrap_err().is_lost());
}

async fn a_server_that_would_forget_is_refused() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lfu"]).await;
    let config: RedisConfig = server.config();
    assert_eq!(RedisFenceGate::connect(config).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    let backend = distlock_redis::RedisBackend::connect(server.config().allow_eviction(true)).await.unwrap();
    backend.close().await.unwrap();
    let error = backend.fence_gate().admit(&key("a"), token(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shutdown);
}
