//! Injected texts, and where they are found again.
//!
//! Tools print YAML with wrapped lines and doubled quotes, and defences mark the spaces: texts are compared without
//! white space, quotes, backslashes and the marks, and without regard to case. Values of arguments are short, so
//! they are looked for in the text as it is, and have to stand there as words.

use crate::importers::recording::{Hash, hash};
use crate::ingest::json::Kind;
use crate::ingest::json::tree::Value;

/// Values below this length in characters say nothing: a single digit stands in any text.
const SHORTEST: usize = 2;

/// From this length on a value that is found is no chance, whatever stands around it.
const LONG: usize = 16;

/// A defence that marks what is data puts this for spaces.
const MARK: char = '^';

/// The text without what tools and defences change about it.
pub(super) fn folded(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '\\' | '\'' | '"' | &MARK))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Whether a message in the user's name is a memory that was put there. A defence may put a sentence or a tag
/// before it.
pub(super) fn is_memory(text: &str) -> bool {
    const MEMORY: &str = "[memory]";
    let Some((before, _)) = text.split_once(MEMORY) else { return false };
    let before = before.trim();
    before.is_empty()
        || before.starts_with('(') && before.ends_with(')')
        || before.starts_with('<') && before.ends_with('>')
}

/// One injected text.
#[derive(Debug)]
pub(super) struct Injected<'v> {
    /// Where it was put.
    pub vector: &'v str,
    pub content: Hash,
    folded: String,
    lower: String,
}

impl<'v> Injected<'v> {
    /// Nothing for a text of which nothing is left to find.
    pub(super) fn new(vector: &'v str, text: &str) -> Option<Self> {
        let folded = folded(text);
        (!folded.is_empty()).then(|| Self { vector, content: hash(text), folded, lower: text.to_lowercase() })
    }

    /// What a memory says.
    pub(super) fn memory(text: &str) -> Self {
        Self {
            vector: "memory",
            content: hash(text),
            // A memory is read once, as it is.
            folded: String::new(),
            lower: text.replace(MARK, " ").to_lowercase(),
        }
    }

    /// Whether a text, folded, has it.
    pub(super) fn is_in(&self, read: &str) -> bool {
        !self.folded.is_empty() && read.contains(&self.folded)
    }

    /// Whether a value of a call stands in it.
    pub(super) fn has(&self, value: &str) -> bool {
        let value = value.trim().to_lowercase();
        if value.chars().count() < SHORTEST {
            return false;
        }
        let inside = |at: usize| {
            goes_on(self.lower[..at].chars().rev(), value.chars().next())
                || goes_on(self.lower[at + value.len()..].chars(), value.chars().next_back())
        };
        self.lower.match_indices(&value).any(|(at, _)| !inside(at)) || {
            let value = folded(&value);
            value.chars().count() >= LONG && folded(&self.lower).contains(&value)
        }
    }
}

/// Whether a word or a number goes on with these characters, seen from its `end`.
pub(super) fn goes_on(mut beyond: impl Iterator<Item = char>, end: Option<char>) -> bool {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    match beyond.next() {
        Some('.' | ',') => is_digit(end) && is_digit(beyond.next()),
        Some(c) => (c.is_alphanumeric() || matches!(c, '_' | '-')) && end.is_some_and(char::is_alphanumeric),
        None => false,
    }
}

/// What the user asked for.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    folded: String,
}

impl Prompt {
    pub(super) fn add(&mut self, text: &str) {
        self.folded.push_str(&folded(text));
        self.folded.push('\n');
    }

    /// Whether a value may come from it.
    pub(super) fn has(&self, value: &str) -> bool {
        self.folded.contains(&folded(value))
    }
}

/// Texts and numbers of a value, at any depth.
pub(super) fn leaves(value: Value<'_>, found: &mut impl FnMut(&str)) {
    match value.kind() {
        Some(Kind::Object) => value.members().for_each(|(_, value)| leaves(value, found)),
        Some(Kind::Array) => value.elements().for_each(|value| leaves(value, found)),
        Some(Kind::String) => found(value.str().unwrap_or_default()),
        Some(Kind::Number) => {
            let number = value.raw();
            // A model that writes 100.0 has read 100.
            found(number.strip_suffix(".0").unwrap_or(number));
        }
        _ => {}
    }
}
