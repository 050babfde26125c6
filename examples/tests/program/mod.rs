//! The programs of this folder, as processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "not every test uses everything")]

pub mod running;

use std::process::{Command, Output};

use tempfile::TempDir;

/// The stores to run an example on; the folder is removed with the returned value.
pub fn stores() -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut urls = vec!["memory:".to_owned()];
    if cfg!(feature = "sqlite") {
        urls.push(format!("sqlite:{}", folder.path().join("locks.db").display()));
    }
    let servers = [
        ("LOCK_TEST_REDIS_URL", cfg!(feature = "redis")),
        ("LOCK_TEST_POSTGRES_URL", cfg!(feature = "postgres")),
        ("LOCK_TEST_MYSQL_URL", cfg!(feature = "mysql")),
    ];
    for (variable, _) in servers.iter().filter(|(_, is_built)| *is_built) {
        if let Ok(url) = std::env::var(variable) {
            let joint = if url.contains('?') { '&' } else { '?' };
            urls.push(format!("{url}{joint}namespace={}", distlock::OwnerId::random()));
        }
    }
    (folder, urls)
}

/// The command that runs an example, with no store named.
pub fn example(name: &str) -> Command {
    // The test itself is in target/PROFILE/deps.
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    let path = path.join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build -p distlock-examples --examples`",
        path.display()
    );
    let mut command = Command::new(path);
    command.env_remove("DISTLOCK_URL").env_remove("DISTLOCK_DATA");
    command
}

/// What it said; it must have ended well.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
    text
}
