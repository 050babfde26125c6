//! Opening connections.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use distlock_core::Result;
use spawns_core::{Spawn, Task};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use zookeeper_client::{Client, Error as ZkError, SessionInfo};

use super::link::Link;
use crate::config::ZkConfig;

/// Opens connections as a configuration says, to the servers of the moment. Clones share those.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    config: Box<ZkConfig>,
    servers: Arc<watch::Sender<Vec<String>>>,
    #[cfg(feature = "tls")]
    tls: Option<zookeeper_client::TlsOptions>,
}

impl Dialer {
    /// Reads the files for encryption, if that is wanted.
    pub(crate) fn new(config: &ZkConfig) -> Result<Self> {
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: super::tls::options(config)?,
            config: Box::new(config.clone()),
            servers: Arc::new(watch::Sender::new(config.servers.clone())),
        })
    }

    /// The servers, and every change of them.
    pub(super) fn servers(&self) -> watch::Receiver<Vec<String>> {
        self.servers.subscribe()
    }

    /// Opens connections to these servers from now on.
    pub(super) fn use_servers(&self, servers: Vec<String>) {
        self.servers.send_replace(servers);
    }

    /// Opens a connection of this session, or of a new one. Tries each server once.
    pub(super) async fn dial(&self, session: Option<SessionInfo>) -> std::result::Result<Link, ZkError> {
        let spawner = Owner::default();
        let mut connecting = pin!(self.connect(session));
        let client = poll_fn(|context| {
            // The client crate's task connects anew for ever, unless it is owned.
            let _scope = spawns_core::enter(&spawner);
            connecting.as_mut().poll(context)
        })
        .await?;
        Ok(Link::new(client, spawner.take()))
    }

    async fn connect(&self, session: Option<SessionInfo>) -> std::result::Result<Client, ZkError> {
        let config = &self.config;
        let mut connector =
            Client::connector().with_session_timeout(config.session_timeout).with_fail_eagerly();
        if let Some(session) = session {
            connector = connector.with_session(session);
        }
        if let (Some(user), Some(password)) = (&config.user, &config.password) {
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        let servers = self.servers.borrow().join(",");
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return connector.with_tls(tls.clone()).secure_connect(&servers).await;
        }
        connector.connect(&servers).await
    }
}

/// Runs the client crate's task on tokio, and keeps hold of it.
#[derive(Debug, Default)]
struct Owner(Mutex<Option<AbortHandle>>);

impl Owner {
    fn take(&self) -> Option<AbortHandle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Spawn for Owner {
    fn spawn(&self, task: Task) {
        #[expect(
            clippy::disallowed_methods,
            reason = "one task serves the connection; it is aborted with it, or ends after closing the session"
        )]
        let task = tokio::spawn(Box::into_pin(task.future));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
    }
}
