//! Which servers may vote: those that are fit, and not another one under a second name.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Result};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::Quorum;
use super::ballot::majority;
use super::node::Node;
use crate::connection::within;

/// How long to wait for the others when a majority has been looked at.
const GRACE: Duration = Duration::from_millis(500);

impl Quorum {
    /// Looks at all servers. Those that can't be reached, or are slow, are looked at when they can.
    pub(super) async fn admit_all(&self, limit: Duration) -> Result<()> {
        let ask = |(at, node)| async move { (at, identify(node, limit).await) };
        let mut asked: FuturesUnordered<_> = self.nodes.iter().enumerate().map(ask).collect();
        let mut failures = Vec::new();
        let mut seen: Vec<(String, usize)> = Vec::new();
        self.nodes.iter().for_each(|node| node.was_slow());
        let mut deadline = self.timers.shared_limit(limit);
        loop {
            match deadline.run(asked.next()).await.flatten() {
                Some((at, Ok(id))) => {
                    if let Some((_, other)) = seen.iter().find(|(seen, _)| *seen == id) {
                        return Err(same(&self.nodes[at], &self.nodes[*other]));
                    }
                    self.nodes[at].answered();
                    seen.push((id, at));
                    if seen.len() == majority(self.nodes.len()) {
                        deadline = self.timers.shared_limit(GRACE);
                    }
                }
                Some((at, Err(error))) if error.is_retryable() => failures.push((at, error)),
                Some((at, Err(error))) => return Err(of_node(&self.nodes[at], &error)),
                None => break,
            }
        }
        if seen.len() < majority(self.nodes.len()) {
            return Err(self.unavailable(&failures));
        }
        for (_, at) in seen {
            self.nodes[at].admit();
        }
        Ok(())
    }

    /// Lets a server vote that could not be reached before.
    pub(super) async fn admit(&self, node: &Arc<Node>, limit: Duration) -> Result<()> {
        if node.is_admitted() {
            return Ok(());
        }
        // Boxed: it hardly ever runs, and would make each call large.
        Box::pin(self.look_at(node, limit)).await
    }

    async fn look_at(&self, node: &Arc<Node>, limit: Duration) -> Result<()> {
        let id = node.identify().await?;
        let others = self.nodes.iter().filter(|other| !Arc::ptr_eq(other, node));
        // Who does not answer now is not the one that has just answered.
        let ids = join_all(others.map(async |other| (other, identify(other, limit).await))).await;
        match ids.iter().find(|(_, other)| other.as_ref().is_ok_and(|other| *other == id)) {
            Some((other, _)) => Err(same(node, other)),
            None => {
                node.admit();
                Ok(())
            }
        }
    }
}

async fn identify(node: &Arc<Node>, limit: Duration) -> Result<String> {
    within(limit, node.identify()).await.unwrap_or_else(|| {
        Err(Error::new(ErrorKind::Unavailable, "the server did not answer in time").with_effect(Effect::None))
    })
}

fn same(node: &Node, other: &Node) -> Error {
    let message = format!(
        "{} and {} are the same server, which would have two votes; name servers that fail independently of each other",
        other.name, node.name
    );
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None)
}

fn of_node(node: &Node, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {}", node.name, error.message())).with_effect(error.effect())
}
