//! The lines of a session's wire files, and its state.

use std::collections::BTreeMap;

use super::copies::join;
use super::is_state;
use super::line::{Line, time};
use super::place::Place;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::parsed::ParsedItems;
use crate::importers::path::parts;
use crate::json::tree::Value;

/// The agent that a user talks to.
pub(super) const MAIN: &str = "main";

/// A session, as its records have it.
#[derive(Debug, Default)]
pub(super) struct Wire<'v> {
    pub state: Option<Value<'v>>,
    /// Lines of each agent, by its id.
    pub agents: BTreeMap<&'v str, Vec<Line<'v>>>,
    /// The folder or the file of it.
    pub home: &'v str,
    /// Whether its agents have files of their own.
    pub is_folder: bool,
    /// What copies of it do not agree about.
    pub conflicts: Vec<(FindingCode, String)>,
}

impl<'v> Wire<'v> {
    pub(super) fn of(items: &TraceItems<'v>, parsed: &'v ParsedItems<'_>) -> Self {
        let mut wire = Self::default();
        let mut states = Vec::new();
        // Of a file by itself lines may name their agent or not.
        let named = parsed.values().find_map(|(_, value)| value.get("agentId").some_str());
        let mut before = ("", 0, 0);
        for (item, value) in parsed.values() {
            let from = &items.as_slice()[item as usize];
            if is_state(value) {
                states.push((item, value));
                continue;
            }
            let place = Place::of(from.path);
            if let Place::Session(folder, _) = place {
                (wire.home, wire.is_folder) = (folder, true);
            }
            let nth = if (before.0, before.1) == (from.path, from.line) { before.2 + 1 } else { 0 };
            before = (from.path, from.line, nth);
            let agent = place.agent().or_else(|| value.get("agentId").some_str()).or(named).unwrap_or(MAIN);
            wire.agents.entry(agent).or_default().push(Line {
                item,
                at: (from.line, nth),
                value,
                time: time(value),
                after_loss: from.after_loss,
                abandoned: false,
            });
        }
        let latest = |(_, state): &(u32, Value<'v>)| (state.get("updatedAt").raw(), state.raw());
        states.sort_by(|a, b| latest(b).cmp(&latest(a)));
        for (item, _) in states.iter().skip(1) {
            items.duplicate(*item as usize);
        }
        wire.state = states.first().map(|(_, state)| *state);
        for lines in wire.agents.values_mut() {
            join(items, lines, &mut wire.conflicts);
        }
        wire
    }

    /// The id of the session, where its folder or its state says it.
    pub(super) fn id(&self) -> Option<&'v str> {
        Place::Session(self.home, None).id().or_else(|| session_of(self.state?))
    }

    /// Who asked an agent, as the state says it.
    pub(super) fn parent(&self, agent: &str) -> Option<&'v str> {
        self.state?.path(&["agents", agent, "parentAgentId"]).some_str().filter(|parent| *parent != agent)
    }

    /// Whether somebody made an agent work.
    pub(super) fn is_asked(&self, agent: &str) -> bool {
        let stated = self.state.and_then(|state| state.path(&["agents", agent, "type"]).str());
        if stated == Some("sub") || self.parent(agent).is_some() {
            return true;
        }
        let prompt =
            self.agents.get(agent).and_then(|lines| lines.iter().find(|line| line.kind() == "turn.prompt"));
        let is_prompted = prompt.is_some_and(Line::is_delegated);
        stated != Some(MAIN) && (is_prompted || (agent != MAIN && self.is_folder))
    }
}

/// The session that a state is of: it says so, or its agents' folders lie in it.
pub(super) fn session_of(state: Value<'_>) -> Option<&str> {
    let homes = || state.get("agents").members().filter_map(|(_, agent)| agent.get("homedir").some_str());
    let of_home = |home| {
        let (above, agents) = parts(parts(home).0);
        Some(parts(above).1).filter(|name| agents == "agents" && !name.is_empty())
    };
    state.get("id").some_str().or_else(|| homes().find_map(of_home))
}
