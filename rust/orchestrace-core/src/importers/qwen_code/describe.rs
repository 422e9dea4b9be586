//! Conversion of a session to a recording: its agents, and what each of them was output, did and said.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use super::line::{Line, Step, Stream};
use super::pairing::Telemetry;
use super::session::Session;
use super::team::{DELEGATES, Team};
use super::telemetry::Request;
use super::usage::{COUNTS, usage_of, usage_of_summary};
use super::{NAME, has_succeeded};
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::file_key;
use crate::importers::gemini_parts::{Part, response_hash};
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{
    Agent, Call, CallResult, Does, Entry, Incoming, Party, Recording, Response, Saying, Text, Usage,
    call_hash, hash,
};
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::Value;

/// Describes a session.
pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let mut session = Session::of(items, parsed, recording);
    recording.trace.trace_id = recording.text(name_of(items.key()));
    recording.trace.system = recording.text(NAME);
    // Without its main stream nobody knows what became of the run.
    recording.trace.partial = items.is_partial() || session.streams[0].steps.is_empty();
    let lines = || session.streams.iter().flat_map(|stream| &stream.lines);
    recording.trace.started_at = lines().filter_map(|line| line.time).min();
    let (n_lines, timeless) = (lines().count(), lines().filter(|line| line.time.is_none()).count());
    let telemetry = Telemetry::of(items, &mut session);
    let team = Team::of(&session, &telemetry.unpaired, recording);
    let mut output = Output {
        items,
        recording,
        misfits: BTreeMap::new(),
        inherited: BTreeMap::new(),
        summaries: Vec::new(),
        timeless,
    };
    for (at, stream) in session.streams.iter().enumerate() {
        let teller = Teller {
            output: &mut output,
            team: &team,
            telemetry: &telemetry,
            requests: &session.requests.all,
            stream,
            at,
            agent: team.agents[at],
            extras: Text::default(),
            origin: None,
            abandoned: false,
            last: Last::Nothing,
        };
        teller.describe();
    }
    for (agent, requests) in &team.silent_requests {
        for at in requests {
            output.request(*agent, &session.requests.all[*at]);
        }
    }
    output.compare_summaries();
    output.oddities(n_lines);
}

/// The name of the trace of a key.
fn name_of(key: &str) -> &str {
    file_key::name(key, NAME)
}

/// What was told so far, and what was odd.
struct Output<'a, 'i> {
    items: &'a TraceItems<'i>,
    recording: &'a mut Recording,
    /// Members of the wrong kind, by name.
    misfits: BTreeMap<&'static str, u32>,
    /// Responses and tokens that count in other traces.
    inherited: BTreeMap<&'i str, (u64, i64)>,
    /// What results say that sub-agents took in all.
    summaries: Vec<(Entry, Agent, Usage)>,
    timeless: usize,
}

impl Output<'_, '_> {
    fn misfit(&mut self, name: &'static str) {
        *self.misfits.entry(name).or_default() += 1;
    }

    /// A text that may be absent.
    fn text_of<'v>(&mut self, value: Value<'v>, name: &'static str) -> &'v str {
        if value.str().is_none() && value.exists() {
            self.misfit(name);
        }
        value.str().unwrap_or_default()
    }

    /// An answer of which only the telemetry knows.
    fn request(&mut self, agent: Agent, request: &Request<'_>) {
        self.recording.made_of(request.item);
        let id = match request.id {
            Some(id) => self.recording.text(id),
            None => {
                self.recording.text(&format!("request:{}", self.items.as_slice()[request.item as usize].line))
            }
        };
        let usage = request.counts.usage();
        let owner = request.id.and_then(|id| self.items.owner(xxh3_64(id.as_bytes()))).map(name_of);
        let mut extras = Text::default();
        if let Some(origin) = owner {
            extras = self.recording.extra_text(extras, "x_copied", origin);
            let (responses, tokens) = self.inherited.entry(origin).or_default();
            (*responses, *tokens) = (*responses + 1, tokens.saturating_add(usage.total().unwrap_or(0)));
        }
        let response = Response {
            id,
            time: request.time,
            duration_s: request.took_s,
            model: self.recording.text(request.model),
            usage: if owner.is_some() { Usage::default() } else { usage },
            extras,
            ..Response::default()
        };
        self.recording.response(agent, response);
    }

    /// What a sub-agent took in all counts where none of its responses states anything; else both are compared.
    fn compare_summaries(&mut self) {
        for (result, child, usage) in std::mem::take(&mut self.summaries) {
            let parts: Vec<i64> = self.recording.usages_of(child).filter_map(|usage| usage.total()).collect();
            if parts.is_empty() {
                self.recording.unrecorded(result, usage, Text::default());
                continue;
            }
            let sum = parts.iter().fold(0_i64, |sum, part| sum.saturating_add(*part));
            if let Some(stated) = usage.total().filter(|stated| *stated != sum) {
                let words = ("the result of a sub-agent says", "its responses");
                self.recording.other_total(Some(result), Some(child), stated, sum, words);
                let extras =
                    self.recording.result_mut(result).map(|result| result.extras).unwrap_or_default();
                let extras = self.recording.extra(extras, "x_reported_tokens", &stated.to_string());
                if let Some(result) = self.recording.result_mut(result) {
                    result.extras = extras;
                }
            }
        }
    }

    /// What the tables have no place for.
    fn oddities(self, n_lines: usize) {
        if self.timeless > 0 && self.timeless < n_lines {
            let message = format!(
                "lines without a readable time: {}; they have that of the line before",
                self.timeless
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in self.misfits {
            let message = format!("'{name}' is of the wrong type in {n} places; it is null there");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        self.recording.inherits(self.inherited.into_iter().collect());
    }
}

/// The last thing of a conversation.
#[derive(Debug, Default)]
enum Last<'v> {
    #[default]
    Nothing,
    Prompt,
    /// A response: its calls without a result so far, and whether its text may be an answer.
    Response(BTreeSet<&'v str>, bool),
    /// Results that the model has not answered.
    Results,
}

/// A stream during its conversion.
struct Teller<'t, 'a, 'i, 'v> {
    output: &'t mut Output<'a, 'i>,
    team: &'t Team<'v>,
    telemetry: &'t Telemetry,
    requests: &'t [Request<'v>],
    stream: &'t Stream<'v>,
    /// Which stream it is.
    at: usize,
    agent: Agent,
    /// What is said of the line of now: that it was given up, and what it is copied from.
    extras: Text,
    origin: Option<&'i str>,
    abandoned: bool,
    last: Last<'v>,
}

impl<'i, 'v> Teller<'_, '_, 'i, 'v> {
    fn describe(mut self) {
        let stream = self.stream;
        let origins = self.origins();
        for (step, origin) in stream.steps.iter().zip(origins) {
            if let Some(line) = stream.first_line(step) {
                self.output.recording.made_of(line.item);
                // What was said last on another branch, or before a line that is lost, is not what is gone on from.
                if self.abandoned != line.abandoned || line.after_loss {
                    self.last = Last::Nothing;
                }
                (self.abandoned, self.origin) = (line.abandoned, origin);
                self.extras = self.marks();
                let time = line.value.get("timestamp");
                if time.exists() && instant(time).is_none() {
                    self.output.misfit("timestamp");
                }
            }
            match step {
                Step::Answer(lines) => self.answer(lines),
                Step::Said(at) => self.message(*at),
                Step::Results(at) => self.results(*at),
                Step::Compaction(_) => {
                    self.output.recording.compaction(self.agent);
                }
                Step::Request(at) => self.output.request(self.agent, &self.requests[*at]),
            }
        }
        let is_answered = matches!(&self.last, Last::Response(calls, true) if calls.is_empty());
        self.output.recording.agent_info(self.agent).open = !is_answered;
    }

    /// The trace that each step is copied from: that of the next answer which counts elsewhere.
    fn origins(&self) -> Vec<Option<&'i str>> {
        let steps = &self.stream.steps;
        let mut origins = vec![None; steps.len()];
        let mut next = None;
        for (origin, step) in origins.iter_mut().zip(steps).rev() {
            if let Step::Answer(lines) = step {
                let id = self.stream.lines[lines.start].id;
                let owner = id.and_then(|id| self.output.items.owner(xxh3_64(id.as_bytes()))).map(name_of);
                next = owner.or(next);
                *origin = owner;
            } else {
                *origin = next;
            }
        }
        origins
    }

    fn marks(&mut self) -> Text {
        let mut extras = Text::default();
        if self.abandoned {
            extras = self.output.recording.extra(extras, "x_abandoned", "true");
        }
        if let Some(origin) = self.origin {
            extras = self.output.recording.extra_text(extras, "x_copied", origin);
        }
        extras
    }

    /// The id of a line; where it has none, its place in the stream.
    fn id(&mut self, at: usize) -> Text {
        if let Some(id) = self.stream.lines[at].id {
            return self.output.recording.text(id);
        }
        let stream = self.stream.agent.unwrap_or("main");
        self.output.recording.text(&format!("{stream}:{}", at + 1))
    }

    fn parts(&mut self, line: &Line<'v>) -> Vec<Part<'v>> {
        let list: Vec<Part<'v>> = line.parts().collect();
        let content = line.value.path(&["message", "parts"]);
        let is_list = matches!(content.kind(), None | Some(Kind::Array | Kind::String));
        if !is_list || list.iter().any(|part| matches!(part, Part::Misfit)) {
            self.output.misfit("message.parts");
        }
        list
    }

    /// Something said to the agent. In the middle of its work the user breaks in.
    fn message(&mut self, at: usize) {
        let line = self.stream.lines[at];
        if self.team.is_told(&line) {
            self.output.items.duplicate(line.item as usize);
            self.last = Last::Prompt;
            return;
        }
        let list = self.parts(&line);
        let has_results = self.answers(&line, &list);
        let text = line.text();
        if has_results && text.is_empty() {
            return;
        }
        let payload = line.value.path(&["systemPayload", "backgroundTask"]);
        let call = payload.get("toolUseId").str().unwrap_or_default();
        if let Some(child) = self.team.child_of(self.at, call).filter(|_| line.subtype == "notification") {
            self.output.recording.delivery_at(self.agent, child, line.time);
            self.last = Last::Prompt;
            return;
        }
        let from = self.from(&line);
        let intervenes = match &self.last {
            _ if from != Party::User => false,
            Last::Results => true,
            Last::Response(calls, _) => !calls.is_empty(),
            _ => line.subtype == "mid_turn_user_message",
        };
        let incoming = Incoming {
            id: self.id(at),
            from,
            time: line.time,
            content: list.iter().any(|part| !matches!(part, Part::Misfit)).then(|| hash(&text)),
            trusted: (from == Party::User).then_some(true),
            intervenes,
            decides: Text::default(),
            extras: self.extras,
        };
        self.output.recording.incoming(self.agent, incoming);
        self.last = Last::Prompt;
    }

    /// Who says a line: the user, whoever a sub-agent works for, or the program.
    fn from(&mut self, line: &Line<'v>) -> Party {
        let is_message = line.value.get("externalInputKind").str() == Some("message");
        let by_program = match line.value.get("provenance").str() {
            Some(provenance) => matches!(provenance, "goal_control" | "goal_runtime" | "system"),
            None => !matches!(line.subtype, "" | "mid_turn_user_message" | "realtime_message"),
        };
        match self.team.asks.get(self.at).copied().flatten() {
            Some(asks) if is_message || (self.at > 0 && !by_program) => Party::Agent(asks),
            _ if !by_program => Party::User,
            _ => {
                let name = if line.subtype.is_empty() { "system" } else { line.subtype };
                Party::Named(self.output.recording.text(name))
            }
        }
    }

    fn answer(&mut self, lines: &std::ops::Range<usize>) {
        let stream = self.stream;
        let all: Vec<&Line<'v>> = stream.answer(lines).collect();
        let Some(last) = all.last() else { return };
        let model = all.iter().rev().find_map(|line| line.value.get("model").some_str());
        for line in &all {
            self.output.recording.made_of(line.item);
            let _checked = self.output.text_of(line.value.get("model"), "model");
            self.check_counts(line.value.get("usageMetadata"));
        }
        let request = self.telemetry.request_of.get(&(self.at, lines.start)).map(|at| &self.requests[*at]);
        let counts = usage_of(all.iter().copied()).unwrap_or_default();
        let stated = counts.usage();
        let usage = match request {
            Some(request) if stated == Usage::default() => request.counts.usage(),
            _ => stated,
        };
        let response = Response {
            id: self.id(lines.start),
            time: last.time,
            duration_s: request.and_then(|request| request.took_s),
            model: self
                .output
                .recording
                .text(model.or(request.map(|request| request.model)).unwrap_or_default()),
            usage: if self.origin.is_some() { Usage::default() } else { usage },
            extras: self.extras,
            ..Response::default()
        };
        let response = self.output.recording.response(self.agent, response);
        if let Some(origin) = self.origin {
            let (responses, tokens) = self.output.inherited.entry(origin).or_default();
            (*responses, *tokens) = (*responses + 1, tokens.saturating_add(usage.total().unwrap_or(0)));
        } else if counts.is_empty() && usage == Usage::default() {
            let message = "a response states a usage of 0 in all: what it took is not known";
            self.output.recording.finding(FindingCode::UsageIncomplete, Some(response), message);
        }
        let (mut calls, mut texts) = (BTreeSet::new(), String::new());
        for line in all {
            self.output.recording.made_of(line.item);
            for part in self.parts(line) {
                match part {
                    Part::Text(text) => texts += text,
                    Part::Call(call) => {
                        calls.insert(self.call(response, call));
                    }
                    _ => {}
                }
            }
        }
        let has_text = !texts.is_empty();
        if has_text {
            let saying = Saying { content: Some(hash(&texts)), extras: self.extras, ..Saying::default() };
            self.output.recording.say(response, saying);
        }
        self.last = Last::Response(calls, has_text);
    }

    fn check_counts(&mut self, usage: Value<'v>) {
        let is_odd = if usage.kind() == Some(Kind::Object) {
            COUNTS.iter().any(|key| usage.get(key).exists() && usage.get(key).integer_like().is_none())
        } else {
            usage.exists()
        };
        if is_odd {
            self.output.misfit("usageMetadata");
        }
    }

    fn call(&mut self, response: Entry, call: Value<'v>) -> &'v str {
        let id = self.output.text_of(call.get("id"), "functionCall.id");
        let tool = self.output.text_of(call.get("name"), "functionCall.name");
        let child = self.team.child_of(self.at, id).filter(|_| DELEGATES.contains(&tool));
        let call = Call {
            id: self.output.recording.text(id),
            tool: self.output.recording.text(tool),
            does: child.map_or(Does::UsesTool, Does::Spawns),
            content: Some(call_hash(tool, call.get("args"))),
            extras: self.extras,
            ..Call::default()
        };
        self.output.recording.call(response, call);
        id
    }

    fn results(&mut self, at: usize) {
        let line = self.stream.lines[at];
        let list = self.parts(&line);
        self.answers(&line, &list);
    }

    /// What tools gave back; whether there is such.
    fn answers(&mut self, line: &Line<'v>, list: &[Part<'v>]) -> bool {
        let recorded = line.value.get("toolCallResult");
        let mut has_results = false;
        for part in list {
            let Part::Response(response) = part else { continue };
            has_results = true;
            let call = self.output.text_of(response.get("id"), "functionResponse.id");
            let tool = self.output.text_of(response.get("name"), "functionResponse.name");
            let is_its = recorded.get("callId").str().is_none_or(|id| id == call);
            let recorded = if is_its { recorded } else { recorded.absent() };
            let took = recorded.get("durationMs").f64().filter(|ms| *ms > 0.0).map(|ms| ms / 1e3);
            let shown = recorded.path(&["resultDisplay", "status"]).str();
            let child = self.team.child_of(self.at, call);
            let result = CallResult {
                call: self.output.recording.text(call),
                tool: self.output.recording.text(tool),
                time: line.time,
                duration_s: took.or_else(|| self.telemetry.took_s.get(&line.item).copied()),
                content: response_hash(*response),
                ok: has_succeeded(recorded, *response),
                trusted: Some(false),
                launched: child.is_some() && matches!(shown, Some("background" | "running")),
                extras: self.extras,
                ..CallResult::default()
            };
            let result = self.output.recording.result(self.agent, result);
            let summary = recorded.path(&["resultDisplay", "executionSummary"]);
            let usage = usage_of_summary(summary);
            if let Some(child) = child.filter(|_| self.origin.is_none() && usage != Usage::default()) {
                self.output.summaries.push((result, child, usage));
            }
            self.last = match std::mem::take(&mut self.last) {
                Last::Response(mut calls, has_text) => {
                    calls.remove(call);
                    if calls.is_empty() { Last::Results } else { Last::Response(calls, has_text) }
                }
                _ => Last::Results,
            };
        }
        has_results
    }
}
