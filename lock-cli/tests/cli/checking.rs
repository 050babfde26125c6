//! `check` on good, broken and damaged histories.

use serde_json::{Value, json};

use crate::rig::{Rig, ended};

fn line(at: u64, owner: &str, what: &str, op: u64, more: &Value) -> String {
    let mut event = json!({ "at": at, "process": 1, "key": "k", "owner": owner, "what": what, "op": op });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event.to_string() + "\n"
}

fn grant(at: u64, owner: &str, token: u64) -> String {
    let granted = json!({ "token": token, "ttl": 50, "valid_until": at + 50 });
    line(at, owner, "ask", at, &json!({ "queue": false, "ttl": 50 }))
        + &line(at + 1, owner, "granted", at, &granted)
}

fn unlock(at: u64, owner: &str) -> String {
    line(at, owner, "unlock", at, &json!({}))
        + &line(at + 1, owner, "unlocked", at, &json!({ "released": true }))
}

#[test]
fn a_history_without_a_broken_promise_is_status_0() {
    let rig = Rig::memory();
    std::fs::create_dir(rig.path("probes")).unwrap();
    std::fs::write(rig.path("probes/1.jsonl"), grant(1, "a", 7) + &unlock(5, "a")).unwrap();
    // What a killed process leaves.
    std::fs::write(rig.path("probes/2.jsonl"), grant(10, "b", 8) + "{\"at\":12,").unwrap();
    std::fs::write(rig.path("probes/notes.txt"), "not a history").unwrap();
    let end = ended(&mut rig.distlock(&["check", "probes"]));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
    assert!(end.stdout.starts_with("6 events, 1 keys, 1 processes, 2 grants\nH1  kept"), "{end:?}");
}

#[test]
fn broken_promises_are_status_1_and_named() {
    let rig = Rig::memory();
    std::fs::write(rig.path("h.jsonl"), grant(1, "a", 7) + &grant(10, "b", 8)).unwrap();
    let end = ended(&mut rig.distlock(&["--format", "json", "check", "h.jsonl"]));
    assert_eq!((end.status, end.stderr.as_str()), (Some(1), ""), "{end:?}");
    let report: Value = serde_json::from_str(&end.stdout).unwrap();
    let found = |check: usize| {
        (report["checks"][check]["check"].clone(), report["checks"][check]["violations"].clone())
    };
    assert_eq!(found(0), (json!("H1"), json!(1)));
    assert_eq!(found(1), (json!("H2"), json!(0)));
    assert_eq!(found(6), (json!("H7"), json!(1)));
    assert_eq!((&report["violations"][0]["key"], &report["events"]), (&json!("k"), &json!(4)));
    let text = ended(&mut rig.distlock(&["check", "h.jsonl"])).stdout;
    assert!(text.contains("H1  broken (1)") && text.contains("H7 `k`: no order of the calls"), "{text}");

    let end = ended(&mut rig.distlock(&["check", "--overlaps", "h.jsonl"]));
    assert_eq!(end.status, Some(0), "{end:?}");
    assert!(end.stdout.contains("H1  left out"), "{end:?}");
}

#[test]
fn damaged_and_missing_files_are_one_line_that_says_where() {
    let rig = Rig::memory();
    std::fs::write(rig.path("torn.jsonl"), grant(1, "a", 7) + "{\"at\":\n" + &unlock(5, "a")).unwrap();
    std::fs::write(rig.path("empty.jsonl"), "").unwrap();
    std::fs::create_dir(rig.path("bare")).unwrap();
    for (history, status, text) in [
        ("torn.jsonl", 65, "torn.jsonl, line 3: no event of a history"),
        ("empty.jsonl", 65, "no events"),
        ("bare", 64, ".jsonl"),
        ("nowhere.jsonl", 64, "can't read nowhere.jsonl"),
    ] {
        let end = ended(&mut rig.distlock(&["check", history]));
        assert_eq!((end.status, end.stdout.as_str()), (Some(status), ""), "{end:?}");
        assert_eq!(end.stderr.lines().count(), 1, "{end:?}");
        assert!(end.stderr.starts_with("distlock: ") && end.stderr.contains(text), "{end:?}");
    }
}
