//! The truth as Arrow tables, keyed by `trace` and `trace_id`.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Float64Builder, StringViewBuilder, UInt32Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::document::trace_id;
use super::planting::Planting;
use crate::error::Result;
use crate::generate::trace::Run;

/// A table of the truth: its name and the columns after `trace` and `trace_id`. Nullable are those with a
/// mark.
type Table = (&'static str, &'static [(&'static str, DataType, bool)]);

const TABLES: [Table; 5] = [
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
];

static SCHEMAS: LazyLock<[SchemaRef; 5]> = LazyLock::new(|| {
    TABLES.map(|(_, columns)| {
        let keys = [("trace", DataType::UInt32, false), ("trace_id", DataType::Utf8View, false)];
        let fields =
            keys.iter().chain(columns).map(|(name, kind, null)| Field::new(*name, kind.clone(), *null));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    })
});

/// What is true of a planted corpus, in pieces of consecutive traces.
#[derive(Debug, Default)]
pub struct Truth {
    tables: [Vec<RecordBatch>; 5],
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

/// Columns under construction: the keys of the five tables, then what they say.
#[derive(Debug, Default)]
pub(super) struct Columns {
    keys: [(UInt32Builder, StringViewBuilder); 5],
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
    id: Vec<u8>,
}

impl Columns {
    /// Adds the truth of one trace.
    pub(super) fn add(&mut self, run: &Run, planting: &Planting, number: u64) {
        self.id.clear();
        trace_id(&mut self.id, number);
        let id = std::str::from_utf8(&self.id).unwrap_or_default();
        let agents = run.agents.len();
        for (table, rows) in [planting.steps.len(), agents, 1, 1, 1].into_iter().enumerate() {
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
    }

    /// Empties the columns into a batch per table.
    pub(super) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let said: [Vec<ArrayRef>; 5] = [
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
        ];
        let mut batches = Vec::with_capacity(5);
        for (((numbers, ids), said), schema) in self.keys.iter_mut().zip(said).zip(SCHEMAS.iter()) {
            let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers.finish()), Arc::new(ids.finish())];
            columns.extend(said);
            batches.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
        }
        Ok(batches)
    }
}
