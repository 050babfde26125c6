//! Who has a lock, by what several servers say.

use std::time::Duration;

use distlock_core::{Busy, Cursor, Holder};

use super::ballot::majority;

/// What the servers said of those who have the lock there.
#[derive(Debug)]
pub(super) struct Rivals {
    nodes: usize,
    seen: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    holder: Option<Holder>,
    free_in: Option<Duration>,
    token: u64,
    is_agreed: bool,
}

impl Rivals {
    pub(super) const fn new(nodes: usize) -> Self {
        Self { nodes, seen: Vec::new() }
    }

    /// One server's answer.
    pub(super) fn add(&mut self, busy: Busy, token: u64, is_agreed: bool) {
        let Busy { holder, free_in, .. } = busy;
        self.seen.push(Seen { holder, free_in, token, is_agreed });
    }

    /// All of it in one: the holder whose token was agreed on, and when enough servers are free.
    pub(super) fn busy(&self) -> Busy {
        let mut busy = Busy::unknown();
        let agreed = self.seen.iter().find(|seen| seen.is_agreed);
        busy.holder = agreed.and_then(|seen| seen.holder.clone());
        busy.cursor = Cursor(agreed.or_else(|| self.seen.first()).map_or(0, |seen| seen.token));
        let mut ends: Vec<_> = self.seen.iter().filter_map(|seen| seen.free_in).collect();
        ends.sort_unstable();
        // Those that are not among them may be free already.
        let needed = (majority(self.nodes) + self.seen.len()).saturating_sub(self.nodes);
        busy.free_in = ends.get(needed.saturating_sub(1)).copied();
        busy
    }
}

#[cfg(test)]
mod tests {
    use distlock_core::{FencingToken, OwnerId};

    use super::*;

    #[test]
    fn the_holder_is_the_one_whose_token_was_agreed_on() {
        let holder = |token| Holder::new(OwnerId::random(), FencingToken::new(token).unwrap());
        let ms = Duration::from_millis;
        let mut rivals = Rivals::new(5);
        rivals.add(Busy::by(holder(9), ms(90)), 9, false);
        rivals.add(Busy::by(holder(7), ms(70)), 7, true);
        rivals.add(Busy::by(holder(8), ms(80)), 8, false);
        let busy = rivals.busy();
        assert_eq!(busy.holder.unwrap().token.get(), 7);
        assert_eq!((busy.free_in, busy.cursor), (Some(ms(70)), Cursor(7)));
    }
}
