//! Data in etcd that refuses what comes too late.

use std::time::Duration;

use distlock_core::{ErrorKind, FenceGate, FencingToken, LockBackend};
use distlock_etcd::EtcdFenceGate;
use distlock_etcd::etcd_client::{Client, TxnOp};

use crate::support::{Server, key, request, take, tests};

tests! {
    a_write_with_a_lower_token_is_refused,
    a_write_without_the_lock_is_refused,
    a_gate_forgets_nothing_and_tells_keys_apart,
    a_stranger_s_value_in_the_gate_s_place_is_named,
}

const TTL: Duration = Duration::from_secs(60);

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

async fn balance(raw: &mut Client) -> String {
    raw.get("balance", None).await.unwrap().kvs()[0].value_str().unwrap().to_owned()
}

fn set(balance: &str) -> [TxnOp; 1] {
    [TxnOp::put("balance", balance, None)]
}

async fn a_write_with_a_lower_token_is_refused() {
    let server = Server::start(&[]).await;
    let gate = EtcdFenceGate::connect(server.config()).await.unwrap();
    let mut raw = server.raw().await;
    let name = key("account");
    gate.write(&name, token(9), set("100")).await.unwrap();
    gate.write(&name, token(10), set("120")).await.unwrap();
    let answers = gate.write(&name, token(10), [TxnOp::get("balance", None)]).await.unwrap();
    assert_eq!(answers.op_responses().len(), 1, "the gate's own part is not among them");
    let error = gate.write(&name, token(9), set("110")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("token 9") && error.to_string().contains("token 10"), "{error}");
    assert_eq!(balance(&mut raw).await, "120");
}

async fn a_write_without_the_lock_is_refused() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let gate = backend.fence_gate();
    let mut raw = server.raw().await;
    let lease = take(&backend, &request("account", TTL)).await;
    gate.write_while_held(&lease.claim, lease.token, set("100")).await.unwrap();
    let error =
        gate.write_while_held(&lease.claim, token(lease.token.get() + 1), set("0")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "another token's");
    // Under a raised floor too, and by a gate that has not heard of it.
    backend.unlock(&lease.claim).await.unwrap();
    backend.admin().unwrap().raise_token_floor(token(1_000_000)).await.unwrap();
    let error = gate.write_while_held(&lease.claim, lease.token, set("0")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    let other = EtcdFenceGate::connect(server.config()).await.unwrap();
    backend.admin().unwrap().raise_token_floor(token(2_000_000)).await.unwrap();
    let next = take(&backend, &request("account", TTL)).await;
    assert!(next.token.get() > 2_000_000);
    other.write_while_held(&next.claim, next.token, set("120")).await.unwrap();
    assert_eq!(balance(&mut raw).await, "120");
}

async fn a_gate_forgets_nothing_and_tells_keys_apart() {
    let mut server = Server::start(&[]).await;
    let gate = EtcdFenceGate::connect(server.config()).await.unwrap();
    gate.admit(&key("a"), token(i64::MAX.cast_unsigned())).await.unwrap();
    gate.admit(&key("a\0/"), token(5)).await.unwrap();
    gate.admit(&key("A"), token(5)).await.unwrap();
    server.kill();
    server.start_again().await;
    let gate = EtcdFenceGate::connect(server.config()).await.unwrap();
    assert_eq!(gate.admit(&key("a"), token(5)).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(gate.admit(&key("A"), token(4)).await.unwrap_err().kind(), ErrorKind::Lost);
    gate.admit(&key("A"), token(100)).await.unwrap();
    assert_eq!(gate.admit(&key("A"), token(99)).await.unwrap_err().kind(), ErrorKind::Lost, "as numbers");
}

async fn a_stranger_s_value_in_the_gate_s_place_is_named() {
    let server = Server::start(&[]).await;
    let gate = EtcdFenceGate::connect(server.config()).await.unwrap();
    let mut raw = server.raw().await;
    raw.put(gate.fence_name(&key("a")), "something", None).await.unwrap();
    let error = gate.admit(&key("a"), token(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}
