//! Tokens rise whatever happens to clocks and disk.

use std::time::Duration;

use distlock_core::{Clock, ErrorKind, FencingToken, LockBackend, TryLock};
use distlock_sql::sqlite::{Machine, ManualWallClock, SqliteBackend, SqliteConfig};
use sqlx::{Connection, Row};

use crate::support::{Place, SECOND, eventually, key, raw, request, take};

const HOUR: Duration = Duration::from_secs(3600);

async fn open(file: std::path::PathBuf, epoch: &str, wall: &ManualWallClock) -> SqliteBackend {
    let machine = Machine::simulated(epoch, Clock::system(), wall);
    SqliteBackend::connect(SqliteConfig::new(file).machine(machine)).await.unwrap()
}

async fn cycle(backend: &SqliteBackend, name: &str) -> FencingToken {
    let lease = take(backend, name, 10 * SECOND).await;
    backend.unlock(&lease.claim).await.unwrap();
    lease.token
}

#[tokio::test]
async fn a_token_is_the_wall_clock_or_one_more_than_the_last() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(place.file(), "e", &wall).await;
    assert_eq!(cycle(&backend, "a").await.get() as i64, wall.micros());
    assert_eq!(cycle(&backend, "a").await.get() as i64, wall.micros() + 1);
    wall.advance(SECOND);
    assert_eq!(cycle(&backend, "a").await.get() as i64, wall.micros());
}

#[tokio::test]
async fn a_wall_clock_set_back_does_not_set_tokens_back() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(place.file(), "e", &wall).await;
    let mut last = cycle(&backend, "a").await;
    for step in 0..50 {
        if step % 2 == 0 {
            wall.set_back(HOUR)
        } else {
            wall.advance(90 * SECOND)
        }
        let next = cycle(&backend, "a").await;
        assert!(next > last);
        last = next;
    }
}

/// What the disk holds after a power cut at this instant, at worst: what was synced last.
fn copy(place: &Place, name: &str, with_log: bool) -> std::path::PathBuf {
    let to = place.path(name);
    std::fs::copy(place.file(), &to).unwrap();
    if with_log {
        std::fs::copy(place.path("locks.db-wal"), place.path(&format!("{name}-wal"))).unwrap();
    }
    to
}

#[tokio::test]
async fn a_power_cut_with_the_clock_set_back_repeats_no_token() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(place.file(), "boot-1", &wall).await;
    reserve_is_ahead(&place, &wall).await;
    for round in 0..3 {
        // Everything after these copies is lost.
        let bare = copy(&place, &format!("bare-{round}.db"), false);
        let logged = copy(&place, &format!("logged-{round}.db"), true);
        let mut highest = cycle(&backend, "a").await;
        for _ in 0..25 {
            wall.advance(SECOND);
            highest = highest.max(cycle(&backend, "a").await);
            highest = highest.max(cycle(&backend, &format!("new/{}", wall.micros())).await);
        }
        for (at, file) in [bare, logged].into_iter().enumerate() {
            let earlier = ManualWallClock::new();
            earlier.set_back(24 * HOUR);
            let rebooted = open(file, &format!("boot-2-{at}"), &earlier).await;
            // The copy may be from the middle of a hold, which a reboot does not void.
            rebooted.admin().unwrap().force_unlock(&key("a")).await.unwrap();
            for name in ["a", "never seen before"] {
                let token = cycle(&rebooted, name).await;
                assert!(token > highest, "round {round}, copy {at}, {name}: {token} after {highest}");
            }
        }
        // Use the block up, so that the next round's copies hold the next reserve.
        wall.advance(120 * SECOND);
        cycle(&backend, "a").await;
        reserve_is_ahead(&place, &wall).await;
    }
}

async fn reserve_is_ahead(place: &Place, wall: &ManualWallClock) {
    eventually(30 * SECOND, "a reserve of half a block ahead, in the main file too", || async {
        let (_, ceiling, reserve) = reserve(place).await;
        let copied = reserve_in(&copy(place, "look.db", false)).await.2;
        ceiling - wall.micros() >= 30_000_000 && copied == reserve
    })
    .await;
}

/// Floor, usable ceiling, and what is on the disk.
async fn reserve(place: &Place) -> (i64, i64, i64) {
    reserve_in(&place.file()).await
}

async fn reserve_in(file: &std::path::Path) -> (i64, i64, i64) {
    const BOUNDS: &str = "SELECT token_floor, token_ceiling, token_reserve FROM distlock_meta";
    let mut raw = raw(file).await;
    let row = sqlx::query(BOUNDS).fetch_optional(&mut raw).await;
    raw.close().await.unwrap();
    // A copy from before the first checkpoint has no table.
    row.ok().flatten().map_or((0, 0, 0), |row| (row.get(0), row.get(1), row.get(2)))
}

#[tokio::test]
async fn no_token_is_granted_beyond_what_is_on_the_disk() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(place.file(), "e", &wall).await;
    for _ in 0..20 {
        wall.advance(17 * SECOND);
        let token = cycle(&backend, "a").await.get() as i64;
        let (_, ceiling, reserve) = reserve(&place).await;
        assert!(token <= ceiling && ceiling <= reserve, "{token} {ceiling} {reserve}");
    }
    // The reserve can't be written: then there is no grant either, and it is not called busy.
    reserve_is_ahead(&place, &wall).await;
    place
        .execute(
            "CREATE TRIGGER refuse BEFORE UPDATE OF token_reserve ON distlock_meta
             BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
        )
        .await;
    wall.advance(HOUR);
    assert!(backend.try_lock(&request("a", SECOND)).await.is_err());
    assert!(backend.try_lock(&request("new", SECOND)).await.is_err());
    place.execute("DROP TRIGGER refuse").await;
    cycle(&backend, "a").await;
}

#[tokio::test]
async fn the_disk_is_synced_once_a_block_not_once_a_token() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(place.file(), "e", &wall).await;
    let before = backend.commands_sent().unwrap();
    let (cycles, seconds) = (1000, 200);
    for _ in 0..cycles {
        cycle(&backend, "a").await;
        wall.advance(seconds * SECOND / cycles);
    }
    // A reservation takes six statements; a sweep of idle records two, a checkpoint one.
    let extra = backend.commands_sent().unwrap() - before - 2 * u64::from(cycles);
    let blocks = u64::from(seconds / 30 + 2);
    assert!(
        extra <= 6 * blocks + 2 * u64::from(cycles / 64 + 1) + u64::from(2 * cycles / 500),
        "{extra} statements besides"
    );
}

#[tokio::test]
async fn the_first_grant_after_a_long_pause_waits_for_the_reserve() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let (one, other) = (open(place.file(), "e", &wall).await, open(place.file(), "e", &wall).await);
    for _ in 0..3 {
        wall.advance(24 * HOUR);
        let first = cycle(&one, "a").await;
        assert_eq!(first.get() as i64, wall.micros());
        assert!(cycle(&other, "a").await > first);
    }
}

#[tokio::test]
async fn tokens_come_to_an_end_with_an_error() {
    let place = Place::new();
    let backend = place.open().await;
    place.execute("UPDATE distlock_meta SET token_floor = 9223372036854775807 - 5").await;
    let error = backend.try_lock(&request("a", SECOND)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("come to their end"), "{error}");
}

#[tokio::test]
async fn two_programs_share_one_sequence() {
    let place = Place::new();
    let (one, other) = (place.open().await, place.open().await);
    let mut last = FencingToken::MIN;
    for turn in 0..200 {
        let backend = if turn % 2 == 0 { &one } else { &other };
        let TryLock::Acquired(lease) = backend.try_lock(&request("a", SECOND)).await.unwrap() else {
            panic!("busy");
        };
        assert!(lease.token > last);
        last = lease.token;
        backend.unlock(&lease.claim).await.unwrap();
    }
}

#[tokio::test]
async fn bounds_that_were_made_anew_count_and_not_what_was_known_before() {
    let place = Place::new();
    let wall = ManualWallClock::new();
    let backend = open(place.file(), "e", &wall).await;
    let last = cycle(&backend, "a").await;
    // As after a program that found the row missing made it from the records.
    place
        .execute(
            "UPDATE distlock_meta SET (token_floor, token_reserve, token_ceiling) =
             (SELECT max(token), max(token), max(token) FROM distlock_locks)",
        )
        .await;
    let next = cycle(&backend, "a").await;
    assert!(next > last);
    let (floor, ceiling, reserve) = reserve(&place).await;
    assert!(floor < next.get() as i64 && next.get() as i64 <= ceiling && ceiling <= reserve);
    cycle(&backend, "b").await;
}
