//! The proxy's own thread: it accepts, refuses and resets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::connection::carry;
use super::settings::Shared;

/// What has to be done before the call that asked for it returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Reset,
    Refuse,
    Accept,
}

/// A port that stays the proxy's own while nobody listens on it: a bound socket that does not listen
/// keeps others away, and connects to it are refused.
#[derive(Debug)]
pub(super) struct Reservation {
    _bound: TcpSocket,
    address: SocketAddr,
}

impl Reservation {
    pub(super) fn new() -> io::Result<Self> {
        let bound = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = bound.local_addr()?;
        Ok(Self { _bound: bound, address })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        bind(self.address)?.listen(1024)
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Two sockets may then have the port, as long as at most one of them listens.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves until the proxy is dropped.
pub(super) async fn serve(
    reservation: Reservation,
    listener: TcpListener,
    target: SocketAddr,
    shared: Arc<Shared>,
    mut commands: mpsc::UnboundedReceiver<(Command, oneshot::Sender<()>)>,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            command = commands.recv() => {
                let Some((command, done)) = command else { return };
                match command {
                    Command::Refuse => listener = None,
                    Command::Accept if listener.is_none() => {
                        listener = Some(reservation.listen().expect("the port is reserved"));
                    }
                    Command::Accept => {}
                    Command::Reset => {
                        shared.change(|settings| settings.resets += 1);
                        while connections.join_next().await.is_some() {}
                    }
                }
                // Whoever asked may have been dropped.
                let _ = done.send(());
            }
            client = accept(listener.as_ref()) => {
                let Ok(client) = client else {
                    // Too many open files, most likely: that passes, but not at once.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                let number = shared.traffic().connections;
                shared.count(|traffic| (traffic.connections, traffic.open) = (number + 1, traffic.open + 1));
                let on = Arc::clone(&shared);
                // Counted here: a reset may come before the task has begun.
                let resets = shared.watch().borrow().resets;
                connections.spawn(async move {
                    carry(client, target, &on, number, resets).await;
                    on.count(|traffic| traffic.open -= 1);
                });
            }
            _ = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}
