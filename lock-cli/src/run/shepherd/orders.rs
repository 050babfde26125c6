//! What the wrapper tells its shepherd: one line an order.

use std::fmt;

use distlock::Instant;
use rustix::process::Pid;

use crate::run::group::ProcessGroup;

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Watch this group.
    Watch(ProcessGroup),
    /// The group may live until this instant of the system clock.
    Until(Instant),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch(group) => writeln!(f, "watch {}", group.id().as_raw_pid()),
            Self::Until(instant) => writeln!(f, "until {}", instant.as_nanos()),
        }
    }
}

impl Order {
    fn read(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("watch", id) => Some(Self::Watch(ProcessGroup::led_by(Pid::from_raw(id.parse().ok()?)?))),
            ("until", nanos) => Some(Self::Until(Instant::from_nanos(nanos.parse().ok()?))),
            _ => None,
        }
    }
}

/// Orders out of the bytes that arrive.
#[derive(Debug, Default)]
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    /// Adds bytes, and takes out the orders that are complete.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Vec<Order> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.0.drain(..=end).collect();
        String::from_utf8_lossy(&whole).lines().filter_map(Order::read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_any_cut() {
        let orders = [
            Order::Watch(ProcessGroup::led_by(Pid::from_raw(4711).unwrap())),
            Order::Until(Instant::from_nanos(12_345_678_901_234)),
        ];
        let text: String = orders.iter().map(ToString::to_string).collect();
        for cut in 0..text.len() {
            let mut inbox = Inbox::default();
            let mut received = inbox.receive(&text.as_bytes()[..cut]);
            received.extend(inbox.receive(&text.as_bytes()[cut..]));
            assert_eq!(received, orders, "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(Inbox::default().receive(b"watch 0\nuntil soon\n\nhello\n"), []);
    }
}
