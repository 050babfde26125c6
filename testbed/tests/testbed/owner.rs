//! This program again, as the owner of something that must not outlive it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use distlock_testbed::{Partition, ServiceSet};

use crate::support::block_on;

const VARIABLE: &str = "TESTBED_OWNER";

/// A process that owns something and never ends by itself.
pub(crate) struct Owner {
    process: Child,
    /// What it tells about what it owns.
    pub(crate) says: String,
}

impl Owner {
    /// Starts an owner of a `set` of servers or of a `network`.
    pub(crate) fn start(what: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(VARIABLE, what)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, says: line.trim().to_owned() }
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// What this process is to own, if it was started as an owner.
pub(crate) fn asked() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Owns it until it is killed.
pub(crate) fn own(what: &str) -> ! {
    block_on(async {
        let _owned: Box<dyn std::any::Any> = if what == "set" {
            let set = ServiceSet::up(&["redis"]).await.unwrap();
            tell(&set.server("redis").address().to_string());
            Box::new(set)
        } else {
            let partition = Partition::new(&["one", "two"]).unwrap();
            tell(partition.prefix());
            Box::new(partition)
        };
        std::future::pending().await
    })
}

fn tell(text: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("{text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
