//! Results of calls, and ends of what the history has no call for.

use super::super::line::{Line, LineContent, is_collaboration, only_waits};
use super::{Stream, seconds};
use crate::importers::recording::{Call, CallResult, Party, Text};
use crate::schema::EventType;

impl Stream<'_, '_> {
    pub(super) fn output(&mut self, line: &Line) {
        let LineContent::Output { call, content, mut ok, mut duration_s, statuses, denied, .. } =
            line.content
        else {
            return;
        };
        self.put_in(line);
        let key = self.recording.read(call);
        let request = self.asked.get(key).copied();
        let tool = request.map_or("", |(_, tool)| self.recording.read(tool)).to_owned();
        let end =
            self.facts.ends.get(key).and_then(|at| self.thread.own_lines().nth(*at)).map(|line| line.content);
        if let Some(LineContent::End { ok: ok_at_end, duration_s: took, .. }) = end {
            ok = ok_at_end.or(ok);
            duration_s = took.or(duration_s);
        }
        if denied {
            ok = ok.or(Some(false));
            let extras = self.extras();
            self.mark(line, EventType::HumanIntervention, Party::User, None, None, extras);
        }
        let began = request.and_then(|(time, _)| time).zip(line.time);
        let duration_s = duration_s.or_else(|| began.map(|(start, end)| seconds(start, end)));
        // What the result brings was said before it.
        if matches!(tool.as_str(), "wait" | "wait_agent") {
            self.deliver(line, statuses);
        }
        let extras = self.extras();
        let id = if call.is_none() { self.id_of(line) } else { Text::default() };
        self.recording.result(
            self.agent,
            CallResult {
                call,
                id,
                tool: Text::default(),
                time: line.time,
                duration_s,
                content: Some(content),
                ok,
                trusted: Some(is_trusted(&tool)),
                launched: true,
                by_user: false,
                waits: only_waits(&tool),
                brings: None,
                extras,
            },
        );
    }

    /// An end whose call the history does not have is a call with its result.
    pub(super) fn end(&mut self, line: &Line) {
        let LineContent::End { call, tool, content, request, ok, duration_s, stands_alone } = line.content
        else {
            return;
        };
        let key = self.recording.read(call);
        if self.facts.calls.contains(key) {
            return;
        }
        if !stands_alone || self.asked.contains_key(key) {
            self.used_as(line, "codex.item_completed");
            return;
        }
        self.asked.insert(key.to_owned(), (line.time, tool));
        let began = line.time.zip(duration_s).map(|(end, s)| end.saturating_sub((s * 1e9) as i64));
        let extras = self.extras();
        let lone =
            Call { id: call, tool, content: request, time: began.or(line.time), extras, ..Call::default() };
        self.recording.lone_call(self.agent, lone);
        if !self.facts.answered.contains(self.recording.read(call)) {
            self.recording.result(
                self.agent,
                CallResult {
                    call,
                    time: line.time,
                    duration_s,
                    content,
                    ok,
                    trusted: Some(false),
                    extras,
                    ..CallResult::default()
                },
            );
        }
    }
}

/// Tools whose results come from the harness or from other models, not from the world.
fn is_trusted(tool: &str) -> bool {
    tool == "update_plan" || is_collaboration(tool)
}
