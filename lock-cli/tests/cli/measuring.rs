//! `run --metrics-listen`: what Prometheus and a load balancer get to see.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};

use crate::rig::{Rig, Started, ended, eventually};

/// A command that runs until there is a file `go`, and writes `on` when it has begun.
const HOLD: &str = "echo yes > on; while ! test -e go; do sleep 0.01; done";

/// The address that a run says it listens on.
fn address(rig: &Rig) -> String {
    eventually("the address", || {
        let said = rig.read("said");
        Some(said.split_once("metrics at http://")?.1.split_once("/metrics\n")?.0.to_owned())
    })
}

/// Head and body of the answer to a request.
fn asked(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn start(rig: &Rig, options: &[&str]) -> Started {
    let options = [&["--metrics-listen", "127.0.0.1:0"], options].concat();
    let said = File::create(rig.path("said")).unwrap();
    Started::saying_into(&mut rig.run(&options, HOLD), said)
}

fn store(rig: &Rig, statement: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}", rig.path("distlock/locks.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn prometheus_sees_the_holder_and_the_waiter() {
    let rig = Rig::sqlite();
    let holder = start(&rig, &["k"]);
    rig.line("on");
    let (head, body) = asked(&address(&rig), "GET /metrics");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain; version=0.0.4"), "{head}");
    for line in [
        "distlock_held_locks{backend=\"sqlite\"} 1",
        "distlock_acquires_total{backend=\"sqlite\",call=\"lock\",outcome=\"acquired\"} 1",
        "distlock_losses_total{backend=\"sqlite\",reason=\"stolen\"} 0",
        "# TYPE distlock_wait_seconds histogram",
        "# HELP distlock_held_locks Locks that are held",
        "distlock_wait_seconds_bucket{backend=\"sqlite\",outcome=\"acquired\",le=\"+Inf\"} 1",
    ] {
        assert!(body.lines().any(|found| found == line), "{line} in {body}");
    }
    for line in body.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let known = distlock::METRICS.iter().any(|metric| line.starts_with(metric.name));
        assert!(known && !line.contains("\"k\""), "{line}");
    }

    let said = File::create(rig.path("said")).unwrap();
    let waiter = Started::saying_into(
        &mut rig.run(&["--metrics-listen", "127.0.0.1:0", "--wait", "10m", "k"], "exit 3"),
        said,
    );
    let address = address(&rig);
    eventually("a waiting call", || {
        let (_, body) = asked(&address, "GET /metrics");
        body.lines().any(|line| line == "distlock_waiting_calls{backend=\"sqlite\"} 1").then_some(())
    });
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!((holder.end().status, waiter.end().status), (Some(0), Some(3)));
    assert!(TcpStream::connect(address).is_err(), "nobody listens after the command");
}

#[test]
fn health_is_that_of_the_store() {
    let rig = Rig::sqlite();
    let run = start(&rig, &["k"]);
    rig.line("on");
    let address = address(&rig);
    let (head, body) = asked(&address, "GET /healthz");
    assert!(head.starts_with("HTTP/1.1 200 ") && body == "ok\n", "{head} {body}");
    store(&rig, "ALTER TABLE distlock_meta RENAME TO distlock_meta_away");
    let (head, body) = asked(&address, "GET /healthz");
    assert!(head.starts_with("HTTP/1.1 503 ") && body.contains("sqlite probe"), "{head} {body}");
    store(&rig, "ALTER TABLE distlock_meta_away RENAME TO distlock_meta");
    let (head, _) = asked(&address, "GET /healthz");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(asked(&address, "GET /").0.starts_with("HTTP/1.1 404 "));
    assert!(asked(&address, "DELETE /metrics").0.starts_with("HTTP/1.1 405 "));
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(run.end().status, Some(0));
}

#[test]
fn an_address_that_is_none_is_refused_before_anything_is_touched() {
    let rig = Rig::sqlite();
    let end = ended(&mut rig.run(&["--metrics-listen", "localhost:9464", "k"], "exit 0"));
    assert_eq!(end.status, Some(64), "{end:?}");
    assert!(end.stderr.contains("127.0.0.1:9464") && end.said().len() == 1, "{end:?}");
    assert!(!rig.path("distlock").exists());
}

#[test]
fn an_address_that_is_taken_is_named_and_nothing_runs() {
    let rig = Rig::sqlite();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let end = ended(&mut rig.run(&["--metrics-listen", &address, "k"], "echo yes > on"));
    assert_eq!(end.status, Some(70), "{end:?}");
    assert!(end.stderr.contains(&address) && end.stderr.contains("--metrics-listen"), "{end:?}");
    assert!(!rig.path("on").exists());
}
