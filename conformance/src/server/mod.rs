//! Servers that can be killed, frozen and started again.

mod command;
mod port;
mod process;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use async_trait::async_trait;

pub use command::ServerCommand;
pub use port::free_port;
pub use process::ServerProcess;

/// A server under test. [`ServerProcess`] is one for a program on this machine; implement it for
/// anything else that can be hurt from here.
///
/// Each method returns when what it says is done, and panics, with what it knows, when that fails.
#[async_trait]
pub trait Server: Debug + Send + Sync + 'static {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Ends it as a power cut would: it gets no chance to write anything.
    async fn kill9(&self);

    /// Freezes it: connections stay open, and what is sent to it waits.
    async fn pause(&self);

    /// Ends [`Server::pause`]. What was sent meanwhile is carried out now, even if the sender left.
    async fn resume(&self);

    /// Kills it if it runs, starts it on these data, and returns when it serves again.
    async fn restart(&self, data: Data);
}

/// What becomes of a server's data in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "they are there or they are not")]
pub enum Data {
    /// As they were on disk when it was killed.
    Kept,
    /// Gone, as with a new disk.
    Wiped,
}
