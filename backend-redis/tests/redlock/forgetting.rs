//! Servers that come back without their data.

use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, LostReason, Renewal, TryLock};
use distlock_redis::RedlockOptions;

use crate::rig::{LONG, Servers, busy, is_held, patient, renewed, take};
use crate::support::{Server, eventually, number, request, run, take as take_one, tests};

tests![
    a_renewal_puts_back_what_one_server_forgot,
    b039_a_forgetful_server_gives_no_rival_its_majority,
    b039_without_a_renewal_the_rival_gets_it_and_a_higher_token,
    what_was_taken_away_is_not_put_back,
    a_majority_that_forgets_breaks_exclusion_and_tokens_rise,
    a_server_without_its_data_holds_off,
    a_server_that_holds_off_puts_nothing_back,
    a_restarted_server_holds_off_although_it_kept_its_data,
];

async fn wipe(server: &Server) {
    run(&mut server.raw().await, "FLUSHALL").await;
}

async fn a_renewal_puts_back_what_one_server_forgot() {
    let mut servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let lease = take(&backend, &request("key", LONG)).await;
    for _ in 0..5 {
        // One after the other forgets, and the lock goes on.
        let forgetful = fastrand::usize(..5);
        servers.0[forgetful].kill();
        servers.0[forgetful].start_again().await;
        eventually("it is put back", async || {
            renewed(&backend, &lease).await;
            is_held(&servers.0[forgetful], "key").await
        })
        .await;
    }
    let stored = run(&mut servers.0[0].raw().await, "HGET distlock:lock:key token").await;
    assert_eq!(redis::from_redis_value::<String>(stored).unwrap(), lease.token.to_string());
    busy(&backend, &request("key", LONG)).await;
}

/// A holder on the first three of five servers, and a rival's leftovers on the others.
async fn bare_majority(servers: &Servers, backend: &distlock_redis::RedlockBackend) -> distlock_core::Lease {
    for server in &servers.0[3..] {
        take_one(&server.backend().await, &request("key", LONG)).await;
    }
    let lease = take(backend, &request("key", LONG)).await;
    assert!(is_held(&servers.0[2], "key").await);
    lease
}

async fn b039_a_forgetful_server_gives_no_rival_its_majority() {
    let servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let lease = bare_majority(&servers, &backend).await;
    wipe(&servers.0[2]).await;
    renewed(&backend, &lease).await;
    assert!(is_held(&servers.0[2], "key").await, "put back before the renewal counts");
    for server in &servers.0[3..] {
        run(&mut server.raw().await, "DEL distlock:lock:key").await;
    }
    busy(&backend, &request("key", LONG)).await;
}

async fn b039_without_a_renewal_the_rival_gets_it_and_a_higher_token() {
    let servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let lease = bare_majority(&servers, &backend).await;
    for server in &servers.0[2..] {
        wipe(server).await;
    }
    // Two holders: what is documented, and what tokens are for.
    let rival = take(&backend, &request("key", LONG)).await;
    assert!(rival.token > lease.token);
    let renewal = backend.renew(&lease, LONG).await.unwrap();
    assert_eq!(renewal, Renewal::Lost(LostReason::Stolen));
    eventually("what is left of the first is cleared away", async || {
        let owner = run(&mut servers.0[0].raw().await, "HGET distlock:lock:key owner").await;
        owner != redis::Value::BulkString(lease.claim.owner.to_string().into_bytes())
    })
    .await;
    renewed(&backend, &rival).await;
}

async fn what_was_taken_away_is_not_put_back() {
    let servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let lease = take(&backend, &request("key", LONG)).await;
    // One server misses it.
    servers.0[4].pause();
    let victim = backend.admin().unwrap().force_unlock(&lease.claim.key).await.unwrap().unwrap();
    assert_eq!((victim.owner, victim.token), (lease.claim.owner, lease.token));
    servers.0[4].resume();
    let renewal = backend.renew(&lease, LONG).await.unwrap();
    assert!(matches!(renewal, Renewal::Lost(_)), "{renewal:?}");
    let next = take(&backend, &request("key", LONG)).await;
    assert!(next.token > lease.token);
}

async fn a_majority_that_forgets_breaks_exclusion_and_tokens_rise() {
    let servers = Servers::start(3).await;
    let backend = servers.backend().await;
    let mut last = take(&backend, &request("key", LONG)).await;
    for _ in 0..3 {
        wipe(&servers.0[0]).await;
        wipe(&servers.0[1]).await;
        let next = take(&backend, &request("key", LONG)).await;
        assert!(next.token > last.token, "two hold the lock now, and the resource can tell them apart");
        last = next;
    }
}

fn holding_off(length: Duration) -> RedlockOptions {
    patient().restart_holdoff(length)
}

/// Makes a server believe that it has had its data for long; how long it is up it knows.
async fn age(server: &Server) {
    run(&mut server.raw().await, "SET distlock:birth 1:0a").await;
}

async fn a_server_without_its_data_holds_off() {
    let servers = Servers::start(3).await;
    let backend = servers.backend_with(holding_off(Duration::from_secs(2))).await;
    let ttl = Duration::from_secs(2);
    let error = backend.try_lock(&request("key", ttl)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nobody knows what a new server has forgotten");
    assert!(error.to_string().contains("restart_holdoff"), "{error}");
    let error = backend.try_lock(&request("key", LONG)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions, "a longer ttl outlives the hold-off");
    eventually("the hold-off ends", async || backend.try_lock(&request("key", ttl)).await.is_ok()).await;
    for server in &servers.0[..2] {
        wipe(server).await;
    }
    let error = backend.try_lock(&request("other", ttl)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    eventually("and again", async || {
        matches!(backend.try_lock(&request("other", ttl)).await, Ok(TryLock::Acquired(_)))
    })
    .await;
}

async fn a_server_that_holds_off_puts_nothing_back() {
    let servers = Servers::start(5).await;
    let length = Duration::from_secs(5);
    let backend = servers.backend_with(holding_off(length)).await;
    let wanted = request("key", length);
    eventually("the hold-off ends", async || backend.try_lock(&wanted).await.is_ok()).await;
    let lease = take(&backend, &wanted).await;
    eventually("all have it", async || {
        renewed(&backend, &lease).await;
        !servers.held_at("key").await.contains(&false)
    })
    .await;
    wipe(&servers.0[0]).await;
    renewed(&backend, &lease).await;
    assert!(!is_held(&servers.0[0], "key").await);
    busy(&backend, &request("key", length)).await;
    eventually("it is put back once the hold-off is over", async || {
        renewed(&backend, &lease).await;
        is_held(&servers.0[0], "key").await
    })
    .await;
}

async fn a_restarted_server_holds_off_although_it_kept_its_data() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(&["--appendonly", "yes"]).await);
    }
    let mut servers = Servers(servers);
    for server in &servers.0 {
        age(server).await;
    }
    for server in &mut servers.0 {
        server.kill();
        server.start_again().await;
        assert_eq!(number(&mut server.raw().await, "EXISTS distlock:birth").await, 1, "it kept its data");
    }
    let backend = servers.backend_with(holding_off(Duration::from_secs(30))).await;
    let error = backend.try_lock(&request("key", Duration::from_secs(1))).await.unwrap_err();
    assert!(error.to_string().contains("restart_holdoff"), "the last second may be missing: {error}");
}
