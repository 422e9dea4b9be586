//! Absolute times: RFC 3339 text, or seconds since the epoch, to nanoseconds and back.

use chrono::{DateTime, NaiveDateTime, SecondsFormat};

use super::tree::Value;

/// Nanoseconds since the epoch; a text without an offset means UTC (docs/reference/importer-rules.md, R3).
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text)
        .map(|t| t.to_utc())
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").map(|t| t.and_utc()))
        .ok()
        .and_then(|t| t.timestamp_nanos_opt())
}

/// A time as programs write it that do not agree, in nanoseconds since the epoch: an RFC 3339 text, or a number of
/// milliseconds, or of seconds where it is too small for those. A number too small for seconds is no time.
#[must_use]
pub fn instant(value: Value<'_>) -> Option<i64> {
    const LEAST_SECONDS: f64 = 1e9;
    const LEAST_MILLISECONDS: f64 = 1e11;
    let number = || {
        let number = value.f64().filter(|number| *number >= LEAST_SECONDS)?;
        nanoseconds(value, if number < LEAST_MILLISECONDS { 9 } else { 6 })
    };
    value.str().and_then(parse_timestamp).or_else(number)
}

/// A number of a unit that has so many digits of nanoseconds, 9 for seconds and 6 for milliseconds: taken from the digits
/// as they are written, of which a float has not enough.
#[must_use]
pub fn nanoseconds(value: Value<'_>, digits: usize) -> Option<i64> {
    let number = value.f64()?;
    let unit = 10_i64.pow(digits as u32);
    if let Some(integer) = value.i64() {
        return integer.checked_mul(unit);
    }
    let exact = |text: &str| {
        let (integer, part) = text.split_once('.')?;
        let part: i64 = format!("{part:0<digits$}").get(..digits)?.parse().ok()?;
        integer.parse::<i64>().ok()?.checked_mul(unit)?.checked_add(part)
    };
    exact(value.raw()).or(Some((number * unit as f64) as i64))
}

/// Nanoseconds of an ISO 8601 duration of days and less: `PT1M48.75533S`, `P1DT2H`. Months and years have no length.
#[must_use]
pub fn parse_duration(text: &str) -> Option<i64> {
    let (days, time) = text.strip_prefix('P')?.split_once('T').unwrap_or((&text[1..], ""));
    let mut total = 0_i64;
    let mut any = false;
    for (part, units) in [(days, &[('D', 86_400_i64)][..]), (time, &[('H', 3_600), ('M', 60), ('S', 1)])] {
        let mut rest = part;
        let mut units = units.iter();
        while !rest.is_empty() {
            let (number, unit) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
            let (_, seconds) = units.find(|(name, _)| unit.starts_with(*name))?;
            let (integer, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
            // Of a fraction what is below a nanosecond is lost.
            let digits = |d: &str| d.bytes().all(|b| b.is_ascii_digit()) && d.len() < 19;
            if integer.is_empty() || !digits(integer) || !digits(fraction) {
                return None;
            }
            let nanos: i64 = format!("{fraction:0<9}")[..9].parse().ok()?;
            let integer: i64 = integer.parse().ok()?;
            let part = integer.checked_mul(1_000_000_000)?.checked_add(nanos)?.checked_mul(*seconds)?;
            total = total.checked_add(part)?;
            any = true;
            rest = &unit[1..];
        }
    }
    any.then_some(total)
}

/// Nanoseconds of a number of seconds since the epoch: its digits are read as they stand, since a float of this size is
/// too coarse. A number too large for seconds is nanoseconds, which some stores keep.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<i64> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if integer.is_empty() || !digits(integer) || !digits(fraction) {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let integer: i64 = integer.parse().ok()?;
    if integer > 1_000_000_000_000 {
        Some(integer)
    } else {
        integer.checked_mul(1_000_000_000)?.checked_add(nanos)
    }
}

/// RFC 3339 with as many decimals as the time needs.
#[must_use]
pub fn format_timestamp(nanos: i64) -> String {
    DateTime::from_timestamp_nanos(nanos).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_survive() {
        for text in ["2026-04-30T12:14:13.812873700Z", "1999-12-31T23:59:59Z"] {
            let nanos = parse_timestamp(text).unwrap();
            assert_eq!(parse_timestamp(&format_timestamp(nanos)), Some(nanos));
        }
        assert_eq!(parse_timestamp("2026-01-01T00:00:00-04:00"), parse_timestamp("2026-01-01T04:00:00"));
        assert_eq!(parse_timestamp("yesterday"), None);
    }

    #[test]
    fn numbers_are_times_to_their_last_digit() {
        let limits = crate::json::Limits { depth: 8, string: 64, lenient: true };
        for (text, nanos) in [
            ("1783000008.75", Some(1_783_000_008_750_000_000)),
            ("1783000001.1", Some(1_783_000_001_100_000_000)),
            ("1783000001", Some(1_783_000_001_000_000_000)),
            ("1767225600123", Some(1_767_225_600_123_000_000)),
            ("1767225600123.25", Some(1_767_225_600_123_250_000)),
            ("1.5e9", Some(1_500_000_000_000_000_000)),
            ("12", None),
            ("-1783000001", None),
            ("\"2026-01-01T00:00:00Z\"", Some(1_767_225_600_000_000_000)),
        ] {
            let tree = crate::json::tree::Tree::parse(text, limits).unwrap();
            assert_eq!(instant(tree.root()), nanos, "{text}");
        }
    }

    #[test]
    fn durations_are_exact() {
        for (text, nanos) in [
            ("PT1M48.75533S", 108_755_330_000),
            ("PT0.060044S", 60_044_000),
            ("PT2H", 7_200_000_000_000),
            ("P1DT1S", 86_401_000_000_000),
            ("PT0,5S", 500_000_000),
            ("PT1.5M", 90_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Some(nanos), "{text}");
        }
        for text in
            ["", "P", "PT", "PT1", "P1M", "PT1S2M", "PT-1S", "PTS", "1S", "PT99999999999999H", "PT1éS"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
