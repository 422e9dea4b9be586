//! A tree over a record of a foreign format; it borrows the record's text.
//!
//! Formats that others define have many optional fields in any place, and what a field means depends on its
//! neighbors: a pull parser over them would be a parser for each. Native traces, which are read by the gigabyte,
//! never come here. The nodes of a record lie in one buffer in document order; each knows where its subtree ends, so
//! that going past a value costs one step whatever it holds. Only strings with escapes are copied, and only those that
//! somebody reads: most of what a model was given is nobody's.

use std::cell::{OnceCell, RefCell};

use super::keys::{Keys, head, mark};
use super::{Cursor, Kind, Limits, Parsed, Str, unescape};

/// Index of a value that is not there.
const ABSENT: u32 = u32::MAX;
const PLAIN: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    kind: Kind,
    /// The value as written, quotes included.
    start: u32,
    end: u32,
    /// The node after the subtree.
    next: u32,
    /// Number of the string among those with escapes; [`PLAIN`] where it is as written. Of an object the lower half of
    /// [`Node::marks`].
    text: u32,
    /// Of a string its first four bytes as written, zeros where it is shorter: nearly all keys differ in these
    /// and their length. Of an object the upper half of its marks.
    head: u32,
}

impl Node {
    /// The [`mark`]s of all keys of an object: most questions are about keys that are not there.
    fn marks(&self) -> u64 {
        u64::from(self.head) << 32 | u64::from(self.text)
    }

    fn set_marks(&mut self, marks: u64) {
        (self.head, self.text) = ((marks >> 32) as u32, marks as u32);
    }
}

/// Among the marks of an object: a key of it may be there twice.
const REPEATS: u64 = 1 << 63;

/// What trees are made of.
#[derive(Debug, Default)]
struct Parts {
    nodes: Vec<Node>,
    /// Strings with escapes, once they are read.
    texts: Vec<OnceCell<String>>,
}

/// Most nodes whose memory is kept: those of a record of about a megabyte.
const MOST_KEPT: usize = 1 << 15;

thread_local! {
    /// Memory of trees that are gone: a record has so many nodes that growing a list of them anew costs as much as
    /// filling it.
    static GONE: RefCell<Vec<Parts>> = const { RefCell::new(Vec::new()) };
}

impl Parts {
    fn new(bytes: usize) -> Self {
        let gone = GONE.with_borrow_mut(Vec::pop);
        gone.unwrap_or_else(|| Self { nodes: Vec::with_capacity(16 + bytes / 64), texts: Vec::new() })
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if self.nodes.capacity() <= MOST_KEPT {
            let (mut nodes, mut texts) = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.texts));
            nodes.clear();
            texts.clear();
            // A thread that ends has no list any more; of trees that lived together few are kept.
            let _ended = GONE.try_with(|gone| {
                let mut gone = gone.borrow_mut();
                if gone.len() < 4 {
                    gone.push(Self { nodes, texts });
                }
            });
        }
    }
}

/// One parsed record.
#[derive(Debug)]
pub struct Tree<'a> {
    source: &'a str,
    parts: Parts,
    /// Whether a surrogate without its other half was replaced.
    replaced: bool,
}

impl<'a> Tree<'a> {
    /// Parses a whole record; invalid JSON is a fault with its position.
    ///
    /// ```
    /// use orchestrace_core::json::Limits;
    /// use orchestrace_core::json::tree::Tree;
    ///
    /// let limits = Limits { depth: 128, string: 1 << 20, lenient: true };
    /// let tree = Tree::parse(r#"{"a": [1, "x\n"], "n": NaN}"#, limits).unwrap();
    /// assert_eq!(tree.root().get("a").at(1).str(), Some("x\n"));
    /// assert_eq!(tree.root().get("b").get("c").str(), None);
    /// assert!(Tree::parse("{", limits).is_err());
    /// ```
    pub fn parse(source: &'a str, limits: Limits) -> Parsed<Self> {
        let (tree, judged) = Self::read(source, limits);
        judged.map(|()| tree)
    }

    /// What a text shows up to its end or to its first error: for detecting the format of a long record by its
    /// beginning.
    #[must_use]
    pub fn head(source: &'a str, limits: Limits) -> Self {
        Self::read(source, limits).0
    }

    fn read(source: &'a str, limits: Limits) -> (Self, Parsed<()>) {
        let mut tree = Self { source, parts: Parts::new(source.len()), replaced: false };
        let mut cursor = Cursor::new(source, limits);
        cursor.ws();
        let judged = tree.value(&mut cursor).and_then(|()| cursor.end());
        tree.replaced = cursor.is_replaced();
        (tree, judged)
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Value<'_> {
        Value { tree: self, at: 0 }
    }

    /// Whether a surrogate without its other half became U+FFFD in it.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.replaced
    }

    fn leaf(&mut self, kind: Kind, start: usize, end: usize) -> usize {
        let at = self.parts.nodes.len();
        self.parts.nodes.push(Node {
            kind,
            start: start as u32,
            end: end as u32,
            next: at as u32 + 1,
            text: PLAIN,
            head: 0,
        });
        at
    }

    /// Appends a string; the [`mark`] of it as a key.
    #[inline(always)]
    fn string(&mut self, string: &Str<'_>) -> u64 {
        let Parts { nodes, texts } = &mut self.parts;
        let (start, len, head) = (string.quote(), string.len(), string.head() as u32);
        let mut text = PLAIN;
        if string.is_escaped() {
            text = texts.len() as u32;
            texts.push(OnceCell::new());
        }
        let next = nodes.len() as u32 + 1;
        let (start, end) = (start as u32, (start + len) as u32 + 2);
        nodes.push(Node { kind: Kind::String, start, end, next, text, head });
        // A key with an escape may be any.
        if text == PLAIN { mark(head, len) } else { u64::MAX }
    }

    /// Appends a string without escapes: where it begins, its length, its first bytes; the [`mark`] of it as a key.
    #[inline(always)]
    fn plain(&mut self, (start, len, head): (usize, usize, u32)) -> u64 {
        let next = self.parts.nodes.len() as u32 + 1;
        let (start, end) = (start as u32 - 1, (start + len) as u32 + 1);
        self.parts.nodes.push(Node { kind: Kind::String, start, end, next, text: PLAIN, head });
        mark(head, len)
    }

    /// Whether a key may be that of a member before it in its object; of a large one that is not looked for.
    fn repeats(&self, object: usize, key: usize) -> bool {
        let nodes = &self.parts.nodes;
        let same = |name: &Node, key: &Node| {
            let escaped = name.text != PLAIN || key.text != PLAIN;
            escaped || (name.head == key.head && name.end - name.start == key.end - key.start)
        };
        let mut at = object + 1;
        for _ in 0..64 {
            let Some([name, value, ..]) = nodes.get(at..key) else { return false };
            if same(name, &nodes[key]) {
                return true;
            }
            at = value.next as usize;
        }
        true
    }

    /// The members of an object, and the marks of their keys; a key whose value is broken off is none.
    fn members(&mut self, cursor: &mut Cursor<'_>, object: usize, marks: &mut u64) -> Parsed<()> {
        let mut more = cursor.open_object()?;
        while more {
            let at = self.parts.nodes.len();
            let mark = if let Some(key) = cursor.plain_key() {
                self.plain(key)
            } else {
                let key = cursor.key()?;
                self.string(&key)
            };
            if *marks & mark != 0 && *marks & REPEATS == 0 && self.repeats(object, at) {
                *marks |= REPEATS;
            }
            *marks |= mark;
            let judged = self.value(cursor);
            if judged.is_err() && self.parts.nodes.len() == at + 1 {
                self.parts.nodes.truncate(at);
            }
            judged?;
            more = cursor.more_object()?;
        }
        Ok(())
    }

    fn elements(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let mut more = cursor.open_array()?;
        while more {
            self.value(cursor)?;
            more = cursor.more_array()?;
        }
        Ok(())
    }

    /// Depth is bounded by the limits, hence recursion too.
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        if let Some(string) = cursor.plain_string() {
            self.plain(string);
            return Ok(());
        }
        let start = cursor.pos();
        if !cursor.at(b'"') && (cursor.plain_number().is_some() || cursor.non_finite().is_some()) {
            self.leaf(Kind::Number, start, cursor.pos());
            return Ok(());
        }
        match cursor.kind()? {
            kind @ (Kind::Object | Kind::Array) => {
                let at = self.leaf(kind, start, start);
                let mut marks = 0;
                let inside = match kind {
                    Kind::Object => self.members(cursor, at, &mut marks),
                    _ => self.elements(cursor),
                };
                let next = self.parts.nodes.len() as u32;
                let node = &mut self.parts.nodes[at];
                (node.end, node.next) = (cursor.pos() as u32, next);
                node.set_marks(marks);
                return inside;
            }
            Kind::String => {
                let string = cursor.string()?;
                self.string(&string);
                return Ok(());
            }
            Kind::Number => drop(cursor.number()?),
            Kind::Bool => drop(cursor.bool()?),
            Kind::Null => cursor.null()?,
        }
        let kind = match self.source.as_bytes()[start] {
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        };
        self.leaf(kind, start, cursor.pos());
        Ok(())
    }
}

/// A value of a tree, or its absence; every accessor accepts both.
#[derive(Debug, Clone, Copy)]
pub struct Value<'t> {
    tree: &'t Tree<'t>,
    at: u32,
}

impl<'t> Value<'t> {
    fn node(self) -> Option<&'t Node> {
        self.tree.parts.nodes.get(self.at as usize)
    }

    fn other(self, at: u32) -> Self {
        Self { tree: self.tree, at }
    }

    /// Nothing, of the same record.
    #[must_use]
    pub fn absent(self) -> Self {
        self.other(ABSENT)
    }

    /// What it is; `None` where there is nothing.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        self.node().map(|node| node.kind)
    }

    /// Whether there is no such value.
    #[must_use]
    pub fn is_absent(self) -> bool {
        self.node().is_none()
    }

    /// Whether it is the word null.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == Some(Kind::Null)
    }

    /// Whether there is a value other than null.
    #[must_use]
    pub fn exists(self) -> bool {
        self.kind().is_some_and(|kind| kind != Kind::Null)
    }

    /// The member of an object; of repeated keys the last one, as most readers have it.
    #[must_use]
    #[inline]
    pub fn get(self, key: &str) -> Self {
        self.member(key, head(key))
    }

    fn member(self, key: &str, head: u32) -> Self {
        let Some(node) = self.node().filter(|node| node.kind == Kind::Object) else {
            return self.other(ABSENT);
        };
        let marks = node.marks();
        if marks & mark(head, key.len()) == 0 {
            return self.other(ABSENT);
        }
        let (at, end) = (self.at + 1, node.next);
        let members = self.tree.parts.nodes.get(at as usize..end as usize).unwrap_or_default();
        let source = self.tree.source.as_bytes();
        let (mut place, mut found) = (0, ABSENT);
        while let Some([name, value, ..]) = members.get(place..) {
            let (from, to) = (name.start as usize + 1, name.end as usize - 1);
            let same = if name.text == PLAIN {
                name.head == head
                    && to - from == key.len()
                    && (key.len() <= 4 || source.get(from..to) == Some(key.as_bytes()))
            } else {
                self.other(at + place as u32).str() == Some(key)
            };
            if same {
                found = at + place as u32 + 1;
                if marks & REPEATS == 0 {
                    break;
                }
            }
            place = (value.next - at) as usize;
        }
        self.other(found)
    }

    /// The members of an object for some keys, in one walk; of repeated keys the last one.
    ///
    /// ```
    /// use orchestrace_core::json::Limits;
    /// use orchestrace_core::json::keys::Keys;
    /// use orchestrace_core::json::tree::Tree;
    ///
    /// static KEYS: Keys<3> = Keys::new(["a", "none", "b"]);
    /// let limits = Limits { depth: 128, string: 1 << 20, lenient: true };
    /// let tree = Tree::parse(r#"{"b": 2, "c": 3, "a": 1}"#, limits).unwrap();
    /// let [a, none, b] = tree.root().pick(&KEYS);
    /// assert_eq!((a.i64(), b.i64(), none.is_absent()), (Some(1), Some(2), true));
    /// ```
    #[must_use]
    pub fn pick<const N: usize>(self, keys: &Keys<N>) -> [Self; N] {
        let mut values = [self.other(ABSENT); N];
        let (at, end) = self.inside(Kind::Object);
        let members = self.tree.parts.nodes.get(at as usize..end as usize).unwrap_or_default();
        let source = self.tree.source.as_bytes();
        let mut place = 0;
        while let Some([name, value, ..]) = members.get(place..) {
            let here = at + place as u32;
            place = (value.next - at) as usize;
            let (from, to) = (name.start as usize + 1, name.end as usize - 1);
            let key = if name.text == PLAIN {
                keys.find(name.head, source.get(from..to).unwrap_or_default())
            } else {
                self.other(here).str().and_then(|key| keys.number(key))
            };
            if let Some(key) = key {
                values[key] = self.other(here + 1);
            }
        }
        values
    }

    /// The first of these members that exists.
    #[must_use]
    pub fn first(self, keys: &[&str]) -> Self {
        let mut present = keys.iter().map(|key| self.get(key)).filter(|value| value.exists());
        present.next().unwrap_or(self.other(ABSENT))
    }

    /// A value further in, by keys.
    #[must_use]
    pub fn path(self, keys: &[&str]) -> Self {
        keys.iter().fold(self, |value, key| value.get(key))
    }

    /// The element of an array.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        self.elements().nth(index).unwrap_or(self.other(ABSENT))
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> impl Iterator<Item = Value<'t>> + Clone {
        let range = self.inside(Kind::Array);
        let nodes = &self.tree.parts.nodes;
        std::iter::successors(Some(range.0).filter(|at| *at < range.1), move |at| {
            Some(nodes[*at as usize].next).filter(|next| *next < range.1)
        })
        .map(move |at| self.other(at))
    }

    /// The members of an object in order; none of anything else.
    pub fn members(self) -> impl Iterator<Item = (&'t str, Value<'t>)> + Clone {
        let range = self.inside(Kind::Object);
        let nodes = &self.tree.parts.nodes;
        std::iter::successors(Some(range.0).filter(|at| *at < range.1), move |at| {
            Some(nodes[*at as usize + 1].next).filter(|next| *next < range.1)
        })
        .map(move |at| (self.other(at).str().unwrap_or_default(), self.other(at + 1)))
    }

    /// First node inside a container, and the node after it.
    fn inside(self, kind: Kind) -> (u32, u32) {
        match self.node() {
            Some(node) if node.kind == kind => (self.at + 1, node.next),
            _ => (0, 0),
        }
    }

    /// How many elements or members it has.
    #[must_use]
    pub fn len(self) -> usize {
        if self.kind() == Some(Kind::Object) { self.members().count() } else { self.elements().count() }
    }

    /// Whether it has neither elements nor members.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.elements().next().is_none() && self.members().next().is_none()
    }

    /// The text of a string, unescaped.
    #[must_use]
    pub fn str(self) -> Option<&'t str> {
        let node = self.node().filter(|node| node.kind == Kind::String)?;
        let written = self.tree.source.get(node.start as usize + 1..node.end as usize - 1)?;
        if node.text == PLAIN {
            return Some(written);
        }
        let text = self.tree.parts.texts.get(node.text as usize)?.get_or_init(|| {
            let mut text = String::with_capacity(written.len());
            unescape(written, &mut text);
            text
        });
        Some(text)
    }

    /// The text of a string that is not empty.
    #[must_use]
    pub fn some_str(self) -> Option<&'t str> {
        self.str().filter(|text| !text.is_empty())
    }

    /// The value as written.
    #[must_use]
    pub fn raw(self) -> &'t str {
        let (start, end) = self.span();
        self.tree.source.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Where in the record it is written; of what is absent an empty place.
    #[must_use]
    pub fn span(self) -> (u32, u32) {
        self.node().map_or((0, 0), |node| (node.start, node.end))
    }

    fn number(self) -> Option<&'t str> {
        (self.kind() == Some(Kind::Number)).then(|| self.raw())
    }

    /// A finite number.
    #[must_use]
    pub fn f64(self) -> Option<f64> {
        self.number().and_then(finite)
    }

    /// An integer; also one that is written with a fraction of zero.
    #[must_use]
    pub fn i64(self) -> Option<i64> {
        self.number().and_then(integer)
    }

    /// An integer of at least 0, up to 64 bits.
    #[must_use]
    pub fn u64(self) -> Option<u64> {
        let text = self.number()?;
        text.parse().ok().or_else(|| integer(text).and_then(|n| n.try_into().ok()))
    }

    /// A flag.
    #[must_use]
    pub fn bool(self) -> Option<bool> {
        (self.kind() == Some(Kind::Bool)).then(|| self.raw() == "true")
    }

    /// A finite number, written as one or as a string.
    #[must_use]
    pub fn number_like(self) -> Option<f64> {
        self.f64().or_else(|| finite(self.str()?.trim()))
    }

    /// An integer, written as one or as a string.
    #[must_use]
    pub fn integer_like(self) -> Option<i64> {
        self.i64().or_else(|| integer(self.str()?.trim()))
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        // Below 2^53 every integer is a float of its own.
        let value = finite(text)?;
        (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
    })
}

/// Appends a value in one spelling: members sorted by key, no spaces, strings escaped as little as JSON allows,
/// numbers as written.
pub fn canonical(value: Value<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        Some(Kind::Object) => {
            let mut members: Vec<_> = value.members().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push(b'{');
            for (i, (key, value)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                super::write_string(key, out);
                out.push(b':');
                canonical(value, out);
            }
            out.push(b'}');
        }
        Some(Kind::Array) => {
            out.push(b'[');
            for (i, element) in value.elements().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                canonical(element, out);
            }
            out.push(b']');
        }
        Some(Kind::String) => super::write_string(value.str().unwrap_or_default(), out),
        Some(_) => out.extend_from_slice(value.raw().as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { depth: 64, string: 1 << 20, lenient: true };

    fn of(text: &str) -> Tree<'_> {
        Tree::parse(text, LIMITS).unwrap()
    }

    #[test]
    fn every_question_has_an_answer() {
        let tree = of(r#" {"a":{"b":[1,2.0,-3,"4",null,true]},"a b":"x\u00e9","k":1,"k":2,"e":{}} "#);
        let root = tree.root();
        let list = root.path(&["a", "b"]);
        assert_eq!(list.len(), 6);
        assert_eq!(
            list.elements().map(Value::i64).collect::<Vec<_>>(),
            [Some(1), Some(2), Some(-3), None, None, None]
        );
        assert_eq!(list.at(3).integer_like(), Some(4));
        assert_eq!(list.at(2).u64(), None);
        assert!(list.at(4).is_null() && !list.at(4).exists() && list.at(6).is_absent());
        assert_eq!(list.at(5).bool(), Some(true));
        assert_eq!(root.get("a b").str(), Some("xé"));
        assert_eq!(root.get("k").i64(), Some(2), "the last of repeated keys");
        assert!(root.get("e").is_empty() && root.get("e").exists());
        assert_eq!(root.get("a").raw(), r#"{"b":[1,2.0,-3,"4",null,true]}"#);
        assert_eq!(root.first(&["x", "k"]).i64(), Some(2));
        assert_eq!(root.get("a").at(0).get("z").str(), None);
    }

    #[test]
    fn of_repeated_keys_the_last_counts_however_they_are_spelt() {
        for text in [
            r#"{"key":1,"other":2,"key":3}"#,
            r#"{"key":1,"k\u0065y":3}"#,
            r#"{"k\u0065y":1,"key":3,"kez":4}"#,
            r#"{"key":{"key":9},"a":1,"b":2,"key":3}"#,
        ] {
            assert_eq!(of(text).root().get("key").i64(), Some(3), "{text}");
        }
        let many: Vec<String> = (0..200).map(|i| format!("\"k{:03}\":{i}", i % 150)).collect();
        let text = format!("{{{}}}", many.join(","));
        let tree = of(&text);
        for i in 0..150 {
            let last = if i < 50 { i + 150 } else { i };
            assert_eq!(tree.root().get(&format!("k{i:03}")).i64(), Some(last));
        }
        assert!(tree.root().get("k150").is_absent() && tree.root().get("").is_absent());
    }

    #[test]
    fn large_integers_keep_their_digits() {
        let tree = of("[1777555053812873700,18446744073709551615,1e3,1.5]");
        let root = tree.root();
        assert_eq!(root.at(0).i64(), Some(1_777_555_053_812_873_700));
        assert_eq!(root.at(1).u64(), Some(u64::MAX));
        assert_eq!((root.at(2).i64(), root.at(3).i64()), (Some(1000), None));
    }

    #[test]
    fn numbers_that_python_writes_are_no_values() {
        let tree = of(r#"{"a":NaN,"b":[-Infinity,Infinity],"c":"\ud800x"}"#);
        assert_eq!(tree.root().get("a").f64(), None);
        assert_eq!(tree.root().get("b").len(), 2);
        assert_eq!(tree.root().get("c").str(), Some("\u{FFFD}x"));
        assert!(Tree::parse("NaN", Limits { lenient: false, ..LIMITS }).is_err());
    }

    #[test]
    fn halves_of_surrogates_are_told_from_characters() {
        for (text, replaced) in [
            (r#""\ud800""#, true),
            (r#"["a\udc00\n", 1]"#, true),
            (r#"{"\ud800x": 1}"#, true),
            (r#""\ud83d\ude00 \ufffd""#, false),
            ("\"\u{FFFD}\\n\"", false),
            (r#""\\ud800 \ufffd""#, false),
        ] {
            assert_eq!(of(text).is_replaced(), replaced, "{text}");
        }
    }

    #[test]
    fn one_spelling() {
        let spelt = |text: &str| {
            let mut out = Vec::new();
            canonical(of(text).root(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(spelt(r#"{ "b" : [ 1.50 , {} ], "a" : "\u0041\n" }"#), r#"{"a":"A\n","b":[1.50,{}]}"#);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        })
    }

    fn same(ours: Value<'_>, theirs: &serde_json::Value) -> bool {
        match theirs {
            serde_json::Value::Null => ours.is_null(),
            serde_json::Value::Bool(b) => ours.bool() == Some(*b),
            serde_json::Value::Number(n) => ours.i64() == n.as_i64(),
            serde_json::Value::String(s) => ours.str() == Some(s),
            serde_json::Value::Array(a) => {
                ours.len() == a.len() && ours.elements().zip(a).all(|(x, y)| same(x, y))
            }
            serde_json::Value::Object(o) => {
                ours.len() == o.len() && ours.members().all(|(k, v)| o.get(k).is_some_and(|w| same(v, w)))
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(value in json()) {
            let text = value.to_string();
            let tree = of(&text);
            prop_assert!(same(tree.root(), &value));
            let mut out = Vec::new();
            canonical(tree.root(), &mut out);
            let back: serde_json::Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(back, value);
        }

        #[test]
        fn a_broken_text_shows_what_is_before_the_break(value in json(), cut in 0.0..1.0_f64) {
            let text = value.to_string();
            let cut = (0..=(text.len() as f64 * cut) as usize).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let tree = Tree::head(&text[..cut], LIMITS);
            let root = tree.root();
            for ((key, ours), (name, theirs)) in root.members().zip(value.as_object().into_iter().flatten()) {
                prop_assert_eq!(key, name);
                prop_assert!(ours.kind().is_some() && (same(ours, theirs) || ours.len() <= 5));
            }
            prop_assert!(root.elements().count() <= value.as_array().map_or(0, Vec::len));
        }

        #[test]
        fn any_text_is_judged(text in any::<String>()) {
            let _judged = Tree::parse(&text, LIMITS);
        }
    }
}
