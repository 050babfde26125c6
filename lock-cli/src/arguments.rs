//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use distlock::{LockKey, WaitPolicy};

use crate::durations;

const ABOUT: &str = "Distributed locks from the command line: run a command under a lock that other \
processes respect, look at locks, check and compare stores";

const STORE_HELP: &str = "\
The default store:
  Without --url and DISTLOCK_URL, locks are kept in a SQLite database in the state folder of the user
  who runs the command: $XDG_STATE_HOME/distlock/locks.db, or ~/.local/state/distlock/locks.db.
  It is per user and per machine: a job in root's crontab and an application that runs as another user
  would NOT see each other's locks. Give both the same --url then.

Keys:
  %XX stands for one byte, so a key can hold anything; write a literal percent sign as %25.

Exit status:
  0 done; 1 a negative result (failed cases, a declined question); 64 bad usage;
  69 store unreachable; 70 store error; 75 busy; 76 lost; `run` else gives the command's own status.";

const EXAMPLES: &str = "\
Examples:
  distlock run nightly -- ./backup.sh              # wait for the lock, run, release
  distlock run --wait no nightly -- ./backup.sh    # give up with status 75 if somebody has it
  distlock ls                                      # who holds what
  distlock --url sqlite:/var/lib/app/locks.db info # what that store promises";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "distlock",
    version,
    about = ABOUT,
    after_help = EXAMPLES,
    after_long_help = long_help(),
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn long_help() -> String {
    format!("{EXAMPLES}\n\n{STORE_HELP}")
}

/// Which store, and how to answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The store, for example sqlite:/var/lib/app/locks.db [default: a SQLite database of this user's]
    ///
    /// Beware of passwords here: other users can read a command line. DISTLOCK_URL is safer.
    #[arg(long, global = true, env = "DISTLOCK_URL", hide_env_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) url: Option<String>,
    /// A prefix that sets this program's keys apart from others' in the same store
    #[arg(long, global = true, env = "DISTLOCK_NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// How to print results (junit: `conformance` alone)
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned text for people.
    Text,
    /// JSON for programs: tokens are strings, keys are escaped.
    Json,
    /// JUnit XML, for CI.
    Junit,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Try(Try),
    #[command(visible_alias = "list")]
    Ls(Ls),
    Inspect(Inspect),
    ForceUnlock(ForceUnlock),
    /// Show what the store promises, and how it is
    Info,
    Conformance(Conformance),
    Bench(Bench),
    Completions(Completions),
}

/// Run a command while holding a lock
///
/// The lock is taken first, renewed while the command runs, and released after the command and
/// everything left in its process group has ended. If the lock can't be kept, the command gets
/// SIGTERM, and SIGKILL before anybody else can get the lock.
#[derive(Debug, Args)]
#[command(after_help = "\
The command runs in its own process group, in the foreground of the terminal if there is one, with
DISTLOCK_KEY, DISTLOCK_TOKEN and DISTLOCK_OWNER in its environment. Pass the token to whatever the
lock protects. A process that leaves the group (setsid, daemons) is not stopped by anything here.

Exit status: the command's own (128 + n for signal n, 127 not found, 126 can't be run), or
75 busy, 76 lost, 69 store unreachable, 70 store error, 64 bad usage.

Examples:
  distlock run nightly -- ./backup.sh
  distlock run --wait 10m --ttl 1m reports/daily -- sh -c 'make report TOKEN=$DISTLOCK_TOKEN'
  */5 * * * * distlock run --wait no sync -- /usr/local/bin/sync     # crontab: never two at once")]
pub(crate) struct Run {
    /// The lock's name; %XX is one byte, %25 a percent sign
    #[arg(value_parser = LockKey::from_escaped)]
    pub(crate) key: LockKey,
    /// How long others wait if this machine dies; else the lock is renewed for as long as the command runs [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait for a busy lock: forever, no, or a duration
    #[arg(long, default_value = "forever", value_name = "WAIT", value_parser = durations::parse_wait, allow_hyphen_values = true)]
    pub(crate) wait: WaitPolicy,
    /// Time between SIGTERM and SIGKILL, less than half of the ttl [default: 5s, or a quarter of the ttl if that is less]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,
    /// Stop renewing after this long, so that a command that hangs loses the lock [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Take a lock and release it at once: is it free?
///
/// Never passes anybody who waits. By the time you read the answer it is old: to do something under
/// the lock, use `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 it was free, 75 it is busy.

Examples:
  distlock try nightly
  distlock --format json try nightly | jq -r .holder.metadata.host")]
pub(crate) struct Try {
    /// The lock's name; %XX is one byte, %25 a percent sign
    #[arg(value_parser = LockKey::from_escaped)]
    pub(crate) key: LockKey,
}

/// List locks that are held or waited for
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  distlock ls
  distlock ls reports/
  distlock --format json ls | jq -r '.[].key'")]
pub(crate) struct Ls {
    /// Only keys that start with this; %XX is one byte, %25 a percent sign
    pub(crate) prefix: Option<String>,
}

/// Show one lock: who holds it, until when, with which token
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  distlock inspect nightly
  distlock --format json inspect nightly | jq -r '.holders[0].token'")]
pub(crate) struct Inspect {
    /// The lock's name; %XX is one byte, %25 a percent sign
    #[arg(value_parser = LockKey::from_escaped)]
    pub(crate) key: LockKey,
}

/// Take a lock away from whoever holds it
///
/// The holder is not stopped by that: it may go on until it notices, at the latest when its lease
/// ends. The next holder's token is higher, so a resource that checks tokens is safe at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Asks first. Without a terminal it needs --yes (else status 64).

Examples:
  distlock force-unlock nightly
  distlock force-unlock --yes nightly")]
pub(crate) struct ForceUnlock {
    /// The lock's name; %XX is one byte, %25 a percent sign
    #[arg(value_parser = LockKey::from_escaped)]
    pub(crate) key: LockKey,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Check that a store keeps the promises of the API
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 all cases passed, 1 some failed.

Examples:
  distlock --url memory: conformance
  distlock --url sqlite:/tmp/locks.db conformance --filter fencing --format junit > report.xml")]
pub(crate) struct Conformance {
    /// Only cases whose name contains this
    #[arg(long)]
    pub(crate) filter: Option<String>,
}

/// Measure a store; safety is checked meanwhile
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  distlock --url memory: bench --scenario hot
  distlock --format json bench --scenario uncontended --secs 10 --floor")]
pub(crate) struct Bench {
    /// What to measure: uncontended, spread, hot, herd or held
    #[arg(long, default_value = "uncontended")]
    pub(crate) scenario: String,
    /// How many contenders, instead of the scenario's own number
    #[arg(long, value_name = "N")]
    pub(crate) contenders: Option<usize>,
    /// For how long, in seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) secs: u64,
    /// Also run the bare statements of the same operation, interleaved, and show the ratio
    #[arg(long)]
    pub(crate) floor: bool,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  distlock completions bash > /etc/bash_completion.d/distlock
  distlock completions zsh > ~/.zfunc/_distlock")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from([&["distlock"], line].concat())
    }

    #[test]
    fn the_tree_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn run_keeps_its_commands_options() {
        let arguments = parse(&["run", "--ttl", "10s", "a%2fb", "--", "ls", "--ttl", "x"]).unwrap();
        let Command::Run(run) = arguments.command else { panic!("not run") };
        assert_eq!(run.key.as_bytes(), b"a/b");
        assert_eq!(run.ttl, Some(Duration::from_secs(10)));
        assert_eq!(run.wait, WaitPolicy::Forever);
        assert_eq!(run.command, ["ls", "--ttl", "x"]);
    }

    #[test]
    fn global_options_go_before_or_after_the_command() {
        for line in [["--format", "json", "ls"], ["ls", "--format", "json"]] {
            assert_eq!(parse(&line).unwrap().global.format, Format::Json);
        }
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        for (line, text) in [
            (&["run", "", "--", "true"][..], "empty"),
            (&["run", "50%", "--", "true"], "%25"),
            (&["run", "k"], "CMD"),
            (&["run", "--ttl", "-5s", "k", "--", "true"], "negative"),
            (&["run", "--wait", "-5s", "k", "--", "true"], "negative"),
            (&["run", "--ttl", "30", "k", "--", "true"], "unit"),
            (&["run", "--ttl", "1ns", "k", "--", "true"], "too short"),
            (&["run", "--tll", "3s", "k", "--", "true"], "--ttl"),
            (&["frobnicate"], "frobnicate"),
            (&["--url", "", "ls"], "--url"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(text), "{line:?}: {error}");
        }
    }

    #[test]
    fn every_command_shows_examples_and_help_says_where_the_database_is() {
        let mut tree = Arguments::command();
        assert!(tree.render_long_help().to_string().contains("locks.db"));
        for command in tree.get_subcommands_mut().filter(|command| command.get_name() != "info") {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
