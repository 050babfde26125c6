//! Hearing of releases on all nodes.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind};

use super::State;
use super::view::{Owner, View};
use crate::connection::retry::is_lasting;
use crate::connection::subscription::{Plain, Subscription, ping};
use crate::connection::{Failure, Pushes};
use crate::hash_slot::slot_of;
use crate::names::Names;

/// Listens to each group's channel on the node that has it, and on one of the nodes to the channel for
/// everybody, to which a release is passed on whose group nobody listens to where it happens. Nodes that
/// don't know channels of groups (before version 7) pass everything on to that one.
pub(super) async fn open(
    state: &Arc<State>,
    names: &Names,
    pushes: Pushes,
) -> Result<Box<dyn Subscription>, Failure> {
    let first = state.owner(None).await?;
    let view = state.view.borrow().clone();
    let mut shares = HashMap::<String, Share>::new();
    for channel in names.shard_channels() {
        let Some(owner) = view.owner(Some(slot_of(&channel))) else { continue };
        let share = shares.entry(owner.address.clone()).or_insert_with(|| Share::of(owner));
        share.groups.push(channel);
    }
    if let Some(share) = shares.values_mut().next() {
        share.everybody = Some(names.listening_channel());
    }
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_cut);
    let pushes: Pushes = Arc::new(move |push: PushInfo| {
        // The node does not have the slot any more.
        if push.kind == PushKind::SUnsubscribe {
            cut.store(true, Ordering::Release);
        }
        pushes(push);
    });
    let mut following = Following {
        connections: Vec::new(),
        deaf: Vec::new(),
        plain: None,
        view,
        is_cut,
        pushes,
        state: Arc::clone(state),
    };
    let shares = shares.into_values().collect();
    match following.listen(shares).await {
        Err(failure) if knows_no_shards(&failure) => {
            following.connections.clear();
            let pushes = Arc::clone(&following.pushes);
            following.plain = Some(Plain::open(first.server.opener(), names, pushes).await?);
        }
        result => result?,
    }
    Ok(Box::new(following))
}

/// What is listened to on one node.
#[derive(Clone, Debug)]
struct Share {
    owner: Arc<Owner>,
    groups: Vec<Vec<u8>>,
    everybody: Option<Vec<u8>>,
}

impl Share {
    fn of(owner: &Arc<Owner>) -> Self {
        Self { owner: Arc::clone(owner), groups: Vec::new(), everybody: None }
    }
}

async fn listen(state: &State, share: &Share, pushes: Pushes) -> Result<MultiplexedConnection, Failure> {
    let mut connection = share.owner.server.opener().listen(pushes).await.map_err(Failure::unsent)?;
    let mut commands = redis::pipe();
    for channel in &share.groups {
        commands.cmd("SSUBSCRIBE").arg(channel);
    }
    if let Some(channel) = &share.everybody {
        commands.cmd("SUBSCRIBE").arg(channel);
    }
    let answers = connection.send_packed_commands(&commands, 0, commands.len()).await;
    for answer in answers.map_err(Failure::unsent)? {
        if let Err(error) = answer.extract_error() {
            state.note_moved(&error, &share.owner);
            return Err(Failure::unsent(error));
        }
    }
    Ok(connection)
}

fn knows_no_shards(failure: &Failure) -> bool {
    failure.error.code() == Some("ERR")
        && failure.error.detail().is_some_and(|text| text.contains("unknown command"))
}

/// Subscriptions on several nodes, for as long as all slots are where they were.
struct Following {
    connections: Vec<MultiplexedConnection>,
    /// Where nobody answered.
    deaf: Vec<Share>,
    plain: Option<Plain>,
    view: View,
    /// A node has stopped to tell of some group.
    is_cut: Arc<AtomicBool>,
    pushes: Pushes,
    state: Arc<State>,
}

impl Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").field("deaf", &self.deaf).finish_non_exhaustive()
    }
}

impl Following {
    /// Listens on as many nodes as answer, and fails if none does: one that is down must not keep the
    /// others' releases from being heard.
    async fn listen(&mut self, shares: Vec<Share>) -> Result<(), Failure> {
        let opened = shares.iter().map(|share| listen(&self.state, share, Arc::clone(&self.pushes)));
        let opened = futures_util::future::join_all(opened).await;
        let mut trouble = None;
        for (opened, share) in opened.into_iter().zip(shares) {
            match opened {
                Ok(connection) => self.connections.push(connection),
                // It has something to say, which another try has to heed.
                Err(failure) if failure.error.code().is_some() || is_lasting(&failure.error) => {
                    return Err(failure);
                }
                Err(failure) => {
                    self.deaf.push(share);
                    trouble = Some(failure);
                }
            }
        }
        if let Some(failure) = trouble {
            self.state.keeper.ring();
            if self.connections.is_empty() {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Whether a node that did not answer does so now; then everything is begun anew.
    async fn is_back(&self) -> bool {
        let again = self.deaf.iter().map(|share| listen(&self.state, share, Arc::new(|_| {})));
        futures_util::future::join_all(again).await.iter().any(Result::is_ok)
    }
}

#[async_trait]
impl Subscription for Following {
    async fn is_alive(&mut self) -> bool {
        if !self.state.view.borrow().agrees(&self.view) {
            return false;
        }
        if self.is_cut.load(Ordering::Acquire) {
            self.state.keeper.ring();
            return false;
        }
        if self.is_back().await {
            return false;
        }
        let pings = futures_util::future::join_all(self.connections.iter_mut().map(ping)).await;
        let is_alive = pings.iter().all(Result::is_ok)
            && match &mut self.plain {
                Some(plain) => plain.is_alive().await,
                None => true,
            };
        if !is_alive {
            self.state.keeper.ring();
        }
        is_alive
    }

    async fn outdated(&mut self) {
        let view = &self.view;
        // The sender lives as long as the state.
        let _ = self.state.view.subscribe().wait_for(|now| !now.agrees(view)).await;
    }
}
