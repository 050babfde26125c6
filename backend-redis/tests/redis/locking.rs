//! What stands in the record.

use std::time::Duration;

use distlock_core::{Effect, ErrorKind, LockBackend, LostReason, Release, Renewal};
use distlock_redis::RedisBackend;
use redis::Value;

use crate::support::*;

tests! {
    a_token_is_above_the_last_and_the_clock,
    a_clock_set_back_prolongs_by_one_ttl_at_most,
    the_record_outlives_the_lease_and_its_token,
    withdrawing_what_never_came_leaves_nothing,
    shared_holders_of_later_versions_are_respected,
    many_renewals_are_few_commands_and_fare_alone,
    what_is_not_ours_is_reported_and_left,
    a_server_that_forgot_the_scripts_is_taught_again,
    a_hand_over_that_does_not_arrive_at_the_replicas_has_ended_the_lease,
    a_full_server_still_renews_and_takes_back,
    a_place_taken_before_a_damaged_holder_was_seen_is_not_denied,
}

const LONG: Duration = Duration::from_secs(60);

async fn a_token_is_above_the_last_and_the_clock() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let before = micros(&mut raw).await;
    let lease = take(&backend, &request("k", LONG)).await;
    assert!(lease.token.get() >= before && lease.token.get() <= micros(&mut raw).await);
    backend.unlock(&lease.claim).await.unwrap();
    // Far ahead of the clock, and longer than Lua writes by itself.
    run(&mut raw, "HSET distlock:lock:k token 9007199254740123").await;
    let lease = take(&backend, &request("k", LONG)).await;
    assert_eq!(lease.token.get(), 9_007_199_254_740_124);
    assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }));
    backend.unlock(&lease.claim).await.unwrap();
    run(&mut raw, "HSET distlock:lock:k token 9007199254740993").await;
    let error = backend.try_lock(&request("k", LONG)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "beyond Lua's exact numbers nothing may be granted");
}

async fn a_clock_set_back_prolongs_by_one_ttl_at_most() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    take(&backend, &request("k", Duration::from_millis(300))).await;
    // As the record looks after the clock went back by an hour.
    let ahead = micros(&mut raw).await + 3_600_000_000;
    run(&mut raw, &format!("HSET distlock:lock:k deadline {ahead}")).await;
    let seen = busy(&backend, &request("k", LONG)).await;
    assert!(seen.free_in.unwrap() <= Duration::from_millis(301), "{seen:?}");
    let next = request("k", LONG);
    eventually("the lease ends", async || {
        matches!(backend.try_lock(&next).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
}

async fn the_record_outlives_the_lease_and_its_token() {
    const DAY: i64 = 86_400_000;
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let lease = take(&backend, &request("k", Duration::from_secs(3600))).await;
    assert!(number(&mut raw, "PTTL distlock:lock:k").await > DAY + 3_500_000, "it outlives the lease");
    backend.renew(&lease, Duration::from_secs(2 * 3600)).await.unwrap();
    assert!(number(&mut raw, "PTTL distlock:lock:k").await > DAY + 7_100_000);
    backend.unlock(&lease.claim).await.unwrap();
    let kept = number(&mut raw, "PTTL distlock:lock:k").await;
    assert!((DAY - 60_000..=DAY + 7_200_000).contains(&kept), "{kept}");
    // A token ahead of the clock must not be forgotten before the clock is past it.
    let ahead = micros(&mut raw).await + 50_000_000_000;
    run(&mut raw, &format!("HSET distlock:lock:k token {ahead}")).await;
    let lease = take(&backend, &request("k", LONG)).await;
    backend.unlock(&lease.claim).await.unwrap();
    assert!(number(&mut raw, "PTTL distlock:lock:k").await > DAY + 49_000_000);
}

async fn withdrawing_what_never_came_leaves_nothing() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let early = request("k", LONG);
    assert_eq!(backend.unlock(&early.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
    assert_eq!(number(&mut raw, "DBSIZE").await, 0);
    take(&backend, &early).await;
    assert_eq!(backend.unlock(&early.claim).await.unwrap(), Release::Released);
    assert_eq!(number(&mut raw, "HLEN distlock:lock:k").await, 1, "nothing but the token stays");
}

async fn shared_holders_of_later_versions_are_respected() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let until = micros(&mut raw).await + 400_000;
    run(&mut raw, &format!("HSET distlock:lock:k token 5 shared {until} h:x y")).await;
    let next = request("k", LONG);
    let seen = busy(&backend, &next).await;
    assert!(seen.holder.is_none() && seen.free_in.unwrap() <= Duration::from_millis(401));
    backend.watch_release(&next.claim, &seen.cursor(distlock_core::Cursor(4))).await.unwrap();
    eventually("they are gone", async || {
        matches!(backend.try_lock(&next).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
}

async fn many_renewals_are_few_commands_and_fare_alone() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let mut leases = Vec::new();
    for n in 0..1200 {
        leases.push(take(&backend, &request(&format!("k{n}"), LONG)).await);
    }
    backend.unlock(&leases[7].claim).await.unwrap();
    backend.unlock(&leases[8].claim).await.unwrap();
    take(&backend, &request("k8", LONG)).await;
    run(&mut raw, "SET distlock:lock:k9 x").await;
    let before = backend.commands_sent().unwrap();
    let results = backend.renew_many(&leases, LONG).await;
    assert_eq!(backend.commands_sent().unwrap() - before, 3);
    for (n, result) in results.iter().enumerate() {
        match n {
            7 => assert_eq!(result.as_ref().unwrap(), &Renewal::Lost(LostReason::Expired)),
            8 => assert_eq!(result.as_ref().unwrap(), &Renewal::Lost(LostReason::Stolen)),
            9 => assert_eq!(result.as_ref().unwrap_err().kind(), ErrorKind::Corrupt),
            _ => assert!(matches!(result, Ok(Renewal::Renewed { .. })), "{n}: {result:?}"),
        }
    }
}

async fn what_is_not_ours_is_reported_and_left() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    for (name, make) in [
        ("text", "SET distlock:lock:text x"),
        ("list", "RPUSH distlock:lock:list x"),
        ("hash", "HSET distlock:lock:hash name x"),
        ("owner", "HSET distlock:lock:owner token 5 owner me deadline 9007199254740000 ttl 1"),
        ("deadline", "HSET distlock:lock:deadline token 5 deadline soon"),
        ("token", "HSET distlock:lock:token token -5"),
        ("exponent", "HSET distlock:lock:exponent token 1e5"),
    ] {
        run(&mut raw, make).await;
        let before = run(&mut raw, &format!("DUMP distlock:lock:{name}")).await;
        let request = request(name, LONG);
        for error in
            [backend.try_lock(&request).await.unwrap_err(), backend.unlock(&request.claim).await.unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
            assert_eq!(error.effect(), Effect::None);
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(run(&mut raw, &format!("DUMP distlock:lock:{name}")).await, before);
    }
}

async fn a_server_that_forgot_the_scripts_is_taught_again() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    run(&mut raw, "SCRIPT FLUSH").await;
    let lease = take(&backend, &request("k", LONG)).await;
    run(&mut raw, "SCRIPT FLUSH").await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

async fn micros(raw: &mut redis::aio::MultiplexedConnection) -> u64 {
    let Value::Array(parts) = run(raw, "TIME").await else { panic!() };
    let mut parts = parts.into_iter().map(|part| redis::from_redis_value::<u64>(part).unwrap());
    parts.next().unwrap() * 1_000_000 + parts.next().unwrap()
}

async fn a_hand_over_that_does_not_arrive_at_the_replicas_has_ended_the_lease() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let strict = RedisBackend::connect(server.config().wait_replicas(1)).await.unwrap();
    let lease = take(&backend, &request("k", LONG)).await;
    let error = strict.hand_over(&lease, &request("k", LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::NotReplicated, Effect::Unknown), "{error}");
    assert_eq!(number(&mut raw, "HEXISTS distlock:lock:k owner").await, 0, "the new grant was given back");
    assert!(
        matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Lost(_)),
        "and the old one is over"
    );
    let error = strict.try_lock(&request("k", LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::NotReplicated, Effect::None), "{error}");
}

async fn a_place_taken_before_a_damaged_holder_was_seen_is_not_denied() {
    let server = Server::start(&[]).await;
    let backend = RedisBackend::connect(server.config().queue(true)).await.unwrap();
    let mut raw = server.raw().await;
    take(&backend, &request("k", LONG)).await;
    run(&mut raw, "HSET distlock:lock:k owner 0123456789abcdef0123456789abcdeg").await;
    let error = backend.try_lock(&request("k", LONG).queue(true)).await.unwrap_err();
    assert_eq!(number(&mut raw, "HEXISTS distlock:lock:k queue").await, 1, "it stands in the queue");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::Unknown), "{error}");
}

async fn a_full_server_still_renews_and_takes_back() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (server.backend().await, server.raw().await);
    let leases = [take(&backend, &request("a", LONG)).await, take(&backend, &request("b", LONG)).await];
    run(&mut raw, "CONFIG SET maxmemory 1").await;
    let error = backend.try_lock(&request("c", LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Overloaded, Effect::None), "{error}");
    for renewal in backend.renew_many(&leases, LONG).await {
        assert!(matches!(renewal.unwrap(), Renewal::Renewed { .. }), "it takes no memory");
    }
    for lease in leases {
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
}
