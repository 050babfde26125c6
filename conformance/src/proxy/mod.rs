//! A TCP proxy that makes trouble on demand.

mod connection;
mod pump;
mod serve;
mod settings;
#[cfg(test)]
mod tests;
mod traffic;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use serve::{Command, Reservation};
pub use settings::Way;
use settings::{Flow, Shared};
pub use traffic::Traffic;

/// A TCP proxy in front of one address of a server, whose behaviour is changed while it runs.
///
/// It knows no protocol. It listens on a free port of 127.0.0.1, runs in a thread of its own, so that
/// it outlives every runtime that uses it, and ends with all its connections when it is dropped.
/// A server with several addresses takes several proxies.
///
/// Settings act on the connections that exist and on later ones, and stay until [`Proxy::pass`].
/// Bytes that are in the kernel's buffers behind the proxy are out of its reach.
///
/// # What it can't do
/// It lives above TCP. It loses no packets, a connect is answered by the kernel even under
/// [`Proxy::silence`], and when the server refuses, clients see their connection accepted and reset.
pub struct Proxy {
    address: SocketAddr,
    target: SocketAddr,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<(Command, oneshot::Sender<()>)>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// How long a duplicate waits for an answer.
const ANSWER: Duration = Duration::from_secs(1);

impl Proxy {
    /// Starts a proxy in front of `target`. Needs no runtime.
    ///
    /// # Errors
    /// The name does not resolve, or there is no free port or thread.
    pub fn start(target: impl ToSocketAddrs) -> io::Result<Self> {
        let target = target.to_socket_addrs()?.next().ok_or_else(|| {
            io::Error::new(io::ErrorKind::AddrNotAvailable, "the target's name has no address")
        })?;
        let shared = Arc::new(Shared::default());
        let (commands, incoming) = mpsc::unbounded_channel();
        let (ready, started) = std::sync::mpsc::channel();
        let on = Arc::clone(&shared);
        std::thread::Builder::new().name("fault proxy".to_owned()).spawn(move || {
            // Sent is what whoever starts it waits for.
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return ready.send(Err(error)),
            };
            runtime.block_on(async {
                match Reservation::new().and_then(|port| port.listen().map(|listener| (port, listener))) {
                    Ok((port, listener)) => {
                        ready.send(Ok(port.address()))?;
                        serve::serve(port, listener, target, on, incoming).await;
                        Ok(())
                    }
                    Err(error) => ready.send(Err(error)),
                }
            })
        })?;
        let address = started.recv().expect("the thread answers before anything else")?;
        Ok(Self { address, target, shared, commands })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it forwards to.
    #[must_use]
    pub const fn target(&self) -> SocketAddr {
        self.target
    }

    /// What went through it so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.traffic()
    }

    /// Forwards everything again. What was held is delivered. A connection that lost bytes to
    /// [`Proxy::silence`] has a hole in its stream and stays silent until either end closes it.
    /// Does not undo [`Proxy::refuse`]; see [`Proxy::accept`].
    pub fn pass(&self) {
        self.shared.change(|settings| *settings = settings.passing());
    }

    /// Delivers each byte of this way by `by` later, and by a random part of `jitter` on top. Bytes
    /// keep their order, and as many get through as before.
    pub fn delay(&self, way: Way, by: Duration, jitter: Duration) {
        self.shared.change(|settings| {
            let way = settings.way(way);
            (way.delay, way.jitter) = (by, jitter);
        });
    }

    /// Swallows what goes this way, as a network does that drops every packet: the sockets stay open,
    /// and the end of a connection is swallowed too.
    pub fn silence(&self, way: Way) {
        self.shared.change(|settings| settings.way(way).flow = Flow::Silent);
    }

    /// Keeps what goes this way, up to 1 MiB for each connection, until [`Proxy::pass`].
    pub fn hold(&self, way: Way) {
        self.shared.change(|settings| settings.way(way).flow = Flow::Held);
    }

    /// Resets each connection when this many more bytes have gone this way on it.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.shared.change(|settings| settings.cut_after(way, bytes));
    }

    /// Forwards the next bytes that a client sends on one of the connections that exist now, and resets
    /// that connection when the server begins to answer; what it answers is dropped. Once; the next
    /// call arms it again. Later connections are spared, and so are their handshakes.
    ///
    /// On a connection with several requests under way it may be the answer to an earlier one that
    /// is cut, and the later ones may be cut off before the server sees them.
    pub fn lose_next_reply(&self) {
        let accepted = self.traffic().connections;
        self.shared.change(|settings| settings.arm(accepted));
    }

    /// Resets all connections, and returns when they are gone. The bytes on their way are lost.
    pub async fn reset(&self) {
        self.command(Command::Reset).await;
    }

    /// Refuses new connections, and returns when it does. Its port stays its own.
    pub async fn refuse(&self) {
        self.command(Command::Refuse).await;
    }

    /// Accepts connections again, on the same port.
    pub async fn accept(&self) {
        self.command(Command::Accept).await;
    }

    /// Sends the request bytes that were held last ([`Proxy::hold`] with [`Way::ToServer`], whether
    /// or not they have been delivered since) to the server once more, on a connection of their own,
    /// and returns how many those were. It waits for the beginning of an answer, for at most a second.
    ///
    /// That doubles a request only in protocols where a request means the same on a fresh connection:
    /// not after a login or a chosen database, not inside TLS, and not if a request was split over
    /// several reads, of which only the last is sent. A batch of requests that were read in one piece
    /// is doubled as a whole.
    ///
    /// # Errors
    /// The server can't be reached, or nothing was held so far.
    pub async fn duplicate(&self) -> io::Result<usize> {
        let bytes = self.shared.last_held().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "no request was held; call `hold` before it is sent")
        })?;
        let mut stream = TcpStream::connect(self.target).await?;
        stream.write_all(&bytes).await?;
        // Silence is an answer too: the request may wait for something.
        let _ = tokio::time::timeout(ANSWER, stream.read(&mut [0; 512])).await;
        Ok(bytes.len())
    }

    async fn command(&self, command: Command) {
        let (done, obeyed) = oneshot::channel();
        self.commands.send((command, done)).expect("the proxy's thread lives as long as the proxy");
        obeyed.await.expect("the proxy's thread lives as long as the proxy");
    }
}
