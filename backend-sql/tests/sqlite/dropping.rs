//! Futures dropped at every point at which they can be.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use distlock_core::{LockAdmin, LockBackend, LostReason, Release};
use distlock_sql::sqlite::SqliteBackend;
use sqlx::{Connection, Row};
use tokio::runtime::{Builder, Runtime};

use crate::support::{MS, Place, SECOND, busy, eventually, granted, key, queued, request, take};

/// Polls `future` up to `times` times and drops it; the result if it was ready by then.
async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls >= times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn nothing_is_left_of(place: &Place, backend: &SqliteBackend) {
    let rows = place
        .rows("SELECT (SELECT count(*) FROM distlock_locks WHERE owner IS NOT NULL), (SELECT count(*) FROM distlock_claims)")
        .await;
    assert_eq!((rows[0].get::<i64, _>(0), rows[0].get::<i64, _>(1)), (0, 0));
    // No transaction is open: this backend and others can write.
    place.execute("UPDATE distlock_meta SET id = 1").await;
    let lease = take(backend, "other", SECOND).await;
    backend.unlock(&lease.claim).await.unwrap();
}

#[tokio::test]
async fn an_attempt_dropped_anywhere_is_swept_by_its_unlock() {
    let place = Place::new();
    let backend = place.open().await;
    for queue in [false, true] {
        for times in 1.. {
            let request = request("a", 10 * SECOND).queue(queue);
            let done = poll_times(times, backend.try_lock(&request)).await;
            backend.unlock(&request.claim).await.unwrap();
            nothing_is_left_of(&place, &backend).await;
            if done.is_some() {
                println!("try_lock of a free lock: {times} polls");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_busy_attempt_dropped_anywhere_is_swept_by_its_unlock() {
    let place = Place::new();
    let backend = place.open().await;
    for times in 1.. {
        let holder = take(&backend, "a", 10 * SECOND).await;
        let waiter = queued("a", 10 * SECOND);
        let done = poll_times(times, backend.try_lock(&waiter)).await;
        assert_eq!(backend.unlock(&waiter.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
        assert_eq!(backend.unlock(&holder.claim).await.unwrap(), Release::Released);
        nothing_is_left_of(&place, &backend).await;
        if done.is_some() {
            println!("try_lock of a held lock: {times} polls");
            break;
        }
    }
}

#[tokio::test]
async fn releases_renewals_and_handovers_dropped_anywhere_leave_one_owner_or_none() {
    let place = Place::new();
    let backend = place.open().await;
    let mut finished = [false; 4];
    for times in 1.. {
        for (which, finished) in finished.iter_mut().enumerate() {
            let lease = take(&backend, "a", 10 * SECOND).await;
            let next = request("a", 10 * SECOND);
            *finished = match which {
                0 => poll_times(times, backend.unlock(&lease.claim)).await.is_some(),
                1 => poll_times(times, backend.renew(&lease, 20 * SECOND)).await.is_some(),
                2 => poll_times(times, backend.renew_many(std::slice::from_ref(&lease), SECOND))
                    .await
                    .is_some(),
                _ => poll_times(times, backend.hand_over(&lease, &next)).await.is_some(),
            };
            backend.unlock(&lease.claim).await.unwrap();
            backend.unlock(&next.claim).await.unwrap();
            nothing_is_left_of(&place, &backend).await;
        }
        if finished == [true; 4] {
            break;
        }
    }
}

#[tokio::test]
async fn operators_calls_dropped_anywhere_leave_no_open_transaction() {
    let place = Place::new();
    let backend = place.open().await;
    let admin = backend.admin().unwrap();
    for times in 1.. {
        let lease = take(&backend, "a", 10 * SECOND).await;
        let forced = poll_times(times, admin.force_unlock(&key("a"))).await.is_some();
        let raised = poll_times(times, admin.raise_token_floor(lease.token)).await.is_some();
        let looked = poll_times(times, admin.inspect(&key("a"))).await.is_some();
        let listed = poll_times(times, admin.list(b"", None, 10)).await.is_some();
        backend.unlock(&lease.claim).await.unwrap();
        nothing_is_left_of(&place, &backend).await;
        if forced && raised && looked && listed {
            break;
        }
    }
}

#[tokio::test]
async fn opening_dropped_anywhere_leaves_a_file_that_opens() {
    let place = Place::new();
    for times in 1.. {
        let done = poll_times(times, SqliteBackend::connect(place.config())).await.is_some();
        if times % 5 == 0 || done {
            let backend = place.open().await;
            nothing_is_left_of(&place, &backend).await;
            backend.close().await.unwrap();
        }
        if done {
            println!("connect: {times} polls");
            break;
        }
    }
}

#[tokio::test]
async fn b032_an_attempt_dropped_while_the_writer_is_busy_does_not_land_later() {
    let place = Place::new();
    let backend = place.open().await;
    let mut blocker = place.raw().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut blocker).await.unwrap();
    // The first is sent and tried again and again; the others wait behind it for their turn.
    let requests: Vec<_> = (0..5).map(|_| request("a", 10 * SECOND)).collect();
    let attempts = requests.iter().map(|request| backend.try_lock(request));
    let dropped = tokio::time::timeout(40 * MS, futures_util::future::join_all(attempts)).await;
    assert!(dropped.is_err(), "the writer was busy");
    let sent = backend.commands_sent().unwrap();
    sqlx::query("COMMIT").execute(&mut blocker).await.unwrap();
    blocker.close().await.unwrap();
    backend.unlock(&requests[0].claim).await.unwrap();
    assert!(backend.commands_sent().unwrap() - sent <= 3, "only the sweep was sent");
    nothing_is_left_of(&place, &backend).await;
}

#[tokio::test]
async fn a_watch_dropped_leaves_nothing() {
    let place = Place::new();
    let backend = place.open().await;
    let lease = take(&backend, "a", 10 * SECOND).await;
    for times in 1..20 {
        let waiter = queued("a", SECOND);
        let seen = busy(backend.try_lock(&waiter).await);
        assert!(
            poll_times(times, async {
                let limit = tokio::time::timeout(5 * MS, backend.watch_release(&waiter.claim, &seen)).await;
                assert!(limit.is_err());
            })
            .await
            .is_none_or(|()| true)
        );
        backend.unlock(&waiter.claim).await.unwrap();
    }
    backend.unlock(&lease.claim).await.unwrap();
    nothing_is_left_of(&place, &backend).await;
    granted(backend.try_lock(&request("a", SECOND)).await);
}

#[test]
fn a_runtime_that_ends_inside_a_transaction_leaves_none_open() {
    let lasting = Runtime::new().unwrap();
    for round in 0..60 {
        let place = Place::new();
        let backend = Arc::new(lasting.block_on(place.open()));
        let brief = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let operator = Arc::clone(&backend);
        brief.spawn(async move {
            loop {
                operator.force_unlock(&key("a")).await.unwrap();
            }
        });
        // Each round stops it somewhere else.
        let sent = backend.commands_sent().unwrap() + 3 + round;
        while backend.commands_sent().unwrap() < sent {
            std::thread::yield_now();
        }
        brief.shutdown_timeout(SECOND);
        lasting.block_on(async {
            take(&backend, "z", 10 * SECOND).await;
            let held = place.rows("SELECT 1 FROM distlock_locks WHERE owner IS NOT NULL").await;
            assert_eq!(held.len(), 1, "round {round}: the grant is not committed");
            backend.force_unlock(&key("a")).await.unwrap();
        });
    }
}

#[test]
fn background_work_that_a_runtime_dropped_unpolled_is_begun_anew() {
    let place = Place::new();
    let brief = Builder::new_current_thread().enable_all().build().unwrap();
    // The first reservation starts a checkpoint, which gets no turn in this runtime.
    let backend = brief.block_on(place.open());
    drop(brief);
    Runtime::new().unwrap().block_on(async {
        let before = std::fs::metadata(place.file()).unwrap().len();
        for _ in 0..300 {
            let lease = take(&backend, "a", 10 * SECOND).await;
            backend.unlock(&lease.claim).await.unwrap();
        }
        eventually(30 * SECOND, "the log is copied into the main file", || async {
            std::fs::metadata(place.file()).unwrap().len() > before
        })
        .await;
    });
}
