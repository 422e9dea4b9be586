//! Parts of one trace's credit as columns: the method's own rows, and the terms of selected ones.
//!
//! For whoever shows where a number came from, so that nobody has to know again what methods compute.

use super::decisions::{Decisions, Vocabulary};
use super::groups::GroupOf;
use super::method::{Method, Values};
use super::params::Params;
use super::reward::Channels;
use super::terms::{Credited, RowKind, Subject, Term, Terms};
use crate::error::{Error, Result};
use crate::graph::{CanonicalOrder, NO_UNIT, Partition, TraceGraph};
use crate::run::Run;
use crate::schema::{Column, Dict, EVENT_TYPES, Kind, Reason, Unit};
use crate::store::Store;
use crate::store::view::{ChunkView, TraceView};
use crate::tables::{Batches, Columns, schema_of};

/// A question about a trace.
#[derive(Debug)]
pub struct Question<'a> {
    /// Number of the trace.
    pub trace: u32,
    /// What a trace is paid: weighted reward channels.
    pub reward: &'a [(String, f64)],
    /// Reward channels of the corpus that this store is a part of.
    pub elsewhere: &'a [String],
    /// Checked parameters of the method.
    pub params: &'a Params,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

static OWN_ROWS: [Column; 3] =
    [column("seq", Kind::U32), column("row", Kind::U32), column("label", Kind::Text)];

static TERMS: [Column; 7] = [
    column("part", Kind::U32),
    column("kind", Kind::Text),
    column("seq", Kind::U32),
    column("other", Kind::Text),
    column("weight", Kind::F64),
    column("amount", Kind::F64),
    column("rule", Kind::Text),
];

/// The own row of the method that every event of a trace is in, null where it is in none, and what that row is called where
/// it is no event: `seq row label`. No row if the method cannot serve the trace. O(events + edges) of the trace.
pub fn own_rows(store: &Store, method: &Method, question: &Question<'_>) -> Result<Batches> {
    let mut names = Names::new(store);
    let place = names.place_of(question.trace)?;
    let view = names.view(place);
    let amount = question.amount(store, &view)?;
    let Some(rows) = amount.and_then(|amount| rows_of(method, store, &view, amount, question.params)) else {
        return single_batch(&OWN_ROWS, |columns| {
            columns.counts("seq", []).counts("row", []).texts("label", [])
        });
    };
    let kind = kind_of(method, question.params);
    let labels = names.labels(place, kind, &rows);
    let events = || 0..view.len() as u32;
    let row_of = |v: u32| Some(rows.get(v as usize).copied().unwrap_or(v)).filter(|&row| row != NO_UNIT);
    let label = events().map(|v| {
        let row = row_of(v).filter(|_| kind != RowKind::Event)?;
        labels.get(row as usize)?.as_ref().map(|(_, label)| label.as_str())
    });
    single_batch(&OWN_ROWS, |columns| {
        columns.counts("seq", events().map(Some)).counts("row", events().map(row_of)).texts("label", label)
    })
}

/// The terms that the amounts of some own rows are made of, each row named by one of its events: `part kind seq other weight
/// amount rule`, where `part` is the place in `events`. Σ weight × amount over the terms of a part is its amount; those
/// without a weight stand beside. Empty for methods whose amounts are no such sums. O(events + edges) of the traces that
/// the method compares, O(own rows of the group) for each of `events`.
pub fn terms(
    store: &Store,
    method: &Method,
    question: &Question<'_>,
    events: &[u32],
    run: &Run,
) -> Result<Batches> {
    store.expect_whole()?;
    let mut names = Names::new(store);
    let place = names.place_of(question.trace)?;
    let view = names.view(place);
    if let Some(beyond) = events.iter().find(|&&v| v as usize >= view.len()) {
        return Err(Error::Parameter(format!(
            "event {beyond} of trace {}, which has {} events",
            question.trace,
            view.len()
        )));
    }
    let kind = kind_of(method, question.params);
    let mut out = Terms::default();
    let (parts, group, rows) = match method {
        Method::PerTrace(method) => {
            let (mut graph, mut values) = (TraceGraph::default(), Values::default());
            graph.begin();
            let amount = question.amount(store, &view)?;
            let served =
                amount.filter(|&r| method.assign(&view, r, question.params, &mut graph, &mut values).is_ok());
            let (parts, rows) = with_rows(events, |v| values.row_of.get(v as usize).copied().unwrap_or(v));
            if let Some(amount) = served {
                let params = question.params;
                let credited = Credited { view: &view, amount, params, values: &values, rows: &rows };
                method.terms(&credited, &mut graph, &mut out);
            }
            (parts, None, values.row_of)
        }
        Method::PerGroup(method) => {
            let channels = question.channels(store)?;
            let reward = |view: &TraceView<'_>| channels.paid(view);
            let group_of_trace =
                run.pool().install(|| GroupOf::find(*method, store, &reward, question.params, place, run))?;
            let Some(group) = group_of_trace else { return rendered(&[], |_| (None, None)) };
            let rows_of_trace = names.row_of(&group, place);
            let of_events = if kind == RowKind::Event { Vec::new() } else { rows_of_trace.clone() };
            let (parts, rows) = with_rows(events, |v| {
                let local = if rows_of_trace.is_empty() { 0 } else { rows_of_trace[v as usize] };
                group.row(local).unwrap_or(NO_UNIT)
            });
            method.terms(&group.rows(), question.params, &rows, &mut out);
            (parts, Some(group), of_events)
        }
        Method::PerGame(_) => (Vec::new(), None, Vec::new()),
    };
    let own_labels = names.labels(place, kind, &rows);
    let mut list = out.into_list();
    for term in &mut list {
        term.part = parts[term.part as usize];
    }
    let mut describe = |term: &Term| {
        let of_own = |row: u32| own_labels.get(row as usize).and_then(Option::as_ref);
        let (seq, name) = match term.subject {
            Subject::Nothing => (None, None),
            Subject::OwnRow(row) => match kind {
                RowKind::Event => (Some(row), None),
                _ => of_own(row).map_or((None, None), |(v, label)| (Some(*v), Some(label.clone()))),
            },
            Subject::Edge(from, to) => {
                let event =
                    |row| if kind == RowKind::Event { Some(row) } else { of_own(row).map(|(v, _)| *v) };
                let id = event(to).and_then(|v| view.id.get(v as usize)).map(str::to_owned);
                (event(from), id)
            }
            Subject::Rollout(rollout) => {
                let name = group.as_ref().map(|g| names.view(g.trace(rollout)).trace_id.to_owned());
                (None, name)
            }
            Subject::Row(row) | Subject::PlacedRow(row) => {
                let place_and_name = group.as_ref().and_then(|group| names.of_row(group, row, kind));
                let placed = matches!(term.subject, Subject::PlacedRow(_));
                place_and_name.map_or((None, None), |(v, name)| (v.filter(|_| placed), Some(name)))
            }
        };
        let other = match (name, &*term.note) {
            (None, "") => None,
            (name, note) => Some(name.unwrap_or_default() + note),
        };
        (seq, other)
    };
    rendered(&list, &mut describe)
}

/// Parts that have a row, and their rows.
fn with_rows(events: &[u32], row: impl Fn(u32) -> u32) -> (Vec<u32>, Vec<u32>) {
    (0..).zip(events.iter().map(|&v| row(v))).filter(|&(_, row)| row != NO_UNIT).unzip()
}

impl Question<'_> {
    fn amount(&self, store: &Store, view: &TraceView<'_>) -> Result<Option<f64>> {
        Ok(self.channels(store)?.paid(view))
    }

    fn channels(&self, store: &Store) -> Result<Channels> {
        Channels::of(store, self.reward, self.elsewhere)
    }
}

fn kind_of(method: &Method, params: &Params) -> RowKind {
    match method {
        Method::PerTrace(method) => method.row_kind(params),
        Method::PerGroup(method) => method.row_kind(params),
        Method::PerGame(_) => RowKind::Event,
    }
}

/// Own row of every event; empty where the rows are the events.
fn rows_of(
    method: &Method,
    store: &Store,
    view: &TraceView<'_>,
    amount: f64,
    params: &Params,
) -> Option<Vec<u32>> {
    let mut graph = TraceGraph::default();
    graph.begin();
    let served: std::result::Result<Vec<u32>, Reason> = match method {
        Method::PerTrace(method) => {
            let mut values = Values::default();
            method.assign(view, amount, params, &mut graph, &mut values).map(|()| values.row_of)
        }
        Method::PerGroup(method) => {
            let corpus = Vocabulary::new(store, params.text("batch"));
            let mut rows = Decisions::default();
            let decided = method.decide(view, amount, params, &corpus, &mut graph, &mut rows);
            decided.map(|()| match method.row_kind(params) {
                RowKind::Trace => vec![0; view.len()],
                RowKind::Event if params.text("rows") == Some("events") => Vec::new(),
                // of events that are compared the row is the event
                RowKind::Event => {
                    let row_of_event = |(v, row): (u32, &u32)| if *row == NO_UNIT { NO_UNIT } else { v };
                    (0..).zip(&rows.row_of).map(row_of_event).collect()
                }
                _ => rows.row_of,
            })
        }
        Method::PerGame(_) => Ok(Vec::new()),
    };
    served.ok()
}

/// First event of a row in canonical order, and what the row is called.
type Label = Option<(u32, String)>;

/// What traces, rows and events of a store are called.
struct Names<'a> {
    store: &'a Store,
    chunks: Vec<ChunkView<'a>>,
    graph: TraceGraph,
    /// Labels of the rollout that was asked for last.
    latest: Option<(u32, Vec<Label>)>,
}

impl<'a> Names<'a> {
    fn new(store: &'a Store) -> Self {
        let chunks = store.chunks().iter().map(|chunk| ChunkView::new(store, chunk)).collect();
        Self { store, chunks, graph: TraceGraph::default(), latest: None }
    }

    fn view(&self, (chunk, trace): (usize, usize)) -> TraceView<'a> {
        self.chunks[chunk].trace(trace)
    }

    fn place_of(&self, number: u32) -> Result<(usize, usize)> {
        let places = self.chunks.iter().enumerate();
        places
            .flat_map(|(at, chunk)| (0..chunk.len()).map(move |i| (at, i)))
            .find(|&place| self.view(place).trace == number)
            .ok_or_else(|| Error::Parameter(format!("the store has no trace {number}")))
    }

    fn row_of(&self, group: &GroupOf, place: (usize, usize)) -> Vec<u32> {
        let first = self.chunks[place.0].first_event(place.1);
        group.row_of(group.own_rollout(), first, self.view(place).len()).to_vec()
    }

    /// Of every own row of a trace; `rows` is that of each event, empty where the rows are the events.
    fn labels(&mut self, place: (usize, usize), kind: RowKind, rows: &[u32]) -> Vec<Label> {
        let view = self.view(place);
        if rows.is_empty() {
            return Vec::new();
        }
        let n = rows.iter().filter(|row| **row != NO_UNIT).max().map_or(0, |row| *row as usize + 1);
        let mut labels: Vec<Label> = vec![None; n];
        self.graph.begin();
        let mut partition = Partition::default();
        let level = if kind == RowKind::Turn { Unit::Turn } else { Unit::Agent };
        partition.compute(level, &view, &mut self.graph);
        let mut order = CanonicalOrder::default();
        order.compute(view.t);
        for &v in order.rows() {
            let Some(label) = labels.get_mut(rows[v as usize] as usize) else { continue };
            if label.is_none() {
                *label = Some((v, self.label(&view, kind, &partition, v)));
            }
        }
        labels
    }

    fn label(&self, view: &TraceView<'_>, kind: RowKind, partition: &Partition, v: u32) -> String {
        let names = self.store.names();
        let row = v as usize;
        match kind {
            RowKind::Event => view.id.get(row).unwrap_or_default().to_owned(),
            RowKind::Trace => view.trace_id.to_owned(),
            RowKind::Text => view.text_key(row).unwrap_or_default().to_owned(),
            RowKind::Action => {
                let kind = EVENT_TYPES[view.types[row] as usize];
                let tool = view.tool.get(row).map(|code| names.dict(Dict::Tool).name(code));
                tool.map_or_else(|| kind.to_owned(), |tool| format!("{kind}, {tool}"))
            }
            RowKind::Turn | RowKind::Agent => {
                let unit = if partition.is_identity() { v } else { partition.of_events()[row] };
                let mut id = String::new();
                if unit != NO_UNIT {
                    let of = |dict: Dict| move |code: u32| names.dict(dict).name(code);
                    partition.name(unit as usize).write_id(view, of(Dict::Agent), of(Dict::Role), &mut id);
                }
                id
            }
        }
    }

    /// What a row of the group is called, and its first event if it is of the trace that is asked about.
    fn of_row(&mut self, group: &GroupOf, row: u32, kind: RowKind) -> Option<(Option<u32>, String)> {
        let (rollout, local) = group.place(row)?;
        let place = group.trace(rollout);
        let view = self.view(place);
        if self.latest.as_ref().is_none_or(|(known, _)| *known != rollout) {
            let first = self.chunks[place.0].first_event(place.1);
            let rows = group.row_of(rollout, first, view.len());
            let labels = self.labels(place, kind, rows);
            self.latest = Some((rollout, labels));
        }
        let (_, labels) = self.latest.as_ref()?;
        let (v, label) = labels.get(local as usize)?.as_ref()?;
        let name = format!("{}: {label}", view.trace_id);
        Some((Some(*v).filter(|_| group.is_own(rollout)), name))
    }
}

fn rendered(
    list: &[Term],
    mut describe: impl FnMut(&Term) -> (Option<u32>, Option<String>),
) -> Result<Batches> {
    let (seq, other): (Vec<_>, Vec<_>) = list.iter().map(&mut describe).unzip();
    single_batch(&TERMS, |columns| {
        columns
            .counts("part", list.iter().map(|term| Some(term.part)))
            .texts("kind", list.iter().map(|term| Some(term.kind.as_str())))
            .counts("seq", seq)
            .texts("other", other.iter().map(Option::as_deref))
            .numbers("weight", list.iter().map(|term| term.weight))
            .numbers("amount", list.iter().map(|term| Some(term.amount)))
            .texts("rule", list.iter().map(|term| Some(&*term.rule)))
    })
}

fn single_batch(columns: &[Column], set: impl FnOnce(Columns) -> Columns) -> Result<Batches> {
    let schema = schema_of(columns);
    Ok((vec![set(Columns::new(&schema)).finish()?], schema))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt32Type};
    use arrow_array::{Array, Float64Array, RecordBatch, StringViewArray};

    use super::super::{METHODS, Request, Value, credit, find};
    use super::*;
    use crate::ingest::{Input, ReadOptions, read};
    use crate::schema::Over;

    /// Eight runs of two tasks: calls and messages of two agents, then an aggregate; the last has a cycle.
    fn store() -> Store {
        let run = |trace: usize| {
            let event = |v: usize| {
                let agent = ["a", "b"][(v / 2) % 2];
                let kind = ["tool_call", "message", "tool_call", "aggregate"][if v == 6 { 3 } else { v % 3 }];
                let tool = if kind == "tool_call" { r#","tool":"web""# } else { "" };
                let key = ["x", "y", "z"][(trace * (v + 1)) % 3];
                let value = (trace + 3 * v) % 5;
                format!(
                    r#"{{"id":"e{v}","t":{v},"type":"{kind}","agent":"{agent}"{tool},"args_hash":"{key}","content_hash":"{key}","value":{value},"reward":0.{v}}}"#
                )
            };
            let events: Vec<String> = (0..7).map(event).collect();
            let edge = |s: usize, d: usize| format!(r#"{{"src":"e{s}","dst":"e{d}","type":"causal"}}"#);
            let mut edges: Vec<String> =
                [(0, 1), (0, 2), (1, 6), (2, 4), (4, 6)].iter().map(|&(s, d)| edge(s, d)).collect();
            if trace == 7 {
                edges.push(edge(4, 2));
            }
            format!(
                r#"{{"trace_id":"t{trace}","task_id":"q{}","events":[{}],"edges":[{}],"rewards":{{"team":0.{}}},"costs":{{"tokens":0,"wall_clock_s":0}}}}"#,
                usize::from(trace > 5),
                events.join(","),
                edges.join(","),
                (trace * 7) % 10,
            )
        };
        let lines: Vec<String> = (0..8).map(run).collect();
        let reader = Box::new(std::io::Cursor::new(lines.join("\n")));
        let options = ReadOptions { block_size: 1500, ..ReadOptions::default() };
        let run = Run::new(Some(2)).expect("two threads");
        let input = Input::Stream { name: "memory".into(), reader };
        read(vec![input], &options, &run).expect("valid")
    }

    fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> &'a Float64Array {
        batch.column_by_name(name).expect("a column").as_primitive::<Float64Type>()
    }

    fn strings(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
        let column: &StringViewArray = batch.column_by_name(name).expect("a column").as_string_view();
        column.iter().map(|text| text.map(str::to_owned)).collect()
    }

    /// Credits of events, trace by trace; none where they are null.
    fn credits(store: &Store, method: &Method, params: &Params, run: &Run) -> Vec<Vec<Option<f64>>> {
        let rewards = [vec![("team".to_owned(), 1.0)]];
        let (unit, elsewhere, outcomes) = (Unit::Event, &[][..], None);
        let request =
            Request { rewards: &rewards, elsewhere, unit, over: Over::All, params, seed: 0, outcomes };
        let table = credit(store, method, &request, run).expect("credits").remove(0);
        let mut by_trace = vec![vec![None; 7]; store.n_traces()];
        for batch in &table.0 {
            let Some(credit) = batch.column_by_name("credit") else { continue };
            let credit = credit.as_primitive::<Float64Type>();
            let of = |name: &str| batch.column_by_name(name).map(AsArray::as_primitive::<UInt32Type>);
            let (trace, seq) = (of("trace").expect("traces"), of("seq").expect("events"));
            for row in (0..batch.num_rows()).filter(|&row| credit.is_valid(row) && seq.is_valid(row)) {
                by_trace[trace.value(row) as usize][seq.value(row) as usize] = Some(credit.value(row));
            }
        }
        by_trace
    }

    #[test]
    fn terms_sum_to_credits() {
        let (store, run) = (store(), Run::new(Some(2)).expect("two threads"));
        let reward = [("team".to_owned(), 1.0)];
        let text = |word: &'static str| Value::Text(word.into());
        let mut tried = 0;
        for method in METHODS {
            let info = method.info();
            let mut variants = vec![vec![]];
            for (name, value) in [
                ("rows", text("events")),
                ("compat", text("verl")),
                ("baseline", text("mean")),
                ("baseline", Value::Bool(true)),
                ("norm", text("mean")),
                ("by", text("message")),
                ("formula", text("dstar")),
                ("context", text("computed")),
                ("norm_std", Value::Bool(true)),
                ("kappa", Value::Float(0.0)),
            ] {
                if Params::check(info.params, &[(name, value.clone())]).is_ok() {
                    variants.push(vec![(name, value)]);
                }
            }
            for arguments in variants {
                let params = Params::check(info.params, &arguments).expect("as just checked");
                for (trace, credits) in credits(&store, method, &params, &run).iter().enumerate() {
                    let events: Vec<u32> = (0..7).filter(|&v| credits[v as usize].is_some()).collect();
                    let question =
                        Question { trace: trace as u32, reward: &reward, elsewhere: &[], params: &params };
                    let (batches, _) = terms(&store, method, &question, &events, &run).expect("terms");
                    let batch = &batches[0];
                    if matches!(method, Method::PerGame(_)) || info.name == "sharp" {
                        assert_eq!(batch.num_rows(), 0, "{}", info.name);
                        continue;
                    }
                    let part = batch.column(0).as_primitive::<UInt32Type>();
                    let (weight, amount) = (numbers(batch, "weight"), numbers(batch, "amount"));
                    let mut sums = vec![0.0; events.len()];
                    for row in (0..batch.num_rows()).filter(|&row| weight.is_valid(row)) {
                        sums[part.value(row) as usize] += weight.value(row) * amount.value(row);
                    }
                    for (&v, got) in events.iter().zip(sums) {
                        let want = credits[v as usize].expect("as just looked");
                        assert!(
                            (got - want).abs() < 1e-9,
                            "{} {arguments:?} {trace} {v}: {got} {want}",
                            info.name
                        );
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 1500, "{tried}");
    }

    #[test]
    fn rows_are_named() {
        let store = store();
        let reward = [("team".to_owned(), 1.0)];
        let rows = |name: &str, arguments: &[(&str, Value)], trace: u32| {
            let method = find(name).expect("a method");
            let params = Params::check(method.info().params, arguments).expect("parameters");
            let question = Question { trace, reward: &reward, elsewhere: &[], params: &params };
            own_rows(&store, method, &question).map(|table| {
                let batch = &table.0[0];
                let row = batch.column(1).as_primitive::<UInt32Type>().iter().collect::<Vec<_>>();
                (row, strings(batch, "label"))
            })
        };
        let all = |row: u32, label: &str| (vec![Some(row); 7], vec![Some(label.to_owned()); 7]);
        assert_eq!(rows("grpo", &[], 2).expect("rows"), all(0, "t2"));
        assert_eq!(rows("broadcast", &[], 2).expect("rows"), all(0, "t2"));
        let (row, label) = rows("flow", &[], 0).expect("rows");
        assert_eq!(row, (0..7).map(Some).collect::<Vec<_>>());
        assert_eq!(label, vec![None; 7]);
        let (row, label) = rows("spectrum", &[], 0).expect("rows");
        assert_eq!(row, [0, 1, 0, 0, 1, 0, 2].map(Some));
        let words = ["tool_call, web", "message", "aggregate"];
        assert_eq!(label, row.iter().map(|r| r.map(|r| words[r as usize].to_owned())).collect::<Vec<_>>());
        let (_, label) = rows("spectrum", &[("by", Value::Text("agent".into()))], 0).expect("rows");
        assert_eq!(label, ["a", "a", "b", "b", "a", "a", "b"].map(|name| Some(name.to_owned())));
        // a trace with a cycle has no contexts, and no flow
        assert_eq!(rows("c3", &[], 7).expect("rows").0, []);
        assert_eq!(rows("flow", &[], 7).expect("rows").0, []);
        assert!(rows("flow", &[], 8).unwrap_err().to_string().contains("no trace 8"));
    }
}
