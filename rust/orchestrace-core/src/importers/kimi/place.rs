//! Which session and agent a record is of: records do not say, but their place does.

use crate::importers::file_key;
use crate::importers::items::Items;
use crate::importers::path::parts;
use crate::importers::path::stem;

/// What the folders of sessions are called, which is their id.
const SESSION: &str = "session_";

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'p> {
    /// The folder of a session, and the agent whose wire file it is; of the state none.
    Session(&'p str, Option<&'p str>),
    /// A file that lies by itself.
    File,
}

impl<'p> Place<'p> {
    pub(super) fn of(path: &'p str) -> Self {
        let (folder, name) = parts(path);
        let (above, agent) = parts(folder);
        let is_session = |folder: &str| parts(folder).1.starts_with(SESSION);
        match stem(name) {
            "state" => Self::Session(folder, None),
            // A copy of a wire file that lies beside it may have any name, and so may one of the state.
            stem if parts(above).1 == "agents" && (stem == "wire" || is_session(parts(above).0)) => {
                Self::Session(parts(above).0, Some(agent))
            }
            _ if is_session(folder) && !name.contains(".jsonl") => Self::Session(folder, None),
            _ => Self::File,
        }
    }

    /// The id of the session, where its folder is called so.
    pub(super) fn id(self) -> Option<&'p str> {
        match self {
            Self::Session(folder, _) => Some(parts(folder).1).filter(|name| name.starts_with(SESSION)),
            Self::File => None,
        }
    }

    pub(super) fn agent(self) -> Option<&'p str> {
        match self {
            Self::Session(_, agent) => agent,
            Self::File => None,
        }
    }

    /// What its records are gathered under.
    pub(super) fn key(self, stem: &str, out: &Items<'_>) -> String {
        match (self.id(), self) {
            (Some(id), _) => id.to_owned(),
            (None, Self::Session(folder, _)) => file_key::of_folder(folder),
            (None, Self::File) => file_key::of_file(stem, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_record_tells_its_session_and_its_agent() {
        let table = [
            ("a/session_1/state.json", Place::Session("a/session_1", None), Some("session_1")),
            (
                "a/session_1/agents/main/wire.jsonl",
                Place::Session("a/session_1", Some("main")),
                Some("session_1"),
            ),
            ("s/agents/agent-0/wire.jsonl.gz", Place::Session("s", Some("agent-0")), None),
            ("agents/main/wire.jsonl", Place::Session("", Some("main")), None),
            ("a/wire.jsonl", Place::File, None),
            ("a/x.jsonl", Place::File, None),
        ];
        for (path, place, id) in table {
            assert_eq!(Place::of(path), place, "{path}");
            assert_eq!(Place::of(path).id(), id, "{path}");
        }
    }
}
