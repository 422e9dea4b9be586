//! The lines of a session's wire files, and its state.

use std::collections::BTreeMap;

use super::copies::join;
use super::is_state;
use super::place::{Place, parts};
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::parsed::ParsedItems;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

/// Milliseconds of the first year in which a number can be a time; less are seconds or no time at all.
const LEAST_MS: i64 = 100_000_000_000;

/// The agent that a user talks to.
pub(super) const MAIN: &str = "main";

/// A line of a wire file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'v> {
    pub item: u32,
    /// Its line, and which record of that line it is.
    pub at: (u64, u32),
    pub value: Value<'v>,
    pub time: Option<i64>,
    pub after_loss: bool,
    /// Whether it was taken back.
    pub abandoned: bool,
}

impl<'v> Line<'v> {
    pub(super) fn kind(&self) -> &'v str {
        self.value.get("type").str().unwrap_or_default()
    }

    /// The event of the agent's loop that it records.
    pub(super) fn event(&self) -> Option<(&'v str, Value<'v>)> {
        let event = self.value.get("event");
        (self.kind() == "context.append_loop_event")
            .then(|| (event.get("type").str().unwrap_or_default(), event))
    }

    /// Who began what it tells.
    pub(super) fn origin(&self) -> &'v str {
        self.origin_record().get("kind").str().unwrap_or("user")
    }

    pub(super) fn origin_record(&self) -> Value<'v> {
        let origin = self.value.get("origin");
        if origin.exists() { origin } else { self.value.path(&["message", "origin"]) }
    }

    /// Whether an agent began what it tells.
    pub(super) fn is_delegated(&self) -> bool {
        self.origin() == "system_trigger" && self.origin_record().get("name").str() == Some("subagent")
    }
}

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

/// When a line was written.
pub(super) fn time(line: Value<'_>) -> Option<i64> {
    instant(line.get("time")).or_else(|| instant(line.get("created_at")))
}

/// A time in nanoseconds since the epoch: milliseconds, or a text.
pub(super) fn instant(value: Value<'_>) -> Option<i64> {
    let milliseconds = value.i64().filter(|ms| *ms >= LEAST_MS).and_then(|ms| ms.checked_mul(1_000_000));
    milliseconds.or_else(|| value.str().and_then(parse_timestamp))
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

/// Marks what the user took back: his last prompts, and all that followed.
pub(super) fn take_back(lines: &mut [Line<'_>]) {
    let mut prompts: Vec<usize> = Vec::new();
    for at in 0..lines.len() {
        let line = &lines[at];
        match line.kind() {
            "context.append_message"
                if line.value.path(&["message", "role"]).str() == Some("user")
                    && is_of_user(line.origin()) =>
            {
                let is_told = at > 0 && lines[at - 1].kind() == "turn.prompt";
                prompts.push(if is_told { at - 1 } else { at });
            }
            "context.clear" | "context.apply_compaction" => prompts.clear(),
            "context.undo" => {
                let count = line.value.get("count").i64().and_then(|count| usize::try_from(count).ok());
                let n_kept =
                    count.filter(|count| *count > 0).and_then(|count| prompts.len().checked_sub(count));
                if let Some(n_kept) = n_kept {
                    let from = prompts[n_kept];
                    prompts.truncate(n_kept);
                    lines[from..at].iter_mut().for_each(|line| line.abandoned = true);
                }
            }
            _ => {}
        }
    }
}

/// Whether a user wrote it, whatever the program made of it.
pub(super) fn is_of_user(origin: &str) -> bool {
    matches!(origin, "user" | "skill_activation" | "plugin_command" | "shell_command")
}
