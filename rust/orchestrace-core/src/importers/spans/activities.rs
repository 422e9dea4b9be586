//! Activities of all agents in sequence.

use hashbrown::{HashMap, HashSet};

use super::forest::Forest;
use super::matching::Matching;
use super::owners::{Generations, Owners};
use super::reported::{Reports, merge};
use super::tool_agents;
use super::{AgentWork, Described, NONE, Span, Spans, Text, ToolUse, Unused, Usage, Work};
use crate::error::FindingCode;
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Does, Entry, Incoming, Mark, Party, Response, Saying,
};
use crate::schema::{EdgeType, EventType, MeasureKind};

mod closed_late;
mod sequence;

/// One thing that somebody did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// A model answered, with what it asked for.
    Responds,
    /// A tool or an agent is asked for, by what a response made its program do, or by the program itself.
    Asks,
    /// A tool gave something back.
    Results,
    /// An agent's answer reaches who asked for it.
    Receives,
    /// An agent is done; so is what it was asked for, unless it is visited again.
    Ends,
    /// A guardrail looked at something.
    Guards,
    /// An agent was made.
    Creates,
    /// A human decided about the use of a tool.
    Decides,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    /// When, in the order of time: nothing comes before what it follows from, whatever its clock says.
    key: (i64, u32, u8),
    player: u32,
    span: u32,
    act: Act,
    /// Whether an earlier act says it already.
    is_repeated: bool,
}

struct Describing<'s> {
    all: &'s mut Spans,
    forest: Forest,
    generations: Generations,
    owners: Owners,
    matching: Matching,
    reports: Reports,
    described: Vec<Described>,
    /// Calls that a response asked for without declaring them, by response.
    undeclared: Vec<(u32, u32)>,
    /// Spans that a response declares as its calls.
    declared_spans: Vec<bool>,
    call_ids: HashSet<String>,
    /// To whom the text of a response goes, where it ends a visit that is not the last.
    says_to: Vec<(u32, u32)>,
    /// Agent spans whose answer is that of a response.
    ends_with: Vec<(u32, u32)>,
    /// Responses that failed in what they made their program do.
    failed_by: Vec<(u32, u32)>,
    /// When agents answered whose spans were closed later.
    answered: HashMap<u32, i64>,
}

fn duration(span: &Span) -> Option<f64> {
    let nanos = span.end?.checked_sub(span.start?)?;
    (nanos >= 0).then_some(nanos as f64 / 1e9)
}

fn began(span: &Span) -> Option<i64> {
    span.start.or(span.end)
}

fn ended(span: &Span) -> Option<i64> {
    span.end.or(span.start)
}

/// Describes a trace: see [`Spans::describe`].
pub(super) fn describe(
    all: &mut Spans,
    same: &dyn Fn(u32, u32) -> bool,
    note_unused: &mut dyn FnMut(u32, Unused),
) {
    let mut forest = Forest::of(all, same, note_unused);
    tell_missing(all, forest.order.len());
    if tool_agents::insert(all, &forest) {
        // What repeats another record was found before.
        forest = Forest::of(all, same, &mut |_, _| {});
    }
    let generations = Generations::of(all, &forest);
    let mut owners = Owners::of(all, &forest, &generations);
    let matching = Matching::of(all, &forest, &generations, &mut owners);
    let undeclared = {
        let mut list = matching.undeclared.clone();
        list.sort_by_key(|(leaf, i)| (*leaf, began(&all.spans[*i as usize]), forest.tour[*i as usize]));
        list
    };
    let reports = Reports::of(all, &forest, &generations, &owners, &matching);
    let n = all.spans.len();
    let mut declared_spans = vec![false; n];
    matching.span_of.iter().filter(|i| **i != NONE).for_each(|i| declared_spans[*i as usize] = true);
    all.entries = vec![Text::default(); n];
    let mut describing = Describing {
        all,
        forest,
        generations,
        owners,
        matching,
        reports,
        described: vec![Described::default(); n],
        undeclared,
        declared_spans,
        call_ids: HashSet::new(),
        says_to: Vec::new(),
        ends_with: Vec::new(),
        failed_by: Vec::new(),
        answered: HashMap::new(),
    };
    let root = describing.root();
    describing.open();
    describing.agents();
    let mut rows = describing.rows();
    describing.answer_in_time(&mut rows);
    rows.sort_by_key(|row| row.key);
    describing.fail();
    describing.close(&mut rows);
    for row in &rows {
        describing.row(row);
    }
    describing.answers_of_agents();
    describing.end_of_root(root, &rows);
    describing.clock();
    describing.usage_of_whole();
    describing.edges();
    describing.evaluations();
    describing.findings();
    describing.note_all_unused(note_unused);
}

/// Compares the number of spans that the source states with those that are there.
fn tell_missing(all: &mut Spans, present: usize) {
    let Some(stated) = all.stated_spans else { return };
    all.recording.claims("the stated number of spans", (stated, present), "spans");
    all.recording.trace.partial |= i64::try_from(present).is_ok_and(|n| n < stated);
}

impl Describing<'_> {
    fn span(&self, i: u32) -> Span {
        self.all.spans[i as usize]
    }

    /// The one who stands for the whole. Where several are roots they work for the service that began.
    fn root(&mut self) -> Option<u32> {
        let roots: Vec<u32> = (0..self.owners.players.len() as u32)
            .filter(|p| {
                let player = &self.owners.players[*p as usize];
                player.parent.is_none() && !player.took_over
            })
            .collect();
        if roots.len() < 2 {
            return roots.first().copied();
        }
        let named = self.forest.order.iter().map(|i| self.span(*i).service).find(|s| !s.is_none());
        let root = self.owners.service(self.all, named.unwrap_or_default());
        for p in roots {
            if p != root {
                self.owners.players[p as usize].parent = Some(root);
            }
        }
        // Those who took over from a root stand beside it.
        for player in &mut self.owners.players {
            if player.took_over && player.parent.is_none() {
                player.parent = Some(root);
            }
        }
        Some(root)
    }

    /// Who has no span of its own goes on while a span is missing that may yet end.
    fn open(&mut self) {
        for player in &mut self.owners.players {
            player.open |= self.forest.orphans && player.last_visit.is_none();
        }
    }

    fn agents(&mut self) {
        for p in 0..self.owners.players.len() {
            let player = self.owners.players[p];
            let id = match player.last_visit {
                Some(i) if player.who.id.is_none() => self.span(i).id,
                _ => player.who.id,
            };
            let info = AgentInfo {
                name: player.who.name,
                source_id: id,
                role: player.who.role,
                parent: None,
                open: player.open,
                ..AgentInfo::default()
            };
            self.owners.players[p].agent = Some(self.all.recording.agent(info));
        }
        for p in 0..self.owners.players.len() {
            let parent = self.owners.players[p].parent.map(|parent| self.agent(parent));
            let agent = self.agent(p as u32);
            self.all.recording.agent_info(agent).parent = parent;
        }
    }

    fn agent(&self, player: u32) -> Agent {
        self.owners.players[player as usize].agent.expect("every player is an agent of the recording")
    }

    /// Whether a span of an agent is a spawn: not at the root, not by a handover, not a second record of one.
    fn spawned(&self, i: u32) -> Option<u32> {
        let player = &self.owners.players[self.owners.of[i as usize] as usize];
        player.parent.filter(|_| !player.took_over && !self.owners.merged[i as usize])
    }

    fn row(&mut self, row: &Row) {
        self.all.recording.made_of(self.all.spans[row.span as usize].item);
        match row.act {
            _ if row.is_repeated => {}
            Act::Responds => self.responds(row),
            Act::Asks => {
                let call = self.call_of(row.span, Text::default());
                let response = self.described.get(self.matching.response[row.span as usize] as usize);
                let entry = match response.and_then(|response| response.first) {
                    Some(response) => self.all.recording.call(response, call),
                    None => self.all.recording.lone_call(self.agent(row.player), call),
                };
                self.begins(row.span, row.player, entry, call.id);
            }
            Act::Results => self.results(row),
            Act::Receives => {
                let child = self.agent(self.owners.of[row.span as usize]);
                let agent = self.agent(row.player);
                self.all.recording.delivery(agent, child);
            }
            Act::Ends => self.ends(row),
            Act::Guards => self.guards(row),
            Act::Creates => self.creates(row),
            Act::Decides => self.decides(row),
        }
    }

    /// The span of a root has no event but the answer that a response gave for it.
    fn answers_of_agents(&mut self) {
        for (leaf, agent) in std::mem::take(&mut self.ends_with) {
            if let Described { first: Some(entry), player: Some(player) } = self.described[leaf as usize] {
                self.begins(agent, player, entry, self.span(leaf).id);
            }
        }
    }

    /// Remembers what a span begins with.
    fn begins(&mut self, i: u32, player: u32, entry: Entry, id: Text) {
        let described = &mut self.described[i as usize];
        if described.first.is_none() {
            *described = Described { first: Some(entry), player: Some(player) };
            self.all.entries[i as usize] = id;
        }
    }

    fn error(&mut self, extras: Text, error_type: Text) -> Text {
        if error_type.is_none() {
            return extras;
        }
        let error_type = self.all.read(error_type).to_owned();
        self.all.recording.extra_text(extras, "x_error_type", &error_type)
    }

    /// What a span states beside the spans within it.
    fn stated(&mut self, extras: Text, span: u32) -> Text {
        let Some(stated) = self.reports.stated(span) else { return extras };
        let numbers = [
            ("x_reported_tokens", stated.tokens.map(|n| n.to_string())),
            ("x_reported_cost_usd", stated.cost_usd.map(|n| n.to_string())),
        ];
        let mut extras = extras;
        for (key, number) in numbers {
            if let Some(number) = number {
                extras = self.all.recording.extra(extras, key, &number);
            }
        }
        extras
    }

    fn responds(&mut self, row: &Row) {
        let i = row.span;
        let span = self.span(i);
        let Work::Generation(generation) = span.work else { return };
        let find = |list: &[(u32, u32)]| {
            let at = list.partition_point(|pair| pair.0 < i);
            list.get(at).filter(|pair| pair.0 == i).map(|pair| pair.1)
        };
        let failed_by = find(&self.failed_by);
        let mut extras = self.error(generation.extras, span.error_type);
        if let Some(chain) = failed_by.filter(|_| span.error_type.is_none()) {
            extras = self.error(extras, self.span(chain).error_type);
        }
        let (mut usage, mut model) = (generation.usage, generation.model);
        let mut carry = |carried: Option<(Usage, Text)>| {
            let Some((carried, of)) = carried else { return };
            if usage.total().unwrap_or(0) == 0 && carried.total().is_some() {
                usage = Usage { cost_usd: usage.cost_usd, ..Usage::default() };
            }
            merge(&mut usage, &carried);
            model = if model.is_none() { of } else { model };
        };
        carry(self.reports.carried(i));
        if let Some(agent) = find(&self.ends_with) {
            carry(self.reports.carried(agent));
            extras = self.stated(extras, agent);
        }
        let score = self.all.evaluations.iter().find(|e| e.0 == i && (0.0..=1.0).contains(&e.2)).map(|e| e.2);
        let response = Response {
            id: span.id,
            time: ended(&span),
            duration_s: duration(&span),
            model,
            usage,
            ok: failed_by.map_or(span.ok, |_| Some(false)),
            score,
            reward: generation.reward,
            extras,
            ..Response::default()
        };
        let agent = self.agent(row.player);
        let entry = self.all.recording.response(agent, response);
        self.begins(i, row.player, entry, span.id);
        for (k, at) in self.all.declared(i).enumerate() {
            if self.is_passed_over(i, at) {
                let tool = self.all.read(self.all.calls[at].tool).to_owned();
                let message =
                    format!("the call of '{tool}' had no effect: its response hands over to another agent");
                self.all.recording.finding(FindingCode::FieldIgnored, Some(entry), message);
                continue;
            }
            self.declared(row.player, entry, i, k, at);
        }
        if let Some(content) = generation.text {
            let to = find(&self.says_to).map(|parent| Party::Agent(self.agent(parent)));
            self.all.recording.say(entry, Saying { content: Some(content), to, ..Saying::default() });
        }
    }

    /// Whether a call would hand over to an agent that never came, while another call of its response did hand over.
    fn is_passed_over(&self, response: u32, at: usize) -> bool {
        let Matching { hands_to, span_of, .. } = &self.matching;
        !self.all.calls[at].hands_to.is_none()
            && hands_to[at] == NONE
            && span_of[at] == NONE
            && self.all.declared(response).any(|call| hands_to[call] != NONE)
    }

    /// The `k`-th call that a response declares.
    fn declared(&mut self, player: u32, response: Entry, leaf: u32, k: usize, at: usize) {
        let declared = self.all.calls[at];
        let span = self.matching.span_of[at];
        let mut id = declared.id;
        // Some servers count their calls from 0 in every answer.
        if id.is_none() || !self.call_ids.insert(self.all.read(id).to_owned()) {
            let response = self.all.read(self.span(leaf).id).to_owned();
            id = self.all.recording.join(&[&response, ":c", &k.to_string()]);
        }
        let mut call = Call { id, tool: declared.tool, content: declared.content, ..Call::default() };
        if span != NONE {
            let used = self.call_of(span, id);
            call.does = used.does;
            call.content = call.content.or(used.content);
        }
        if self.matching.hands_to[at] != NONE {
            call.does = Does::HandsOff(self.agent(self.matching.hands_to[at]));
        }
        let entry = self.all.recording.call(response, call);
        if span != NONE {
            self.begins(span, player, entry, id);
        }
    }

    /// The call that a tool or agent span is the doing of.
    fn call_of(&self, i: u32, id: Text) -> Call {
        let span = self.span(i);
        let call =
            Call { id: if id.is_none() { span.id } else { id }, time: began(&span), ..Call::default() };
        match span.work {
            Work::Tool(tool) => {
                let within = self.matching.agent_in[i as usize];
                let to = self.matching.tool_hands_to[i as usize];
                let does = if within != NONE {
                    Does::Spawns(self.agent(self.owners.of[within as usize]))
                } else if to != NONE {
                    Does::HandsOff(self.agent(to))
                } else {
                    Does::UsesTool
                };
                Call { tool: tool.tool, content: tool.content, does, ..call }
            }
            _ => Call { does: Does::Spawns(self.agent(self.owners.of[i as usize])), ..call },
        }
    }

    fn results(&mut self, row: &Row) {
        let span = self.span(row.span);
        let Work::Tool(ToolUse { tool, result, trusted, .. }) = span.work else { return };
        let extras = self.error(Text::default(), span.error_type);
        let extras = self.stated(extras, row.span);
        let id = self.suffixed(span.id);
        let result = CallResult {
            call: self.all.entries[row.span as usize],
            id,
            tool,
            time: ended(&span),
            duration_s: duration(&span),
            content: result,
            ok: span.ok,
            trusted,
            extras,
            ..CallResult::default()
        };
        let agent = self.agent(row.player);
        let entry = self.all.recording.result(agent, result);
        self.carry(row.span, entry);
    }

    /// Id of the half of a span that comes out of it.
    fn suffixed(&mut self, id: Text) -> Text {
        let id = self.all.read(id).to_owned();
        self.all.recording.join(&[&id, ":r"])
    }

    fn ends(&mut self, row: &Row) {
        let span = self.span(row.span);
        let Work::Agent(AgentWork { output, .. }) = span.work else { return };
        let player = self.owners.players[row.player as usize];
        let again = player.last_visit != Some(row.span);
        let extras = self.error(Text::default(), span.error_type);
        let extras = self.stated(extras, row.span);
        self.speaks(
            row.player,
            Some(row.span),
            span.id,
            Saying {
                content: output,
                to: player.parent.filter(|_| again).map(|parent| Party::Agent(self.agent(parent))),
                time: self.answered.get(&row.span).copied().or(ended(&span)),
                ok: span.ok,
                extras,
                ..Saying::default()
            },
        );
    }

    /// Puts the usage that a span states for work within it on what it ends with.
    fn carry(&mut self, span: u32, entry: Entry) {
        if let Some((usage, model)) = self.reports.carried(span) {
            self.all.recording.unrecorded(entry, usage, model);
        }
    }

    fn speaks(&mut self, player: u32, span: Option<u32>, id: Text, saying: Saying) {
        let id = self.suffixed(id);
        let agent = self.agent(player);
        let entry = self.all.recording.lone_saying(agent, Saying { id, ..saying });
        if let Some(i) = span {
            self.carry(i, entry);
            self.begins(i, player, entry, id);
        }
    }

    fn guards(&mut self, row: &Row) {
        let span = self.span(row.span);
        let Work::Guardrail(triggered) = span.work else { return };
        let mut extras = self.error(Text::default(), span.error_type);
        if let Some(triggered) = triggered {
            extras =
                self.all.recording.extra(extras, "x_triggered", if triggered { "true" } else { "false" });
        }
        let mark = Mark {
            event_type: EventType::SafetyEvent,
            id: span.id,
            by: None,
            to: None,
            time: ended(&span),
            content: None,
            trusted: None,
            ok: span.ok,
            tool: Text::default(),
            extras,
        };
        let agent = self.agent(row.player);
        let entry = self.all.recording.mark(agent, mark);
        self.begins(row.span, row.player, entry, span.id);
    }

    fn decides(&mut self, row: &Row) {
        let span = self.span(row.span);
        let tool = self.forest.places[row.span as usize].tool;
        let incoming = Incoming {
            id: span.id,
            from: Party::User,
            time: ended(&span),
            content: None,
            trusted: Some(true),
            intervenes: true,
            decides: self.all.entries[tool as usize],
            extras: Text::default(),
        };
        let agent = self.agent(row.player);
        let entry = self.all.recording.incoming(agent, incoming);
        self.begins(row.span, row.player, entry, span.id);
    }

    fn creates(&mut self, row: &Row) {
        let span = self.span(row.span);
        let Work::Creates(who) = span.work else { return };
        let by = self.agent(row.player);
        let info = AgentInfo {
            name: who.name,
            source_id: who.id,
            role: who.role,
            parent: Some(by),
            ..AgentInfo::default()
        };
        let created = self.all.recording.agent(info);
        let call = Call { id: span.id, does: Does::Spawns(created), time: began(&span), ..Call::default() };
        let entry = self.all.recording.lone_call(by, call);
        self.begins(row.span, row.player, entry, span.id);
    }

    /// Who stands for the whole without a span of its own ends with the whole.
    fn end_of_root(&mut self, root: Option<u32>, rows: &[Row]) {
        let Some(root) = root.filter(|root| self.owners.players[*root as usize].last_visit.is_none()) else {
            return;
        };
        let open = self.owners.players.iter().any(|player| player.open);
        let last = rows.iter().rev().find(|row| row.player == root);
        if self.forest.orphans
            || open
            || rows.is_empty()
            || last.is_some_and(|row| self.answers(row).is_some())
        {
            return;
        }
        let roots = self.forest.order.iter().filter(|i| self.forest.parent[**i as usize] == NONE);
        let time = roots.clone().filter_map(|i| ended(&self.span(*i))).max();
        if let Some(first) = roots.copied().next() {
            let span = self.span(first);
            // The end of an agent or a tool has an id of its own.
            let is_plain = !matches!(span.work, Work::Agent(_) | Work::Tool(_));
            let id = self.all.read(span.id).to_owned();
            let id = if is_plain { span.id } else { self.all.recording.join(&[&id, ":all"]) };
            self.speaks(root, None, id, Saying { time, ..Saying::default() });
        }
    }

    /// The trace lasts from the first beginning to the last end, noise included.
    fn clock(&mut self) {
        let spans = || self.forest.order.iter().map(|i| self.span(*i));
        let start = spans().filter_map(|span| began(&span)).min();
        let end = spans().filter_map(|span| ended(&span)).max();
        let all = &mut *self.all;
        all.recording.trace.started_at = start;
        if let Some(nanos) = start.zip(end).and_then(|(start, end)| end.checked_sub(start)) {
            all.recording.wall_clock_s(nanos as f64 / 1e9);
        }
    }

    /// What is stated of the whole alone is its cost; beside another sum of its spans it is a metric.
    fn usage_of_whole(&mut self) {
        let recording = &mut self.all.recording;
        let mut put = |kind, tokens: Option<i64>, cost: Option<f64>, prefix: &str| {
            if let Some(tokens) = tokens {
                recording.measure(kind, &format!("{prefix}tokens"), tokens as f64);
            }
            if let Some(cost) = cost {
                recording.measure(kind, &format!("{prefix}cost_usd"), cost);
            }
        };
        let (tokens, cost) = self.reports.whole;
        put(MeasureKind::Cost, tokens, cost, "");
        let (tokens, cost) = self.reports.whole_beside;
        put(MeasureKind::Metric, tokens, cost, "reported_");
    }

    /// Links between what different agents did.
    fn edges(&mut self) {
        if self.all.links.is_empty() {
            return;
        }
        let ids: HashMap<&str, u32> =
            self.forest.order.iter().rev().map(|i| (self.all.read(self.span(*i).id), *i)).collect();
        let of = |i: u32| match self.generations.leaf[i as usize] {
            NONE => self.described[i as usize],
            leaf => self.described[leaf as usize],
        };
        let mut edges = Vec::new();
        for (i, to) in &self.all.links {
            let Some(before) = ids.get(self.all.read(*to)) else { continue };
            let (src, dst) = (of(*before), of(*i));
            if let (Some(from), Some(to)) = (src.first, dst.first)
                && src.player != dst.player
            {
                edges.push((from, to));
            }
        }
        drop(ids);
        edges.sort_unstable();
        edges.dedup();
        for (from, to) in edges {
            self.all.recording.edge(from, to, EdgeType::Message);
        }
    }

    fn evaluations(&mut self) {
        let mut named = HashSet::new();
        for (i, name, score) in self.all.evaluations.clone() {
            let name = self.all.read(name).to_owned();
            let leaf = self.generations.leaf[i as usize] == i;
            if (leaf && (0.0..=1.0).contains(&score)) || !score.is_finite() {
                continue;
            }
            if named.insert(name.clone()) {
                self.all.recording.measure(MeasureKind::Metric, &name, score);
            } else {
                self.all.recording.finding(
                    FindingCode::FieldIgnored,
                    None,
                    format!("the metric '{name}' is given more than once; the first is used"),
                );
            }
        }
    }

    fn findings(&mut self) {
        let all = &mut *self.all;
        all.recording.trace.partial |= self.forest.orphans;
        if let Some(i) = self.forest.cyclic {
            let id = all.read(all.spans[i as usize].id).to_owned();
            let message = format!("the parents of span '{id}' form a cycle; it is treated as a root");
            all.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for i in std::mem::take(&mut self.reports.repeated) {
            let id = all.read(all.spans[i as usize].id).to_owned();
            let message = format!("the span '{id}' repeats the usage of spans within it");
            all.recording.finding(FindingCode::UsageRepeated, self.described[i as usize].first, message);
        }
        for (code, i, words) in std::mem::take(&mut self.reports.differing) {
            let (at, message) = match i {
                Some(i) => {
                    let id = all.read(all.spans[i as usize].id);
                    (self.described[i as usize].first, format!("of the span '{id}': {words}"))
                }
                None => (None, words),
            };
            all.recording.finding(code, at, message);
        }
        for message in std::mem::take(&mut self.owners.doubtful) {
            all.recording.finding(FindingCode::AgentMerged, None, message);
        }
        let skew = self.forest.order.iter().filter_map(|i| {
            let parent = all.spans.get(self.forest.parent[*i as usize] as usize)?;
            parent.start?.checked_sub(all.spans[*i as usize].start?)
        });
        if let Some(skew) = skew.max().filter(|skew| *skew > 0) {
            let seconds = skew as f64 / 1e9;
            let message = format!("a span starts {seconds} s before its parent");
            all.recording.finding(FindingCode::ClockSkew, None, message);
        }
    }

    fn note_all_unused(&self, note_unused: &mut dyn FnMut(u32, Unused)) {
        let evaluated: HashSet<u32> = self.all.evaluations.iter().map(|e| e.0).collect();
        for &i in &self.forest.order {
            let span = self.span(i);
            let used = match span.work {
                Work::Chain(_) => self.owners.chains.contains(&i),
                Work::Creates(_) => self.described[i as usize].first.is_some(),
                _ => !self.forest.places[i as usize].gone,
            };
            if !used && !evaluated.contains(&i) {
                note_unused(span.item, Unused::Ignored(span.kind));
            }
        }
    }
}
