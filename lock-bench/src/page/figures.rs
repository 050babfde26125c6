//! Figures as people read them.

/// A number with three digits that count.
pub(super) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        small if small < 0.1 => 3,
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    let digits = format!("{value:.decimals$}");
    if value.abs() < 10_000.0 { digits } else { grouped(&digits) }
}

/// A time that is given in microseconds.
pub(super) fn time(micros: f64) -> String {
    if micros < 1e3 {
        format!("{} µs", short(micros))
    } else if micros < 1e6 {
        format!("{} ms", short(micros / 1e3))
    } else {
        format!("{} s", short(micros / 1e6))
    }
}

/// A power of ten in microseconds, for an axis.
pub(super) fn tick(micros: f64) -> String {
    let (value, unit) = match micros {
        small if small < 1.0 => (small * 1e3, "ns"),
        micros if micros < 1e3 => (micros, "µs"),
        millis if millis < 1e6 => (millis / 1e3, "ms"),
        seconds => (seconds / 1e6, "s"),
    };
    format!("{value:.0} {unit}")
}

/// A moment in seconds since 1970, in UTC.
pub(super) fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days, for days after 1970. Years begin in March.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    format!("{year}-{month:02}-{day_of_month:02} {:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60)
}

fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (value, text) in
            [(0.0, "0"), (0.0123, "0.012"), (1.234, "1.23"), (45.67, "45.7"), (1234.5, "1234")]
        {
            assert_eq!(short(value), text);
        }
        assert_eq!(short(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(
            (time(12.0), time(1500.0), time(2.5e6)),
            ("12.0 µs".into(), "1.50 ms".into(), "2.50 s".into())
        );
        assert_eq!((tick(0.1), tick(10.0), tick(1e5)), ("100 ns".into(), "10 µs".into(), "100 ms".into()));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59 UTC");
    }
}
