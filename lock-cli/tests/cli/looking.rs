//! Looking at locks and stores: text for people, JSON for programs.

use serde_json::{Value, json};

use crate::rig::{Rig, Started, ended};

const HOLD: &str = "echo $DISTLOCK_TOKEN > token; echo $DISTLOCK_OWNER > owner; sleep 600";

fn json(rig: &Rig, arguments: &[&str], status: i32) -> Value {
    let end = ended(&mut rig.distlock(&[&["--format", "json"], arguments].concat()));
    assert_eq!((end.status, end.stderr.as_str()), (Some(status), ""), "{arguments:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

#[test]
fn a_held_lock_shows_everywhere_with_its_token_as_a_string() {
    let rig = Rig::sqlite();
    let run = Started::from(&mut rig.run(&["a%00b/%25"], HOLD));
    let (owner, token) = (rig.line("owner"), rig.line("token"));
    let inspected = json(&rig, &["inspect", "a%00b/%25"], 0);
    assert_eq!(inspected["key"], "a%00b/%25");
    let holder = &inspected["holders"][0];
    assert_eq!((&holder["owner"], &holder["token"]), (&json!(owner), &json!(token)));
    assert_eq!(holder["metadata"]["pid"], run.pid().as_raw_pid().to_string());
    assert!(holder["expires_in_ms"].as_u64().unwrap() <= 30_000);

    assert_eq!(json(&rig, &["ls"], 0)[0]["key"], "a%00b/%25");
    assert_eq!(json(&rig, &["ls", "a%00"], 0)[0]["holders"][0]["token"], token);
    assert_eq!(json(&rig, &["ls", "b"], 0), json!([]));

    let tried = json(&rig, &["try", "a%00b/%25"], 75);
    assert_eq!((&tried["status"], &tried["holder"]["token"]), (&json!("busy"), &json!(token)));

    let text = ended(&mut rig.distlock(&["ls"])).stdout;
    assert!(text.starts_with("KEY") && text.contains("a%00b/%25") && text.contains(&token), "{text}");
    let text = ended(&mut rig.distlock(&["inspect", "a%00b/%25"])).stdout;
    assert!(text.contains(&owner) && text.contains("command=sh"), "{text}");
}

#[test]
fn a_free_lock_can_be_tried_again_and_again() {
    let rig = Rig::sqlite();
    let first = json(&rig, &["try", "k"], 0);
    let second = json(&rig, &["try", "k"], 0);
    assert_eq!(first["status"], "free");
    let token = |tried: &Value| tried["token"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(token(&first) < token(&second));
    assert_eq!(json(&rig, &["ls"], 0), json!([]), "nothing is left");
    assert_eq!(json(&rig, &["inspect", "never"], 0)["holders"], json!([]));
}

#[test]
fn taking_a_lock_away_names_the_victim_and_raises_the_token() {
    let rig = Rig::sqlite();
    let _run = Started::from(&mut rig.run(&["--ttl", "60s", "k"], HOLD));
    let token = rig.line("token");
    let forced = json(&rig, &["force-unlock", "--yes", "k"], 0);
    assert_eq!(forced["taken_from"]["token"], token);
    assert_eq!(json(&rig, &["force-unlock", "-y", "k"], 0)["taken_from"], Value::Null);
    let next = json(&rig, &["try", "k"], 0);
    assert!(next["token"].as_str().unwrap().parse::<u64>().unwrap() > token.parse().unwrap());
}

#[test]
fn info_states_the_promises_and_the_health() {
    let rig = Rig::sqlite();
    let info = json(&rig, &["info"], 0);
    assert_eq!(info["store"], "sqlite");
    assert!(info["url"].as_str().unwrap().ends_with("locks.db"));
    for field in [
        "exclusion",
        "fencing",
        "fairness",
        "expiry",
        "ttl_grain_ms",
        "ttl_min_ms",
        "ttl_max_ms",
        "survives_restart",
        "survives_failover",
    ] {
        assert!(!info["guarantees"][field].is_null(), "{field}: {info}");
    }
    assert_eq!(info["supports"]["processes"], true);
    assert!(info["health"]["round_trip_us"].is_u64() && info["health"]["warnings"].is_array());
    assert!(ended(&mut rig.distlock(&["info"])).stdout.contains("one holder"));
}

#[test]
fn a_store_that_cannot_be_used_is_one_line_and_status_70() {
    let rig = Rig::sqlite();
    std::fs::write(rig.path("poem.db"), "Roses are red, and this is no database at all.\n".repeat(99))
        .unwrap();
    std::fs::create_dir(rig.path("folder.db")).unwrap();
    for url in ["sqlite:poem.db", "sqlite:folder.db", "sqlite:no/such/folder/x.db"] {
        for command in [&["ls"][..], &["run", "k", "--", "touch", "ran"], &["info"], &["try", "k"]] {
            let end = ended(&mut rig.distlock(&[&["--url", url], command].concat()));
            assert_eq!(end.status, Some(70), "{url} {command:?}: {end:?}");
            assert_eq!(end.stderr.lines().count(), 1, "{end:?}");
            assert!(end.stderr.starts_with("distlock: "), "{end:?}");
        }
    }
    assert!(!rig.path("ran").exists());
}
