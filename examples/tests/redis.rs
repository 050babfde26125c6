//! Runs what needs Redis on the servers that `LOCK_TEST_REDIS_URL`, `LOCK_TEST_SENTINEL_URL` and
//! `LOCK_TEST_CLUSTER_URL` name. What none is named for shows as ignored, or fails with
//! `CONFORMANCE_REQUIRE=1` in the environment.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

fn main() -> ExitCode {
    let trials = ["REDIS", "SENTINEL", "CLUSTER"].map(|store| {
        Trial::ignorable_test(format!("{}::fenced_redis", store.to_lowercase()), move || {
            let variable = format!("LOCK_TEST_{store}_URL");
            match std::env::var(&variable) {
                Ok(url) => fenced_redis(&url),
                Err(_) => missing(format!("name a server by {variable}")),
            }
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn fenced_redis(url: &str) -> Result<Completion, Failed> {
    // The test itself is in target/PROFILE/deps.
    let mut program = std::env::current_exe()?;
    program.pop();
    program.set_file_name("examples");
    program.push("fenced_redis");
    let output = Command::new(program).env("LOCK_URL", url).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let mut rest = text.as_str();
    for part in ["sets the balance to 100", "sets it to 120", "wants to set it to 110", "is refused: token "]
    {
        let at = rest.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
    Ok(Completion::Completed)
}

fn missing(reason: String) -> Result<Completion, Failed> {
    if std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1") {
        return Err(reason.into());
    }
    Ok(Completion::ignored_with(reason))
}
