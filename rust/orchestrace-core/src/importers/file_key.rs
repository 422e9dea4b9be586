//! Keys of sessions whose records need not name them: then the file that they lie in does.

use super::Recorded;
use super::items::{Items, key_in_file};

/// What such a key begins with, which no id does: the id of its session comes before it in the order of keys.
const MARK: char = '~';

/// The key of what lies in this file, which is called so.
pub(super) fn of_file(name: &str, out: &Items<'_>) -> String {
    out.in_file(&of_folder(name))
}

/// The key of what lies in a folder, in whatever files.
pub(super) fn of_folder(folder: &str) -> String {
    format!("{MARK}{folder}")
}

/// The session that a key is the id of.
pub(super) fn session(key: &str) -> Option<(&str, Recorded)> {
    (!key.starts_with(MARK)).then_some((key, Recorded::Itself))
}

/// What a key calls its session. A stream has no name: it is called as the tool that wrote it.
pub(super) fn name<'k>(key: &'k str, tool: &'k str) -> &'k str {
    let name = key_in_file(key).0.trim_start_matches(MARK);
    if name.is_empty() { tool } else { name }
}
