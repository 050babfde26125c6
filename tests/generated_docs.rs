//! docs/guarantees.md is written from the code: `make docs` rewrites it, and this test fails when it is stale.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::path::Path;

use distlock::redis::{RedisBackend, Topology};
use distlock::sqlite::SqliteBackend;
use distlock::{LockBackend, MemoryBackend, guarantees_table};

const HEAD: &str = "\
# What each store promises

Generated from the code by `make docs`; the conformance suite checks the same values. `distlock info --url URL` prints them
for one store.

Every row holds under these assumptions: the clocks of client and store run at the same rate within the margin (1 % of the
ttl, and at least 2 ms); no clock inside a paused or migrated virtual machine can see the pause; a holder stops when its
guard says that the lock is lost. A holder that can't stop in time, because it is paused, needs the token checked at the
resource: that works in every row, as far as its tokens survive.

";

const TAIL: &str = "
- **exclusion**: when two holders of one key are possible although the assumptions hold.
- **tokens survive**: what can happen to the store without a token being repeated or lowered.
- **restart, failover**: whether a held lock is still held afterwards; – is no promise.
- **abilities**: beyond trying, renewing and releasing; each is probed by a case of the suite.

The names ending in `-queue` are the same stores with `queue=true` in the URL.

A row of Redis says what holds on every server that is not refused, however it is set up. `appendonly yes` keeps held locks over
a restart of the server: all of them with `appendfsync always`, all but those of the last second or so with `everysec`. Without it a
restart frees locks, and with snapshots it may bring back some that were given up. No client can see that a setting was changed or a
file was lost, so the table does not promise it; `distlock info` tells what a server is set to.
";

#[test]
fn the_table_of_guarantees_is_current() {
    let mut stores = vec![MemoryBackend::new().info().clone(), SqliteBackend::describe()];
    for topology in [Topology::Single, Topology::Sentinel { master: "m".into() }, Topology::Cluster] {
        stores.extend([RedisBackend::describe(&topology), RedisBackend::describe_queue(&topology)]);
    }
    let table = guarantees_table(&stores);
    check("docs/guarantees.md", &format!("{HEAD}{table}{TAIL}"));
}

#[test]
fn the_readme_shows_the_quickstart_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("examples/quickstart.rs")).expect("the example is there");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README is there");
    let start = example.find("#[tokio::main]").expect("the example has a main function");
    assert!(readme.contains(&example[start..]), "README.md and examples/quickstart.rs differ");
}

fn check(path: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, wanted).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is stale: run `make docs`", path.display());
}
