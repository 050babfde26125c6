//! The arguments of each command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use clap_complete::Shell;
use distlock::{LockKey, WaitPolicy};

use crate::addresses;
use crate::durations;
use crate::labels;
use crate::run::OnLost;

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
  distlock run --verbose --label team=payments --on-lost signal ledger -- ./close-the-day
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
    /// What becomes of the command when its lock is lost
    #[arg(long, value_enum, default_value_t = OnLost::Kill, value_name = "WHAT")]
    pub(crate) on_lost: OnLost,
    /// Something to tell those who look at the lock, for example --label team=payments; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = labels::parse)]
    pub(crate) labels: Vec<(String, String)>,
    /// Serve metrics for Prometheus at /metrics and the store's health at /healthz, on this address, while it waits and runs;
    /// everybody who reaches the address may read them: prefer 127.0.0.1:PORT [default: off]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = addresses::parse)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Say on standard error how long the lock was waited for, and how long it was held
    #[arg(long, short)]
    pub(crate) verbose: bool,
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

/// Follow the changes of locks: grants, ends, waiters
///
/// Prints a line for each lock that is held, then one for each change, until it is interrupted. Renewals are
/// no changes. It looks again and again, so a lock that is held for less than a look's pause may go unseen.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  distlock watch
  distlock watch reports/ --every 200ms
  distlock --format json watch | jq -r 'select(.change == \"granted\") | .key'")]
pub(crate) struct Watch {
    /// Only keys that start with this; %XX is one byte, %25 a percent sign
    pub(crate) prefix: Option<String>,
    /// The longest pause between two looks, when nothing changes
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = durations::parse_pause, allow_hyphen_values = true)]
    pub(crate) every: Duration,
}

/// Examine a store: can it be reached and used, and what endangers its locks?
///
/// Connects, asks the servers for their version and settings (eviction, durability, replication, clocks,
/// and what else matters there), and takes, renews, looks at and gives back a lock of its own below
/// `doctor/`, so that missing rights show. Each finding comes with its remedy.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 nothing found, 1 findings, 69 the store can't be reached, 70 it can't be used.

Examples:
  distlock --url redis://redis.internal doctor
  distlock --format json --url postgres://locks@db/app doctor | jq -r '.checks[] | select(.result != \"ok\") | .fix'")]
pub(crate) struct Doctor {}

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  distlock man | man -l -
  distlock man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Where to write distlock.1, distlock-run.1 and so on
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
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
/// The lock is free for whoever comes next, and waiters keep their places. The holder is not stopped by
/// that: it may go on until it notices, at its next renewal (a third of its ttl), at the latest when its
/// lease ends. Until then two may work at once. The next holder's token is higher, so a resource that
/// checks tokens is safe from the first one at once.
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

/// Create the tables of a database server, or print the statements that do
///
/// Programs create them by themselves when they may. This is for a user who may not, and whose
/// administrator creates them.
#[derive(Debug, Args)]
#[command(after_help = "\
The tables are those that the URL's options `table` and `schema` name. What is there already is left
as it is.

Examples:
  distlock --url postgres://locks@db.example/app schema --print | psql app
  distlock --url mysql://root@db.example/app schema")]
pub(crate) struct Schema {
    /// Print the statements instead of carrying them out
    #[arg(long)]
    pub(crate) print: bool,
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

/// Check a recorded history against the promises of the API
///
/// The histories that `conformance` keeps of failed cases and that probes write are files of JSON lines.
/// Files that are given together are one history: all processes that used the same keys.
#[derive(Debug, Args)]
#[command(after_help = "\
The checks are those of the conformance suite, H1 to H7. They need to know what the store promises;
without options, that nobody holds a lock beside another, in no order, to the second.

Exit status: 0 no promise is broken, 1 some are, 65 a file is damaged.

Examples:
  distlock check exclusion.tasks_count_right.jsonl
  distlock --format json check --fifo probes/ | jq -r '.violations[].text'")]
pub(crate) struct Check {
    /// Files of JSON lines, or folders of files that end in .jsonl
    #[arg(required = true, value_name = "HISTORY", value_hint = ValueHint::AnyPath)]
    pub(crate) histories: Vec<PathBuf>,
    /// The store serves waiters first come, first served
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Each call is one step in the store, as in memory, SQL and a single Redis server
    #[arg(long)]
    pub(crate) single_step: bool,
    /// A lock may become free when its connection ends, as with advisory locks
    #[arg(long)]
    pub(crate) sudden_ends: bool,
    /// Holders may overlap, as after a failover that lost data: leaves H1 and H7 out
    #[arg(long)]
    pub(crate) overlaps: bool,
    /// How much later than its ttl a lease may still be seen
    #[arg(long, value_name = "DURATION", default_value = "3500ms", value_parser = durations::parse, allow_hyphen_values = true)]
    pub(crate) lateness: Duration,
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
