//! Runs every example on every embedded store, and on the servers that `LOCK_TEST_REDIS_URL`,
//! `LOCK_TEST_POSTGRES_URL` and `LOCK_TEST_MYSQL_URL` name if there are any, and checks what it says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::process::Command;

use program::{example, said, stores};

/// Runs an example on each store; its output must have all these parts, in this order.
fn shows(name: &str, parts: &[&str]) {
    let (_folder, urls) = stores();
    for url in urls {
        let text = said(&example(name).env("DISTLOCK_URL", &url).output().unwrap());
        let mut rest = text.as_str();
        for part in parts {
            let Some(at) = rest.find(part) else { panic!("{name} on {url}: no `{part}` in:\n{text}") };
            rest = &rest[at + part.len()..];
        }
    }
}

#[test]
fn quickstart() {
    shows("quickstart", &["holding invoice/42, token ", ", good for 29."]);
    said(&example("quickstart").output().unwrap());
}

#[test]
fn fenced_write() {
    shows(
        "fenced_write",
        &[
            "A plain file:",
            "reads 100, and stalls",
            "adds 20, and writes 120",
            "writes 110",
            "The balance is 110: an update was lost.",
            "A fenced file:",
            "is refused: token ",
            "starts over",
            "The balance is 130, as it should be.",
            #[cfg(feature = "sqlite")]
            "A fenced database:",
            #[cfg(feature = "sqlite")]
            "is refused: token ",
            #[cfg(feature = "sqlite")]
            "The balance is 130, as it should be.",
        ],
    );
}

#[test]
fn lost_lock() {
    shows("lost_lock", &["Step 1.", "-- ", "Lost: ", "The work was stopped: ", "NotHeld("]);
    let text = said(&example("lost_lock").output().unwrap());
    let (warned, lost) = (text.find("In jeopardy").unwrap(), text.find("Lost: ").unwrap());
    assert!(warned < lost, "{text}");
}

#[test]
fn cron_once() {
    shows("cron_once", &["runs the job with token ", "the report is written"]);
    let text = said(&example("cron_once").output().unwrap());
    assert_eq!(text.matches("runs the job with token").count(), 1, "{text}");
    assert_eq!(text.matches("nothing to do").count(), 4, "{text}");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn cron_once_beside_another_process() {
    let (_folder, urls) = stores();
    let client = distlock::connect(&urls[1]).await.unwrap();
    let guard = client.lock("nightly-report").await.unwrap();
    let text = said(&example("cron_once").env("DISTLOCK_URL", &urls[1]).output().unwrap());
    assert_eq!(text.matches("nothing to do").count(), 5, "{text}");
    guard.unlock().await.unwrap();
    client.shutdown(std::time::Duration::from_secs(5)).await;
}

#[test]
fn worker_pool() {
    shows("worker_pool", &["Worker ", "12 jobs done.", "No lock is left behind."]);
}

#[cfg(target_os = "linux")]
#[test]
fn worker_pool_stops_in_order() {
    use std::io::{BufRead, BufReader, Read};
    let mut process =
        example("worker_pool").env("JOBS", "100000").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    // Jobs go on meanwhile; a program that never came to listen would run out of them.
    while !listens_to_interrupts(process.id()) {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the program ended by itself");
    }
    let interrupt = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(process.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("Stopping") && rest.contains("No lock is left behind."), "{rest}");
}

/// Whether the process has a handler for SIGINT, which is number 2.
#[cfg(target_os = "linux")]
fn listens_to_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn custom_backend() {
    shows("custom_backend", &["Connected to the store", "Nobody else gets it", "The next holder has token"]);
    let text = said(&example("custom_backend").output().unwrap());
    assert!(text.contains("the store `shelf`"), "{text}");
}

#[test]
fn custom_backend_passes_the_suite() {
    let text = said(&example("custom_backend").arg("suite").output().unwrap());
    assert!(text.contains(" passed, 0 failed, "), "{text}");
}
