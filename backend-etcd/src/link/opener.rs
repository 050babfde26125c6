//! How connections are opened.

use std::time::Duration;

use distlock_core::Result;
use etcd_client::{Client, ConnectOptions};

use crate::config::EtcdConfig;
use crate::error::{Failure, classify};

/// How often a connection is asked for a sign of life. Servers refuse more than one ping in 5 s.
const PING_EVERY: Duration = Duration::from_secs(10);

/// How a connection to one member is opened.
#[derive(Clone)]
pub(super) struct Opener {
    options: ConnectOptions,
    /// Whether a user has to show who he is.
    asks: bool,
    scheme: &'static str,
}

impl Opener {
    pub(super) fn new(config: &EtcdConfig) -> Result<Self> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(config.connect_timeout)
            .with_keep_alive(PING_EVERY, config.response_timeout)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(user) = &config.user {
            options = options.with_user(user, config.password.clone().unwrap_or_default());
        }
        if config.tls {
            options = super::tls::secured(options, config)?;
        }
        Ok(Self { options, asks: config.user.is_some(), scheme: if config.tls { "https" } else { "http" } })
    }

    /// Whether opening is a request.
    pub(super) const fn asks(&self) -> bool {
        self.asks
    }

    /// Opens a connection. Without a user, nothing is sent before the first call.
    pub(super) async fn open(&self, server: &str) -> Result<Client, Failure> {
        let address = format!("{}://{server}", self.scheme);
        Client::connect([address], Some(self.options.clone())).await.map_err(|error| classify(error, server))
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
