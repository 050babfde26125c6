//! How many sweeps a client has under way at once.

/// Grows while the store answers, and shrinks while it does not: what is left behind must not keep a store from
/// its work that is short of breath, and each attempt that it fails leaves one more to sweep.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
}

impl Window {
    const MOST: usize = 64;

    /// How many may be under way.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// Whether the last answers did not come.
    pub(super) const fn is_closing(&self) -> bool {
        self.size == 1
    }

    /// Notes how one ended.
    pub(super) fn note(&mut self, is_answered: bool) {
        self.size = if is_answered { (self.size * 2).min(Self::MOST) } else { (self.size / 2).max(1) };
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { size: Self::MOST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_does_not_answer_is_asked_once_at_a_time() {
        let mut window = Window::default();
        (0..6).for_each(|_| window.note(false));
        assert_eq!((window.size(), window.is_closing()), (1, true));
        window.note(false);
        assert_eq!(window.size(), 1);
        (0..3).for_each(|_| window.note(true));
        assert_eq!((window.size(), window.is_closing()), (8, false));
        (0..9).for_each(|_| window.note(true));
        assert_eq!(window.size(), 64);
    }
}
