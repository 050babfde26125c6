//! Servers that are cut off from the others, with and without a holder at their side.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::history::Promises;
use distlock_conformance::recording::Tracked;
use distlock_core::{LockClient, LockOptions, LostReason, WaitPolicy};
use distlock_testbed::{Partition, Place, ServiceSet};
use distlock_zk::ZkBackend;

use crate::crew::{Crew, TTL};
use crate::support::{ask, connect, tests};

tests! { network:
    a_leader_that_is_cut_off_breaks_no_promise,
    a_minority_that_is_cut_off_with_a_holder_breaks_no_promise,
}

const SERVERS: [&str; 3] = ["z1", "z2", "z3"];
/// Longer than it takes to notice the cut, to elect another leader, and to end a session.
const OUTAGE: Duration = Duration::from_secs(15);
/// For how long a waiter tries again at most.
const SERVED: Duration = Duration::from_secs(60);

/// The one that leads, and the others.
async fn roles(set: &ServiceSet, place: &Place) -> (&'static str, Vec<&'static str>) {
    let mut leader = None;
    for name in SERVERS {
        let address = set.server(name).address().to_string();
        if place.run(async move { ask(&address, "srvr").await }).await.contains("Mode: leader") {
            leader = Some(name);
        }
    }
    let leader = leader.expect("somebody leads");
    (leader, SERVERS.into_iter().filter(|name| *name != leader).collect())
}

async fn a_leader_that_is_cut_off_breaks_no_promise() {
    let partition = Partition::new(&["z1", "z2", "z3", "client"]).unwrap();
    let set = ServiceSet::up_at(&partition, &["zk3"]).await.unwrap();
    let url = format!("{}/locks?session_timeout=4s", set.url("zk3"));
    let places = ["z1", "z2", "z3", "client"].map(|name| partition.place(name));
    let mut crew = Crew::new();
    for place in places.iter().chain(&places[3..]) {
        crew.add(&url, Some(place));
    }
    crew.all_work("at first").await;
    let (leader, _) = roles(&set, &places[3]).await;
    partition.cut(leader);
    tokio::time::sleep(OUTAGE).await;
    partition.heal(leader);
    crew.all_work("after the cut").await;
    crew.finish(Promises::of(&ZkBackend::describe())).await;
    set.down().await;
}

async fn a_minority_that_is_cut_off_with_a_holder_breaks_no_promise() {
    let partition = Partition::new(&["z1", "z2", "z3", "client"]).unwrap();
    let set = ServiceSet::up_at(&partition, &["zk3"]).await.unwrap();
    let url = format!("{}/locks?session_timeout=4s", set.url("zk3"));
    let outside = partition.place("client");
    let (_, followers) = roles(&set, &outside).await;
    let inside = partition.place(followers[0]);
    let mut crew = Crew::new();
    for place in [&outside, &outside, &inside] {
        crew.add(&url, Some(place));
    }
    crew.all_work("at first").await;
    let client = async |place: &Place| {
        let url = url.clone();
        place.run(async move { LockClient::new(connect(&url).await) }).await
    };
    let (holder, waiter) = (client(&inside).await, client(&outside).await);
    let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(Duration::from_secs(60)));
    let held = inside.run({
        let (holder, options, log) = (holder.clone(), options.clone(), Arc::clone(&crew.log));
        async move { Tracked::new(holder.lock_with("held", &options).await.unwrap(), &log) }
    });
    let held = held.await;
    let (view, token) = (held.guard().view(), held.guard().token());
    let waits = {
        let options = options.clone();
        outside.spawn(async move {
            // It may have been served by the member that is cut off, and then it is told so before it is served.
            let began = Instant::now();
            let next = loop {
                match waiter.lock_with("held", &options).await {
                    Err(error) if error.is_retryable() && began.elapsed() < SERVED => {
                        eprintln!("who waits outside is told: {error}");
                    }
                    outcome => break outcome.expect("the waiter is served"),
                }
            };
            (next, view.is_valid())
        })
    };
    partition.cut(followers[0]);
    // Somebody who waits in the minority is told why not.
    let told = inside.spawn(async move {
        let brief = options.wait(WaitPolicy::UpTo(Duration::from_secs(3)));
        holder.lock_with("another", &brief).await.map(drop)
    });
    let view = held.guard().view();
    let reason = inside.run(async move { view.lost().await }).await;
    assert_eq!(reason, LostReason::Unreachable);
    let (next, was_valid) = waits.await.unwrap();
    assert!(!was_valid, "two holders at once");
    assert!(next.token() > token);
    let error = told.await.unwrap().expect_err("the minority grants nothing");
    eprintln!("who waits in the minority is told: {error}");
    tokio::time::sleep(OUTAGE).await;
    partition.heal(followers[0]);
    crew.all_work("after the cut").await;
    // What the first does now leaves the second alone.
    let _ = inside.run(async move { held.unlock().await }).await;
    let next = outside.run(async move {
        next.renew().await.unwrap();
        next
    });
    let next = next.await;
    outside.run(async move { next.unlock().await }).await.unwrap();
    crew.finish(Promises::of(&ZkBackend::describe())).await;
    set.down().await;
}
