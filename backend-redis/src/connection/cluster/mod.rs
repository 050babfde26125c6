//! A Cluster, whose nodes share the slots among them.

mod keep;
mod listing;
mod subscription;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use distlock_core::Result as CoreResult;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::watch;

use super::call::{Call, answers};
use super::keeper::{Doubt, Keeper, Kept};
use super::retry::{Patience, is_lasting, shows_the_right_server};
use super::{Failure, Link, Node, Opener, Pushes, Server, Subscription, timed_out, within};
use crate::config::RedisConfig;
use crate::hash_slot::slot_of;
use crate::names::Names;
use view::{Owner, View};

/// A Cluster, whose nodes share the slots among them.
///
/// One task asks the nodes who has what, whenever a call finds that something is not as it was; calls
/// follow. `docs/adr/0010-redis-cluster-connections.md` says why the client crate's own Cluster connection
/// is not used.
#[derive(Debug)]
pub(crate) struct Cluster(Arc<State>);

#[derive(Debug)]
struct State {
    config: RedisConfig,
    slots: Vec<u16>,
    /// Slots of something else than locks that calls were for.
    others: Mutex<BTreeSet<u16>>,
    keeper: Keeper,
    view: watch::Sender<View>,
    servers: Mutex<HashMap<String, Server>>,
    /// Slots that a node said it does not have, the node, and who has them by its word.
    moved: Mutex<Vec<(u16, String, String)>>,
    /// Whose turn it is to answer what any node can.
    turn: AtomicUsize,
}

impl Cluster {
    pub(crate) fn new(config: &RedisConfig, names: &Names) -> CoreResult<Self> {
        let mut servers = HashMap::new();
        for address in &config.servers {
            servers.insert(address.clone(), Server::new(Opener::new(config, address)?));
        }
        Ok(Self(Arc::new(State {
            config: config.clone(),
            slots: names.slots().collect(),
            others: Mutex::default(),
            keeper: Keeper::default(),
            view: watch::Sender::default(),
            servers: Mutex::new(servers),
            moved: Mutex::default(),
            turn: AtomicUsize::new(0),
        })))
    }
}

impl State {
    /// The node that has the slot, as soon as that is known.
    async fn owner(self: &Arc<Self>, slot: Option<u16>) -> Result<Arc<Owner>, Failure> {
        Keeper::start(self);
        if let Some(owner) = self.view.borrow().owner(slot) {
            return Ok(Arc::clone(owner));
        }
        if let Some(slot) = slot
            && !self.slots.contains(&slot)
            && self.others().insert(slot)
        {
            self.keeper.ring();
        }
        let mut views = self.view.subscribe();
        let known = views.wait_for(|view| {
            view.is_closed || view.owner(slot).is_some() || view.trouble.as_ref().is_some_and(is_lasting)
        });
        within(self.config.connect_timeout, known).await;
        let view = self.view.borrow();
        match view.owner(slot) {
            _ if view.is_closed => Err(Failure::closed()),
            Some(owner) => Ok(Arc::clone(owner)),
            None => Err(Failure::unsent(view.trouble.clone().unwrap_or_else(timed_out))),
        }
    }

    /// Sends a call to the slot's owner, for as long as it is the owner.
    async fn send(self: &Arc<Self>, call: Call<'_>, slot: Option<u16>) -> Result<Value, Failure> {
        let patience = Patience::new(self.config.response_timeout);
        loop {
            match self.send_once(call, slot).await {
                Err(failure) if patience.bears(&failure) => patience.pause().await,
                result => return result,
            }
        }
    }

    async fn send_once(self: &Arc<Self>, call: Call<'_>, slot: Option<u16>) -> Result<Value, Failure> {
        let mut owner = self.owner(slot).await?;
        if slot.is_none() {
            // Any will do; one that is down must not be the only one that is tried.
            owner = self.view.borrow().any(self.turn.fetch_add(1, Ordering::Relaxed)).unwrap_or(owner);
        }
        let doubt = Doubt::new(&self.keeper);
        let live = tokio::select! {
            biased;
            () = self.replaced(slot, &owner) => return Err(Failure::unsent(Failure::taken_over().error)),
            live = call.connection(&owner.server).ready() => live?,
        };
        let result = tokio::select! {
            biased;
            () = self.replaced(slot, &owner) => Err(Failure::taken_over()),
            result = call.send(&live) => result,
        };
        if let Err(failure) = &result
            && slot.is_some()
        {
            if failure.error.code() == Some("ASK")
                && let Some((address, _)) = failure.error.redirect_node()
            {
                let address = full_address(address, &owner.address);
                doubt.dispel();
                let server = self.server(&address)?;
                return call.ask(&*call.connection(&server).ready().await?).await;
            }
            self.note_moved(&failure.error, &owner);
        }
        if shows_the_right_server(&result) {
            doubt.dispel();
        }
        result
    }

    /// Takes down who has a slot by the word of a node that does not.
    fn note_moved(&self, error: &RedisError, owner: &Owner) {
        if error.code() == Some("MOVED")
            && let Some((address, slot)) = error.redirect_node()
        {
            let address = full_address(address, &owner.address);
            self.moved().push((slot, owner.address.clone(), address));
        }
    }

    /// Resolves when the slot has another owner, or the link is closed.
    async fn replaced(&self, slot: Option<u16>, owner: &Owner) {
        let is_other = |view: &View| {
            let has_other = |slot| view.owner(Some(slot)).is_some_and(|now| now.address != owner.address);
            view.is_closed || slot.is_some_and(has_other)
        };
        // The sender lives as long as `self`.
        let _ = self.view.subscribe().wait_for(is_other).await;
    }

    fn server(&self, address: &str) -> Result<Server, Failure> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked behind the lock: what stands in the map by then is dropped by whoever closes.
        if self.view.borrow().is_closed {
            return Err(Failure::closed());
        }
        if let Some(server) = servers.get(address) {
            return Ok(server.clone());
        }
        let opener = Opener::new(&self.config, address).map_err(|_| {
            Failure::unsent(std::io::Error::other("a node names an address that can't be read").into())
        })?;
        let server = Server::new(opener);
        servers.insert(address.to_owned(), server.clone());
        Ok(server)
    }

    fn others(&self) -> std::sync::MutexGuard<'_, BTreeSet<u16>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self) -> std::sync::MutexGuard<'_, Vec<(u16, String, String)>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.view.send_modify(|view| *view = View { is_closed: true, ..View::default() });
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.keeper.ring();
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
impl Link for Cluster {
    async fn send(&self, command: &Cmd, key: Option<&[u8]>) -> Result<Value, Failure> {
        self.0.send(Call::One(command), key.map(slot_of)).await
    }

    async fn send_aside(&self, commands: &Pipeline, key: &[u8]) -> Result<Vec<Value>, Failure> {
        self.0.send(Call::Aside(commands), Some(slot_of(key))).await.map(answers)
    }

    async fn subscribe(&self, names: &Names, pushes: Pushes) -> Result<Box<dyn Subscription>, Failure> {
        let doubt = Doubt::new(&self.0.keeper);
        let subscription = subscription::open(&self.0, names, pushes).await?;
        doubt.dispel();
        Ok(subscription)
    }

    async fn nodes(&self) -> Result<Vec<Node>, Failure> {
        self.0.owner(None).await?;
        let view = self.0.view.borrow();
        if view.owners.len() < self.0.slots.len() {
            let trouble = std::io::Error::other("some slots of the Cluster belong to no node");
            return Err(Failure::unsent(view.trouble.clone().unwrap_or_else(|| trouble.into())));
        }
        let addresses: BTreeSet<_> = view.owners.values().map(|owner| &owner.address).collect();
        Ok(addresses.into_iter().cloned().map(Node).collect())
    }

    async fn send_to(&self, node: &Node, command: &Cmd) -> Result<Value, Failure> {
        self.0.server(&node.0)?.send(command, None).await
    }

    fn slot(&self, key: &[u8]) -> u16 {
        slot_of(key)
    }

    fn home(&self, key: &[u8]) -> Node {
        let view = self.0.view.borrow();
        view.owner(Some(slot_of(key))).map(|owner| Node(owner.address.clone())).unwrap_or_default()
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A redirection without a host means the node that gave it.
fn full_address(redirection: &str, from: &str) -> String {
    match (redirection.strip_prefix(':'), from.rsplit_once(':')) {
        (Some(port), Some((host, _))) => format!("{host}:{port}"),
        _ => match redirection.rsplit_once(':') {
            Some((host, port)) if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
            _ => redirection.to_owned(),
        },
    }
}
