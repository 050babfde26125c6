//! Requests whose answers nobody heard, and that are carried out when nobody expects them any more.

use std::time::Duration;

use distlock_conformance::{Proxy, Way};
use distlock_core::{Effect, LockBackend, LockRequest, Release, TryLock};
use distlock_etcd::{EtcdBackend, EtcdConfig};
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
const TIMES: usize = 40;

async fn a_late_request_leaves_nothing_under_a_kept_lease() {
    late_requests_leave_nothing(|config| config).await;
}

async fn a_late_request_leaves_nothing_under_a_shared_lease() {
    late_requests_leave_nothing(|config| config.shared_lease(TTL)).await;
}

/// Some attempts at locks are held up on their way, repeated on another one, and the locks given back. Then what was
/// held up arrives, while the client goes on with others.
async fn late_requests_leave_nothing(set_up: impl Fn(EtcdConfig) -> EtcdConfig) {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let ways = [Proxy::start(server.address()).unwrap(), Proxy::start(server.address()).unwrap()];
    let config = EtcdConfig::new(ways.iter().map(|way| way.address().to_string())).response_timeout(RESPONSE);
    let backend = EtcdBackend::connect(set_up(config)).await.unwrap();
    let mut requests = Vec::new();
    for number in 0..TIMES {
        let name = format!("{number}");
        requests.push(if number % 2 == 0 { request(&name, TTL) } else { queued(&name, TTL) });
    }
    take_and_give_back(&backend, &requests).await;
    let way = ways.iter().max_by_key(|way| way.traffic().to_server).unwrap();
    way.hold(Way::ToServer);
    let attempts = requests.iter().map(|request| backend.try_lock(request));
    for attempt in futures_util::future::join_all(attempts).await {
        assert_eq!(attempt.unwrap_err().effect(), Effect::Unknown);
    }
    take_and_give_back(&backend, &requests).await;
    let others: Vec<_> = (0..TIMES).map(|number| request(&format!("other {number}"), TTL)).collect();
    for other in &others {
        take(&backend, other).await;
    }
    let before = transactions(&server, "started").await;
    way.pass();
    eventually("what was held up arrives", async || transactions(&server, "started").await > before).await;
    eventually("it is carried out, or refused", async || {
        transactions(&server, "handled").await == transactions(&server, "started").await
    })
    .await;
    for number in 0..TIMES {
        let name = format!("{number}");
        eventually("the lock is free", async || records(&mut raw, &name).await.is_empty()).await;
    }
}

async fn take_and_give_back(backend: &EtcdBackend, requests: &[LockRequest]) {
    let attempts = requests.iter().map(|request| backend.try_lock(request));
    for attempt in futures_util::future::join_all(attempts).await {
        assert!(matches!(attempt.unwrap(), TryLock::Acquired(_)));
    }
    let releases = requests.iter().map(|request| backend.unlock(&request.claim));
    for release in futures_util::future::join_all(releases).await {
        assert_eq!(release.unwrap(), Release::Released);
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
