//! Sub-agents: how they begin, how they end, and what is stated of all that they did.

use super::super::record::Event;
use super::Session;
use crate::error::FindingCode;
use crate::importers::recording::{Agent, Entry, Mark, Saying, Text, Usage, hash};
use crate::schema::EventType;

impl<'v> Session<'_, '_, 'v> {
    /// A sub-agent begins: where no call asked for it, this is how.
    pub(super) fn spawned(&mut self, at: usize, event: &Event<'v>) {
        let Some(number) = self.team.about(event) else { return };
        let child = &self.team.children[number];
        // A line that is there again says nothing more.
        if child.asked.is_some() || child.started != Some(at) {
            return;
        }
        let Some(parent) = self.recording.agent_info(child.agent).parent else { return };
        let id = self.id(event);
        let mark = Mark {
            event_type: EventType::Spawn,
            id,
            by: None,
            to: Some(child.agent),
            time: event.time,
            content: None,
            trusted: Some(true),
            ok: None,
            tool: Text::default(),
            extras: self.recording.extra(Text::default(), "x_partial", "true"),
        };
        self.recording.mark(parent, mark);
    }

    /// A sub-agent ends. Its answer reaches who asked with the result of the call, or by this.
    pub(super) fn ended(&mut self, at: usize, event: &Event<'v>) {
        let Some(number) = self.team.about(event) else { return };
        let child = &self.team.children[number];
        if child.end != Some(at) {
            return;
        }
        // What it took has no result of a call to be told with.
        let is_untold = child.result.is_none() && child.tokens.is_some() && self.says_nothing(child.agent);
        let usage = Usage { tokens: child.tokens.filter(|_| is_untold), ..Usage::default() };
        if event.kind == "subagent.failed" {
            let error = self.text_of(event.data.get("error"), "subagent.failed.error");
            let id = self.id(event);
            let saying = Saying {
                id,
                content: (!error.is_empty()).then(|| hash(error)),
                time: event.time,
                ok: Some(false),
                ..Saying::default()
            };
            let entry = self.recording.lone_saying(child.agent, saying);
            if is_untold {
                self.recording.unrecorded(entry, usage, Text::default());
            }
        } else if is_untold {
            self.beside(child.agent, event, usage, (None, child.model.unwrap_or_default()));
        }
        if child.result.is_none()
            && let Some(parent) = self.recording.agent_info(child.agent).parent
        {
            self.recording.delivery_at(parent, child.agent, event.time);
        }
    }

    /// What a sub-agent states for all that it did, where its responses state nothing.
    pub(super) fn states_for_all(&mut self, agent: Agent, tokens: Option<i64>, result: Entry) {
        if self.says_nothing(agent) && tokens.is_some() {
            self.recording.unrecorded(result, Usage { tokens, ..Usage::default() }, Text::default());
        }
    }

    fn says_nothing(&self, agent: Agent) -> bool {
        self.recording.usages_of(agent).all(|usage| usage.total().unwrap_or(0) <= 0)
    }

    /// Compares what sub-agents state with what their responses sum to.
    pub(super) fn compare_children(&mut self) {
        for child in &self.team.children {
            let Some(stated) = child.tokens else { continue };
            let usages: Vec<Usage> = self.recording.usages_of(child.agent).collect();
            let sum = usages.iter().filter_map(Usage::total).fold(0_i64, i64::saturating_add);
            if sum == 0 || sum == stated {
                continue;
            }
            let is_floor = stated > sum && usages.iter().any(|usage| usage.tokens_in.is_none());
            let code = if is_floor { FindingCode::UsageIncomplete } else { FindingCode::UsageConflict };
            let floor = if is_floor { "; the sum is a floor" } else { "" };
            let message =
                format!("a sub-agent states {stated} tokens, but its responses sum to {sum}{floor}");
            self.recording.finding(code, None, message);
        }
    }
}
