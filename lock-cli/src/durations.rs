//! Durations on the command line and in reports.

use std::time::Duration;

use distlock::{Guarantees, WaitPolicy};

/// Between two looks at the store.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Reads a duration such as `500ms`, `30s` or `1h 30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("a duration can't be negative; write for example 30s".to_owned());
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with its unit, for example 500ms, 30s or 1h30m"))?;
    if duration > Guarantees::TTL_MAX {
        let days = Guarantees::TTL_MAX.as_secs() / (24 * 60 * 60);
        return Err(format!("the longest is {days} days"));
    }
    Ok(duration)
}

/// Reads how long a lock may be held.
pub(crate) fn parse_hold(text: &str) -> Result<Duration, String> {
    let most = parse(text).map_err(|error| format!("{error}; without --max-hold there is no limit"))?;
    if most.is_zero() {
        return Err("that would never hold the lock; without --max-hold there is no limit".to_owned());
    }
    Ok(most)
}

/// Reads a pause between two looks at the store.
pub(crate) fn parse_pause(text: &str) -> Result<Duration, String> {
    let pause = parse(text)?;
    if pause < SHORTEST_PAUSE {
        return Err(format!("the shortest is {}, to spare the store", exactly(SHORTEST_PAUSE)));
    }
    Ok(pause)
}

/// Reads a ttl: a duration that at least one store can give.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse(text)?;
    let anywhere = Guarantees::single_process().effective_ttl(ttl);
    anywhere.map(|_| ttl).map_err(|error| error.message().to_owned())
}

/// Reads how long to wait: `forever`, `no` or a duration.
pub(crate) fn parse_wait(text: &str) -> Result<WaitPolicy, String> {
    match text.trim() {
        "forever" => Ok(WaitPolicy::Forever),
        "no" => Ok(WaitPolicy::No),
        duration => match parse(duration) {
            Ok(Duration::ZERO) => Ok(WaitPolicy::No),
            Ok(longest) => Ok(WaitPolicy::UpTo(longest)),
            Err(error) => Err(format!("{error}, or `forever` or `no`")),
        },
    }
}

/// The duration with all its parts: `1m 30s`.
pub(crate) fn exactly(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// The duration as people want to read it: milliseconds below ten seconds, whole seconds above.
pub(crate) fn roughly(duration: Duration) -> String {
    let grain = if duration < Duration::from_secs(10) { 1 } else { 1000 };
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    exactly(Duration::from_millis(millis / grain * grain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5400)));
    }

    #[test]
    fn absurd_durations_are_refused_with_a_reason() {
        for (text, reason) in [
            ("-5s", "negative"),
            ("30", "unit"),
            ("", "for example"),
            ("soon", "for example"),
            ("1000000years", "the longest is 366 days"),
            ("99999999999999999999s", "for example"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "`{text}`: {error}");
        }
    }

    #[test]
    fn waits_have_two_words_besides_durations() {
        assert_eq!(parse_wait("forever"), Ok(WaitPolicy::Forever));
        assert_eq!(parse_wait("no"), Ok(WaitPolicy::No));
        assert_eq!(parse_wait("0s"), Ok(WaitPolicy::No));
        assert_eq!(parse_wait("10s"), Ok(WaitPolicy::UpTo(Duration::from_secs(10))));
        assert!(parse_wait("-1s").unwrap_err().contains("negative"));
        assert!(parse_wait("never").is_err());
    }

    #[test]
    fn long_times_are_shown_without_their_dust() {
        assert_eq!(roughly(Duration::from_micros(29_700_123)), "29s");
        assert_eq!(roughly(Duration::from_micros(1_234_567)), "1s 234ms");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// What people write, and what is nearly that.
    fn nearly_a_duration() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "0",
            "1",
            "30",
            "007",
            "18446744073709551615",
            "-",
            "+",
            ".",
            "5.5",
            " ",
            "s",
            "ms",
            "us",
            "ns",
            "m",
            "h",
            "day",
            "years",
            "sec",
            "no",
            "forever",
            "\u{a0}",
            "é",
        ]);
        prop::collection::vec(part, 0..7).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_text_is_a_bounded_duration_or_an_error_that_says_how(
            text in prop_oneof![any::<String>(), nearly_a_duration()],
        ) {
            match parse(&text) {
                Ok(duration) => prop_assert!(duration <= Guarantees::TTL_MAX),
                Err(error) => prop_assert!(!error.is_empty()),
            }
            prop_assert!(parse_hold(&text).is_ok() <= parse(&text).is_ok_and(|most| !most.is_zero()));
            prop_assert!(parse_ttl(&text).is_ok() <= parse(&text).is_ok_and(|ttl| !ttl.is_zero()));
            if let Ok(WaitPolicy::UpTo(longest)) = parse_wait(&text) {
                prop_assert!(!longest.is_zero());
            }
        }

        #[test]
        fn what_is_shown_exactly_reads_back(nanos in 0..=366 * 24 * 60 * 60 * 1_000_000_000_u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&exactly(duration)), Ok(duration));
            let shown = parse(&roughly(duration)).unwrap();
            prop_assert!(shown <= duration && duration - shown < Duration::from_secs(1));
        }
    }
}
