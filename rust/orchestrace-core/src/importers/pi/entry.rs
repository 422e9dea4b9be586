//! Entries of a session, as their lines have them.

use xxhash_rust::xxh3::xxh3_64;

use crate::importers::TraceItems;
use crate::importers::entry_tree::{Link, Parent};
use crate::importers::parsed::ParsedItems;
use crate::json::time::instant;
use crate::json::tree::Value;

/// An entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'v> {
    pub item: u32,
    /// Its file and line, and which entry of that line it is.
    pub path: &'v str,
    pub line: u64,
    pub nth: u32,
    pub value: Value<'v>,
    pub id: Option<&'v str>,
    pub parent: Parent<'v>,
    /// When it was written.
    pub time: Option<i64>,
    pub after_loss: bool,
}

impl<'v> Entry<'v> {
    pub(super) fn link(&self) -> Link<'v> {
        Link { id: self.id, parent: self.parent, may_end: true }
    }

    pub(super) fn kind(&self) -> &'v str {
        self.value.get("type").str().unwrap_or_default()
    }

    pub(super) fn message(&self) -> Value<'v> {
        self.value.get("message")
    }
}

/// All entries of a trace in their order, and its first lines.
pub(super) fn entries<'v>(
    items: &TraceItems<'v>,
    parsed: &'v ParsedItems<'_>,
) -> (Vec<(u32, Value<'v>)>, Vec<Entry<'v>>) {
    let (mut heads, mut entries) = (Vec::new(), Vec::<Entry<'v>>::new());
    for (item, value) in parsed.values() {
        if value.get("type").str() == Some("session") {
            heads.push((item, value));
            continue;
        }
        let from = &items.as_slice()[item as usize];
        let before = entries.last().filter(|last| (last.path, last.line) == (from.path, from.line));
        let parent = value.get("parentId");
        entries.push(Entry {
            item,
            path: from.path,
            line: from.line,
            nth: before.map_or(0, |before| before.nth + 1),
            value,
            id: value.get("id").some_str(),
            parent: match parent.some_str() {
                Some(id) => Parent::Of(id),
                None if parent.is_null() => Parent::Root,
                None => Parent::Before,
            },
            time: time(value),
            after_loss: from.after_loss,
        });
    }
    (heads, entries)
}

/// When an entry was written: where it does not say so, when its message was.
pub(super) fn time(entry: Value<'_>) -> Option<i64> {
    instant(entry.get("timestamp")).or_else(|| instant(entry.path(&["message", "timestamp"])))
}

/// The id of the session that a session was forked from: both versions name its file, which ends in its id.
pub(super) fn parent_session(head: Value<'_>) -> Option<&str> {
    let path = head.first(&["parentSession", "branchedFrom"]).some_str()?;
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let stem = name.split_once(".jsonl").map_or(name, |(stem, _)| stem);
    Some(stem.rsplit_once('_').map_or(stem, |(_, id)| id)).filter(|id| !id.is_empty())
}

/// What distinguishes a response from all others, whatever session has a copy of it: the provider's id is not kept, but
/// its times, its usage, its model, its first text and its first call are copied as they are.
pub(super) fn response_identity(entry: Value<'_>) -> Option<u64> {
    let message = entry.get("message");
    let times = [entry.get("timestamp").raw(), message.get("timestamp").raw()];
    if message.get("role").str() != Some("assistant") || times.iter().all(|time| time.is_empty()) {
        return None;
    }
    let usage = ["input", "output", "cacheRead", "cacheWrite"].map(|key| message.path(&["usage", key]).raw());
    let call = message.get("content").elements().find(|block| block.get("type").str() == Some("toolCall"));
    let call = call.and_then(|call| call.get("id").str()).unwrap_or_default();
    let content = message.get("content");
    let text =
        content.elements().map(|block| block.get("text")).find(|text| text.exists()).unwrap_or(content);
    let written = [text.str().unwrap_or_default(), message.get("provider").raw(), message.get("model").raw()];
    let parts: Vec<&str> = times.into_iter().chain(usage).chain([call]).chain(written).collect();
    Some(xxh3_64(parts.join("\n").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    const LIMITS: Limits = Limits { depth: 16, string: 1 << 10, lenient: true };

    #[test]
    fn the_session_before_is_named_by_the_end_of_its_file() {
        let table = [
            (r#"{"branchedFrom":"/s/2025-12-09T00-52-54-397Z_d97339c6.jsonl"}"#, Some("d97339c6")),
            (r#"{"parentSession":"C:\\s\\2025_d9.jsonl","branchedFrom":"/s/x_y.jsonl"}"#, Some("d9")),
            (r#"{"parentSession":"d97339c6"}"#, Some("d97339c6")),
            (r#"{"parentSession":"/s/"}"#, None),
            (r#"{"parentSession":7}"#, None),
            ("{}", None),
        ];
        for (head, id) in table {
            let tree = Tree::parse(head, LIMITS).unwrap();
            assert_eq!(parent_session(tree.root()), id, "{head}");
        }
    }

    #[test]
    fn times_are_texts_or_milliseconds() {
        let table = [
            (r#"{"timestamp":"2025-12-09T00:00:00.5Z"}"#, Some(1_765_238_400_500_000_000)),
            (r#"{"timestamp":1765238400500}"#, Some(1_765_238_400_500_000_000)),
            (
                r#"{"timestamp":"soon","message":{"timestamp":1765238400500}}"#,
                Some(1_765_238_400_500_000_000),
            ),
            (r#"{"timestamp":12}"#, None),
            ("{}", None),
        ];
        for (entry, at) in table {
            let tree = Tree::parse(entry, LIMITS).unwrap();
            assert_eq!(time(tree.root()), at, "{entry}");
        }
    }
}
