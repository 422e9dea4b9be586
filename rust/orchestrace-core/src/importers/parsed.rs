//! The items of a trace as JSON. Each was parsed when its record was cut, so that one which cannot be read is not
//! expected; it is left out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::recording::Recording;
use super::{Items, Record, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject};
use crate::json::tree::{Tree, Value};

/// All items of a trace, in their order.
#[derive(Debug)]
pub(super) struct ParsedItems<'a>(Vec<Option<Tree<'a>>>);

impl<'a> ParsedItems<'a> {
    pub(super) fn of(items: &TraceItems<'a>) -> Self {
        Self(items.iter().map(|item| Tree::parse(item.text, items.limits()).ok()).collect())
    }

    /// One of them.
    pub(super) fn get(&self, item: usize) -> Option<Value<'_>> {
        self.0.get(item)?.as_ref().map(Tree::root)
    }

    /// Each with its number.
    pub(super) fn values(&self) -> impl Iterator<Item = (u32, Value<'_>)> {
        (0..).zip(&self.0).filter_map(|(item, tree)| Some((item, tree.as_ref()?.root())))
    }

    /// Each thing once, in the order of the things: of several versions the one of the highest rank, then the longest.
    /// The others are duplicates.
    pub(super) fn latest<'p, K: Ord, R: Ord>(
        &'p self,
        items: &TraceItems<'_>,
        thing: impl Fn(Value<'p>) -> K,
        rank: impl Fn(Value<'p>) -> R,
    ) -> Vec<(u32, Value<'p>)> {
        let all = |value: Value<'p>| (rank(value), value.raw().len(), Reverse(value.raw()));
        let mut best: BTreeMap<K, (u32, Value<'p>)> = BTreeMap::new();
        for (item, value) in self.values() {
            match best.entry(thing(value)) {
                Entry::Vacant(place) => {
                    place.insert((item, value));
                }
                Entry::Occupied(mut place) => {
                    let (known, before) = *place.get();
                    let is_later = all(value) > all(before);
                    items.duplicate(if is_later { known } else { item } as usize);
                    if is_later {
                        place.insert((item, value));
                    }
                }
            }
        }
        best.into_values().collect()
    }

    /// Tells if text of any of them was replaced.
    pub(super) fn tell_replaced(&self, out: &mut Recording) {
        if self.0.iter().flatten().any(Tree::is_replaced) {
            tell_replaced(out);
        }
    }
}

/// A record whose text is of one session, whose trace lacks it where it cannot be read.
pub(super) fn record<'r>(record: &Record<'r>, key: &str, out: &mut Items<'_>) -> Result<Tree<'r>, Reject> {
    Tree::parse(record.text, out.limits()).map_err(|fault| {
        out.lacks(key);
        fault.into_reject()
    })
}

/// Writes the trace that all items make, as `describe` tells it, with what is known beside them.
pub(super) fn write(
    items: &TraceItems<'_>,
    out: &mut TraceWriter<'_>,
    describe: impl FnOnce(&TraceItems<'_>, &ParsedItems<'_>, &mut Recording),
) {
    let mut recording = Recording::default();
    let parsed = ParsedItems::of(items);
    parsed.tell_replaced(&mut recording);
    describe(items, &parsed, &mut recording);
    recording.beside(items);
    recording.write(out);
}

/// Tells that text was replaced.
pub(super) fn tell_replaced(out: &mut Recording) {
    out.finding(FindingCode::Utf8Replaced, None, "a lone surrogate was replaced by U+FFFD");
}
