//! A process that contends for a lock on behalf of another that measures.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use distlock::{
    Clock, Error, ErrorKind, Instant, LockClient, LockKey, LockOptions, Registry, Release, Result,
};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::floor::{pause, think};
use crate::machine::{cpu_time, rss_kib};

/// Set in the environment of a process that is to contend.
pub(crate) const ASKED: &str = "DISTLOCK_BENCH_CONTENDER";
/// What a contender writes when it is connected.
pub(crate) const READY: &str = "ready";

/// What the measuring process asks for, as one line on standard input. Not in the arguments or the
/// environment: a URL may hold a password.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) hold: Duration,
    pub(crate) think: Duration,
    pub(crate) ttl: Duration,
    pub(crate) patience: Duration,
    /// How many tasks want the lock.
    pub(crate) tasks: usize,
    /// Whether to say so once the lock is held.
    pub(crate) announce: bool,
}

/// What a contender writes when it holds the lock, if it was asked to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holding {
    pub(crate) token: u64,
}

/// When to work, as the second line: instants of the system's clock, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shift {
    pub(crate) start: u64,
    pub(crate) stop: u64,
}

/// What it has to say at the end, as the last line on standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Worked(Report),
    Failed(String),
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) holds: Vec<Hold>,
    /// How many of them each task had.
    pub(crate) shares: Vec<u64>,
    pub(crate) lost: u64,
    pub(crate) commands: Option<u64>,
    pub(crate) cpu: Duration,
    pub(crate) rss_kib: Option<u64>,
}

/// One hold; instants in nanoseconds of the system's clock, which all processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) token: u64,
    pub(crate) called: u64,
    pub(crate) granted: u64,
    /// When it called unlock, or when the lock was lost before that.
    pub(crate) ended: u64,
    pub(crate) done: u64,
}

/// Contends and exits, if this process was started for that by [`run`](fn@crate::run) with
/// [`Scenario::Processes`](crate::Scenario). A program that runs benchmarks calls it first thing in
/// `main`, outside any runtime, with the registry it uses for [`run`](fn@crate::run):
///
/// ```no_run
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     if let Some(exit) = distlock_bench::contend_if_asked(&distlock::registry()) {
///         return exit;
///     }
///     // The program's own work.
///     ExitCode::SUCCESS
/// }
/// ```
#[must_use = "a contender must end with this code"]
pub fn contend_if_asked(registry: &Registry) -> Option<ExitCode> {
    std::env::var_os(ASKED)?;
    let answer = match contend(registry) {
        Ok(report) => Answer::Worked(report),
        Err(error) => Answer::Failed(error.to_string()),
    };
    let code = if matches!(answer, Answer::Worked(_)) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match say(&answer) {
        Ok(()) => Some(code),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

fn contend(registry: &Registry) -> Result<Report> {
    // One thread: the contenders are the load, not their runtimes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let job: Job = hear()?;
    let client = runtime.block_on(registry.connect(&job.url))?;
    say(&READY)?;
    let shift: Shift = hear()?;
    runtime.block_on(async {
        let report = work(&client, &job, &shift).await;
        client.shutdown(Duration::from_secs(5)).await;
        report
    })
}

async fn work(client: &LockClient, job: &Job, shift: &Shift) -> Result<Report> {
    let clock = Clock::system();
    let key = LockKey::new(&job.key)?;
    let options = LockOptions::default().ttl(job.ttl).wait(distlock::WaitPolicy::UpTo(job.patience));
    pause(Instant::from_nanos(shift.start).since(clock.now())).await;
    let (cpu, commands) = (cpu_time(), client.backend().commands_sent());
    let tasks = (0..job.tasks).map(|_| contend_for(client, &key, &options, job, shift));
    let mut report = Report::default();
    for task in try_join_all(tasks).await? {
        report.shares.push(task.holds.len() as u64);
        report.holds.extend(task.holds);
        report.lost += task.lost;
    }
    report.cpu = cpu_time().saturating_sub(cpu);
    report.commands = client.backend().commands_sent().zip(commands).map(|(after, before)| after - before);
    report.rss_kib = rss_kib();
    Ok(report)
}

/// One task: takes the lock and gives it back until the shift is over.
async fn contend_for(
    client: &LockClient,
    key: &LockKey,
    options: &LockOptions,
    job: &Job,
    shift: &Shift,
) -> Result<Report> {
    let clock = Clock::system();
    let mut report = Report::default();
    loop {
        let called = clock.now();
        if called >= Instant::from_nanos(shift.stop) {
            break;
        }
        let guard = client.lock_with(key, options).await?;
        let granted = clock.now();
        if job.announce {
            say(&Holding { token: guard.token().get() })?;
        }
        pause(job.hold).await;
        let (token, valid_until) = (guard.token().get(), guard.valid_until());
        let ended = clock.now().min(valid_until);
        report.lost += u64::from(guard.unlock().await? != Release::Released);
        report.holds.push(Hold {
            token,
            called: called.as_nanos(),
            granted: granted.as_nanos(),
            ended: ended.as_nanos(),
            done: clock.now().as_nanos(),
        });
        think(job.think, job.tasks == 1).await;
    }
    Ok(report)
}

fn hear<T: for<'de> Deserialize<'de>>() -> Result<T> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(broken)?;
    serde_json::from_str(&line).map_err(broken)
}

fn say<T: Serialize>(what: &T) -> Result<()> {
    let mut line = serde_json::to_vec(what).map_err(broken)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).map_err(broken)
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Other, "a contender can't talk to the process that measures").caused_by(error)
}
