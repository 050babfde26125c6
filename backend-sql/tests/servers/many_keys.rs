//! Very many keys, each used once.

use std::process::Command;
use std::sync::Arc;

use distlock_core::LockBackend;

use crate::support::{Kind, Raw, S, Tables, eventually, request, take, tests};

tests! {
    a_hundred_thousand_keys_leave_little_behind on BOTH,
}

/// How many keys, unless DISTLOCK_KEYS says otherwise.
const KEYS: usize = 100_000;
const WORKERS: usize = 8;
/// What this program may take more in memory than before, however many keys there were.
const MOST_MEMORY: i64 = 16 << 20;

/// So many keys are used before the next look at what is left of them. How many are under way at most, and so what
/// the table may take, follows from this and not from how fast the machine is.
const BATCH: usize = 10_000;
/// Fewer rows than this are left of a batch before the next.
const LEFT: i64 = 1000;

/// What the table may take on disk, however many keys there were. With all the rows of a hundred thousand it takes 12.5
/// and 13 MiB. InnoDB makes a file larger by 4 MiB at a time.
const fn most_on_disk(kind: Kind) -> i64 {
    match kind {
        Kind::Postgres => 8 << 20,
        Kind::MySql => 12 << 20,
    }
}

/// Set in the environment of the program that uses the keys.
const ALONE: &str = "DISTLOCK_TEST_ALONE";

/// What a program takes in memory is told by the system for all of it, so this test runs in a program of its own: other
/// tests run beside it.
async fn a_hundred_thousand_keys_leave_little_behind(tables: Tables) {
    if std::env::var_os(ALONE).is_some() {
        return use_keys(tables).await;
    }
    let name = "many_keys::a_hundred_thousand_keys_leave_little_behind";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", name]).env(ALONE, "1");
    // On this server alone.
    alone.env_remove("CONFORMANCE_REQUIRE").env_remove(tables.kind.other().variable());
    let ended = tokio::task::spawn_blocking(move || alone.output()).await.unwrap().unwrap();
    let (said, figures) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprint!("{figures}");
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

async fn use_keys(tables: Tables) {
    let keys = std::env::var("DISTLOCK_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(KEYS);
    let backend = tables.connect(tables.config().keep_idle(S)).await;
    let first = take(&backend, &request("0/0", 30 * S)).await;
    backend.unlock(&first.claim).await.unwrap();
    let memory = resident();
    let mut raw = tables.raw().await;
    for batch in 0..keys.div_ceil(BATCH) {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move {
                    for n in 0..BATCH / WORKERS {
                        let lease = take(&backend, &request(format!("{batch}/{worker}/{n}"), 30 * S)).await;
                        backend.unlock(&lease.claim).await.unwrap();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        eventually("what is left goes, while locks are used", async || {
            for n in 0..640 {
                let lease = take(&backend, &request(format!("few/{}", n % 10), 30 * S)).await;
                backend.unlock(&lease.claim).await.unwrap();
            }
            raw.number("SELECT count(*) FROM {t}").await < LEFT
        })
        .await;
        if tables.kind == Kind::Postgres {
            // The server does it by itself once a minute.
            raw.execute("VACUUM {t}").await;
        }
    }
    assert!(take(&backend, &request("0/0", 30 * S)).await.token > first.token, "tokens go on rising");
    let (disk, more) = (on_disk(&tables, &mut raw).await, resident() - memory);
    eprintln!("{:?}: {} KiB on disk, {} KiB more in memory", tables.kind, disk >> 10, more >> 10);
    assert!(disk <= most_on_disk(tables.kind), "{disk} bytes on disk");
    assert!(more <= MOST_MEMORY, "{more} bytes more in memory");
}

/// What the table and its index take, once what nobody sees any more is cleared away.
async fn on_disk(tables: &Tables, raw: &mut Raw) -> i64 {
    match tables.kind {
        Kind::Postgres => raw.number("SELECT pg_total_relation_size('{t}')").await,
        Kind::MySql => {
            raw.number(
                "SELECT CAST(file_size AS SIGNED) FROM information_schema.innodb_sys_tablespaces
                 WHERE name = CONCAT(DATABASE(), '/{t}')",
            )
            .await
        }
    }
}

/// How much memory this program has in use, in bytes.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}
