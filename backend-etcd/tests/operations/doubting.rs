//! Requests whose answers nobody heard, and that are carried out when nobody expects them any more.

use std::time::Duration;

use distlock_conformance::{Proxy, Way};
use distlock_core::{Effect, LockBackend, LockRequest, Release, TryLock};
use distlock_etcd::{EtcdBackend, EtcdConfig};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Server, eventually, queued, records, request, take, tests};

tests! {
    a_late_request_leaves_nothing_under_a_kept_lease,
    a_late_request_leaves_nothing_under_a_shared_lease,
}

const TTL: Duration = Duration::from_secs(60);
const RESPONSE: Duration = Duration::from_millis(300);
/// A request that arrives together with its cancellation is carried out only sometimes.
const CLIENTS: usize = 10;
/// So many go out at once, each as a request of its own.
const REQUESTS: usize = 4;

async fn a_late_request_leaves_nothing_under_a_kept_lease() {
    late_requests_leave_nothing(|config| config).await;
}

async fn a_late_request_leaves_nothing_under_a_shared_lease() {
    late_requests_leave_nothing(|config| config.shared_lease(TTL)).await;
}

/// A client with two ways to the server, and what it asks for.
struct Client {
    backend: EtcdBackend,
    ways: [Proxy; 2],
    requests: Vec<LockRequest>,
}

impl Client {
    async fn connect(server: &Server, set_up: fn(EtcdConfig) -> EtcdConfig, number: usize) -> Self {
        let ways = [Proxy::start(server.address()).unwrap(), Proxy::start(server.address()).unwrap()];
        let config =
            EtcdConfig::new(ways.iter().map(|way| way.address().to_string())).response_timeout(RESPONSE);
        let backend = EtcdBackend::connect(set_up(config)).await.unwrap();
        let requests = (0..REQUESTS).map(|at| {
            let name = format!("{number}/{at}");
            if at % 2 == 0 { request(&name, TTL) } else { queued(&name, TTL) }
        });
        Self { backend, ways, requests: requests.collect() }
    }

    /// The one it uses.
    fn way(&self) -> &Proxy {
        self.ways.iter().max_by_key(|way| way.traffic().to_server).unwrap()
    }

    async fn take_and_give_back(&self) {
        let attempts = self.requests.iter().map(|request| self.backend.try_lock(request));
        for attempt in join_all(attempts).await {
            assert!(matches!(attempt.unwrap(), TryLock::Acquired(_)));
        }
        let releases = self.requests.iter().map(|request| self.backend.unlock(&request.claim));
        for release in join_all(releases).await {
            assert_eq!(release.unwrap(), Release::Released);
        }
    }
}

/// Some attempts at locks are held up on their way, repeated on another one, and the locks given back. Then what was
/// held up arrives, while the clients go on with others.
async fn late_requests_leave_nothing(set_up: fn(EtcdConfig) -> EtcdConfig) {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let clients = join_all((0..CLIENTS).map(|number| Client::connect(&server, set_up, number))).await;
    join_all(clients.iter().map(Client::take_and_give_back)).await;
    let ways: Vec<_> = clients.iter().map(Client::way).collect();
    ways.iter().for_each(|way| way.hold(Way::ToServer));
    let attempts = clients
        .iter()
        .flat_map(|client| client.requests.iter().map(|request| client.backend.try_lock(request)));
    for attempt in join_all(attempts).await {
        assert_eq!(attempt.unwrap_err().effect(), Effect::Unknown);
    }
    join_all(clients.iter().map(Client::take_and_give_back)).await;
    for (number, client) in clients.iter().enumerate() {
        for at in 0..REQUESTS {
            take(&client.backend, &request(&format!("other {number}/{at}"), TTL)).await;
        }
    }
    let before = transactions(&server, "started").await;
    ways.iter().for_each(|way| way.pass());
    eventually("what was held up arrives", async || transactions(&server, "started").await > before).await;
    eventually("it is carried out, or refused", async || {
        transactions(&server, "handled").await == transactions(&server, "started").await
    })
    .await;
    for request in clients.iter().flat_map(|client| &client.requests) {
        let name = request.claim.key.to_string();
        eventually("the lock is free", async || records(&mut raw, &name).await.is_empty()).await;
    }
}

/// How many transactions the server has begun, or ended.
async fn transactions(server: &Server, what: &str) -> u64 {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    let start = format!("grpc_server_{what}_total{{");
    let lines = page.lines().filter(|line| line.starts_with(&start) && line.contains("\"Txn\""));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}
