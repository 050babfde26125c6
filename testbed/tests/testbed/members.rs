//! A cluster of which a member is cut off.

use std::net::SocketAddr;
use std::process::Output;
use std::time::Duration;

use distlock_conformance::{Data, Server as _};
use distlock_testbed::{Partition, Place, ServiceSet};
use libtest_mimic::Trial;
use tokio::net::TcpStream;

use crate::support::{Missing, block_on, trial, until};

/// What can be placed besides etcd, and all of their servers.
const OTHERS: [&str; 5] = ["zk3", "postgres", "pgstandby", "mysql", "mysqlreplica"];
const SERVERS: [&str; 9] = ["z1", "z2", "z3", "postgres", "pgs0", "pgs1", "mysql", "my0", "my1"];

pub(crate) fn trials(network: &Missing) -> Vec<Trial> {
    let needing = |groups: &[&str]| network.or(Missing::optional(block_on(ServiceSet::available(groups))));
    let (etcd, others) = (&needing(&["etcd3"]), &needing(&OTHERS));
    vec![
        trial("members::servers_of_all_kinds_serve_other_places", others, serve_other_places()),
        trial("members::a_minority_that_is_cut_off_does_nothing_and_catches_up", etcd, minority()),
        trial("members::a_placed_server_restarts_at_its_place", etcd, restarted()),
    ]
}

/// `etcdctl`, run at a place, on one member.
fn etcdctl(partition: &Partition, place: &str, member: SocketAddr, words: &[&str]) -> Output {
    let mut command = partition.command(place, "etcdctl");
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints={member}"));
    command.args(["--command-timeout=3s", "--dial-timeout=3s"]).args(words).output().unwrap()
}

fn read(partition: &Partition, place: &str, member: SocketAddr, how: &str) -> Option<String> {
    let output = etcdctl(partition, place, member, &["get", "k", "--print-value-only", "--consistency", how]);
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

async fn connects(place: &Place, to: SocketAddr, limit: Duration) -> bool {
    place
        .run(async move { matches!(tokio::time::timeout(limit, TcpStream::connect(to)).await, Ok(Ok(_))) })
        .await
}

async fn minority() {
    let partition = Partition::new(&["e0", "e1", "e2", "client"]).unwrap();
    let set = ServiceSet::up_at(&partition, &["etcd3"]).await.unwrap();
    let [cut, other] = ["e0", "e1"].map(|name| set.server(name).address());
    let hosts = ["e0", "e1", "e2"].map(|name| set.server(name).address().to_string());
    assert_eq!(set.url("etcd3"), format!("etcd://{}", hosts.join(",")));
    let inside = partition.place("e0");
    let write =
        |place, member, value| etcdctl(&partition, place, member, &["put", "k", value]).status.success();
    until("the cluster takes a write", || write("client", cut, "before")).await;
    assert!(connects(&inside, other, Duration::from_secs(30)).await);

    partition.cut("e0");
    until("the majority goes on", || write("client", other, "during")).await;
    assert!(!write("e0", cut, "by the minority"), "a minority acknowledges nothing");
    assert_eq!(read(&partition, "e0", cut, "l"), None, "nor does it know the truth");
    until("but what was", || read(&partition, "e0", cut, "s").as_deref() == Some("before")).await;
    assert!(!connects(&inside, other, Duration::from_millis(500)).await);

    partition.heal("e0");
    let caught_up = || read(&partition, "e0", cut, "l").is_some_and(|value| value != "before");
    until("the minority catches up", caught_up).await;
    set.whole("etcd3").await;
    assert!(connects(&inside, other, Duration::from_secs(30)).await);
}

async fn restarted() {
    let partition = Partition::new(&["e0", "e1", "e2", "client"]).unwrap();
    let set = ServiceSet::up_at(&partition, &["etcd3"]).await.unwrap();
    let server = set.server("e1");
    let address = server.address();
    assert_eq!(address.ip(), partition.address("e1"));
    let write = || etcdctl(&partition, "client", address, &["put", "k", "v"]).status.success();
    until("the cluster takes a write", write).await;
    for data in [Data::Kept, Data::Wiped] {
        server.restart(data).await;
        set.whole("etcd3").await;
        assert_eq!(server.address(), address);
        let knows = || read(&partition, "client", address, "l").as_deref() == Some("v");
        until("the restarted member knows the write", knows).await;
    }
}

async fn serve_other_places() {
    let places = [&SERVERS[..], &["client"]].concat();
    let partition = Partition::new(&places).unwrap();
    // The servers of a group have found each other across places by then.
    let set = ServiceSet::up_at(&partition, &OTHERS).await.unwrap();
    let client = partition.place("client");
    for name in SERVERS {
        let address = set.server(name).address();
        assert_eq!(address.ip(), partition.address(name), "{name}");
        assert!(connects(&client, address, Duration::from_secs(30)).await, "{name}");
    }
    let succeeds = |program: &str, words: &[&str]| {
        partition.command("client", program).args(words).output().unwrap().status.success()
    };
    for name in ["postgres", "pgs0", "pgs1"] {
        let url = format!("postgres://postgres@{}/postgres", set.server(name).address());
        assert!(succeeds("psql", &["-Xwc", "select 1", &url]), "{name}");
    }
    for name in ["mysql", "my0", "my1"] {
        let (host, port) = (set.server(name).address().ip(), set.server(name).address().port());
        let words =
            ["--no-defaults", "-uroot", &format!("-h{host}"), &format!("-P{port}"), "locks", "-eselect 1"];
        assert!(succeeds("mariadb", &words), "{name}");
    }
}
