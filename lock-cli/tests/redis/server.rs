//! A Redis server of a test's own, on a socket.

use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub(crate) struct Server {
    folder: TempDir,
    settings: &'static [&'static str],
    process: Child,
}

impl Server {
    pub(crate) fn is_installed() -> bool {
        Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok()
    }

    /// With these settings; without any it keeps nothing on disk.
    pub(crate) fn start(settings: &'static [&'static str]) -> Self {
        let folder = TempDir::new().unwrap();
        let process = start(&folder, settings);
        Self { folder, settings, process }
    }

    /// Once more, in the same folder.
    pub(crate) fn restart(&mut self) {
        self.end();
        self.process = start(&self.folder, self.settings);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix:{}", self.folder.path().join("sock").display())
    }

    /// The same, for a user.
    pub(crate) fn url_for(&self, user: &str, password: &str) -> String {
        format!("redis+unix://{user}:{password}@/{}", self.folder.path().join("sock").display())
    }

    /// Kills it.
    pub(crate) fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(folder: &TempDir, settings: &[&str]) -> Child {
    Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--dir"])
        .arg(folder.path())
        .arg("--unixsocket")
        .arg(folder.path().join("sock"))
        .args(settings)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}
