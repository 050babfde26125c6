//! What a page shows to be typed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::rig::Rig;

/// A line as somebody types it who has the command on his path.
pub(crate) fn shell(rig: &Rig, line: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_distlock")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    let like = rig.distlock(&[]);
    command.current_dir(rig.folder.path()).env("PATH", format!("{}:{path}", folder.display()));
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// The lines of a page that are in blocks, and neither Rust nor TOML.
pub(crate) fn shown(page: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut block = None;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("```"), block) {
            (Some(kind), None) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (None, Some(kind)) if !["rust", "toml"].contains(&kind) => lines.push(line.to_owned()),
            (None, _) => {}
        }
    }
    lines
}

/// The call in this line, without what follows it.
pub(crate) fn call(line: &str) -> Option<String> {
    let line = line.trim_start_matches("*/5 * * * * ").trim_start_matches("ExecStart=/usr/bin/");
    let from_checkout =
        line.strip_prefix("cargo run -p distlock-cli ").and_then(|line| line.split_once("-- "));
    let line = from_checkout.map_or_else(|| line.to_owned(), |(_, call)| format!("distlock {call}"));
    if !line.starts_with("distlock ") {
        return None;
    }
    let follows = [" # ", "  #", "  -- ", " | ", " || ", " > "];
    let end = follows.iter().filter_map(|word| line.find(word)).min().unwrap_or(line.len());
    Some(line[..end].trim_end().to_owned())
}
