//! Waiting: order, yielding, and waking here and in other programs.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Claim, Clock, Deadline, LockBackend, LostReason, Release, TryLock, acquire};
use distlock_sql::sqlite::SqliteBackend;
use sqlx::Row;

use crate::support::{MS, Place, SECOND, busy, claim, eventually, granted, key, now, queued, request, take};

async fn within(limit: Duration, what: &str, work: impl Future) {
    tokio::time::timeout(limit, work)
        .await
        .map(|_| ())
        .unwrap_or_else(|_| panic!("not within {limit:?}: {what}"));
}

async fn stays_asleep(backend: &SqliteBackend, claim: &Claim, busy: &Busy) {
    let woken = tokio::time::timeout(150 * MS, backend.watch_release(claim, busy)).await;
    assert!(woken.is_err(), "woken for nothing");
}

#[tokio::test]
async fn a_release_wakes_waiters_of_this_and_of_another_program() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    for backend in [&one, &other] {
        for queue in [true, false] {
            let lease = take(&one, "a", 30 * SECOND).await;
            let waiter = request("a", SECOND).queue(queue);
            let seen = busy(backend.try_lock(&waiter).await);
            stays_asleep(backend, &waiter.claim, &seen).await;
            let (woken, _) = tokio::join!(backend.watch_release(&waiter.claim, &seen), async {
                tokio::task::yield_now().await;
                one.unlock(&lease.claim).await.unwrap()
            });
            woken.unwrap();
            let lease = granted(backend.try_lock(&waiter).await);
            backend.unlock(&lease.claim).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_release_before_the_watch_is_not_missed() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    for queue in [true, false] {
        let lease = take(&one, "a", 30 * SECOND).await;
        let waiter = request("a", SECOND).queue(queue);
        let seen = busy(other.try_lock(&waiter).await);
        one.unlock(&lease.claim).await.unwrap();
        within(SECOND, "woken", other.watch_release(&waiter.claim, &seen)).await;
        other.unlock(&waiter.claim).await.unwrap();
    }
    // Released and taken again meanwhile: outside the queue that is a reason to look again.
    let lease = take(&one, "a", 30 * SECOND).await;
    let plain = request("a", SECOND);
    let seen = busy(other.try_lock(&plain).await);
    one.unlock(&lease.claim).await.unwrap();
    take(&one, "a", 30 * SECOND).await;
    within(SECOND, "woken", other.watch_release(&plain.claim, &seen)).await;
}

#[tokio::test]
async fn waiters_are_served_in_order_and_a_plain_try_never_passes_them() {
    let place = Place::new();
    let backends = [place.open().await, place.open().await, place.open().await];
    let mut holder = take(&backends[0], "a", 30 * SECOND).await;
    let waiters: Vec<_> = (0..9).map(|_| queued("a", 10 * SECOND)).collect();
    let on = |n: usize| &backends[n % 3];
    let mut seen = Vec::new();
    for (n, waiter) in waiters.iter().enumerate() {
        seen.push(busy(on(n).try_lock(waiter).await));
    }
    for (n, waiter) in waiters.iter().enumerate() {
        on(n + 2).unlock(&holder.claim).await.unwrap();
        for late in &waiters[n + 1..] {
            busy(on(n + 1).try_lock(late).await);
        }
        assert!(busy(on(n).try_lock(&request("a", SECOND)).await).holder.is_none(), "free, but not for it");
        within(SECOND, "its turn", on(n).watch_release(&waiter.claim, &seen[n])).await;
        if let Some(next) = waiters.get(n + 1) {
            stays_asleep(on(n + 1), &next.claim, &seen[n + 1]).await;
        }
        let lease = granted(on(n).try_lock(waiter).await);
        assert!(lease.token > holder.token);
        holder = lease;
    }
}

#[tokio::test]
async fn a_dead_waiter_is_skipped_in_bounded_time() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    let lease = take(&one, "a", 30 * SECOND).await;
    busy(other.try_lock(&queued("a", 10 * SECOND)).await);
    let alive = queued("a", 10 * SECOND);
    busy(one.try_lock(&alive).await);
    one.unlock(&lease.claim).await.unwrap();
    let begun = now();
    let deadline = Deadline::after(&Clock::system(), 10 * SECOND);
    acquire(&one, &alive, deadline).await.unwrap();
    let took = now().since(begun);
    assert!(took > SECOND && took < 4 * SECOND, "{took:?}");
}

#[tokio::test]
async fn a_waiter_that_gives_up_lets_the_next_one_go() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    let lease = take(&one, "a", 30 * SECOND).await;
    let (first, second) = (queued("a", SECOND), queued("a", SECOND));
    busy(one.try_lock(&first).await);
    let seen = busy(other.try_lock(&second).await);
    one.unlock(&lease.claim).await.unwrap();
    stays_asleep(&other, &second.claim, &seen).await;
    assert_eq!(one.unlock(&first.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
    within(SECOND, "its turn", other.watch_release(&second.claim, &seen)).await;
    granted(other.try_lock(&second).await);
    assert!(place.rows("SELECT * FROM distlock_claims").await.is_empty());
}

#[tokio::test]
async fn a_fast_relocker_yields_to_a_waiter_of_another_program() {
    let place = Place::new();
    let (fast, slow) = (Arc::new(place.open().await), place.open().await);
    let relocking = tokio::spawn({
        let fast = Arc::clone(&fast);
        async move {
            loop {
                if let TryLock::Acquired(lease) = fast.try_lock(&request("a", 10 * SECOND)).await.unwrap() {
                    fast.unlock(&lease.claim).await.unwrap();
                }
            }
        }
    });
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        let begun = now();
        let deadline = Deadline::after(&Clock::system(), 10 * SECOND);
        let lease = acquire(&slow, &queued("a", 10 * SECOND), deadline).await.unwrap();
        worst = worst.max(now().since(begun));
        slow.unlock(&lease.claim).await.unwrap();
    }
    relocking.abort();
    assert!(worst < SECOND, "waited {worst:?}");
}

#[tokio::test]
async fn the_end_of_a_lease_wakes_without_any_commit() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    take(&one, "a", 300 * MS).await;
    let waiter = queued("a", SECOND);
    let seen = busy(other.try_lock(&waiter).await);
    within(SECOND, "woken", other.watch_release(&waiter.claim, &seen)).await;
    granted(other.try_lock(&waiter).await);
}

#[tokio::test]
async fn nobody_polls_while_nobody_waits_and_few_statements_go_while_nothing_happens() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    let lease = take(&one, "a", 30 * SECOND).await;
    let waiter = queued("a", 30 * SECOND);
    let seen = busy(other.try_lock(&waiter).await);
    let before = other.commands_sent().unwrap();
    let _ = tokio::time::timeout(SECOND, other.watch_release(&waiter.claim, &seen)).await;
    let sent = other.commands_sent().unwrap() - before;
    assert!((20..=130).contains(&sent), "{sent} statements in a second of waiting");

    // After a second of silence the log file's time mostly says it all, and a release is seen all the same.
    let watch = async {
        other.watch_release(&waiter.claim, &seen).await.unwrap();
        now()
    };
    let release = async {
        tokio::time::sleep(1200 * MS).await;
        let before = other.commands_sent().unwrap();
        tokio::time::sleep(SECOND).await;
        let sent = other.commands_sent().unwrap() - before;
        assert!(sent <= 10, "{sent} statements in a second of silence");
        one.unlock(&lease.claim).await.unwrap();
        now()
    };
    let (woken, released) = tokio::join!(watch, release);
    assert!(woken.since(released) < 200 * MS, "{:?}", woken.since(released));

    // The watch is over: its place is gone and the poller ends.
    eventually(SECOND, "silence", || async {
        let before = other.commands_sent().unwrap();
        tokio::time::sleep(50 * MS).await;
        other.commands_sent().unwrap() == before
    })
    .await;
}

#[tokio::test]
async fn the_mark_lives_as_long_as_the_holder_has_left_and_a_second() {
    let place = Place::new();
    let backend = place.open().await;
    for (ttl, least, most) in [(300 * MS, 1.1, 1.31), (30 * SECOND, 2.9, 3.01)] {
        let lease = take(&backend, "a", ttl).await;
        let waiter = queued("a", SECOND);
        let begun = now();
        busy(backend.try_lock(&waiter).await);
        let rows = place.rows("SELECT deadline FROM distlock_claims").await;
        let left = Duration::from_nanos(rows[0].get::<i64, _>(0) as u64 - begun.as_nanos()).as_secs_f64();
        assert!(left > least && left < most + now().since(begun).as_secs_f64(), "{left}");
        backend.unlock(&waiter.claim).await.unwrap();
        backend.unlock(&lease.claim).await.unwrap();
    }
    // An attempt without a queue leaves nothing.
    take(&backend, "a", SECOND).await;
    busy(backend.try_lock(&request("a", SECOND)).await);
    assert!(place.rows("SELECT * FROM distlock_claims").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_for_many_keys_are_all_woken() {
    let place = Place::new();
    let (one, other) = (place.open().await, Arc::new(place.open().await));
    let mut leases = Vec::new();
    let mut tasks = Vec::new();
    for n in 0..200 {
        let name = format!("key/{n}");
        leases.push(take(&one, &name, 30 * SECOND).await);
        let other = Arc::clone(&other);
        tasks.push(tokio::spawn(async move {
            let deadline = Deadline::after(&Clock::system(), 20 * SECOND);
            acquire(&*other, &queued(&name, 30 * SECOND), deadline).await.unwrap()
        }));
    }
    for lease in &leases {
        one.unlock(&lease.claim).await.unwrap();
    }
    for task in tasks {
        within(10 * SECOND, "a grant", task).await;
    }
}

#[tokio::test]
async fn closing_ends_every_wait() {
    let place = Place::new();
    let backend = place.open().await;
    take(&backend, "a", 30 * SECOND).await;
    let seen = busy(backend.try_lock(&request("a", SECOND)).await);
    let waiter = claim("a");
    let (woken, closed) = tokio::join!(backend.watch_release(&waiter, &seen), async {
        tokio::task::yield_now().await;
        backend.close().await
    });
    closed.unwrap();
    assert_eq!(woken.unwrap_err().kind(), distlock_core::ErrorKind::Shutdown);
}

#[tokio::test]
async fn force_unlock_serves_the_first_in_the_queue() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    take(&one, "a", 30 * SECOND).await;
    let waiter = queued("a", SECOND);
    let seen = busy(other.try_lock(&waiter).await);
    one.admin().unwrap().force_unlock(&key("a")).await.unwrap();
    within(SECOND, "its turn", other.watch_release(&waiter.claim, &seen)).await;
    granted(other.try_lock(&waiter).await);
}
