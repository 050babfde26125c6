//! The JSON of every command against the table of docs/cli.md: what is printed is documented, what is documented is
//! printed, and tokens are strings.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::fields::Documented;
use crate::rig::{Rig, Started, ended};

/// The one line of JSON that a command prints.
fn printed(rig: &Rig, arguments: &[&str], statuses: &[i32]) -> Value {
    let end = ended(&mut rig.distlock(&[&["--format", "json"], arguments].concat()));
    assert!(end.status.is_some_and(|status| statuses.contains(&status)), "{arguments:?}: {end:?}");
    assert!(end.stdout.lines().count() == 1 && end.stdout.ends_with('\n'), "{arguments:?}: {end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

#[test]
fn the_json_of_every_command_is_as_documented() {
    let mut documented = Documented::read();
    locks(&mut documented);
    stores(&mut documented);
    suite(&mut documented);
    histories(&mut documented);
    figures(&mut documented);
    comparisons(&mut documented);
    // A list without objects, and what takes a store that has warnings: the tests of `doctor` have some.
    let mut elsewhere = vec!["conformance --list", "warning"];
    if cfg!(not(any(feature = "postgres", feature = "mysql"))) {
        elsewhere.push("schema");
    }
    documented.assert_complete(&elsewhere);
}

fn locks(documented: &mut Documented) {
    let rig = Rig::sqlite();
    let free = printed(&rig, &["try", "free"], &[0]);
    documented.see("try: free", &free);
    let _run = Started::from(&mut rig.run(&["--label", "team=x", "k"], "echo > begun; sleep 600"));
    rig.line("begun");
    let busy = printed(&rig, &["try", "k"], &[75]);
    documented.see("try: busy", &busy);
    documented.see("holder", &busy["holder"]);
    let inspected = printed(&rig, &["inspect", "k"], &[0]);
    documented.see("inspect", &inspected);
    documented.see_each("holder", &inspected["holders"]);
    let listed = printed(&rig, &["ls"], &[0]);
    documented.see_each("ls", &listed);
    documented.see_each("holder", &listed[0]["holders"]);
    let mut watch = rig.distlock(&["--format", "json", "watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    let change: Value = serde_json::from_str(&line).unwrap();
    documented.see("watch", &change);
    documented.see("holder", &change["holder"]);
    let forced = printed(&rig, &["force-unlock", "--yes", "k"], &[0]);
    documented.see("force-unlock", &forced);
    documented.see("holder", &forced["taken_from"]);
}

fn stores(documented: &mut Documented) {
    for (rig, statuses) in [(Rig::sqlite(), [0]), (Rig::memory(), [1])] {
        let info = printed(&rig, &["info"], &[0]);
        documented.see("info", &info);
        documented.see("guarantees", &info["guarantees"]);
        documented.see("supports", &info["supports"]);
        documented.see("health", &info["health"]);
        let found = printed(&rig, &["doctor"], &statuses);
        documented.see("doctor", &found);
        documented.see_each("finding", &found["checks"]);
    }
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    for url in schemes() {
        let rig = Rig::at(url);
        let schema = printed(&rig, &["schema", "--print"], &[0]);
        documented.see("schema", &schema);
        assert_eq!(schema["executed"], false);
        let statements = schema["statements"].as_array().unwrap();
        assert!(statements.iter().any(|one| one.as_str().unwrap().starts_with("CREATE TABLE")), "{schema}");
        assert!(statements.iter().all(|one| !one.as_str().unwrap().contains(';')), "{schema}");
        let text = ended(&mut rig.distlock(&["schema", "--print"])).stdout;
        assert!(text.contains("CREATE TABLE") && serde_json::from_str::<Value>(&text).is_err(), "{text}");
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
fn schemes() -> impl Iterator<Item = &'static str> {
    let built = [("postgres://h/d", cfg!(feature = "postgres")), ("mysql://h/d", cfg!(feature = "mysql"))];
    built.into_iter().filter_map(|(url, is_built)| is_built.then_some(url))
}

fn suite(documented: &mut Documented) {
    let rig = Rig::memory();
    let report = printed(&rig, &["conformance", "--filter", "a_grant_whose_answer_was_lost"], &[0]);
    documented.see("conformance", &report);
    documented.see_each("outcome", &report["outcomes"]);
    let names = printed(&rig, &["conformance", "--list"], &[0]);
    assert!(names.as_array().unwrap().iter().all(Value::is_string), "{names}");
}

fn histories(documented: &mut Documented) {
    let rig = Rig::memory();
    let event = |at: u64, owner: &str, what: &str, more: Value| {
        let mut event =
            json!({ "at": at, "process": 1, "key": "k", "owner": owner, "what": what, "op": at / 10 });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{event}\n")
    };
    let mut history = String::new();
    for (at, owner) in [(10, "a"), (20, "b")] {
        history += &event(at, owner, "ask", json!({ "queue": false, "ttl": 500 }));
        history +=
            &event(at + 1, owner, "granted", json!({ "token": 7, "ttl": 500, "valid_until": at + 500 }));
    }
    std::fs::write(rig.path("broken.jsonl"), history).unwrap();
    let checked = printed(&rig, &["check", "broken.jsonl"], &[1]);
    documented.see("check", &checked);
    documented.see_each("promise", &checked["checks"]);
    documented.see_each("violation", &checked["violations"]);
}

fn figures(documented: &mut Documented) {
    let (file, memory) = (Rig::sqlite(), Rig::memory());
    for (rig, options) in [
        (&file, &["--scenario", "uncontended", "--floor"][..]),
        (&memory, &["--scenario", "hot", "--contenders", "2"]),
        (&memory, &["--scenario", "held", "--contenders", "64"]),
        (&file, &["--scenario", "processes", "--contenders", "2"]),
    ] {
        let found = printed(rig, &[&["bench", "--secs", "1"], options].concat(), &[0]);
        documented.see("bench", &found);
        documented.see("params", &found["params"]);
    }
}

fn comparisons(documented: &mut Documented) {
    let rig = Rig::memory();
    let stores = ["--store", "memory=memory:", "--contest", "uncontended", "--contest", "processes-4x4"];
    let found = printed(
        &rig,
        &[&["bench", "--rounds", "2", "--round", "100ms", "--patience", "0s", "--out", "out"], &stores[..]]
            .concat(),
        &[0, 1],
    );
    documented.see("bench --store", &found);
    documented.see("conditions", &found["conditions"]);
    documented.see_each("sample", &found["conditions"]["samples"]);
    documented.see_each("store", &found["stores"]);
    documented.see_each("cell", &found["cells"]);
    documented.see("spread", &found["cells"][0]["ops_per_s"]);
    documented.see_each("gap", &found["gaps"]);
    let kept: Value = serde_json::from_slice(&std::fs::read(rig.path("out/report.json")).unwrap()).unwrap();
    assert_eq!(found, kept);
    let mut old = found;
    old["conditions"]["noise"] = json!([]);
    let mut new = old.clone();
    new["cells"][0]["p50_us"] = json!({ "median": 9e9, "least": 9e9, "most": 9e9 });
    for (name, one) in [("old.json", old), ("new.json", new)] {
        std::fs::write(rig.path(name), one.to_string()).unwrap();
    }
    let changed = printed(&rig, &["bench", "--compare", "old.json", "new.json"], &[0, 1]);
    documented.see("bench --compare", &changed);
    documented.see_each("change", &changed["changes"]);
}

#[test]
fn failures_are_text_and_leave_the_output_empty_in_either_format() {
    let rig = Rig::sqlite();
    for (arguments, status) in [
        (&["--url", "sqlite:no/such/folder/x.db", "ls"][..], 70),
        (&["--url", "memory:?tll=5s", "ls"], 64),
        (&["schema", "--print"], 64),
        (&["no-such-command"], 64),
    ] {
        let end = ended(&mut rig.distlock(&[&["--format", "json"], arguments].concat()));
        assert_eq!((end.status, end.stdout.as_str()), (Some(status), ""), "{end:?}");
        assert!(end.stderr.starts_with("distlock: ") && end.stderr.lines().count() == 1, "{end:?}");
    }
}
