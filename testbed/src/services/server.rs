//! A handle on one server process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::script;

/// One server of a [`ServiceSet`](super::ServiceSet), to be hurt. Only a handle: dropping it does nothing.
#[derive(Clone, Debug)]
pub struct Server {
    folder: PathBuf,
    name: String,
}

/// What a server finds when it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Data {
    /// What it had acknowledged before it was killed.
    Kept,
    /// Nothing.
    Wiped,
}

impl Server {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self { folder: folder.to_owned(), name: name.to_owned() }
    }

    /// Its name, as in `dev/services.sh status`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let file = self.folder.join(&self.name).join("port");
        let port = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}: is there a server {}?", file.display(), self.name));
        SocketAddr::from(([127, 0, 0, 1], port.trim().parse().expect("the script writes a number")))
    }

    /// Kills it with SIGKILL, and returns when it is gone.
    pub async fn kill9(&self) {
        self.ask(&["kill", &self.name]).await;
    }

    /// Stops it with SIGSTOP: it takes connections and answers nothing.
    pub async fn pause(&self) {
        self.ask(&["pause", &self.name]).await;
    }

    /// Lets a paused server go on. It works off what it was sent meanwhile.
    pub async fn resume(&self) {
        self.ask(&["resume", &self.name]).await;
    }

    /// Starts a killed server on the data that it had, and returns when it answers.
    pub async fn start(&self) {
        self.ask(&["start", &self.name]).await;
    }

    /// Kills it, if it lives, and starts it again.
    pub async fn restart(&self, data: Data) {
        if self.is_up().await {
            self.kill9().await;
        }
        if data == Data::Wiped {
            self.ask(&["wipe", &self.name]).await;
        }
        self.start().await;
    }

    async fn is_up(&self) -> bool {
        let status = script::run(&self.folder, &["status"]).await;
        status.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(&self.name) && words.next() == Some("up")
        })
    }

    async fn ask(&self, arguments: &[&str]) {
        script::run(&self.folder, arguments).await;
    }
}
