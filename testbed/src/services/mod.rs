//! Sets of real servers, one for each test that breaks them.

mod script;
mod server;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};

pub use server::Server;

use crate::{Partition, SmallDisk, WallClock};

/// What is special about where servers run.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Surroundings<'a> {
    /// Their network, as for [`ServiceSet::up_at`].
    pub partition: Option<&'a Partition>,
    /// Their wall clock. It moves nothing in etcd.
    pub clock: Option<&'a WallClock>,
    /// The disk with all that they write.
    pub disk: Option<&'a SmallDisk>,
}

impl<'a> Surroundings<'a> {
    /// Servers whose wall clock is this one.
    #[must_use]
    pub const fn under(clock: &'a WallClock) -> Self {
        Self { partition: None, clock: Some(clock), disk: None }
    }

    /// Servers that write on this disk.
    #[must_use]
    pub const fn on(disk: &'a SmallDisk) -> Self {
        Self { partition: None, clock: None, disk: Some(disk) }
    }

    /// The same, on this network.
    #[must_use]
    pub const fn at(mut self, partition: &'a Partition) -> Self {
        self.partition = Some(partition);
        self
    }
}

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

    /// Starts groups of `dev/services.sh`, such as `redis`, `sentinel` and `etcd3`, and waits until they serve.
    ///
    /// # Errors
    /// If one does not start, with what the script and the server said.
    ///
    /// # Cancel safety
    /// Dropped midway, what has been started ends.
    pub async fn up(groups: &[&str]) -> io::Result<Self> {
        Self::start(&[], groups).await
    }

    /// The same, with each server at the place of `partition` that bears its name, if there is one. So
    /// `Partition::new(&["e0", "e1", "e2", "client"])` and `etcd3` make a cluster of which any member can be
    /// cut off. Only who is at a place can reach them. All groups but Redis and its like can be placed.
    ///
    /// # Errors
    /// As [`up`](Self::up).
    ///
    /// # Cancel safety
    /// As [`up`](Self::up).
    pub async fn up_at(partition: &Partition, groups: &[&str]) -> io::Result<Self> {
        Self::start(&[("SVC_PLACES", partition.for_services())], groups).await
    }

    /// The same, in whatever surroundings.
    ///
    /// # Errors
    /// As [`up`](Self::up).
    ///
    /// # Cancel safety
    /// As [`up`](Self::up).
    pub async fn up_in(surroundings: &Surroundings<'_>, groups: &[&str]) -> io::Result<Self> {
        let mut settings = Vec::new();
        settings.extend(surroundings.partition.map(|partition| ("SVC_PLACES", partition.for_services())));
        settings.extend(surroundings.clock.map(|clock| ("SVC_CLOCK", clock.for_services())));
        settings.extend(surroundings.disk.map(|disk| ("TMPDIR", disk.folder().display().to_string())));
        Self::start(&settings, groups).await
    }

    async fn start(settings: &[(&str, String)], groups: &[&str]) -> io::Result<Self> {
        let said = tempfile::NamedTempFile::new()?;
        let mut watcher = script::command()
            .envs(settings.iter().map(|(name, value)| (name, value)))
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

    /// All of its servers.
    pub async fn servers(&self) -> Vec<Server> {
        servers(&self.folder).await
    }

    /// The URL of a group that was asked for. Some groups have further ones: `pgbouncer_session`,
    /// `pgbouncer_direct`, `pgstandby_standby` and `mysqlreplica_replica`.
    #[must_use]
    pub fn url(&self, group: &str) -> &str {
        self.urls.get(group).unwrap_or_else(|| panic!("{group} was not started; started are {:?}", self.urls))
    }

    /// A server by its name: `redis`, `redlock0` to `4`, `ms0` to `2` (the master and its replicas, as
    /// they started), `se0` to `2` (the sentinels), `cl0` to `5`; `etcd`, `e0` to `2`; `zk`, `z1` to `3`;
    /// `postgres`, `pgbouncer` and `pgpooled` (behind it), `pgs0` and `pgs1` (the standby); `mysql`, `my0`
    /// and `my1` (the replica).
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

async fn servers(folder: &Path) -> Vec<Server> {
    let status = script::run(folder, &["status"]).await;
    let names = status.lines().filter_map(|line| line.split_whitespace().next());
    names.map(|name| Server::new(folder, name)).collect()
}
