//! Following who has which slots.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{RedisResult, Value};

use super::State;
use super::listing::Listing;
use crate::connection::{Link, timed_out, within};

/// How often the nodes are asked although no call found anything wrong.
const WELL: Duration = Duration::from_secs(15);
/// How often they are asked while none answers.
const UNWELL: Duration = Duration::from_millis(250);
/// How many nodes are asked at most, …
const ASKED: usize = 6;
/// … and how many answers are enough: the newest counts, and the next call finds out if it was old.
const ENOUGH: usize = 3;

/// Keeps the view true until the link is closed.
pub(super) async fn keep(state: &Arc<State>) {
    while !state.view.borrow().is_closed {
        let moved = std::mem::take(&mut *state.moved());
        let listings = ask(state, moved.iter().map(|(_, _, to)| to.clone()).collect()).await;
        let rest = if listings.is_ok() { WELL } else { UNWELL };
        let mut view = state.view.borrow().clone();
        match listings {
            Ok(listings) => {
                let denials: Vec<_> = moved.into_iter().map(|(slot, by, _)| (slot, by)).collect();
                let slots = state.slots.iter().copied();
                view.learn(slots, &listings, &denials, |address| state.server(address).ok());
                forget(state, &view.nodes);
            }
            Err(error) => view.trouble = Some(error),
        }
        state.view.send_if_modified(|now| {
            // Closing is for good.
            let is_open = !now.is_closed;
            if is_open {
                *now = view;
            }
            is_open
        });
        state.keeper.rest(rest).await;
    }
}

/// Asks some nodes, first those that others named.
async fn ask(state: &State, first: Vec<String>) -> RedisResult<Vec<Listing>> {
    let known = state.view.borrow().nodes.clone();
    let mut others: Vec<_> = known.iter().chain(&state.config.servers).collect();
    fastrand::shuffle(&mut others);
    let mut seen = HashSet::new();
    let nodes: Vec<_> =
        first.iter().chain(others).filter(|address| seen.insert(*address)).take(ASKED).collect();
    let enough = ENOUGH.min(nodes.len());
    let mut asked: FuturesUnordered<_> = nodes.into_iter().map(|node| ask_node(state, node)).collect();
    let (mut listings, mut trouble) = (Vec::new(), None);
    while listings.len() < enough
        && let Some(answer) = asked.next().await
    {
        match answer {
            Ok(listing) => listings.push(listing),
            // What somebody has to change tells more than who is down.
            Err(error) if trouble.as_ref().is_none_or(redis::RedisError::is_io_error) => {
                trouble = Some(error)
            }
            Err(_) => {}
        }
    }
    if listings.is_empty() { Err(trouble.unwrap_or_else(timed_out)) } else { Ok(listings) }
}

async fn ask_node(state: &State, address: &str) -> RedisResult<Listing> {
    let server = state.server(address).map_err(|failure| failure.error)?;
    let mut command = redis::cmd("CLUSTER");
    command.arg("NODES");
    let asking = within(state.config.connect_timeout, server.send(&command, None)).await;
    let text = match asking.ok_or_else(timed_out)?.map_err(|failure| failure.error)? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    };
    Ok(Listing::read(&text, address, state.config.tls))
}

/// Drops the connections to nodes that have left.
fn forget(state: &State, nodes: &HashSet<String>) {
    let mut servers = state.servers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    servers.retain(|address, _| nodes.contains(address) || state.config.servers.contains(address));
}
