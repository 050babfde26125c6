//! A session with the servers: the few calls that locks are made of.

mod beats;
mod client;
mod dial;
mod failure;
mod link;
mod open;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod watch;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::Instant;
use tokio::sync::watch::Receiver;

pub(crate) use beats::Beats;
pub(crate) use client::ClientSession;
pub(crate) use failure::{End, Failure};
pub(crate) use open::Opener;
pub(crate) use watch::{Event, Watch};

/// What a call gives.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A session with the servers, which has a node as long as it lives. Locks need no more of a client
/// than this.
///
/// - Every call ends within the time for an answer, and may be dropped at any point; what it asked
///   for may still happen.
/// - Calls reach the servers in the order in which they were begun.
#[async_trait]
pub(crate) trait Session: Debug + Send + Sync {
    /// Its number at the servers.
    fn id(&self) -> i64;

    /// How long it lives for sure.
    fn beats(&self) -> &Beats;

    /// Makes a node that ends with the session; the server adds a number to its name.
    async fn create_place(&self, prefix: &str, data: &[u8]) -> Outcome<Created>;

    /// Makes a node for a lock, which goes when its last child has gone. One that is there will do.
    async fn create_lock(&self, path: &str) -> Outcome<()>;

    /// Makes a node that stays, and those above it. One that is there will do.
    async fn create_folder(&self, path: &str) -> Outcome<()>;

    /// Writes a node's data, if it has this version; gives the new version and when the request left.
    async fn write(&self, path: &str, data: &[u8], version: i32) -> Outcome<(Written, Instant)>;

    /// Writes several nodes' data or none; on failure says which of them failed.
    async fn write_all(&self, writes: &[Write<'_>]) -> Result<Instant, (Option<usize>, Failure)>;

    /// Puts a node in another one's place, if nothing was made in the folder since that one; or does nothing.
    async fn succeed(&self, successor: &Successor<'_>) -> Outcome<Succession>;

    /// Writes a node and deletes another one, and says when that left; `None` if either is not as it was, and nothing was done.
    async fn relieve(&self, write: &Write<'_>, before: &str) -> Outcome<Option<Instant>>;

    /// Deletes a node, if it has this version; `None` is any.
    async fn delete(&self, path: &str, version: Option<i32>) -> Outcome<()>;

    /// A node's children together with another one, as of one moment.
    async fn children(&self, path: &str, beside: &str) -> Outcome<(Vec<String>, Option<Node>)>;

    /// A node.
    async fn read(&self, path: &str) -> Outcome<Node>;

    /// A node, and when it changes or ends.
    async fn read_and_watch(&self, path: &str) -> Outcome<(Node, Watch)>;

    /// When a node ends that has no children.
    async fn watch_end(&self, path: &str) -> Outcome<Watch>;

    /// Lets later reads see what the leader has done so far.
    async fn sync(&self, path: &str) -> Outcome<()>;

    /// A write that changes nothing, as a sign of life.
    async fn beat(&self, path: &str) -> Outcome<()>;

    /// How it is at the moment, and every change of that.
    fn condition(&self) -> Receiver<Condition>;

    /// Sees to it that there is a connection, until the session is over. Without it there is none.
    async fn drive(&self) -> End;
}

/// How a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Connected,
    Disconnected,
    Over(End),
}

/// A node that was made.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) path: String,
    /// The number of the transaction that made it.
    pub(crate) czxid: i64,
    /// Read before the request left.
    pub(crate) sent: Instant,
}

/// A node's data and what the server knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Vec<u8>,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
    /// The number of the transaction that last wrote it.
    pub(crate) mzxid: i64,
    /// The session it ends with.
    pub(crate) session: i64,
}

/// What a write made of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) version: i32,
    /// The number of the write's transaction.
    pub(crate) mzxid: i64,
}

/// One of several writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) path: &'a str,
    pub(crate) data: &'a [u8],
    pub(crate) version: i32,
}

/// A node that ends with the session, and what must be so that it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor<'a> {
    /// A node elsewhere that must have this version.
    pub(crate) beside: (&'a str, i32),
    /// The node that goes. It must be there.
    pub(crate) before: &'a str,
    /// The new node, up to the number that the server adds.
    pub(crate) prefix: &'a str,
    /// The new node with the number that comes next after that of `before`.
    pub(crate) path: &'a str,
    pub(crate) data: &'a [u8],
}

/// What became of a node that was to take another one's place.
#[derive(Clone, Debug)]
pub(crate) enum Succession {
    /// It did, and has been written once.
    Done(Created),
    /// The node beside has another version, and nothing was done.
    OtherVersion,
    /// It would have had another number, since something else was made there, and nothing was done.
    Followed,
    /// The node that was to go is gone already, and nothing was done.
    Gone,
}

/// The time limits of a session's calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longest time for an answer, with the wait for a connection.
    pub(crate) answer: Duration,
    /// Most calls under way at once.
    pub(crate) calls: usize,
}
