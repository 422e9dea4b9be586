//! Where a record lies in the store: `session/<project>/<session>.json`, `message/<session>/<message>.json`,
//! `part/<message>/<part>.json`, and what it keeps beside them.

use crate::json::tree::Value;

/// The folders of a path, from the innermost.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    path.rsplit('/').skip(1)
}

/// The message whose folder a part lies in.
pub(super) fn message_of_part(path: &str) -> Option<&str> {
    let mut above = folders(path);
    let (folder, kind) = (above.next()?, above.next()?);
    // An older store has a folder per session in between.
    let is_part = kind == "part" || above.next() == Some("part");
    (is_part && !folder.is_empty()).then_some(folder)
}

/// The session that a file of a session, or of a message, is of.
pub(super) fn session_of(path: &str) -> Option<&str> {
    let mut above = folders(path);
    let (folder, kind) = (above.next()?, above.next()?);
    match kind {
        "message" => Some(folder).filter(|folder| !folder.is_empty()),
        "session" => path.rsplit('/').next()?.split('.').next().filter(|name| !name.is_empty()),
        _ => None,
    }
}

/// What the store keeps beside sessions, by its folder and what it has.
pub(super) fn beside(record: Value<'_>, path: &str) -> Option<&'static str> {
    let mut above = folders(path);
    let folder = above.next()?;
    if above.next() != Some("storage") {
        return None;
    }
    let has = |keys: &[&str]| keys.iter().any(|key| !record.get(key).is_absent());
    match folder {
        "project" if has(&["worktree", "vcs"]) => Some("opencode.project"),
        "todo" if has(&["content", "status"]) => Some("opencode.todo"),
        "session_diff" if has(&["file", "additions", "patch"]) => Some("opencode.session_diff"),
        "session_share" if has(&["secret", "url"]) => Some("opencode.session_share"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_file_says_what_it_is_of() {
        assert_eq!(message_of_part("a/part/m1/p1.json"), Some("m1"));
        assert_eq!(message_of_part("storage/session/part/s1/m1/p1.json"), Some("m1"));
        assert_eq!(message_of_part("part/p1.json"), None);
        assert_eq!(message_of_part("p1.json"), None);
        assert_eq!(session_of("a/message/s1/m1.json"), Some("s1"));
        assert_eq!(session_of("a/session/global/s1.json.zst"), Some("s1"));
        assert_eq!(session_of("a/part/m1/p1.json"), None);
    }
}
