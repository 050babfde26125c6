//! A server that dies.

use std::time::Duration;

use crate::rig::{HEART, Rig, Started, dead, ended, eventually, last_beat, uptime};
use crate::server::Server;

pub(crate) fn a_server_that_dies_takes_the_command_along() {
    let mut server = Server::start(&[]);
    let rig = Rig::at(server.url());
    eventually("the server is up", || (ended(&mut rig.distlock(&["ls"])).status == Some(0)).then_some(()));
    let run = Started::from(&mut rig.run(&["--ttl", "3s", "k"], HEART));
    let command = rig.pid("pid");
    let died = uptime();
    server.end();
    let end = run.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert!(end.stderr.contains("can't be kept"), "{end:?}");
    dead(command);
    // The lease began before the death, so the command ended at the latest 3 s after it.
    assert!(last_beat(&rig) < died + Duration::from_secs(3), "it ran on without its lock: {end:?}");
}
