//! The groups of servers other than Redis'.

use std::net::TcpStream;
use std::time::Duration;

use distlock_conformance::{Data, Server as _};
use distlock_testbed::ServiceSet;
use libtest_mimic::Trial;

use crate::support::{Missing, block_on, trial, until};

/// Each group, with a server that it can do without for a while.
const GROUPS: [(&str, &str); 10] = [
    ("etcd", "etcd"),
    ("etcd3", "e1"),
    ("etcd35", "n1"),
    ("zk", "zk"),
    ("zk3", "z2"),
    ("postgres", "postgres"),
    ("pgbouncer", "pgpooled"),
    ("pgstandby", "pgs1"),
    ("mysql", "mysql"),
    ("mysqlreplica", "my1"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let of_group = |(group, server)| {
        // A group is installed once a backend is tested on it.
        let missing = Missing::optional(block_on(ServiceSet::available(&[group])));
        let name = format!("groups::{group}_survives_kills_with_and_without_its_data");
        trial(&name, &missing, kills(group, server))
    };
    GROUPS.into_iter().map(of_group).collect()
}

async fn kills(group: &'static str, name: &'static str) {
    let set = ServiceSet::up(&[group]).await.unwrap();
    let server = set.server(name);
    let address = server.address();
    let listens = || TcpStream::connect_timeout(&address, Duration::from_secs(10)).is_ok();
    assert!(listens(), "{group} is up");
    for data in [Data::Kept, Data::Wiped, Data::Kept] {
        server.kill9().await;
        assert!(!listens(), "{name} was killed");
        server.restart(data).await;
        set.whole(group).await;
    }
    server.pause().await;
    server.resume().await;
    set.whole(group).await;
    set.down().await;
    until("nobody listens", || !listens()).await;
}
