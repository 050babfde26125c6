//! What is said to people: one line on standard error, never more.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use rustix::termios::{LocalModes, tcgetattr};

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::run::own_group;

/// So many characters of an argument are repeated in a complaint about it.
const LONGEST_ECHO: usize = 60;

/// Says one line on standard error. A closed or full standard error is nobody's failure.
pub(crate) fn say(text: &str) {
    if would_stop_us() {
        return;
    }
    let _ = writeln!(io::stderr().lock(), "distlock: {}", one_line(text));
}

/// Whether somebody sits in front of the terminal where messages appear.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Answers a command line that clap did not accept: help and version on standard output, all else
/// as one line and with the status for bad usage.
pub(crate) fn usage(error: clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            Exit::Success.into()
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let help = Arguments::command().render_help();
            let _ = write!(io::stderr().lock(), "{help}");
            Exit::BadUsage.into()
        }
        _ => {
            let error = elided(error);
            say(&complaint(&error.to_string(), advice(&error)));
            Exit::BadUsage.into()
        }
    }
}

/// Makes a panic one line as well, whatever RUST_BACKTRACE says: what it means, where and why it was.
pub(crate) fn explain_panics(meaning: &'static str) {
    std::panic::set_hook(Box::new(move |panic| {
        let at = panic.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no reason given");
        say(&format!("{meaning}{at}: {why}"));
    }));
}

/// The error with a shorter form of what was written, if that would fill the screen.
fn elided(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        let Some(ContextValue::String(written)) = error.get(kind) else { continue };
        if written.chars().count() > LONGEST_ECHO {
            let begin: String = written.chars().take(LONGEST_ECHO - 1).collect();
            error.insert(kind, ContextValue::String(begin + "…"));
        }
    }
    error
}

/// What clap does not know: a command goes after `--`.
fn advice(error: &clap::Error) -> Option<&'static str> {
    let in_run = error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("<CMD>"));
    let is_command = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => !word.starts_with('-'),
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            missing.iter().any(|word| word.starts_with("<CMD>"))
        }
        _ => false,
    };
    (in_run && is_command).then_some("put the command after `--`: distlock run KEY -- CMD")
}

/// Clap's complaint and its tips without the heading and the usage block.
fn complaint(rendered: &str, advice: Option<&str>) -> String {
    let parts = rendered.split("\n\n").filter(|part| {
        !part.trim_start().starts_with("Usage:") && !part.trim_start().starts_with("For more information")
    });
    let text = parts.map(str::trim).chain(advice).collect::<Vec<_>>().join("; ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    format!("{}; see `distlock --help`", one_line(text).trim_end())
}

/// The text with line breaks turned into blanks and control characters made visible: keys, paths and
/// server messages in it may hold anything.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut blank = false;
    for c in text.trim().chars() {
        if c == '\n' || (c == ' ' && blank) {
            if !blank {
                line.push(' ');
            }
            blank = true;
            continue;
        }
        blank = c == ' ';
        if c.is_control() {
            // Writing to a String can't fail.
            let _ = write!(line, "{}", c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Whether the terminal stops background processes that write to it. While the command has the
/// terminal we are one of those, and a stopped wrapper does not renew.
fn would_stop_us() -> bool {
    let stderr = io::stderr();
    stderr.is_terminal()
        && tcgetattr(&stderr).is_ok_and(|modes| modes.local_modes.contains(LocalModes::TOSTOP))
        && rustix::termios::tcgetpgrp(&stderr).is_ok_and(|front| Some(front) != own_group())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_said_stays_on_one_line() {
        assert_eq!(one_line(" a\n   b\x1b[31m\tc "), "a b\\u{1b}[31m\\tc");
    }

    #[test]
    fn complaints_keep_the_tip_and_drop_the_usage() {
        let rendered = "error: unexpected argument '--tll' found\n\n  tip: a similar argument exists: '--ttl'\n\nUsage: distlock run <KEY>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            complaint(rendered, None),
            "unexpected argument '--tll' found; tip: a similar argument exists: '--ttl'; see `distlock --help`"
        );
    }
}
