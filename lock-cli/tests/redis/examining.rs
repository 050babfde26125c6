//! What `doctor` finds.

use serde_json::Value;

use crate::rig::{Ended, Rig, ended, eventually};
use crate::server::Server;

fn examined(rig: &Rig, url: &str) -> (Ended, Value) {
    let end = ended(&mut rig.distlock(&["--url", url, "--format", "json", "doctor"]));
    let found = serde_json::from_str(&end.stdout).unwrap_or_default();
    (end, found)
}

fn up(server: &Server) -> Rig {
    let rig = Rig::at(server.url());
    eventually("the server", || (ended(&mut rig.distlock(&["info"])).status == Some(0)).then_some(()));
    rig
}

/// The findings, each with its remedy.
fn findings(found: &Value) -> Vec<(String, String)> {
    let checks = found["checks"].as_array().unwrap().iter().filter(|check| check["result"] != "ok");
    let text = |value: &Value| value.as_str().expect("a finding has a remedy").to_owned();
    checks.map(|check| (text(&check["what"]), text(&check["fix"]))).collect()
}

pub(crate) fn what_endangers_locks_is_found_with_its_remedy() {
    let server = Server::start(&[]);
    let rig = up(&server);
    let (end, found) = examined(&rig, &server.url());
    assert_eq!(end.status, Some(1), "{end:?}");
    assert!(found["version"].as_str().unwrap().contains(' '), "{found}");
    let findings_now = findings(&found);
    let forgets = findings_now.iter().find(|(what, _)| what.contains("keeps nothing on disk"));
    assert!(forgets.is_some_and(|(_, fix)| fix.contains("appendonly yes")), "{findings_now:?}");
    drop(server);
    let (end, found) = examined(&rig, "redis://127.0.0.1:1");
    assert_eq!(end.status, Some(69), "{end:?}");
    assert_eq!(
        (&found["checks"][0]["check"], &found["checks"][0]["result"]),
        (&"reach".into(), &"failed".into())
    );
    let evicting = Server::start(&["--maxmemory-policy", "allkeys-lru"]);
    let (end, found) = eventually("the server", || {
        let (end, found) = examined(&rig, &evicting.url());
        (end.status != Some(69)).then_some((end, found))
    });
    assert_eq!(end.status, Some(70), "{end:?}");
    assert!(findings(&found)[0].0.contains("maxmemory-policy"), "{found}");
}

pub(crate) fn missing_rights_show() {
    let server = Server::start(&["--user", "half", "on", ">x", "~*", "&*", "+@all", "-eval", "-evalsha"]);
    let rig = up(&server);
    let (end, found) = examined(&rig, &server.url_for("half", "x"));
    assert_eq!(end.status, Some(70), "{end:?}");
    let found = findings(&found);
    assert!(found.iter().any(|(_, fix)| fix.contains("grant")), "{found:?}");
}

/// Test servers are set up for speed, so there may be findings, but nothing that can't be done.
pub(crate) fn a_store_that_works_is_examined(url: &str) {
    let (end, found) = examined(&Rig::memory(), url);
    assert!(matches!(end.status, Some(0 | 1)) && end.stderr.is_empty(), "{end:?}");
    let checks = found["checks"].as_array().unwrap();
    for name in ["reach", "settings", "use", "look"] {
        let mut named = checks.iter().filter(|check| check["check"] == name).peekable();
        assert!(named.peek().is_some() && named.all(|check| check["result"] != "failed"), "{found}");
    }
    assert!(checks.iter().all(|check| (check["result"] == "ok") == check["fix"].is_null()), "{found}");
}
