//! Records that nobody needs go away, and no token with them.

use std::time::Duration;

use distlock_core::{Clock, LockBackend};
use distlock_sql::sqlite::{Machine, ManualWallClock, SqliteBackend};
use sqlx::{Connection, Row};

use crate::support::{MS, Place, SECOND, eventually, raw, take};

const MINUTE: Duration = Duration::from_secs(60);
/// How many keys, unless DISTLOCK_KEYS says otherwise.
const KEYS: usize = 3000;
/// What the file may take, however many keys there were.
const MOST_ON_DISK: u64 = 1 << 20;

async fn open(place: &Place, wall: &ManualWallClock) -> SqliteBackend {
    let machine = Machine::simulated("e", Clock::system(), wall);
    SqliteBackend::connect(place.config().keep_idle(MINUTE).machine(machine)).await.unwrap()
}

async fn records(place: &Place) -> i64 {
    place.rows("SELECT count(*) FROM distlock_locks").await[0].get(0)
}

async fn cycles(backend: &SqliteBackend, name: &str, count: usize) {
    for _ in 0..count {
        let lease = take(backend, name, 10 * SECOND).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
}

#[tokio::test]
async fn idle_records_go_and_their_tokens_do_not_come_again() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(&place, &wall).await;
    let mut last = Vec::new();
    for n in 0..700 {
        let name = format!("job/{n}");
        let lease = take(&backend, &name, 10 * SECOND).await;
        backend.unlock(&lease.claim).await.unwrap();
        last.push((name, lease.token));
    }
    let held = take(&backend, "held", 100 * SECOND).await;
    take(&backend, "crashed", 50 * MS).await;
    tokio::time::sleep(60 * MS).await;

    cycles(&backend, "busy", 64 * 6).await;
    assert_eq!(records(&place).await, 703, "fresh records stay");

    wall.advance(2 * MINUTE);
    eventually(10 * SECOND, "all idle records gone", || async {
        cycles(&backend, "busy", 64).await;
        records(&place).await == 2
    })
    .await;
    assert!(matches!(backend.renew(&held, SECOND).await, Ok(distlock_core::Renewal::Renewed { .. })));

    wall.set_back(60 * MINUTE);
    for (name, token) in last.iter().step_by(50) {
        assert!(take(&backend, name, SECOND).await.token > *token, "{name}");
    }
}

#[tokio::test]
async fn one_key_after_another_does_not_pile_up() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(&place, &wall).await;
    let keys = std::env::var("DISTLOCK_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(KEYS);
    for n in 0..keys {
        cycles(&backend, &format!("order/{n}"), 1).await;
        wall.advance(SECOND);
    }
    // A record lives for a minute and until the next round of the sweep comes by.
    eventually(10 * SECOND, "at most a few hundred records", || async { records(&place).await < 600 }).await;
    let disk = std::fs::metadata(place.file()).unwrap().len();
    eprintln!("{keys} keys: {} KiB on disk", disk >> 10);
    assert!(disk <= MOST_ON_DISK, "{disk} bytes on disk");
}

#[tokio::test]
async fn dead_waiters_are_forgotten() {
    let place = Place::new();
    let backend = place.open().await;
    place
        .execute(
            "INSERT INTO distlock_claims (key, owner, seq, deadline, epoch)
                  SELECT CAST('x' AS BLOB), randomblob(16), 1, 1, epoch FROM distlock_meta",
        )
        .await;
    eventually(10 * SECOND, "the dead waiter's mark gone", || async {
        cycles(&backend, "busy", 64).await;
        place.rows("SELECT * FROM distlock_claims").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn the_log_is_copied_in_the_background_and_stays_small() {
    let place = Place::new();
    let backend = place.open().await;
    let log = place.path("locks.db-wal");
    for _ in 0..5 {
        cycles(&backend, "busy", 1000).await;
        let length = std::fs::metadata(&log).unwrap().len();
        assert!(length < 32 << 20, "{length} bytes");
    }
    eventually(10 * SECOND, "the main file up to date", || async {
        let copy = place.path("copy.db");
        std::fs::copy(place.file(), &copy).unwrap();
        let mut raw = raw(&copy).await;
        let records = sqlx::query("SELECT * FROM distlock_locks").fetch_all(&mut raw).await;
        raw.close().await.unwrap();
        records.is_ok_and(|records| records.len() == 1)
    })
    .await;
}
