//! Starting the command, and watching what it starts.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of its own, and a store for everything that is started from it.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    url: Option<String>,
}

impl Rig {
    /// With a store that lives in each process alone.
    pub(crate) fn memory() -> Self {
        Self::at("memory:")
    }

    /// With the default store, in this rig's folder.
    #[cfg(feature = "sqlite")]
    pub(crate) fn sqlite() -> Self {
        stop_ignoring_interrupts();
        Self { folder: TempDir::new().unwrap(), url: None }
    }

    /// With the store at this URL.
    pub(crate) fn at(url: impl Into<String>) -> Self {
        stop_ignoring_interrupts();
        Self { folder: TempDir::new().unwrap(), url: Some(url.into()) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `distlock` with these arguments.
    pub(crate) fn distlock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("DISTLOCK_URL")
            .env_remove("DISTLOCK_NAMESPACE")
            .env_remove("DISTLOCK_LOG")
            .env("XDG_STATE_HOME", self.folder.path())
            .env("RUST_BACKTRACE", "full")
            .stdin(Stdio::null());
        if let Some(url) = &self.url {
            command.env("DISTLOCK_URL", url);
        }
        command
    }

    /// `distlock run … -- sh -c SCRIPT`.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Command {
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", script]);
        self.distlock(&arguments)
    }

    /// Waits until a file has a whole line, and gives that.
    pub(crate) fn line(&self, name: &str) -> String {
        let path = self.path(name);
        eventually(&format!("a line in {name}"), || {
            let text = fs::read_to_string(&path).ok()?;
            text.split_once('\n').map(|(line, _)| line.to_owned())
        })
    }

    /// Waits until a script has written its process id to a file (`echo $$ > FILE`).
    pub(crate) fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.line(name).parse().unwrap()).unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// A started command. Dropping it kills it; its shepherd then ends what it ran.
pub(crate) struct Started(Option<Child>);

impl Started {
    pub(crate) fn from(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// What it says goes into a file, to be read while it runs.
    #[cfg(all(feature = "metrics", feature = "sqlite"))]
    pub(crate) fn saying_into(command: &mut Command, file: fs::File) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(file).spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        eventually("the command's end", || self.0.as_mut().unwrap().try_wait().unwrap());
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What it said, besides that the store of `Rig::memory` is each process's alone.
    pub(crate) fn said(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| !line.contains("this process's alone")).collect()
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    Started::from(command).end()
}

/// Polls until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process does anything any more: a zombie does not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").map(|(_, fields)| !fields.starts_with(['Z', 'X'])))
        .unwrap_or(false)
}

/// A shell without job control starts background jobs with these signals ignored, and what we start
/// would inherit that. A signal with a handler is back to its default in a new program.
fn stop_ignoring_interrupts() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _inside = runtime.enter();
    for signal in [Signal::INT, Signal::QUIT].map(Signal::as_raw) {
        if ignored >> (signal - 1) & 1 == 1 {
            drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(signal)).unwrap());
        }
    }
}

/// Waits until a process has ended.
pub(crate) fn dead(pid: Pid) {
    eventually("a process to die", || (!is_alive(pid)).then_some(()));
}

/// A script that writes the time since boot into `beats` as long as it lives.
pub(crate) const HEART: &str =
    "echo $$ > pid; while :; do read now rest < /proc/uptime; echo $now >> beats; sleep 0.01; done";

/// Time since boot, as a beating heart reads it.
pub(crate) fn uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    seconds(text.split(' ').next().unwrap())
}

/// The last sign of life in `beats`.
pub(crate) fn last_beat(rig: &Rig) -> Duration {
    seconds(rig.read("beats").trim_end().rsplit('\n').next().unwrap())
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap())
}
