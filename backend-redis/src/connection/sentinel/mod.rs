//! The master that Sentinels name.

mod keep;
mod panel;

use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::Result as CoreResult;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::watch;

use super::call::{Call, answers};
use super::keeper::{Doubt, Keeper, Kept};
use super::retry::{Patience, is_lasting, shows_the_right_server};
use super::subscription::{Plain, Subscription};
use super::{Failure, Link, Pushes, Server, timed_out, within};
use crate::config::RedisConfig;
use crate::names::Names;
use panel::Panel;

/// The master that Sentinels name.
///
/// One task asks them, listens to them, and says whom to use; calls follow. A call under way when
/// another master is named ends, and what the old one may still answer does not count.
#[derive(Debug)]
pub(crate) struct Sentinel(Arc<State>);

#[derive(Debug)]
struct State {
    config: RedisConfig,
    panel: tokio::sync::Mutex<Panel>,
    keeper: Keeper,
    view: watch::Sender<View>,
}

/// Whom to use.
#[derive(Clone, Debug)]
enum View {
    /// Nobody is known; why, if that is known.
    Seeking(Option<RedisError>),
    Master(Arc<Master>),
    Closed,
}

/// A master, for as long as it is one.
#[derive(Debug)]
struct Master {
    address: String,
    /// Of the Sentinels' configuration: it rises with every failover.
    epoch: u64,
    server: Server,
}

impl Sentinel {
    pub(crate) fn new(config: &RedisConfig, master: &str) -> CoreResult<Self> {
        Ok(Self(Arc::new(State {
            config: config.clone(),
            panel: tokio::sync::Mutex::new(Panel::new(config, master)?),
            keeper: Keeper::default(),
            view: watch::Sender::new(View::Seeking(None)),
        })))
    }
}

impl State {
    /// The master, as soon as one is known.
    async fn master(self: &Arc<Self>) -> Result<Arc<Master>, Failure> {
        Keeper::start(self);
        if let View::Master(master) = &*self.view.borrow() {
            return Ok(Arc::clone(master));
        }
        let mut views = self.view.subscribe();
        let known = views.wait_for(|view| match view {
            View::Seeking(trouble) => trouble.as_ref().is_some_and(is_lasting),
            View::Master(_) | View::Closed => true,
        });
        within(self.config.connect_timeout, known).await;
        match &*self.view.borrow() {
            View::Master(master) => Ok(Arc::clone(master)),
            View::Seeking(trouble) => Err(Failure::unsent(trouble.clone().unwrap_or_else(timed_out))),
            View::Closed => Err(Failure::closed()),
        }
    }

    /// Sends a call to the master, for as long as it is the master.
    async fn send(self: &Arc<Self>, call: Call<'_>) -> Result<Value, Failure> {
        let patience = Patience::new(self.config.response_timeout);
        loop {
            match self.send_once(call).await {
                Err(failure) if patience.bears(&failure) => patience.pause().await,
                result => return result,
            }
        }
    }

    async fn send_once(self: &Arc<Self>, call: Call<'_>) -> Result<Value, Failure> {
        let master = self.master().await?;
        let doubt = Doubt::new(&self.keeper);
        let live = tokio::select! {
            biased;
            () = self.replaced(&master) => return Err(Failure::unsent(Failure::taken_over().error)),
            live = call.connection(&master.server).ready() => live?,
        };
        let result = tokio::select! {
            biased;
            () = self.replaced(&master) => Err(Failure::taken_over()),
            result = call.send(&live) => result,
        };
        if shows_the_right_server(&result) {
            doubt.dispel();
        }
        result
    }

    /// Resolves when another master is known, or the link is closed.
    async fn replaced(&self, master: &Master) {
        let is_other = |view: &View| match view {
            View::Seeking(_) => false,
            View::Master(now) => !now.is_same(master),
            View::Closed => true,
        };
        // The sender lives as long as `self`.
        let _ = self.view.subscribe().wait_for(is_other).await;
    }

    fn close(&self) {
        if let View::Master(master) = self.view.send_replace(View::Closed) {
            master.server.close();
        }
        self.keeper.ring();
    }
}

impl Master {
    fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && self.epoch == other.epoch
    }
}

impl Kept for State {
    fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    async fn keep(self: Arc<Self>) {
        keep::keep(&self).await;
    }
}

#[async_trait]
impl Link for Sentinel {
    async fn send(&self, command: &Cmd, _key: Option<&[u8]>) -> Result<Value, Failure> {
        self.0.send(Call::One(command)).await
    }

    async fn send_aside(&self, commands: &Pipeline, _key: &[u8]) -> Result<Vec<Value>, Failure> {
        self.0.send(Call::Aside(commands)).await.map(answers)
    }

    async fn subscribe(&self, names: &Names, pushes: Pushes) -> Result<Box<dyn Subscription>, Failure> {
        let master = self.0.master().await?;
        let doubt = Doubt::new(&self.0.keeper);
        let plain = Plain::open(master.server.opener(), names, pushes).await?;
        doubt.dispel();
        Ok(Box::new(Following { plain, master, state: Arc::clone(&self.0) }))
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A subscription at the master, for as long as it is the master.
#[derive(Debug)]
struct Following {
    plain: Plain,
    master: Arc<Master>,
    state: Arc<State>,
}

#[async_trait]
impl Subscription for Following {
    async fn is_alive(&mut self) -> bool {
        let doubt = Doubt::new(&self.state.keeper);
        let is_alive = tokio::select! {
            biased;
            () = self.state.replaced(&self.master) => false,
            is_alive = self.plain.is_alive() => is_alive,
        };
        if is_alive {
            doubt.dispel();
        }
        is_alive
    }

    async fn outdated(&mut self) {
        self.state.replaced(&self.master).await;
    }
}
