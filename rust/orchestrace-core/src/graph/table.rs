//! Owner, turn, unit, root and outcome flags of each event as columns (D4 to D6). Explanations take them from here and
//! never derive them again.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{BooleanArray, UInt32Array};

use super::trace::TraceGraph;
use super::units::{NO_UNIT, Partition};
use super::{NOBODY, Outcome};
use crate::error::Result;
use crate::run::Run;
use crate::schema::{Column, Dict, Kind, Unit};
use crate::store::view::TraceView;
use crate::store::{Store, code_array};
use crate::tables::{Batches, Columns, Part, of_chunks, schema_of};

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

/// Owner, role of the owner, call that a result answers, place of the turn among those of its trace, whether it is the
/// outcome, whether the root agent owns it; null where an event has none of it. A row for each event, in the order of the table `events`.
static OWNERSHIP: [Column; 8] = [
    column("trace", Kind::U32),
    column("seq", Kind::U32),
    column("owner", Kind::Name(Dict::Agent)),
    column("role", Kind::Name(Dict::Role)),
    column("call", Kind::U32),
    column("turn", Kind::U32),
    column("is_outcome", Kind::Bool),
    column("is_root", Kind::Bool),
];

static UNIT_IDS: [Column; 3] =
    [column("trace", Kind::U32), column("seq", Kind::U32), column("unit_id", Kind::Text)];

fn without_none(code: u32) -> Option<u32> {
    Some(code).filter(|&code| code != NOBODY)
}

/// Owners of the events: `trace seq owner role call turn is_outcome is_root`. O(events + edges).
pub fn ownership(store: &Store, run: &Run) -> Result<Batches> {
    of_events(store, run, &OWNERSHIP, |graph, part, columns| {
        let rows = part.chunk.events.num_rows();
        let mut names: [Vec<u32>; 2] = std::array::from_fn(|_| Vec::with_capacity(rows));
        let (mut calls, mut turns) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut ends: Vec<Option<bool>> = Vec::with_capacity(rows);
        let mut roots: Vec<Option<bool>> = Vec::with_capacity(rows);
        for i in 0..part.view.len() {
            let trace = part.trace(i);
            graph.begin();
            let outcome = graph.outcome(&trace);
            let (owners, of_turns) = graph.turns(&trace);
            let role = |at: u32| owners.names().get(at as usize).and_then(super::owner::Name::role);
            names[0].extend_from_slice(owners.codes());
            names[1].extend(owners.indices().iter().map(|&at| role(at).unwrap_or(NOBODY)));
            let root = owners.root();
            roots
                .extend(owners.codes().iter().map(|&code| without_none(code).map(|code| root == Some(code))));
            calls.extend(owners.calls().iter().map(|&call| without_none(call)));
            turns.extend(of_turns.of_events().iter().map(|&turn| without_none(turn)));
            ends.extend((0..trace.len() as u32).map(|v| outcome.ok().map(|y| y == Outcome::Event(v))));
        }
        let [owners, roles] = names;
        let names = store.names();
        Ok(columns
            .set("owner", code_array(owners, names.array(Dict::Agent))?)
            .set("role", code_array(roles, names.array(Dict::Role))?)
            .set("call", Arc::new(UInt32Array::from(calls)))
            .set("turn", Arc::new(UInt32Array::from(turns)))
            .set("is_outcome", Arc::new(BooleanArray::from(ends)))
            .set("is_root", Arc::new(BooleanArray::from(roots))))
    })
}

/// The unit of a level that each event belongs to: `trace seq unit_id`, null where it belongs to none. O(events +
/// edges).
pub fn unit_ids(store: &Store, level: Unit, run: &Run) -> Result<Batches> {
    of_events(store, run, &UNIT_IDS, |graph, part, columns| {
        let mut ids = StringViewBuilder::with_capacity(part.chunk.events.num_rows());
        let mut partition = Partition::default();
        let mut id = String::new();
        for i in 0..part.view.len() {
            let trace = part.trace(i);
            graph.begin();
            partition.compute(level, &trace, graph);
            let name = |unit: usize, trace: &TraceView<'_>, id: &mut String| {
                id.clear();
                let of = |dict: Dict| move |code: u32| store.names().dict(dict).name(code);
                partition.name(unit).write_id(trace, of(Dict::Agent), of(Dict::Role), id);
            };
            for v in 0..trace.len() {
                let unit = if partition.is_identity() { v as u32 } else { partition.of_events()[v] };
                if unit == NO_UNIT {
                    ids.append_null();
                } else {
                    name(unit as usize, &trace, &mut id);
                    ids.append_value(&id);
                }
            }
        }
        Ok(columns.set("unit_id", Arc::new(ids.finish())))
    })
}

/// A batch for each chunk: the keys of its events, and the columns that `set` adds.
fn of_events(
    store: &Store,
    run: &Run,
    columns: &[Column],
    set: impl Fn(&mut TraceGraph, &Part<'_>, Columns) -> Result<Columns> + Sync + Send,
) -> Result<Batches> {
    let schema = schema_of(columns);
    let batches = of_chunks(store, run, TraceGraph::default, |graph, part| {
        let keys = Columns::new(&schema).shared(&["trace", "seq"], &part.chunk.events);
        set(graph, part, keys)?.finish()
    })?;
    Ok((batches, schema))
}
