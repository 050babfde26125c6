//! Hearing of releases on all nodes.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;

use super::State;
use super::view::View;
use crate::connection::subscription::{Plain, Subscription, ping};
use crate::connection::{Failure, Pushes, Server};
use crate::hash_slot::slot_of;
use crate::names::Names;

/// Listens to each group's channel on the node that has it; where the nodes don't know such channels
/// (before version 7), to the channel for everybody on one node, to which the others pass on.
pub(super) async fn open(
    state: &Arc<State>,
    names: &Names,
    pushes: Pushes,
) -> Result<Box<dyn Subscription>, Failure> {
    let first = state.owner(None).await?;
    let view = state.view.borrow().clone();
    let mut shares = HashMap::<String, (Server, Vec<Vec<u8>>)>::new();
    for channel in names.shard_channels() {
        let Some(owner) = view.owner(Some(slot_of(&channel))) else { continue };
        let share = shares.entry(owner.address.clone()).or_insert_with(|| (owner.server.clone(), Vec::new()));
        share.1.push(channel);
    }
    let opened = shares.into_values().map(|(server, channels)| listen(server, channels, Arc::clone(&pushes)));
    match futures_util::future::try_join_all(opened).await {
        Ok(connections) => {
            Ok(Box::new(Following { connections, plain: None, view, state: Arc::clone(state) }))
        }
        Err(failure) if knows_no_shards(&failure) => {
            let plain = Some(Plain::open(first.server.opener(), names, pushes).await?);
            Ok(Box::new(Following { connections: Vec::new(), plain, view, state: Arc::clone(state) }))
        }
        Err(failure) => Err(failure),
    }
}

async fn listen(
    server: Server,
    channels: Vec<Vec<u8>>,
    pushes: Pushes,
) -> Result<MultiplexedConnection, Failure> {
    let mut connection = server.opener().listen(pushes).await.map_err(Failure::unsent)?;
    let mut commands = redis::pipe();
    for channel in channels {
        commands.cmd("SSUBSCRIBE").arg(channel);
    }
    let answers = connection.send_packed_commands(&commands, 0, commands.len()).await;
    for answer in answers.map_err(Failure::unsent)? {
        answer.extract_error().map_err(Failure::unsent)?;
    }
    Ok(connection)
}

fn knows_no_shards(failure: &Failure) -> bool {
    failure.error.code() == Some("ERR")
        && failure.error.detail().is_some_and(|text| text.contains("unknown command"))
}

/// Subscriptions on several nodes, for as long as all slots are where they were.
#[derive(Debug)]
struct Following {
    connections: Vec<MultiplexedConnection>,
    plain: Option<Plain>,
    view: View,
    state: Arc<State>,
}

#[async_trait]
impl Subscription for Following {
    async fn is_alive(&mut self) -> bool {
        if !self.state.view.borrow().agrees(&self.view) {
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
