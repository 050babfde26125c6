//! MariaDB servers with options that the shared ones don't have.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use distlock_conformance::{ServerCommand, ServerProcess, free_port};

/// Where Debian's package has it.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// Says what is missing for Galera, if anything is.
pub(crate) fn has_galera() -> Result<(), String> {
    match Path::new(PROVIDER).exists() && Path::new("/usr/sbin/mariadbd").exists() {
        true => Ok(()),
        false => Err(format!("{PROVIDER} or mariadbd missing; install mariadb-server and galera-4")),
    }
}

/// A Galera cluster of one node, and its URL. The database is the server's own.
pub(crate) fn start_galera(folder: &Path) -> (ServerProcess, String) {
    let [group, transfer] = [free_port(), free_port()];
    let (server, port) = start(
        folder,
        vec![
            "--binlog-format=ROW".to_owned(),
            "--wsrep-on=ON".to_owned(),
            format!("--wsrep-provider={PROVIDER}"),
            "--wsrep-cluster-address=gcomm://".to_owned(),
            "--wsrep-node-address=127.0.0.1".to_owned(),
            format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{transfer}"
            ),
        ],
    );
    (server, format!("mysql://root@127.0.0.1:{port}/mysql"))
}

/// A server with these options, and its port.
pub(crate) fn start(folder: &Path, options: Vec<String>) -> (ServerProcess, u16) {
    let port = free_port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let listens = move || TcpStream::connect_timeout(&address, Duration::from_secs(1));
    let ready = move || listens().map(drop).map_err(|error| error.to_string());
    let inside = |name: &str| folder.join(name).display().to_string();
    let command = ServerCommand::new("mariadb", "/usr/sbin/mariadbd", folder.join("data"), ready)
        .args([
            "--no-defaults".to_owned(),
            format!("--datadir={}", inside("data")),
            format!("--port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--socket={}", inside("socket")),
            format!("--pid-file={}", inside("pid")),
            "--skip-name-resolve".to_owned(),
            "--innodb-buffer-pool-size=32M".to_owned(),
        ])
        .args(options)
        .args(as_root())
        .prepare(|data| {
            let status = Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
                .args(as_root())
                .arg(format!("--datadir={}", data.display()))
                .stdout(Stdio::null())
                .status()?;
            if status.success() { Ok(()) } else { Err(io::Error::other("mariadb-install-db failed")) }
        });
    (ServerProcess::start(command).unwrap(), port)
}

/// It runs as root only if told to.
fn as_root() -> Option<&'static str> {
    rustix::process::getuid().is_root().then_some("--user=root")
}
