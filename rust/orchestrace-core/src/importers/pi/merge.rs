//! Several files of one session: a copy that was kept before the session went on, or one that a newer version rewrote.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::entry::Entry;
use crate::importers::TraceItems;

/// Puts the entries of several files of a session in the order of their times, and leaves out what another file has, too:
/// one may have been rewritten by a newer version, which gives entries ids and leaves their times and messages as they are.
/// The order within a file stays, and no order of files decides.
pub(super) fn merge_files(items: &TraceItems<'_>, entries: &mut Vec<Entry<'_>>) {
    if entries.windows(2).all(|pair| pair[0].path == pair[1].path) {
        return;
    }
    let content = |entry: &Entry<'_>| {
        let content =
            (entry.value.get("timestamp").raw().to_owned(), xxh3_64(entry.message().raw().as_bytes()));
        (entry.message().exists() && !content.0.is_empty()).then_some(content)
    };
    // Of copies the one with an id is used, then that of the first file by name.
    let mut used = BTreeMap::new();
    for entry in entries.iter() {
        if let Some(content) = content(entry) {
            let rank = (entry.id.is_none(), entry.path);
            let least = used.entry(content).or_insert(rank);
            *least = rank.min(*least);
        }
    }
    entries.retain(|entry| {
        let rank = (entry.id.is_none(), entry.path);
        let is_used = content(entry).is_none_or(|content| used.get(&content) == Some(&rank));
        if !is_used {
            items.duplicate(entry.item as usize);
        }
        is_used
    });
    let mut latest = BTreeMap::new();
    let latest_so_far = entries.iter().map(|entry| {
        let time = latest.entry(entry.path).or_insert(entry.time);
        *time = entry.time.max(*time);
        (*time, *entry)
    });
    let mut ordered: Vec<_> = latest_so_far.collect();
    ordered.sort_by_key(|(time, _)| *time);
    *entries = ordered.into_iter().map(|(_, entry)| entry).collect();
}
