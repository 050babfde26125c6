//! Which waiters a look at the database wakes.

use distlock_core::{LockKey, OwnerId, Waiters};

/// Who waits for which lock on this backend, each with the token of the hold that was in the way; 0 for
/// a claim in the queue.
pub(super) type Watchers = Waiters<u64>;

/// What a look found out about one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) is_free: bool,
    /// The highest token granted so far.
    pub(super) token: u64,
    /// Who is first in the queue.
    pub(super) head: Option<OwnerId>,
}

impl Seen {
    /// Wakes whoever can make use of what was seen: the first in the queue, or all if there is no
    /// queue, when the lock is free; and outside the queue who saw an earlier hold.
    pub(super) fn wake(self, watchers: &Watchers, key: &LockKey) {
        watchers.wake(key, |owner, cursor| {
            let is_its_turn = self.is_free && self.head.is_none_or(|head| head == owner);
            let is_outdated = *cursor != 0 && *cursor != self.token;
            is_its_turn || is_outdated
        });
    }
}

#[cfg(test)]
mod tests {
    use distlock_core::Claim;

    use super::*;

    fn claim(key: &str) -> Claim {
        Claim::mint(LockKey::new(key).unwrap())
    }

    #[tokio::test]
    async fn only_the_head_of_the_queue_is_woken() {
        let watchers = Watchers::default();
        let (first, second) = (claim("a"), claim("a"));
        let mut waits = watchers.join(&first, 0).unwrap();
        let mut other = watchers.join(&second, 0).unwrap();
        Seen { is_free: false, token: 9, head: Some(second.owner) }.wake(&watchers, &first.key);
        Seen { is_free: true, token: 9, head: Some(first.owner) }.wake(&watchers, &first.key);
        assert!(waits.woken().await);
        assert!(!watchers.is_empty());
        Seen { is_free: true, token: 9, head: None }.wake(&watchers, &first.key);
        assert!(other.woken().await);
        assert!(watchers.is_empty());
    }

    #[tokio::test]
    async fn outside_the_queue_a_later_token_wakes() {
        let watchers = Watchers::default();
        let claim = claim("a");
        let mut waits = watchers.join(&claim, 7).unwrap();
        Seen { is_free: false, token: 7, head: None }.wake(&watchers, &claim.key);
        assert!(!watchers.is_empty());
        Seen { is_free: false, token: 8, head: None }.wake(&watchers, &claim.key);
        assert!(waits.woken().await);
    }
}
