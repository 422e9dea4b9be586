//! Conversion of one step: answers with calls and results, texts, and inputs.

use std::borrow::Cow;

use super::{Telling, When, elements};
use crate::importers::mapping::source::{FieldValue, Scope};
use crate::importers::mapping::spec::{Fields, Key, StepKind};
use crate::importers::recording::{
    Agent, Call, CallResult, Does, Entry, Hash, Incoming, Mark, Party, Response, Saying, Text, Usage,
    call_hash, call_hash_of_text, hash,
};
use crate::json::{Kind, Limits};
use crate::schema::EventType;

/// A call as far as its place defines it: who asks in which response, and its id if it records none.
struct CallRequest<'a> {
    at: usize,
    response: Entry,
    call_id: &'a str,
    kind: StepKind,
    time: Option<i64>,
}

impl Telling<'_> {
    pub(super) fn step(&mut self, n: usize, kind: StepKind, scope: Scope<'_, '_>) {
        let spec = self.spec;
        let fields = &spec.step;
        let stated_id = fields.find(Key::Id, scope).word();
        let has_id = stated_id.is_some();
        let id = stated_id.map_or_else(|| format!("s{n}"), Cow::into_owned);
        let when = self.when(fields, scope);
        let user = fields.find(Key::Agent, scope).word().is_some_and(|name| self.is_user(&name));
        match kind {
            StepKind::Response
            | StepKind::Return
            | StepKind::Message
            | StepKind::Input
            | StepKind::Intervention
                if user =>
            {
                let to = fields.find(Key::To, scope).word().filter(|to| !self.is_user(to));
                let to = to.map_or_else(|| self.first.clone(), Cow::into_owned);
                let at = self.stream(&to);
                self.last = Some(at);
                self.heard(at, &id, when.end, scope, Party::User, kind == StepKind::Intervention);
            }
            StepKind::Response => self.response(&id, when, scope),
            StepKind::Call | StepKind::Spawn | StepKind::Handoff | StepKind::Despawn => {
                self.lone_call(&id, has_id, kind, when, scope);
            }
            StepKind::Tool => {
                let call = self.lone_call(&id, has_id, kind, when, scope);
                let result =
                    CallResult { duration_s: when.duration_s, time: when.end, ..CallResult::default() };
                self.answered(fields, scope, Some(&call), &call, result);
            }
            // One message with the results of several calls.
            StepKind::Result if self.lists_results(scope) => {
                let extras = self.extras(scope);
                self.results(&id, when, &[], extras, scope);
            }
            StepKind::Result => {
                let mut result =
                    CallResult { duration_s: when.duration_s, time: when.end, ..CallResult::default() };
                result.extras = self.extras(scope);
                let call = fields.find(Key::Call, scope).word();
                let differs = call.as_deref().is_none_or(|call| call != id);
                if has_id && differs {
                    result.id = self.recording.text(&id);
                }
                self.answered(fields, scope, call.as_deref(), &id, result);
            }
            StepKind::Message | StepKind::Return => self.saying(&id, kind, when, scope),
            StepKind::Input | StepKind::Intervention => {
                let at = self.actor(scope);
                let from = fields.find(Key::From, scope).word();
                let from = from.map_or(Party::User, |from| self.party(&from, false));
                self.heard(at, &id, when.end, scope, from, kind == StepKind::Intervention);
            }
            StepKind::Decision | StepKind::Safety => self.mark(&id, kind, when.end, scope),
            StepKind::Compaction => {
                let at = self.actor(scope);
                self.recording.compaction(self.streams[at].agent);
            }
            StepKind::Trace | StepKind::Ignore => {}
        }
        if let Some(labels) = &spec.labels {
            self.label_all(labels, scope, Some(&id));
        }
    }

    /// The response of a step that is a call or a text: its own where it says what an answer of a model says, or where
    /// `before` is none. Somebody wrote it, whether that was recorded or not.
    fn answer(
        &mut self,
        at: usize,
        id: &str,
        when: When,
        before: Option<Entry>,
        scope: Scope<'_, '_>,
    ) -> (Entry, bool) {
        let usage = self.usage(scope);
        let is_stated = usage != Usage::default() || self.spec.step.find(Key::Model, scope).exists();
        if let Some(before) = before.filter(|_| !is_stated) {
            return (before, false);
        }
        let response = self.respond(at, id, when, usage, scope);
        self.streams[at].implied = when.end.filter(|_| !is_stated);
        (response, true)
    }

    fn respond(&mut self, at: usize, id: &str, when: When, usage: Usage, scope: Scope<'_, '_>) -> Entry {
        let spec = self.spec;
        let fields = &spec.step;
        let turn = self.whole_number(Key::Turn, scope).and_then(|turn| u32::try_from(turn).ok());
        let response = Response {
            id: self.recording.text(id),
            time: when.end,
            duration_s: when.duration_s,
            model: self.word_of(&fields.find(Key::Model, scope)),
            usage,
            ok: self.ok(fields, scope),
            decides: false,
            helps: false,
            turn,
            score: self.number(fields, Key::Score, scope),
            reward: self.number(fields, Key::Reward, scope),
            extras: self.extras(scope),
        };
        self.begin(at, id, response)
    }

    #[allow(clippy::large_types_passed_by_value)] // moved into the recording
    fn begin(&mut self, at: usize, id: &str, response: Response) -> Entry {
        let entry = self.recording.response(self.streams[at].agent, response);
        self.responses.insert((at, id.to_owned()), entry);
        (self.streams[at].response, self.streams[at].implied) = (Some((entry, false)), None);
        entry
    }

    fn response(&mut self, id: &str, when: When, scope: Scope<'_, '_>) {
        let spec = self.spec;
        let at = self.actor(scope);
        if let Some(prompt) = spec.step.find(Key::Prompt, scope).content() {
            let from = spec.step.find(Key::From, scope).word();
            let from = from.map_or(Party::User, |from| self.party(&from, false));
            let incoming = Incoming {
                id: self.recording.join(&[id, ":p"]),
                from,
                time: when.start.or(when.end),
                content: Some(hash(&prompt)),
                trusted: (from == Party::User).then_some(true),
                intervenes: false,
                decides: Text::default(),
                extras: Text::default(),
            };
            self.recording.incoming(self.streams[at].agent, incoming);
        }
        let usage = self.usage(scope);
        let entry = self.respond(at, id, when, usage, scope);
        let mut calls = Vec::new();
        if let Some(parts) = &spec.calls {
            for (k, here) in elements(parts, scope).enumerate() {
                // Without a list the step holds a call where it names a tool.
                if parts.each.is_none() && parts.fields.find(Key::Tool, here).word().is_none() {
                    continue;
                }
                let kind = parts.fields.find(Key::Kind, here).word().and_then(|word| StepKind::parse(&word));
                let time = self.time(&parts.fields, Key::Time, here);
                let call_id = format!("{id}:c{k}");
                let kind = kind.unwrap_or(StepKind::Call);
                let call_request = CallRequest { at, response: entry, call_id: &call_id, kind, time };
                let (call, _) = self.call(&call_request, &parts.fields, here);
                calls.push(call);
            }
        }
        let text = spec.step.find(Key::Content, scope).content();
        if let Some(text) = &text {
            let to = spec.step.find(Key::To, scope).word();
            let to =
                to.map(|to| self.party(&to, true)).filter(|to| *to != Party::Agent(self.streams[at].agent));
            self.recording.say(entry, Saying { content: Some(hash(text)), to, ..Saying::default() });
            if let Some(Party::Agent(other)) = to {
                self.hears(other);
            }
            self.streams[at].response = Some((entry, true));
        }
        let results = self.results(id, when, &calls, Text::default(), scope);
        self.streams[at].open = text.is_none() || results < calls.len();
    }

    /// Whether a step has a list of results, and so is not one itself.
    fn lists_results(&self, scope: Scope<'_, '_>) -> bool {
        let each = self.spec.results.as_ref().and_then(|parts| parts.each.as_ref());
        each.is_some_and(
            |each| matches!(each.find(scope.uncounted()), FieldValue::Json(list) if list.kind() == Some(Kind::Array)),
        )
    }

    /// The results that a step lists, or holds itself where there is no list; how many they are.
    fn results(
        &mut self,
        id: &str,
        when: When,
        calls: &[String],
        extras: Text,
        scope: Scope<'_, '_>,
    ) -> usize {
        let Some(parts) = &self.spec.results else { return 0 };
        let mut results = 0;
        for (k, here) in elements(parts, scope).enumerate() {
            let fields = &parts.fields;
            let is_one = parts.each.is_some() || fields.find(Key::Content, here).is_there();
            if !is_one || here.here.is_null() {
                continue;
            }
            results += 1;
            let times = self.when(fields, here);
            let result = CallResult {
                id: self.word_of(&fields.find(Key::Id, here)),
                time: times.end.or(when.end),
                duration_s: times.duration_s,
                extras,
                ..CallResult::default()
            };
            let call = fields.find(Key::Call, here).word().map(Cow::into_owned);
            // Results that do not say what they answer stand in the order of the calls.
            let call = call.or_else(|| calls.get(k).cloned());
            self.answered(fields, here, call.as_deref(), &format!("{id}:r{k}"), result);
        }
        results
    }

    /// Describes a call; its id and its entry.
    fn call(
        &mut self,
        call_request: &CallRequest<'_>,
        fields: &Fields,
        scope: Scope<'_, '_>,
    ) -> (String, Entry) {
        let CallRequest { at, response, call_id, kind, time } = *call_request;
        let tool = fields.find(Key::Tool, scope).word().unwrap_or_default().into_owned();
        let id = fields.find(Key::Call, scope).word().map_or_else(|| call_id.to_owned(), Cow::into_owned);
        let to = fields.find(Key::To, scope).word().map(|to| self.party(&to, true));
        let own_agent = self.streams[at].agent;
        let does = match (kind, to) {
            (StepKind::Spawn, Some(Party::Agent(child))) if child != own_agent => Does::Spawns(child),
            (StepKind::Handoff, Some(Party::Agent(other))) if other != own_agent => Does::HandsOff(other),
            (StepKind::Despawn, Some(Party::Agent(child))) if child != own_agent => Does::Ends(child),
            (StepKind::Message, Some(party)) if party != Party::Agent(own_agent) => Does::Tells(party),
            _ => Does::UsesTool,
        };
        if let Does::Spawns(child) = does
            && let Some(child) = self.of_agent.get(&child)
        {
            self.spawned.insert(id.clone(), *child);
        }
        if let Does::Spawns(other) | Does::HandsOff(other) | Does::Tells(Party::Agent(other)) = does {
            self.hears(other);
        }
        let content = call_content(&tool, fields, scope);
        let call = Call {
            id: self.recording.text(&id),
            tool: self.recording.text(&tool),
            does,
            content: Some(content),
            time,
            ..Call::default()
        };
        let entry = self.recording.call(response, call);
        let number = self.calls.len() as u32;
        self.calls.push((id.clone(), false));
        self.callers.insert(id.clone(), at);
        self.open.entry((at, id.clone())).or_default().push_back(number);
        self.streams[at].asked.push_back(number);
        self.streams[at].of_tool.entry(tool).or_default().push_back(number);
        (id, entry)
    }

    /// A call that is a step of its own; its id. It belongs to the response that the step is or names, or that its
    /// agent gave just before; else somebody asked for it whose answer is not recorded.
    fn lone_call(
        &mut self,
        id: &str,
        has_id: bool,
        kind: StepKind,
        when: When,
        scope: Scope<'_, '_>,
    ) -> String {
        let spec = self.spec;
        let at = self.actor(scope);
        let before = self.belongs_to(at, scope);
        let (response, new) = match (kind, before) {
            // Its duration, and how it went, are those of the tool.
            (StepKind::Tool, Some(before)) => (before, false),
            (StepKind::Tool, None) => {
                let response = Response {
                    id: self.recording.text(id),
                    time: when.start.or(when.end),
                    ..Response::default()
                };
                (self.begin(at, id, response), false)
            }
            _ => self.answer(at, id, when, before, scope),
        };
        // It was asked when its response was complete, unless something was read since.
        let current = self.streams[at].response.map(|(response, _)| response);
        let asked_at = if kind == StepKind::Tool { when.start.or(when.end) } else { when.end };
        let time = asked_at.filter(|_| current != Some(response));
        let call_id = if has_id { id.to_owned() } else { format!("{id}:c") };
        let call_request = CallRequest { at, response, call_id: &call_id, kind, time };
        let (call, entry) = self.call(&call_request, &spec.step, scope);
        if !new {
            let extras = self.extras(scope);
            if let Some(call) = self.recording.call_mut(entry) {
                call.extras = extras;
            }
        }
        self.streams[at].open = true;
        call
    }

    /// What an agent does next is no part of what it said before.
    fn hears(&mut self, agent: Agent) {
        if let Some(at) = self.of_agent.get(&agent) {
            self.streams[*at].response = None;
        }
    }

    fn belongs_to(&self, at: usize, scope: Scope<'_, '_>) -> Option<Entry> {
        match self.spec.step.find(Key::Response, scope).word() {
            Some(named) => self.responses.get(&(at, named.into_owned())).copied(),
            None => self.streams[at].response.map(|(response, _)| response),
        }
    }

    /// A result goes to who asked: by the id of the call, else the oldest call without a result, of its tool where that
    /// is told.
    fn answered(
        &mut self,
        fields: &Fields,
        scope: Scope<'_, '_>,
        call: Option<&str>,
        call_id: &str,
        mut result: CallResult,
    ) {
        let spec = self.spec;
        let tool = fields.find(Key::Tool, scope).word().map(Cow::into_owned);
        // Looked for in one of several results too, which is not the step.
        let named = spec.step.find(Key::Agent, scope.uncounted()).word().map(Cow::into_owned);
        let own_stream = named.as_deref().and_then(|name| self.of_id.get(name).copied());
        let caller = call.and_then(|call| {
            let own_stream =
                own_stream.filter(|own_stream| self.open.contains_key(&(*own_stream, call.to_owned())));
            own_stream.or_else(|| self.callers.get(call).copied())
        });
        let at = match caller.or(own_stream).or(self.last) {
            Some(at) => at,
            None => self.actor(scope),
        };
        let answers = match call {
            Some(call) => {
                let open = self.open.get_mut(&(at, call.to_owned()));
                open.and_then(|open| {
                    std::iter::from_fn(|| open.pop_front()).find(|number| !self.calls[*number as usize].1)
                })
            }
            None => self.oldest(at, tool.as_deref()),
        };
        let paired = answers.map(|number| {
            let (id, answered) = &mut self.calls[number as usize];
            *answered = true;
            id.clone()
        });
        let call = call.map(str::to_owned).or(paired);
        if let Some(call) = &call {
            result.call = self.recording.text(call);
            if let Some(child) = self.spawned.get(call) {
                self.streams[*child].open = false;
            }
        } else if result.id.is_none() {
            result.id = self.recording.text(call_id);
        }
        result.tool = tool.map_or(Text::default(), |tool| self.recording.text(&tool));
        result.content = fields.find(Key::Content, scope).content().map(|text| hash(&text));
        result.ok = self.ok(fields, scope);
        result.trusted = self.flag(fields, Key::Trusted, scope);
        self.recording.result(self.streams[at].agent, result);
        self.streams[at].response = None;
        self.streams[at].open = true;
    }

    /// The oldest call of an agent without a result, of a tool if that is recorded.
    fn oldest(&mut self, at: usize, tool: Option<&str>) -> Option<u32> {
        let stream = &mut self.streams[at];
        let calls = match tool {
            Some(tool) => stream.of_tool.get_mut(tool)?,
            None => &mut stream.asked,
        };
        // What was answered meanwhile is passed once.
        std::iter::from_fn(|| calls.pop_front()).find(|number| !self.calls[*number as usize].1)
    }

    fn heard(
        &mut self,
        at: usize,
        id: &str,
        time: Option<i64>,
        scope: Scope<'_, '_>,
        from: Party,
        intervenes: bool,
    ) {
        let spec = self.spec;
        let trusted = self.flag(&spec.step, Key::Trusted, scope);
        let incoming = Incoming {
            id: self.recording.text(id),
            from,
            time,
            content: spec.step.find(Key::Content, scope).content().map(|text| hash(&text)),
            trusted: trusted.or((from == Party::User).then_some(true)),
            intervenes,
            decides: Text::default(),
            extras: self.extras(scope),
        };
        self.recording.incoming(self.streams[at].agent, incoming);
        self.streams[at].response = None;
        self.streams[at].open = true;
    }

    /// A text that is a step of its own: of the response that the step is or names, or that its agent gave just
    /// before without one.
    fn saying(&mut self, id: &str, kind: StepKind, when: When, scope: Scope<'_, '_>) {
        let spec = self.spec;
        let at = self.actor(scope);
        let to = spec.step.find(Key::To, scope).word().filter(|_| kind == StepKind::Message);
        let to = to.map(|to| self.party(&to, true)).filter(|to| *to != Party::Agent(self.streams[at].agent));
        let content = spec.step.find(Key::Content, scope).content().map(|text| hash(&text));
        let mut saying = Saying { content, to, ..Saying::default() };
        let before = self.streams[at].response.filter(|(_, said)| !said).map(|(response, _)| response);
        let before = before.filter(|before| self.belongs_to(at, scope).is_none_or(|named| named == *before));
        // Of an answer that nobody recorded is only what came at its time.
        let other = self.streams[at].implied.zip(when.end).is_some_and(|(asked, said)| asked != said);
        let before = before.filter(|_| !other);
        let (response, new) = self.answer(at, id, when, before, scope);
        if let Some(Party::Agent(other)) = to {
            self.hears(other);
        }
        if !new {
            saying.id = self.recording.text(id);
            saying.extras = self.extras(scope);
            saying.ok = self.ok(&spec.step, scope);
        }
        self.recording.say(response, saying);
        self.streams[at].response = Some((response, true));
        self.streams[at].open = false;
    }

    fn mark(&mut self, id: &str, kind: StepKind, time: Option<i64>, scope: Scope<'_, '_>) {
        let spec = self.spec;
        let at = self.actor(scope);
        let event_type =
            if kind == StepKind::Safety { EventType::SafetyEvent } else { EventType::OrchestratorDecision };
        let to = spec.step.find(Key::To, scope).word().map(|to| self.party(&to, true));
        let mark = Mark {
            event_type,
            id: self.recording.text(id),
            by: None,
            to: to.and_then(|to| if let Party::Agent(agent) = to { Some(agent) } else { None }),
            time,
            content: spec.step.find(Key::Content, scope).content().map(|text| hash(&text)),
            trusted: self.flag(&spec.step, Key::Trusted, scope),
            ok: self.ok(&spec.step, scope),
            tool: self.word_of(&spec.step.find(Key::Tool, scope)),
            extras: self.extras(scope),
        };
        self.recording.mark(self.streams[at].agent, mark);
    }
}

/// Hash of a call (R9).
fn call_content(tool: &str, fields: &Fields, scope: Scope<'_, '_>) -> Hash {
    const LIMITS: Limits = Limits { depth: 128, string: usize::MAX, lenient: true };
    match fields.find(Key::Arguments, scope) {
        FieldValue::Json(value) if value.kind() != Some(Kind::String) => call_hash(tool, value),
        found => call_hash_of_text(tool, &found.word().unwrap_or_default(), LIMITS),
    }
}
