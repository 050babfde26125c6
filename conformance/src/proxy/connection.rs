//! One connection through the proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use tokio::net::TcpStream;

use super::pump::{End, Pump};
use super::settings::{Shared, Way};

/// Carries one connection to its end, which the next reset after `resets` of them brings about.
pub(super) async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    shared: &Shared,
    number: u64,
    resets: u64,
) {
    let mut settings = shared.watch();
    let reset = async move {
        // Fails only with the proxy itself gone, which ends this task.
        let _ = settings.wait_for(|settings| settings.resets != resets).await;
    };
    // Small requests must not wait for each other's acknowledgements.
    let _ = client.set_nodelay(true);
    let mut server = None;
    let end = tokio::select! {
        () = reset => End::Cut,
        end = both_ways(&mut client, &mut server, target, shared, number) => end.unwrap_or(End::Cut),
    };
    if end == End::Cut {
        // Closing then sends a reset. It fails only on sockets that are closed already.
        let _ = client.set_zero_linger();
        if let Some(server) = &server {
            let _ = server.set_zero_linger();
        }
    }
}

async fn both_ways(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    target: SocketAddr,
    shared: &Shared,
    number: u64,
) -> io::Result<End> {
    let server = server.insert(TcpStream::connect(target).await?);
    server.set_nodelay(true)?;
    let losing = AtomicBool::new(false);
    let pump = |way| Pump {
        way,
        number,
        shared,
        settings: shared.watch(),
        losing: &losing,
        rng: fastrand::Rng::with_seed(number),
    };
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let mut up = std::pin::pin!(pump(Way::ToServer).run(from_client, to_server));
    let mut down = std::pin::pin!(pump(Way::ToClient).run(from_server, to_client));
    // One way may end before the other, as long as nothing is broken.
    let (first, other) = tokio::select! {
        end = &mut up => (end?, down),
        end = &mut down => (end?, up),
    };
    if first == End::Closed { other.await } else { Ok(first) }
}
