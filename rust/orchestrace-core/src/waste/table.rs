//! Classes of events, and failures of traces, as tables.

use arrow_array::UInt32Array;

use super::classes::{CLASSES, Class, Classes, answer_stood};
use super::failures::{Answer, FAILURES, Failures, Tools};
use super::scene::{Preparation, without_none};
use crate::error::Result;
use crate::graph::NOBODY;
use crate::run::Run;
use crate::schema::{Column, Dict, Kind, REASONS, Reason};
use crate::store::{Store, code_array};
use crate::tables::{Batches, Columns, Part, schema_of, table};

/// Options of both tables.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What tools do.
    pub tools: Tools,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

static EVENTS: [Column; 9] = [
    column("trace", Kind::U32),
    column("seq", Kind::U32),
    column("owner", Kind::Name(Dict::Agent)),
    column("tool", Kind::Name(Dict::Tool)),
    column("call", Kind::U32),
    column("made_by", Kind::U32),
    column("class", Kind::Word(CLASSES)),
    column("after_answer", Kind::Bool),
    column("reason", Kind::Word(REASONS)),
];

static TRACES: [Column; 6] = [
    column("trace", Kind::U32),
    column("trace_id", Kind::Text),
    column("class", Kind::Word(FAILURES)),
    column("seq", Kind::U32),
    column("n", Kind::U32),
    column("reason", Kind::Word(REASONS)),
];

struct Row {
    owner: u32,
    tool: u32,
    call: u32,
    maker: u32,
    class: std::result::Result<Class, Reason>,
    after: Option<bool>,
}

/// The class of every event, in the order of the table `events`: its owner, of calls and their results the tool, the call
/// and what made it, and whether the answer stood by then. O(events + edges + c log c) for c calls.
pub fn waste_events(store: &Store, options: &Options, run: &Run) -> Result<Batches> {
    let of = |worker: &mut (Preparation, Classes), rows: &mut Vec<Row>, part: &Part<'_>, i: usize| {
        let view = part.trace(i);
        let scene = worker.0.prepare(&view);
        worker.1.compute(&scene, &options.tools.reading);
        let stood = answer_stood(&scene);
        rows.extend(worker.1.of_events.iter().enumerate().map(|(v, &class)| {
            let call = scene.calls.place_of(v as u32).map(|at| scene.calls.list()[at]);
            let event = call.map_or(NOBODY, |call| call.event);
            let tool = call.and_then(|call| view.tool.get(call.event as usize).or_else(|| view.tool.get(v)));
            Row {
                owner: scene.owners.codes()[v],
                tool: tool.unwrap_or(NOBODY),
                call: event,
                maker: call.filter(|call| call.event == v as u32).map_or(NOBODY, |call| call.maker),
                class,
                after: stood.map(|stood| scene.place[v] > stood),
            }
        }));
        Ok(())
    };
    let names = store.names();
    let columns = |columns: Columns, part: &Part<'_>, rows: Vec<Row>| {
        let codes = |of: fn(&Row) -> u32| rows.iter().map(of).collect::<Vec<u32>>();
        let class = |row: &Row| row.class.map_or(u8::MAX, |class| class as u8);
        columns
            .shared(&["trace", "seq"], &part.chunk.events)
            .set("owner", code_array(codes(|row| row.owner), names.array(Dict::Agent))?)
            .set("tool", code_array(codes(|row| row.tool), names.array(Dict::Tool))?)
            .counts("call", rows.iter().map(|row| without_none(row.call)))
            .counts("made_by", rows.iter().map(|row| without_none(row.maker)))
            .words("class", rows.iter().map(class).collect(), CLASSES)?
            .flags("after_answer", rows.iter().map(|row| row.after))
            .reasons(rows.iter().map(|row| row.class.err()))
    };
    table(store, run, schema_of(&EVENTS), Default::default, of, columns)
}

/// What each structural class says of every trace, six rows each. O(events + edges) and a logarithm.
pub fn failure_classes(store: &Store, options: &Options, run: &Run) -> Result<Batches> {
    let of = |worker: &mut (Preparation, Failures), rows: &mut Vec<Sign>, part: &Part<'_>, i: usize| {
        let view = part.trace(i);
        let answers = worker.1.compute(&worker.0.prepare(&view), &options.tools);
        rows.extend(answers.into_iter().zip(0..).map(|(answer, class)| Sign {
            trace: i as u32,
            class,
            answer,
        }));
        Ok(())
    };
    let columns = |columns: Columns, part: &Part<'_>, rows: Vec<Sign>| {
        let places = UInt32Array::from_iter_values(rows.iter().map(|row| row.trace));
        let shows = || rows.iter().map(|row| row.answer.ok());
        columns
            .taken(&["trace", "trace_id"], &part.chunk.traces, &places)?
            .words("class", rows.iter().map(|row| row.class).collect(), FAILURES)?
            .counts("seq", shows().map(|shows| shows?.event))
            .counts("n", shows().map(|shows| Some(shows?.n)))
            .reasons(rows.iter().map(|row| row.answer.err()))
    };
    table(store, run, schema_of(&TRACES), Default::default, of, columns)
}

/// What a class says of a trace, by its place in the chunk.
struct Sign {
    trace: u32,
    class: u8,
    answer: Answer,
}
