//! Following locks, and examining stores.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::rig::{PATIENCE, Rig, Started, ended};

const HOLD: &str = "echo $DISTLOCK_TOKEN > token; while ! test -e go; do sleep 0.01; done";

/// `distlock watch`, and its lines as they come.
struct Follower {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Follower {
    fn start(rig: &Rig, arguments: &[&str]) -> Self {
        let mut process = rig.distlock(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("another line")
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        self.process.wait().unwrap().code()
    }
}

#[test]
fn changes_are_followed_as_they_happen() {
    let rig = Rig::sqlite();
    let first = Started::from(&mut rig.run(&["--label", "team=a b", "a/1"], HOLD));
    let token = rig.line("token");
    let follower = Follower::start(&rig, &["--format", "json", "watch", "a/", "--every", "100ms"]);
    let held = follower.json();
    assert_eq!((&held["change"], &held["key"]), (&"held".into(), &"a/1".into()));
    assert_eq!((&held["holder"]["token"], &held["waiters"]), (&token.clone().into(), &0.into()));
    assert_eq!(held["holder"]["metadata"]["team"], "a b");
    assert!(held["at"].as_str().unwrap().ends_with('Z'), "{held}");
    let _elsewhere = Started::from(&mut rig.run(&["b"], HOLD));
    let second = Started::from(&mut rig.run(&["a/1"], "while ! test -e end; do sleep 0.01; done"));
    let waits = follower.json();
    assert_eq!((&waits["change"], &waits["waiters"]), (&"waiters".into(), &1.into()), "{waits}");
    std::fs::write(rig.path("go"), "").unwrap();
    let freed = follower.json();
    assert_eq!((&freed["change"], &freed["holder"]["token"]), (&"freed".into(), &token.into()), "{freed}");
    assert_eq!(first.end().status, Some(0));
    let mut granted = follower.json();
    while granted["change"] != "granted" {
        granted = follower.json();
    }
    assert_eq!(granted["holder"]["metadata"]["pid"], second.pid().as_raw_pid().to_string());
    std::fs::write(rig.path("end"), "").unwrap();
    assert_eq!(second.end().status, Some(0));
    assert_eq!(follower.json()["change"], "freed");
    assert_eq!(follower.end(), Some(143));
}

#[test]
fn changes_are_lines_for_people_too() {
    let rig = Rig::sqlite();
    let run = Started::from(&mut rig.run(&["--label", "team=x", "k"], HOLD));
    let token = rig.line("token");
    let follower = Follower::start(&rig, &["watch"]);
    let line = follower.line();
    assert!(line.contains("held") && line.contains(&format!("token={token}")), "{line}");
    assert!(line.ends_with("command=sh  team=x") && line.contains("waiters=0"), "{line}");
    std::fs::write(rig.path("go"), "").unwrap();
    run.end();
    assert!(follower.line().contains("freed"));
    follower.end();
}

#[test]
fn labels_show_in_tables_and_json() {
    let rig = Rig::sqlite();
    let _run = Started::from(&mut rig.run(&["--label", "team=pay ments", "--label", "run=7", "k"], HOLD));
    rig.line("token");
    let table = ended(&mut rig.distlock(&["ls"])).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].ends_with("LABELS") && rows[1].ends_with("team=pay%20ments run=7"), "{table}");
    let at = |row: &str, part: &str| row.find(part).unwrap();
    assert_eq!(at(rows[0], "HOLDER"), at(rows[1], "host="), "{table}");
    let shown = ended(&mut rig.distlock(&["inspect", "k"])).stdout;
    assert!(shown.contains("labels") && shown.contains("run=7") && shown.contains("waiters"), "{shown}");
    let json = ended(&mut rig.distlock(&["--format", "json", "inspect", "k"])).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["holders"][0]["metadata"]["team"], "pay ments");
}

#[test]
fn a_run_tells_its_times_to_those_who_ask() {
    let rig = Rig::sqlite();
    let end = ended(&mut rig.run(&["--verbose", "k"], "echo $DISTLOCK_TOKEN; exit 3"));
    let lines: Vec<&str> = end.stderr.lines().collect();
    assert_eq!((end.status, lines.len()), (Some(3), 2), "{end:?}");
    assert!(
        lines[0].starts_with("distlock: `k`: locked after ") && lines[0].contains(end.stdout.trim()),
        "{end:?}"
    );
    assert!(lines[1].starts_with("distlock: `k`: held for ") && lines[1].ends_with("status 3"), "{end:?}");
}

#[test]
fn an_examination_names_what_can_be_done_and_what_is_wrong() {
    let rig = Rig::sqlite();
    let end = ended(&mut rig.distlock(&["--format", "json", "doctor"]));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
    let found: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(found["store"], "sqlite");
    let checks = found["checks"].as_array().unwrap();
    let names: Vec<_> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert_eq!(names, ["reach", "settings", "use", "look"]);
    assert!(checks.iter().all(|check| check["result"] == "ok" && check["fix"].is_null()), "{found}");
    assert_eq!(ended(&mut rig.distlock(&["--format", "json", "ls"])).stdout, "[]\n", "nothing is left");
    let memory = ended(&mut Rig::memory().distlock(&["doctor"]));
    assert_eq!(memory.status, Some(1), "{memory:?}");
    assert!(memory.stdout.contains("process's alone") && memory.stdout.contains("remedy:"), "{memory:?}");
    let broken = ended(&mut rig.distlock(&["--url", "sqlite:no/such/folder/x.db", "doctor"]));
    assert!(broken.status == Some(70) && broken.stdout.contains("FAILED"), "{broken:?}");
    let misspelt = ended(&mut rig.distlock(&["--url", "memory:?tll=5s", "doctor"]));
    assert!(misspelt.status == Some(64) && misspelt.stderr.contains("`ttl`"), "{misspelt:?}");
}

#[test]
fn options_of_the_store_come_from_the_url_a_flag_or_the_environment() {
    let rig = Rig::sqlite();
    let ttl = |end: crate::rig::Ended| -> Value {
        let tried: Value = serde_json::from_str(&end.stdout).unwrap();
        tried["ttl_ms"].clone()
    };
    let attempt = ["--format", "json", "try", "k"];
    assert_eq!(ttl(ended(&mut rig.distlock(&attempt))), 30_000);
    assert_eq!(ttl(ended(&mut rig.distlock(&[&attempt[..], &["-o", "ttl=7s"]].concat()))), 7000);
    assert_eq!(ttl(ended(rig.distlock(&attempt).env("DISTLOCK_OPTIONS", "ttl=9s&poll=5ms"))), 9000);
    let wrong = ended(&mut rig.distlock(&["-o", "busy_timout=1s", "ls"]));
    assert!(wrong.status == Some(64) && wrong.stderr.contains("did you mean `busy_timeout`"), "{wrong:?}");
    let scattered = ended(&mut rig.distlock(&["-o", "ttl=5s", "ls", "--option", "poll=5ms"]));
    assert!(scattered.status == Some(64) && scattered.stderr.contains("every one after"), "{scattered:?}");
    let twice = ended(&mut rig.distlock(&["--url", "memory:?ttl=5s", "-o", "ttl=7s", "ls"]));
    assert!(twice.status == Some(64) && twice.stderr.contains("twice"), "{twice:?}");
}

#[test]
fn a_log_in_a_file_has_no_colours() {
    let rig = Rig::sqlite();
    let end = ended(rig.distlock(&["try", "k"]).env("DISTLOCK_LOG", "debug"));
    assert!(end.status == Some(0) && end.stderr.contains("try_lock"), "{end:?}");
    assert!(!end.stderr.contains('\u{1b}'), "{end:?}");
}
