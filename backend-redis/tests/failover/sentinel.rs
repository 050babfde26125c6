//! A master that Sentinels replace.

use distlock_conformance::Server as _;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use distlock_core::{Effect, ErrorKind, LockBackend, TryLock};
use distlock_testbed::{Server, ServiceSet};

use crate::load::{AGAIN, Load};
use crate::servers::{
    allow, ask, connect, eventually, is_master, is_replica, lock, new_master, owner_at, raw, request, tests,
};

tests! {
    "sentinel":
        b035_every_client_works_again_after_the_master_was_killed,
        b114_a_switch_by_hand_shows_as_unavailable_at_most,
        a_master_that_comes_back_is_not_used,
        after_an_unsynced_failover_there_are_two_holders_and_the_second_has_the_higher_token,
        locks_go_on_without_sentinels,
        the_rights_in_the_documentation_are_enough;
}

const TTL: Duration = Duration::from_secs(30);

fn servers(set: &ServiceSet) -> [Server; 3] {
    ["ms0", "ms1", "ms2"].map(|name| set.server(name))
}

async fn b035_every_client_works_again_after_the_master_was_killed(set: &ServiceSet) {
    let [master, one, two] = servers(set);
    let load = Load::start(set.url("sentinel")).await;
    let killed = Instant::now();
    master.kill9().await;
    new_master(&[one, two]).await;
    eprintln!("there is a new master after {:?}", killed.elapsed());
    load.all_work_within("after the failover", killed, AGAIN).await;
    master.start().await;
    eventually("the old master follows the new one", async || is_replica(&master).await).await;
    load.all_work_within("after the old master came back", Instant::now(), AGAIN).await;
    load.end().await;
}

async fn b114_a_switch_by_hand_shows_as_unavailable_at_most(set: &ServiceSet) {
    let backend = connect(set.url("sentinel")).await;
    ask::<()>(&set.server("se0"), "SENTINEL FAILOVER mymaster").await.unwrap();
    let [master, ..] = servers(set);
    let (mut after, mut unlost, mut ours) = (0, 0, HashSet::new());
    for turn in 0..100_000 {
        let request = request(&format!("turn {}", turn % 7), TTL);
        ours.insert(request.claim.owner);
        match backend.try_lock(&request).await {
            Ok(TryLock::Acquired(_)) => {}
            // The old master goes on until a Sentinel tells it: what it acknowledges meanwhile, also that a
            // lock was given back, is not known to the new one.
            Ok(TryLock::Busy(busy)) => {
                let holder = busy.holder.as_ref().map(|holder| holder.owner);
                assert!(holder.is_some_and(|holder| ours.contains(&holder)), "nobody else locks: {busy:?}");
                unlost += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        // What was not answered is swept, as the client does it.
        eventually("the lock is given back", async || match backend.unlock(&request.claim).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                false
            }
        })
        .await;
        after += u32::from(is_replica(&master).await);
        if after > 200 {
            eprintln!("the new master held a lock given back at the old one in {unlost} turns");
            return;
        }
    }
    panic!("the failover did not come");
}

async fn a_master_that_comes_back_is_not_used(set: &ServiceSet) {
    let [old, one, two] = servers(set);
    let backend = connect(&format!("{}?response_timeout=30s", set.url("sentinel"))).await;
    lock(&backend, &request("before", TTL)).await;
    old.pause().await;
    let under_way = request("under way", TTL);
    let paused = Instant::now();
    let replicas = [one, two];
    let (answer, new) = tokio::join!(backend.try_lock(&under_way), new_master(&replicas));
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown), "{error}");
    assert!(error.to_string().contains("took over"), "it ends with the switch, not with its limit: {error}");
    eprintln!("a call to a silent master ended with the switch after {:?}", paused.elapsed());
    lock(&backend, &request("seen", TTL)).await;
    assert!(owner_at(&new, "distlock:lock:seen").await.is_some());
    // It goes on as a master, until a Sentinel tells it. It also carries out what it was sent.
    old.resume().await;
    let mut believes = 0;
    for turn in 0..200 {
        let name = format!("after {turn}");
        believes += u32::from(is_master(&old).await);
        let request = request(&name, TTL);
        let TryLock::Acquired(lease) = backend.try_lock(&request).await.unwrap() else {
            panic!("it is free")
        };
        let mut raw = raw(&new).await;
        let key = format!("distlock:lock:{name}");
        let owner: Option<String> =
            redis::cmd("HGET").arg(key).arg("owner").query_async(&mut raw).await.unwrap();
        assert_eq!(owner, Some(lease.claim.owner.to_string()), "it stands at the new master");
    }
    eprintln!("the old master believed in itself for {believes} of 200 grants");
}

async fn after_an_unsynced_failover_there_are_two_holders_and_the_second_has_the_higher_token(
    set: &ServiceSet,
) {
    let [master, one, two] = servers(set);
    let (first, second) = (connect(set.url("sentinel")).await, connect(set.url("sentinel")).await);
    one.pause().await;
    two.pause().await;
    // What is in a socket's buffer already would still arrive.
    ask::<i64>(&master, "CLIENT KILL TYPE replica").await.unwrap();
    let lost = lock(&first, &request("one", TTL)).await;
    master.kill9().await;
    one.resume().await;
    two.resume().await;
    let won = lock(&second, &request("one", TTL)).await;
    let now = first.clock().now();
    assert!(now < lost.valid_until && now < won.valid_until, "both believe in their locks");
    assert!(won.token > lost.token, "and the resource can tell: {} after {}", won.token, lost.token);
    let renewal = first.renew(&lost, TTL).await.unwrap();
    assert!(matches!(renewal, distlock_core::Renewal::Lost(_)), "the first hears of it when it renews");
}

async fn locks_go_on_without_sentinels(set: &ServiceSet) {
    let backend = connect(set.url("sentinel")).await;
    for name in ["se0", "se1", "se2"] {
        set.server(name).kill9().await;
    }
    for turn in 0..50 {
        lock(&backend, &request(&format!("turn {turn}"), TTL)).await;
    }
    let [master, ..] = servers(set);
    ask::<i64>(&master, "CLIENT KILL TYPE normal").await.unwrap();
    lock(&backend, &request("on a new connection", TTL)).await;
}

async fn the_rights_in_the_documentation_are_enough(set: &ServiceSet) {
    for server in servers(set) {
        allow(&server, "+role +wait").await;
    }
    for name in ["se0", "se1", "se2"] {
        let rights = "ACL SETUSER watcher on >hush resetchannels &+switch-master \
                      +sentinel|master +sentinel|get-master-addr-by-name +subscribe +@connection";
        ask::<()>(&set.server(name), rights).await.unwrap();
    }
    let url = set.url("sentinel").replace("://", "://locks:secret@");
    let url = format!("{url}?wait_replicas=1&sentinel_user=watcher&sentinel_password=hush");
    let backend = connect(&url).await;
    let lease = lock(&backend, &request("k", TTL)).await;
    let [master, ..] = servers(set);
    master.kill9().await;
    let next = request("another", TTL);
    lock(&backend, &next).await;
    backend.unlock(&next.claim).await.unwrap();
    assert!(lease.token.get() > 0);
    let wrong = url.replace("hush", "wrong");
    let error =
        distlock_redis::RedisBackend::from_url(&mut distlock_core::StoreUrl::parse(&wrong).unwrap()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    let unknown = set.url("sentinel").replace("mymaster", "nobody");
    let error =
        distlock_redis::RedisBackend::from_url(&mut distlock_core::StoreUrl::parse(&unknown).unwrap()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}
