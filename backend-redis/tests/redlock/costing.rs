//! What a lock costs beside the bare rounds of its scripts, taken in turns in the same run.

use std::time::{Duration, Instant};

use distlock_core::{Claim, LockBackend, LockKey, Metadata, Release};
use distlock_redis::BareScripts;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;

use crate::rig::{LONG, Servers, take};
use crate::support::{request, tests};

tests![a_lock_costs_little_more_than_its_two_rounds];

const TURNS: usize = 200;

async fn a_lock_costs_little_more_than_its_two_rounds() {
    let servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let scripts = BareScripts::new("bare:");
    let mut connections = Vec::new();
    for server in &servers.0 {
        let mut connection = server.raw().await;
        scripts.load(&mut connection).await.unwrap();
        connections.push(connection);
    }
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        own.push(once(&backend, turn).await);
        bare.push(bare_once(&scripts, &connections, turn).await);
    }
    let (own, bare) = (median(own), median(bare));
    eprintln!("acquire: {own:?}, its bare rounds: {bare:?}, ratio {:.2}", ratio(own, bare));
    // The bar of an optimised build on a quiet machine is 1.15.
    assert!(own < bare * 4, "{own:?} beside {bare:?}");

    servers.0[0].pause();
    let mut frozen = Vec::new();
    for turn in TURNS..TURNS + 50 {
        frozen.push(once(&backend, turn).await);
    }
    servers.0[0].resume();
    let frozen = median(frozen);
    eprintln!("acquire with one of five frozen: {frozen:?}, {:?} more", frozen.saturating_sub(own));
    // The bar of an optimised build on a quiet machine is 20 ms; the limit of the frozen server is 3 s.
    assert!(frozen < own * 4 + Duration::from_millis(100), "{frozen:?} beside {own:?}");
}

async fn once(backend: &distlock_redis::RedlockBackend, turn: usize) -> Duration {
    let request = request(&format!("key {turn}"), LONG);
    let before = Instant::now();
    let lease = take(backend, &request).await;
    let took = before.elapsed();
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    took
}

async fn bare_once(scripts: &BareScripts, connections: &[MultiplexedConnection], turn: usize) -> Duration {
    let claim = Claim::mint(LockKey::new(format!("key {turn}")).unwrap());
    let before = Instant::now();
    let votes = connections.iter().map(async |connection| {
        scripts.vote(&mut connection.clone(), &claim, LONG, &Metadata::NONE).await.unwrap()
    });
    let votes = votes.collect::<FuturesUnordered<_>>();
    let tokens: Vec<_> = votes.take(3).collect().await;
    let token = tokens.into_iter().flatten().max().unwrap();
    let confirms = connections
        .iter()
        .map(async |connection| scripts.confirm(&mut connection.clone(), &claim, token).await.unwrap());
    let confirms = confirms.collect::<FuturesUnordered<_>>();
    let took_over = confirms.filter(|took_over| std::future::ready(*took_over)).take(3).count().await;
    assert_eq!(took_over, 3);
    let took = before.elapsed();
    for connection in connections {
        scripts.release(&mut connection.clone(), &claim).await.unwrap();
    }
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
