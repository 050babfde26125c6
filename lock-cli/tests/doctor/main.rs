//! What `doctor` finds on servers of the tests' own, for people and for programs, and what scripts do with such servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests: a failure is a panic, time is the wall's, conditions are polled"
)]

#[allow(dead_code, reason = "what other tests use")]
#[path = "../cli/fields.rs"]
mod fields;
#[allow(dead_code, reason = "what other tests use")]
#[path = "../cli/page.rs"]
mod page;
mod passing;
#[allow(dead_code, reason = "what other tests use")]
#[path = "../cli/rig.rs"]
mod rig;

use std::process::ExitCode;

use distlock_conformance::Server as _;
use distlock_testbed::ServiceSet;
use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::fields::Documented;
use crate::rig::{Rig, ended, eventually};

type Test = (&'static str, &'static str, bool, fn(&ServiceSet, &Runtime));

const POSTGRES: bool = cfg!(feature = "postgres");

/// Name, group of servers, whether the command is built with that store, and the test.
const TESTS: &[Test] = &[
    ("standbys_that_are_not_waited_for", "pgstandby", POSTGRES, standbys),
    ("a_pooler_that_changes_servers", "pgbouncer", POSTGRES, poolers),
    ("tables_that_are_missing", "postgres", POSTGRES, missing_tables),
    ("tables_and_tokens_that_go_through_psql", "postgres", POSTGRES, passing::through_psql),
    ("replicas_that_are_not_waited_for", "mysqlreplica", cfg!(feature = "mysql"), replicas),
    ("a_voting_server_that_is_down", "redlock", cfg!(feature = "redis"), voters),
    ("a_member_that_is_down", "zk3", cfg!(feature = "zk"), members),
];

fn main() -> ExitCode {
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let built = TESTS.iter().filter(|(.., is_built, _)| *is_built);
    let trials = built.map(|(name, group, _, run)| {
        let trial = Trial::ignorable_test(*name, move || {
            let runtime = Runtime::new().unwrap();
            match runtime.block_on(ServiceSet::available(&[group])) {
                Err(missing) if !is_required => return Ok(Completion::ignored_with(missing)),
                Err(missing) => return Err(missing.into()),
                Ok(()) => {}
            }
            let set = runtime.block_on(ServiceSet::up(&[group])).unwrap();
            run(&set, &runtime);
            runtime.block_on(set.down());
            Ok(Completion::Completed)
        });
        trial.with_kind(*group)
    });
    let mut arguments = Arguments::from_args();
    // Each has servers of its own.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// What is to be found: in which check, with which result, and words of the text and of the remedy.
struct Finding<'a> {
    check: &'a str,
    result: &'a str,
    what: &'a str,
    fix: &'a str,
}

impl Finding<'_> {
    fn is_in_json(&self, found: &Value) -> bool {
        let has = |value: &Value, words| value.as_str().is_some_and(|text| text.contains(words));
        found["checks"].as_array().unwrap().iter().any(|one| {
            one["check"] == self.check
                && one["result"] == self.result
                && has(&one["what"], self.what)
                && has(&one["fix"], self.fix)
        })
    }

    /// A line with the finding, and one with the remedy below it.
    fn is_in_text(&self, text: &str) -> bool {
        let result = if self.result == "failed" { "FAILED" } else { self.result };
        text.lines().zip(text.lines().skip(1)).any(|(line, next)| {
            line.split_whitespace().take(2).eq([self.check, result])
                && line.contains(self.what)
                && next.trim_start().starts_with("remedy:")
                && next.contains(self.fix)
        })
    }
}

/// Waits until both forms have the finding, and sees that the JSON is as documented. `version` is part of the server's.
fn finds(url: &str, status: i32, version: Option<&str>, finding: &Finding<'_>) {
    let rig = Rig::at(url);
    let json = || ended(&mut rig.distlock(&["--format", "json", "doctor"]));
    let mut last = json();
    let found: Value =
        eventually(&format!("`{}` of {url} in {:?}", finding.what, last.stdout.clone()), || {
            last = json();
            let found = serde_json::from_str(&last.stdout).unwrap();
            finding.is_in_json(&found).then_some(found)
        });
    assert_eq!(last.status, Some(status), "{last:?}");
    let shown = found["version"].as_str();
    assert!(version.is_none_or(|version| shown.is_some_and(|shown| shown.contains(version))), "{found}");
    let mut documented = Documented::read();
    documented.see("doctor", &found);
    documented.see_each("finding", &found["checks"]);
    let text = ended(&mut rig.distlock(&["doctor"]));
    assert!(text.status == Some(status) && finding.is_in_text(&text.stdout), "{text:?}");
}

fn warning<'a>(what: &'a str, fix: &'a str) -> Finding<'a> {
    Finding { check: "settings", result: "warning", what, fix }
}

fn standbys(set: &ServiceSet, _: &Runtime) {
    let url = set.url("pgstandby");
    let asynchronous = warning("standbys follow this server asynchronously", "set synchronous_standby_names");
    finds(url, 1, Some("PostgreSQL"), &asynchronous);
    let unknown = warning("takes over knows no locks of sessions", "use lease rows");
    finds(&url.replacen("postgres", "postgres+advisory", 1), 1, Some("PostgreSQL"), &unknown);
    let info = ended(&mut Rig::at(url).distlock(&["--format", "json", "info"]));
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    Documented::read().see_each("warning", &info["health"]["warnings"]);
    let refused = Finding {
        check: "reach",
        result: "failed",
        what: "takes no writes",
        fix: "name the server that takes writes",
    };
    finds(set.url("pgstandby_standby"), 69, None, &refused);
}

fn poolers(set: &ServiceSet, _: &Runtime) {
    let url = set.url("pgbouncer");
    let refused = Finding {
        check: "poolers",
        result: "failed",
        what: "pooler stands in between",
        fix: "connect to the server itself",
    };
    finds(url, 70, None, &refused);
    finds(&url.replacen("postgres", "postgres+advisory", 1), 70, None, &refused);
}

fn missing_tables(set: &ServiceSet, _: &Runtime) {
    let url = format!("{}?create=off&table=nowhere", set.url("postgres"));
    let missing =
        Finding { check: "schema", result: "failed", what: "the tables are missing", fix: "distlock schema" };
    finds(&url, 70, None, &missing);
}

fn replicas(set: &ServiceSet, _: &Runtime) {
    let url = set.url("mysqlreplica");
    let asynchronous = warning("replicas follow this server asynchronously", "semi-synchronous");
    finds(url, 1, Some("MariaDB"), &asynchronous);
    let unknown = warning("takes over knows no locks of sessions", "use lease rows");
    finds(&url.replacen("mysql", "mysql+named", 1), 1, Some("MariaDB"), &unknown);
}

fn voters(set: &ServiceSet, runtime: &Runtime) {
    runtime.block_on(set.server("redlock1").kill9());
    let address = set.server("redlock1").address().to_string();
    let down = warning(&address, "");
    finds(set.url("redlock"), 1, None, &down);
}

fn members(set: &ServiceSet, runtime: &Runtime) {
    runtime.block_on(set.server("z2").kill9());
    let silent = format!("the server {} gives no answer", set.server("z2").address());
    finds(set.url("zk3"), 1, Some("3."), &warning(&silent, "take it out of the URL"));
}
