//! TLS where servers name each other: behind Sentinels and in a Cluster.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use distlock_conformance::free_port;
use distlock_core::{ErrorKind, LockBackend, Release, Renewal, StoreUrl, TryLock};
use distlock_redis::RedisBackend;

use super::encrypting::Authority;
use crate::support::{Server, eventually, number, request, run, take, tests};

tests! {
    sentinels_and_the_masters_they_name_are_encrypted,
    a_cluster_s_nodes_are_encrypted_and_known_by_name,
}

const LONG: Duration = Duration::from_secs(60);

/// The certificate names a host and no address, so every server has to be known by its name.
fn authority() -> Authority {
    let authority = Authority::new();
    authority.certify("server", "localhost", |_| {});
    authority
}

async fn server(authority: &Authority, port: u16, more: &[&str]) -> Server {
    let mut options = authority.options(port, "no");
    options.extend(more.iter().map(|option| (*option).to_owned()));
    Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>()).await
}

async fn connect(authority: &Authority, url: &str) -> distlock_core::Result<RedisBackend> {
    let url = format!("{url}?ca={}", authority.path("ca.pem").display());
    RedisBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await
}

/// A Sentinel, which ends with this value.
struct Sentinel(Child);

impl Sentinel {
    fn start(authority: &Authority, port: u16, master: u16) -> Self {
        let mut lines = vec![format!("port 0\ndir {}", authority.path("").display())];
        let options = authority.options(port, "no");
        lines.extend(
            options.chunks(2).map(|pair| format!("{} {}", pair[0].trim_start_matches("--"), pair[1])),
        );
        lines.push("tls-replication yes\nsentinel resolve-hostnames yes".to_owned());
        lines
            .push(format!("sentinel announce-hostnames yes\nsentinel monitor mymaster localhost {master} 1"));
        lines.push("sentinel down-after-milliseconds mymaster 1000".to_owned());
        let file = authority.path("sentinel.conf");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let mut command = Command::new("redis-server");
        Self(command.arg(file).arg("--sentinel").stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn sentinels_and_the_masters_they_name_are_encrypted() {
    let authority = authority();
    let (first, second, port) = (free_port(), free_port(), free_port());
    let named = ["--tls-replication", "yes", "--replica-announce-ip", "localhost"];
    let mut master =
        server(&authority, first, &[&named[..], &["--repl-diskless-sync-delay", "0"]].concat()).await;
    let follows = first.to_string();
    let replica =
        server(&authority, second, &[&named[..], &["--replicaof", "localhost", &follows]].concat()).await;
    let _sentinel = Sentinel::start(&authority, port, first);
    let url = format!("rediss+sentinel://localhost:{port}/mymaster");
    let mut connected = None;
    eventually("the Sentinel answers", async || {
        connected = connect(&authority, &url).await.ok();
        connected.is_some()
    })
    .await;
    let backend = connected.unwrap();
    let lease = take(&backend, &request("k", LONG)).await;
    let plain = url.replace("rediss", "redis");
    let error = RedisBackend::from_url(&mut StoreUrl::parse(&plain).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // The lock must have reached the one that takes over, which the Sentinel must have found.
    let mut raw = replica.raw().await;
    eventually("the replica has it", async || number(&mut raw, "HEXISTS distlock:lock:k owner").await == 1)
        .await;
    eventually("the Sentinel knows it", async || {
        // It asks every 10 s, and writes down what it finds.
        let file = std::fs::read_to_string(authority.path("sentinel.conf")).unwrap();
        file.contains(&format!("known-replica mymaster localhost {second}"))
    })
    .await;
    master.kill();
    eventually("it is renewed at the next master", async || {
        matches!(backend.renew(&lease, LONG).await, Ok(Renewal::Renewed { .. }))
    })
    .await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

async fn a_cluster_s_nodes_are_encrypted_and_known_by_name() {
    let authority = authority();
    let (ports, buses) = ([free_port(), free_port()], [free_port(), free_port()]);
    let mut nodes = Vec::new();
    for (port, bus) in ports.into_iter().zip(buses) {
        let bus = bus.to_string();
        let cluster = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", &bus];
        let named = ["--cluster-announce-hostname", "localhost"];
        nodes.push(server(&authority, port, &[&cluster[..], &named[..]].concat()).await);
    }
    let (mut one, mut two) = (nodes[0].raw().await, nodes[1].raw().await);
    run(&mut one, "CLUSTER ADDSLOTSRANGE 0 8191").await;
    run(&mut two, "CLUSTER ADDSLOTSRANGE 8192 16383").await;
    run(&mut one, &format!("CLUSTER MEET 127.0.0.1 {} {}", ports[1], buses[1])).await;
    for raw in [&mut one, &mut two] {
        eventually("the nodes know each other by name", async || {
            let state: String = redis::from_redis_value(run(raw, "CLUSTER INFO").await).unwrap();
            let nodes: String = redis::from_redis_value(run(raw, "CLUSTER NODES").await).unwrap();
            state.contains("cluster_state:ok") && nodes.matches(",localhost").count() == 2
        })
        .await;
    }
    let url = format!("rediss+cluster://localhost:{}", ports[0]);
    let backend = connect(&authority, &url).await.unwrap();
    let mut leases = Vec::new();
    for n in 0..20 {
        leases.push(take(&backend, &request(&format!("k{n}"), LONG)).await);
    }
    for raw in [&mut one, &mut two] {
        assert!(number(raw, "DBSIZE").await > 0, "each has some");
    }
    // Waiting takes encrypted connections of its own.
    let waiter = request("k0", LONG);
    let TryLock::Busy(seen) = backend.try_lock(&waiter).await.unwrap() else { panic!("it is held") };
    let released = async {
        eventually("it waits", async || marks(&mut [&mut one, &mut two]).await == 1).await;
        backend.unlock(&leases[0].claim).await.unwrap();
    };
    let (woken, ()) = tokio::join!(backend.watch_release(&waiter.claim, &seen), released);
    woken.unwrap();
    let renewals = backend.renew_many(&leases[1..], LONG).await;
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed { .. }))), "{renewals:?}");
    let stranger = Authority::new();
    let error = connect(&stranger, &url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

/// How many records have a waiter's mark.
async fn marks(nodes: &mut [&mut redis::aio::MultiplexedConnection]) -> i64 {
    let mut marks = 0;
    for raw in nodes {
        let names: Vec<String> = redis::from_redis_value(run(raw, "KEYS *").await).unwrap();
        for name in names {
            marks += number(raw, &format!("HEXISTS {name} mark")).await;
        }
    }
    marks
}
