//! Lines that are not one record: a writer that was stopped leaves a cut record, and the next one goes on in its line;
//! two that write at once share a line; a disk that was full leaves zeros. What is whole in such a line is found, and
//! what is not. Only a line that cannot be read comes here.

use crate::json::{Cursor, Limits};

/// Bytes of a line: a whole JSON object, or what is left of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub from: usize,
    pub to: usize,
    pub whole: bool,
}

/// How often a line is parsed again at most: each time one more place is tried as the start of a record.
const ATTEMPTS: usize = 256;

/// The parts of a line in order. `knows` says whether its format takes a text for a record, whose end may be missing.
///
/// An object that stands at the start of the line or behind a whole one is a record. So is one that begins where a cut
/// one breaks off, if the format knows it or it begins with the same key. One that stands where the cut record could
/// have a value is a record only if it begins with the same key: else it is most likely that value.
pub(super) fn parts(text: &str, limits: Limits, knows: &dyn Fn(&str) -> bool) -> Vec<Part> {
    let line = Line { text, limits, knows };
    let mut parts = Vec::new();
    let (mut at, mut attempts) = (line.beyond_filler(0), 0);
    while at < text.len() {
        at = line.beyond_filler(line.part(at, &mut attempts, &mut parts));
    }
    parts
}

struct Line<'a> {
    text: &'a str,
    limits: Limits,
    knows: &'a dyn Fn(&str) -> bool,
}

impl Line<'_> {
    /// Adds the record or the fragment that begins at `start`, and the record that ends the fragment; where it ends.
    fn part(&self, start: usize, attempts: &mut usize, parts: &mut Vec<Part>) -> usize {
        let bytes = self.text.as_bytes();
        let mut fragment = start;
        let mut next = self.brace(start);
        while let Some(tried) = next.filter(|_| *attempts < ATTEMPTS) {
            let breaks = match self.whole(tried) {
                Ok(end) if tried == start || (self.may_end(end) && self.is_record(fragment, tried)) => {
                    if fragment < tried {
                        parts.push(self.fragment(fragment, tried));
                    }
                    parts.push(Part { from: tried, to: end, whole: true });
                    return end;
                }
                // An object inside of what is cut.
                Ok(end) => {
                    *attempts += 1;
                    next = self.brace(end);
                    continue;
                }
                Err(at) => at,
            };
            *attempts += 1;
            if tried > fragment && self.is_record(fragment, tried) {
                parts.push(self.fragment(fragment, tried));
                fragment = tried;
            }
            if let Some((value, end)) =
                closed_before(&bytes[tried..breaks], tried).filter(|(at, _)| *at > tried)
                && self.may_end(end)
                && self.has_same_key(fragment, value)
            {
                parts.push(self.fragment(fragment, value));
                parts.push(Part { from: value, to: end, whole: true });
                return end;
            }
            let last = memchr::memrchr(b'{', &bytes[tried + 1..(breaks + 1).min(bytes.len())]);
            next = last.map(|at| tried + 1 + at).or_else(|| self.brace(breaks.max(tried) + 1));
        }
        parts.push(self.fragment(fragment, bytes.len()));
        bytes.len()
    }

    fn fragment(&self, from: usize, to: usize) -> Part {
        Part { from, to: self.text[..to].trim_end_matches(is_filler).len(), whole: false }
    }

    /// The first opening brace from here on.
    fn brace(&self, from: usize) -> Option<usize> {
        memchr::memchr(b'{', self.text.as_bytes().get(from..)?).map(|at| from + at)
    }

    /// Where the object ends that begins here, or the byte where it breaks.
    fn whole(&self, from: usize) -> Result<usize, usize> {
        let mut cursor = Cursor::new(&self.text[from..], self.limits);
        match cursor.skip() {
            Ok((_, end)) => Ok(from + end),
            Err(fault) => Err((from + fault.at.unwrap_or(0)).min(self.text.len())),
        }
    }

    /// Whether the format takes what begins here for a record, or it begins like the fragment before it.
    fn is_record(&self, fragment: usize, at: usize) -> bool {
        self.has_same_key(fragment, at) || (self.knows)(&self.text[at..])
    }

    fn has_same_key(&self, fragment: usize, at: usize) -> bool {
        first_key(&self.text[at..]).is_some_and(|key| first_key(&self.text[fragment..]) == Some(key))
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

/// The object that is closed by the last byte of a text but spaces: where it begins and ends. `at` is where the text lies.
fn closed_before(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let end = text.trim_ascii_end().len();
    if text[..end].last() != Some(&b'}') {
        return None;
    }
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    let mut last = None;
    for (place, byte) in text[..end].iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => open.push(place),
            b'}' if !in_string => last = open.pop(),
            _ => {}
        }
    }
    last.filter(|_| !in_string).map(|from| (at + from, at + end))
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
        let knows = |text: &str| text.starts_with(r#"{"type""#);
        let text = |part: &Part| {
            if part.whole {
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
        for whole in [A, B] {
            for end in 1..A.len() {
                let fragment = &A[..end];
                let found = cut(&format!("{fragment}{whole}"));
                // Where the next could be a value of the cut one, its first key decides.
                let value = fragment.ends_with([':', '[']) || fragment.ends_with("1,");
                if value && whole == B {
                    assert_eq!(found, [format!("({fragment}{whole})")], "{fragment}");
                } else {
                    assert_eq!(found, [format!("({fragment})"), whole.to_owned()], "{fragment}");
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
        let bytes = [br#"{"id":"\xc3"#.as_slice(), A.as_bytes(), b"\xff\xfe", B.as_bytes()].concat();
        let mut found =
            parts(&String::from_utf8_lossy(&bytes), LIMITS, &|text| text.starts_with(r#"{"type""#));
        in_bytes(&mut found, &bytes);
        let texts: Vec<&[u8]> = found.iter().map(|part| &bytes[part.from..part.to]).collect();
        let expected: [&[u8]; 4] = [b"{\"id\":\"\xc3", A.as_bytes(), b"\xff\xfe", B.as_bytes()];
        assert_eq!(texts, expected);
    }
}
