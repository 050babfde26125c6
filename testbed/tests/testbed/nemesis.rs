//! Trouble at random, on real servers.

use std::sync::Arc;
use std::time::Duration;

use distlock_testbed::{Action, Link, Nemesis, Partition, ServiceSet, Step, Target};
use libtest_mimic::Trial;

use crate::partitions::redis_at;
use crate::resp::Resp;
use crate::support::{Missing, trial, until};

pub(crate) fn trials(redis: &Missing, network: &Missing) -> Vec<Trial> {
    vec![
        trial("nemesis::servers_are_whole_again_at_the_end", redis, servers()),
        trial("nemesis::links_are_whole_again_at_the_end", network, links()),
    ]
}

async fn rage(targets: Vec<Arc<dyn Target>>, actions: &[Action]) -> Vec<Step> {
    let pace = Duration::from_millis(300);
    let nemesis = Nemesis::new(fastrand::u64(..), targets, actions).pace(pace, pace);
    let steps = nemesis.rage(Duration::from_secs(4)).await;
    assert!(!steps.is_empty());
    steps
}

async fn servers() {
    let set = ServiceSet::up(&["redlock"]).await.unwrap();
    let servers: Vec<_> = (0..5).map(|number| set.server(&format!("redlock{number}"))).collect();
    let id = |server: &distlock_testbed::Server| {
        let info = Resp::connect(server.address()).unwrap().ask(&["INFO", "server"]).unwrap().unwrap();
        info.lines().find(|line| line.starts_with("run_id")).unwrap().to_owned()
    };
    let before: Vec<_> = servers.iter().map(id).collect();
    let targets = servers.iter().map(|server| Arc::new(server.clone()) as Arc<dyn Target>).collect();
    let steps = rage(targets, &[Action::Pause, Action::Restart, Action::RestartWiped]).await;
    for (server, before) in servers.iter().zip(before) {
        // A paused server would not answer this.
        let restarted = id(server) != before;
        let told = |step: &&Step| step.target == server.name() && step.action != Action::Pause;
        assert_eq!(restarted, steps.iter().any(|step| told(&step)), "{} in {steps:?}", server.name());
    }
}

async fn links() {
    let partition = Arc::new(Partition::new(&["server", "client"]).unwrap());
    let address = redis_at(&partition, "server", &["client"]).await;
    let targets: Vec<Arc<dyn Target>> =
        vec![Arc::new(Link::new(&partition, "server")), Arc::new(Link::new(&partition, "client"))];
    rage(targets, &[Action::Cut, Action::Pause]).await;
    until("the link works", || {
        let stream = partition.connect("client", address, Duration::from_secs(1));
        stream.and_then(Resp::on).and_then(|mut client| client.ask(&["PING"])).is_ok()
    })
    .await;
}
