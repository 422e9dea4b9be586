//! The truth as Arrow tables, keyed by `trace` and `trace_id`.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Float64Builder, StringViewBuilder, UInt32Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::Run;
use super::document::{SPAWNING, trace_id};
use super::planting::Planting;
use crate::error::Result;

/// A table of the truth: its name and the columns after `trace` and `trace_id`. Nullable are those with a
/// mark.
type Table = (&'static str, &'static [(&'static str, DataType, bool)]);

const TABLES: [Table; 8] = [
    ("contributions", &[("seq", DataType::UInt32, false), ("contribution", DataType::Float64, false)]),
    (
        "agents",
        &[
            ("agent", DataType::Utf8View, false),
            ("contribution", DataType::Float64, false),
            ("shapley", DataType::Float64, true),
        ],
    ),
    (
        "decisive",
        &[
            ("seq", DataType::UInt32, true),
            ("agent", DataType::Utf8View, true),
            ("turn", DataType::UInt32, true),
        ],
    ),
    (
        "stopping",
        &[
            ("epoch", DataType::UInt32, true),
            ("payoff", DataType::Float64, true),
            ("recorded", DataType::UInt32, true),
            ("recorded_payoff", DataType::Float64, true),
        ],
    ),
    (
        "outcomes",
        &[
            ("expected", DataType::Float64, false),
            ("outcome", DataType::Float64, false),
            ("noise", DataType::Float64, false),
        ],
    ),
    (
        "decisions",
        &[
            ("seq", DataType::UInt32, false),
            ("kind", DataType::Utf8View, false),
            ("action", DataType::Utf8View, false),
            ("state", DataType::UInt32, false),
            ("p", DataType::Float64, false),
            ("effect", DataType::Float64, false),
            ("without", DataType::Float64, false),
        ],
    ),
    (
        "effects",
        &[
            ("seq", DataType::UInt32, false),
            ("agent", DataType::Utf8View, false),
            ("subtask", DataType::UInt32, false),
            ("effect", DataType::Float64, false),
        ],
    ),
    (
        "pairs",
        &[
            ("first", DataType::UInt32, false),
            ("second", DataType::UInt32, false),
            ("weight", DataType::Float64, false),
        ],
    ),
];

static SCHEMAS: LazyLock<[SchemaRef; 8]> = LazyLock::new(|| {
    TABLES.map(|(_, columns)| {
        let keys = [("trace", DataType::UInt32, false), ("trace_id", DataType::Utf8View, false)];
        let fields =
            keys.iter().chain(columns).map(|(name, kind, null)| Field::new(*name, kind.clone(), *null));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    })
});

/// The truth of a planted corpus, in pieces of consecutive traces.
#[derive(Debug, Default)]
pub struct Truth {
    tables: [Vec<RecordBatch>; 8],
}

impl Truth {
    /// Name, batches and schema of every table.
    pub fn tables(self) -> impl Iterator<Item = (&'static str, Vec<RecordBatch>, SchemaRef)> {
        let named = self.tables.into_iter().zip(TABLES).zip(SCHEMAS.iter());
        named.map(|((batches, (name, _)), schema)| (name, batches, Arc::clone(schema)))
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: Vec<RecordBatch>) {
        for (table, batch) in self.tables.iter_mut().zip(piece) {
            table.push(batch);
        }
    }
}

/// Columns under construction: the keys of all tables, then what they say.
#[derive(Debug, Default)]
pub(super) struct Columns {
    keys: [(UInt32Builder, StringViewBuilder); 8],
    seq: UInt32Builder,
    contribution: Float64Builder,
    agent: StringViewBuilder,
    earned: Float64Builder,
    shapley: Float64Builder,
    decisive_seq: UInt32Builder,
    decisive_agent: StringViewBuilder,
    decisive_turn: UInt32Builder,
    epoch: UInt32Builder,
    payoff: Float64Builder,
    recorded: UInt32Builder,
    recorded_payoff: Float64Builder,
    expected: Float64Builder,
    outcome: Float64Builder,
    noise: Float64Builder,
    decision: Decision,
    effect_seq: UInt32Builder,
    effect_agent: StringViewBuilder,
    subtask: UInt32Builder,
    effect: Float64Builder,
    first: UInt32Builder,
    second: UInt32Builder,
    weight: Float64Builder,
    id: Vec<u8>,
}

/// Columns of the planted decisions to spawn.
#[derive(Debug, Default)]
struct Decision {
    seq: UInt32Builder,
    kind: StringViewBuilder,
    action: StringViewBuilder,
    state: UInt32Builder,
    p: Float64Builder,
    effect: Float64Builder,
    without: Float64Builder,
}

impl Columns {
    /// Adds the truth of one trace.
    pub(super) fn add(&mut self, run: &Run, planting: &Planting, number: u64) {
        self.id.clear();
        trace_id(&mut self.id, number);
        let id = std::str::from_utf8(&self.id).unwrap_or_default();
        let agents = run.agents.len();
        let parts = &planting.parts;
        let matter = parts.events.iter().filter(|part| part.strength != 0.0).count();
        let decisions = usize::from(planting.decision.is_some());
        let rows = [planting.steps.len(), agents, 1, 1, 1, decisions, matter, parts.pairs.len()];
        for (table, rows) in rows.into_iter().enumerate() {
            let (numbers, ids) = &mut self.keys[table];
            for _ in 0..rows {
                numbers.append_value(number as u32);
                ids.append_value(id);
            }
        }
        for (seq, contribution) in planting.contributions.iter().enumerate() {
            self.seq.append_value(seq as u32);
            self.contribution.append_value(*contribution);
        }
        let name = |agent: usize| run.names.text(run.agents[agent].name);
        for agent in 0..agents {
            self.agent.append_value(name(agent));
            self.earned.append_value(planting.earned[agent]);
            self.shapley.append_option(planting.solved.then(|| planting.game.values[agent]));
        }
        let guilty = planting.parts.decisive.map(|at| &run.events[at as usize]);
        self.decisive_seq.append_option(planting.parts.decisive);
        self.decisive_agent.append_option(guilty.map(|event| name(event.actor as usize)));
        self.decisive_turn.append_option(guilty.map(|event| event.turn));
        let stopping = planting.stopping;
        self.epoch.append_option(stopping.map(|s| s.best));
        self.payoff.append_option(stopping.map(|s| s.payoff));
        self.recorded.append_option(stopping.map(|s| s.recorded));
        self.recorded_payoff.append_option(stopping.map(|s| s.recorded_payoff));
        self.expected.append_value(planting.expected);
        self.outcome.append_value(planting.outcome);
        self.noise.append_value(planting.noise);
        if let Some((state, spawned, without)) = planting.decision {
            let decision = &mut self.decision;
            decision.seq.append_value(0);
            decision.kind.append_value("spawn");
            decision.action.append_value(SPAWNING[usize::from(spawned)]);
            decision.state.append_value(u32::from(state.state));
            decision.p.append_value(f64::from(state.share) / 1000.0);
            decision.effect.append_value(state.effect);
            decision.without.append_value(without);
        }
        for (seq, part) in parts.events.iter().enumerate().filter(|(_, part)| part.strength != 0.0) {
            self.effect_seq.append_value(seq as u32);
            self.effect_agent.append_value(name(part.agent as usize));
            self.subtask.append_value(u32::from(part.subtask));
            self.effect.append_value(part.strength);
        }
        for pair in &parts.pairs {
            self.first.append_value(pair.first);
            self.second.append_value(pair.second);
            self.weight.append_value(pair.weight);
        }
    }

    /// Empties the columns into a batch per table.
    pub(super) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let decision = &mut self.decision;
        let columns_of_table: [Vec<ArrayRef>; 8] = [
            vec![Arc::new(self.seq.finish()), Arc::new(self.contribution.finish())],
            vec![
                Arc::new(self.agent.finish()),
                Arc::new(self.earned.finish()),
                Arc::new(self.shapley.finish()),
            ],
            vec![
                Arc::new(self.decisive_seq.finish()),
                Arc::new(self.decisive_agent.finish()),
                Arc::new(self.decisive_turn.finish()),
            ],
            vec![
                Arc::new(self.epoch.finish()),
                Arc::new(self.payoff.finish()),
                Arc::new(self.recorded.finish()),
                Arc::new(self.recorded_payoff.finish()),
            ],
            vec![
                Arc::new(self.expected.finish()),
                Arc::new(self.outcome.finish()),
                Arc::new(self.noise.finish()),
            ],
            vec![
                Arc::new(decision.seq.finish()),
                Arc::new(decision.kind.finish()),
                Arc::new(decision.action.finish()),
                Arc::new(decision.state.finish()),
                Arc::new(decision.p.finish()),
                Arc::new(decision.effect.finish()),
                Arc::new(decision.without.finish()),
            ],
            vec![
                Arc::new(self.effect_seq.finish()),
                Arc::new(self.effect_agent.finish()),
                Arc::new(self.subtask.finish()),
                Arc::new(self.effect.finish()),
            ],
            vec![
                Arc::new(self.first.finish()),
                Arc::new(self.second.finish()),
                Arc::new(self.weight.finish()),
            ],
        ];
        let mut batches = Vec::with_capacity(TABLES.len());
        for (((numbers, ids), columns_of_table), schema) in
            self.keys.iter_mut().zip(columns_of_table).zip(SCHEMAS.iter())
        {
            let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers.finish()), Arc::new(ids.finish())];
            columns.extend(columns_of_table);
            batches.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
        }
        Ok(batches)
    }
}
