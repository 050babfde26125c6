//! A server that dies.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::rig::{HEART, Rig, Started, dead, ended, eventually, last_beat, uptime};

pub(crate) fn has_server() -> bool {
    Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok()
}

pub(crate) fn a_server_that_dies_takes_the_command_along() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sock");
    let mut server = Server(
        Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed"),
    );
    let rig = Rig::at(format!("redis+unix:{}", socket.display()));
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

struct Server(Child);

impl Server {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
