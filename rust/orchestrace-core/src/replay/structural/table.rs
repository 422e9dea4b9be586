//! Replays as columns: all traces in parallel, rows in corpus order.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::take::take;
use rayon::prelude::*;

use super::{Answer, Options, Replayer};
use crate::error::Result;
use crate::replay::intervention::Plan;
use crate::run::Run;
use crate::schema::{Column, REASONS, REPLAYS, TIERS};
use crate::store::view::ChunkView;
use crate::store::{Chunk, Store, word_array};

/// Columns of [`REPLAYS`] that are the same in all rows of a scenario, or that no structural answer has.
const LEFT_OUT: [&str; 5] = ["intervention", "stderr", "makespan", "makespan_cf", "params"];

/// Answers of all scenarios in all traces of a store, a batch for each chunk, in the order of the traces, then of the
/// scenarios, then of the units: `scenario`, the number of the scenario, and the columns of [`REPLAYS`] that vary.
pub fn replay(
    store: &Store,
    plan: &Plan,
    options: &Options,
    run: &Run,
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    options.structure.check()?;
    store.expect_whole()?;
    run.expect(store.n_traces() as u64);
    let fields = REPLAYS.columns.iter().filter(|column| !LEFT_OUT.contains(&column.name)).map(Column::field);
    let scenario = Field::new("scenario", arrow_schema::DataType::UInt32, true);
    let schema = Arc::new(Schema::new(std::iter::once(scenario).chain(fields).collect::<Vec<_>>()));
    let batches = run.pool().install(|| {
        store
            .chunks()
            .par_iter()
            .map(|chunk| {
                let view = ChunkView::new(store, chunk);
                let found = (0..view.len())
                    .into_par_iter()
                    .map_init(Replayer::default, |replayer, i| {
                        run.check()?;
                        let mut rows = Rows::default();
                        let trace = view.trace(i);
                        let Rows { answers, ids } = &mut rows;
                        let mut id = String::new();
                        replayer.answers(&trace, plan, options, run, answers, |scene, scenario, unit| {
                            id.clear();
                            if let Some(level) = plan.scenarios[scenario].each() {
                                let unit = unit as usize;
                                scene.roster.write_id(store, scene.view, scene.graph, level, unit, &mut id);
                            }
                            ids.push(id.as_str().into());
                        })?;
                        run.advance(1);
                        Ok(rows)
                    })
                    .collect::<Result<Vec<_>>>()?;
                columns(chunk, &found, &schema)
            })
            .collect::<Result<Vec<_>>>()
    })?;
    Ok((batches, schema))
}

/// What one trace answers: the ids are those of the answers that have a unit.
#[derive(Default)]
struct Rows {
    answers: Vec<Answer>,
    ids: Vec<Box<str>>,
}

fn columns(chunk: &Chunk, found: &[Rows], schema: &SchemaRef) -> Result<RecordBatch> {
    let answers = || found.iter().flat_map(|rows| &rows.answers);
    let of_trace =
        found.iter().enumerate().flat_map(|(i, rows)| std::iter::repeat_n(i as u32, rows.answers.len()));
    let of_trace = UInt32Array::from_iter_values(of_trace);
    let mut ids = StringViewBuilder::with_capacity(of_trace.len());
    for rows in found {
        let mut names = rows.ids.iter();
        rows.answers.iter().for_each(|answer| ids.append_option(answer.unit.and_then(|_| names.next())));
    }
    let number = |f: fn([f64; 2]) -> f64| -> ArrayRef {
        Arc::new(answers().map(|answer| answer.values.map(f)).collect::<Float64Array>())
    };
    let bound = |at: usize| -> ArrayRef {
        let bounds = answers().map(|answer| answer.bounds.map(|bounds| bounds[at]));
        Arc::new(bounds.collect::<Float64Array>())
    };
    let tokens = |which: usize| -> ArrayRef {
        Arc::new(answers().map(|answer| answer.tokens.map(|tokens| tokens[which])).collect::<Int64Array>())
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(answers().map(|answer| answer.scenario))),
        take(chunk.traces.column(0), &of_trace, None)?,
        Arc::new(ids.finish()),
        // a gather of views: the text of the ids is shared
        take(chunk.traces.column(1), &of_trace, None)?,
        number(|[outcome, _]| outcome),
        number(|[_, there]| there),
        number(|[outcome, there]| there - outcome),
        bound(0),
        bound(1),
        tokens(0),
        tokens(1),
        word_array(answers().map(|a| a.tier.map_or(u8::MAX, |tier| tier as u8)).collect(), TIERS)?,
        Arc::new(answers().map(|answer| answer.support).collect::<Float64Array>()),
        word_array(answers().map(|a| a.reason.map_or(u8::MAX, |reason| reason as u8)).collect(), REASONS)?,
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
