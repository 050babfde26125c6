//! A handle on one server process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use distlock_conformance::Data;

use super::script;

/// One server of a [`ServiceSet`](super::ServiceSet), to be hurt as any
/// [`Server`](distlock_conformance::Server). Its name is that of `dev/services.sh status`. Only a handle:
/// dropping it does nothing.
#[derive(Clone, Debug)]
pub struct Server {
    folder: PathBuf,
    name: String,
}

impl Server {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self { folder: folder.to_owned(), name: name.to_owned() }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let [host, port] = ["host", "port"].map(|name| self.file(name));
        format!("{host}:{port}").parse().expect("the script writes an address and a number")
    }

    fn file(&self, name: &str) -> String {
        let file = self.folder.join(&self.name).join(name);
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}: is there a server {}?", file.display(), self.name));
        text.trim().to_owned()
    }

    /// Starts a killed server on the data that it had, and returns when it answers.
    pub async fn start(&self) {
        self.ask(&["start", &self.name]).await;
    }

    async fn ask(&self, arguments: &[&str]) {
        script::run(&self.folder, arguments).await;
    }
}

#[async_trait]
impl distlock_conformance::Server for Server {
    fn name(&self) -> &str {
        &self.name
    }

    async fn kill9(&self) {
        self.ask(&["kill", &self.name]).await;
    }

    async fn pause(&self) {
        self.ask(&["pause", &self.name]).await;
    }

    async fn resume(&self) {
        self.ask(&["resume", &self.name]).await;
    }

    async fn restart(&self, data: Data) {
        let data = match data {
            Data::Kept => "kept",
            Data::Wiped => "wiped",
        };
        self.ask(&["restart", &self.name, data]).await;
    }
}
