//! Namespaces, bridges and pairs of interfaces, by the command `ip`.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `ip` with these arguments.
pub(super) fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), said.trim())))
}

/// A namespace with a bridge, to plug places in.
pub(super) fn add_switch(switch: &str) -> io::Result<()> {
    ip(&["netns", "add", switch])?;
    ip(&["-n", switch, "link", "add", "bridge", "type", "bridge"])?;
    ip(&["-n", switch, "link", "set", "bridge", "up"])
}

/// A namespace with an interface whose other end is a port of the bridge.
pub(super) fn add_place(switch: &str, port: &str, place: &str, address: Ipv4Addr) -> io::Result<()> {
    let address = format!("{address}/24");
    ip(&["netns", "add", place])?;
    ip(&["-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", place])?;
    ip(&["-n", switch, "link", "set", port, "master", "bridge", "up"])?;
    ip(&["-n", place, "address", "add", &address, "dev", "eth0"])?;
    ip(&["-n", place, "link", "set", "eth0", "up"])?;
    ip(&["-n", place, "link", "set", "lo", "up"])
}

/// Puts this thread into a namespace, and the sockets that it opens from now on.
pub(super) fn enter(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("who made a namespace may enter it");
}
