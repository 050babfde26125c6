//! Checking and measuring a store.

use serde_json::Value;

use crate::rig::{Rig, ended};

#[test]
fn a_sound_store_passes_the_suite() {
    let rig = Rig::memory();
    let end = ended(&mut rig.distlock(&["conformance", "--filter", "fencing::"]));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
    assert!(end.stdout.contains(" 0 failed"), "{end:?}");
    let end = ended(&mut rig.distlock(&["--format", "json", "conformance", "--filter", "unlock::"]));
    let report: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(report["store"], "memory");
    let end = ended(&mut rig.distlock(&["conformance", "--filter", "unlock::", "--format", "junit"]));
    assert!(end.stdout.starts_with("<?xml"), "{end:?}");
}

#[test]
fn a_filter_that_nothing_meets_is_bad_usage() {
    let end = ended(&mut Rig::memory().distlock(&["conformance", "--filter", "no-such-case"]));
    assert_eq!((end.status, end.stdout.as_str()), (Some(64), ""));
    assert!(end.stderr.contains("conformance --list"), "{end:?}");
}

#[test]
fn the_names_of_the_cases_are_listed() {
    let rig = Rig::memory();
    let names = ended(&mut rig.distlock(&["conformance", "--list", "--filter", "fencing::"])).stdout;
    assert!(names.lines().count() > 1 && names.lines().all(|name| name.contains("fencing::")), "{names}");
    let json = ended(&mut rig.distlock(&["--format", "json", "conformance", "--list"])).stdout;
    let all: Vec<String> = serde_json::from_str(&json).unwrap();
    assert!(all.len() > names.lines().count());
}

#[test]
fn a_measurement_is_one_json_object_on_a_line() {
    let rig = Rig::memory();
    let options =
        ["--format", "json", "bench", "--scenario", "hot", "--contenders", "2", "--secs", "1", "--floor"];
    let end = ended(&mut rig.distlock(&options));
    assert_eq!((end.status, end.stdout.lines().count()), (Some(0), 1), "{end:?}");
    let figures: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!((&figures["scenario"], &figures["violations"]), (&"hot".into(), &0.into()));
    assert!(figures["p50_us"].is_f64() && figures["ratio"].is_f64() && figures["params"]["contenders"] == 2);
    let end = ended(&mut rig.distlock(&["bench", "--secs", "1"]));
    assert!(end.stdout.contains("violations") && end.stdout.contains("p99.9"), "{end:?}");
}

#[cfg(feature = "sqlite")]
#[test]
fn several_processes_are_measured_and_tested_on_a_shared_store() {
    let rig = Rig::sqlite();
    let options =
        ["--format", "json", "bench", "--scenario", "processes", "--contenders", "2", "--secs", "1"];
    let end = ended(&mut rig.distlock(&options));
    assert_eq!(end.status, Some(0), "{end:?}");
    let figures: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(figures["store"], "sqlite");
    let end = ended(&mut rig.distlock(&["conformance", "--filter", "exclusion::"]));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
}

#[test]
fn impossible_measurements_are_bad_usage() {
    let rig = Rig::memory();
    for options in [
        &["--contenders", "0"][..],
        &["--secs", "0"],
        &["--scenario", "held", "--floor"],
        &["--scenario", "hut"],
    ] {
        let end = ended(&mut rig.distlock(&[&["bench"], options].concat()));
        assert_eq!((end.status, end.stderr.lines().count()), (Some(64), 1), "{end:?}");
    }
}
