//! Histories come from files, so the checks bear any.

use proptest::prelude::*;

use super::event::{Event, What};
use super::{Promises, check, lost_updates};

/// Numbers that meet each other, and those at the edges.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..12, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn asking() -> impl Strategy<Value = What> {
    prop_oneof![
        (number(), any::<bool>(), any::<bool>(), number()).prop_map(|(op, queue, handed, ttl)| What::Ask {
            op,
            queue,
            handed,
            ttl
        }),
        (number(), number(), number(), number()).prop_map(|(op, token, ttl, valid_until)| What::Granted {
            op,
            token,
            ttl,
            valid_until
        }),
        number().prop_map(|op| What::Busy { op }),
        (number(), any::<bool>()).prop_map(|(op, unknown)| What::AskFailed { op, unknown }),
        (number(), number()).prop_map(|(op, ttl)| What::Renew { op, ttl }),
        (number(), number()).prop_map(|(op, valid_until)| What::Renewed { op, valid_until }),
        number().prop_map(|op| What::RenewLost { op }),
        number().prop_map(|op| What::RenewFailed { op }),
        (number(), any::<bool>()).prop_map(|(op, handed)| What::Unlock { op, handed }),
        (number(), any::<bool>()).prop_map(|(op, released)| What::Unlocked { op, released }),
        number().prop_map(|op| What::Kept { op }),
        number().prop_map(|op| What::UnlockFailed { op }),
    ]
}

fn looking() -> impl Strategy<Value = What> {
    let maybe = || prop::option::of(number());
    prop_oneof![
        number().prop_map(|op| What::Force { op }),
        number().prop_map(|op| What::Forced { op }),
        number().prop_map(|op| What::Look { op }),
        (number(), prop::option::of("[ab]"), maybe(), maybe())
            .prop_map(|(op, holder, token, left)| What::Seen { op, holder, token, left }),
        (number(), maybe()).prop_map(|(op, patience)| What::Wait { op, patience }),
        number().prop_map(|op| What::Waited { op }),
        number().prop_map(|until| What::Valid { until }),
        (any::<bool>(), number()).prop_map(|(valid, until)| What::Checked { valid, until }),
        Just(What::Watching),
        Just(What::Unwatched),
        Just(What::Down),
        Just(What::Up),
        number().prop_map(|until| What::Lost { until }),
        (any::<[bool; 2]>(), number(), number(), number()).prop_map(|(flags, seq, token, value)| {
            What::Write { resource: "r".to_owned(), fenced: flags[0], seq, token, value, accepted: flags[1] }
        }),
        number().prop_map(|delay| What::End { delay }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let what = prop_oneof![3 => asking(), 2 => looking()];
    (number(), 0_u32..3, "k?", "[ab]?", what).prop_map(|(at, process, key, owner, what)| Event {
        at,
        process,
        key,
        owner,
        what,
    })
}

proptest! {
    #[test]
    fn any_history_can_be_judged(events in prop::collection::vec(event(), 0..40), fifo in any::<bool>()) {
        let mut strict = Promises::common();
        (strict.fifo, strict.single_step) = (fifo, true);
        for promises in [strict, Promises::common(), Promises::common().with_sudden_ends()] {
            for violation in check(&events, promises) {
                prop_assert!(super::CHECKS.iter().any(|(name, _)| *name == violation.check));
            }
        }
        let _ = lost_updates(&events, "r");
    }

    #[test]
    fn events_survive_their_file(event in event(), key in any::<String>(), owner in any::<String>()) {
        let event = Event { key, owner, ..event };
        let line = serde_json::to_string(&event).unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }

    #[test]
    fn a_file_of_any_content_is_read_or_refused(
        lines in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            event().prop_map(|event| serde_json::to_vec(&event).unwrap()),
        ], 0..8),
    ) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines.join(&b'\n')).unwrap();
        if let Err(error) = super::read(file.path()) {
            prop_assert!(error.to_string().contains(&file.path().display().to_string()));
        }
    }
}
