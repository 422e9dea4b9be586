//! A pull parser over one JSON record: the only module that knows JSON syntax.
//!
//! It was chosen by measurement (`benches/`, "JSON parsers on trace records"): the input is known to be
//! UTF-8, so strings without escapes are slices of it; strings are scanned sixteen bytes at a time, digits
//! eight; numbers of up to 19 digits and a small exponent are made without another pass (Clinger's exact
//! case). What is skipped is judged by the same rules as what is read. Nothing is allocated unless a string
//! has an escape.
//!
//! What nearly every value is goes a short way that is compiled into its caller; everything else, each
//! fault among it, goes the complete way, which begins at the same byte again.
//!
//! Faults carry the byte where they were found; [`Fault::into_reject`] turns that into words.

// Left to itself the compiler calls the short ways of the parser, and their results go through memory (measured).
#![allow(clippy::inline_always)]

pub(crate) mod identity;
pub mod keys;
mod scan;
pub mod time;
pub mod tree;

use crate::error::{Reject, RejectCode};
use scan::{digits, each, escape_from, escaped_by, lowest, plain_run, stops, stops_of};

/// The reason why a record cannot be read, with its position.
#[derive(Debug)]
pub struct Fault {
    /// Stable code.
    pub code: RejectCode,
    /// Byte within the record, where one can be named.
    pub at: Option<usize>,
    /// JSON pointer, built from the inside out.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

/// The start of the message if a record ends before its JSON does.
pub const END_OF_RECORD: &str = "found the end of the record";

/// The largest value of [`Limits::depth`]. Trees are built and walked by functions that call themselves, a level a
/// call, on the 2 MiB of stack that threads have by default: a level may take 2 KB of them, and takes some hundred
/// bytes, more where nothing is optimized. Python's own `json` goes no deeper either.
pub const MAX_DEPTH: usize = 1_000;

/// Faults are rare and large: boxed, so that results stay in registers.
pub type Parsed<T> = Result<T, Box<Fault>>;

impl Fault {
    /// A fault about a value rather than about bytes.
    #[cold]
    pub fn value(code: RejectCode, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { code, at: None, path: String::new(), message: message.into() })
    }

    /// The same fault, one level further out.
    #[cold]
    #[must_use]
    pub fn under(mut self: Box<Self>, key: &str) -> Box<Self> {
        self.path = format!("/{}{}", key.replace('~', "~0").replace('/', "~1"), self.path);
        self
    }

    /// The same fault, one array element further out.
    #[cold]
    #[must_use]
    pub fn at_index(mut self: Box<Self>, index: usize) -> Box<Self> {
        self.path = format!("/{index}{}", self.path);
        self
    }

    /// The row of the quarantine table.
    #[cold]
    #[must_use]
    #[allow(clippy::boxed_local)] // faults travel boxed
    pub fn into_reject(self: Box<Self>) -> Reject {
        let message = match self.at {
            Some(at) => format!("{} (byte {at} of the record)", self.message),
            None => self.message,
        };
        Reject { code: self.code, path: self.path, message }
    }
}

/// Limits of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Deepest nesting.
    pub depth: usize,
    /// Longest string, in bytes as written.
    pub string: usize,
    /// Whether a lone surrogate is replaced (foreign formats) rather than refused (native traces).
    pub lenient: bool,
}

/// The kind of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// In the words of JSON Schema.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
        }
    }
}

/// A string as it stands in the record, quotes excluded.
#[derive(Debug, Clone, Copy)]
pub struct Str<'a> {
    /// The record: it is cut where the text is asked for, which often it is not.
    record: &'a str,
    start: usize,
    end: usize,
    head: u128,
    escaped: bool,
}

impl<'a> Str<'a> {
    /// The text, unescaped into `scratch` where that is needed.
    #[inline(always)]
    pub fn text<'s>(&self, scratch: &'s mut String) -> &'s str
    where
        'a: 's,
    {
        if self.escaped {
            unescape(self.raw(), scratch);
            scratch
        } else {
            self.raw()
        }
    }

    /// The text as written, without the quotes.
    #[must_use]
    #[inline(always)]
    pub fn raw(&self) -> &'a str {
        self.record.get(self.start..self.end).unwrap_or_default()
    }

    /// The bytes as written, without the quotes.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.record.as_bytes().get(self.start..self.end).unwrap_or_default()
    }

    /// The string and what follows it, where the record goes on for as long.
    #[must_use]
    #[inline(always)]
    pub fn chunk(&self) -> Option<&'a [u8; 32]> {
        self.record.as_bytes().get(self.start..)?.first_chunk()
    }

    /// Length as written.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing stands between the quotes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Where the opening quote stands in the record.
    #[must_use]
    #[inline]
    pub fn quote(&self) -> usize {
        self.start - 1
    }

    /// Whether the text is not as written.
    #[must_use]
    #[inline]
    pub fn is_escaped(&self) -> bool {
        self.escaped
    }

    /// The first sixteen bytes as written, zeros where the string is shorter: with the length, all there
    /// is to know of a short string.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> u128 {
        self.head
    }
}

/// A token of up to sixteen bytes that may stand at a place: one comparison, whatever its length.
#[derive(Debug, Clone, Copy)]
pub struct Pattern {
    word: u128,
    mask: u128,
    len: usize,
}

impl Pattern {
    /// Of up to sixteen bytes; a longer one never matches.
    #[must_use]
    pub const fn new(token: &[u8]) -> Self {
        let (mut word, mut mask, mut i) = (0, 0, 0);
        if token.len() > 16 {
            return Self { word: u128::MAX, mask: u128::MAX, len: 16 };
        }
        while i < token.len() {
            word |= (token[i] as u128) << (8 * i);
            mask |= 0xFF << (8 * i);
            i += 1;
        }
        Self { word, mask, len: token.len() }
    }
}

/// A closed vocabulary of up to 64 words whose first sixteen bytes differ, found by head and length.
#[derive(Debug)]
pub struct Words {
    all: &'static [&'static str],
    heads: [u128; 64],
    /// Words by the hash of head and length, 1 more than their number; 0 is free.
    slots: [u8; 256],
}

impl Words {
    /// Of these words.
    #[must_use]
    pub const fn new(words: &'static [&'static str]) -> Self {
        let mut set = Self { all: words, heads: [0; 64], slots: [0; 256] };
        let mut word = 0;
        while word < words.len() {
            let bytes = words[word].as_bytes();
            let mut i = 0;
            while i < bytes.len() && i < 16 {
                set.heads[word] |= (bytes[i] as u128) << (8 * i);
                i += 1;
            }
            let mut slot = Self::slot(set.heads[word], bytes.len());
            while set.slots[slot] != 0 {
                slot = (slot + 1) % 256;
            }
            set.slots[slot] = word as u8 + 1;
            word += 1;
        }
        set
    }

    #[inline(always)]
    const fn slot(head: u128, len: usize) -> usize {
        let mixed = (head as u64 ^ (head >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed >> 56) as usize ^ len) % 256
    }

    /// The number of a word without escapes.
    #[must_use]
    #[inline(always)]
    pub fn find(&self, word: &Str<'_>) -> Option<u8> {
        let (head, len) = (word.head(), word.len());
        let mut slot = Self::slot(head, len);
        while let Some(found) = self.slots[slot].checked_sub(1) {
            // A head holds the zeros behind a shorter word, so it encodes the length too.
            if self.heads[found as usize % 64] == head {
                return (len <= 16 || self.all[found as usize].as_bytes() == word.bytes()).then_some(found);
            }
            slot = (slot + 1) % 256;
        }
        None
    }
}

/// A number as it stands in the record.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    record: &'a str,
    start: usize,
    end: usize,
    mantissa: u64,
    exponent: i32,
    negative: bool,
    integer: bool,
    exact: bool,
}

const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// A number of so few digits that it is exact as a float, by one division (Clinger 1990).
#[derive(Debug, Clone, Copy)]
pub struct PlainNumber {
    mantissa: u64,
    places: usize,
}

impl PlainNumber {
    /// The nearest 64-bit float.
    #[must_use]
    #[inline(always)]
    pub fn f64(self) -> f64 {
        self.mantissa as f64 / POW10[self.places & 7]
    }

    /// The value, where it is written as an integer.
    #[must_use]
    #[inline(always)]
    pub fn integer(self) -> Option<u32> {
        (self.places == 0).then_some(self.mantissa as u32)
    }
}

const U64_POW10: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

impl Number<'_> {
    fn raw(&self) -> &str {
        self.record.get(self.start..self.end).unwrap_or_default()
    }

    /// The nearest 64-bit float; a magnitude beyond its range is `number.range`.
    #[inline]
    pub fn f64(&self) -> Parsed<f64> {
        // Clinger 1990: both factors are exact, hence one correctly rounded operation.
        if self.exact && self.mantissa <= 1 << 53 && (-22..=22).contains(&self.exponent) {
            let m = self.mantissa as f64;
            let power = POW10[self.exponent.unsigned_abs() as usize];
            let value = if self.exponent < 0 { m / power } else { m * power };
            return Ok(if self.negative { -value } else { value });
        }
        self.f64_slow()
    }

    #[cold]
    fn f64_slow(&self) -> Parsed<f64> {
        match self.raw().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(Fault::value(
                RejectCode::NumberRange,
                format!("{} is beyond the range of a 64-bit float", shortened(self.raw())),
            )),
        }
    }

    /// Whether an integer literal loses digits as a 64-bit float.
    #[must_use]
    #[inline]
    pub fn is_rounded(&self, value: f64) -> bool {
        self.integer && !(self.exact && self.mantissa <= 1 << 53) && {
            let digits = self.raw().trim_start_matches('-');
            format!("{:.0}", value.abs()) != digits
        }
    }

    /// The value as a non-negative integer, where it is one: `3`, `3.0`, `3e2`, `-0`.
    #[must_use]
    #[inline]
    pub fn u63(&self) -> Option<i64> {
        if self.negative && self.mantissa != 0 {
            return None;
        }
        i64::try_from(self.magnitude()?).ok()
    }

    /// The value as a signed integer, where it is one.
    #[must_use]
    pub fn i64(&self) -> Option<i64> {
        if self.negative { 0_i64.checked_sub_unsigned(self.magnitude()?) } else { self.u63() }
    }

    /// The value without its sign, where it is an integer of at most 64 bits.
    #[inline]
    fn magnitude(&self) -> Option<u64> {
        if !self.exact {
            return None;
        }
        if self.exponent == 0 {
            return Some(self.mantissa);
        }
        let power = 10_u64.checked_pow(self.exponent.unsigned_abs());
        match (self.mantissa, power) {
            (0, _) => Some(0),
            (m, Some(power)) if self.exponent > 0 => m.checked_mul(power),
            (m, Some(power)) if m % power == 0 => Some(m / power),
            _ => None,
        }
    }
}

/// At most 40 characters of a token, for messages.
fn shortened(raw: &str) -> String {
    if raw.chars().count() <= 40 {
        raw.escape_debug().to_string()
    } else {
        format!("{}…", raw.chars().take(40).collect::<String>().escape_debug())
    }
}

/// What a member is looked for in.
const WINDOW: usize = 80;

/// Sixteen bytes of a window; `at` is at most 64.
#[inline(always)]
fn word_at(window: &[u8; WINDOW], at: usize) -> u128 {
    let chunk = window.get(at..).and_then(|b| b.first_chunk::<16>());
    chunk.map_or(0, |chunk| u128::from_le_bytes(*chunk))
}

/// Sixteen bytes of a window; `at` is at most 33.
#[inline(always)]
fn word_in(window: &[u8; 49], at: usize) -> u128 {
    let chunk = window.get(at..).and_then(|b| b.first_chunk::<16>());
    chunk.map_or(0, |chunk| u128::from_le_bytes(*chunk))
}

/// A position in one record. The text is UTF-8 by type; everything else is checked here.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    depth: usize,
    limits: Limits,
    /// Whether each container that is being skipped is an object; kept, so that skipping allocates once a record.
    skipping: Vec<bool>,
    /// Whether half a surrogate pair was taken, which only foreign formats may have.
    replaced: bool,
}

impl<'a> Cursor<'a> {
    /// At the start of a record.
    #[must_use]
    pub fn new(text: &'a str, limits: Limits) -> Self {
        Self { text, bytes: text.as_bytes(), pos: 0, depth: 0, limits, skipping: Vec::new(), replaced: false }
    }

    /// Byte position.
    #[must_use]
    #[inline]
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// Whether a string had a surrogate without its other half, which is U+FFFD in the text.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.replaced
    }

    /// Goes back to a position that [`Self::pos`] gave, at the depth of now.
    #[inline]
    pub fn rewind(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Goes back to a value of the outermost object after that object has been read.
    pub fn rewind_into_object(&mut self, pos: usize) {
        self.pos = pos;
        self.depth = 1;
    }

    /// Leaves a container in mid-value, whose text is then skipped from its start.
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The text between two positions.
    #[must_use]
    #[inline]
    pub fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// The byte here; 0 at the end, which no JSON token begins with.
    #[inline(always)]
    fn byte(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    /// Whether this byte stands here: the quick way to know a value's kind.
    #[must_use]
    #[inline(always)]
    pub fn at(&self, byte: u8) -> bool {
        self.bytes.get(self.pos) == Some(&byte)
    }

    /// Whether a digit stands here.
    #[must_use]
    #[inline]
    pub fn at_digit(&self) -> bool {
        self.byte().is_ascii_digit()
    }

    /// Sixteen bytes from `at`, zeros after the end of the record.
    #[inline(always)]
    fn word(&self, at: usize) -> u128 {
        match self.bytes.get(at..).and_then(|b| b.first_chunk::<16>()) {
            Some(chunk) => u128::from_le_bytes(*chunk),
            None => self.last_word(at),
        }
    }

    #[cold]
    fn last_word(&self, at: usize) -> u128 {
        let mut chunk = [0; 16];
        for (to, from) in chunk.iter_mut().zip(self.bytes.get(at..).unwrap_or_default()) {
            *to = *from;
        }
        u128::from_le_bytes(chunk)
    }

    /// Eight bytes from `at`, zeros after the end of the record.
    #[inline(always)]
    fn half_word(&self, at: usize) -> u64 {
        match self.bytes.get(at..).and_then(|b| b.first_chunk::<8>()) {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => self.last_word(at) as u64,
        }
    }

    /// Skips white space, of which there is none or one space as a rule.
    #[inline(always)]
    pub fn ws(&mut self) {
        if self.byte() <= b' ' {
            if self.byte() == b' ' {
                self.pos += 1;
            }
            if self.byte() <= b' ' {
                self.ws_slow();
            }
        }
    }

    fn ws_slow(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.pos) {
            self.pos += 1;
        }
    }

    /// A syntax fault here.
    #[cold]
    fn expected(&self, expectation: &str) -> Box<Fault> {
        match self.text.get(self.pos..).and_then(|t| t.chars().next()) {
            None => self.ends(expectation),
            Some(c) => {
                let message = format!("found '{}', expected {expectation}", c.escape_debug());
                Self::fault(RejectCode::JsonSyntax, self.pos, message)
            }
        }
    }

    /// The record ends where something should follow.
    #[cold]
    fn ends(&self, expectation: &str) -> Box<Fault> {
        Self::fault(
            RejectCode::JsonSyntax,
            self.bytes.len(),
            format!("{END_OF_RECORD}, expected {expectation}"),
        )
    }

    #[cold]
    fn fault(code: RejectCode, at: usize, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { code, at: Some(at), path: String::new(), message: message.into() })
    }

    /// What kind of value begins here (white space already skipped).
    #[inline]
    pub fn kind(&self) -> Parsed<Kind> {
        match self.byte() {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::String),
            b'0'..=b'9' => Ok(Kind::Number),
            b't' | b'f' => Ok(Kind::Bool),
            b'n' => Ok(Kind::Null),
            b'-' | b'N' | b'I' => {
                self.refuse_nan()?;
                if self.byte() == b'-' { Ok(Kind::Number) } else { Err(self.expected("a value")) }
            }
            _ => Err(self.expected("a value")),
        }
    }

    /// Takes a number that JSON does not have but Python writes, where foreign formats are read.
    pub(crate) fn non_finite(&mut self) -> Option<f64> {
        if !self.limits.lenient || !matches!(self.byte(), b'N' | b'I' | b'-') {
            return None;
        }
        let rest = &self.bytes[self.pos..];
        let words = [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];
        let (word, value) = words.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes()))?;
        self.pos += word.len();
        Some(value)
    }

    fn refuse_nan(&self) -> Parsed<()> {
        let rest = &self.bytes[self.pos.min(self.bytes.len())..];
        for word in ["NaN", "Infinity", "-Infinity"] {
            if rest.starts_with(word.as_bytes()) {
                return Err(Self::fault(RejectCode::NumberNan, self.pos, format!("{word} is not JSON")));
            }
        }
        Ok(())
    }

    #[inline]
    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(Self::fault(
                RejectCode::JsonDepth,
                self.pos,
                format!("nesting is deeper than the limit of {}", self.limits.depth),
            ));
        }
        Ok(())
    }

    /// Enters an object or array; whether it has a member.
    #[inline]
    fn open(&mut self, open: u8, close: u8, expectation: &str) -> Parsed<bool> {
        if self.byte() != open {
            return Err(self.expected(expectation));
        }
        self.deeper()?;
        self.pos += 1;
        self.ws();
        if self.byte() == close {
            self.pos += 1;
            self.depth -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// After a member: whether another one follows; leaves the container otherwise.
    #[inline]
    fn more(&mut self, close: u8, expectation: &str) -> Parsed<bool> {
        self.ws();
        let byte = self.byte();
        if byte == b',' {
            self.pos += 1;
            self.ws();
            Ok(true)
        } else if byte == close {
            self.pos += 1;
            self.depth -= 1;
            Ok(false)
        } else {
            Err(self.expected(expectation))
        }
    }

    /// Enters an object; whether it has a member.
    #[inline]
    pub fn open_object(&mut self) -> Parsed<bool> {
        self.open(b'{', b'}', "'{'")
    }

    /// After a member of an object: whether another one follows.
    #[inline]
    pub fn more_object(&mut self) -> Parsed<bool> {
        self.more(b'}', "',' or '}'")
    }

    /// Enters an array; whether it has an element.
    #[inline]
    pub fn open_array(&mut self) -> Parsed<bool> {
        self.open(b'[', b']', "'['")
    }

    /// After an element of an array: whether another one follows.
    #[inline]
    pub fn more_array(&mut self) -> Parsed<bool> {
        self.more(b']', "',' or ']'")
    }

    /// Consumes `pattern` (a key and its colon), and white space after it, if it stands here.
    #[inline(always)]
    pub fn take(&mut self, pattern: &Pattern) -> bool {
        let matches = (self.word(self.pos) ^ pattern.word) & pattern.mask == 0;
        if matches {
            self.pos += pattern.len;
            self.ws();
        }
        matches
    }

    /// Consumes a member that is expected here, up to its value: `opening` (a comma or brace), a key, its colon.
    /// A string of up to 32 bytes without escapes is consumed too, and given. What stands here is looked at
    /// in a window of fixed size, so that nothing in it is checked twice; near the end of the record nothing
    /// is expected.
    #[inline(always)]
    pub fn member(&mut self, opening: u8, key: &Pattern) -> Option<Option<Str<'a>>> {
        let window = self.bytes.get(self.pos..)?.first_chunk::<WINDOW>()?;
        // The key is at 1 or 2 and takes up to 16 bytes; a space may follow.
        let at = 1 + usize::from(window[1] == b' ');
        if window[0] != opening || (word_at(window, at) ^ key.word) & key.mask != 0 {
            return None;
        }
        let at = (at + key.len) & 31;
        let at = at + usize::from(window[at] == b' ');
        if window[at] == b'"' {
            let from = at + 1;
            let head = word_at(window, from);
            let mut stops = u64::from(stops(head));
            if stops == 0 {
                stops = u64::from(scan::stops(word_at(window, from + 16))) << 16;
            }
            let len = stops.trailing_zeros() as usize;
            if len <= self.limits.string && window[(from + len) & 63] == b'"' && stops != 0 {
                let start = self.pos + from;
                self.pos = start + len + 1;
                let head = lowest(head, len);
                return Some(Some(Str { record: self.text, start, end: start + len, head, escaped: false }));
            }
        }
        self.pos += at;
        self.ws();
        Some(None)
    }

    /// Consumes members that were read before in the same words, each with the comma behind it, if they stand here and
    /// the next one follows at once.
    #[inline]
    pub fn take_members(&mut self, text: &str) -> bool {
        let end = self.pos + text.len();
        let matches = !text.is_empty()
            && self.bytes.get(self.pos..end) == Some(text.as_bytes())
            && self.bytes.get(end).is_some_and(|next| *next > b' ');
        if matches {
            self.pos = end;
        }
        matches
    }

    /// Whether one more container may be entered.
    #[inline]
    #[must_use]
    pub fn may_enter(&self) -> bool {
        self.depth < self.limits.depth
    }

    /// Notes that an object's opening brace has been consumed as part of a member.
    #[inline]
    pub fn entered(&mut self) {
        self.depth += 1;
    }

    /// Consumes one byte if it stands here.
    #[inline(always)]
    pub fn take_byte(&mut self, byte: u8) -> bool {
        let matches = self.at(byte);
        if matches {
            self.pos += 1;
        }
        matches
    }

    /// Leaves an object whose closing brace stands here.
    #[inline(always)]
    pub fn close_object(&mut self) -> bool {
        let closes = self.take_byte(b'}');
        if closes {
            self.depth -= 1;
        }
        closes
    }

    /// A key and its colon.
    #[inline]
    pub fn key(&mut self) -> Parsed<Str<'a>> {
        if self.byte() != b'"' {
            return Err(self.expected("a key in double quotes"));
        }
        let key = self.string()?;
        self.ws();
        if self.byte() != b':' {
            return Err(self.expected("':'"));
        }
        self.pos += 1;
        self.ws();
        Ok(key)
    }

    /// A string of less than 48 bytes without escapes, as the ids of most formats are, if one stands here and the record
    /// has 49 bytes from here on: where it begins, its length, its first four bytes (of one of fewer zeros behind it).
    #[inline(always)]
    fn plain_string(&mut self) -> Option<(usize, usize, u32)> {
        let start = self.pos + 1;
        let window = self.bytes.get(self.pos..)?.first_chunk::<49>()?;
        let mut bits = u64::from(stops(word_in(window, 1)));
        if bits == 0 {
            let [second, third] = [17, 33].map(|at| u64::from(stops(word_in(window, at))));
            bits = second << 16 | third << 32;
        }
        let len = bits.trailing_zeros() as usize;
        if window[0] != b'"' || window.get(1 + len) != Some(&b'"') || len > self.limits.string {
            return None;
        }
        self.pos = start + len + 1;
        Some((start, len, lowest(word_in(window, 1), len) as u32))
    }

    /// The same of a key, with its colon.
    #[inline(always)]
    fn plain_key(&mut self) -> Option<(usize, usize, u32)> {
        let at = self.pos;
        let key = self.plain_string()?;
        if !self.at(b':') {
            self.pos = at;
            return None;
        }
        self.pos += 1;
        self.ws();
        Some(key)
    }

    /// A string of less than 48 bytes without escapes, if one stands here; near the end of a record none is seen.
    #[inline]
    pub fn plain_text(&mut self) -> Option<&'a str> {
        self.plain_string().map(|(start, len, _)| self.slice(start, start + len))
    }

    /// The same of a key, with its colon.
    #[inline(always)]
    pub fn plain_key_text(&mut self) -> Option<&'a str> {
        self.plain_key().map(|(start, len, _)| self.slice(start, start + len))
    }

    /// A string; the quote has been seen.
    #[inline]
    pub fn string(&mut self) -> Parsed<Str<'a>> {
        let start = self.pos + 1;
        let word = self.word(start);
        let stops = stops(word);
        let len = stops.trailing_zeros() as usize;
        if stops != 0 && len <= self.limits.string && self.bytes.get(start + len) == Some(&b'"') {
            self.pos = start + len + 1;
            let head = lowest(word, len);
            return Ok(Str { record: self.text, start, end: start + len, head, escaped: false });
        }
        self.longer_string(start, word)
    }

    /// A string that does not end within sixteen bytes, has an escape, or is wrong.
    #[inline(never)]
    fn longer_string(&mut self, start: usize, word: u128) -> Parsed<Str<'a>> {
        let (end, escaped) = self.string_end(start)?;
        self.pos = end + 1;
        Ok(Str { record: self.text, start, end, head: lowest(word, (end - start).min(16)), escaped })
    }

    /// Position of the closing quote and whether there is an escape before it.
    #[inline]
    fn string_end(&mut self, start: usize) -> Parsed<(usize, bool)> {
        let (mut at, mut escaped) = (start, false);
        // Of 64 bytes at once: which are escaped, which of the others end the string.
        while let Some(chunk) = self.bytes.get(at..).and_then(|b| b.first_chunk::<64>()) {
            let stops = stops_of(chunk);
            if stops == 0 {
                at += 64;
                continue;
            }
            let (slashes, quotes) = (each(chunk, b'\\'), each(chunk, b'"'));
            let behind = escaped_by(slashes);
            let ends = stops & !slashes & !behind;
            let before = (ends & ends.wrapping_neg()).wrapping_sub(1);
            let others = behind & before & !(quotes | slashes | each(chunk, b'n'));
            if others != 0 {
                escaped = true;
                at += others.trailing_zeros() as usize - 1;
                // Many follow on each other where a text is all escapes.
                while self.bytes.get(at) == Some(&b'\\') {
                    at = self.escape(at)?;
                }
                continue;
            }
            escaped |= slashes & before != 0;
            if ends != 0 {
                let end = at + ends.trailing_zeros() as usize;
                return match self.bytes[end] {
                    b'"' => self.closed(start, end, escaped),
                    control => Err(Self::control(end, control)),
                };
            }
            // What the last byte escapes is not among these.
            at += 64 - ((slashes & !behind) >> 63) as usize;
        }
        loop {
            at = plain_run(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => return self.closed(start, at, escaped),
                Some(b'\\') => {
                    escaped = true;
                    at = self.escape(at)?;
                }
                Some(&control) => return Err(Self::control(at, control)),
                None => return Err(self.ends("'\"' after the string")),
            }
        }
    }

    /// A string that ends here, if it is not too long.
    #[inline]
    fn closed(&self, start: usize, end: usize, escaped: bool) -> Parsed<(usize, bool)> {
        if end - start > self.limits.string {
            let message = format!(
                "a string of {} bytes is longer than the limit of {} (option max_string)",
                end - start,
                self.limits.string
            );
            return Err(Self::fault(RejectCode::RecordTooLarge, start, message));
        }
        Ok((end, escaped))
    }

    #[cold]
    fn control(at: usize, control: u8) -> Box<Fault> {
        let message = format!("found the control character 0x{control:02x} in a string, expected an escape");
        Self::fault(RejectCode::JsonSyntax, at, message)
    }

    /// Checks the escape at `at`; the position after it. A surrogate needs its other half.
    fn escape(&mut self, at: usize) -> Parsed<usize> {
        match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                let unit = self.hex(at + 2)?;
                match unit {
                    0xD800..=0xDBFF => {
                        let rest = self.bytes.get(at + 6..).unwrap_or_default();
                        let low = if rest.starts_with(b"\\u") {
                            self.hex(at + 8)?
                        } else if rest.is_empty() || rest == b"\\" {
                            return Err(self.ends("the other half of a surrogate pair"));
                        } else {
                            0
                        };
                        match (0xDC00..=0xDFFF).contains(&low) {
                            true => Ok(at + 12),
                            false if self.limits.lenient => {
                                self.replaced = true;
                                Ok(at + 6)
                            }
                            false => Err(Self::lone_surrogate(at, unit)),
                        }
                    }
                    0xDC00..=0xDFFF if !self.limits.lenient => Err(Self::lone_surrogate(at, unit)),
                    unit => {
                        self.replaced |= (0xDC00..=0xDFFF).contains(&unit);
                        Ok(at + 6)
                    }
                }
            }
            None => Err(self.ends("the rest of an escape")),
            _ => Err(Self::fault(
                RejectCode::JsonSyntax,
                at,
                "found '\\', expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX",
            )),
        }
    }

    #[cold]
    fn lone_surrogate(at: usize, unit: u32) -> Box<Fault> {
        Self::fault(
            RejectCode::Utf8Invalid,
            at,
            format!("found the lone surrogate \\u{unit:04x}, expected a pair"),
        )
    }

    fn hex(&self, at: usize) -> Parsed<u32> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.len() < 4 && rest.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.ends("four hexadecimal digits after \\u"));
        }
        let digits = rest.get(..4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .ok_or_else(|| {
                Self::fault(RejectCode::JsonSyntax, at, "expected four hexadecimal digits after \\u")
            })
    }

    /// A number without sign and exponent of up to seven digits and up to seven decimals, which is what nearly
    /// every number is; nothing is consumed where another value stands.
    #[inline(always)]
    pub fn plain_number(&mut self) -> Option<PlainNumber> {
        let (whole, mut mantissa) = digits(self.half_word(self.pos));
        if whole == 0 || whole == 8 || (whole > 1 && self.byte() == b'0') {
            return None;
        }
        let mut end = self.pos + whole;
        let mut places = 0;
        if self.bytes.get(end) == Some(&b'.') {
            let decimals;
            (places, decimals) = digits(self.half_word(end + 1));
            if places == 0 || places == 8 {
                return None;
            }
            mantissa = mantissa * U64_POW10[places & 7] + decimals;
            end += 1 + places;
        }
        if let Some(b'e' | b'E') = self.bytes.get(end) {
            return None;
        }
        self.pos = end;
        Some(PlainNumber { mantissa, places })
    }

    /// A number; its first byte has been seen.
    pub fn number(&mut self) -> Parsed<Number<'a>> {
        let start = self.pos;
        let negative = self.byte() == b'-';
        if negative {
            self.pos += 1;
        }
        let mut mantissa = 0_u64;
        let first = self.pos;
        while let digit @ b'0'..=b'9' = self.byte() {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.pos += 1;
        }
        let integer_digits = self.pos - first;
        if integer_digits == 0 {
            return Err(self.expected("a digit"));
        }
        if integer_digits > 1 && self.bytes[first] == b'0' {
            self.pos = first;
            return Err(Self::fault(RejectCode::JsonSyntax, first, "found a number with a leading zero"));
        }
        let mut digits = integer_digits;
        let mut exponent = 0_i32;
        let mut integer = true;
        if self.byte() == b'.' {
            integer = false;
            self.pos += 1;
            let from = self.pos;
            while let digit @ b'0'..=b'9' = self.byte() {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
                self.pos += 1;
            }
            let places = self.pos - from;
            if places == 0 {
                return Err(self.expected("a digit after the decimal point"));
            }
            digits += places;
            exponent = -(places as i32);
        }
        if let b'e' | b'E' = self.byte() {
            integer = false;
            exponent = self.exponent(exponent)?;
        }
        Ok(Number {
            record: self.text,
            start,
            end: self.pos,
            mantissa,
            exponent,
            negative,
            integer,
            exact: digits <= 19,
        })
    }

    fn exponent(&mut self, base: i32) -> Parsed<i32> {
        self.pos += 1;
        let negative = self.byte() == b'-';
        if let b'-' | b'+' = self.byte() {
            self.pos += 1;
        }
        let mut value = 0_i32;
        let from = self.pos;
        while let digit @ b'0'..=b'9' = self.byte() {
            value = value.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
            self.pos += 1;
        }
        if self.pos == from {
            return Err(self.expected("a digit of the exponent"));
        }
        Ok(if negative { base.saturating_sub(value) } else { base.saturating_add(value) })
    }

    /// `true` or `false`.
    #[inline]
    pub fn bool(&mut self) -> Parsed<bool> {
        const TRUE: u64 = u32::from_le_bytes(*b"true") as u64;
        const FALSE: u64 = u64::from_le_bytes(*b"false\0\0\0");
        let word = self.half_word(self.pos);
        if word & 0xFFFF_FFFF == TRUE {
            self.pos += 4;
            return Ok(true);
        }
        if word & 0xFF_FFFF_FFFF == FALSE {
            self.pos += 5;
            return Ok(false);
        }
        let value = self.byte() == b't';
        self.literal(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// `null`.
    pub fn null(&mut self) -> Parsed<()> {
        self.literal("null")
    }

    fn literal(&mut self, word: &str) -> Parsed<()> {
        if self.bytes.get(self.pos..self.pos + word.len()) == Some(word.as_bytes()) {
            self.pos += word.len();
            return Ok(());
        }
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        Err(if word.as_bytes().starts_with(rest) { self.ends(word) } else { self.expected(word) })
    }

    #[inline(always)]
    fn skip_key(&mut self) -> Parsed<()> {
        if self.plain_key().is_none() {
            self.key()?;
        }
        Ok(())
    }

    /// Skips any value, judging it as strictly as one that is read; the range it takes.
    pub fn skip(&mut self) -> Parsed<(usize, usize)> {
        let start = self.pos;
        let outer = self.depth;
        // After a fault the record is over, and the buffer with it.
        let mut open = std::mem::take(&mut self.skipping);
        open.clear();
        loop {
            let entered = match self.byte() {
                b'"' => {
                    if self.plain_string().is_none() {
                        self.string()?;
                    }
                    false
                }
                b'0'..=b'9' => {
                    if self.plain_number().is_none() {
                        self.number()?;
                    }
                    false
                }
                b'{' => {
                    let any = self.open_object()?;
                    if any {
                        open.push(true);
                        self.skip_key()?;
                    }
                    any
                }
                b'[' => {
                    let any = self.open_array()?;
                    if any {
                        open.push(false);
                    }
                    any
                }
                b't' | b'f' => {
                    self.bool()?;
                    false
                }
                b'n' => {
                    self.null()?;
                    false
                }
                _ => {
                    if self.non_finite().is_none() {
                        // A number below zero is all that is left.
                        self.kind()?;
                        self.number()?;
                    }
                    false
                }
            };
            if entered {
                continue;
            }
            loop {
                match open.last() {
                    None => {
                        debug_assert_eq!(self.depth, outer);
                        self.skipping = open;
                        return Ok((start, self.pos));
                    }
                    Some(true) => {
                        if self.more_object()? {
                            self.skip_key()?;
                            break;
                        }
                    }
                    Some(false) => {
                        if self.more_array()? {
                            break;
                        }
                    }
                }
                open.pop();
            }
        }
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Parsed<()> {
        self.ws();
        if self.pos < self.bytes.len() {
            let mut fault = self.expected("the end of the record");
            fault.code = RejectCode::JsonTrailing;
            return Err(fault);
        }
        Ok(())
    }
}

/// Writes the text of an escaped string, whose escapes the scanner has judged, into `out`.
fn unescape(raw: &str, out: &mut String) {
    out.clear();
    out.reserve(raw.len());
    let bytes = raw.as_bytes();
    let mut from = 0;
    loop {
        let at = escape_from(bytes, from);
        out.push_str(raw.get(from..at).unwrap_or_default());
        if at >= bytes.len() {
            return;
        }
        let unit = |from: usize| {
            raw.get(from..from + 4).and_then(|h| u32::from_str_radix(h, 16).ok()).unwrap_or(0xFFFD)
        };
        let (c, used) = match bytes.get(at + 1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => match unit(at + 2) {
                high @ 0xD800..=0xDBFF => {
                    let paired = raw.get(at + 6..at + 8) == Some("\\u");
                    match unit(at + 8) {
                        low @ 0xDC00..=0xDFFF if paired => {
                            let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                            (char::from_u32(code).unwrap_or('\u{FFFD}'), 12)
                        }
                        _ => ('\u{FFFD}', 6),
                    }
                }
                code => (char::from_u32(code).unwrap_or('\u{FFFD}'), 6),
            },
            Some(&other) => (char::from(other), 2),
            None => ('\u{FFFD}', 1),
        };
        out.push(c);
        from = (at + used).min(bytes.len());
    }
}

/// Appends a JSON string, quotes included.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    while from < bytes.len() {
        let at = plain_run(bytes, from);
        out.extend_from_slice(&bytes[from..at]);
        match bytes.get(at) {
            None => break,
            Some(b'"') => out.extend_from_slice(b"\\\""),
            Some(b'\\') => out.extend_from_slice(b"\\\\"),
            Some(b'\n') => out.extend_from_slice(b"\\n"),
            Some(b'\r') => out.extend_from_slice(b"\\r"),
            Some(b'\t') => out.extend_from_slice(b"\\t"),
            Some(&control) => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        from = at + 1;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
