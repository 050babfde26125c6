//! `dev/services.sh`, called from Rust.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// The script, free of the caller's settings: its servers are for itself alone.
pub(super) fn command() -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../dev/services.sh"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("LOCK_TEST_")) {
            command.env_remove(name);
        }
    }
    command
        .env_remove("SVC_BASE")
        .env_remove("SVC_DIR")
        .env_remove("SVC_PLACES")
        .env_remove("SVC_CLOCK")
        .stdin(Stdio::null());
    command
}

/// Runs the script on the set in `folder`, and gives what it printed.
pub(super) async fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = command().args(arguments).env("SVC_DIR", folder).output().await;
    let output = output.expect("dev/services.sh can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "services.sh {}: {said}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The group and the URL of an export line.
pub(super) fn exported(line: &str) -> Option<(String, String)> {
    let (name, url) = line.strip_prefix("export LOCK_TEST_")?.split_once("_URL=")?;
    Some((name.to_ascii_lowercase(), url.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_export_lines_name_urls() {
        let url = ("redis".to_owned(), "redis://127.0.0.1:1/0".to_owned());
        assert_eq!(exported("export LOCK_TEST_REDIS_URL=redis://127.0.0.1:1/0"), Some(url));
        assert_eq!(exported("# redis is up"), None);
    }
}
