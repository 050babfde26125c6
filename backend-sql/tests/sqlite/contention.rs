//! Several processes on one file.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Clock, Deadline, ErrorKind, LockBackend, LockClient, LockOptions, acquire};
use distlock_sql::sqlite::{SqliteBackend, SqliteConfig};
use distlock_testbed::rounds;

use crate::support::{MS, Place, SECOND, busy, child, given, now, queued, request, take};

const FILE: &str = "DISTLOCK_TEST_FILE";
const WORK: &str = "DISTLOCK_TEST_WORK";
/// Far more than a program takes to start.
const LONG: Duration = Duration::from_secs(4);

fn start(place: &Place, work: &str) -> Child {
    let file = place.file();
    let mut command = child("contention::child_at_work", &[(FILE, file.to_str().unwrap()), (WORK, work)]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

#[tokio::test]
async fn child_at_work() {
    let (Some(file), Some(work)) = (given(FILE), given(WORK)) else { return };
    let backend = Arc::new(SqliteBackend::connect(SqliteConfig::new(&file)).await.unwrap());
    match work.as_str() {
        "count" => count(LockClient::new(backend), &file).await,
        "hold" | "hold for long" => {
            let ttl = if work == "hold" { SECOND } else { LONG };
            let lease = take(&backend, "held", ttl).await;
            println!("holding {}", lease.token);
            tokio::time::sleep(60 * SECOND).await;
        }
        _ => take_turns(backend).await,
    }
}

/// Adds one to a number in a file under the lock, again and again, and prints how often.
async fn count(client: LockClient, file: &str) {
    let counter = format!("{file}.counter");
    let options = LockOptions::default().ttl(20 * SECOND);
    let (begun, mut added) = (now(), 0);
    let long = u32::try_from(rounds(3).min(10)).unwrap() * SECOND;
    while now().since(begun) < long {
        let guard = client.lock_with("counter", &options).await.unwrap();
        let text = std::fs::read_to_string(&counter).unwrap_or_default();
        let (last_token, value) = text.split_once(' ').unwrap_or(("0", "0"));
        assert!(last_token.parse::<u64>().unwrap() < guard.token().get(), "tokens rise");
        let value = value.parse::<u64>().unwrap() + 1;
        std::fs::write(&counter, format!("{} {value}", guard.token())).unwrap();
        guard.unlock().await.unwrap();
        added += 1;
    }
    println!("added {added}");
}

/// Holds for a millisecond, thinks for a millisecond, and prints how many turns it got.
async fn take_turns(backend: Arc<SqliteBackend>) {
    let (begun, mut turns) = (now(), 0);
    while now().since(begun) < 4 * SECOND {
        let deadline = Deadline::after(&Clock::system(), 20 * SECOND);
        let lease = acquire(&*backend, &queued("turns", 10 * SECOND), deadline).await.unwrap();
        tokio::time::sleep(MS).await;
        backend.unlock(&lease.claim).await.unwrap();
        turns += 1;
        tokio::time::sleep(MS).await;
    }
    println!("added {turns}");
}

/// What the children printed, once they all ended well.
fn totals(children: Vec<Child>) -> Vec<u64> {
    children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{text}");
            let line = text.lines().find_map(|line| line.split("added ").nth(1));
            line.unwrap_or_else(|| panic!("no total in {text}")).trim().parse().unwrap()
        })
        .collect()
}

#[tokio::test]
async fn b112_many_processes_see_no_busy_error_and_lose_no_update() {
    let place = Place::new();
    place.open().await;
    let processes = rounds(12).min(50);
    let children: Vec<_> = (0..processes).map(|_| start(&place, "count")).collect();
    let totals = tokio::task::spawn_blocking(move || totals(children)).await.unwrap();
    let text = std::fs::read_to_string(place.path("locks.db.counter")).unwrap();
    let value: u64 = text.split_once(' ').unwrap().1.parse().unwrap();
    println!("turns: {totals:?}");
    assert_eq!(value, totals.iter().sum::<u64>());
}

#[tokio::test]
async fn every_process_gets_its_share_of_a_hot_key() {
    let place = Place::new();
    place.open().await;
    let children: Vec<_> = (0..4).map(|_| start(&place, "turns")).collect();
    let totals = tokio::task::spawn_blocking(move || totals(children)).await.unwrap();
    let all: u64 = totals.iter().sum();
    println!("turns: {totals:?}");
    assert!(totals.iter().all(|turns| turns * 8 >= all), "{totals:?}");
}

#[tokio::test]
async fn a_killed_holder_frees_the_lock_within_its_ttl() {
    let place = Place::new();
    let backend = place.open().await;
    let token = kill_a_holder(&place, "hold").await;
    let begun = now();
    let deadline = Deadline::after(&Clock::system(), 10 * SECOND);
    let lease = acquire(&backend, &queued("held", SECOND), deadline).await.unwrap();
    assert!(lease.token.get() > token);
    assert!(now().since(begun) < 2 * SECOND, "{:?}", now().since(begun));
}

#[tokio::test]
async fn a_file_whose_only_program_was_killed_keeps_its_lease_to_the_end() {
    let place = Place::new();
    let token = kill_a_holder(&place, "hold for long").await;
    let backend = place.open().await;
    let left = busy(backend.try_lock(&request("held", SECOND)).await).free_in.unwrap();
    assert!(left <= LONG, "{left:?}");
    let deadline = Deadline::after(&Clock::system(), 10 * SECOND);
    let lease = acquire(&backend, &queued("held", SECOND), deadline).await.unwrap();
    assert!(lease.token.get() > token);
}

/// Kills a process that has just taken a lock, and says what its token was.
async fn kill_a_holder(place: &Place, work: &str) -> u64 {
    let mut holder = start(place, work);
    tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(holder.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("holding ") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the holder ended");
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        let mut rest = Vec::new();
        lines.read_to_end(&mut rest).unwrap();
        line.split("holding ").nth(1).unwrap().trim().parse::<u64>().unwrap()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_database_locked_for_long_is_unavailable_with_no_effect_and_comes_back() {
    use sqlx::Connection;
    let place = Place::new();
    let backend = SqliteBackend::connect(place.config().busy_timeout(200 * MS)).await.unwrap();
    let lease = take(&backend, "mine", 10 * SECOND).await;
    let mut blocker = place.raw().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut blocker).await.unwrap();
    let begun = now();
    for error in [
        backend.try_lock(&request("a", SECOND)).await.unwrap_err(),
        backend.renew(&lease, SECOND).await.unwrap_err(),
        backend.unlock(&lease.claim).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), distlock_core::Effect::None);
        assert!(error.to_string().contains("locks.db locked"), "{error}");
    }
    assert!(now().since(begun) < 3 * SECOND, "{:?}", now().since(begun));
    // Looking needs no turn at writing.
    assert!(backend.admin().unwrap().inspect(&lease.claim.key).await.unwrap().is_some());
    sqlx::query("ROLLBACK").execute(&mut blocker).await.unwrap();
    blocker.close().await.unwrap();
    assert!(matches!(backend.renew(&lease, SECOND).await, Ok(distlock_core::Renewal::Renewed { .. })));
}

#[tokio::test]
async fn a_short_lock_of_another_program_is_only_a_delay() {
    use sqlx::Connection;
    let place = Place::new();
    let backend = place.open().await;
    let mut blocker = place.raw().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut blocker).await.unwrap();
    let (lease, ()) = tokio::join!(take(&backend, "a", 10 * SECOND), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        sqlx::query("COMMIT").execute(&mut blocker).await.unwrap();
    });
    blocker.close().await.unwrap();
    assert!(lease.valid_until.since(now()) > 9 * SECOND, "counted from the attempt that went through");
}
