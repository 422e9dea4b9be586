//! Steps, and turns in which agents act, as tables.

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, UInt32Array, UInt64Array};
use std::sync::Arc;

use super::steps::{Finder, Key, Step, Words};
use super::turns::{Act, Actor, FEATURES};
use crate::error::Result;
use crate::graph::{NOBODY, TraceGraph, UnitName};
use crate::run::Run;
use crate::schema::{Column, Dict, EVENT_TYPES, Kind};
use crate::store::view::TraceView;
use crate::store::{Store, code_array};
use crate::tables::{Batches, Columns, of_chunks, schema_of};

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

static LANE_STEPS: [Column; 11] = [
    column("trace", Kind::U32),
    column("seq", Kind::U32),
    column("owner", Kind::Name(Dict::Agent)),
    column("role", Kind::Name(Dict::Role)),
    column("ordinal", Kind::U32),
    column("is_root", Kind::Bool),
    column("place", Kind::U32),
    column("type", Kind::Word(EVENT_TYPES)),
    column("tool", Kind::Name(Dict::Tool)),
    column("key", Kind::U64),
    column("prefix", Kind::U64),
];

/// The steps of every trace in canonical order: `trace seq owner role ordinal is_root place type tool key prefix`; with `root_only`
/// those of the root agent. O(events log events).
pub fn lane_steps(store: &Store, key: Key, root_only: bool, run: &Run) -> Result<Batches> {
    let schema = schema_of(&LANE_STEPS);
    let words = Words::of(store);
    let begin = || (TraceGraph::default(), Finder::new(&words, key));
    let batches = of_chunks(store, run, begin, |(graph, finder), part| {
        let mut rows = Rows::default();
        for i in 0..part.view.len() {
            let view = part.trace(i);
            graph.begin();
            let owners = graph.owners(&view);
            let root = owners.root().and_then(|code| owners.name_index(code));
            let from = rows.steps.len();
            finder.each(&view, graph, |step| {
                let is_root = Some(step.owner) == root;
                if is_root || !root_only {
                    rows.push(&view, step, is_root);
                }
            });
            let names = graph.owners(&view).names();
            for step in &rows.steps[from..] {
                let name = &names[step.owner as usize];
                rows.names[0].push(name.code);
                rows.names[1].push(name.role().unwrap_or(NOBODY));
            }
        }
        rows.finish(Columns::new(&schema), store)?.finish()
    })?;
    Ok((batches, schema))
}

#[derive(Default)]
struct Rows {
    traces: Vec<u32>,
    steps: Vec<Step>,
    roots: Vec<bool>,
    kinds: Vec<u8>,
    names: [Vec<u32>; 3],
}

impl Rows {
    fn push(&mut self, view: &TraceView<'_>, step: Step, is_root: bool) {
        let event = step.seq as usize;
        self.traces.push(view.trace);
        self.kinds.push(view.types[event]);
        self.names[2].push(view.tool.get(event).unwrap_or(NOBODY));
        self.steps.push(step);
        self.roots.push(is_root);
    }

    fn finish(self, columns: Columns, store: &Store) -> Result<Columns> {
        let [owners, roles, tools] = self.names;
        let counts = |of: fn(&Step) -> u32| {
            Arc::new(self.steps.iter().map(|step| Some(of(step))).collect::<UInt32Array>())
        };
        let keys: UInt64Array = self.steps.iter().map(|step| step.key).collect();
        let prefixes: UInt64Array = self.steps.iter().map(|step| Some(step.prefix)).collect();
        Ok(columns
            .set("trace", Arc::new(UInt32Array::from(self.traces)))
            .set("seq", counts(|step| step.seq))
            .set("owner", code_array(owners, store.names().array(Dict::Agent))?)
            .set("role", code_array(roles, store.names().array(Dict::Role))?)
            .set("ordinal", counts(|step| step.ordinal))
            .set("is_root", Arc::new(BooleanArray::from(self.roots)))
            .set("place", counts(|step| step.place))
            .words("type", self.kinds, EVENT_TYPES)?
            .set("tool", code_array(tools, store.names().array(Dict::Tool))?)
            .set("key", Arc::new(keys))
            .set("prefix", Arc::new(prefixes)))
    }
}

/// The turns of every trace in which agents act, in canonical order: `trace`, its place among the trace's turns, `unit_id
/// agent seq` and [`FEATURES`]. O(events log events + edges).
pub fn blame_candidates(store: &Store, run: &Run) -> Result<Batches> {
    let mut columns = vec![
        column("trace", Kind::U32),
        column("turn", Kind::U32),
        column("unit_id", Kind::Text),
        column("agent", Kind::Name(Dict::Agent)),
        column("seq", Kind::U32),
    ];
    columns.extend(FEATURES.map(|name| column(name, Kind::F64)));
    let schema = schema_of(&columns);
    let begin = || (TraceGraph::default(), Actor::default(), String::new());
    let batches = of_chunks(store, run, begin, |(graph, actor, id), part| {
        let mut acts = Acts::default();
        for i in 0..part.view.len() {
            let view = part.trace(i);
            graph.begin();
            actor.each(&view, graph, |act| acts.push(&view, act, store, id));
        }
        acts.finish(Columns::new(&schema), store)?.finish()
    })?;
    Ok((batches, schema))
}

#[derive(Default)]
struct Acts {
    traces: Vec<u32>,
    turns: Vec<u32>,
    ids: StringViewBuilder,
    agents: Vec<u32>,
    firsts: Vec<u32>,
    features: [Vec<f64>; FEATURES.len()],
}

impl Acts {
    fn push(&mut self, view: &TraceView<'_>, act: Act, store: &Store, id: &mut String) {
        id.clear();
        let of = |dict: Dict| move |code: u32| store.names().dict(dict).name(code);
        UnitName::Turn(act.agent, act.label).write_id(view, of(Dict::Agent), of(Dict::Role), id);
        self.traces.push(view.trace);
        self.turns.push(act.turn);
        self.ids.append_value(&id);
        self.agents.push(act.agent);
        self.firsts.push(act.first);
        self.features.iter_mut().zip(act.features).for_each(|(column, value)| column.push(value));
    }

    fn finish(mut self, columns: Columns, store: &Store) -> Result<Columns> {
        let columns = columns
            .set("trace", Arc::new(UInt32Array::from(self.traces)))
            .set("turn", Arc::new(UInt32Array::from(self.turns)))
            .set("unit_id", Arc::new(self.ids.finish()))
            .set("agent", code_array(self.agents, store.names().array(Dict::Agent))?)
            .set("seq", Arc::new(UInt32Array::from(self.firsts)));
        let features = FEATURES.into_iter().zip(self.features);
        Ok(features.fold(columns, |columns, (name, values)| {
            let values: ArrayRef = Arc::new(Float64Array::from(values));
            columns.set(name, values)
        }))
    }
}
