//! The conformance suite on a Redis server of its own, behind a proxy that breaks the network, and
//! killed, frozen and wiped by the cases.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use distlock_conformance::{Faults, NetworkFaults, ServerCommand, ServerProcess, Subject, free_port};
use distlock_core::{BackendInfo, LockBackend, Result, StoreUrl};
use distlock_redis::{RedisBackend, Topology};
use tempfile::TempDir;

struct Redis(NetworkFaults);

#[async_trait::async_trait]
impl Subject for Redis {
    fn info(&self) -> BackendInfo {
        RedisBackend::describe(&Topology::Single)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(RedisBackend::from_url(&mut StoreUrl::parse(url)?).await?))
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

/// A server that writes each command to disk before it answers.
fn durable(folder: &TempDir, port: u16) -> std::result::Result<ServerProcess, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let command =
        ServerCommand::new("redis", "redis-server", folder.path().join("data"), move || ping(address));
    ServerProcess::start(command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ]))
}

fn ping(address: SocketAddr) -> std::result::Result<(), String> {
    let asked = || {
        let limit = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).map(|()| answer)
    };
    match asked() {
        Ok(answer) if &answer == b"+PONG\r\n" => Ok(()),
        Ok(answer) => Err(String::from_utf8_lossy(&answer).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn main() -> ExitCode {
    let port = free_port();
    // Made when the server starts, which it does in one of the suite's processes only.
    let folder = OnceLock::new();
    let faults =
        NetworkFaults::new([format!("127.0.0.1:{port}")], |addresses| format!("redis://{}", addresses[0]))
            .server(move || {
                let made = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
                durable(folder.get_or_init(|| made), port)
            })
            .doubles()
            .tokens_outlive_data()
            .holds_outlive_restart();
    distlock_conformance::main(Redis(faults))
}
