//! Comparing stores, and two comparisons.

use std::fs;

use serde_json::Value;

use crate::rig::{Ended, Rig, ended};

fn compared(rig: &Rig, stores: &[&str], more: &[&str]) -> Ended {
    let mut arguments =
        vec!["bench", "--rounds", "2", "--round", "100ms", "--patience", "0s", "--out", "out"];
    for store in stores {
        arguments.extend(["--store", store]);
    }
    arguments.extend(more);
    ended(&mut rig.distlock(&arguments))
}

/// On a busy machine the command refuses to compare, and must say so.
fn assert_measured(end: &Ended) {
    let is_noisy = end.stdout.contains("too noisy to compare");
    assert_eq!(end.status, Some(i32::from(is_noisy)), "{end:?}");
}

#[cfg(feature = "sqlite")]
#[test]
fn stores_are_compared_in_one_run_and_reported() {
    let rig = Rig::memory();
    let contests = ["--contest", "uncontended", "--contest", "hot-2", "--contest", "processes-4x4"];
    let end = compared(&rig, &["memory=memory:", "file=sqlite:locks.db"], &contests);
    assert_measured(&end);
    assert!(end.stdout.contains("report: out/report.html") && end.stdout.contains("hot-2"), "{end:?}");
    assert!(end.stderr.contains("hot-2: 2 tasks, one lock"), "progress is told: {end:?}");
    let page = fs::read_to_string(rig.path("out/report.html")).unwrap();
    assert!(page.contains("</html>") && page.contains("<svg") && page.contains("processes-4x4"), "{page}");
    let json: Value = serde_json::from_slice(&fs::read(rig.path("out/report.json")).unwrap()).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 5, "memory has no processes: {json:#}");
    for cell in cells {
        assert!(cell["violations"] == 0 && cell["ops_per_s"]["median"].as_f64().unwrap() > 0.0, "{cell:#}");
        let has_floor = cell["contest"] != "processes-4x4";
        assert_eq!(cell["ratio"]["median"].is_f64(), has_floor, "{cell:#}");
        assert_eq!(cell["shares"].as_array().unwrap().len(), if has_floor { shares(cell) } else { 16 });
    }
    assert!(json["conditions"]["samples"].as_array().unwrap().len() > 6, "{json:#}");
    let missing = json["gaps"].to_string();
    assert!(missing.contains("it lives in one process") && missing.contains("rslock"), "{missing}");
}

#[cfg(feature = "sqlite")]
fn shares(cell: &Value) -> usize {
    if cell["contest"] == "hot-2" { 2 } else { 1 }
}

#[cfg(feature = "sqlite")]
#[test]
fn the_next_grant_after_a_crash_is_timed() {
    let rig = Rig::memory();
    let end = compared(&rig, &["file=sqlite:locks.db"], &["--contest", "crash"]);
    assert_measured(&end);
    let json: Value = serde_json::from_slice(&fs::read(rig.path("out/report.json")).unwrap()).unwrap();
    let gap = json["cells"][0]["gap_ms"]["least"].as_f64().unwrap();
    // Its two seconds began at most 1.7 s before the crash, however late its renewals were.
    assert!(gap > 100.0, "the lock was free {gap} ms after the crash: {json:#}");
}

#[test]
fn a_comparison_with_itself_shows_no_change() {
    let rig = Rig::memory();
    assert_measured(&compared(&rig, &["memory=memory:"], &["--contest", "uncontended"]));
    let mut json: Value = serde_json::from_slice(&fs::read(rig.path("out/report.json")).unwrap()).unwrap();
    json["conditions"]["noise"] = Value::Array(Vec::new());
    fs::write(rig.path("a.json"), json.to_string()).unwrap();
    let same = ended(&mut rig.distlock(&["bench", "--compare", "a.json", "a.json"]));
    assert_eq!(same.status, Some(0), "{same:?}");
    assert!(same.stdout.contains("0 changed beyond noise"), "{same:?}");
    json["conditions"]["noise"] = Value::from(vec!["others used 90 % of the machine"]);
    fs::write(rig.path("b.json"), json.to_string()).unwrap();
    let refused = ended(&mut rig.distlock(&["bench", "--compare", "a.json", "b.json"]));
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("not compared") && refused.stdout.contains("90 %"), "{refused:?}");
}

#[test]
fn what_can_t_be_compared_is_refused_with_what_to_do() {
    let rig = Rig::memory();
    fs::write(rig.path("no.json"), "{}").unwrap();
    for (arguments, status, part) in [
        (&["bench", "--compare", "no.json", "no.json"][..], 65, "no comparison"),
        (&["bench", "--compare", "none.json", "none.json"], 64, "none.json"),
        (&["bench", "--store", "memory:"], 64, "LABEL=URL"),
        (&["bench", "--store", "a=memory:", "--store", "a=memory:"], 64, "label"),
        (&["bench", "--store", "a=memory:", "--rounds", "1"], 64, "2 to 100"),
        (&["bench", "--store", "a=memory:", "--round", "1ms"], 64, "100ms"),
        (&["bench", "--store", "a=memory:", "--failover", "a"], 64, "--breaker"),
        (&["bench", "--store", "a=memory:", "--contest", "hot"], 64, "hot-"),
    ] {
        let end = ended(&mut rig.distlock(arguments));
        assert_eq!(end.status, Some(status), "{arguments:?}: {end:?}");
        assert!(end.stderr.contains(part), "{arguments:?} should mention `{part}`: {end:?}");
        assert!(!rig.path("target").exists(), "nothing was begun");
    }
}
