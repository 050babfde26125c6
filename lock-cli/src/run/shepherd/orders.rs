//! What the wrapper tells its shepherd while the command runs: until when that may live, an instant
//! a line.

use distlock::Instant;

/// The line that lets the command live until `until` on the system's clock.
pub(super) fn line(until: Instant) -> String {
    format!("{}\n", until.as_nanos())
}

/// Lines out of the bytes that arrive.
#[derive(Debug, Default)]
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    /// Adds bytes, and gives the instant of the last line that is complete.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Option<Instant> {
        self.0.extend_from_slice(bytes);
        let end = self.0.iter().rposition(|byte| *byte == b'\n')?;
        let lines: Vec<u8> = self.0.drain(..=end).collect();
        let nanos = String::from_utf8_lossy(&lines).lines().next_back()?.parse().ok()?;
        Some(Instant::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_order_counts_however_the_bytes_are_cut() {
        let last = Instant::from_nanos(12_345_678_901_234);
        let text = line(Instant::from_nanos(1)) + &line(last);
        for cut in 0..text.len() {
            let mut inbox = Inbox::default();
            let first = inbox.receive(&text.as_bytes()[..cut]);
            assert!(first.is_none() || first == Some(Instant::from_nanos(1)), "cut at {cut}");
            assert_eq!(inbox.receive(&text.as_bytes()[cut..]), Some(last), "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(Inbox::default().receive(b"soon\n"), None);
    }
}
