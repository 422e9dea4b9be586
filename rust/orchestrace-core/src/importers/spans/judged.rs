//! What is said of a trace beside its spans: judgments of it and of them, and what is known where no span is there.

use super::{Spans, Text};
use crate::importers::recording::{AgentInfo, Hash, Label, Saying};
use crate::schema::MeasureKind;

/// A judgment of a trace or of a span.
#[derive(Debug, Clone, Copy, Default)]
pub struct Judgment<'t> {
    /// Of what.
    pub name: &'t str,
    /// Who judged.
    pub annotator: &'t str,
    /// The verdict as a number.
    pub number: Option<f64>,
    /// The verdict in words.
    pub words: Option<&'t str>,
    /// Id of the span; the whole trace without one.
    pub span: Option<&'t str>,
    /// When, in nanoseconds since the epoch.
    pub time: Option<i64>,
    /// Id of the judgment.
    pub id: &'t str,
}

/// A trace of which no span is there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lone<'t> {
    /// Number of its record.
    pub item: u32,
    /// Name, which is that of who worked.
    pub name: &'t str,
    /// Id.
    pub id: &'t str,
    /// Hash of what came out.
    pub content: Option<Hash>,
    /// When it began, in nanoseconds since the epoch.
    pub start: Option<i64>,
    /// When it ended.
    pub end: Option<i64>,
}

impl Spans {
    /// Puts judgments, once the trace is described. A number on the whole is a metric, the last one of a name: a
    /// correction comes after what it corrects. Everything else is a label. None is a reward (R8): whether a high
    /// number is good only its author knows.
    pub fn judge(&mut self, mut judgments: Vec<Judgment<'_>>) {
        judgments.sort_by(|a, b| {
            let numbers = || a.number.partial_cmp(&b.number).unwrap_or(std::cmp::Ordering::Equal);
            let order = (b.time, a.name, a.id, a.span, a.words).cmp(&(a.time, b.name, b.id, b.span, b.words));
            order.then_with(numbers)
        });
        let mut named: Vec<&str> = Vec::new();
        for judgment in judgments {
            let Judgment { name, annotator, words, span, .. } = judgment;
            let number = judgment.number.filter(|number| number.is_finite());
            if let (None, None, Some(number)) = (span, words, number)
                && !named.contains(&name)
            {
                named.push(name);
                self.recording.measure(MeasureKind::Metric, name, number);
                continue;
            }
            let entry = span.map_or(Text::default(), |id| {
                let entry = self.entry_of(id);
                if entry.is_none() { self.recording.text(id) } else { entry }
            });
            let label = match words {
                Some(words) => self.recording.join(&[name, "=", words]),
                None => self.recording.text(name),
            };
            let annotator = self.recording.text(annotator);
            self.recording.label(Label { annotator, entry, label, weight: number, ..Label::default() });
        }
    }

    /// Puts one event for a trace of which no span is there, which is partial then.
    pub fn lone(&mut self, lone: Lone<'_>) {
        let Lone { item, name, id, content, start, end } = lone;
        let recording = &mut self.recording;
        let name = recording.text(name);
        let agent = recording.agent(AgentInfo { name, open: true, ..AgentInfo::default() });
        let id = recording.text(id);
        recording.made_of(item);
        recording.lone_saying(agent, Saying { id, content, time: end.or(start), ..Saying::default() });
        recording.trace.partial = true;
        recording.trace.started_at = start;
        if let Some(nanos) =
            end.zip(start).and_then(|(end, start)| end.checked_sub(start)).filter(|n| *n >= 0)
        {
            recording.wall_clock_s(nanos as f64 / 1e9);
        }
    }
}
