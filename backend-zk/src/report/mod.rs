//! What each server says of itself.

#[cfg(feature = "tls")]
mod encrypted;

use std::io;
use std::time::Duration;

use distlock_core::Result;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::ZkConfig;

/// Longest time for one server's report.
const PATIENCE: Duration = Duration::from_secs(1);
/// A report is not longer.
const LONGEST: u64 = 16 * 1024;
/// The command for a report.
const COMMAND: &[u8] = b"srvr";

/// What a server says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Its report.
    Given(String),
    /// It is there, and is set up not to give any.
    Kept,
    /// It is there, and serves nobody.
    Idle,
    /// It gives no answer.
    Silent,
}

impl Report {
    /// What stands behind a name in the report.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let Self::Given(report) = self else { return None };
        report.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }

    fn from_answer(answer: String) -> Self {
        if answer.contains("Mode:") {
            Self::Given(answer)
        } else if answer.contains("not currently serving") {
            Self::Idle
        } else {
            Self::Kept
        }
    }
}

#[cfg(feature = "tls")]
type Encryption = Option<std::sync::Arc<rustls::ClientConfig>>;
#[cfg(not(feature = "tls"))]
type Encryption = ();

/// The report of each server, in the servers' order. Takes no longer than the slowest may.
pub(crate) async fn reports(servers: &[String], config: &ZkConfig) -> Result<Vec<Report>> {
    #[cfg(feature = "tls")]
    let encryption = &encrypted::options(config)?;
    #[cfg(not(feature = "tls"))]
    let (encryption, _) = (&(), config);
    Ok(join_all(servers.iter().map(|server| report(server, encryption))).await)
}

async fn report(server: &str, encryption: &Encryption) -> Report {
    #[expect(clippy::disallowed_methods, reason = "a report that is dropped midway leaves nothing")]
    match tokio::time::timeout(PATIENCE, ask(server, encryption)).await {
        Ok(Ok(answer)) => Report::from_answer(answer),
        Ok(Err(_)) | Err(_) => Report::Silent,
    }
}

#[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "then nothing is encrypted"))]
async fn ask(server: &str, encryption: &Encryption) -> io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    #[cfg(feature = "tls")]
    if let Some(encryption) = encryption {
        return encrypted::ask(stream, server, encryption).await;
    }
    stream.write_all(COMMAND).await?;
    let mut report = String::new();
    stream.take(LONGEST).read_to_string(&mut report).await?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let report = Report::from_answer("Zookeeper version: 3.8.0-5\nMode: follower\n".to_owned());
        assert_eq!(report.field("Zookeeper version:"), Some("3.8.0-5"));
        assert_eq!(report.field("Mode:"), Some("follower"));
        let idle = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(Report::from_answer(idle.to_owned()), Report::Idle);
        let kept = "srvr is not executed because it is not in the whitelist.\n";
        assert_eq!(Report::from_answer(kept.to_owned()), Report::Kept);
        assert_eq!(Report::Silent.field("Mode:"), None);
    }

    #[tokio::test]
    async fn each_server_is_asked_and_those_that_are_away_are_told_apart() {
        let bound = || async { tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap() };
        let (there, away, frozen) = (bound().await, bound().await, bound().await);
        let servers = [&away, &frozen, &there].map(|server| server.local_addr().unwrap().to_string());
        drop(away);
        let answering = async {
            let (mut stream, _) = there.accept().await.unwrap();
            let mut command = [0; COMMAND.len()];
            stream.read_exact(&mut command).await.unwrap();
            assert_eq!(command, *COMMAND);
            stream.write_all(b"Zookeeper version: 3.9\nMode: leader\n").await.unwrap();
            drop(stream);
            std::future::pending().await
        };
        let config = ZkConfig::default();
        // A server that nobody asks goes on waiting.
        let found = tokio::select! {
            found = reports(&servers, &config) => found.unwrap(),
            never = answering => never,
        };
        assert_eq!(found[..2], [Report::Silent, Report::Silent]);
        assert_eq!(found[2].field("Mode:"), Some("leader"));
    }
}
