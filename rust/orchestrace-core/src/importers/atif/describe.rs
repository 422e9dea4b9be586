//! Conversion of steps to a recording: one stream per agent; a continuation document joins the same stream.

use std::collections::{HashMap, HashSet};

use super::document::{Document, documents_of, time_of};
use super::{agentpile, references_of, run_of, text_of};
use crate::importers::columns;
use crate::importers::items::TraceItems;
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Does, Entry, Incoming, Party, Recording, Response, Saying, Text,
    Usage, call_hash, hash,
};
use crate::importers::usage;
use crate::json::tree::Value;
use crate::schema::{AgentKind, MeasureKind};

/// Name of an agent that has none.
const AGENT: &str = "agent";

/// Describes the documents of a trace.
pub(super) fn describe(items: &TraceItems<'_>, recording: &mut Recording) {
    let documents = documents_of(items);
    let mut telling = Telling {
        documents: &documents,
        items,
        recording,
        agents: Vec::new(),
        actors: HashMap::new(),
        absent: HashMap::new(),
        extras: Text::default(),
    };
    telling.make_agents();
    telling.embed();
    let children = telling.children();
    let root = (0..documents.len()).find(|i| !children.contains(i)).unwrap_or(0);
    telling.name_trace(root);
    let counted: Vec<_> =
        (0..documents.len()).map(|index| telling.document(index, children.contains(&index))).collect();
    let all = counted.iter().fold((0_i64, 0_i64), |sum, stream| {
        (sum.0.saturating_add(stream.sum.0), sum.1.saturating_add(stream.sum.1))
    });
    for (index, stream) in counted.iter().enumerate() {
        let claimed = documents[index].tree.root().path(&["final_metrics", "total_steps"]).i64();
        // A step that was rejected is told already.
        if let Some(claimed) = claimed.filter(|_| !items.is_partial()) {
            let held = documents[index].steps.len();
            telling.recording.claims("final_metrics.total_steps", (claimed, held), "steps");
        }
        telling.totals(
            documents[index].tree.root().get("final_metrics"),
            stream,
            (root == index).then_some(all),
        );
    }
}

/// The documents during their conversion.
struct Telling<'t, 'a, 'i> {
    documents: &'t [Document<'a>],
    items: &'t TraceItems<'i>,
    recording: &'t mut Recording,
    /// The agent of each document.
    agents: Vec<Agent>,
    /// The agents of documents whose steps say who speaks, by the document and the name.
    actors: HashMap<(usize, &'t str), Agent>,
    /// Agents that are referred to and have no document, by their id.
    absent: HashMap<String, Agent>,
    /// Columns of the row, for the first event.
    extras: Text,
}

impl<'t> Telling<'t, '_, '_> {
    /// One agent for each run, however many documents it has.
    fn make_agents(&mut self) {
        let mut of_run: HashMap<(&str, &str), Agent> = HashMap::new();
        for (at, document) in self.documents.iter().enumerate() {
            let actors = agentpile::actors(document);
            let is_team = actors.len() > 1;
            for name in actors.iter().filter(|_| is_team) {
                let outside = (*name == agentpile::USER).then_some(AgentKind::User);
                // The name of the user is taken.
                let shown = if outside.is_some() { "user_simulator" } else { *name };
                let info = AgentInfo { name: self.recording.text(shown), outside, ..AgentInfo::default() };
                let agent = self.recording.agent(info);
                self.actors.insert((at, *name), agent);
            }
            if let Some(first) = actors.first().filter(|_| is_team) {
                self.agents.push(self.actors[&(at, *first)]);
                continue;
            }
            let (run, part) = document.run();
            let name = document.get("name").or(actors.first().copied()).unwrap_or(AGENT);
            let existing = of_run.get(&(run, name)).filter(|_| part > 0).copied();
            let agent = existing.unwrap_or_else(|| {
                let info = AgentInfo {
                    name: self.recording.text(name),
                    source_id: self.recording.text(run),
                    ..AgentInfo::default()
                };
                self.recording.agent(info)
            });
            of_run.entry((run, name)).or_insert(agent);
            self.agents.push(agent);
        }
    }

    /// Who lies in the document of another works for it, whether a call refers to it or not.
    fn embed(&mut self) {
        let held: Vec<(usize, usize)> = self.holders().collect();
        for (d, holder) in held {
            let (agent, parent) = (self.agents[d], self.agents[holder]);
            if agent != parent {
                self.recording.agent_info(agent).parent = Some(parent);
            }
        }
    }

    /// Documents that others refer to, or hold.
    fn children(&self) -> HashSet<usize> {
        let steps = self
            .documents
            .iter()
            .enumerate()
            .flat_map(|(d, document)| document.steps.iter().map(move |(_, step)| (d, step.root())));
        let mut children: HashSet<usize> = self.holders().map(|(d, _)| d).collect();
        for (d, step) in steps {
            for reference in super::references(step) {
                children.extend(self.find(reference).filter(|child| *child != d));
            }
        }
        children
    }

    /// Documents that lie in others, and the ones that hold them.
    fn holders(&self) -> impl Iterator<Item = (usize, usize)> {
        self.documents.iter().enumerate().filter_map(|(d, document)| {
            let (around, _) = document.get("within")?.rsplit_once('/')?;
            let holds = |candidate: &Document<'_>| {
                candidate.get("file") == document.get("file")
                    && candidate.get("within").unwrap_or_default() == around
            };
            Some((d, self.documents.iter().position(holds)?))
        })
    }

    fn find(&self, reference: Value<'_>) -> Option<usize> {
        self.documents.iter().position(|document| document.is_meant(reference))
    }

    fn name_trace(&mut self, root: usize) {
        let document = &self.documents[root];
        let id = document.get("session_id").or_else(|| document.get("trajectory_id"));
        let id = id.map_or_else(
            || {
                let file = document.get("file").unwrap_or_default();
                file.split('.').next().unwrap_or(file)
            },
            |id| run_of(id).0,
        );
        self.recording.trace.trace_id = self.recording.text(id);
        self.recording.trace.system = self.recording.text(document.get("name").unwrap_or("atif"));
        self.recording.trace.partial = self.items.is_partial();
        let added = document.tree.root().get(agentpile::KEY);
        if added.exists() {
            let (run, part) = document.run();
            agentpile::describe(document, added, |number| step_id(run, part, number), self.recording);
        }
        let row = document.tree.root().get("row");
        if row.exists() {
            self.name_by(row, root);
        }
    }

    /// A document that is a column of a row is called as the row is.
    fn name_by(&mut self, row: Value<'_>, root: usize) {
        let document = &self.documents[root];
        let name = document.get("row_name").unwrap_or_default();
        // The row has no id where its name is its place.
        let ids = ["session_id", "trajectory_id"].map(|key| document.get(key));
        if columns::id(row).is_some() || ids == [None, None] {
            self.recording.trace.trace_id = self.recording.text(name);
        }
        columns::name_group(row, None, self.recording);
        columns::outcome(row, self.recording);
        self.extras = columns::others(row, &[], self.recording);
    }

    fn document(&mut self, index: usize, child: bool) -> Stream<'t> {
        let documents = self.documents;
        let document = &documents[index];
        let agent = self.agents[index];
        let mut stream = Stream {
            agent,
            id: document.run().0.to_owned(),
            part: document.run().1,
            model: document.get("model_name").unwrap_or_default(),
            prompted: !child,
            to: None,
            open: true,
            last: None,
            sum: (0, 0),
            priced: false,
        };
        // Who speaks in each step, and from there on who speaks next.
        let speakers: Vec<Option<Agent>> = document
            .steps
            .iter()
            .map(|(_, step)| self.actors.get(&(index, agentpile::actor_of(step.root())?)).copied())
            .collect();
        let mut following = vec![None; speakers.len()];
        for at in (1..speakers.len()).rev() {
            following[at - 1] = speakers[at].or(following[at]);
        }
        for (at, (item, step)) in document.steps.iter().enumerate() {
            let speaks = speakers[at].or(following[at]);
            stream.to = following[at].filter(|next| speakers[at].is_some_and(|now| now != *next));
            stream.agent = speaks.unwrap_or(stream.agent);
            let next = document.steps.get(at + 1).and_then(|(_, step)| time_of(step.root()));
            self.recording.made_of(*item as u32);
            self.step(&mut stream, *item, at, step.root(), next);
        }
        // Where a later document of the same run goes on, it is that one that says how it ended.
        let goes_on = document.get("continued_trajectory_ref").is_some();
        self.recording.agent_info(stream.agent).open = stream.open || goes_on;
        Stream { agent, ..stream }
    }

    fn step(&mut self, stream: &mut Stream<'_>, item: usize, at: usize, step: Value<'_>, next: Option<i64>) {
        if step.get("is_copied_context").bool() == Some(true) {
            return self.items.ignored(item, "atif.copied_context");
        }
        let time = time_of(step);
        let id = match step.get("step_id").raw() {
            "" => format!("{}:x{at}", stream.id),
            number => step_id(&stream.id, stream.part, number),
        };
        let results = step.path(&["observation", "results"]);
        let compacts = ["context_management", "extra"].map(|key| step.get(key));
        let compacts = compacts[0].exists() || compacts[1].get("context_management").exists();
        match step.get("source").str() {
            Some("user") => {
                stream.open = true;
                let text = text_of(step.get("message"));
                if !std::mem::replace(&mut stream.prompted, true) {
                    // The request of its parent is recorded there.
                    return self.items.duplicate(item);
                }
                let id = self.recording.text(&id);
                let content = Some(hash(&text));
                let (trusted, extras) = (Some(true), std::mem::take(&mut self.extras));
                let prompt = Incoming {
                    id,
                    from: Party::User,
                    time,
                    content,
                    trusted,
                    intervenes: false,
                    decides: Text::default(),
                    extras,
                };
                self.recording.incoming(stream.agent, prompt);
            }
            Some("agent") => self.answer(stream, &id, time, step, next),
            _ if compacts => drop(self.recording.compaction(stream.agent)),
            Some("system") if results.is_empty() => self.items.ignored(item, "atif.system"),
            Some("system") => self.results(stream, &id, next.or(time), step, &[]),
            // Redacted: fields that only answers have identify them.
            _ if step.first(&["metrics", "llm_call_count", "tool_calls", "model_name"]).exists() => {
                self.answer(stream, &id, time, step, next);
            }
            _ => self.items.ignored(item, "atif.step"),
        }
    }

    fn answer(
        &mut self,
        stream: &mut Stream<'_>,
        id: &str,
        time: Option<i64>,
        step: Value<'_>,
        next: Option<i64>,
    ) {
        let model = step.get("model_name").some_str().unwrap_or(stream.model);
        let metrics = step.get("metrics");
        let mut extras = std::mem::take(&mut self.extras);
        if let Some(n) = step.get("llm_call_count").i64().filter(|n| *n != 1) {
            extras = self.recording.extra(extras, "x_llm_call_count", &n.to_string());
        }
        let usage = usage_of(metrics);
        stream.sum.0 = stream.sum.0.saturating_add(usage.tokens_in.unwrap_or(0));
        stream.sum.1 = stream.sum.1.saturating_add(usage.tokens_out.unwrap_or(0));
        stream.priced |= usage.cost_usd.is_some();
        let response = Response {
            id: self.recording.text(id),
            time,
            model: self.recording.text(model),
            usage,
            extras,
            ..Response::default()
        };
        let response = self.recording.response(stream.agent, response);
        stream.last = Some(response);
        let ids = self.calls(response, stream, id, step);
        let text = text_of(step.get("message"));
        if !text.is_empty() {
            let to = stream.to.map(Party::Agent);
            self.recording.say(response, Saying { content: Some(hash(&text)), to, ..Saying::default() });
        }
        let answered = step.path(&["observation", "results"]).elements().next().is_some();
        // What ends in calls has no last word.
        stream.open = text.is_empty() || (!ids.is_empty() && !answered);
        self.results(stream, id, next.or(time), step, &ids);
    }

    /// The calls of a step, and their ids: their own if these are distinct.
    fn calls(&mut self, response: Entry, stream: &Stream<'_>, step_id: &str, step: Value<'_>) -> Vec<String> {
        let calls: Vec<Value<'_>> = step.get("tool_calls").elements().collect();
        let mut ids: Vec<String> =
            calls.iter().map(|call| call.get("tool_call_id").str().unwrap_or_default().to_owned()).collect();
        let distinct: HashSet<&String> = ids.iter().filter(|id| !id.is_empty()).collect();
        if distinct.len() < ids.len() {
            ids = (0..ids.len()).map(|k| format!("{step_id}:c{k}")).collect();
        }
        for (k, call) in calls.iter().enumerate() {
            let name = call.get("function_name").str().unwrap_or("function");
            let content = Some(call_hash(name, call.get("arguments")));
            let child = spawned_by(step, *call, k, calls.len());
            let does = match child.map(|reference| self.child(reference)) {
                Some(child) if child != stream.agent => Does::Spawns(child),
                _ => Does::UsesTool,
            };
            let call = Call {
                id: self.recording.text(&ids[k]),
                tool: self.recording.text(name),
                does,
                content,
                ..Call::default()
            };
            self.recording.call(response, call);
        }
        ids
    }

    /// The agent that a reference means.
    fn child(&mut self, reference: Value<'_>) -> Agent {
        if let Some(at) = self.find(reference) {
            return self.agents[at];
        }
        let id = ["trajectory_id", "session_id", "trajectory_path"].map(|key| reference.get(key).some_str());
        let id = id.into_iter().flatten().next().unwrap_or_default();
        let recording = &mut *self.recording;
        recording.trace.partial = true;
        *self.absent.entry(id.to_owned()).or_insert_with(|| {
            let source_id = recording.text(id);
            recording.agent(AgentInfo { source_id, ..AgentInfo::default() })
        })
    }

    fn results(
        &mut self,
        stream: &Stream<'_>,
        step_id: &str,
        time: Option<i64>,
        step: Value<'_>,
        ids: &[String],
    ) {
        let results: Vec<Value<'_>> = step.path(&["observation", "results"]).elements().collect();
        // Those that are used: only an agent calls.
        let calls: Vec<&str> = step
            .get("tool_calls")
            .elements()
            .take(ids.len())
            .map(|c| c.get("tool_call_id").str().unwrap_or_default())
            .collect();
        for (k, result) in results.iter().enumerate() {
            let named = result.get("source_call_id").some_str();
            let call = match named.map(|id| calls.iter().filter(|call| **call == id).count()) {
                // Calls with equal ids have their results in the same order.
                Some(n) if n > 1 && results.len() == calls.len() => ids.get(k).map(String::as_str),
                Some(1) => calls.iter().position(|call| Some(*call) == named).map(|at| &*ids[at]),
                _ => named,
            };
            let references: Vec<Value<'_>> = references_of(result.get("subagent_trajectory_ref")).collect();
            let spawned = named.is_some_and(|id| calls.contains(&id));
            for (r, reference) in references.iter().enumerate().skip(usize::from(spawned)) {
                self.child_of_step(stream, &format!("{step_id}:{k}.{r}"), *reference, time);
            }
            let content = result.get("content");
            let content = if agentpile::is_stand_in(step, k) { content.absent() } else { content };
            let id = if call.is_none() {
                self.recording.join(&[step_id, ":r", &k.to_string()])
            } else {
                Text::default()
            };
            if call.is_none() && !references.is_empty() && !content.exists() {
                continue;
            }
            let error_flag =
                result.get("is_error").bool().or_else(|| result.get("extra").get("is_error").bool());
            let answer = CallResult {
                call: call.map_or(Text::default(), |call| self.recording.text(call)),
                id,
                time,
                content: content.exists().then(|| hash(&text_of(content))),
                ok: error_flag.map(|error| !error),
                trusted: Some(!references.is_empty()),
                ..CallResult::default()
            };
            self.recording.result(stream.agent, answer);
        }
    }

    /// A child that no call of the step asked for.
    fn child_of_step(&mut self, stream: &Stream<'_>, id: &str, reference: Value<'_>, time: Option<i64>) {
        let child = self.child(reference);
        if child == stream.agent {
            return;
        }
        let call = Call { id: self.recording.text(id), does: Does::Spawns(child), ..Call::default() };
        self.recording.lone_call(stream.agent, call);
        let result =
            CallResult { call: self.recording.text(id), time, trusted: Some(true), ..CallResult::default() };
        self.recording.result(stream.agent, result);
    }

    /// Totals of a document, kept beside the sum of its steps where they differ and used where steps have none. Those
    /// of the root may be of `all` documents.
    fn totals(&mut self, totals: Value<'_>, stream: &Stream<'_>, all: Option<(i64, i64)>) {
        let root = all.is_some();
        let of = |key: &str| totals.get(key).i64();
        let stated = of("total_prompt_tokens").zip(of("total_completion_tokens"));
        let cost = totals.get("total_cost_usd").f64();
        if root && let Some(cost) = cost.filter(|_| !stream.priced) {
            self.recording.measure(MeasureKind::Cost, "cost_usd", cost);
        }
        let Some((read, written)) = stated.filter(|stated| *stated != stream.sum && Some(*stated) != all)
        else {
            return;
        };
        let total = read.saturating_add(written);
        if stream.sum == (0, 0) {
            if root {
                self.recording.measure(MeasureKind::Cost, "tokens", total as f64);
            }
            return;
        }
        let sum = stream.sum.0.saturating_add(stream.sum.1);
        let words = ("the document's total is", "its steps");
        self.recording.other_total(stream.last, Some(stream.agent), total, sum, words);
        if let Some(entry) = stream.last {
            let extras =
                self.recording.response_mut(entry).map(|response| response.extras).unwrap_or_default();
            let extras = self.recording.extra(extras, "x_reported_tokens", &total.to_string());
            if let Some(response) = self.recording.response_mut(entry) {
                response.extras = extras;
            }
        }
    }
}

/// The id of a step of a document by its number.
fn step_id(run: &str, part: u32, number: &str) -> String {
    let number = number.trim_matches('"');
    if part == 0 { format!("{run}:{number}") } else { format!("{run}:{part}.{number}") }
}

/// The child that a call asked for: the first that its result refers to.
fn spawned_by<'v>(step: Value<'v>, call: Value<'v>, k: usize, calls: usize) -> Option<Value<'v>> {
    let results = step.path(&["observation", "results"]);
    let id = call.get("tool_call_id").some_str();
    let mut of_call =
        results.elements().filter(|result| id.is_some() && result.get("source_call_id").str() == id);
    let first = of_call.next()?;
    let result = match of_call.next() {
        // Ids that are not distinct: by place.
        Some(_) if results.len() == calls => results.at(k),
        _ => first,
    };
    references_of(result.get("subagent_trajectory_ref")).next()
}

fn usage_of(metrics: Value<'_>) -> Usage {
    let (own, extra) = (usage::of(metrics).0, usage::of(metrics.get("extra")).0);
    Usage {
        cached: own.cached.or(extra.cached),
        cache_write: own.cache_write.or(extra.cache_write),
        cache_write_1h: own.cache_write_1h.or(extra.cache_write_1h),
        reasoning: own.reasoning.or(extra.reasoning),
        cost_usd: metrics.get("cost_usd").f64(),
        ..own
    }
}

/// A run during the conversion of its document.
struct Stream<'d> {
    agent: Agent,
    id: String,
    part: u32,
    model: &'d str,
    /// Whether what it was asked has been seen.
    prompted: bool,
    /// Who speaks next, where that is another one.
    to: Option<Agent>,
    open: bool,
    last: Option<Entry>,
    sum: (i64, i64),
    priced: bool,
}
