//! Pages that are written from the code: `make docs` rewrites them, and this test fails when one is stale.
#![cfg(all(
    feature = "etcd",
    feature = "redis",
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite",
    feature = "zk"
))]
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::path::Path;

use distlock::etcd::EtcdBackend;
use distlock::redis::{RedisBackend, RedlockBackend, RedlockOptions, TokenMode, Topology};
use distlock::sqlite::SqliteBackend;
use distlock::zk::ZkBackend;
use distlock::{LockBackend, MemoryBackend, UrlOption, guarantees_table};
use distlock_testbed::grid::{Cell, page};

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

The names ending in `-queue` are the same stores with `queue=true` in the URL, `redlock-best-effort` is `redlock` with
`token=best-effort`. In a row of Redlock, a failover is the death of a minority of the servers.

A ttl in etcd is exact for its holder; the store keeps a lease of whole seconds, rounded up, and after a change of the leader for a
whole ttl more.

PostgreSQL and MySQL keep their promises with their default settings of durability; a server that was told to be less careful
forgets grants in a crash, and `distlock info` says so. The rows speak of one server: a standby or replica that takes over may lack
the last grants, unless it replicates synchronously.

The locks of `postgres-advisory` and `mysql-named` belong to a session, and end with it: a holder's crash frees them at once, and so
does a server that ends the session. A holder of more than 50 ms learns of that at once, and at the end of the ttl if the network is
silent; on MySQL and MariaDB within 250 ms (a tenth of the ttl if that is less) while the server refuses the client another connection. One
client holds as many as it has connections.

A row of Redis says what holds on every server that is not refused, however it is set up. `appendonly yes` keeps held locks over
a restart of the server: all of them with `appendfsync always`, all but those of the last second or so with `everysec`. Without it a
restart frees locks, and with snapshots it may bring back some that were given up. No client can see that a setting was changed or a
file was lost, so the table does not promise it; `distlock info` tells what a server is set to.

A lease of ZooKeeper belongs to its client's session: a ttl is cut to half of the session's time-out (by default 5 s of 10 s), which
the grant states, and a dead client's place in a queue may stay for as long as that session.
";

#[test]
fn the_table_of_guarantees_is_current() {
    let mut stores = vec![MemoryBackend::new().info().clone(), SqliteBackend::describe()];
    stores.extend([distlock::postgres::describe(), distlock::mysql::describe()]);
    stores.extend([distlock::postgres::advisory::describe(), distlock::mysql::named::describe()]);
    for topology in [Topology::Single, Topology::Sentinel { master: "m".into() }, Topology::Cluster] {
        stores.extend([RedisBackend::describe(&topology), RedisBackend::describe_queue(&topology)]);
    }
    stores.push(EtcdBackend::describe());
    stores.push(ZkBackend::describe());
    for token in [TokenMode::Agreed, TokenMode::BestEffort] {
        stores.push(RedlockBackend::describe(&RedlockOptions::default().token(token)));
    }
    let table = guarantees_table(&stores);
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/faults/results.json");
    let results =
        std::fs::read_to_string(results).expect("the results are there: `make faults-record` writes them");
    let cells: Vec<Cell> = serde_json::from_str(&results).expect("`make faults-record` writes them");
    let failed: Vec<_> = cells.iter().filter(|cell| !cell.failed.is_empty()).collect();
    assert!(failed.is_empty(), "what failed is no documentation: {failed:#?}");
    check("docs/guarantees.md", &format!("{HEAD}{table}{TAIL}{}", page(&cells)));
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

const OPTIONS_HEAD: &str = "\
# Options

Generated from the code by `make docs`. An option has one name everywhere:

| where | how |
|---|---|
| in a URL | `redis://host?queue=true&ttl=10s`, percent-encoded |
| in code | the field and the setter of that name, if the meaning names no other: `ClientOptions` and `LockOptions` for those of every store, the store's own configuration for the others |
| on the command line | `--option queue=true --option ttl=10s` (`-o`), as it is; `--namespace` and, for `run`, `--ttl` on their own |
| in the environment of the command | `DISTLOCK_OPTIONS='queue=true&ttl=10s'`, `DISTLOCK_NAMESPACE` |

An option that a store does not know is refused before anything is sent, with the name that was probably meant. So is one that is
given twice, and a value out of range. Durations are written `500ms`, `30s`, `1h30m`; switches are `on`, `true`, `1`, `off`,
`false` or `0`, and a name alone is `on`.

What belongs to one call stands in `LockOptions`, and what to all calls of a client in `ClientOptions`. Some are flags of `distlock run`:

| in code | `distlock run` | without it |
|---|---|---|
| `LockOptions::ttl` | `--ttl` | the URL's `ttl`, else 30s |
| `LockOptions::wait` | `--wait` | for ever |
| `LockOptions::renew` | | every third of the ttl |
| `LockOptions::max_hold` | `--max-hold` | no limit |
| `LockOptions::queue` | | `Queueing::Auto`: a client's contenders stand in line, the first of them in the store's queue if it has one |
| `LockOptions::metadata` | `--label` | host name, process id, and of `run` the command's name |
| `LockOptions::op_timeout` | | the URL's `op_timeout`, else the lesser of 2s and ttl/6 |
| `LockOptions::margin` | | 1 % of the ttl, and at least 2 ms |
| `ClientOptions::namespace` | `--namespace` | the URL's `namespace`, else none |
| `ClientOptions::metadata` | `--label` | host name and process id |
| `ClientOptions::max_waiters` | | 65 536 callers |
| `ClientOptions::defaults` | | the defaults of `LockOptions` |
";

#[test]
fn the_table_of_options_is_current() {
    let mut text = OPTIONS_HEAD.to_owned();
    section(&mut text, "Every store", &distlock::COMMON_OPTIONS);
    let mut drivers: Vec<_> = distlock::registry().drivers().to_vec();
    drivers.sort_by_key(|driver| driver.schemes());
    // Kinds of one family take the same options.
    let mut families: Vec<(Vec<&str>, &[UrlOption])> = Vec::new();
    for driver in drivers {
        match families.iter_mut().find(|(_, options)| *options == driver.options()) {
            Some((schemes, _)) => schemes.extend(driver.schemes()),
            None => families.push((driver.schemes().to_vec(), driver.options())),
        }
    }
    for (schemes, options) in families {
        let title: Vec<String> = schemes.iter().map(|scheme| format!("`{scheme}:`")).collect();
        section(&mut text, &title.join(" "), options);
    }
    check("docs/options.md", &text);
}

/// Every setter of the options that no store has of its own has a row.
#[test]
fn options_in_code_are_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (kind, file) in
        [("LockOptions", "lock-core/src/options.rs"), ("ClientOptions", "lock-core/src/client/options.rs")]
    {
        let code = std::fs::read_to_string(root.join(file)).expect("a file");
        let names = setters(&code);
        assert!(names.len() > 3, "{file}: {names:?}");
        for name in names {
            assert!(
                OPTIONS_HEAD.contains(&format!("\n| `{kind}::{name}` | ")),
                "{kind}: no row for `{name}`"
            );
        }
    }
}

/// The methods of the code that take themselves to change something.
fn setters(code: &str) -> Vec<&str> {
    let methods = code.lines().filter_map(|line| line.strip_prefix("    pub "));
    let named =
        methods.filter_map(|method| method.strip_prefix("const ").unwrap_or(method).strip_prefix("fn "));
    named.filter_map(|method| method.split_once("(mut self")).map(|(name, _)| name).collect()
}

/// What stands behind `mark` in the option's meaning, in quotes.
fn named(option: &UrlOption, mark: &str) -> Option<&'static str> {
    option.meaning.rsplit_once(mark).and_then(|(_, name)| name.split('`').next())
}

/// A configuration has a field and a setter of the name that its URL option has.
#[test]
fn options_of_urls_are_fields_of_configurations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = [
        ("redis", "backend-redis/src/config/mod.rs"),
        ("redlock", "backend-redis/src/quorum/config.rs"),
        ("redlock", "backend-redis/src/config/mod.rs"),
        ("etcd", "backend-etcd/src/config/mod.rs"),
        ("postgres", "backend-sql/src/server/config/mod.rs"),
        ("postgres", "backend-sql/src/server/config/setters.rs"),
        ("mysql", "backend-sql/src/server/config/mod.rs"),
        ("mysql", "backend-sql/src/server/config/setters.rs"),
        ("sqlite", "backend-sql/src/sqlite/config.rs"),
        ("zk", "backend-zk/src/config/mod.rs"),
    ];
    let registry = distlock::registry();
    for scheme in ["redis", "redlock", "etcd", "postgres", "mysql", "sqlite", "zk"] {
        let files = sources.iter().filter(|(of, _)| *of == scheme).map(|(_, file)| root.join(file));
        let code: String = files.map(|file| std::fs::read_to_string(file).expect("a file")).collect();
        let driver =
            registry.drivers().iter().find(|driver| driver.schemes().contains(&scheme)).expect("a store");
        for option in driver.options() {
            let field = named(option, "In code: `").unwrap_or(option.name);
            assert!(code.contains(&format!("    pub {field}: ")), "{scheme}: no field `{field}`");
            let setter = named(option, "Set by `").unwrap_or(field);
            assert!(setters(&code).contains(&setter), "{scheme}: no setter `{setter}`");
        }
    }
}

fn section(text: &mut String, title: &str, options: &[UrlOption]) {
    text.push_str(&format!("\n## {title}\n\n"));
    if options.is_empty() {
        text.push_str("None of its own.\n");
        return;
    }
    text.push_str("| option | takes | default | meaning |\n|---|---|---|---|\n");
    for UrlOption { name, takes, default, meaning, .. } in options {
        text.push_str(&format!("| `{name}` | {takes} | {default} | {meaning} |\n"));
    }
}

const METRICS_HEAD: &str = "\
# Metrics

Generated from the code by `make docs`; a test records every one of them.

With the feature `metrics`, clients record through the [`metrics`](https://docs.rs/metrics) facade, to whatever recorder the program
has installed. Install it before the first client is made: gauges count ups and downs, and miss those that came before.
`distlock::describe_metrics()` then tells it what each metric means. Without the feature there is neither the code nor the crate.

`backend` is the store's name as `distlock info` shows it. Each label takes few values; **a key is never a label**, since there may be
millions of them. To follow single locks, use `LockClient::events`, or spans with the feature `tracing`.

";

const METRICS_TAIL: &str = "
- All clients of a process that use the same kind of store are counted together.
- A time is in seconds. How it is shown, as buckets or quantiles, is the recorder's choice.
- `distlock run --metrics-listen` shows them for Prometheus; a dashboard and alert rules for them are in `docs/operations`.
- A hold begins when the request that was granted left, and ends when its guard is given back or its loss is noticed.
- A loss that only the release finds (it answers `NotHeld`) is no loss while held: it is `distlock_operations_total` with `operation`
  `unlock` and `outcome` `not-held`.
- Losses, renewals, jeopardies and self-waits are there with 0 from the first client on, so that the first one is seen as growth.
- An adopted lease is a hold, but no call.
- A recorder that is installed later is used from then on. Only a local one (`with_local_recorder`), put where another was in memory, may
  be taken for that for up to a second, by clients that knew it; make a client for each.
";

#[test]
fn the_page_of_metrics_is_current() {
    let mut text = METRICS_HEAD.to_owned();
    text.push_str("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in distlock::METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.as_str(), labels.join(", "));
        text.push_str(&format!("| `{name}` | {kind} | {labels} | {} |\n", metric.meaning));
    }
    check("docs/metrics.md", &(text + METRICS_TAIL));
}
