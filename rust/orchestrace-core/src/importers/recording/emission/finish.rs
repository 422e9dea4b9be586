//! The end of an emission, once all events are written: edges between them, costs, labels, findings.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::super::{Act, Text};
use super::{Accounts, Emission, End, NONE, Spent};
use crate::columns::writer::Label;
use crate::error::FindingCode;
use crate::schema::{AgentKind, EdgeType, MeasureKind, TimeBasis};

impl Emission<'_, '_, '_> {
    pub(super) fn resolve(&self, end: End) -> Option<u32> {
        let seq = match end {
            End::Event(seq) => seq,
            End::Entry(entry) => self.first[entry as usize],
            End::ReturnOf(child) => self.agents[child as usize].answer?,
        };
        (seq != NONE).then_some(seq)
    }

    pub(super) fn finish(&mut self) {
        let recording = self.recording;
        let mut edges = std::mem::take(&mut self.edges);
        edges.extend(recording.edges.iter().map(|(src, dst, t)| (End::Entry(src.0), End::Entry(dst.0), *t)));
        let mut drawn = HashSet::new();
        for (src, dst, edge_type) in edges {
            if let (Some(src), Some(dst)) = (self.resolve(src), self.resolve(dst))
                && src != dst
            {
                // What was sent and then read is one edge: a message, a return.
                let carries = matches!(edge_type, EdgeType::Message | EdgeType::Return | EdgeType::Spawn);
                if edge_type == EdgeType::Causal && drawn.contains(&(src, dst)) {
                    continue;
                }
                if carries {
                    drawn.insert((src, dst));
                }
                self.out.edge(src, dst, edge_type);
            }
        }
        self.costs();
        for label in &recording.labels {
            let entry = self.entry_of(label.entry);
            let event = entry.and_then(|e| self.resolve(End::Entry(e))).map(|seq| self.out.event_id(seq));
            let turn =
                label.turn.or_else(|| entry.map(|e| self.turns[e as usize]).filter(|turn| *turn != NONE));
            let text = |text: Text| (!text.is_none()).then(|| recording.read(text));
            let label_row = Label {
                annotator: recording.read(label.annotator),
                event_id: event.as_deref().or(text(label.entry)),
                turn,
                agent: text(label.agent),
                label: recording.read(label.label),
                weight: label.weight,
            };
            self.out.label(recording.read(recording.trace.trace_id), &label_row);
        }
        self.findings();
    }

    /// The entry that has an id.
    fn entry_of(&self, id: Text) -> Option<u32> {
        let recording = self.recording;
        let wanted = recording.read(id);
        let has = |content: &Act| {
            let id = match content {
                Act::Response(x) => x.id,
                Act::Call { call, .. } => call.id,
                Act::Saying { saying, .. } => saying.id,
                Act::Result(x) => x.id,
                Act::Incoming(x) => x.id,
                Act::Mark(x) => x.id,
                Act::Delivery { .. } | Act::Compaction => return false,
            };
            recording.read(id) == wanted
        };
        let position = recording.entries.iter().position(|entry| has(&entry.act));
        position.filter(|_| !wanted.is_empty()).map(|e| e as u32)
    }

    fn costs(&mut self) {
        let recording = self.recording;
        let is_given = |name: &str| {
            recording
                .measures
                .iter()
                .any(|(kind, n, _)| *kind == MeasureKind::Cost && recording.read(*n) == name)
        };
        let span = self.order.end.saturating_sub(self.order.base) as f64 / 1e9;
        let clock = self.order.timed && recording.trace.time_basis.is_none_or(|b| b == TimeBasis::Seconds);
        let Accounts { team, outside } = self.spent;
        let tokens = |spent: Spent| spent.tokens.map(|tokens| tokens as f64);
        let mut derived: Vec<(Cow<'_, str>, Option<f64>)> = [
            ("tokens", tokens(team)),
            ("wall_clock_s", recording.wall_clock_s.or(clock.then_some(span))),
            ("tool_calls", Some(f64::from(self.calls))),
            ("messages", Some(f64::from(self.messages))),
            ("cost_usd", team.cost_usd),
        ]
        .map(|(name, value)| (name.into(), value))
        .into();
        for ((role, _), spent) in AgentKind::OUTSIDE.iter().zip(outside) {
            derived.push((format!("{role}_tokens").into(), tokens(spent)));
            derived.push((format!("{role}_cost_usd").into(), spent.cost_usd));
        }
        let rewards = &self.out.options.reward_scores;
        let kind_of = |(kind, name, _): &(MeasureKind, Text, f64)| match kind {
            MeasureKind::Metric if rewards.iter().any(|reward| reward == recording.read(*name)) => {
                MeasureKind::Reward
            }
            kind => *kind,
        };
        let mut reported = HashSet::new();
        // In the order of a document, so that what is written and read again is the same table.
        for wanted in MeasureKind::ALL {
            let derived = derived.iter().filter(|_| *wanted == MeasureKind::Cost);
            for (name, value) in derived {
                if let Some(value) = value.filter(|_| !is_given(name)) {
                    self.out.measure(MeasureKind::Cost, name, value);
                }
            }
            for measure in recording.measures.iter().filter(|measure| kind_of(measure) == *wanted) {
                let name = recording.read(measure.1);
                let is_outcome = *wanted == MeasureKind::Reward && name == "team";
                let column = recording.outcome_column.filter(|_| is_outcome).map(|at| recording.read(at));
                if let Some(column) = column.filter(|column| self.out.options.is_null(column, measure.2)) {
                    self.out.unscored(column, measure.2);
                } else if reported.insert((*wanted as u8, name)) {
                    self.out.measure(*wanted, name, measure.2);
                } else {
                    self.out.finding(FindingCode::FieldIgnored, None, || {
                        format!("the {} '{name}' is given more than once; the first is used", wanted.as_str())
                    });
                }
            }
        }
    }

    fn findings(&mut self) {
        for (code, at, message) in &self.recording.findings {
            let seq = at.and_then(|at| self.resolve(End::Entry(at.0)));
            self.out.finding(*code, seq, || message.clone());
        }
        if let (n, Some((stated, sum))) = self.unequal {
            self.out.finding(FindingCode::UsageConflict, None, || {
                format!(
                    "totals of responses that are not the sum of their parts: {n}; the first is {stated} tokens, its \
                     parts are {sum}"
                )
            });
        }
        if let Some(id) = self.repeated.take() {
            self.out.finding(FindingCode::IdRepeated, None, || format!("several events have the id '{id}'"));
        }
        if self.conservative {
            self.out.finding(FindingCode::SafetyConservative, None, || {
                "untrusted text is assumed to flow into every later response of its context".into()
            });
        }
        if self.skew > 0.0 {
            let skew = self.skew;
            self.out.finding(FindingCode::ClockSkew, None, || {
                format!("an agent starts {skew} s before its spawn")
            });
        }
        let unfinished = !self.partial && !self.ended;
        if self.partial || unfinished {
            self.out.partial();
            self.out.finding(FindingCode::TracePartial, None, || {
                if unfinished {
                    "the recording has no final answer"
                } else {
                    "the recording ends before the run did"
                }
                .into()
            });
        }
    }
}
