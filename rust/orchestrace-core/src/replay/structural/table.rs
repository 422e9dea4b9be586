//! Replays as columns: all traces in parallel, rows in corpus order.

use arrow_array::UInt32Array;
use arrow_schema::{DataType, Field, Schema};

use super::{Answer, Options, Replayer};
use crate::error::Result;
use crate::replay::intervention::Plan;
use crate::run::Run;
use crate::schema::{Column, REPLAYS, TIERS};
use crate::store::Store;
use crate::tables::{self, Batches, Columns, Part, table};

/// Columns of [`REPLAYS`] that are the same in all rows of a scenario, or that no structural answer has.
const LEFT_OUT: [&str; 5] = ["intervention", "stderr", "makespan", "makespan_cf", "params"];

/// Answers of all scenarios in all traces of a store, a batch for each chunk, in the order of the traces, then of the
/// scenarios, then of the units: `scenario`, the number of the scenario, and the columns of [`REPLAYS`] that vary.
pub fn replay(store: &Store, plan: &Plan, options: &Options, run: &Run) -> Result<Batches> {
    options.structure.check()?;
    let fields = REPLAYS.columns.iter().filter(|column| !LEFT_OUT.contains(&column.name)).map(Column::field);
    let scenario = Field::new("scenario", DataType::UInt32, true);
    let schema = Schema::new(std::iter::once(scenario).chain(fields).collect::<Vec<_>>());
    let of = |replayer: &mut Replayer, rows: &mut Rows, part: &Part<'_>, i: usize| {
        let (trace, mut id) = (part.trace(i), String::new());
        let Rows { of_trace, answers, ids } = rows;
        replayer.answers(&trace, plan, options, run, answers, |scene, scenario, unit| {
            id.clear();
            if let Some(level) = plan.scenarios[scenario].each() {
                scene.roster.write_id(store, scene.view, scene.graph, level, unit as usize, &mut id);
            }
            ids.push(id.as_str().into());
        })?;
        of_trace.resize(answers.len(), i as u32);
        Ok(())
    };
    table(store, run, schema.into(), Default::default, of, columns)
}

/// What traces answer: the ids are those of the answers that have a unit.
#[derive(Default)]
struct Rows {
    of_trace: Vec<u32>,
    answers: Vec<Answer>,
    ids: Vec<Box<str>>,
}

impl tables::Rows for Rows {
    fn append(&mut self, mut more: Self) {
        self.of_trace.append(&mut more.of_trace);
        self.answers.append(&mut more.answers);
        self.ids.append(&mut more.ids);
    }
}

fn columns(columns: Columns, part: &Part<'_>, rows: Rows) -> Result<Columns> {
    let answers = || rows.answers.iter();
    let of_trace = UInt32Array::from(rows.of_trace);
    let mut names = rows.ids.iter().map(AsRef::as_ref);
    columns
        .counts("scenario", answers().map(|answer| Some(answer.scenario)))
        // a gather of views: the text of the ids is shared
        .taken(&["trace", "trace_id"], &part.chunk.traces, &of_trace)?
        .texts("unit_id", answers().map(|answer| answer.unit.and_then(|_| names.next())))
        .numbers("outcome", answers().map(|answer| answer.values.map(|[outcome, _]| outcome)))
        .numbers("outcome_cf", answers().map(|answer| answer.values.map(|[_, there]| there)))
        .numbers("effect", answers().map(|answer| answer.values.map(|[outcome, there]| there - outcome)))
        .numbers("lower", answers().map(|answer| answer.bounds.map(|[lower, _]| lower)))
        .numbers("upper", answers().map(|answer| answer.bounds.map(|[_, upper]| upper)))
        .tokens("tokens", answers().map(|answer| answer.tokens.map(|[all, _]| all)))
        .tokens("tokens_cf", answers().map(|answer| answer.tokens.map(|[_, left]| left)))
        .words("tier", answers().map(|a| a.tier.map_or(u8::MAX, |tier| tier as u8)).collect(), TIERS)?
        .numbers("support", answers().map(|answer| answer.support))
        .reasons(answers().map(|answer| answer.reason))
}
