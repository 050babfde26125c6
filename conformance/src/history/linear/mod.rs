//! H7: some order of the calls, each in one step between its departure and its answer, explains every answer.
//!
//! The lock of one key is an object with two states: free, or held by an owner with a token until at least
//! some instant. A grant needs a free lock and a token above all before; a renewal, the holder; a release that
//! succeeded, the holder; a refusal, somebody else. From the instant until which its holder was told that the
//! lock is valid, a hold may end by itself at any time, and no sooner. So this check also sees what is wrong
//! outside of definite holds: a lease cut short that nobody came to take, a renewal of what was released, a
//! second success of one release, a refusal after everybody had left.
//!
//! A call without an answer, or one that failed with an effect that is not known, may take effect at any time
//! after it left, or never. What that permits is granted generously, so that there are no false alarms: such a
//! release lets the hold of its owner end from then on; such an attempt, and likewise a place in the queue that
//! was acknowledged, excuses refusals for as long as it may lie in the store (as H5 reckons), and lets a later
//! release of its owner find something to release. Stores whose attempts take several steps
//! ([`Promises::single_step`] is false) may refuse two rivals at once, so there a rival's attempt excuses too.
//!
//! The search follows the answers in order of time and keeps every state that the lock may be in, together with
//! the calls that have taken effect but are not answered yet; a call takes effect no sooner than some answer
//! needs it to (just-in-time linearization). The number of such configurations is limited: a history for which
//! it does not suffice is undecided, and that is a violation, not a pass.

mod call;
#[cfg(test)]
mod oracle;
mod search;
#[cfg(test)]
mod tests;

use super::event::Event;
use super::{Promises, Violation};
use call::Story;

/// How many configurations one answer may need. Histories of the suite need some dozen.
const MOST: usize = 20_000;

pub(crate) fn check(key: &str, events: &[&Event], promises: Promises, margin: u64) -> Option<Violation> {
    check_within(key, events, promises, margin, MOST)
}

fn check_within(
    key: &str,
    events: &[&Event],
    promises: Promises,
    margin: u64,
    most: usize,
) -> Option<Violation> {
    let story = Story::of(events, promises, margin);
    search::run(&story, promises.sudden_ends, most).err().map(|text| Violation::new("H7", key, text))
}
