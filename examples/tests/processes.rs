//! Runs the examples that are made for several processes: as they run by default, on one SQLite file.
#![cfg(all(unix, feature = "sqlite"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use distlock::blocking::{self, LockClient};
use distlock::{FencingToken, IntoKey};
use program::running::Running;
use program::{example, said, stores};

/// An example whose store and data are in this folder.
fn at(folder: &Path, name: &str) -> Command {
    let mut command = example(name);
    command.env("DISTLOCK_DATA", folder);
    command
}

/// A client of the same store.
fn client(folder: &Path) -> LockClient {
    blocking::connect(&format!("sqlite:{}", folder.join("locks.db").display())).unwrap()
}

/// The token that a line ends with.
fn token(line: &str) -> FencingToken {
    line.rsplit(' ').next().unwrap().trim_end_matches('.').parse().unwrap()
}

#[test]
fn one_worker_is_active_and_hands_over() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Running::start(&mut at(folder.path(), "singleton_worker"));
    let mut first = start();
    let first_token = token(&first.says("Active with token "));
    let mut second = start();
    second.says("Standing by.");

    first.signal("TERM");
    first.says("Handing over after ");
    let (status, said) = first.ends();
    assert!(status.success() && said.contains("Stopped; 0 locks are left to their ttl."), "{said}");
    let second_token = token(&second.says("Active with token "));
    assert!(second_token > first_token);

    // Taken away: it drops its work, and comes back.
    let operator = client(folder.path());
    let key = "singleton-worker".into_key().unwrap();
    operator.admin().unwrap().force_unlock(&key).unwrap();
    second.says("Dropped the work after ");
    assert!(token(&second.says("Active with token ")) > second_token);

    // Killed: another takes over when the lease is over.
    let mut third = start();
    third.says("Standing by.");
    second.signal("KILL");
    assert!(token(&third.says("Active with token ")) > second_token);
    third.signal("INT");
    assert!(third.ends().0.success());
}

#[test]
fn a_worker_that_stands_by_stops_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let held = client(folder.path()).lock("singleton-worker").unwrap();
    let mut worker = Running::start(&mut at(folder.path(), "singleton_worker"));
    worker.says("Standing by.");
    worker.signal("TERM");
    let (status, said) = worker.ends();
    assert!(status.success() && !said.contains("Active"), "{said}");
    held.unlock().unwrap();
}

#[test]
fn one_process_migrates_and_all_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<_> = (0..3).map(|_| Running::start(&mut at(folder.path(), "migration_runner"))).collect();
    let mut steps = 0;
    for process in all {
        let (status, said) = process.ends();
        assert!(status.success() && said.ends_with("Serving with version 4 of the schema."), "{said}");
        steps += said.matches("Step ").count();
    }
    assert_eq!(steps, 4, "each was done once");
    let late = said(&at(folder.path(), "migration_runner").output().unwrap());
    assert!(!late.contains("Waiting"), "{late}");
}

#[test]
fn a_migration_whose_process_crashed_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Running::start(at(folder.path(), "migration_runner").env("CRASH_AFTER", "2"));
    let first_token = token(&first.says("Migrating from version 0 with token "));
    let mut second = Running::start(&mut at(folder.path(), "migration_runner"));
    let (status, said) = first.ends();
    assert!(!status.success() && said.contains("Step 2"), "{said}");
    assert!(token(&second.says("Migrating from version 2 with token ")) > first_token);
    let (status, said) = second.ends();
    assert!(status.success() && !said.contains("Step 2") && said.contains("Step 3"), "{said}");
}

/// The jobs that a process says it did.
fn jobs(said: &str) -> Vec<String> {
    let did = |line: &str| Some(line.split_once(": did ")?.1.split_once(", with")?.0.to_owned());
    said.lines().filter_map(did).collect()
}

#[test]
fn each_job_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<_> = (0..3).map(|_| Running::start(&mut at(folder.path(), "job_pool"))).collect();
    let mut done = Vec::new();
    for process in all {
        let (status, said) = process.ends();
        assert!(status.success() && said.contains(" jobs done here, 30 in all."), "{said}");
        done.extend(jobs(&said));
    }
    assert_eq!(done.len(), 30, "{done:?}");
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), 30, "{done:?}");
}

#[test]
fn the_jobs_of_a_process_that_was_killed_are_done_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut killed = Running::start(&mut at(folder.path(), "job_pool"));
    killed.says(": did job 2 of shard ");
    killed.signal("KILL");
    let mut done = jobs(&killed.ends().1);
    done.extend(jobs(&said(&at(folder.path(), "job_pool").output().unwrap())));
    // One that was written down may not have been said any more.
    let all = done.iter().collect::<BTreeSet<_>>();
    assert_eq!(all.len(), done.len(), "{done:?}");
    assert!((27..=30).contains(&all.len()), "{done:?}");
}

#[test]
fn a_lock_is_handed_to_another_process() {
    let (_folder, urls) = stores();
    for url in urls.iter().filter(|url| *url != "memory:") {
        let folder = tempfile::tempdir().unwrap();
        let text = said(&at(folder.path(), "hand_to_process").env("DISTLOCK_URL", url).output().unwrap());
        let holding =
            |who| text.lines().find(|line| line.starts_with(who) && line.contains("holding `export`"));
        assert_eq!(token(holding("First").unwrap()), token(holding("Second").unwrap()));
        for line in [
            "Nobody else gets it meanwhile: true.",
            "Second process: gives it back: Released.",
            "the next holder's token is higher: true.",
        ] {
            assert!(text.contains(line), "{url}: {text}");
        }
    }
}

#[test]
fn jobs_are_shared_over_any_store() {
    let (_folder, urls) = stores();
    for url in urls.iter().filter(|url| *url != "memory:") {
        let folder = tempfile::tempdir().unwrap();
        let mut start = at(folder.path(), "job_pool");
        start.env("DISTLOCK_URL", url);
        let all = [Running::start(&mut start), Running::start(&mut start)];
        let done: Vec<_> = all.map(|process| jobs(&process.ends().1)).concat();
        assert_eq!((done.len(), done.iter().collect::<BTreeSet<_>>().len()), (30, 30), "{url}: {done:?}");
    }
}

/// Sends a request, and returns the status line and the answer.
#[cfg(feature = "metrics")]
fn request(address: &str, what: &str) -> String {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{what} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The service, and where it listens.
#[cfg(feature = "metrics")]
fn endpoint(folder: &Path) -> (Running, String) {
    let mut service = Running::start(at(folder, "guarded_endpoint").env("LISTEN", "127.0.0.1:0"));
    let line = service.says("Listening on http://");
    let address = line.trim_start_matches("Listening on http://").trim_end_matches('.').to_owned();
    (service, address)
}

#[cfg(feature = "metrics")]
#[test]
fn an_endpoint_serves_one_at_a_time_and_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let start = || endpoint(folder.path());
    let ((service, one), (_other_service, other)) = (start(), start());
    assert!(request(&one, "GET /healthz").starts_with("HTTP/1.1 200 "));

    let client = client(folder.path());
    let held = client.lock("report/weekly").unwrap();
    for address in [&one, &other] {
        let busy = request(address, "POST /reports/weekly");
        assert!(busy.starts_with("HTTP/1.1 409 ") && busy.contains("is held by"), "{busy}");
    }
    held.unlock().unwrap();
    for address in [&one, &other] {
        let made = request(address, "POST /reports/weekly");
        assert!(made.starts_with("HTTP/1.1 200 ") && made.contains("with token"), "{made}");
    }

    let slow = std::thread::spawn(move || request(&one, "POST /reports/yearly"));
    let key = "report/yearly".into_key().unwrap();
    let is_held = || {
        let record = client.admin().unwrap().inspect(&key).unwrap();
        record.is_some_and(|record| !record.holders.is_empty())
    };
    while !is_held() && !slow.is_finished() {
        std::thread::yield_now();
    }
    service.signal("TERM");
    let made = slow.join().unwrap();
    assert!(made.starts_with("HTTP/1.1 200 "), "{made}");
    let (status, said) = service.ends();
    assert!(status.success() && said.contains("Stopped; 0 locks are left to their ttl."), "{said}");
    assert!(client.try_lock("report/yearly").unwrap().is_some());
}

#[cfg(feature = "metrics")]
#[test]
fn an_endpoint_tells_its_health_and_serves_metrics() {
    use sqlx::{Connection, Executor, SqliteConnection};

    let folder = tempfile::tempdir().unwrap();
    let (_service, address) = endpoint(folder.path());
    assert!(request(&address, "GET /healthz").starts_with("HTTP/1.1 200 "));
    assert!(request(&address, "POST /reports/daily").starts_with("HTTP/1.1 200 "));
    let counted = |operation: &str, outcome: &str| {
        format!(
            r#"distlock_operations_total{{backend="sqlite",operation="{operation}",outcome="{outcome}"}} 1"#
        )
    };
    let page = request(&address, "GET /metrics");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("text/plain; version=0.0.4"), "{page}");
    for part in [
        counted("probe", "ok"),
        counted("unlock", "released"),
        "# HELP distlock_operation_seconds ".to_owned(),
        "distlock_operation_seconds_bucket{".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} in {page}");
    }

    // The store is no store any more.
    client(folder.path()).block_on(async {
        let file = folder.path().join("locks.db");
        let mut database = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap();
        database.execute("DROP TABLE distlock_meta").await.unwrap();
        database.close().await.unwrap();
    });
    let sick = request(&address, "GET /healthz");
    assert!(sick.starts_with("HTTP/1.1 503 ") && sick.contains("distlock_meta"), "{sick}");
    let page = request(&address, "GET /metrics");
    assert!(page.contains(&counted("probe", "error")), "{page}");
}
