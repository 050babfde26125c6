//! The command line.

mod bench;
mod commands;

use std::env;
use std::ffi::OsString;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use self::bench::{Bench, Comparison};
pub(crate) use self::commands::{
    Check, Completions, Conformance, Doctor, ForceUnlock, Inspect, Ls, Man, Run, Schema, Try, Watch,
};

const ABOUT: &str = "Distributed locks from the command line: run a command under a lock that other \
processes respect, look at locks, check and compare stores";

const STORE_HELP: &str = "\
The default store:
  Without --url and DISTLOCK_URL, locks are kept in a SQLite database in the state folder of the
  user who runs the command: $XDG_STATE_HOME/distlock/locks.db, or else
  ~/.local/state/distlock/locks.db. It is per user and per machine: a job in root's crontab and an
  application that runs as another user would NOT see each other's locks. Give both the same --url.

Keys:
  %XX stands for one byte, so a key can hold anything; write a literal percent sign as %25.

Exit status:
  0 done; 1 a negative result (failed cases, broken promises, findings, a declined question);
  64 bad usage; 65 damaged history; 69 store unreachable; 70 store error; 75 busy; 76 lost;
  `run` else gives the command's own status.";

const EXAMPLES: &str = "\
Examples:
  distlock run nightly -- ./backup.sh              # wait for the lock, run, release
  distlock run --wait no nightly -- ./backup.sh    # give up with status 75 if somebody has it
  distlock ls                                      # who holds what
  distlock --url sqlite:/var/lib/app/locks.db info # what that store promises
  distlock --url redis://redis.internal ls         # of all machines that use that server; takes a
                                                   # build with --features redis";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "distlock",
    version,
    about = ABOUT,
    after_help = EXAMPLES,
    after_long_help = long_help(),
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Reads the program's arguments. A variable that is there but empty counts as not set, so that
    /// a script or a unit file can clear one.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let is_empty = |arg: &Arg| arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty());
        let mut command =
            Self::command().mut_args(|arg| if is_empty(&arg) { arg.env(None::<&str>) } else { arg });
        let matches = command.try_get_matches_from_mut(env::args_os())?;
        refuse_scattered_options(env::args_os(), &matches).map_err(|error| error.format(&mut command))?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Those before the command would be passed over if there are some after it.
fn refuse_scattered_options(
    arguments: impl Iterator<Item = OsString>,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let begins = |word: &OsString| {
        word.to_str().is_some_and(|word| word.starts_with("-o") || word.starts_with("--option"))
    };
    let given = arguments.take_while(|word| word != "--").filter(begins).count();
    let read = matches.get_occurrences::<(String, String)>("options").map_or(0, Iterator::count);
    if given > read && read > 0 {
        return Err(clap::Error::raw(
            clap::error::ErrorKind::ArgumentConflict,
            "give every --option before the command, or every one after it",
        ));
    }
    Ok(())
}

/// Reads `name=value`; a name alone switches something on, as in a URL.
fn store_option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "on"));
    if name.trim().is_empty() {
        return Err("an option is a name and a value; write for example ttl=10s".to_owned());
    }
    Ok((name.trim().to_owned(), value.to_owned()))
}

fn long_help() -> String {
    format!("{EXAMPLES}\n\n{STORE_HELP}")
}

/// Which store, and how to answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The store, for example sqlite:/var/lib/app/locks.db or redis://host [default: a SQLite database of this
    /// user's]
    ///
    /// Beware of passwords here: other users can read a command line. DISTLOCK_URL is safer.
    #[arg(long, global = true, env = "DISTLOCK_URL", hide_env_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) url: Option<String>,
    /// A prefix that sets this program's keys apart from others' in the same store
    #[arg(long, global = true, env = "DISTLOCK_NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// An option of the store, in place of `?name=value` in its URL; may be repeated. In DISTLOCK_OPTIONS
    /// several are joined by `&`
    #[arg(long = "option", short = 'o', global = true, env = "DISTLOCK_OPTIONS", hide_env_values = true,
        value_name = "NAME=VALUE", value_delimiter = '&', value_parser = store_option)]
    pub(crate) options: Vec<(String, String)>,
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
    Watch(Watch),
    ForceUnlock(ForceUnlock),
    /// Show what the store promises, and how it is
    Info,
    Doctor(Doctor),
    Schema(Schema),
    Conformance(Conformance),
    Bench(Bench),
    Check(Check),
    Completions(Completions),
    Man(Man),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use distlock::WaitPolicy;

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
    fn options_of_the_store_may_be_repeated_or_joined() {
        let arguments = parse(&["ls", "-o", "ttl=5s", "--option", "queue&ca=/a=b.pem"]).unwrap();
        let wanted = [("ttl", "5s"), ("queue", "on"), ("ca", "/a=b.pem")];
        assert_eq!(arguments.global.options, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(parse(&["-o", "=5s", "ls"]).is_err());
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
            (&["bench", "--scenario", "hut"], "hot"),
            (&["bench", "--store", "redis://h"], "LABEL=URL"),
            (&["bench", "--store", "a=memory:", "--scenario", "hot"], "--scenario"),
            (&["bench", "--store", "a=memory:", "--contest", "hot-9"], "hot-8"),
            (&["bench", "--quick"], "--store"),
            (&["bench", "--compare", "old.json"], "2"),
            (&["--url", "", "ls"], "--url"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(text), "{line:?}: {error}");
        }
    }

    #[test]
    fn help_names_every_scenario() {
        let mut tree = Arguments::command();
        let help = tree.find_subcommand_mut("bench").unwrap().render_help().to_string();
        for scenario in distlock_bench::Scenario::ALL {
            assert!(help.contains(scenario.id()), "{scenario}");
        }
    }

    #[test]
    fn every_command_shows_examples_and_help_says_where_the_database_is() {
        let mut tree = Arguments::command();
        assert!(tree.render_long_help().to_string().contains("locks.db"));
        for command in
            tree.get_subcommands_mut().filter(|command| !["info", "help"].contains(&command.get_name()))
        {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
