//! A server that runs as a process of this machine.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::{Data, Server, ServerCommand};

/// Starts once a line came on its input, so that nothing runs that nobody watches.
const START: &str = r#"read -r _ && exec "$@" </dev/null"#;
/// Outlives this process, and kills the server's process group when its input ends.
const WATCH: &str = r#"read -r _; kill -s KILL -- "-$1""#;
/// How often a server that starts is asked.
const ASK: Duration = Duration::from_millis(20);
/// How long what a killed server left behind may take to vanish.
const VANISH: Duration = Duration::from_secs(10);

/// A server that was started from here, with everything it starts itself in a process group of its
/// own. It is killed when this value is dropped, and also when this process dies in any other way.
///
/// Its output is kept, and the end of it is shown when it does not start.
#[derive(Debug)]
pub struct ServerProcess {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    command: ServerCommand,
    output: TempDir,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    server: Child,
    watchdog: Child,
    over: bool,
}

impl ServerProcess {
    /// Starts a server and waits until it serves. Blocks its thread meanwhile.
    ///
    /// # Errors
    /// It can't be started, ended, or does not serve in time; something else serves in its place. The
    /// text says which and shows the end of its output.
    pub fn start(command: ServerCommand) -> Result<Self, String> {
        let output = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let inner = Arc::new(Inner { command, output, running: Mutex::new(None) });
        inner.start(&mut inner.running())?;
        Ok(Self { inner })
    }

    /// The id of its process, unless it was killed.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.inner.running().as_ref().map(|running| running.server.id())
    }

    /// The end of what it has written to its output.
    #[must_use]
    pub fn output(&self) -> String {
        self.inner.tail()
    }

    async fn blocking(&self, work: impl FnOnce(&Inner) -> Result<(), String> + Send + 'static) {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await.expect("it returns its errors");
        if let Err(error) = done {
            panic!("{error}");
        }
    }
}

#[async_trait]
impl Server for ServerProcess {
    fn name(&self) -> &str {
        &self.inner.command.name
    }

    async fn kill9(&self) {
        self.blocking(|inner| inner.stop(&mut inner.running())).await;
    }

    async fn pause(&self) {
        self.blocking(|inner| inner.signal(Signal::STOP)).await;
    }

    async fn resume(&self) {
        self.blocking(|inner| inner.signal(Signal::CONT)).await;
    }

    async fn restart(&self, data: Data) {
        self.blocking(move |inner| {
            let mut running = inner.running();
            inner.stop(&mut running)?;
            if data == Data::Wiped {
                empty(&inner.command.data).map_err(|error| format!("can't wipe its data: {error}"))?;
            }
            inner.start(&mut running)
        })
        .await;
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, running: &mut Option<Running>) -> Result<(), String> {
        let name = &self.command.name;
        if (self.command.ready)().is_ok() {
            return Err(format!("{name} answers before it was started: something else has its address"));
        }
        *running = Some(self.spawn().map_err(|error| format!("can't start {name}: {error}"))?);
        let result = self.wait_until_ready(running.as_mut().expect("just set"));
        if result.is_err() {
            // What failed to serve must not linger; the first error says more than this one's.
            let _ = self.stop(running);
        }
        result
    }

    fn spawn(&self) -> io::Result<Running> {
        let command = &self.command;
        fs::create_dir_all(&command.data)?;
        if fs::read_dir(&command.data)?.next().is_none() {
            (command.prepare)(&command.data)?;
        }
        let output = File::options().create(true).append(true).open(self.output.path().join("output"))?;
        let mut server = Command::new("/bin/sh")
            .args(["-c", START, &command.name])
            .arg(&command.program)
            .args(&command.args)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&command.data)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut start = server.stdin.take().expect("it is piped");
        let watchdog = Command::new("/bin/sh")
            .args(["-c", WATCH, "watchdog", &server.id().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let watchdog = match watchdog {
            Ok(watchdog) => watchdog,
            Err(error) => {
                // The shell ends without having started anything.
                drop(start);
                server.wait()?;
                return Err(error);
            }
        };
        let running = Running { server, watchdog, over: false };
        start.write_all(b"\n")?;
        Ok(running)
    }

    fn wait_until_ready(&self, running: &mut Running) -> Result<(), String> {
        let name = &self.command.name;
        let began = Instant::now();
        loop {
            let ready = (self.command.ready)();
            // Asked after the answer: another server may have given it while this one died.
            if let Ok(Some(status)) = running.server.try_wait() {
                return Err(format!("{name} ended with {status}; its output ends with:\n{}", self.tail()));
            }
            match ready {
                Ok(()) => return Ok(()),
                Err(reason) if began.elapsed() >= self.command.patience => {
                    let patience = self.command.patience;
                    let tail = self.tail();
                    return Err(format!(
                        "{name} does not serve after {patience:?} ({reason}); its output ends with:\n{tail}"
                    ));
                }
                Err(_) => std::thread::sleep(ASK),
            }
        }
    }

    fn stop(&self, running: &mut Option<Running>) -> Result<(), String> {
        let Some(mut running) = running.take() else { return Ok(()) };
        running.end().map_err(|error| format!("can't kill {}: {error}", self.command.name))?;
        // Children with a session of their own, as PostgreSQL's, end a little later by themselves.
        let began = Instant::now();
        while occupied(&self.command.data) && began.elapsed() < VANISH {
            std::thread::sleep(ASK);
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let running = self.running();
        let name = &self.command.name;
        let running = running.as_ref().ok_or_else(|| format!("{name} was killed; restart it first"))?;
        running.signal(signal).map_err(|error| format!("can't signal {name}: {error}"))
    }

    fn tail(&self) -> String {
        const LENGTH: usize = 2000;
        let output = fs::read(self.output.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&output[output.len().saturating_sub(LENGTH)..]).into_owned()
    }
}

impl Running {
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let group = Pid::from_raw(self.server.id().cast_signed()).expect("no process has the id 0");
        Ok(kill_process_group(group, signal)?)
    }

    /// Kills the whole group, and waits for its leader, so that no zombie keeps a lock file alive.
    fn end(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        // Also if the leader died by itself: its children may live. Fails when they don't.
        let _ = self.signal(Signal::KILL);
        self.server.wait()?;
        self.watchdog.kill()?;
        self.watchdog.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, or the watchdog sees to it.
        let _ = self.end();
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a process works in this folder, as far as this system and our rights let us see.
fn occupied(folder: &Path) -> bool {
    let (Ok(folder), Ok(processes)) = (folder.canonicalize(), fs::read_dir("/proc")) else { return false };
    processes
        .flatten()
        .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
}
