//! Inspecting, listing, taking away.

use std::collections::BTreeSet;
use std::time::Duration;

use distlock_core::{
    ErrorKind, FenceGate, FencingToken, LockBackend, LockClient, LockKey, LostReason, Metadata, Release,
    Renewal,
};
use distlock_redis::RedisBackend;

use crate::support::{Server, busy, eventually, key, number, request, run, take, tests};

const LONG: Duration = Duration::from_secs(30);

tests! {
    inspect_shows_the_holder_and_the_last_token,
    pages_are_exact_in_a_crowd_of_strangers,
    a_prefix_with_wildcards_means_itself,
    force_unlock_wakes_who_waits,
    force_unlock_of_a_damaged_record_keeps_the_token_rising,
    a_later_version_s_shared_holders_are_shown_and_taken_away,
    a_token_floor_is_kept_by_the_clock_or_refused,
    the_rights_in_the_documentation_are_enough,
}

async fn inspect_shows_the_holder_and_the_last_token() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let admin = backend.admin().unwrap();
    assert_eq!(admin.inspect(&key("a")).await.unwrap(), None);
    let wish = request("a", LONG).metadata(Metadata::new([("host", "h")]).unwrap());
    let lease = take(&backend, &wish).await;
    let record = admin.inspect(&key("a")).await.unwrap().unwrap();
    assert_eq!((record.holders[0].owner, record.holders[0].token), (lease.claim.owner, lease.token));
    assert_eq!(record.holders[0].metadata.get("host").unwrap(), "h");
    assert!(record.holders[0].expires_in.unwrap() <= LONG);
    assert_eq!((record.last_token, record.waiters), (Some(lease.token), None));
    backend.unlock(&lease.claim).await.unwrap();
    let record = admin.inspect(&key("a")).await.unwrap().unwrap();
    assert_eq!((record.holders.len(), record.last_token), (0, Some(lease.token)));
}

async fn pages_are_exact_in_a_crowd_of_strangers() {
    let server = Server::start(&["--enable-debug-command", "yes"]).await;
    let backend = server.backend().await;
    // More names than a step of a scan looks at, so that pages are put together from several.
    let mut raw = server.raw().await;
    run(&mut raw, "DEBUG POPULATE 5000 stranger").await;
    run(&mut raw, "DEBUG POPULATE 2000 distlock:lock:idle").await;
    let mut wanted = BTreeSet::new();
    for n in 0..60_u8 {
        // Bytes that are no text, and near the wildcards.
        let key = LockKey::new([b"job/", &[n.wrapping_mul(37), 0xff, b'*', n][..]].concat()).unwrap();
        let wish = distlock_core::LockRequest::new(distlock_core::Claim::mint(key.clone()), LONG);
        let lease = take(&backend, &wish).await;
        if n % 4 == 0 {
            backend.unlock(&lease.claim).await.unwrap();
        } else {
            wanted.insert(key);
        }
    }
    take(&backend, &request("other", LONG)).await;
    let admin = backend.admin().unwrap();
    for limit in [1, 7, 1000] {
        let mut seen = Vec::new();
        loop {
            let page = admin.list(b"job/", seen.last(), limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|record| record.key));
        }
        assert_eq!(seen, wanted.iter().cloned().collect::<Vec<_>>(), "pages of {limit}");
    }
    assert_eq!(admin.list(b"", None, 0).await.unwrap(), []);
    assert_eq!(admin.list(b"nobody", None, 10).await.unwrap(), []);
    // Strangers under names of ours are shown, since no lock can be had there.
    assert_eq!(admin.list(b"idle", None, 5).await.unwrap().len(), 5);
}

async fn a_prefix_with_wildcards_means_itself() {
    let server = Server::start(&[]).await;
    let odd = RedisBackend::connect(server.config().prefix("[ab]*:")).await.unwrap();
    let plain = RedisBackend::connect(server.config().prefix("aX:")).await.unwrap();
    take(&odd, &request("k", LONG)).await;
    take(&plain, &request("k", LONG)).await;
    for backend in [&odd, &plain] {
        assert_eq!(backend.admin().unwrap().list(b"", None, 10).await.unwrap().len(), 1);
    }
}

async fn force_unlock_wakes_who_waits() {
    let server = Server::start(&[]).await;
    let holder = server.backend().await;
    let lease = take(&holder, &request("a", LONG * 10)).await;
    let client = LockClient::new(std::sync::Arc::new(server.backend().await));
    let waiter = tokio::spawn(async move { client.lock("a").await });
    let mut raw = server.raw().await;
    // The waiter has left its mark and listens.
    eventually("somebody waits", async || number(&mut raw, "HEXISTS distlock:lock:a mark").await == 1).await;
    let admin = holder.admin().unwrap();
    let victim = admin.force_unlock(&key("a")).await.unwrap().unwrap();
    assert_eq!((victim.owner, victim.token), (lease.claim.owner, lease.token));
    let guard =
        tokio::time::timeout(LONG, waiter).await.expect("long before the lease ends").unwrap().unwrap();
    assert!(guard.token() > lease.token);
    assert_eq!(holder.renew(&lease, LONG).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    assert_eq!(holder.unlock(&lease.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    guard.unlock().await.unwrap();
    assert_eq!(admin.force_unlock(&key("a")).await.unwrap(), None);
}

async fn force_unlock_of_a_damaged_record_keeps_the_token_rising() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let admin = backend.admin().unwrap();
    let mut raw = server.raw().await;
    for damage in [
        "SET distlock:lock:a hello",
        "RPUSH distlock:lock:a hello",
        "HSET distlock:lock:a token x",
        "HSET distlock:lock:a owner short",
        "HSET distlock:lock:a token 99999999999999999999",
        "HDEL distlock:lock:a deadline",
    ] {
        let lease = take(&backend, &request("a", LONG)).await;
        if damage.contains("SET distlock:lock:a hello") || damage.starts_with("RPUSH") {
            run(&mut raw, "DEL distlock:lock:a").await;
        }
        run(&mut raw, damage).await;
        let error = admin.inspect(&key("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{damage}");
        let listed = admin.list(b"", None, 10).await.unwrap();
        assert_eq!((listed.len(), listed[0].holders.len()), (1, 0), "{damage}");
        assert_eq!(admin.force_unlock(&key("a")).await.unwrap(), None, "{damage}");
        let next = take(&backend, &request("a", LONG)).await;
        assert!(next.token > lease.token, "{damage}: {} after {}", next.token, lease.token);
        assert!(
            number(&mut raw, "PTTL distlock:lock:a").await > 0,
            "{damage}: what is replaced is tidied away"
        );
        backend.unlock(&next.claim).await.unwrap();
    }
}

async fn a_later_version_s_shared_holders_are_shown_and_taken_away() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    let admin = backend.admin().unwrap();
    run(&mut raw, "HSET distlock:lock:a token 7 shared 9000000000000000 h:somebody x").await;
    let listed = admin.list(b"", None, 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].last_token), (1, FencingToken::new(7)));
    busy(&backend, &request("a", LONG)).await;
    assert_eq!(admin.force_unlock(&key("a")).await.unwrap(), None, "this version can't name them");
    assert_eq!(number(&mut raw, "HLEN distlock:lock:a").await, 1, "the token stays, and nothing else");
    take(&backend, &request("a", LONG)).await;
}

async fn a_token_floor_is_kept_by_the_clock_or_refused() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let admin = backend.admin().unwrap();
    let now = take(&backend, &request("a", LONG)).await.token.get();
    let token = |value| FencingToken::new(value).unwrap();
    let floor = token(now + 1_000_000);
    admin.raise_token_floor(floor).await.unwrap();
    assert!(take(&backend, &request("new", LONG)).await.token > floor);
    admin.raise_token_floor(FencingToken::MIN).await.unwrap();
    for ahead in [token(now + 3_600_000_000), FencingToken::MAX] {
        let error = admin.raise_token_floor(ahead).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.to_string().contains("clock"), "{error}");
    }
}

async fn the_rights_in_the_documentation_are_enough() {
    let server = Server::start(&[]).await;
    let readme = include_str!("../../README.md");
    let rights = readme.lines().find(|line| line.starts_with("ACL SETUSER operators")).unwrap();
    run(&mut server.raw().await, rights).await;
    let config = server.config().user("operators").password("secret");
    let backend = RedisBackend::connect(config).await.unwrap();
    let admin = backend.admin().unwrap();
    let lease = take(&backend, &request("a", LONG)).await;
    assert_eq!(admin.list(b"", None, 10).await.unwrap().len(), 1);
    assert!(admin.inspect(&key("a")).await.unwrap().is_some());
    assert_eq!(admin.force_unlock(&key("a")).await.unwrap().unwrap().token, lease.token);
    run(&mut server.raw().await, "SET distlock:lock:b x").await;
    assert_eq!(admin.force_unlock(&key("b")).await.unwrap(), None);
    admin.raise_token_floor(lease.token).await.unwrap();
    let health = backend.probe().await.unwrap();
    assert!(!health.warnings.iter().any(|warning| warning.fix.contains("grant")), "{health:?}");

    run(&mut server.raw().await, "ACL SETUSER operators +get +set").await;
    backend.fence_gate().admit(&key("a"), lease.token).await.unwrap();
}
