//! What a proxy counts.

/// What went through a proxy since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that exist now.
    pub open: u64,
    /// Bytes delivered to the server.
    pub to_server: u64,
    /// Bytes delivered to clients.
    pub to_client: u64,
    /// Answers lost by [`Proxy::lose_next_reply`](super::Proxy::lose_next_reply).
    pub lost_replies: u64,
}
