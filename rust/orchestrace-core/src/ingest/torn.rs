//! Lines that are not one record: a writer that was stopped leaves a cut record, and the next one goes on in its line;
//! two that write at once share a line; a disk that was full leaves zeros. What is whole in such a line is found, and
//! what is not. Only a line that cannot be read comes here.

use crate::json::{Cursor, Limits};

/// Bytes of a line: a whole JSON object, or what is left of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub from: usize,
    pub to: usize,
    pub is_whole: bool,
}

/// How often a line is parsed again at most: each time one more place is tried as the start of a record.
const ATTEMPTS: usize = 256;

/// The parts of a line in order. `knows` says whether its format takes a text for a record, whose end may be missing.
///
/// A whole object at the start of the line, or behind a whole one, is a record. Where a record was cut, the next one
/// begins at the first brace that cannot be of the cut one:
///
/// - where JSON allows no brace, one that begins a whole object, or what the format knows, or what has the first key of
///   the cut record;
/// - in an open text, one of the latter two; a whole object, too, if the cut record has no key yet;
/// - where a value may stand, what the format knows and has that key: else it is most likely the value.
pub(super) fn parts(text: &str, limits: Limits, knows: &dyn Fn(&str) -> bool) -> Vec<Part> {
    let line = Line { text, limits, knows };
    let mut parts = Vec::new();
    let (mut at, mut attempts) = (line.beyond_filler(0), 0);
    while at < text.len() {
        let record_end = line.record_at(at);
        let end = record_end.unwrap_or_else(|| line.next_record(at, &mut attempts));
        parts.push(if record_end.is_some() {
            Part { from: at, to: end, is_whole: true }
        } else {
            line.fragment(at, end)
        });
        at = line.beyond_filler(end);
    }
    parts
}

struct Line<'a> {
    text: &'a str,
    limits: Limits,
    knows: &'a dyn Fn(&str) -> bool,
}

/// What JSON allows next inside of a cut record.
#[derive(Debug, Default)]
struct Inside {
    open: Vec<u8>,
    in_text: bool,
    escaped: bool,
    /// The last byte outside of texts but spaces.
    last: u8,
}

impl Inside {
    fn step(&mut self, byte: u8) {
        if self.in_text {
            let ends = byte == b'"' && !self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            self.in_text = !ends;
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.open.push(byte),
            b'}' | b']' => drop(self.open.pop()),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
    }

    /// Whether a value may stand here. Of a text that does not begin with a record only the byte before is known.
    fn takes_value(&self) -> bool {
        let in_list = self.open.last() != Some(&b'{');
        !self.in_text && (matches!(self.last, b':' | b'[') || (self.last == b',' && in_list))
    }
}

impl Line<'_> {
    /// Where the record ends that begins here, if it is whole.
    fn record_at(&self, at: usize) -> Option<usize> {
        let end = self.object_end(at)?;
        self.may_end(end).then_some(end)
    }

    /// Where the first record begins behind a cut one: the end of the line, if none does.
    fn next_record(&self, cut: usize, attempts: &mut usize) -> usize {
        let bytes = self.text.as_bytes();
        // whether texts are open is known only from the beginning of a record
        let is_headed = bytes[cut] == b'{';
        let mut inside = Inside::default();
        let mut at = cut;
        while at < bytes.len() && *attempts < ATTEMPTS {
            if bytes[at] == b'{' && at > cut {
                *attempts += 1;
                let is_value = inside.takes_value();
                let key = first_key(&self.text[cut..at]).filter(|_| is_headed);
                let has_key = key.is_some() && first_key(&self.text[at..]) == key;
                let begins = if is_value {
                    has_key && (self.knows)(&self.text[at..])
                } else {
                    let needs_no_key = !inside.in_text || key.is_none();
                    has_key
                        || (self.knows)(&self.text[at..])
                        || (needs_no_key && self.record_at(at).is_some())
                };
                if begins {
                    return at;
                }
                if let Some(end) = self.object_end(at).filter(|_| is_value) {
                    inside.last = b'}';
                    at = end;
                    continue;
                }
            }
            if is_headed {
                inside.step(bytes[at]);
            } else if !bytes[at].is_ascii_whitespace() {
                inside.last = bytes[at];
            }
            at += 1;
        }
        bytes.len()
    }

    fn fragment(&self, from: usize, to: usize) -> Part {
        Part { from, to: self.text[..to].trim_end_matches(is_filler).len(), is_whole: false }
    }

    /// Where the object ends that begins here, if it is whole.
    fn object_end(&self, from: usize) -> Option<usize> {
        let text = &self.text[from..];
        text.starts_with('{')
            .then(|| Cursor::new(text, self.limits).skip().ok().map(|(_, end)| from + end))?
    }

    /// Whether a record may end here: an object that something else of JSON follows is part of another one.
    fn may_end(&self, end: usize) -> bool {
        !matches!(self.text.as_bytes().get(self.beyond_filler(end)), Some(b',' | b'}' | b']' | b':'))
    }

    fn beyond_filler(&self, from: usize) -> usize {
        self.text.len() - self.text[from..].trim_start_matches(is_filler).len()
    }
}

/// What may stand between records: white space, zeros and other control characters, byte order marks.
fn is_filler(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c == '\u{feff}'
}

/// The first key of an object, as it is written.
fn first_key(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?.trim_start().strip_prefix('"')?;
    inside.split_once('"').map(|(key, _)| key)
}

/// Turns places in a text that was made of bytes, some of them replaced, into places in these bytes.
pub(super) fn in_bytes(parts: &mut [Part], bytes: &[u8]) {
    let mut chunks = bytes.utf8_chunks();
    let mut chunk = chunks.next();
    // Where the chunk begins in the bytes and in the text.
    let (mut read, mut written) = (0, 0);
    let mut place = |at: usize| {
        while let Some(now) = &chunk {
            let valid = now.valid().len();
            if at <= written + valid || now.invalid().is_empty() {
                break;
            }
            read += valid + now.invalid().len();
            written += valid + char::REPLACEMENT_CHARACTER.len_utf8();
            chunk = chunks.next();
        }
        read + (at - written)
    };
    for part in parts {
        part.from = place(part.from);
        part.to = place(part.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { depth: 8, string: 1000, lenient: true };

    /// The parts of a line, fragments in round brackets.
    fn cut(line: &str) -> Vec<String> {
        let knows = |text: &str| [r#"{"type""#, r#"{"id""#].iter().any(|head| text.starts_with(head));
        let text = |part: &Part| {
            if part.is_whole {
                line[part.from..part.to].to_owned()
            } else {
                format!("({})", &line[part.from..part.to])
            }
        };
        parts(line, LIMITS, &knows).iter().map(text).collect()
    }

    const A: &str = r#"{"id":"a","x":{"type":"b{"},"y":[1,{"z":"}"}]}"#;
    const B: &str = r#"{"type":"b","x":[{"id":2}]}"#;

    #[test]
    fn whole_records_in_one_line_are_each_one() {
        assert_eq!(cut(&format!("{A}{B}")), [A, B]);
        assert_eq!(cut(&format!("{B} \0\0{A}\u{1e}{B}")), [B, A, B]);
        assert_eq!(cut(&format!("\0\0\0{A}")), [A]);
        assert_eq!(cut(&format!("\u{feff}{A}")), [A]);
        assert_eq!(cut("\0\0\0"), [""; 0]);
    }

    #[test]
    fn wherever_a_record_is_cut_the_next_one_is_read() {
        for complete_record in [A, B] {
            for end in 1..A.len() {
                let fragment = &A[..end];
                let pieces = cut(&format!("{fragment}{complete_record}"));
                // Where the next could be a value of the cut one, its first key decides.
                let value = fragment.ends_with([':', '[']) || fragment.ends_with("1,");
                if value && complete_record == B {
                    assert_eq!(pieces, [format!("({fragment}{complete_record})")], "{fragment}");
                } else {
                    assert_eq!(pieces, [format!("({fragment})"), complete_record.to_owned()], "{fragment}");
                }
            }
        }
    }

    #[test]
    fn a_cut_record_alone_gives_no_record() {
        for end in 1..A.len() {
            assert_eq!(cut(&A[..end]), [format!("({})", &A[..end])]);
            assert_eq!(cut(&format!("{B}{}", &A[..end])), [B.to_owned(), format!("({})", &A[..end])]);
        }
        for start in 1..A.len() {
            assert_eq!(cut(&A[start..]).len(), 1, "{}", &A[start..]);
        }
        assert_eq!(cut("noise"), ["(noise)"]);
        assert_eq!(cut(r#"{"id":oops,"x":{"type":"b"}}"#), [r#"({"id":oops,"x":{"type":"b"}})"#]);
        let elements = r#"{"many":[{"type":"a"},{"type":"b"},{"ty"#;
        assert_eq!(cut(elements), [format!("({elements})")], "elements that the format knows");
        assert_eq!(cut(r#"{"id":1},"#), [r#"({"id":1},)"#], "an element of a list");
    }

    #[test]
    fn several_cut_records_are_each_one_fragment() {
        let line = format!(r#"{{"id":"ab{{"id":1,"x{A}{{"type":tr{B}{A}{{"id""#);
        let expected = [r#"({"id":"ab)"#, r#"({"id":1,"x)"#, A, r#"({"type":tr)"#, B, A, r#"({"id")"#];
        assert_eq!(cut(&line), expected);
        assert_eq!(cut(&format!("e\":1}}{B}")), ["(e\":1})", B]);
    }

    #[test]
    fn a_line_of_brackets_ends() {
        assert_eq!(cut(&"{".repeat(100_000)).len(), 1);
        assert_eq!(cut(&"{}".repeat(1_000)).len(), 1_000);
    }

    #[test]
    fn places_are_those_of_the_bytes() {
        let bytes = [b"{\"id\":\"\xc3".as_slice(), A.as_bytes(), b"\xff\xfe", B.as_bytes()].concat();
        let mut pieces =
            parts(&String::from_utf8_lossy(&bytes), LIMITS, &|text| text.starts_with(r#"{"type""#));
        in_bytes(&mut pieces, &bytes);
        let texts: Vec<&[u8]> = pieces.iter().map(|part| &bytes[part.from..part.to]).collect();
        let expected: [&[u8]; 4] = [b"{\"id\":\"\xc3", A.as_bytes(), b"\xff\xfe", B.as_bytes()];
        assert_eq!(texts, expected);
    }
}
