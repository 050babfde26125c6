//! The same by an encrypted connection.

use std::io::{self, Read, Write};
use std::sync::Arc;

use distlock_core::Result;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{COMMAND, LONGEST};
use crate::config::ZkConfig;
use crate::session::tls;

/// How to encrypt, if that is wanted.
pub(super) fn options(config: &ZkConfig) -> Result<Option<Arc<rustls::ClientConfig>>> {
    Ok(tls::client_config(config)?.map(Arc::new))
}

pub(super) async fn ask(
    mut stream: TcpStream,
    server: &str,
    options: &Arc<rustls::ClientConfig>,
) -> io::Result<String> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::clone(options), name).map_err(io::Error::other)?;
    // Kept until the handshake is over.
    connection.writer().write_all(COMMAND)?;
    let (mut report, mut buffer) = (Vec::new(), vec![0; 4096]);
    while (report.len() as u64) < LONGEST {
        let mut outgoing = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut outgoing)?;
        }
        stream.write_all(&outgoing).await?;
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        let mut incoming = &buffer[..read];
        while !incoming.is_empty() {
            connection.read_tls(&mut incoming)?;
            let state = connection.process_new_packets().map_err(io::Error::other)?;
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            connection.reader().read_exact(&mut plain)?;
            report.append(&mut plain);
            if state.peer_has_closed() {
                return text(report);
            }
        }
    }
    text(report)
}

fn text(report: Vec<u8>) -> io::Result<String> {
    String::from_utf8(report).map_err(io::Error::other)
}
