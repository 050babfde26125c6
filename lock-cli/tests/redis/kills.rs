//! Random kills, of the server too. `DISTLOCK_KILLS=1000` makes it long.

use std::time::Duration;

use crate::mayhem::{Store, rounds, seed, survive};
use crate::rig::{Rig, ended, eventually, uptime};
use crate::server::Server;

/// A server that forgets nothing when it is killed.
const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

impl Store for Server {
    fn disturb(&mut self, rig: &Rig, lasts: Duration) {
        self.end();
        let over = uptime() + lasts;
        eventually("a moment", || (uptime() >= over).then_some(()));
        self.restart();
        eventually("the server", || (ended(&mut rig.distlock(&["ls"])).status == Some(0)).then_some(()));
    }
}

pub(crate) fn random_kills_leave_neither_processes_nor_locks() {
    let mut server = Server::start(DURABLE);
    let rig = Rig::at(server.url());
    eventually("the server", || (ended(&mut rig.distlock(&["ls"])).status == Some(0)).then_some(()));
    survive(&rig, &mut server, rounds(40), seed());
}
