//! Sets of servers, and what can be done to them.

use std::net::SocketAddr;
use std::time::Duration;

use distlock_testbed::{Data, ServiceSet};
use libtest_mimic::Trial;

use crate::owner::Owner;
use crate::resp::{Resp, is_silence};
use crate::support::{Missing, trial, until};

pub(crate) fn trials(redis: &Missing) -> Vec<Trial> {
    vec![
        trial("services::a_killed_server_keeps_what_it_acknowledged", redis, keeps_its_data()),
        trial("services::a_paused_server_is_silent", redis, is_silent_when_paused()),
        trial("services::two_sets_have_nothing_in_common", redis, two_sets()),
        trial("services::a_killed_master_is_succeeded", redis, master_succeeded()),
        trial("services::a_cluster_survives_a_wiped_master", redis, cluster_survives()),
        trial("services::a_killed_test_leaves_no_server", redis, killed_owner()),
    ]
}

async fn up(group: &str) -> ServiceSet {
    ServiceSet::up(&[group]).await.unwrap()
}

async fn keeps_its_data() {
    let set = up("redis").await;
    let server = set.server("redis");
    assert_eq!(set.url("redis"), format!("redis://{}/0", server.address()));
    let mut client = Resp::connect(server.address()).unwrap();
    client.ask(&["SET", "k", "v"]).unwrap();
    server.kill9().await;
    assert!(client.ask(&["PING"]).is_err(), "it was killed");
    assert!(Resp::connect(server.address()).is_err(), "nobody listens");
    server.start().await;
    let get = |address| Resp::connect(address).unwrap().ask(&["GET", "k"]).unwrap();
    assert_eq!(get(server.address()), Some("v".to_owned()));
    server.restart(Data::Kept).await;
    assert_eq!(get(server.address()), Some("v".to_owned()));
    server.restart(Data::Wiped).await;
    assert_eq!(get(server.address()), None);
    let address = server.address();
    set.down().await;
    assert!(Resp::connect(address).is_err(), "the set is down");
}

async fn is_silent_when_paused() {
    let set = up("redis").await;
    let server = set.server("redis");
    let mut client = Resp::connect(server.address()).unwrap();
    client.ask(&["PING"]).unwrap();
    server.pause().await;
    let answer = client.ask_within(Duration::from_millis(300), &["SET", "late", "1"]);
    assert!(is_silence(&answer), "{answer:?}");
    server.resume().await;
    // What was sent meanwhile is done all the same.
    assert_eq!(client.answer_within(Duration::from_secs(30)).unwrap(), Some("OK".to_owned()));
    assert_eq!(client.ask(&["GET", "late"]).unwrap(), Some("1".to_owned()));
}

async fn two_sets() {
    let (one, two) = (up("redis").await, up("redis").await);
    let (first, second) = (one.server("redis"), two.server("redis"));
    assert_ne!(first.address(), second.address());
    first.kill9().await;
    assert_eq!(Resp::connect(second.address()).unwrap().ask(&["PING"]).unwrap(), Some("PONG".to_owned()));
    // It ends with its owner, though it runs on beside it.
    let address = second.address();
    drop(two);
    until("the second set ends", || Resp::connect(address).is_err()).await;
}

async fn master_succeeded() {
    let set = up("sentinel").await;
    let (master, sentinel) = (set.server("ms0"), set.server("se0"));
    let named = || {
        let mut client = Resp::connect(sentinel.address()).unwrap();
        client.ask(&["SENTINEL", "get-master-addr-by-name", "mymaster"]).unwrap().unwrap()
    };
    let before = format!("127.0.0.1 {}", master.address().port());
    assert_eq!(named(), before);
    master.kill9().await;
    until("another master", || named() != before).await;
    master.start().await;
    set.whole("sentinel").await;
    let role = Resp::connect(master.address()).unwrap().ask(&["ROLE"]).unwrap().unwrap();
    assert!(role.starts_with("slave"), "{role}");
}

async fn cluster_survives() {
    let set = up("cluster").await;
    let master = set.server("cl0");
    let (address, other) = (master.address().to_string(), set.server("cl1").address());
    let has_failed = || {
        let nodes = Resp::connect(other).unwrap().ask(&["CLUSTER", "NODES"]).unwrap().unwrap();
        let line = nodes.lines().find(|line| line.contains(&address)).unwrap();
        line.split(' ').nth(2).unwrap().split(',').any(|flag| flag == "fail")
    };
    master.kill9().await;
    until("the others notice", has_failed).await;
    master.restart(Data::Wiped).await;
    set.whole("cluster").await;
}

async fn killed_owner() {
    let owner = Owner::start("set");
    let address: SocketAddr = owner.says.parse().unwrap();
    assert_eq!(Resp::connect(address).unwrap().ask(&["PING"]).unwrap(), Some("PONG".to_owned()));
    owner.kill();
    until("its server ends too", || Resp::connect(address).is_err()).await;
}
