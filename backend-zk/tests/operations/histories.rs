//! Restarts and vanishing nodes, with a history that is held against all promises.

use std::time::Duration;

use distlock_conformance::history::Promises;
use distlock_conformance::{Data, Server as _};
use distlock_testbed::ServiceSet;
use distlock_zk::ZkBackend;

use crate::crew::Crew;
use crate::support::{folder, raw, shared, tests};

tests! {
    containers_that_vanish_between_two_steps_break_no_promise,
    parents_that_are_deleted_with_all_below_break_no_promise,
    restarts_within_the_session_s_time_break_no_promise,
    restarts_beyond_the_session_s_time_break_no_promise,
}

fn promises() -> Promises {
    Promises::of(&ZkBackend::describe())
}

fn crew(url: &str) -> Crew {
    let mut crew = Crew::new();
    for _ in 0..4 {
        crew.add(url, None);
    }
    crew
}

/// The server removes empty containers twice a second here, and so does this test all the time.
async fn containers_that_vanish_between_two_steps_break_no_promise() {
    let folder = folder();
    let url = format!("zk://{}{folder}?session_timeout=10s", shared());
    // Now and then nobody is there.
    let mut crew = Crew::with_breath(Duration::from_millis(300));
    for _ in 0..2 {
        crew.add(&url, None);
    }
    let raw = raw().await;
    let began = std::time::Instant::now();
    let mut vanished = 0;
    while began.elapsed() < Duration::from_secs(10) || vanished < 3 {
        assert!(began.elapsed() < Duration::from_secs(90), "the container vanished {vanished} times only");
        vanished += usize::from(raw.delete(&format!("{folder}/crew"), None).await.is_ok());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    eprintln!("the container vanished {vanished} times");
    crew.all_work("after all").await;
    crew.finish(promises()).await;
}

/// Whoever deletes a holder's node takes its lock away, so that there are two for a moment, and with a
/// waiter's node its place: the fence and all other promises hold.
async fn parents_that_are_deleted_with_all_below_break_no_promise() {
    let folder = folder();
    let crew = crew(&format!("zk://{}{folder}?session_timeout=10s", shared()));
    let raw = raw().await;
    let mut gone = 0;
    for _ in 0..12 {
        crew.all_work("in between").await;
        let lock = format!("{folder}/crew");
        for name in raw.list_children(&lock).await.unwrap_or_default() {
            let _ = raw.delete(&format!("{lock}/{name}"), None).await;
        }
        let _ = raw.delete(&lock, None).await;
        let _ = raw.delete(&format!("{folder}/.token-floor"), None).await;
        gone += usize::from(raw.delete(&folder, None).await.is_ok());
    }
    eprintln!("the parent went {gone} times");
    crew.all_work("after all").await;
    let mut promises = promises().without_exclusion();
    promises.fifo = false;
    crew.finish(promises).await;
}

async fn restarted(session_timeout: &str, outage: Duration) {
    let set = ServiceSet::up(&["zk"]).await.unwrap();
    let crew = crew(&format!("{}/locks?session_timeout={session_timeout}", set.url("zk")));
    for _ in 0..3 {
        crew.all_work("before a restart").await;
        set.server("zk").kill9().await;
        tokio::time::sleep(outage).await;
        set.server("zk").restart(Data::Kept).await;
    }
    crew.all_work("after the last restart").await;
    crew.finish(promises()).await;
    set.down().await;
}

async fn restarts_within_the_session_s_time_break_no_promise() {
    restarted("30s", Duration::ZERO).await;
}

async fn restarts_beyond_the_session_s_time_break_no_promise() {
    restarted("1s", Duration::from_secs(4)).await;
}
