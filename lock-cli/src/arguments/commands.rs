//! The arguments of each command.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueHint};
use clap_complete::Shell;
use distlock::{LockKey, WaitPolicy};
use distlock_bench::Scenario;

use crate::durations;

/// Run a command while holding a lock
///
/// The lock is taken first, renewed while the command runs, and released after the command and
/// everything left in its process group has ended. If the lock can't be kept, the command gets
/// SIGTERM, and SIGKILL before anybody else can get the lock.
#[derive(Debug, Args)]
#[command(after_help = "\
The command runs in its own process group, in the foreground of the terminal if there is one, with
DISTLOCK_KEY, DISTLOCK_TOKEN and DISTLOCK_OWNER in its environment. Pass the token to whatever the
lock protects. A process that leaves the session (setsid, daemons) is not stopped by anything here.

Exit status: the command's own (128 + n for signal n, 127 not found, 126 can't be run), or
75 busy, 76 lost, 69 store unreachable, 70 store error, 64 bad usage.

Examples:
  distlock run nightly -- ./backup.sh
  distlock run --wait 10m --ttl 1m reports/daily -- sh -c 'make report TOKEN=$DISTLOCK_TOKEN'
  */5 * * * * distlock run --wait no sync -- /usr/local/bin/sync || [ $? -eq 75 ]

The last is for a crontab: never two at once, and no failure if the last run is still at it.")]
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
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_hold, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Take a lock and release it at once: is it free?
///
/// Passes nobody who waits where the store serves first come, first served; elsewhere it may, for that
/// moment. By the time you read the answer it is old: to do something under the lock, use `run`.
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
It works on keys of its own below `suite/`. Exit status: 0 all cases passed, 1 some failed.

Examples:
  distlock --url memory: conformance
  distlock conformance --list
  distlock --url sqlite:/tmp/locks.db conformance --filter fencing --format junit > report.xml")]
pub(crate) struct Conformance {
    /// Only cases whose name contains this
    #[arg(long)]
    pub(crate) filter: Option<String>,
    /// Print the names of the cases instead of running them
    #[arg(long)]
    pub(crate) list: bool,
}

/// Measure a store; safety is checked meanwhile
#[derive(Debug, Args)]
#[command(after_help = "\
It works on keys of its own below `bench/`. Exit status: 0 measured, 1 two held a lock at once.

Examples:
  distlock --url memory: bench --scenario hot
  distlock --format json bench --scenario uncontended --secs 10 --floor")]
pub(crate) struct Bench {
    /// What to measure: uncontended, spread, hot, herd, held or processes
    #[arg(long, default_value = "uncontended")]
    pub(crate) scenario: Scenario,
    /// How many contenders, instead of the scenario's own number
    #[arg(long, value_name = "N")]
    pub(crate) contenders: Option<usize>,
    /// For how long, in seconds, instead of the scenario's own time
    #[arg(long, value_name = "N")]
    pub(crate) secs: Option<u64>,
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
