//! How a server is started.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Prepare = Box<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;
type Ready = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// How to start a server in the foreground, and how to tell that it serves.
pub struct ServerCommand {
    pub(super) name: String,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) data: PathBuf,
    pub(super) patience: Duration,
    pub(super) prepare: Prepare,
    pub(super) ready: Ready,
}

impl fmt::Debug for ServerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

impl ServerCommand {
    /// A server that keeps its data in the folder `data`, which is also its working folder, and which
    /// nothing else may use. The program must stay in the foreground.
    ///
    /// `ready` asks the server whether it serves, and says why not. It may block for a second, and is
    /// asked every few milliseconds. A port that takes connections is not an answer: ask for something
    /// that only a server with its data loaded can say.
    pub fn new(
        name: impl Into<String>,
        program: impl AsRef<OsStr>,
        data: impl Into<PathBuf>,
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            data: data.into(),
            patience: Duration::from_secs(60),
            prepare: Box::new(|_| Ok(())),
            ready: Box::new(ready),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds an environment variable to those of this process.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// What has to be done to an empty data folder before the server starts on it.
    #[must_use]
    pub fn prepare(mut self, prepare: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// How long it may take to serve. Default: one minute.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}
