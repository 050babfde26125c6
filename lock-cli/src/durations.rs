//! Durations on the command line and in reports.

use std::time::Duration;

use distlock::{Guarantees, WaitPolicy};

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
