//! What can be hurt, and how.

use std::time::Duration;

use async_trait::async_trait;
use distlock_conformance::{Data, Server};

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Stopped with SIGSTOP, and let go on.
    Pause,
    /// Killed with SIGKILL, and started again on the data that it had.
    Restart,
    /// Killed with SIGKILL, and started again without data.
    RestartWiped,
    /// Cut off from the network in silence, and connected again.
    Cut,
    /// The wall clock set forward, and back again.
    Jump,
}

/// Somebody whom a [`Nemesis`](super::Nemesis) can hurt.
#[async_trait]
pub trait Target: Send + Sync {
    /// A name for the log.
    fn name(&self) -> String;

    /// Whether it can be hurt in this way.
    fn suffers(&self, action: Action) -> bool;

    /// How long it may suffer this at most, where most may for `usual`.
    fn longest(&self, action: Action, usual: Duration) -> Duration {
        let _ = action;
        usual
    }

    /// Begins the trouble.
    async fn begin(&self, action: Action);

    /// Makes it good. It is called once after each `begin`.
    async fn end(&self, action: Action);
}

#[async_trait]
impl<S: Server> Target for S {
    fn name(&self) -> String {
        Server::name(self).to_owned()
    }

    fn suffers(&self, action: Action) -> bool {
        !matches!(action, Action::Cut | Action::Jump)
    }

    async fn begin(&self, action: Action) {
        match action {
            Action::Pause => self.pause().await,
            _ => self.kill9().await,
        }
    }

    async fn end(&self, action: Action) {
        match action {
            Action::Pause => self.resume().await,
            Action::RestartWiped => self.restart(Data::Wiped).await,
            _ => self.restart(Data::Kept).await,
        }
    }
}
