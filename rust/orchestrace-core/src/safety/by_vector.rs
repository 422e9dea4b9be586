//! The attack vectors of every trace as columns.

use std::sync::Arc;

use arrow_array::UInt32Array;
use arrow_schema::{DataType, Field, Schema};

use super::channel::{CHANNELS, Channels};
use super::table::{Options, Worker, field, id_lists, key};
use super::vectors::{N_VECTORS, VECTOR_NAMES, VECTORS, Vector, VectorSearch};
use crate::error::{Reason, Result};
use crate::run::Run;
use crate::schema::{Kind, REASONS};
use crate::store::Store;
use crate::tables::{Batches, Columns, Part, table};

/// What a trace shows of a vector.
struct Shown {
    vector: Vector,
    /// Events that show it over safety flows alone, where these are a lower bound.
    lower: Option<u32>,
}

/// The vectors of a trace, or the reason why there is no closure.
type Answer = std::result::Result<[Shown; N_VECTORS], Reason>;

/// The attack vectors of every trace: a row for each of them, be it that the recording does not show it.
pub fn attack_vectors(store: &Store, options: &Options, channels: &Channels, run: &Run) -> Result<Batches> {
    options.check()?;
    let id = Field::new("item", DataType::Utf8View, true);
    let schema = Arc::new(Schema::new(vec![
        key("trace", Kind::U32),
        key("trace_id", Kind::Text),
        key("task_id", Kind::Text),
        key("vector", Kind::Word(VECTORS)),
        key("name", Kind::Word(VECTOR_NAMES)),
        field("n_seeds", Kind::U32),
        field("n_events", Kind::U32),
        field("n_events_lower", Kind::U32),
        field("first_event", Kind::Text),
        field("entry", Kind::Word(CHANNELS)),
        Field::new("path", DataType::List(Arc::new(id)), true),
        field("reason", Kind::Word(REASONS)),
    ]));
    let of = |(worker, search): &mut (Worker, VectorSearch), rows: &mut Vec<Answer>, part: &Part<'_>, i| {
        let view = &part.trace(i);
        rows.push(worker.with(view, &options.rules, |taint, worker, scene| {
            let tools = &options.rules.tools;
            let vectors = search.find(taint, scene, tools, channels);
            let lower = worker.lower(scene, &options.rules);
            let lower = lower.map(|lower| search.find(lower, scene, tools, channels).map(|one| one.events));
            let mut at = 0..;
            vectors.map(|vector| {
                let lower = at.next().zip(lower).map(|(at, lower): (usize, _)| lower[at]);
                Shown { vector, lower }
            })
        }));
        Ok(())
    };
    let set = |columns, part: &Part<'_>, answers: Vec<Answer>| set(columns, part, &answers);
    table(store, run, schema, <((Worker, VectorSearch), Vec<_>)>::default, of, set)
}

/// The word of each row, once for every vector of every trace.
fn words(n: usize) -> Vec<u8> {
    (0..n).flat_map(|_| 0..N_VECTORS as u8).collect()
}

fn set(columns: Columns, part: &Part<'_>, answers: &[Answer]) -> Result<Columns> {
    let each = || {
        answers.iter().enumerate().flat_map(|(i, answer)| {
            (0..N_VECTORS)
                .map(move |at| (i, answer.as_ref().map(|shown| &shown[at]).map_err(|reason| *reason)))
        })
    };
    let decided = || each().map(|(i, shown)| (i, shown.ok().filter(|shown| shown.vector.known)));
    let counts = |of: fn(&Shown) -> Option<u32>| decided().map(move |(_, shown)| of(shown?));
    let id = |i: usize, v: u32| part.view.event_id(i, v as usize);
    let places = UInt32Array::from_iter_values(each().map(|(i, _)| i as u32));
    let entries = decided().map(|(_, shown)| shown.and_then(|shown| shown.vector.entry));
    columns
        .taken(&["trace", "trace_id", "task_id"], &part.chunk.traces, &places)?
        .words("vector", words(answers.len()), VECTORS)?
        .words("name", words(answers.len()), VECTOR_NAMES)?
        .counts("n_seeds", counts(|shown| Some(shown.vector.seeds)))
        .counts("n_events", counts(|shown| Some(shown.vector.events)))
        .counts("n_events_lower", counts(|shown| shown.lower))
        .texts("first_event", decided().map(|(i, shown)| id(i, shown?.vector.first?)))
        .words("entry", entries.map(|entry| entry.map_or(u8::MAX, |way| way as u8)).collect(), CHANNELS)?
        .set(
            "path",
            id_lists(
                &part.view,
                decided().map(|(i, shown)| (i, shown.map_or(&[][..], |shown| &shown.vector.path))),
            ),
        )
        .reasons(each().map(|(_, shown)| match shown {
            Err(reason) => Some(reason),
            Ok(shown) => (!shown.vector.known).then_some(Reason::FieldAbsent),
        }))
}
