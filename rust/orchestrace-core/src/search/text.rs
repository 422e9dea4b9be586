//! The text of a record: its bytes with the escapes of JSON strings undone, and the way back to the bytes.

use memchr::memchr;

/// A text, and where its parts stand in the bytes of the record. Its buffers are used again from record to record.
#[derive(Debug, Default)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    /// Behind each escape: where the text goes on, and where the record does.
    marks: Vec<(usize, usize)>,
}

impl Text {
    /// Undoes the escapes of a record. What is no escape of JSON stays as it is, and so does half of a surrogate pair.
    pub(crate) fn read(&mut self, record: &[u8]) -> &[u8] {
        self.bytes.clear();
        self.marks.clear();
        let mut at = 0;
        while let Some(found) = memchr(b'\\', &record[at..]) {
            let escape = at + found;
            self.bytes.extend_from_slice(&record[at..escape]);
            if let Some((character, length)) = escaped(&record[escape..]) {
                let mut utf8 = [0; 4];
                self.bytes.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                at = escape + length;
                self.marks.push((self.bytes.len(), at));
            } else {
                self.bytes.push(b'\\');
                at = escape + 1;
            }
        }
        self.bytes.extend_from_slice(&record[at..]);
        &self.bytes
    }

    /// The text that was read last.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a place between two characters of the text is in the record. O(log escapes).
    pub(crate) fn place(&self, at: usize) -> usize {
        let behind = self.marks.partition_point(|(text, _)| *text <= at);
        let (text, record) = behind.checked_sub(1).map_or((0, 0), |last| self.marks[last]);
        record + (at - text)
    }
}

/// The character that an escape at the begin of `bytes` stands for, and the length of the escape.
fn escaped(bytes: &[u8]) -> Option<(char, usize)> {
    let short = match bytes.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b @ (b'"' | b'\\' | b'/') => char::from(*b),
        b'u' => {
            let unit = unit(bytes)?;
            if let Some(character) = char::from_u32(u32::from(unit)) {
                return Some((character, 6));
            }
            let pair = [unit, self::unit(&bytes[6..])?];
            let character = char::decode_utf16(pair).next()?.ok()?;
            return Some((character, 12));
        }
        _ => return None,
    };
    Some((short, 2))
}

/// The UTF-16 unit of an escape `\uXXXX` at the begin of `bytes`.
pub(crate) fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | value as u16)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_undone_and_places_come_back() {
        let mut text = Text::default();
        let record = br#"{"a":"x\n\u00e9\ud83d\ude00\\n\/\q\ud83d\"y"}"#;
        let read = text.read(record).to_vec();
        assert_eq!(String::from_utf8(read).unwrap(), "{\"a\":\"x\n\u{e9}\u{1f600}\\n/\\q\\ud83d\"y\"}");
        let at = memchr::memmem::find(text.bytes(), "\u{1f600}".as_bytes()).unwrap();
        assert_eq!(&record[text.place(at)..text.place(at + 4)], br"\ud83d\ude00");
        assert_eq!(text.place(text.bytes().len()), record.len());
    }

    #[test]
    fn an_escape_that_is_cut_stays() {
        for record in ["\\", "\\u", "\\u12", "\\ud83d\\u12", "a\\"] {
            assert_eq!(Text::default().read(record.as_bytes()), record.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn texts_are_those_of_a_parser(words in "[a-z\"\\\\/\n\t\u{1}\u{e9}\u{4e2d}\u{1f600}]{0,40}") {
            let written = serde_json::to_string(&words).unwrap();
            let ascii: String = written.encode_utf16().map(|unit| match unit {
                0..128 => char::from(unit as u8).to_string(),
                _ => format!("\\u{unit:04X}"),
            }).collect();
            for written in [written, ascii] {
                let mut text = Text::default();
                let read = text.read(written.as_bytes()).to_vec();
                prop_assert_eq!(std::str::from_utf8(&read).unwrap(), format!("\"{words}\""));
                let mut last = 0;
                for (at, _) in std::str::from_utf8(&read).unwrap().char_indices() {
                    let place = text.place(at);
                    prop_assert!(place >= last);
                    let again = Text::default().read(&written.as_bytes()[place..]).to_vec();
                    prop_assert_eq!(&again[..], &read[at..]);
                    last = place;
                }
            }
        }
    }
}
