//! Sets of real servers, one for each test that breaks them.

mod script;
mod server;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};

pub use server::{Data, Server};

/// Servers on ports and in a folder of their own. They end with it, and also when this process is
/// killed: a watcher beside it waits for the end of a pipe.
#[derive(Debug)]
pub struct ServiceSet {
    folder: PathBuf,
    urls: BTreeMap<String, String>,
    watcher: Child,
    /// While this is open the watcher lets the servers live.
    _lifeline: ChildStdin,
}

impl ServiceSet {
    /// Whether this machine has what the groups need.
    ///
    /// # Errors
    /// What is missing and how to get it.
    pub async fn available(groups: &[&str]) -> Result<(), String> {
        let output = script::command().arg("missing").args(groups).output().await;
        let output = output.map_err(|error| format!("dev/services.sh can't be run: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let missing =
            String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(", ");
        Err(format!("{missing} missing; run dev/services.sh install"))
    }

    /// Starts the groups, such as `redis`, `redlock`, `sentinel` and `cluster`, and waits until they serve.
    ///
    /// # Errors
    /// If one does not start, with what the script and the server said.
    ///
    /// # Cancel safety
    /// Dropped midway, what has been started ends.
    pub async fn up(groups: &[&str]) -> io::Result<Self> {
        let said = tempfile::NamedTempFile::new()?;
        let mut watcher = script::command()
            .arg("hold")
            .args(groups)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said.reopen()?)
            // A Ctrl-C in the terminal is for this process; the watcher sees its end.
            .process_group(0)
            .spawn()?;
        let lifeline = watcher.stdin.take().expect("it is piped");
        let mut lines = BufReader::new(watcher.stdout.take().expect("it is piped")).lines();
        let mut urls = BTreeMap::new();
        while let Some(line) = lines.next_line().await? {
            if let Some(folder) = line.strip_prefix("# ready in ") {
                return Ok(Self { folder: folder.into(), urls, watcher, _lifeline: lifeline });
            }
            urls.extend(script::exported(&line));
        }
        Err(io::Error::other(std::fs::read_to_string(said.path())?))
    }

    /// The servers that somebody else has started with `dev/services.sh run` around this process, if any.
    pub async fn servers_around() -> Vec<Server> {
        let Some(folder) = std::env::var_os("SVC_DIR").map(PathBuf::from) else { return Vec::new() };
        let status = script::run(&folder, &["status"]).await;
        let names = status.lines().filter_map(|line| line.split_whitespace().next());
        names.map(|name| Server::new(&folder, name)).collect()
    }

    /// The URL of a group that was asked for.
    #[must_use]
    pub fn url(&self, group: &str) -> &str {
        self.urls.get(group).unwrap_or_else(|| panic!("{group} was not started; started are {:?}", self.urls))
    }

    /// A server by its name: `redis`, `redlock0` to `4`, `ms0` to `2` (the master and its replicas, as
    /// they started), `se0` to `2` (the sentinels), `cl0` to `5`.
    #[must_use]
    pub fn server(&self, name: &str) -> Server {
        Server::new(&self.folder, name)
    }

    /// Waits until a group is whole again: all of its servers answer and have found each other.
    pub async fn whole(&self, group: &str) {
        script::run(&self.folder, &["wait", group]).await;
    }

    /// Ends the servers, and returns when they are gone.
    pub async fn down(self) {
        let Self { mut watcher, _lifeline, .. } = self;
        drop(_lifeline);
        watcher.wait().await.expect("a child can be waited for");
    }
}
