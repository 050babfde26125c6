//! Looking for releases by other programs.

use std::time::Duration;

use distlock_core::{Clock, Instant, LockKey, OwnerId, Result, jittered};
use sqlx::sqlite::SqliteRow;

use super::Waiting;
use super::log::LogFile;
use super::watchers::Seen;
use crate::hex::push_hex;
use crate::sqlite::record::{column, nanos};

/// Shortest pause between two looks.
const LEAST: Duration = Duration::from_millis(1);

/// The pause after a look at the locks is at least this many times as long as the look took, so
/// that many waiters do not make the poller a load of its own.
const SHARE: u32 = 4;

/// Changes with every commit of another connection, this process's writer included.
const VERSION: &str = "PRAGMA data_version";

/// How the locks in a JSON list of keys stand, by their place in the list: token, whether held,
/// by when it can change without a commit, and who is first in the queue.
const SEE: &str = "SELECT j.key, l.token,
   l.owner IS NOT NULL AND NOT (l.epoch = ?2 AND l.deadline <= ?3),
   CASE WHEN l.epoch = ?2 THEN l.deadline - ?3 END, w.owner, w.deadline - ?3
 FROM json_each(?1) j
 LEFT JOIN distlock_locks l ON l.key = unhex(j.value)
 LEFT JOIN distlock_claims w ON w.key = unhex(j.value) AND w.token IS NULL AND w.seq = (
   SELECT min(c.seq) FROM distlock_claims c
    WHERE c.key = unhex(j.value) AND c.token IS NULL AND c.epoch = ?2 AND c.deadline > ?3)";

/// Looks for as long as somebody waits. Cheap while nothing changes: one pragma, less and less often,
/// and after a while mostly a look at the log file's time.
pub(super) async fn run(waiting: &Waiting) {
    let clock = waiting.store.machine.clock();
    let mut pause = LEAST;
    let mut version = None;
    let mut due = Instant::FAR;
    let mut log = LogFile::of(waiting.store.file.path());
    while !waiting.watchers.is_empty() {
        // Before the look at the locks, so that a commit between the two is looked at again.
        let is_quiet = waiting.store.has_write_ahead_log() && log.is_quiet(Clock::system().now());
        let now_version = if is_quiet { version } else { data_version(waiting).await };
        let changed = now_version.is_none() || now_version != version;
        if waiting.watchers.take_new() || changed || clock.now() >= due {
            let begun = clock.now();
            pause = match see(waiting).await {
                Ok(next) => {
                    version = now_version;
                    due = next.map_or(Instant::FAR, |left| clock.now().plus(left));
                    LEAST.max(clock.now().since(begun) * SHARE).min(waiting.poll)
                }
                // It is looked at again, without haste; waiters try by time as well.
                Err(_) => waiting.poll,
            };
        } else {
            pause = (pause + pause / 2).min(waiting.poll);
        }
        tokio::select! {
            () = waiting.look_now.notified() => {}
            () = tokio::time::sleep(jittered(pause).min(due.since(clock.now()).max(LEAST))) => {}
        }
    }
}

async fn data_version(waiting: &Waiting) -> Option<i64> {
    let answer = waiting.store.read(|_| sqlx::query(VERSION)).await.ok()?;
    column(answer.rows.first()?, 0).ok()
}

/// Looks at all locks that are waited for and wakes whose turn it is. Says when one of them can
/// change without a commit: by the end of a hold, or of the mark of a waiter that does not come.
async fn see(waiting: &Waiting) -> Result<Option<Duration>> {
    let keys = waiting.watchers.keys();
    let list = json_list(&keys);
    let store = &waiting.store;
    let answer = store
        .read(|moment| sqlx::query(SEE).bind(list.clone()).bind(store.machine.epoch()).bind(moment.nanos()))
        .await?;
    let mut next: Option<Duration> = None;
    for row in &answer.rows {
        let place = usize::try_from(column::<i64>(row, 0)?).unwrap_or(usize::MAX);
        let Some(key) = keys.get(place) else { continue };
        let (seen, left) = seen(row)?;
        seen.wake(&waiting.watchers, key);
        next = [next, left].into_iter().flatten().min();
    }
    Ok(next)
}

fn seen(row: &SqliteRow) -> Result<(Seen, Option<Duration>)> {
    let token = column::<Option<i64>>(row, 1)?.map_or(0, i64::unsigned_abs);
    let is_free = !column::<Option<bool>>(row, 2)?.unwrap_or(false);
    let head = column::<Option<Vec<u8>>>(row, 4)?.and_then(|owner| OwnerId::from_bytes(&owner));
    let left = column::<Option<i64>>(row, if is_free { 5 } else { 3 })?;
    Ok((Seen { is_free, token, head }, left.map(nanos)))
}

fn json_list(keys: &[LockKey]) -> String {
    let mut list = String::from("[");
    for (at, key) in keys.iter().enumerate() {
        list.push_str(if at == 0 { "\"" } else { ",\"" });
        push_hex(&mut list, key.as_bytes());
        list.push('"');
    }
    list.push(']');
    list
}
