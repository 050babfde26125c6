//! Whether a case failed because nothing moved for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use distlock_core::Result;

use crate::history::Event;
use crate::subject::Subject;

/// How long the next run of a case waits for the store to answer promptly again.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many answers in a row have to be prompt.
const PROMPT: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until the machine and the store answer within `tolerance` again, a few times in a row, so that a
/// case is not run again into the same standstill. It gives up after half a minute; the case then decides.
pub(crate) async fn over(subject: &dyn Subject, tolerance: Duration) {
    let mut prompt = 0;
    let calm = async {
        while prompt < PROMPT {
            let began = Instant::now();
            let answered = answers(subject).await.is_ok();
            prompt = if answered && began.elapsed() < tolerance { prompt + 1 } else { 0 };
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Not calm yet: nothing is gained by waiting longer.
    let _ = tokio::time::timeout(PATIENCE, calm).await;
}

async fn answers(subject: &dyn Subject) -> Result<()> {
    subject.connect(&subject.url()).await?.probe().await.map(drop)
}

/// The longest time that a call to the store took, of those that ended.
pub(crate) fn longest_call(events: &[Event]) -> Duration {
    let mut left = HashMap::new();
    let mut longest = 0;
    for event in events {
        if let Some(op) = event.what.left() {
            left.insert(op, event.at);
        } else if let Some(at) = event.what.answered().and_then(|op| left.remove(&op)) {
            longest = longest.max(event.at.saturating_sub(at));
        }
    }
    Duration::from_nanos(longest)
}

#[cfg(test)]
mod tests {
    use distlock_core::Instant;

    use super::*;
    use crate::history::What;

    #[test]
    fn the_longest_call_is_found_and_waits_are_none() {
        let event = |millis: u64, what| {
            Event::new(Instant::ORIGIN.plus(Duration::from_millis(millis)), "k", "o", what)
        };
        let events = [
            event(0, What::Wait { op: 9, patience: None }),
            event(1, What::Ask { op: 1, queue: false, handed: false, ttl: 1 }),
            event(2, What::Unlock { op: 2, handed: false }),
            event(5, What::Unlocked { op: 2, released: true }),
            event(8, What::AskFailed { op: 1, unknown: true }),
            event(9, What::Renew { op: 3, ttl: 1 }),
            event(90, What::Waited { op: 9 }),
        ];
        assert_eq!(longest_call(&events), Duration::from_millis(7));
        assert_eq!(longest_call(&[]), Duration::ZERO);
    }
}
