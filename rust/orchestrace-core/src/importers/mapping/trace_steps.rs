//! Conversion of one trace's steps to a recording: who acts, which response a part belongs to, which result answers
//! which call.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::source::{FieldValue, Scope};
use super::spec::{Field, Fields, Key, Measures, Parts, Spec, StepKind};
use super::{Sort, sort};
use crate::error::FindingCode;
use crate::importers::recording::{Agent, AgentInfo, Entry, Label, Party, Recording, Text, Usage};
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

mod steps;

/// An agent that no file names.
const NAMELESS: &str = "agent";

/// What one agent did so far.
struct Stream {
    agent: Agent,
    /// The response that calls and a text can still belong to, and whether it has a text.
    response: Option<(Entry, bool)>,
    /// When that was, if nobody recorded it: a call shows that there was one.
    implied: Option<i64>,
    /// Its calls in order, those that were answered by their ids among them; and those of each tool.
    asked: VecDeque<u32>,
    of_tool: HashMap<String, VecDeque<u32>>,
    /// Whether it still owes an answer.
    open: bool,
}

/// When a step was, and how long it took.
#[derive(Clone, Copy, Default)]
struct When {
    end: Option<i64>,
    start: Option<i64>,
    duration_s: Option<f64>,
}

pub(super) struct Telling<'a> {
    spec: &'a Spec,
    recording: &'a mut Recording,
    streams: Vec<Stream>,
    of_id: HashMap<String, usize>,
    /// Ids of all who act, and the first of them.
    actors: HashSet<String>,
    first: String,
    /// The agent of the last step.
    last: Option<usize>,
    responses: HashMap<(usize, String), Entry>,
    /// Calls: their ids, and whether they were answered.
    calls: Vec<(String, bool)>,
    /// Calls without a result, by who asked and id; who asked an id last; whom it spawned.
    open: HashMap<(usize, String), VecDeque<u32>>,
    callers: HashMap<String, usize>,
    spawned: HashMap<String, usize>,
    of_agent: HashMap<Agent, usize>,
    labels: HashSet<Vec<Option<String>>>,
    measures: Vec<(MeasureKind, String, f64)>,
    of_name: HashMap<(u8, String), usize>,
    reward_names: HashSet<String>,
    odd_measures: HashSet<String>,
    /// What records disagree about; the task is nothing.
    disputed: HashSet<String>,
    /// Whether the source says that the run is recorded to its end, or that it is not.
    complete: bool,
    cut_short: bool,
    misfits: HashSet<(Key, &'static str)>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(spec: &'a Spec, recording: &'a mut Recording) -> Self {
        Self {
            spec,
            recording,
            streams: Vec::new(),
            of_id: HashMap::new(),
            actors: HashSet::new(),
            first: String::new(),
            last: None,
            responses: HashMap::new(),
            calls: Vec::new(),
            open: HashMap::new(),
            callers: HashMap::new(),
            spawned: HashMap::new(),
            of_agent: HashMap::new(),
            labels: HashSet::new(),
            measures: Vec::new(),
            of_name: HashMap::new(),
            reward_names: HashSet::new(),
            odd_measures: HashSet::new(),
            disputed: HashSet::new(),
            complete: false,
            cut_short: false,
            misfits: HashSet::new(),
        }
    }

    /// Tells the steps in order; each comes with the number of what travels beside it, and its own.
    pub(super) fn describe(&mut self, steps: &[(usize, u32, Scope<'_, '_>)]) {
        for (_, _, scope) in steps {
            // Counted when the step is converted; its kind was when it was cut out of its record.
            let scope = scope.uncounted();
            let Some(actor) = self.spec.step.find(Key::Agent, scope).word() else { continue };
            let sort = sort(self.spec, scope);
            let nobody = matches!(sort, Ok(Sort::Kind(StepKind::Result | StepKind::Trace)));
            if !nobody && !self.is_user(&actor) {
                if self.first.is_empty() {
                    self.first = actor.clone().into_owned();
                }
                self.actors.insert(actor.into_owned());
            }
        }
        if self.first.is_empty() {
            NAMELESS.clone_into(&mut self.first);
        }
        let mut beside_before = None;
        let mut counted = HashSet::new();
        for (n, (beside, item, scope)) in steps.iter().enumerate() {
            self.recording.made_of(*item);
            // What a record has in common for all its steps is written once, and again where steps of another one came
            // between.
            if self.spec.steps.is_none() || beside_before.replace(*beside) != Some(*beside) {
                let again = self.spec.steps.is_some() && !counted.insert(*beside);
                self.trace_facts(if again { scope.uncounted() } else { *scope });
            }
            if let Ok(Sort::Kind(kind)) = sort(self.spec, scope.uncounted()) {
                self.step(n, kind, *scope);
            }
        }
    }

    /// What is known once all steps are converted.
    pub(super) fn end(&mut self, key: &str, partial: bool) {
        let recording = &mut *self.recording;
        recording.trace.trace_id = recording.text(key);
        recording.trace.partial |= partial;
        recording.trace.undated = self.spec.relative;
        if recording.trace.system.is_none() {
            recording.trace.system = recording.text(&self.spec.system);
        }
        let spawned: HashSet<usize> = self.spawned.values().copied().collect();
        for (at, stream) in self.streams.iter().enumerate() {
            let info = recording.agent_info(stream.agent);
            // The last text of a run that went on is no answer of whoever led it.
            let leads = info.parent.is_none() && !spawned.contains(&at);
            info.open = (stream.open || (leads && self.cut_short)) && !self.complete;
        }
        let is_reward = |name: &String| {
            self.measures.iter().any(|(kind, known, _)| *kind == MeasureKind::Reward && known == name)
        };
        let mut unscored: Vec<&String> = self.reward_names.iter().filter(|name| !is_reward(name)).collect();
        if !unscored.is_empty() {
            unscored.sort_unstable();
            let names: Vec<_> = unscored.iter().map(|name| format!("'{name}'")).collect();
            let message = format!("no value of the reward {}", names.join(", "));
            recording.finding(FindingCode::RewardUnscored, None, message);
        }
        let mut rewards = self.measures.iter().filter(|(kind, ..)| *kind == MeasureKind::Reward);
        // The only reward is that of the team; one beside others that are null is not the only one.
        let alone = self.reward_names.len() < 2;
        let only = rewards.next().filter(|_| alone && rewards.next().is_none()).map(|(.., value)| *value);
        if let Some(value) = only.filter(|_| !self.measures.iter().any(|(_, name, _)| name == "team")) {
            recording.measure(MeasureKind::Reward, "team", value);
        }
        for (kind, name, value) in &self.measures {
            recording.measure(*kind, name, *value);
        }
    }

    fn is_user(&self, name: &str) -> bool {
        self.spec.users.iter().any(|user| user == name)
    }

    /// A field of the wrong type is reported once (R10).
    fn note_misfit(&mut self, key: Key, field: &Field, value: &FieldValue<'_>, expected: &'static str) {
        if self.misfits.insert((key, expected)) {
            let message =
                format!("{} at {}: found {}, expected {expected}", key.as_str(), field.shown, value.shown());
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }

    fn value<T>(
        &mut self,
        fields: &Fields,
        key: Key,
        scope: Scope<'_, '_>,
        expected: &'static str,
        read: impl FnOnce(&FieldValue<'_>, &Field) -> Option<T>,
    ) -> Option<T> {
        let field = fields.get(key)?;
        let located = field.find(scope);
        if !located.exists() {
            return None;
        }
        let value = read(&located, field);
        if value.is_none() {
            self.note_misfit(key, field, &located, expected);
        }
        value
    }

    fn number(&mut self, fields: &Fields, key: Key, scope: Scope<'_, '_>) -> Option<f64> {
        let judged = matches!(key, Key::Score | Key::Reward);
        self.value(
            fields,
            key,
            scope,
            "a number",
            |found, _| if judged { found.measure() } else { found.f64() },
        )
    }

    fn whole_number(&mut self, key: Key, scope: Scope<'_, '_>) -> Option<i64> {
        let spec = self.spec;
        self.value(&spec.step, key, scope, "a whole number of at least 0", |located, _| {
            located.i64().filter(|n| *n >= 0)
        })
    }

    fn flag(&mut self, fields: &Fields, key: Key, scope: Scope<'_, '_>) -> Option<bool> {
        self.value(fields, key, scope, "true or false", |found, _| found.bool())
    }

    fn time(&mut self, fields: &Fields, key: Key, scope: Scope<'_, '_>) -> Option<i64> {
        let with_unit = fields.get(key)?.unit.is_some();
        let expected = if with_unit { "a number of units of time" } else { "an RFC 3339 time (or a unit)" };
        self.value(fields, key, scope, expected, |found, field| found.time(field.unit))
    }

    fn when(&mut self, fields: &Fields, scope: Scope<'_, '_>) -> When {
        let (end, start) = (self.time(fields, Key::Time, scope), self.time(fields, Key::Start, scope));
        let stated_duration =
            self.value(fields, Key::Duration, scope, "a duration of at least 0", |located, field| {
                located.seconds(field.unit).filter(|s| s.is_finite() && *s >= 0.0)
            });
        let between = end.zip(start).filter(|(end, start)| end >= start);
        let duration_s =
            stated_duration.or_else(|| between.map(|(end, start)| end.abs_diff(start) as f64 / 1e9));
        let nanos = duration_s.map(|s| (s * 1e9) as i64);
        When {
            end: end.or_else(|| Some(start?.saturating_add(nanos.unwrap_or(0)))),
            start: start.or_else(|| Some(end?.saturating_sub(nanos?))),
            duration_s,
        }
    }

    fn ok(&mut self, fields: &Fields, scope: Scope<'_, '_>) -> Option<bool> {
        if let Some(ok) = self.flag(fields, Key::Ok, scope) {
            return Some(ok);
        }
        let error = fields.find(Key::Error, scope);
        // Where an error is recorded but is none, all went well.
        let list = |value: &Value<'_>| matches!(value.kind(), Some(Kind::Array | Kind::Object));
        let empty = matches!(&error, FieldValue::Json(value) if list(value) && value.is_empty());
        let none = empty || error.content().is_none() || error.bool() == Some(false);
        error.is_there().then_some(none)
    }

    fn word_of(&mut self, value: &FieldValue<'_>) -> Text {
        value.word().map_or(Text::default(), |word| self.recording.text(&word))
    }

    fn extras(&mut self, scope: Scope<'_, '_>) -> Text {
        let mut extras = Text::default();
        let spec = self.spec;
        for (name, field) in &spec.extras {
            let located = field.find(scope);
            extras = match &located {
                FieldValue::Json(value) => match value.kind() {
                    Some(Kind::Number) if value.f64().is_some() => {
                        self.recording.extra(extras, name, value.raw())
                    }
                    Some(Kind::Bool) => self.recording.extra(extras, name, value.raw()),
                    Some(Kind::String) => {
                        self.recording.extra_text(extras, name, value.str().unwrap_or_default())
                    }
                    // Lists and objects are no field of an event.
                    _ => extras,
                },
                FieldValue::Number(number) if number.is_finite() => {
                    self.recording.extra(extras, name, &number.to_string())
                }
                FieldValue::Flag(flag) => self.recording.extra(extras, name, &flag.to_string()),
                FieldValue::Text(text) => self.recording.extra_text(extras, name, text),
                FieldValue::Number(_) | FieldValue::Nothing => extras,
            };
        }
        extras
    }

    /// The stream of the agent that an id names.
    fn stream(&mut self, id: &str) -> usize {
        if let Some(known) = self.of_id.get(id) {
            return *known;
        }
        let info = AgentInfo { name: self.recording.text(id), ..AgentInfo::default() };
        let agent = self.recording.agent(info);
        self.streams.push(Stream {
            agent,
            response: None,
            implied: None,
            asked: VecDeque::new(),
            of_tool: HashMap::new(),
            open: false,
        });
        self.of_agent.insert(agent, self.streams.len() - 1);
        self.of_id.insert(id.to_owned(), self.streams.len() - 1);
        self.streams.len() - 1
    }

    /// The stream of the agent of a step, and what the step says of it.
    fn actor(&mut self, scope: Scope<'_, '_>) -> usize {
        let spec = self.spec;
        let id = spec.step.find(Key::Agent, scope).word().filter(|id| !self.is_user(id));
        let id = id.map_or_else(|| self.first.clone(), Cow::into_owned);
        let at = self.stream(&id);
        let agent = self.streams[at].agent;
        if let Some(name) = spec.step.find(Key::AgentName, scope).word()
            && self.recording.agent_info(agent).source_id.is_none()
        {
            let (name, id) = (self.recording.text(&name), self.recording.text(&id));
            let info = self.recording.agent_info(agent);
            (info.name, info.source_id) = (name, id);
        }
        if self.recording.agent_info(agent).role.is_none() {
            self.recording.agent_info(agent).role = self.word_of(&spec.step.find(Key::Role, scope));
        }
        if self.recording.agent_info(agent).trainable.is_none() {
            self.recording.agent_info(agent).trainable = spec.step.find(Key::Trainable, scope).bool();
        }
        let parent = spec.step.find(Key::Parent, scope).word();
        if let Some(parent) = parent.filter(|parent| **parent != *id && !self.is_user(parent))
            && self.recording.agent_info(agent).parent.is_none()
        {
            let parent = self.stream(&parent);
            self.recording.agent_info(agent).parent = Some(self.streams[parent].agent);
        }
        self.last = Some(at);
        at
    }

    /// Whom a name means.
    fn party(&mut self, name: &str, is_agent: bool) -> Party {
        if self.is_user(name) {
            Party::User
        } else if is_agent || self.actors.contains(name) || self.of_id.contains_key(name) {
            let at = self.stream(name);
            Party::Agent(self.streams[at].agent)
        } else {
            Party::Named(self.recording.text(name))
        }
    }

    fn trace_facts(&mut self, scope: Scope<'_, '_>) {
        let spec = self.spec;
        let word = |key| spec.trace.find(key, scope);
        let (task, group, system) = (word(Key::Task), word(Key::Group), word(Key::System));
        let earlier_task = self.recording.read(self.recording.trace.task_id).to_owned();
        if earlier_task.is_empty() {
            self.recording.trace.task_id = self.word_of(&task);
        } else if let Some(task) = task.word().filter(|task| **task != *earlier_task) {
            self.disputes("", || {
                format!(
                    "a record names the task '{task}', but an earlier one '{earlier_task}', which is used"
                )
            });
        }
        let earlier_group = self.recording.read(self.recording.trace.group_id).to_owned();
        if let Some(group) = group.word() {
            if earlier_group.is_empty() {
                self.recording.trace.group_id = self.recording.text(&group);
            } else if *earlier_group != *group && self.misfits.insert((Key::Group, "")) {
                let message =
                    format!("a record names the group '{group}', but an earlier one names '{earlier_group}'");
                self.recording.finding(FindingCode::GroupConflict, None, message);
            }
        }
        if self.recording.trace.system.is_none() {
            self.recording.trace.system = self.word_of(&system);
        }
        if let Some(started) = self.time(&spec.trace, Key::Started, scope) {
            let start_before = self.recording.trace.started_at.unwrap_or(started);
            self.recording.trace.started_at = Some(start_before.min(started));
        }
        if let Some(partial) = self.flag(&spec.trace, Key::Partial, scope) {
            self.recording.trace.partial = partial;
            (self.complete, self.cut_short) = (!partial, partial);
        }
        if let Some(reward) = self.number(&spec.trace, Key::Reward, scope) {
            self.measure(MeasureKind::Reward, "team", reward);
        }
        for (kind, measures) in [
            (MeasureKind::Reward, &spec.rewards),
            (MeasureKind::Cost, &spec.costs),
            (MeasureKind::Metric, &spec.metrics),
        ] {
            self.measures(kind, measures, scope);
        }
        if let Some(labels) = &spec.trace_labels {
            self.label_all(labels, scope, None);
        }
    }

    /// The last value that is recorded counts: it is what the run came to.
    fn measure(&mut self, kind: MeasureKind, name: &str, value: f64) {
        let at = *self.of_name.entry((kind as u8, name.to_owned())).or_insert(self.measures.len());
        match self.measures.get_mut(at) {
            Some(known) => {
                let before = std::mem::replace(&mut known.2, value);
                // Costs and metrics grow from record to record.
                if kind == MeasureKind::Reward && before != value {
                    self.disputes(name, || {
                        format!("a record gives the reward '{name}' as {value}, but an earlier one as {before}; the last is used")
                    });
                }
            }
            None => self.measures.push((kind, name.to_owned(), value)),
        }
    }

    /// Says once that records disagree.
    fn disputes(&mut self, subject: &str, message: impl FnOnce() -> String) {
        if self.disputed.insert(subject.to_owned()) {
            self.recording.finding(FindingCode::TraceConflict, None, message());
        }
    }

    /// Notes a reward that the record has a place for, whether it has a value or not.
    fn names(&mut self, kind: MeasureKind, name: &str) {
        if kind == MeasureKind::Reward && !self.reward_names.contains(name) {
            self.reward_names.insert(name.to_owned());
        }
    }

    fn measures(&mut self, kind: MeasureKind, measures: &Measures, scope: Scope<'_, '_>) {
        for (name, field) in &measures.named {
            let located = field.find(scope);
            self.names(kind, name);
            match located.measure() {
                Some(value) => self.measure(kind, name, value),
                None if located.exists() && self.odd_measures.insert(name.clone()) => {
                    let (kind, at, shown) = (kind.as_str(), &field.shown, located.shown());
                    let message = format!("{kind} '{name}' at {at}: found {shown}, expected a number");
                    self.recording.finding(FindingCode::FieldIgnored, None, message);
                }
                None => {}
            }
        }
        let Some((field, except)) = &measures.rest else { return };
        let FieldValue::Json(object) = field.find(scope) else { return };
        for (name, member) in object.members() {
            if name.is_empty() || except.iter().any(|e| e == name) {
                continue;
            }
            let value = member.f64().or_else(|| member.bool().map(f64::from));
            // a number that is none: NaN, or an infinity
            let is_unusual = value.is_none() && member.kind() == Some(Kind::Number);
            if value.is_some() || member.is_null() || is_unusual {
                self.names(kind, name);
            }
            if let Some(value) = value {
                self.measure(kind, name, value);
            } else if is_unusual && self.odd_measures.insert(name.to_owned()) {
                let kind = kind.as_str();
                let message = format!("{kind} '{name}' is {}, expected a finite number", member.raw());
                self.recording.finding(FindingCode::ValueImpossible, None, message);
            }
        }
    }

    fn label_all(&mut self, labels: &Parts, scope: Scope<'_, '_>, entry: Option<&str>) {
        for here in elements(labels, scope) {
            let fields = &labels.fields;
            let word = |key| fields.find(key, here).word().map(Cow::into_owned);
            let Some(label) = word(Key::Label) else { continue };
            let event = word(Key::Event).or_else(|| entry.map(str::to_owned));
            let texts_of_label = vec![
                word(Key::Annotator),
                Some(label),
                event,
                word(Key::Turn),
                word(Key::Agent),
                word(Key::Weight),
            ];
            let turn = self.value(fields, Key::Turn, here, "a turn", |found, _| {
                found.i64().and_then(|turn| u32::try_from(turn).ok())
            });
            let weight = self.number(fields, Key::Weight, here);
            if self.labels.contains(&texts_of_label) {
                continue;
            }
            let mut text = |at: usize| {
                texts_of_label[at].as_deref().map_or(Text::default(), |text| self.recording.text(text))
            };
            let annotator = text(0);
            let label = Label { label: text(1), entry: text(2), agent: text(4), annotator, turn, weight };
            let annotator = if annotator.is_none() { self.recording.text("annotator") } else { annotator };
            self.recording.label(Label { annotator, ..label });
            self.labels.insert(texts_of_label);
        }
    }

    fn usage(&mut self, scope: Scope<'_, '_>) -> Usage {
        let spec = self.spec;
        Usage {
            tokens_in: self.whole_number(Key::TokensIn, scope),
            fresh: self.whole_number(Key::Fresh, scope),
            tokens_out: self.whole_number(Key::TokensOut, scope),
            tokens: self.whole_number(Key::Tokens, scope),
            cached: self.whole_number(Key::Cached, scope),
            cache_write: self.whole_number(Key::CacheWrite, scope),
            cache_write_1h: self.whole_number(Key::CacheWrite1h, scope),
            reasoning: self.whole_number(Key::Reasoning, scope),
            cost_usd: self.value(&spec.step, Key::Cost, scope, "a number of at least 0", |found, _| {
                found.f64().filter(|cost| *cost >= 0.0)
            }),
            ..Usage::default()
        }
    }
}

/// Where each of the parts is recorded: the elements of their list, or what holds them.
fn elements<'s, 't>(parts: &'s Parts, scope: Scope<'s, 't>) -> impl Iterator<Item = Scope<'s, 't>> {
    let list = parts.each.as_ref().map(|each| match each.find(scope) {
        FieldValue::Json(list) => list.elements().collect(),
        _ => Vec::new(),
    });
    list.unwrap_or_else(|| vec![scope.here]).into_iter().map(move |here| scope.at(here))
}
