//! Networks that are cut.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use distlock_testbed::Partition;
use libtest_mimic::Trial;

use crate::owner::Owner;
use crate::resp::{Resp, is_silence};
use crate::support::{Missing, trial, until};

const BRIEF: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn trials(network: &Missing) -> Vec<Trial> {
    vec![
        trial("partitions::a_cut_is_silent_and_heals", network, cut()),
        trial("partitions::a_one_way_block_loses_only_the_answer", network, block()),
        trial("partitions::nothing_is_left", network, nothing_is_left()),
        trial("partitions::a_killed_test_leaves_nothing_either", network, killed_owner()),
    ]
}

/// Starts a Redis server at a place, and waits until it answers at all of these others.
pub(crate) async fn redis_at(partition: &Partition, place: &str, others: &[&str]) -> SocketAddr {
    let ip = partition.address(place).to_string();
    let mut command = partition.command(place, "redis-server");
    command.args(["--port", "6379", "--bind", &ip, "--protected-mode", "no", "--save", "", "--dir", "/tmp"]);
    // The partition ends it, and the runtime waits for it.
    tokio::process::Command::from(command).stdout(std::process::Stdio::null()).spawn().unwrap();
    let address = SocketAddr::from((partition.address(place), 6379));
    for other in others {
        until("the server answers", || {
            let stream = partition.connect(other, address, Duration::from_secs(1));
            stream.and_then(Resp::on).and_then(|mut client| client.ask(&["PING"])).is_ok()
        })
        .await;
    }
    address
}

async fn cut() {
    let partition = Partition::new(&["server", "client", "other"]).unwrap();
    let address = redis_at(&partition, "server", &["client", "other"]).await;
    let mut client = Resp::on(partition.connect("client", address, LONG).unwrap()).unwrap();
    let mut other = Resp::on(partition.connect("other", address, LONG).unwrap()).unwrap();
    client.ask(&["SET", "k", "before"]).unwrap();

    partition.cut("client");
    let answer = client.ask_within(BRIEF, &["SET", "k", "during"]);
    assert!(is_silence(&answer), "neither answer nor reset: {answer:?}");
    let fresh = partition.connect("client", address, BRIEF);
    assert!(is_silence(&fresh), "a new connection is not refused either: {fresh:?}");
    assert_eq!(other.ask(&["GET", "k"]).unwrap(), Some("before".to_owned()), "others are not concerned");

    partition.heal("client");
    // The same connection: the system has sent the command again all the time.
    assert_eq!(client.answer_within(LONG).unwrap(), Some("OK".to_owned()));
    assert_eq!(other.ask(&["GET", "k"]).unwrap(), Some("during".to_owned()));
}

async fn block() {
    let partition = Partition::new(&["server", "client", "other"]).unwrap();
    let address = redis_at(&partition, "server", &["client", "other"]).await;
    let mut client = Resp::on(partition.connect("client", address, LONG).unwrap()).unwrap();
    let mut other = Resp::on(partition.connect("other", address, LONG).unwrap()).unwrap();
    client.ask(&["PING"]).unwrap();

    partition.block("server", "client");
    let answer = client.ask_within(BRIEF, &["SET", "k", "applied"]);
    assert!(is_silence(&answer), "{answer:?}");
    assert_eq!(other.ask(&["GET", "k"]).unwrap(), Some("applied".to_owned()), "the command got through");

    partition.heal("server");
    assert_eq!(client.answer_within(LONG).unwrap(), Some("OK".to_owned()));
}

async fn nothing_is_left() {
    let partition = Partition::new(&["server", "client"]).unwrap();
    redis_at(&partition, "server", &["client"]).await;
    let prefix = partition.prefix().to_owned();
    assert_eq!(namespaces(&prefix), 3, "two places and what joins them");
    drop(partition);
    assert_eq!(namespaces(&prefix), 0);
}

async fn killed_owner() {
    let owner = Owner::start("network");
    let prefix = owner.says.clone();
    assert_eq!(namespaces(&prefix), 3);
    owner.kill();
    until("its network ends too", || namespaces(&prefix) == 0).await;
}

fn namespaces(prefix: &str) -> usize {
    let list = Command::new("ip").args(["netns", "list"]).output().unwrap().stdout;
    String::from_utf8(list).unwrap().lines().filter(|line| line.contains(prefix)).count()
}
