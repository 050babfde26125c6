//! Programs whose clocks disagree.

use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use distlock_core::{LockBackend, Release, TryLock};
use distlock_testbed::WallClock;

use crate::support::{S, Tables, eventually, request, tests};

tests! {
    b102_programs_whose_clocks_are_minutes_apart_exclude_each_other on BOTH,
}

const TURNS: i64 = 40;
/// Set in the environment of a contender: the table with the locks, and about what its clock shows.
const CONTENDS: &str = "DISTLOCK_TEST_CONTENDS_FOR";
const SHOWS: &str = "DISTLOCK_TEST_CLOCK_SHOWS";

/// Each adds one to a number that it read under the lock, so a turn that overlaps another one loses an addition.
async fn b102_programs_whose_clocks_are_minutes_apart_exclude_each_other(tables: Tables) {
    if let Ok(name) = std::env::var(CONTENDS) {
        return contend(Tables { name, ..tables }).await;
    }
    let backend = tables.backend().await;
    let numbers = format!("{}_claims", tables.name);
    let mut raw = tables.raw().await;
    raw.execute(&format!("DROP TABLE {numbers}")).await;
    raw.execute(&format!("CREATE TABLE {numbers} (turns BIGINT NOT NULL, token BIGINT NOT NULL)")).await;
    raw.execute(&format!("INSERT INTO {numbers} VALUES (0, 0)")).await;
    let mut begun = Vec::new();
    for shift in [600, -600, 0] {
        let clock = WallClock::new().unwrap();
        clock.step(shift);
        let mut contender = contender(&tables, &clock);
        contender.env(SHOWS, (wall_clock() + shift).to_string());
        begun.push((contender.spawn().unwrap(), clock));
    }
    for (contender, _clock) in begun {
        let ended = tokio::task::spawn_blocking(move || contender.wait_with_output()).await.unwrap().unwrap();
        let Output { status, stdout, stderr } = ended;
        let said = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
        assert!(status.success() && said.contains("1 passed"), "{said}");
    }
    let turns = raw.number(&format!("SELECT turns FROM {numbers}")).await;
    assert_eq!(turns, 3 * TURNS, "turns overlapped");
    backend.close().await.unwrap();
}

/// This program again, with its wall clock shifted.
fn contender(tables: &Tables, clock: &WallClock) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    clock.apply(&mut command);
    command.args(["--exact", "clocks::b102_programs_whose_clocks_are_minutes_apart_exclude_each_other"]);
    command.env(CONTENDS, &tables.name);
    command.env_remove("CONFORMANCE_REQUIRE").env_remove(tables.kind.other().variable());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// In seconds since 1970.
fn wall_clock() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs().try_into().unwrap()
}

async fn contend(tables: Tables) {
    let shown: i64 = std::env::var(SHOWS).unwrap().parse().unwrap();
    assert!((wall_clock() - shown).abs() < 120, "the clock was to be wrong: {} for {shown}", wall_clock());
    let backend = tables.backend().await;
    let numbers = format!("{}_claims", tables.name);
    let mut raw = tables.raw().await;
    for _ in 0..TURNS {
        let request = request("k", 20 * S);
        let mut taken = None;
        eventually("the others give the lock back", async || {
            match backend.try_lock(&request).await.unwrap() {
                TryLock::Acquired(lease) => taken = Some(lease),
                TryLock::Busy(busy) => {
                    assert!(busy.free_in.is_none_or(|left| left <= 20 * S), "{busy:?}");
                }
            }
            taken.is_some()
        })
        .await;
        let lease = taken.unwrap();
        let turns = raw.number(&format!("SELECT turns FROM {numbers}")).await;
        let token = raw.number(&format!("SELECT token FROM {numbers}")).await;
        assert!(lease.token.get_i64() > token, "tokens rise");
        let next = (turns + 1, lease.token.get_i64());
        raw.execute(&format!("UPDATE {numbers} SET turns = {}, token = {}", next.0, next.1)).await;
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
    backend.close().await.unwrap();
}
