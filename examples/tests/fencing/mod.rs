//! Runs an example of fenced writes on the servers that the environment names.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The `main` of a test that runs the example `program` on each of these stores, by the URL in `LOCK_TEST_<STORE>_URL`,
/// of which `url` makes one of this run's own. A store that is not named shows as ignored, or fails with
/// `CONFORMANCE_REQUIRE=1`.
pub(crate) fn main<const N: usize>(
    program: &'static str,
    stores: [&'static str; N],
    url: fn(String) -> String,
) -> ExitCode {
    let trials = stores.map(|store| {
        Trial::ignorable_test(format!("{}::{program}", store.to_lowercase()), move || {
            let variable = format!("LOCK_TEST_{store}_URL");
            match std::env::var(&variable) {
                Ok(server) => run(program, &url(server)),
                Err(_) => missing(format!("name a server by {variable}")),
            }
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn run(program: &str, url: &str) -> Result<Completion, Failed> {
    // The test itself is in target/PROFILE/deps.
    let mut path = std::env::current_exe()?;
    path.pop();
    path.set_file_name("examples");
    path.push(program);
    let output = Command::new(path).env("DISTLOCK_URL", url).output()?;
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
