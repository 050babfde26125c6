//! Random kills, on SQLite. `DISTLOCK_KILLS=1000` makes it long.

use std::time::Duration;

use crate::loss::Writer;
use crate::mayhem::{Store, rounds, seed, survive};
use crate::rig::{Rig, eventually, uptime};

/// Each has a database of its own, so that they take no turns.
const AT_ONCE: usize = 3;

/// Locks the database, as another program's long transaction does.
struct Database;

impl Store for Database {
    fn disturb(&mut self, rig: &Rig, lasts: Duration) {
        let writer = Writer::start(rig);
        let over = uptime() + lasts;
        eventually("the writer's end", || (uptime() >= over).then_some(()));
        writer.end();
    }
}

#[test]
fn random_kills_leave_neither_processes_nor_locks() {
    let (rounds, seed) = (rounds(60).div_ceil(AT_ONCE), seed());
    std::thread::scope(|scope| {
        for at in 0..AT_ONCE {
            let seed = seed.wrapping_add(at as u64 * 1_000_003) | 1;
            scope.spawn(move || survive(&Rig::sqlite(), &mut Database, rounds, seed));
        }
    });
}
