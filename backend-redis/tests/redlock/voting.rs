//! Votes and tokens.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Effect, ErrorKind, FenceScope, Lease, LockBackend, LockClient, LockOptions, LockRequest, Release,
    WaitPolicy,
};
use distlock_redis::{RedlockBackend, RedlockOptions, TokenMode};

use crate::rig::{LONG, Servers, busy, patient, renewed, take};
use crate::support::{Server, eventually, request, take as take_one, tests};

tests![
    a_repeat_gives_the_agreed_token,
    a_repeat_without_enough_answers_takes_nothing_back,
    a_repeat_that_a_rival_s_leftover_hinders_takes_nothing_back,
    own_leftovers_block_nobody,
    contenders_that_split_the_vote_all_get_their_turn,
    b135_a_best_effort_token_does_not_pass_for_an_ordered_one,
    backends_can_be_given,
];

async fn a_repeat_gives_the_agreed_token() {
    let servers = Servers::start(5).await;
    let (one, two) = (servers.backend().await, servers.backend().await);
    for round in 0..20 {
        let request = request(&format!("key {round}"), LONG);
        let lease = take(&one, &request).await;
        for backend in [&two, &one] {
            assert_eq!(take(backend, &request).await.token, lease.token);
        }
        all_have_it(&servers, &lease).await;
        assert_eq!(one.unlock(&request.claim).await.unwrap(), Release::Released);
    }
}

async fn a_repeat_without_enough_answers_takes_nothing_back() {
    let servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let request = request("key", LONG);
    let lease = take(&backend, &request).await;
    all_have_it(&servers, &lease).await;
    for server in &servers.0[2..] {
        server.pause();
    }
    not_known(&backend, &request).await;
    assert_eq!(servers.0[..2].len(), held_with(&servers.0[..2], &lease).await, "the holder still has it");
    for server in &servers.0[2..] {
        server.resume();
    }
    // What was on its way to the others is carried out meanwhile, and changes nothing.
    eventually("they answer again", async || backend.renew(&lease, LONG).await.is_ok()).await;
    renewed(&backend, &lease).await;
    assert_eq!(take(&backend, &request).await.token, lease.token);
    assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
}

async fn a_repeat_that_a_rival_s_leftover_hinders_takes_nothing_back() {
    let servers = Servers::start(3).await;
    let backend = servers.backend().await;
    // A rival's leftover at one server, so that the holder has the other two alone.
    take_one(&servers.0[2].backend().await, &request("key", LONG)).await;
    let request = request("key", LONG);
    let lease = take(&backend, &request).await;
    servers.0[1].pause();
    // One vote for the claim and one against it are a split vote, but the third may make it a majority.
    not_known(&backend, &request).await;
    assert_eq!(held_with(&servers.0[..1], &lease).await, 1, "the holder still has it");
    servers.0[1].resume();
    eventually("it answers again", async || backend.renew(&lease, LONG).await.is_ok()).await;
    assert_eq!(take(&backend, &request).await.token, lease.token);
}

/// A repeat fails, and says that it is not known who has the lock.
async fn not_known(backend: &RedlockBackend, request: &LockRequest) {
    let error = backend.try_lock(request).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown), "{error}");
}

/// How many of these servers have the lease with its token.
async fn held_with(servers: &[Server], lease: &Lease) -> usize {
    let mut count = 0;
    for server in servers {
        let name = format!("distlock:lock:{}", lease.claim.key);
        let mut ask = redis::cmd("HMGET");
        ask.arg(name).arg(&["owner", "token", "agreed"]);
        let stored: Vec<Option<String>> = ask.query_async(&mut server.raw().await).await.unwrap();
        let token = Some(lease.token.to_string());
        count += usize::from(stored == [Some(lease.claim.owner.to_string()), token.clone(), token]);
    }
    count
}

async fn all_have_it(servers: &Servers, lease: &Lease) {
    let all = servers.0.len();
    eventually("all agree, the slowest as well", async || held_with(&servers.0, lease).await == all).await;
}

async fn own_leftovers_block_nobody() {
    let servers = Servers::start(3).await;
    let backend = servers.backend().await;
    let request = request("key", LONG);
    // What a lost attempt left at one server.
    take_one(&servers.0[0].backend().await, &request).await;
    take_one(&servers.0[1].backend().await, &crate::support::request("other", LONG)).await;
    let lease = take(&backend, &request).await;
    renewed(&backend, &lease).await;
    // A single leftover of somebody else does not block either, nor is it touched.
    take_one(&servers.0[2].backend().await, &crate::support::request("free", LONG)).await;
    take(&backend, &crate::support::request("free", LONG)).await;
    busy(&backend, &crate::support::request("free", LONG)).await;
}

async fn contenders_that_split_the_vote_all_get_their_turn() {
    let servers = Servers::start(3).await;
    let mut contenders = Vec::new();
    for _ in 0..6 {
        let client = LockClient::new(Arc::new(servers.backend().await));
        contenders.push(tokio::spawn(async move {
            let options = LockOptions::default()
                .ttl(Duration::from_secs(10))
                .wait(WaitPolicy::UpTo(Duration::from_secs(60)));
            let mut tokens = Vec::new();
            for _ in 0..5 {
                let guard = client.lock_with("hot", &options).await.unwrap();
                tokens.push(guard.token());
                guard.unlock().await.unwrap();
            }
            tokens
        }));
    }
    let mut tokens = Vec::new();
    for contender in contenders {
        let own = contender.await.unwrap();
        assert!(own.is_sorted());
        tokens.extend(own);
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 30, "no token was given twice");
}

async fn b135_a_best_effort_token_does_not_pass_for_an_ordered_one() {
    let options = patient().token(TokenMode::BestEffort);
    let info = RedlockBackend::describe(&options);
    assert_eq!(info.guarantees.fencing, FenceScope::BestEffort);
    assert!(info.guarantees.require(&RedlockBackend::describe(&patient()).guarantees).is_err());
    let servers = Servers::start(3).await;
    let backend = servers.backend_with(options).await;
    assert_eq!(backend.info(), &info);
    let lease = take(&backend, &request("key", LONG)).await;
    busy(&backend, &request("key", LONG)).await;
    renewed(&backend, &lease).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    eventually("it is free", async || !servers.held_at("key").await.contains(&true)).await;
}

async fn backends_can_be_given() {
    let servers = Servers::start(3).await;
    let mut backends = Vec::new();
    for server in &servers.0 {
        backends.push(server.backend().await);
    }
    let backend = RedlockBackend::from_backends(backends, RedlockOptions::default()).await.unwrap();
    let lease = take(&backend, &request("key", LONG)).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}
