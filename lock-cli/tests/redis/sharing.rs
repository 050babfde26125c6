//! One store for all processes.

use serde_json::Value;

use crate::Test;
use crate::page::{call, shell, shown};
use crate::rig::{Rig, Started, ended, eventually};

pub(crate) const TESTS: &[Test] = &[
    ("sharing::a_held_lock_shows_and_can_be_taken_away", a_held_lock_shows_and_can_be_taken_away),
    ("sharing::the_second_waits_and_gets_a_higher_token", the_second_waits_and_gets_a_higher_token),
    ("sharing::a_queue_shows_who_waits", a_queue_shows_who_waits),
    ("sharing::info_names_promises_and_dangers", info_names_promises_and_dangers),
    ("sharing::it_is_measured_and_checked", it_is_measured_and_checked),
    ("sharing::the_calls_of_the_readme_run", the_calls_of_the_readme_run),
];

/// Holds the lock until there is a file `go`.
const HOLD: &str = "echo $DISTLOCK_TOKEN >> tokens; echo $$ > held; while ! test -e go; do sleep 0.01; done";

/// A store that nobody else uses, on the servers at `url`.
fn rig(url: &str, options: &str) -> Rig {
    let namespace = distlock::OwnerId::random();
    let joint = if url.contains('?') { '&' } else { '?' };
    Rig::at(format!("{url}{joint}namespace={namespace}{options}"))
}

fn json(rig: &Rig, arguments: &[&str], status: i32) -> Value {
    let end = ended(&mut rig.distlock(&[&["--format", "json"], arguments].concat()));
    assert_eq!((end.status, end.stderr.as_str()), (Some(status), ""), "{arguments:?}: {end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

fn a_held_lock_shows_and_can_be_taken_away(url: &str) {
    let rig = rig(url, "");
    let run = Started::from(&mut rig.run(&["--ttl", "5s", "a%00{b}*"], HOLD));
    rig.pid("held");
    let token = rig.line("tokens");
    let list = json(&rig, &["ls", "a%00{"], 0);
    assert_eq!(
        (&list[0]["key"], &list[0]["holders"][0]["token"]),
        (&"a%00{b}*".into(), &token.clone().into())
    );
    assert_eq!(
        json(&rig, &["inspect", "a%00{b}*"], 0)["holders"][0]["owner"],
        list[0]["holders"][0]["owner"]
    );
    assert_eq!(list[0]["holders"][0]["metadata"]["pid"], run.pid().as_raw_pid().to_string());
    assert_eq!(json(&rig, &["try", "a%00{b}*"], 75)["holder"]["token"], token);
    let end = ended(&mut rig.run(&["--wait", "no", "a%00{b}*"], "touch ran"));
    assert_eq!((end.status, end.stderr.lines().count()), (Some(75), 1), "{end:?}");

    assert_eq!(json(&rig, &["force-unlock", "--yes", "a%00{b}*"], 0)["taken_from"]["token"], token);
    let next = json(&rig, &["try", "a%00{b}*"], 0)["token"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(next > token.parse().unwrap());
    let end = run.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert!(end.stderr.contains("taken away") && !rig.path("ran").exists(), "{end:?}");
    assert_eq!(json(&rig, &["ls"], 0), Value::Array(Vec::new()), "nothing is left");
}

fn the_second_waits_and_gets_a_higher_token(url: &str) {
    let rig = rig(url, "");
    let first = Started::from(&mut rig.run(&["k"], HOLD));
    let holder = rig.pid("held");
    let second = Started::from(&mut rig.run(
        &["k"],
        &format!("kill -0 {} && echo both; echo $DISTLOCK_TOKEN >> tokens", holder.as_raw_pid()),
    ));
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(first.end().status, Some(0));
    let second = second.end();
    assert_eq!((second.status, second.stdout.as_str()), (Some(0), ""), "never both: {second:?}");
    let tokens: Vec<u64> = rig.read("tokens").lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
}

fn a_queue_shows_who_waits(url: &str) {
    let rig = rig(url, "&queue=true");
    let first = Started::from(&mut rig.run(&["k"], HOLD));
    rig.pid("held");
    let second = Started::from(&mut rig.run(&["k"], "true"));
    eventually("a waiter", || (json(&rig, &["inspect", "k"], 0)["waiters"] == 1).then_some(()));
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!((first.end().status, second.end().status), (Some(0), Some(0)));
}

fn info_names_promises_and_dangers(url: &str) {
    let rig = rig(url, "");
    let info = json(&rig, &["info"], 0);
    assert!(info["store"].as_str().unwrap().starts_with("redis"), "{info}");
    assert_eq!(
        (&info["supports"]["processes"], &info["guarantees"]["survives_failover"]),
        (&true.into(), &false.into())
    );
    assert!(info["health"]["version"].is_string(), "{info}");
    for warning in info["health"]["warnings"].as_array().unwrap() {
        assert!(warning["what"].is_string() && warning["fix"].is_string(), "{warning}");
    }
    let text = ended(&mut rig.distlock(&["info"])).stdout;
    assert!(text.contains("one holder") && text.contains("in no order"), "{text}");
}

fn it_is_measured_and_checked(url: &str) {
    let rig = rig(url, "");
    let options = ["bench", "--scenario", "processes", "--contenders", "2", "--secs", "1"];
    let figures = json(&rig, &options, 0);
    assert_eq!(figures["violations"], 0);
    let end = ended(&mut rig.distlock(&["conformance", "--filter", "exclusion::"]));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
    assert!(end.stdout.contains(" 0 failed"), "{end:?}");
}

fn the_calls_of_the_readme_run(url: &str) {
    let rig = rig(url, "");
    let page = shown("README.md");
    let calls: Vec<_> =
        page.iter().filter(|line| line.contains("--features redis")).filter_map(|line| call(line)).collect();
    let ends: Vec<_> = calls.iter().map(|line| ended(&mut shell(&rig, line))).collect();
    let [run, ls, info] = ends.as_slice() else { panic!("other calls: {calls:?}") };
    assert!(run.status == Some(0) && run.stdout.starts_with("token "), "{run:?}");
    assert!(ls.status == Some(0) && !ls.stdout.contains("nightly"), "{ls:?}");
    assert!(info.status == Some(0) && info.stdout.contains("exclusion "), "{info:?}");
}
