//! Sources of values: JSON pointers into a step, the object that holds its list, or its record; names of the file;
//! constants, joins and hashes of these.

use std::borrow::Cow;

use super::counts::Counts;
use crate::importers::hex::hex;
use crate::importers::recording::hash;
use crate::json::time::{parse_duration, parse_timestamp};
use crate::json::tree::{Value, canonical};
use crate::json::{Kind, write_string};

/// A JSON pointer (RFC 6901), its reference tokens unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer(pub(super) Vec<String>);

impl Pointer {
    /// Why a text is none is what it gives then.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(tokens) = text.strip_prefix('/') else {
            return Err("a JSON pointer that begins with '/'");
        };
        let unescaped = |token: &str| {
            let mut rest = token.split('~');
            let mut out = rest.next().unwrap_or_default().to_owned();
            for part in rest {
                out.push(match part.as_bytes().first() {
                    Some(b'0') => '~',
                    Some(b'1') => '/',
                    _ => return Err("'~0' or '~1' for a '~' or a '/' inside a key"),
                });
                out.push_str(&part[1..]);
            }
            Ok(out)
        };
        tokens.split('/').map(unescaped).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn spelt(&self) -> String {
        let escaped = |token: &String| format!("/{}", token.replace('~', "~0").replace('/', "~1"));
        self.0.iter().map(escaped).collect()
    }

    pub(super) fn of<'t>(&self, value: Value<'t>) -> Value<'t> {
        self.0.iter().fold(value, |value, token| step_into(value, token))
    }

    /// Everything that it points at where `*` stands for each element of a list.
    pub(super) fn all<'t>(&self, value: Value<'t>) -> Vec<Value<'t>> {
        let mut values = vec![value];
        for token in &self.0 {
            values = match token.as_str() {
                "*" => values.into_iter().flat_map(Value::elements).collect(),
                token => values.into_iter().map(|value| step_into(value, token)).collect(),
            };
        }
        values
    }
}

fn step_into<'t>(value: Value<'t>, token: &str) -> Value<'t> {
    match value.kind() {
        Some(Kind::Array) => value.at(token.parse().unwrap_or(usize::MAX)),
        _ => value.get(token),
    }
}

/// What is the same for all steps of a list of steps: it travels beside each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// In the record.
    Record(Pointer),
    /// In the object that holds the list.
    Up(Pointer),
    /// Name of the file without folders and extensions.
    Stem,
    /// Name of its folder.
    Folder,
    /// The key of the record: a hash of it, and its place in its input.
    Place,
    /// Where it lies alone, so that what is written twice happened twice.
    Offset,
}

/// A way to a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// In the current part: the step, or one of its calls, results or labels.
    Here(Pointer),
    /// In the step, seen from its calls.
    Step(Pointer),
    Slot(usize),
    Constant(String),
    /// The first that there is and that is no empty text.
    First(Vec<Expr>),
    /// All of them as one text; nothing if one is missing.
    Join(Vec<Expr>, String),
    /// Digits of a hash of the text.
    Hash(Box<Expr>),
    /// How many elements it has; an empty list stands for none that was recorded.
    Count(Box<Expr>),
    /// A way that the file spells, by its number: how often it leads to a value is counted.
    Counted(usize, Box<Expr>),
}

/// Where the slots are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slots<'a, 't> {
    /// In the record itself.
    Record { record: Value<'t>, up: Value<'t>, stem: &'a str, path: &'a str, place: &'a str, offset: u64 },
    /// In the list that travels beside the step, of a step that lies in a list.
    Beside(Value<'t>),
    /// In the list of values that the step, which is the record, does not hold itself.
    Own(Value<'t>),
}

/// Where a value is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a, 't> {
    pub(super) here: Value<'t>,
    pub(super) step: Value<'t>,
    pub(super) slots: Slots<'a, 't>,
    pub(super) named_slots: &'a [Slot],
    /// Where it is counted what is found, and the number of this place.
    pub(super) counts: Option<&'a Counts>,
    pub(super) place: u32,
}

impl<'t> Scope<'_, 't> {
    /// The same scope further in.
    pub(super) fn at(self, here: Value<'t>) -> Self {
        Self { here, place: self.counts.map_or(0, Counts::place), ..self }
    }

    /// The same scope where nothing is counted: what is looked for here was counted elsewhere.
    pub(super) fn uncounted(self) -> Self {
        Self { counts: None, ..self }
    }

    pub(super) fn slot(&self, at: usize) -> FieldValue<'t> {
        match (self.slots, &self.named_slots[at]) {
            (Slots::Record { record, .. }, Slot::Record(pointer)) => FieldValue::Json(pointer.of(record)),
            (Slots::Record { up, .. }, Slot::Up(pointer)) => FieldValue::Json(pointer.of(up)),
            (Slots::Record { stem, .. }, Slot::Stem) => FieldValue::text(stem),
            (Slots::Record { path, .. }, Slot::Folder) => {
                FieldValue::text(path.rsplit('/').nth(1).unwrap_or_default())
            }
            (Slots::Record { place, .. }, Slot::Place) => FieldValue::text(place),
            (Slots::Record { offset, .. }, Slot::Offset) => FieldValue::Text(offset.to_string().into()),
            (Slots::Own(_), Slot::Record(pointer) | Slot::Up(pointer)) => {
                FieldValue::Json(pointer.of(self.step))
            }
            (Slots::Beside(list) | Slots::Own(list), _) => FieldValue::Json(list.at(at)),
        }
    }
}

/// A value that was found.
#[derive(Debug, Clone)]
pub(super) enum FieldValue<'t> {
    Json(Value<'t>),
    Text(Cow<'t, str>),
    Number(f64),
    Flag(bool),
    Nothing,
}

impl<'t> FieldValue<'t> {
    /// A text, of which the empty one is nothing.
    fn text(text: &str) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::Text(text.to_owned().into()) }
    }

    /// Whether there is a value other than null.
    pub(super) fn exists(&self) -> bool {
        match self {
            Self::Json(value) => value.exists(),
            Self::Nothing => false,
            _ => true,
        }
    }

    /// Whether there is a value, be it null.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Self::Json(value) => !value.is_absent(),
            Self::Nothing => false,
            _ => true,
        }
    }

    /// A word: a text that is not empty, a number or a flag as written.
    pub(super) fn word(&self) -> Option<Cow<'t, str>> {
        match self {
            Self::Json(value) => match value.kind()? {
                Kind::String => value.some_str().map(Cow::Borrowed),
                Kind::Number | Kind::Bool => Some(value.raw().into()),
                _ => None,
            },
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string().into()),
            Self::Flag(flag) => Some(flag.to_string().into()),
            Self::Nothing => None,
        }
    }

    /// A content: a text as it stands, anything else in its one spelling; the empty text is none.
    pub(super) fn content(&self) -> Option<Cow<'t, str>> {
        match self {
            Self::Json(value) if value.kind() == Some(Kind::String) => value.some_str().map(Cow::Borrowed),
            Self::Json(value) if value.exists() => {
                let mut out = Vec::new();
                canonical(*value, &mut out);
                Some(String::from_utf8_lossy(&out).into_owned().into())
            }
            Self::Json(_) => None,
            _ => self.word(),
        }
    }

    pub(super) fn f64(&self) -> Option<f64> {
        match self {
            Self::Json(value) => value.number_like(),
            Self::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            Self::Number(number) => Some(*number),
            Self::Flag(_) | Self::Nothing => None,
        }
    }

    /// A number, or a flag as 0 or 1: what something is judged by.
    pub(super) fn measure(&self) -> Option<f64> {
        self.f64().or_else(|| match self {
            Self::Json(value) => value.bool().map(f64::from),
            Self::Flag(flag) => Some(f64::from(*flag)),
            _ => None,
        })
    }

    pub(super) fn i64(&self) -> Option<i64> {
        match self {
            Self::Json(value) => value.integer_like(),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Number(number) => (number.fract() == 0.0 && number.abs() < 9e15).then_some(*number as i64),
            Self::Flag(_) | Self::Nothing => None,
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match self {
            Self::Json(value) => value.bool().or_else(|| flag(value.str()?)),
            Self::Text(text) => flag(text),
            Self::Flag(flag) => Some(*flag),
            Self::Number(_) | Self::Nothing => None,
        }
    }

    /// A time in nanoseconds: a number of units, or RFC 3339 where there is no unit.
    pub(super) fn time(&self, unit: Option<Unit>) -> Option<i64> {
        let text = self.word()?;
        match unit {
            Some(unit) => nanos(&text, unit),
            None if matches!(self, Self::Json(value) if value.kind() != Some(Kind::String)) => None,
            // Python writes a space between day and hour.
            None => parse_timestamp(&text).or_else(|| parse_timestamp(&text.replacen(' ', "T", 1))),
        }
    }

    /// A duration in seconds: a number of units, or ISO 8601.
    pub(super) fn seconds(&self, unit: Option<Unit>) -> Option<f64> {
        let units = unit.unwrap_or(Unit::S).in_nanos() as f64;
        let number = self.f64().map(|number| number * (units / 1e9));
        number.or_else(|| parse_duration(&self.word()?).map(|nanos| nanos as f64 / 1e9))
    }

    /// What it is, for a message.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Json(value) => match value.kind() {
                None => "nothing".into(),
                Some(Kind::Null) => "null".into(),
                Some(Kind::Object) => "an object".into(),
                Some(Kind::Array) => "a list".into(),
                Some(Kind::Bool | Kind::Number) => cut(value.raw()),
                Some(Kind::String) => format!("'{}'", cut(value.str().unwrap_or_default())),
            },
            Self::Nothing => "nothing".into(),
            other => format!("'{}'", cut(&other.word().unwrap_or_default())),
        }
    }
}

fn cut(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut out: String = text.chars().take(SHOWN).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "true" | "True" => Some(true),
        "false" | "False" => Some(false),
        _ => None,
    }
}

impl Expr {
    /// Whether its text is hashed.
    fn hashes(&self) -> bool {
        match self {
            Self::Hash(_) => true,
            Self::Counted(_, of) => of.hashes(),
            _ => false,
        }
    }

    pub(super) fn find<'t>(&self, scope: &Scope<'_, 't>) -> FieldValue<'t> {
        match self {
            Self::Counted(way, of) => {
                let looked_up = of.find(scope);
                if let Some(counts) = scope.counts {
                    counts.note(*way, scope.place, &looked_up);
                }
                looked_up
            }
            Self::Here(pointer) => FieldValue::Json(pointer.of(scope.here)),
            Self::Step(pointer) => FieldValue::Json(pointer.of(scope.step)),
            Self::Slot(at) => scope.slot(*at),
            Self::Constant(text) => FieldValue::Text(text.clone().into()),
            Self::First(of) => {
                let mut empty = FieldValue::Nothing;
                for expr in of {
                    let alternative = expr.find(scope);
                    let says = match &alternative {
                        FieldValue::Json(value) => value.exists() && value.str() != Some(""),
                        alternative => alternative.exists(),
                    };
                    if says {
                        return alternative;
                    }
                    if alternative.is_there() {
                        empty = alternative;
                    }
                }
                empty
            }
            Self::Join(of, with) => {
                let mut parts = vec![None; of.len()];
                // hashes last: no text is hashed in vain where another part is missing
                for hashes in [false, true] {
                    for (part, expr) in parts.iter_mut().zip(of).filter(|(_, expr)| expr.hashes() == hashes) {
                        *part = expr.find(scope).word();
                        if part.is_none() {
                            return FieldValue::Nothing;
                        }
                    }
                }
                let parts: Vec<_> = parts.into_iter().flatten().collect();
                FieldValue::text(&parts.join(with))
            }
            Self::Hash(of) => {
                of.find(scope).content().map_or(FieldValue::Nothing, |text| FieldValue::text(&digits(&text)))
            }
            Self::Count(of) => match of.find(scope) {
                FieldValue::Json(list) if list.kind() == Some(Kind::Array) && !list.is_empty() => {
                    FieldValue::Number(list.len() as f64)
                }
                _ => FieldValue::Nothing,
            },
        }
    }

    /// The numbers of the ways in it.
    pub(super) fn counted(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Self::Counted(way, _) => visit(*way),
            Self::First(of) | Self::Join(of, _) => of.iter().for_each(|expr| expr.counted(visit)),
            _ => {}
        }
    }

    /// The pointers in it, with whether they are in the current part.
    pub(super) fn pointers<'e>(&'e self, slots: &'e [Slot], out: &mut Vec<(bool, &'e Pointer)>) {
        match self {
            Self::Here(pointer) => out.push((true, pointer)),
            Self::Slot(at) => match &slots[*at] {
                Slot::Record(pointer) | Slot::Up(pointer) => out.push((false, pointer)),
                _ => {}
            },
            Self::First(of) | Self::Join(of, _) => of.iter().for_each(|expr| expr.pointers(slots, out)),
            Self::Hash(of) | Self::Count(of) | Self::Counted(_, of) => of.pointers(slots, out),
            Self::Step(_) | Self::Constant(_) => {}
        }
    }
}

/// The first 16 digits of a text's SHA-256.
pub(super) fn digits(text: &str) -> String {
    hex(&hash(text)[..8])
}

/// Appends a found value as JSON; of texts that are none of the recording, as a string.
pub(super) fn spell(field_value: &FieldValue<'_>, out: &mut Vec<u8>) {
    match field_value {
        FieldValue::Json(value) if value.exists() => out.extend_from_slice(value.raw().as_bytes()),
        FieldValue::Text(text) => write_string(text, out),
        FieldValue::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        FieldValue::Flag(flag) => out.extend_from_slice(flag.to_string().as_bytes()),
        FieldValue::Json(_) | FieldValue::Nothing => out.extend_from_slice(b"null"),
    }
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

impl Unit {
    pub(super) const NAMES: &[&str] = &["s", "ms", "us", "ns"];

    pub(super) fn parse(text: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|name| *name == text)?;
        Some([Self::S, Self::Ms, Self::Us, Self::Ns][at])
    }

    fn in_nanos(self) -> i64 {
        10_i64.pow(self.digits() as u32)
    }

    /// Decimal places of a nanosecond in it.
    fn digits(self) -> usize {
        [9, 6, 3, 0][self as usize]
    }
}

/// Nanoseconds of a number of units: its digits are read as they stand, since a float of this size is too coarse. What
/// is below a nanosecond is lost.
fn nanos(text: &str, unit: Unit) -> Option<i64> {
    let text = text.trim();
    let (negative, number) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().ok().filter(|e: &i32| e.abs() < 40)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() < 40;
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let places = whole.len() as i32 + exponent + unit.digits() as i32;
    let all = format!("{whole}{fraction}");
    let digits_of_unit = usize::try_from(places).unwrap_or(0);
    let nanos: i64 = match all.get(..digits_of_unit.min(all.len())).unwrap_or_default() {
        "" => 0,
        digits => format!("{digits}{}", "0".repeat(digits_of_unit - digits.len())).parse().ok()?,
    };
    Some(if negative { -nanos } else { nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_digits() {
        for (text, unit, expected) in [
            ("1714478400.123456789", Unit::S, Some(1_714_478_400_123_456_789)),
            ("1714478400.1234567891", Unit::S, Some(1_714_478_400_123_456_789)),
            ("1714478400123", Unit::Ms, Some(1_714_478_400_123_000_000)),
            ("1714478400123.5", Unit::Ms, Some(1_714_478_400_123_500_000)),
            ("1714478400123456", Unit::Us, Some(1_714_478_400_123_456_000)),
            ("7", Unit::Ns, Some(7)),
            ("7.9", Unit::Ns, Some(7)),
            ("0.25", Unit::S, Some(250_000_000)),
            ("-1.5", Unit::S, Some(-1_500_000_000)),
            ("1.7144784e9", Unit::S, Some(1_714_478_400_000_000_000)),
            ("25e-2", Unit::S, Some(250_000_000)),
            ("1e-30", Unit::S, Some(0)),
            ("1e30", Unit::S, None),
            ("99999999999999999999", Unit::S, None),
            ("noon", Unit::S, None),
            ("", Unit::S, None),
            (".5", Unit::S, None),
        ] {
            assert_eq!(nanos(text, unit), expected, "{text}");
        }
    }

    #[test]
    fn pointers_are_those_of_the_rfc() {
        use crate::json::Limits;
        use crate::json::tree::Tree;
        let limits = Limits { depth: 9, string: 100, lenient: true };
        let tree = Tree::parse(r#"{"a/b":{"m~n":[1,{"":2}]},"":3}"#, limits).unwrap();
        let at = |text: &str| Pointer::parse(text).unwrap().of(tree.root()).i64();
        assert_eq!(at("/a~1b/m~0n/0"), Some(1));
        assert_eq!(at("/a~1b/m~0n/1/"), Some(2));
        assert_eq!(at("/"), Some(3));
        assert_eq!(at("/a~1b/m~0n/2"), None);
        assert!(
            Pointer::parse("a").is_err() && Pointer::parse("/~2").is_err() && Pointer::parse("/~").is_err()
        );
    }
}
