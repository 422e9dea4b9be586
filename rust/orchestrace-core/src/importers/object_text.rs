//! A writer of JSON objects, member by member.

use crate::json::write_string;

/// The text so far.
#[derive(Debug)]
pub(super) struct ObjectText(Vec<u8>);

impl ObjectText {
    pub(super) fn new() -> Self {
        Self(b"{".to_vec())
    }

    /// A member whose value is JSON as it stands in a source.
    pub(super) fn raw(&mut self, key: &str, value: &str) {
        self.key(key);
        self.0.extend_from_slice(value.as_bytes());
    }

    /// A member that is a text.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        write_string(value, &mut self.0);
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_string(key, &mut self.0);
        self.0.push(b':');
    }

    /// The object as a whole.
    pub(super) fn finish(mut self) -> String {
        self.0.push(b'}');
        // Keys and values were texts: there is nothing to replace.
        String::from_utf8(self.0)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_written_as_they_come() {
        assert_eq!(ObjectText::new().finish(), "{}");
        let mut object = ObjectText::new();
        object.raw("n", "[1, 2]");
        object.text("a \"key\"", "two\nlines");
        assert_eq!(object.finish(), r#"{"n":[1, 2],"a \"key\"":"two\nlines"}"#);
    }
}
