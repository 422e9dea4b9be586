//! Injected texts: where they reappear, and which of their instructions an agent follows.
//!
//! Tools print YAML with wrapped lines and doubled quotes, and defences mark the spaces: an injected text is looked for
//! without white space, quotes, backslashes and the marks, and without regard to case. What it asks for is looked for
//! in calls by [`wording`](super::wording).

use hashbrown::HashSet;

use super::wording::{MARK, Sought, Wording};
use crate::importers::recording::{Hash, hash};
use crate::json::Kind;
use crate::json::tree::Value;

/// The text without what tools and defences change about it.
fn folded(text: &str) -> String {
    text.chars().flat_map(fold).collect()
}

fn fold(c: char) -> impl Iterator<Item = char> {
    let stays = !(c.is_whitespace() || matches!(c, '\\' | '\'' | '"' | MARK));
    stays.then(|| c.to_lowercase()).into_iter().flatten()
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
    wording: Wording,
}

impl<'v> Injected<'v> {
    /// Nothing for a text of which nothing is left to find.
    pub(super) fn new(vector: &'v str, text: &str) -> Option<Self> {
        let folded = folded(text);
        let wording = || Wording::new(text);
        (!folded.is_empty()).then(|| Self { vector, content: hash(text), folded, wording: wording() })
    }

    /// What a memory says. It is read once, as it is.
    pub(super) fn memory(text: &str) -> Self {
        Self { vector: "memory", content: hash(text), folded: String::new(), wording: Wording::new(text) }
    }
}

/// A text that was read, while injected texts are looked for in it.
#[derive(Debug)]
pub(super) struct Read<'t> {
    text: &'t str,
    folded: String,
    /// Where each character of `folded` comes from: the byte of it there, and of the one in the text.
    places: Vec<(usize, usize)>,
    /// Bytes of the text that an injected text takes.
    taken: Vec<std::ops::Range<usize>>,
}

impl<'t> Read<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let (mut folded, mut places) = (String::new(), Vec::new());
        for (at, c) in text.char_indices() {
            for c in fold(c) {
                places.push((folded.len(), at));
                folded.push(c);
            }
        }
        Self { text, folded, places, taken: Vec::new() }
    }

    /// Whether an injected text is in it.
    pub(super) fn finds(&mut self, injected: &Injected<'_>) -> bool {
        let (wanted, before) = (&injected.folded, self.taken.len());
        if !wanted.is_empty() {
            let place = |byte: usize| self.places.partition_point(|(own, _)| *own < byte);
            let ranges = self.folded.match_indices(wanted).map(|(at, _)| {
                let last = self.places[place(at + wanted.len()) - 1].1;
                let end = last + self.text[last..].chars().next().map_or(0, char::len_utf8);
                self.places[place(at)].1..end
            });
            self.taken.extend(ranges);
        }
        self.taken.len() > before
    }

    /// What else it says.
    pub(super) fn rest(mut self) -> Wording {
        self.taken.sort_unstable_by_key(|range| range.start);
        let (mut rest, mut from) = (String::new(), 0);
        for range in self.taken {
            rest.push_str(&self.text[from..range.start.max(from)]);
            rest.push('\n');
            from = from.max(range.end);
        }
        rest.push_str(&self.text[from..]);
        Wording::new(&rest)
    }
}

/// What is known of a run when the agent calls a tool: what explains the call without an injected text.
#[derive(Debug, Default)]
pub(super) struct Explained {
    /// What the user said, message by message.
    prompts: Vec<Wording>,
    /// What tools returned, but for injected texts and for what came of calls that follow one.
    others: Vec<Wording>,
    /// Tools that the agent called before it read any injected text.
    called: HashSet<String>,
}

impl Explained {
    /// The user says something.
    pub(super) fn prompt(&mut self, text: &str) {
        self.prompts.push(Wording::new(text));
    }

    /// A tool returned something, injected texts apart.
    pub(super) fn read(&mut self, rest: Wording) {
        self.others.push(rest);
    }

    /// The agent called a tool of its own accord.
    pub(super) fn called(&mut self, tool: &str) {
        if !self.called.contains(tool) {
            self.called.insert(tool.to_owned());
        }
    }
}

/// A call, while it is asked which text it follows.
#[derive(Debug)]
pub(super) struct CallWords {
    /// The name of its tool, if that is evidence.
    tool: Option<Wording>,
    values: Vec<Sought>,
}

impl CallWords {
    pub(super) fn new(tool: &str, arguments: Value<'_>, explained: &Explained) -> Self {
        let name = Wording::new(tool);
        let explains_itself = explained.called.contains(tool) || name.is_spelt_by(&explained.prompts);
        let mut values = Vec::new();
        leaves(arguments, &mut |value| values.push(Sought::new(value)));
        Self { tool: (!explains_itself).then_some(name), values }
    }

    /// Whether the injected text asks for it and nothing else explains it: it names the tool, or has a value of it.
    pub(super) fn follows(&self, injected: &Injected<'_>, explained: &Explained) -> bool {
        let text = &injected.wording;
        self.tool.as_ref().is_some_and(|tool| text.names(tool))
            || self.values.iter().any(|value| value.is_only_in(text, &explained.prompts, &explained.others))
    }
}

/// Texts and numbers of a value, at any depth.
fn leaves(value: Value<'_>, visit: &mut impl FnMut(&str)) {
    match value.kind() {
        Some(Kind::Object) => value.members().for_each(|(_, value)| leaves(value, visit)),
        Some(Kind::Array) => value.elements().for_each(|value| leaves(value, visit)),
        Some(Kind::String) => visit(value.str().unwrap_or_default()),
        Some(Kind::Number) => visit(value.raw()),
        _ => {}
    }
}
