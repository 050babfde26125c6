//! A probe, seen from its parent.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Mutex;

use super::work::Work;
use crate::Partition;
use crate::nemesis::{Action, Target};

/// How long a probe may take to finish: it gives its locks back first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A probe process. Dropped, it is killed.
#[derive(Debug)]
pub struct Probe {
    child: Child,
    orders: ChildStdin,
}

impl Probe {
    /// Starts `program`, which calls [`lockprobe::main`](super::main), on this work.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn start(program: std::process::Command, work: &Work) -> Self {
        let mut child = Command::from(program)
            .env(Work::VARIABLE, serde_json::to_string(work).expect("plain data"))
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the probe's program can be started");
        let orders = child.stdin.take().expect("it is piped");
        Self { child, orders }
    }

    /// This same program, to be started as a probe.
    #[must_use]
    pub fn this_program() -> std::process::Command {
        std::process::Command::new(std::env::current_exe().expect("a program knows where it is"))
    }

    /// The same, at a place of a network if one is named.
    #[must_use]
    pub fn this_program_at(place: Option<&(Arc<Partition>, String)>) -> std::process::Command {
        let program = Self::this_program();
        match place {
            Some((partition, place)) => partition.command(place, program.get_program()),
            None => program,
        }
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it was not waited for")
    }

    /// Stops it with SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it with SIGKILL, and returns when it is gone. Its history ends where it was.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Tells it to stop working, and waits until it has given everything back.
    ///
    /// # Panics
    /// If it fails, or takes too long.
    pub async fn finish(self) {
        let Self { mut child, orders } = self;
        drop(orders);
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let status = ended.expect("a probe finishes in time").expect("a child can be waited for");
        assert!(status.success(), "a probe failed: {status}; see its messages above");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("no process has the number 0");
        kill_process(pid, signal).expect("a child takes signals");
    }
}

/// A place for one probe at a time, for a [`Nemesis`](crate::Nemesis): who is killed is replaced.
#[derive(Debug)]
pub struct ProbeSlot {
    number: usize,
    work: Work,
    place: Option<(Arc<Partition>, String)>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    probe: Option<Probe>,
    seed: u64,
}

impl ProbeSlot {
    /// Starts a probe of this same program, at a place of a network if one is named.
    #[must_use]
    pub fn start(number: usize, work: Work, place: Option<(Arc<Partition>, String)>) -> Self {
        let probe = Probe::start(Probe::this_program_at(place.as_ref()), &work);
        let state = Mutex::new(State { probe: Some(probe), seed: work.seed });
        Self { number, work, place, state }
    }

    /// Lets the probe finish.
    pub async fn finish(&self) {
        if let Some(probe) = self.state.lock().await.probe.take() {
            probe.finish().await;
        }
    }
}

#[async_trait]
impl Target for ProbeSlot {
    fn name(&self) -> String {
        format!("probe {}", self.number)
    }

    fn suffers(&self, action: Action) -> bool {
        matches!(action, Action::Pause | Action::Restart)
    }

    /// Four ttls where the usual is two: some of its stops are far longer than its locks live.
    fn longest(&self, action: Action, usual: Duration) -> Duration {
        if action == Action::Pause { usual * 2 } else { usual }
    }

    async fn begin(&self, action: Action) {
        let mut state = self.state.lock().await;
        match action {
            Action::Pause => state.probe.as_ref().expect("it runs between troubles").pause(),
            _ => state.probe.take().expect("it runs between troubles").kill().await,
        }
    }

    async fn end(&self, action: Action) {
        let mut state = self.state.lock().await;
        match action {
            Action::Pause => state.probe.as_ref().expect("it was only stopped").resume(),
            _ => {
                state.seed = state.seed.wrapping_add(1_000_000_007);
                let mut work = self.work.clone();
                work.seed = state.seed;
                // What the one before left behind is not in its way.
                work.own = work.own.map(|own| format!("{own}-{:x}", work.seed));
                state.probe = Some(Probe::start(Probe::this_program_at(self.place.as_ref()), &work));
            }
        }
    }
}
