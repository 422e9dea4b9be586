//! Which conversation a record belongs to: records of V1 do not say, but their place does.

use crate::importers::items::Items;
use crate::importers::path::parts;
use crate::importers::path::stem;
use crate::json::identity::identity;

/// What the key of a folder begins with whose name is no id of a conversation.
const FOLDER: &str = "folder:";
const FILE: &str = "file:";

/// Where sub-agents' conversations lie in the folder of the one that asked them.
const SUB_AGENTS: &str = "subagents";

/// The place of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'p> {
    /// A folder: of `base_state.json`, or around `events/`.
    Folder(&'p str),
    /// A file that has all events.
    File(&'p str),
}

impl<'p> Place<'p> {
    pub(super) fn of(path: &'p str) -> Self {
        let (folder, name) = parts(path);
        if stem(name) == "base_state" {
            return Self::Folder(folder);
        }
        match parts(folder) {
            (above, "events") => Self::Folder(above),
            _ => Self::File(path),
        }
    }

    /// Its name, without what lies above it.
    fn name(self) -> &'p str {
        match self {
            Self::Folder(folder) => parts(folder).1,
            Self::File(path) => stem(parts(path).1),
        }
    }

    /// The id of the conversation, where the name is one.
    pub(super) fn id(self) -> Option<String> {
        id_of(self.name())
    }

    /// What its records are gathered under.
    pub(super) fn key(self, out: &Items<'_>) -> String {
        match self {
            Self::File(_) if self.id().is_none() => out.in_file(self.name()),
            _ => self.gathered(),
        }
    }

    /// What distinguishes the conversation within a trace.
    pub(super) fn gathered(self) -> String {
        match (self.id(), self) {
            (Some(id), _) => id,
            (None, Self::Folder(folder)) => [FOLDER, folder].concat(),
            (None, Self::File(path)) => [FILE, path].concat(),
        }
    }

    /// The conversation that asked this one, by the folder that it lies in.
    pub(super) fn parent(self) -> Option<Self> {
        let Self::Folder(folder) = self else { return None };
        match parts(parts(folder).0) {
            (above, SUB_AGENTS) => Some(Self::Folder(above)),
            _ => None,
        }
    }

    /// What a trace is called whose conversation has no id: two places of one name are told apart by the first event.
    pub(super) fn named_by(self, first: &str) -> String {
        let hash = format!("{:016x}", identity(first));
        [self.name(), &hash].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }
}

/// A uuid as traces spell it, without dashes.
pub(super) fn id_of(name: &str) -> Option<String> {
    let digits: String = name.chars().filter(|c| *c != '-').collect();
    let dashed = name.len() == 36 && [8, 13, 18, 23].iter().all(|at| name.as_bytes()[*at] == b'-');
    let is_uuid = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_uuid && (dashed || name.len() == 32)).then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_record_tells_its_conversation() {
        let id = "0123456789abcdef0123456789abcdef";
        let folder = format!("a/{id}");
        for path in ["base_state.json", "base_state.json.gz", "events/event-00001-x.json", "events/7.json"] {
            let path = format!("{folder}/{path}");
            assert_eq!(Place::of(&path), Place::Folder(&folder), "{path}");
            assert_eq!(Place::of(&path).id().as_deref(), Some(id));
            assert_eq!(Place::of(&path).parent(), None);
        }
        assert_eq!(Place::of("base_state.json"), Place::Folder(""));
        assert_eq!(Place::of("events/1.json"), Place::Folder(""));
        assert_eq!(Place::of("a/demo.json"), Place::File("a/demo.json"));
        assert_eq!(Place::of("a/demo.jsonl.zst").name(), "demo");
        assert_eq!(Place::of("a/subagents/b/events/1.json").parent(), Some(Place::Folder("a")));
    }

    #[test]
    fn ids_are_spelt_without_dashes() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(id_of(id).as_deref(), Some(id));
        assert_eq!(id_of("01234567-89AB-cdef-0123-456789abcdef").as_deref(), Some(id));
        for name in ["", "0123", "0123456789abcdef0123456789abcdeg", "-0123456789abcdef0123456789abcdef--é"]
        {
            assert_eq!(id_of(name), None, "{name}");
        }
    }
}
