use std::future::Future;

use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;

/// Longer than any machine is late.
const AMPLE: Duration = Duration::from_secs(20);
/// Within this, nothing that is held back may arrive.
const SHORT: Duration = Duration::from_millis(60);

/// A server that sends back what it gets, and notes how each connection ended.
struct Echo {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (note, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let note = note.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                        note.send(buffer[..read].to_vec()).unwrap();
                        if stream.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, received }
    }

    async fn received(&mut self) -> Vec<u8> {
        ample(self.received.recv()).await.unwrap()
    }
}

async fn ample<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(AMPLE, future).await.expect("it does not take for ever")
}

async fn rig() -> (Echo, Proxy, TcpStream) {
    let echo = Echo::start().await;
    let proxy = Proxy::start(echo.address).unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut client, b"hello").await.unwrap(), b"hello");
    let mut echo = echo;
    echo.received().await;
    (echo, proxy, client)
}

async fn ask(client: &mut TcpStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    client.write_all(bytes).await?;
    answer(client, bytes.len()).await
}

async fn answer(client: &mut TcpStream, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    ample(client.read_exact(&mut buffer)).await?;
    Ok(buffer)
}

/// Asserts that nothing comes, not even an end.
async fn silent(client: &mut TcpStream) {
    let read = tokio::time::timeout(SHORT, client.read(&mut [0; 8])).await;
    assert!(read.is_err(), "something came: {read:?}");
}

async fn was_reset(client: &mut TcpStream) {
    let read = ample(client.read(&mut [0; 8])).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn it_passes_and_counts() {
    let (_echo, proxy, mut client) = rig().await;
    let long = vec![7; 300_000];
    let (mut from, mut to) = client.split();
    let (written, read) = tokio::join!(to.write_all(&long), async {
        let mut buffer = vec![0; long.len()];
        ample(from.read_exact(&mut buffer)).await.map(|_| buffer)
    });
    written.unwrap();
    assert_eq!(read.unwrap(), long);
    let traffic = proxy.traffic();
    assert_eq!((traffic.connections, traffic.open), (1, 1));
    // What was passed on is counted just after it has left.
    ample(async {
        while (proxy.traffic().to_server, proxy.traffic().to_client) != (300_005, 300_005) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // The end travels in both directions.
    client.shutdown().await.unwrap();
    assert_eq!(ample(client.read(&mut [0; 8])).await.unwrap(), 0);
    ample(async {
        while proxy.traffic().open > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_delay_holds_up_each_byte_and_not_the_flow() {
    let (_echo, proxy, mut client) = rig().await;
    let by = Duration::from_millis(40);
    proxy.delay(Way::ToServer, by, Duration::ZERO);
    proxy.delay(Way::ToClient, by, Duration::from_millis(20));
    let began = Instant::now();
    ask(&mut client, b"one").await.unwrap();
    assert!(began.elapsed() >= by * 2, "{:?}", began.elapsed());
    // A hundred pieces under way at once, in order; one after the other they would take 8 s.
    let (mut from, mut to) = client.split();
    let send = async {
        for n in 0..100_u8 {
            to.write_all(&[n]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let mut got = [0; 100];
    let ((), read) =
        tokio::join!(send, tokio::time::timeout(Duration::from_secs(6), from.read_exact(&mut got)));
    read.expect("a delay leaves the throughput alone").unwrap();
    assert_eq!(got.to_vec(), (0..100).collect::<Vec<u8>>());
    proxy.pass();
    assert_eq!(ask(&mut client, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn silence_to_the_server_keeps_requests_from_it() {
    let (mut echo, proxy, mut client) = rig().await;
    proxy.silence(Way::ToServer);
    client.write_all(b"lost").await.unwrap();
    silent(&mut client).await;
    assert!(echo.received.try_recv().is_err());
    // A connection made in the meantime is silent as well.
    let mut second = TcpStream::connect(proxy.address()).await.unwrap();
    second.write_all(b"lost too").await.unwrap();
    silent(&mut second).await;
    let mut third = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.pass();
    // A stream with a hole in it is not mended; one that lost nothing goes on.
    client.write_all(b"more").await.unwrap();
    silent(&mut client).await;
    assert_eq!(ask(&mut third, b"whole").await.unwrap(), b"whole");
    assert_eq!(echo.received().await, b"whole");
    drop((client, second));
    ample(async {
        while proxy.traffic().open > 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn silence_to_the_client_lets_requests_take_effect() {
    let (mut echo, proxy, mut client) = rig().await;
    proxy.silence(Way::ToClient);
    client.write_all(b"applied").await.unwrap();
    assert_eq!(echo.received().await, b"applied");
    silent(&mut client).await;
}

#[tokio::test]
async fn a_reset_is_seen_as_one() {
    let (_echo, proxy, mut client) = rig().await;
    proxy.reset().await;
    assert_eq!(proxy.traffic().open, 0);
    was_reset(&mut client).await;
    let mut again = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut again, b"on").await.unwrap(), b"on");
}

#[tokio::test]
async fn refusing_leaves_connections_alone_and_ends_on_the_same_port() {
    let (_echo, proxy, mut client) = rig().await;
    for _ in 0..3 {
        proxy.refuse().await;
        for _ in 0..3 {
            let error = TcpStream::connect(proxy.address()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
        assert_eq!(ask(&mut client, b"old").await.unwrap(), b"old");
        let other = tokio::net::TcpSocket::new_v4().unwrap();
        assert!(other.bind(proxy.address()).is_err(), "its port is its own");
        proxy.accept().await;
        let mut new = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut new, b"new").await.unwrap(), b"new");
    }
}

#[tokio::test]
async fn it_cuts_after_so_many_bytes_of_each_connection() {
    let (mut echo, proxy, mut client) = rig().await;
    proxy.cut_after(Way::ToServer, 6);
    assert_eq!(ask(&mut client, b"four").await.unwrap(), b"four");
    assert_eq!(echo.received().await, b"four");
    client.write_all(b"four").await.unwrap();
    assert_eq!(echo.received().await, b"fo");
    was_reset(&mut client).await;
    proxy.cut_after(Way::ToClient, 0);
    for word in [b"five", b"nine"] {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.pass();
        proxy.cut_after(Way::ToClient, 2);
        client.write_all(word).await.unwrap();
        assert_eq!(answer(&mut client, 2).await.unwrap(), word[..2]);
        assert_eq!(echo.received().await, word);
        was_reset(&mut client).await;
    }
}

#[tokio::test]
async fn a_reply_is_lost_once_and_after_the_request_took_effect() {
    let (mut echo, proxy, mut client) = rig().await;
    proxy.lose_next_reply();
    let mut other = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut other, b"came later").await.unwrap(), b"came later");
    assert_eq!(echo.received().await, b"came later");
    client.write_all(b"applied").await.unwrap();
    assert_eq!(echo.received().await, b"applied");
    was_reset(&mut client).await;
    assert_eq!(proxy.traffic().lost_replies, 1);
    assert_eq!(ask(&mut other, b"unharmed").await.unwrap(), b"unharmed");
}

#[tokio::test]
async fn what_is_held_arrives_later_and_can_be_doubled() {
    let (mut echo, proxy, mut client) = rig().await;
    assert_eq!(proxy.duplicate().await.unwrap_err().kind(), io::ErrorKind::NotFound);
    proxy.hold(Way::ToServer);
    client.write_all(b"late").await.unwrap();
    silent(&mut client).await;
    assert!(echo.received.try_recv().is_err());
    proxy.pass();
    assert_eq!(answer(&mut client, 4).await.unwrap(), b"late");
    assert_eq!(echo.received().await, b"late");
    assert_eq!(proxy.duplicate().await.unwrap(), 4);
    assert_eq!(echo.received().await, b"late");
    silent(&mut client).await;
    // The end of a connection waits for its turn.
    proxy.hold(Way::ToServer);
    client.write_all(b"last").await.unwrap();
    client.shutdown().await.unwrap();
    silent(&mut client).await;
    proxy.pass();
    assert_eq!(answer(&mut client, 4).await.unwrap(), b"last");
    assert_eq!(ample(client.read(&mut [0; 8])).await.unwrap(), 0);
}

#[tokio::test]
async fn a_server_that_refuses_shows_as_a_reset() {
    // Bound and not listening, so that nobody else gets the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = socket.local_addr().unwrap();
    let proxy = Proxy::start(gone).unwrap();
    // The reset may come before the connect has returned.
    match TcpStream::connect(proxy.address()).await {
        Ok(mut client) => was_reset(&mut client).await,
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

#[tokio::test]
async fn a_dropped_proxy_takes_its_connections_along() {
    let (_echo, proxy, mut client) = rig().await;
    let address = proxy.address();
    drop(proxy);
    let read = ample(client.read(&mut [0; 8])).await;
    assert!(matches!(read, Ok(0) | Err(_)));
    ample(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
