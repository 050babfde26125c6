//! The conformance suite on an etcd server of its own, behind a proxy that breaks the network, and
//! killed, frozen and wiped by the cases.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use distlock_conformance::{Faults, NetworkFaults, ServerCommand, ServerProcess, Subject, free_port};
use distlock_core::{BackendInfo, LockBackend, Result, StoreUrl};
use distlock_etcd::EtcdBackend;
use tempfile::TempDir;

struct Etcd(NetworkFaults);

#[async_trait::async_trait]
impl Subject for Etcd {
    fn info(&self) -> BackendInfo {
        EtcdBackend::describe()
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(EtcdBackend::from_url(&mut StoreUrl::parse(url)?).await?))
    }
    fn url(&self) -> String {
        self.0.url()
    }
    fn available(&self) -> std::result::Result<(), String> {
        self.0.available()
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(&self.0)
    }
}

/// A server that counts leases in single seconds, as its elections are fast.
fn server(folder: &TempDir, port: u16, peer_port: u16) -> std::result::Result<ServerProcess, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let data = folder.path().join("data");
    let command = ServerCommand::new("etcd", "etcd", &data, move || health(address));
    let (own, peer) = (format!("http://{address}"), format!("http://127.0.0.1:{peer_port}"));
    ServerProcess::start(command.args([
        "--name",
        "one",
        "--data-dir",
        &data.join("etcd").to_string_lossy(),
        "--listen-client-urls",
        &own,
        "--advertise-client-urls",
        &own,
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &format!("one={peer}"),
        "--heartbeat-interval",
        "50",
        "--election-timeout",
        "500",
        "--log-level",
        "error",
        // What it has written outlives the process without that too.
        "--unsafe-no-fsync",
    ]))
}

fn health(address: SocketAddr) -> std::result::Result<(), String> {
    let asked = || {
        let limit = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    match asked() {
        Ok(answer) if answer.contains("\"health\":\"true\"") => Ok(()),
        Ok(answer) => Err(answer),
        Err(error) => Err(error.to_string()),
    }
}

fn main() -> ExitCode {
    let (port, peer_port) = (free_port(), free_port());
    // Made when the server starts, which it does in one of the suite's processes only.
    let folder = OnceLock::new();
    let faults =
        NetworkFaults::new([format!("127.0.0.1:{port}")], |addresses| format!("etcd://{}", addresses[0]))
            .server(move || {
                let made = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
                server(folder.get_or_init(|| made), port, peer_port)
            })
            .holds_outlive_restart();
    distlock_conformance::main(Etcd(faults))
}
