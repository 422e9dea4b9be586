//! Framing of records: lines, elements of one array, or one document.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memchr2, memchr3};

/// How an input holds its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One a line.
    Line,
    /// Elements of one JSON array.
    Array,
    /// The whole input.
    Document,
}

/// What is inspected first to detect the framing and the format of an input.
pub(crate) const HEAD: usize = 1 << 20;

/// Records, and lines after a bracket, that are looked at.
pub(crate) const LOOKED_AT: usize = 20;

/// The beginning of an input, of which more can be asked for.
pub(crate) trait Beginning {
    /// The first `size` bytes; fewer where the input ends or breaks off.
    fn head(&mut self, size: usize) -> io::Result<&[u8]>;
}

/// The beginning of what a reader gives, kept.
pub(crate) struct KeptBeginning<R> {
    pub reader: R,
    pub bytes: Vec<u8>,
}

impl<R: Read> Beginning for KeptBeginning<R> {
    fn head(&mut self, size: usize) -> io::Result<&[u8]> {
        let more = size.saturating_sub(self.bytes.len());
        self.reader.by_ref().take(more as u64).read_to_end(&mut self.bytes)?;
        Ok(&self.bytes[..size.min(self.bytes.len())])
    }
}

/// What `look` finds in the first mebibyte of an input or, while it is not sure, in a beginning twice as long, up to
/// the longest record. It learns whether the beginning is all there is. How long the beginnings are does not depend
/// on how the input is read.
pub(crate) fn look_on<T>(
    beginning: &mut impl Beginning,
    longest: u64,
    mut look: impl FnMut(&[u8], bool) -> (T, bool),
) -> io::Result<T> {
    let longest = usize::try_from(longest).unwrap_or(usize::MAX).max(HEAD);
    let mut size = HEAD;
    loop {
        let head = beginning.head(size)?;
        let is_whole = head.len() < size;
        let (answer, sure) = look(head, is_whole);
        if sure || is_whole || size == longest {
            return Ok(answer);
        }
        size = size.saturating_mul(2).min(longest);
    }
}

/// The byte order mark that an input may begin with.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Length of a byte order mark at the start of an input.
pub(crate) fn bom(head: &[u8]) -> usize {
    if head.starts_with(BOM) { BOM.len() } else { 0 }
}

/// White space as JSON has it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The framing of an input that begins with `head`, which may be the `whole` of it, and whether that is clear.
///
/// A text that begins with `[` is an array unless its lines show otherwise ([`bracketed`]). A text that begins with
/// `{` is one document over several lines if its first line does not close the object, the next one goes on inside it
/// (with a key or a closing brace) and no line is a record that follows another; else it is one record a line, so that
/// a broken first line costs itself alone.
pub(crate) fn framing(head: &[u8], is_whole: bool) -> (Framing, bool) {
    let head = &head[bom(head)..];
    let Some(start) = head.iter().position(|b| !is_space(*b)) else { return (Framing::Line, is_whole) };
    match head[start] {
        b'[' => bracketed(&head[start..], is_whole),
        b'{' => {
            let Some(line_end) = memchr(b'\n', &head[start..]).map(|i| start + i) else {
                return (Framing::Line, true);
            };
            let mut scan = Structure::default();
            if scan.value_end(&head[start..line_end]).is_some() {
                return (Framing::Line, true);
            }
            let next = head[line_end..].iter().copied().find(|b| !is_space(*b));
            if matches!(next, Some(b'"' | b'}')) && !has_records_in_a_row(&head[line_end..]) {
                (Framing::Document, true)
            } else {
                (Framing::Line, true)
            }
        }
        _ => (Framing::Line, true),
    }
}

/// The framing of a text that begins with `[`, by its first line and up to twenty after it, and whether it is clear.
///
/// If the first line closes the array, it is a record among lines where more of the others are objects than elements
/// of it are. If it does not, elements of an array have commas between them: it is a broken record among lines where more lines are objects
/// that another object, or the end of the input, follows without one than lines end with a comma after a bracket.
fn bracketed(text: &[u8], is_whole: bool) -> (Framing, bool) {
    let Some(line_end) = memchr(b'\n', text) else { return (Framing::Array, true) };
    let first = &text[..line_end];
    let lines = text[line_end..].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty());
    let looked_at = lines.by_ref().take(LOOKED_AT);
    if Structure::default().value_end(first).is_some() {
        let is_object = |text: &&[u8]| text.trim_ascii_start().starts_with(b"{");
        let inside = head_records(first, Framing::Array).into_iter().filter(is_object).count();
        let mut seen = 0;
        let objects = looked_at.inspect(|_| seen += 1).filter(is_object).count();
        let framing = if objects > inside { Framing::Line } else { Framing::Array };
        return (framing, is_whole || objects > inside || seen == LOOKED_AT);
    }
    let (mut seen, mut closed) = (0, false);
    let (mut alone, mut joined) = (0, usize::from(first.trim_ascii_end().ends_with(b",")));
    for line in looked_at {
        seen += 1;
        alone += usize::from(closed && line.starts_with(b"{"));
        joined += usize::from(line.ends_with(b"},") || line.ends_with(b"],"));
        closed = line.starts_with(b"{") && Structure::default().value_end(line) == Some(line.len());
    }
    let at_end = is_whole && closed && lines.next().is_none();
    let framing = if alone + usize::from(at_end) > joined { Framing::Line } else { Framing::Array };
    (framing, is_whole || alone > 0 || joined > 0 || seen == LOOKED_AT)
}

/// Whether an object of one line follows on another that ends a line, which no document has inside it: a comma
/// would stand between them.
fn has_records_in_a_row(text: &[u8]) -> bool {
    let mut closed = false;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).any(|line| {
        let follows = std::mem::replace(&mut closed, line.ends_with(b"}"));
        follows && line.starts_with(b"{") && Structure::default().value_end(line).is_some()
    })
}

/// The records at the start of an input, for detecting its format.
pub(crate) fn head_records(head: &[u8], framing: Framing) -> Vec<&[u8]> {
    let head = &head[bom(head)..];
    match framing {
        Framing::Document => vec![head],
        Framing::Line => {
            let mut from = 0;
            let ends = memchr_iter(b'\n', head).chain([head.len()]);
            let lines = ends.map(|end| &head[std::mem::replace(&mut from, end + 1)..end]);
            lines.filter(|line| !line.iter().all(|b| is_space(*b))).take(LOOKED_AT).collect()
        }
        Framing::Array => {
            let mut rest = &head[memchr(b'[', head).map_or(0, |i| i + 1)..];
            let mut records = Vec::new();
            while records.len() < LOOKED_AT {
                let Some(end) = Structure::element().value_end(rest) else {
                    records.push(rest);
                    break;
                };
                records.push(&rest[..end]);
                if rest[end] == b']' {
                    break;
                }
                rest = &rest[end + 1..];
            }
            records
        }
    }
}

/// How far to look ahead for a byte of structure at a time.
const WINDOW: usize = 256;

/// Finds where a value ends by counting brackets outside of strings; whether they match is the
/// parser's business.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Structure {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Only a comma or a bracket outside ends it.
    scalar: bool,
}

impl Structure {
    /// For an element of an array: it goes up to the next comma or the end of the array, so that what is
    /// wrong with it stays inside it.
    pub(crate) fn element() -> Self {
        Self { scalar: true, ..Self::default() }
    }

    /// Position just after the value, if it ends in `bytes`. For a value that is not in brackets, the
    /// position of the comma or bracket that follows. Keeps its state, so that bytes may come in pieces.
    pub(crate) fn value_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                if bytes[at] == b'"' {
                    self.in_string = false;
                } else {
                    self.escaped = true;
                }
                at += 1;
                continue;
            }
            match bytes[at] {
                b'"' => {
                    self.in_string = true;
                    self.scalar |= self.depth == 0;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' if self.depth == 0 && self.scalar => {}
                b'}' | b']' | b',' if self.depth == 0 => return Some(at),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 && !self.scalar {
                        return Some(at + 1);
                    }
                }
                byte if self.depth == 0 && !is_space(byte) => self.scalar = true,
                _ => {}
            }
            at += 1;
            if !self.in_string && (self.depth > 0 || self.scalar) {
                // Inside a container only quotes and brackets matter, outside commas too. Looked for within a
                // window: in a text of brackets alone, each would otherwise be preceded by a search for a quote up
                // to the end.
                let (second, third) = if self.depth > 0 { (b'}', b']') } else { (b']', b',') };
                loop {
                    let window = &bytes[at..bytes.len().min(at + WINDOW)];
                    let stop = memchr3(b'"', b'{', second, window).unwrap_or(window.len());
                    let stop = memchr2(b'[', third, &window[..stop]).unwrap_or(stop);
                    at += stop;
                    if stop < window.len() || window.is_empty() {
                        break;
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(text: &[u8]) -> Framing {
        super::framing(text, true).0
    }

    #[test]
    fn a_bracket_before_lines_is_a_record_of_its_own() {
        for first in ["[]", "[1]", "[{\"a\":1}]", " [] \r", "[", "[1,", "[{\"a\":", "[{\"a\":1},"] {
            let text = format!("{first}\n{{\"a\":1}}\n{{\"a\":[2]}}\n");
            assert_eq!(framing(text.as_bytes()), Framing::Line, "{first}");
        }
        assert_eq!(framing(b"[\n{\"a\":1}\n"), Framing::Line, "one record and the end");
        for array in [
            "[]",
            "[]\n\n",
            "[1]\nnoise\n",
            "[{\"a\":1}]\n{}\n",
            "[1, {\"a\":1}, {\"a\":2}]\n{}\n{}\n",
            "[{\"a\":1}]\n",
            "[\n{\"a\":1},\n{\"a\":2}\n]",
            "[\n{\"a\":1}\n]",
            "[{\"a\":1},\n{\"a\":2}]",
            "[{\"a\":1}\n,{\"a\":2}]",
            "[{\"a\":1},\n{\"a\":2}",
            "[\n{\"a\":1},\n{\"a\":2}",
            "[\n{\"a\":1},\n{\"a\":2}\n{\"a\":3},\n{\"a\":4}\n]",
            "[\n  {\n    \"a\": [\n      {\"b\":1}\n    ]\n  },\n  {\n    \"a\": 1\n  }\n]\n",
            "[\n{\"a\":1",
        ] {
            assert_eq!(framing(array.as_bytes()), Framing::Array, "{array}");
        }
        // Not clear before it is seen how the first element goes on.
        assert_eq!(super::framing(b"[\n{\"a\":1", false), (Framing::Array, false));
        assert_eq!(super::framing(b"[]\n", false), (Framing::Array, false));
        assert_eq!(super::framing(b"[]\n{\"a", false), (Framing::Line, true));
        assert_eq!(super::framing(b"[{\"a\":1", false), (Framing::Array, true));
        assert_eq!(super::framing(b" \n ", false), (Framing::Line, false), "the text is yet to come");
    }

    #[test]
    fn what_is_looked_at_grows_until_it_is_clear() {
        let text = vec![b'x'; 5 << 20];
        for (from, expected) in
            [(1, 1 << 20), ((1 << 20) + 1, 2 << 20), (3 << 20, 4 << 20), (6 << 20, 4 << 20)]
        {
            let mut beginning = KeptBeginning { reader: &text[..], bytes: Vec::new() };
            let length =
                look_on(&mut beginning, 4 << 20, |head, _| (head.len(), head.len() >= from)).unwrap();
            assert_eq!((length, beginning.bytes.len()), (expected, expected));
        }
        let mut short = KeptBeginning { reader: &text[..100], bytes: Vec::new() };
        assert_eq!(
            look_on(&mut short, 1, |head, is_whole| ((head.len(), is_whole), false)).unwrap(),
            (100, true)
        );
    }

    #[test]
    fn framings() {
        assert_eq!(framing(b"{\"a\":1}\n{\"a\":2}\n"), Framing::Line);
        assert_eq!(framing(b"\xEF\xBB\xBF{\"a\":1}"), Framing::Line);
        assert_eq!(framing(b"{\n  \"a\": 1\n}\n"), Framing::Document);
        assert_eq!(framing(b"{\"a\": 1,\n \"b\": 2}\n"), Framing::Document);
        assert_eq!(framing(b"{\"a\": 1,\n{\"b\": 2}\n"), Framing::Line);
        assert_eq!(framing(b"{\"a\": 1,\n\"b\": 2}\n{\"a\": 1}"), Framing::Line, "a line end too many");
        assert_eq!(framing(b"{\"a\": {\"b\": 1\n}\r\n{\"a\": 1}\n"), Framing::Line, "in place of a brace");
        assert_eq!(framing(b"{\n\"a\": [\n{\"b\": 1},\n{\"b\": 2}\n]\n}\n"), Framing::Document);
        assert_eq!(framing(b"{\n\"a\": 1\n}\n{\n\"a\": 2\n}\n"), Framing::Document, "two of them");
        assert_eq!(framing(b"{\n\"a\": 1\n}\n{\"a\": 2}\n"), Framing::Line, "one document and a record");
        assert_eq!(framing(b"{\"a\":1,\n\"b\":2} \n\n\t{\"c\":1}\n"), Framing::Line, "blanks between");
        assert_eq!(framing(b"  [\n{}]"), Framing::Array);
        assert_eq!(framing(b""), Framing::Line);
        assert_eq!(framing(b"noise\n{}"), Framing::Line);
    }

    #[test]
    fn values_end_where_brackets_close() {
        let end = |text: &[u8]| Structure::default().value_end(text);
        assert_eq!(end(br#"{"a":"}\"]","b":[{}]} , {}"#), Some(21));
        assert_eq!(end(b" 12 , 3"), Some(4));
        assert_eq!(end(b"12]"), Some(2));
        assert_eq!(end(b"{\"a\":"), None);
        assert_eq!(end(br#""a,b" ,"#), Some(6));
    }

    #[test]
    fn brackets_alone_take_linear_time() {
        // 4 MiB: with a search up to the end for each it would be 10^13 bytes, which nobody waits for.
        let mut text = b"{\"a\":".to_vec();
        text.resize(4 << 20, b'[');
        assert_eq!(Structure::default().value_end(&text), None);
        text.resize(8 << 20, b']');
        text.extend_from_slice(b"]]]]]]}");
        assert!(Structure::element().value_end(&text).is_some());
    }

    #[test]
    fn pieces_give_the_same_end() {
        let text = br#"{"a":"}\"]","b":[{"c":"\\"}]},"#;
        let end = Structure::default().value_end(text);
        for cut in 0..text.len() {
            let mut scan = Structure::default();
            let split =
                scan.value_end(&text[..cut]).or_else(|| scan.value_end(&text[cut..]).map(|e| e + cut));
            assert_eq!(split, end, "{cut}");
        }
    }
}
