//! Test programs, built and run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use distlock_testbed::grid::{Program, Store};

use crate::reading::{self, Came};

/// A built program, and the folder of its package, where it has to be run.
pub(crate) struct Built {
    executable: PathBuf,
    folder: PathBuf,
}

/// The servers that tests on these stores expect to find.
pub(crate) fn groups(stores: &[Store]) -> Vec<&'static str> {
    let of = |store: &Store| -> &[&str] {
        match store {
            Store::Memory | Store::Sqlite => &[],
            Store::Postgres => &["postgres", "pgbouncer"],
            Store::Mysql => &["mysql"],
            Store::Redis => &["redis"],
            Store::Failover => &["sentinel", "cluster"],
            Store::Redlock => &["redlock"],
            Store::Etcd => &["etcd", "etcd3"],
            Store::Zk => &["zk", "zk3"],
        }
    };
    stores.iter().flat_map(of).copied().collect()
}

/// The stores whose backends can be built on this machine.
pub(crate) fn built_stores() -> Vec<Store> {
    let scope = scope(&root());
    let left_out: Vec<_> =
        scope.windows(2).filter(|words| words[0] == "--exclude").map(|words| words[1].as_str()).collect();
    Store::ALL.into_iter().filter(|store| !left_out.contains(&package(*store))).collect()
}

const fn package(store: Store) -> &'static str {
    match store {
        Store::Memory => "distlock-core",
        Store::Sqlite | Store::Postgres | Store::Mysql => "distlock-sql",
        Store::Redis | Store::Failover | Store::Redlock => "distlock-redis",
        Store::Etcd => "distlock-etcd",
        Store::Zk => "distlock-zk",
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds these programs with all features, and gives them by package and name.
pub(crate) fn build<'a>(programs: impl Iterator<Item = &'a Program>) -> BTreeMap<(String, String), Built> {
    let root = root();
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
///
/// # Errors
/// If the program does not end well.
pub(crate) fn list(built: &Built, store: &str) -> Result<Vec<String>, String> {
    let output = command(built, store).arg("--list").stderr(Stdio::inherit()).output();
    let output = output.expect("a test can be run");
    if !output.status.success() {
        return Err(format!("its tests can't be listed: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs those of a program's tests that are wanted, and says what became of each of them.
pub(crate) fn run(
    built: &Built,
    store: &str,
    names: &[String],
    is_wanted: impl Fn(&String) -> bool,
) -> BTreeMap<String, Came> {
    let (wanted, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_wanted(name));
    println!("== {} {store}: {} tests", built.executable.display(), wanted.len());
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let mut command = command(built, store);
    command.arg("--exact");
    for name in others {
        command.args(["--skip", name]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a test can be run");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut said = BTreeMap::new();
    for line in output.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line.starts_with("test ") || line.contains("panicked") {
            println!("{line}");
        }
        said.extend(reading::result(&line));
    }
    let ended = child.wait().expect("a test can be waited for");
    reading::complete(&wanted, &said, ended.success(), &ended.to_string())
}
