//! The conformance suite on a ZooKeeper server of its own, behind a proxy that breaks the network, and
//! killed, frozen and wiped by the cases.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use distlock_conformance::{Faults, NetworkFaults, ServerCommand, ServerProcess, Subject, free_port};
use distlock_core::{BackendInfo, LockBackend, Result, StoreUrl};
use distlock_zk::ZkBackend;
use tempfile::TempDir;

/// Where Debian and its like put the server.
const JARS: [&str; 2] = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"];

struct Zk(NetworkFaults);

#[async_trait::async_trait]
impl Subject for Zk {
    fn info(&self) -> BackendInfo {
        ZkBackend::describe()
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(ZkBackend::from_url(&mut StoreUrl::parse(url)?).await?))
    }
    fn url(&self) -> String {
        self.0.url()
    }
    fn available(&self) -> std::result::Result<(), String> {
        if JARS.iter().any(|jar| !std::path::Path::new(jar).exists()) {
            return Err("ZooKeeper is not installed; run dev/services.sh install".to_owned());
        }
        self.0.available()
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(&self.0)
    }
}

fn server(folder: &TempDir, port: u16) -> std::result::Result<ServerProcess, String> {
    let data = folder.path().join("data");
    let mut config =
        String::from("tickTime=500\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n");
    // Writing to a String can't fail.
    let _ = writeln!(config, "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1", data.display());
    let file = folder.path().join("zoo.cfg");
    std::fs::write(&file, config).map_err(|error| format!("no configuration: {error}"))?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let command = ServerCommand::new("zookeeper", "java", data, move || serves(address));
    ServerProcess::start(
        command
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &JARS.join(":")])
            .args(["org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .args([file]),
    )
}

/// It says its mode once it serves.
fn serves(address: SocketAddr) -> std::result::Result<(), String> {
    let asked = || {
        let limit = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"srvr")?;
        let mut report = String::new();
        stream.read_to_string(&mut report).map(|_| report)
    };
    match asked() {
        Ok(report) if report.contains("Mode:") => Ok(()),
        Ok(report) => Err(report),
        Err(error) => Err(error.to_string()),
    }
}

fn main() -> ExitCode {
    let port = free_port();
    // Made when the server starts, which it does in one of the suite's processes only.
    let folder = OnceLock::new();
    let write = |addresses: &[String]| format!("zk://{}", addresses[0]);
    let faults = NetworkFaults::new([format!("127.0.0.1:{port}")], write).server(move || {
        let made = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        server(folder.get_or_init(|| made), port)
    });
    distlock_conformance::main(Zk(faults))
}
