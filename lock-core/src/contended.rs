//! Which locks were found to be wanted by several of late.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::LockKey;

/// So many are remembered; with one more, all are forgotten, which costs each of them a request.
const REMEMBERED: usize = 1024;

/// Which locks were found to be wanted by several of late, for backends that ask less where nobody else is. It is a hint:
/// to be wrong may cost a request, and nothing else.
#[derive(Debug, Default)]
pub struct Contended(Mutex<HashSet<LockKey>>);

impl Contended {
    /// Whether several wanted it when it was last looked at.
    #[must_use]
    pub fn has(&self, key: &LockKey) -> bool {
        self.keys().contains(key)
    }

    /// Notes what an attempt found.
    pub fn note(&self, key: &LockKey, is_contended: bool) {
        let mut keys = self.keys();
        if !is_contended {
            keys.remove(key);
        } else if !keys.contains(key) {
            if keys.len() >= REMEMBERED {
                keys.clear();
            }
            keys.insert(key.clone());
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<LockKey>> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_remembered_for_ever() {
        let contended = Contended::default();
        let key = |n: usize| LockKey::new(n.to_string()).unwrap();
        for n in 0..REMEMBERED * 2 {
            contended.note(&key(n), true);
            assert!(contended.has(&key(n)));
        }
        assert!(contended.keys().len() <= REMEMBERED);
        contended.note(&key(REMEMBERED * 2 - 1), false);
        assert!(!contended.has(&key(REMEMBERED * 2 - 1)));
    }
}
