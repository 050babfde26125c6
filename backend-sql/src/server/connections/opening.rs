//! Opening connections.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use distlock_core::{Clock, Deadline, Effect, Error, ErrorKind, Result};
use sqlx::ConnectOptions;

use super::line::Line;
use super::within;
use crate::server::config::ServerConfig;
use crate::server::dialect::{Dialect, Fitness, Options, Then};
use crate::server::error::{Doing, Trouble, classify, late};

/// Opens connections to the first of the servers that takes writes.
pub(crate) struct Opener<D: Dialect> {
    servers: Vec<Options<D>>,
    config: ServerConfig,
    /// The server that was found last.
    preferred: AtomicUsize,
}

impl<D: Dialect> Opener<D> {
    /// To the servers of a checked configuration.
    pub(crate) fn new(config: &ServerConfig) -> Result<Self> {
        let mut servers = Vec::new();
        if config.socket.is_some() {
            servers.push(D::options(config, "localhost", D::PORT)?);
        } else {
            for server in &config.servers {
                let (host, port) = host_and_port(server, D::PORT)?;
                servers.push(D::options(config, host, port)?);
            }
        }
        let quiet = servers.into_iter().map(ConnectOptions::disable_statement_logging).collect();
        Ok(Self { servers: quiet, config: config.clone(), preferred: AtomicUsize::new(0) })
    }

    /// To where an application's pool leads.
    pub(crate) fn like(config: &ServerConfig, options: Options<D>) -> Self {
        Self { servers: vec![options], config: config.clone(), preferred: AtomicUsize::new(0) }
    }

    /// How to reach the server that was found last.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "PostgreSQL needs it"))]
    pub(crate) fn options(&self) -> &Options<D> {
        // There is at least one, see `new` and `ServerConfig::check`.
        &self.servers[self.preferred.load(Ordering::Relaxed)]
    }

    /// Longest time to open a connection.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "PostgreSQL needs it"))]
    pub(crate) const fn limit(&self) -> Duration {
        self.config.connect_timeout
    }

    /// Opens a connection to the first server that takes writes, within the time-out of each and the
    /// deadline of all.
    pub(crate) async fn open<L: Line<D>>(&self, clock: &Clock, deadline: Deadline) -> Result<L, Trouble> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = None;
        for at in (0..self.servers.len()).map(|step| (first + step) % self.servers.len()) {
            let left = deadline.remaining(clock).unwrap_or(Duration::MAX).min(self.config.connect_timeout);
            if last.is_some() && left.is_zero() {
                break;
            }
            match within(left, self.open_one(&self.servers[at]))
                .await
                .unwrap_or_else(|| Err(late(Doing::Opening)))
            {
                Ok(connection) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(trouble) => last = Some(trouble),
            }
        }
        Err(last.unwrap_or_else(|| late(Doing::Opening)))
    }

    async fn open_one<L: Line<D>>(&self, options: &Options<D>) -> Result<L, Trouble> {
        let opening = |error| classify::<D>(error, Doing::Opening);
        let mut line = L::open(options).await.map_err(opening)?;
        let connection = line.connection().await.map_err(opening)?;
        let (kind, message) = match D::set_up(connection, &self.config).await.map_err(opening)? {
            Fitness::Fit => return Ok(line),
            Fitness::ReadOnly => (
                ErrorKind::Unavailable,
                "the server takes no writes: it is a standby or replica, or set to read-only; name the server that takes writes, or several, of which the one that does is used",
            ),
            Fitness::SeveralWriters => (
                ErrorKind::Misconfigured,
                "the server is a node of a Galera cluster, whose nodes grant the same lock at once, each by its own clock; use a server with one writer",
            ),
        };
        let error = Error::new(kind, message).with_effect(Effect::None);
        Err(Trouble { error, then: Then::Close })
    }
}

fn host_and_port(server: &str, default: u16) -> Result<(&str, u16)> {
    let wrong = || {
        let message =
            format!("`{server}` is no server; write for example `localhost` or `localhost:{default}`");
        Error::new(ErrorKind::InvalidOptions, message)
    };
    // What has several colons and no bracket is an IPv6 address without a port.
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().map_err(|_| wrong())?)
        }
        _ => (server, default),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() { Err(wrong()) } else { Ok((host, port)) }
}

impl<D: Dialect> fmt::Debug for Opener<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read() {
        for (server, host, port) in
            [("a", "a", 1), ("a:2", "a", 2), ("::1", "::1", 1), ("[::1]:2", "::1", 2), ("[::1]", "::1", 1)]
        {
            assert_eq!(host_and_port(server, 1).unwrap(), (host, port), "{server}");
        }
        for server in ["", ":5", "a:b"] {
            assert_eq!(host_and_port(server, 1).unwrap_err().kind(), ErrorKind::InvalidOptions);
        }
    }
}
