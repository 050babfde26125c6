//! Test programs, built and run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use distlock_testbed::grid::Program;

/// A built program, and the folder of its package, where it has to be run.
pub(crate) struct Built {
    executable: PathBuf,
    folder: PathBuf,
}

/// Builds these programs with all features, and gives them by package and name.
pub(crate) fn build<'a>(programs: impl Iterator<Item = &'a Program>) -> BTreeMap<(String, String), Built> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&root).args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(scope(&root));
    let mut names: Vec<_> = programs.map(|program| program.program).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        cargo.args(["--test", name]);
    }
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo can be run");
    assert!(output.status.success(), "the test programs can't be built");
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    messages.lines().filter_map(artifact).collect()
}

/// The options that name what can be built on this machine.
fn scope(root: &Path) -> Vec<String> {
    let output = Command::new(root.join("dev/scope.sh")).stderr(Stdio::inherit()).output();
    let output = output.expect("dev/scope.sh can be run").stdout;
    String::from_utf8_lossy(&output).split_whitespace().map(str::to_owned).collect()
}

fn artifact(line: &str) -> Option<((String, String), Built)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let executable = message["executable"].as_str()?;
    // path+file:///…/backend-redis#distlock-redis@0.1.0
    let package = message["package_id"].as_str()?.rsplit_once('#')?.1.split('@').next()?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let built = Built { executable: executable.into(), folder: folder.to_owned() };
    Some(((package.to_owned(), message["target"]["name"].as_str()?.to_owned()), built))
}

fn command(built: &Built, store: &str) -> Command {
    let mut command = Command::new(&built.executable);
    command
        .current_dir(&built.folder)
        .env("CARGO_MANIFEST_DIR", &built.folder)
        .env_remove("CONFORMANCE_STORE");
    if !store.is_empty() {
        command.env("CONFORMANCE_STORE", store);
    }
    command
}

/// The names of all tests of a program, with what stands in brackets before them.
pub(crate) fn list(built: &Built, store: &str) -> Vec<String> {
    let output =
        command(built, store).arg("--list").stderr(Stdio::null()).output().expect("a test can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Runs those of a program's tests that are wanted; whether each passed, or `None` where it was ignored.
pub(crate) fn run(
    built: &Built,
    store: &str,
    names: &[String],
    is_wanted: impl Fn(&String) -> bool,
) -> BTreeMap<String, Option<bool>> {
    let mut command = command(built, store);
    command.arg("--exact");
    let mut wanted = 0;
    for name in names {
        if is_wanted(name) {
            wanted += 1;
        } else {
            command.args(["--skip", name]);
        }
    }
    println!("== {} {store}: {wanted} tests", built.executable.display());
    if wanted == 0 {
        return BTreeMap::new();
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a test can be run");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut results = BTreeMap::new();
    for line in lines.map_while(Result::ok) {
        if line.starts_with("test ") || line.contains("panicked") {
            println!("{line}");
        }
        results.extend(result(&line));
    }
    let _ = child.wait();
    results
}

/// What a line of a test program's output says about one test.
fn result(line: &str) -> Option<(String, Option<bool>)> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let passed = match word {
        "ok" => Some(true),
        word if word.starts_with("ignored") => None,
        _ => Some(false),
    };
    // Names stand in columns.
    Some((name.split_whitespace().collect::<Vec<_>>().join(" "), passed))
}
