//! Conversion of a session to a recording: its agents, and what each of them did.

use std::collections::BTreeMap;

use super::KIMI;
use super::describe::{Describing, Oddities};
use super::line::Line;
use super::team::Team;
use super::wire::{MAIN, Wire};
use crate::importers::TraceItems;
use crate::importers::file_key;
use crate::importers::parsed::ParsedItems;
use crate::importers::path::parts;
use crate::importers::recording::{Agent, AgentInfo, Recording};
use crate::importers::responses::text_of;
use crate::json::time::instant;

/// Describes a session.
pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let wire = Wire::of(items, parsed);
    name(&wire, items, recording);
    for (code, message) in &wire.conflicts {
        recording.finding(*code, None, message);
    }
    let mut ids: Vec<&str> = wire.agents.keys().copied().collect();
    ids.sort_by_key(|id| (wire.is_asked(id), id.len(), *id));
    let mut team = Team::default();
    for id in &ids {
        let lines = &wire.agents[id];
        let is_asked = wire.is_asked(id);
        let info = if is_asked {
            let kind = recording.text(profile(lines).unwrap_or_default());
            let id = if wire.is_folder || *id != MAIN { id } else { "" };
            AgentInfo { name: kind, role: kind, source_id: recording.text(id), ..AgentInfo::default() }
        } else {
            AgentInfo { name: recording.text(KIMI), ..AgentInfo::default() }
        };
        team.agents.insert(id, recording.agent(info));
    }
    // Who asked, where that was not kept.
    let mut absent: BTreeMap<&str, Agent> = BTreeMap::new();
    for id in ids.iter().filter(|id| wire.is_asked(id)) {
        let parent = wire.parent(id).or((*id != MAIN).then_some(MAIN)).unwrap_or_default();
        let recorded = team.agents.get(parent).copied();
        let asked_by = recorded.unwrap_or_else(|| {
            *absent.entry(parent).or_insert_with(|| {
                recording.trace.partial = true;
                let is_main = parent.is_empty() || parent == MAIN;
                let name = recording.text(if is_main { KIMI } else { "" });
                let source_id = recording.text(if is_main { "" } else { parent });
                recording.agent(AgentInfo { name, source_id, ..AgentInfo::default() })
            })
        });
        recording.agent_info(team.agents[id]).parent = Some(asked_by);
        let prompt = wire.agents[id].iter().find(|line| line.kind() == "turn.prompt");
        let prompt = prompt.map(|line| text_of(line.value.get("input")).into_owned()).unwrap_or_default();
        team.unasked.push((id, parent, prompt));
    }
    let mut oddities = Oddities::default();
    let mut open = Vec::new();
    for id in &ids {
        let agent = team.agents[id];
        let prefix = if recording.agent_info(agent).parent.is_some() { *id } else { "" };
        let lines = &wire.agents[id];
        let describing =
            Describing::new((items, lines), recording, &mut team, &mut oddities, (id, prefix), agent);
        open.push((agent, describing.describe()));
    }
    for (agent, is_open) in open {
        recording.trace.partial |= is_open;
        // Who asked it was told how it ended.
        recording.agent_info(agent).open = is_open && !team.ended.contains(&agent);
        if recording.agent_info(agent).name.is_none() && recording.agent_info(agent).source_id.is_none() {
            recording.agent_info(agent).name = recording.text("agent");
        }
    }
    if let Some(state) = wire.state.filter(|state| wire.is_folder && !state.get("agents").is_empty()) {
        let stated = i64::try_from(state.get("agents").len()).unwrap_or(i64::MAX);
        recording.claims("the number of 'agents' in state.json", (stated, ids.len()), "wire files");
        recording.trace.partial |= state.get("agents").members().any(|(id, _)| !wire.agents.contains_key(id));
    }
    oddities.report(recording);
}

/// What an agent is, as its lines say.
fn profile<'v>(lines: &[Line<'v>]) -> Option<&'v str> {
    let says = |line: &&Line<'v>| matches!(line.kind(), "config.update" | "profile.bind");
    lines.iter().filter(says).find_map(|line| line.value.get("profileName").some_str())
}

fn name(wire: &Wire<'_>, items: &TraceItems<'_>, recording: &mut Recording) {
    let of_place = parts(file_key::name(items.key(), KIMI)).1;
    let id = wire.id().unwrap_or(of_place);
    recording.trace.trace_id = recording.text(id);
    recording.trace.system = recording.text(KIMI);
    recording.trace.partial = items.is_partial();
    let first = |lines: &Vec<Line<'_>>| lines.iter().find_map(|line| line.time);
    let began = wire.agents.values().filter_map(first).min();
    if began.is_some() {
        // A session that was forked is younger than its first lines.
        let created = wire.state.and_then(|state| instant(state.get("createdAt")));
        recording.trace.started_at = began.into_iter().chain(created).min();
    }
    if let Some(line) = wire.agents.get(MAIN).and_then(|lines| lines.first()) {
        items.lies_at(line.item as usize);
    }
}
