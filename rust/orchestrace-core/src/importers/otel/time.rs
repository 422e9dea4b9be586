//! Times of spans in the units that exporters use.

use crate::json::Kind;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

/// A time as RFC 3339, or as a number since the epoch, whose size says its unit: seconds up to the year 2286,
/// milliseconds, microseconds and nanoseconds from April 1970 on.
pub(in crate::importers) fn instant(value: Value<'_>) -> Option<i64> {
    let text = value.str();
    let written = text.and_then(parse_timestamp).or_else(|| {
        // As databases print it: with a blank, and `UTC` or nothing behind it.
        let text = text?.trim_end_matches("UTC").trim_end();
        parse_timestamp(&text.replacen(' ', "T", 1))
    });
    written.or_else(|| counted(value)).filter(|t| *t > 0)
}

fn counted(value: Value<'_>) -> Option<i64> {
    if let Some(n) = value.integer_like() {
        return n.checked_mul(unit(n as f64));
    }
    let number = value.number_like().filter(|_| value.kind() == Some(Kind::Number))?;
    let nanos = number * unit(number) as f64;
    (nanos.abs() < i64::MAX as f64).then(|| nanos.round() as i64)
}

/// Nanoseconds of the unit in which a time since the epoch has this size.
fn unit(size: f64) -> i64 {
    match size {
        n if n < 1e10 => 1_000_000_000,
        n if n < 1e13 => 1_000_000,
        n if n < 1e16 => 1_000,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    const LIMITS: Limits = Limits { depth: 16, string: 1 << 10, lenient: false };

    #[test]
    fn one_moment_in_every_spelling() {
        let moment = parse_timestamp("2026-01-01T00:00:05.5Z");
        for json in [
            "1767225605.5",
            "1767225605500",
            "1767225605500000",
            "1767225605500000000",
            "\"1767225605500000000\"",
            "\"2026-01-01T00:00:05.500000Z\"",
            "\"2026-01-01T01:00:05.500+01:00\"",
            "\"2026-01-01 00:00:05.500000000\"",
            "\"2026-01-01 00:00:05.500 UTC\"",
        ] {
            let tree = Tree::parse(json, LIMITS).unwrap();
            assert_eq!(instant(tree.root()), moment, "{json}");
        }
        for json in ["0", "null", "\"\"", "\"soon\"", "{}"] {
            let tree = Tree::parse(json, LIMITS).unwrap();
            assert_eq!(instant(tree.root()), None, "{json}");
        }
    }
}
