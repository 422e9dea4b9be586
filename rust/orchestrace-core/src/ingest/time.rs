//! Absolute times: RFC 3339 text to nanoseconds and back.

use chrono::{DateTime, NaiveDateTime, SecondsFormat};

/// Nanoseconds since the epoch; a text without an offset means UTC (ARCHITECTURE.md, R3).
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text)
        .map(|t| t.to_utc())
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").map(|t| t.and_utc()))
        .ok()
        .and_then(|t| t.timestamp_nanos_opt())
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
}
