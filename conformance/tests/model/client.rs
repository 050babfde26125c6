//! What a client knows.

/// How far a client is. It makes one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// It has not asked yet.
    Idle,
    /// It has asked and knows nothing.
    Asking,
    /// It was granted the lock, which is valid for `left` more ticks. `grant` counts the grants of the store.
    Holding { token: u8, grant: u8, left: u8 },
    /// It gave the claim up; `doubtful` if an attempt was still on its way then.
    Leaving { doubtful: bool },
    /// Nothing of its claim is left to be done.
    Gone,
}

/// A client that never looks at anything but its own clock and the answers to its requests. Between two of its
/// steps any time may pass: a client that pauses is one that takes no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The number of its last request.
    pub(crate) last: u8,
    /// Ticks since that left, while its answer is awaited.
    pub(crate) ago: Option<u8>,
    /// How many more requests it makes of each kind.
    pub(crate) repeats: u8,
    pub(crate) renewals: u8,
    /// It found the lock valid, and is about to write with the token of this grant.
    pub(crate) writing: Option<(u8, u8)>,
}

impl Client {
    pub(crate) fn new(repeats: u8, renewals: u8) -> Self {
        Self { phase: Phase::Idle, last: 0, ago: None, repeats, renewals, writing: None }
    }

    /// Numbers the request that leaves now.
    pub(crate) fn send(&mut self) -> u8 {
        self.last += 1;
        self.ago = Some(0);
        self.last
    }

    /// A tick passes on its clock. An answer that would come after `validity` says nothing about now.
    pub(crate) fn tick(&mut self, validity: u8) {
        self.ago = self.ago.map(|ago| validity.min(ago + 1));
        if let Phase::Holding { left, .. } = &mut self.phase {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.ago = None;
            }
        }
    }

    /// Whether it may rely on the lock now.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holding { left: 1.., .. })
    }

    /// What it does no more once it has given up is forgotten, so that states are equal that differ in that alone.
    pub(crate) fn leave(&mut self, phase: Phase) {
        *self = Self { phase, writing: self.writing, last: 0, ago: None, repeats: 0, renewals: 0 };
    }
}
