//! Where a server of a test's own can listen.

use std::net::TcpListener;

/// A free port of the loopback address for a server that is started next, from 10 000 to 31 999: below those
/// that the system gives to outgoing connections, since one of these could take it before the server does.
///
/// Nothing keeps it free; the search starts at random, so that programs at work together rarely meet.
///
/// # Panics
/// If not one of these ports is free.
#[must_use]
pub fn free_port() -> u16 {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    let from = fastrand::u16(PORTS);
    (from..PORTS.end)
        .chain(PORTS.start..from)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("no port between 10 000 and 31 999 is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_not_given() {
        let taken: Vec<_> = (0..50).map(|_| TcpListener::bind(("127.0.0.1", free_port())).unwrap()).collect();
        let ports = taken.iter().map(|listener| listener.local_addr().unwrap().port());
        assert_eq!(ports.collect::<std::collections::BTreeSet<_>>().len(), 50);
    }
}
