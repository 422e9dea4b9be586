//! The taint of every trace as columns.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};

use super::table::{Options, Worker, field, id_lists, key};
use super::taint::Tally;
use super::touch::{Touch, Touches};
use crate::columns::intern::Interner;
use crate::error::{Reason, Result};
use crate::graph::{NOBODY, Outcome};
use crate::run::Run;
use crate::schema::{Dict, Kind, REASONS};
use crate::store::Store;
use crate::store::view::TraceView;
use crate::tables::{Batches, Columns, Part, table};

/// The row of one trace beyond the counts of its seeds.
#[derive(Debug, Default)]
struct Closure {
    outcome: Option<u32>,
    /// Whether the outcome is tainted and from how many seeds, where it is known.
    reached: Option<(bool, u32)>,
    lower: Option<(u32, Option<bool>)>,
    touches: Touches,
    agent: u32,
    path: Vec<u32>,
    /// The shortest one to the first privileged call.
    way: Vec<u32>,
    spread: Option<f64>,
    violations: Option<u32>,
    crossings: Option<u32>,
    risk: Option<(Option<f64>, f64)>,
    /// Why the outcome is not known.
    reason: Option<Reason>,
}

struct Answer {
    tally: Tally,
    trust: bool,
    closure: std::result::Result<Closure, Reason>,
}

fn answer(worker: &mut Worker, view: &TraceView<'_>, options: &Options) -> Answer {
    let closure = worker.with(view, &options.rules, |taint, worker, scene| {
        let tally = taint.tally();
        let touches = Touches::of(taint, scene, &options.rules.tools);
        let mut reached = Closure {
            outcome: if let Ok(Outcome::Event(y)) = scene.outcome { Some(y) } else { None },
            reached: taint.reaches_outcome(scene).ok().zip(taint.seeds_to_outcome(scene).ok()),
            reason: scene.outcome.err(),
            lower: worker
                .lower(scene, &options.rules)
                .map(|lower| (lower.tally().tainted, lower.reaches_outcome(scene).ok())),
            agent: touches.agent.map_or(NOBODY, |touch| scene.owners.codes()[touch.event as usize]),
            spread: taint.spread().ok(),
            violations: taint.is_sandboxed().then_some(tally.violations),
            crossings: taint.is_sandboxed().then_some(tally.crossings),
            ..Closure::default()
        };
        let nearest = scene.ends().filter(|&v| taint.is_tainted(v)).min_by_key(|&v| (taint.hops(v), v));
        let end = nearest.map(|v| v as u32).or_else(|| touches.action().map(|touch| touch.event));
        if let Some(end) = end {
            taint.path(end, &mut reached.path);
        }
        if let Some(call) = touches.call {
            taint.path(call.event, &mut reached.way);
        }
        reached.touches = touches;
        reached.risk = options.risk.map(|risk| {
            let (p, outcome) = taint.risk(scene, risk);
            (outcome, p.iter().sum())
        });
        reached
    });
    Answer {
        tally: worker.taint.tally(),
        trust: worker.taint.tally().unknown as usize != view.len(),
        closure,
    }
}

/// The taint of every trace, a row each.
pub fn taints(store: &Store, options: &Options, run: &Run) -> Result<Batches> {
    options.check()?;
    let path = |name: &str| {
        Field::new(name, DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true))), true)
    };
    let schema = Arc::new(Schema::new(vec![
        key("trace", Kind::U32),
        key("trace_id", Kind::Text),
        key("task_id", Kind::Text),
        field("n_untrusted", Kind::U32),
        field("n_trust_unknown", Kind::U32),
        field("n_seeds", Kind::U32),
        field("n_tainted", Kind::U32),
        field("taint_share", Kind::F64),
        field("outcome", Kind::Text),
        field("outcome_tainted", Kind::Bool),
        field("seeds_to_outcome", Kind::U32),
        field("n_tainted_lower", Kind::U32),
        field("outcome_tainted_lower", Kind::Bool),
        field("first_seed", Kind::Text),
        field("first_agent", Kind::Text),
        field("first_agent_event", Kind::Text),
        field("time_to_agent", Kind::F64),
        field("first_decision", Kind::Text),
        field("time_to_decision", Kind::F64),
        field("first_spawn", Kind::Text),
        field("time_to_spawn", Kind::F64),
        field("first_privileged_call", Kind::Text),
        field("time_to_privileged_call", Kind::F64),
        field("n_tainted_privileged", Kind::U32),
        path("privileged_path"),
        path("path"),
        field("taint_spread", Kind::F64),
        field("sandbox_violations", Kind::U32),
        field("sandbox_crossings", Kind::U32),
        field("outcome_probability", Kind::F64),
        field("expected_tainted", Kind::F64),
        field("reason", Kind::Word(REASONS)),
    ]));
    let of = |worker: &mut Worker, rows: &mut Vec<Answer>, part: &Part<'_>, i: usize| {
        rows.push(answer(worker, &part.trace(i), options));
        Ok(())
    };
    table(store, run, schema, <(Worker, Vec<_>)>::default, of, |columns, part, rows| {
        set(columns, part, &rows, store.names().dict(Dict::Agent))
    })
}

/// A value of each trace that has a closure.
fn each<'a, T>(
    rows: &'a [Answer],
    of: impl Fn(&'a Answer, &'a Closure) -> Option<T> + 'a,
) -> impl Iterator<Item = Option<T>> + 'a {
    rows.iter().map(move |answer| of(answer, answer.closure.as_ref().ok()?))
}

fn set(columns: Columns, part: &Part<'_>, rows: &[Answer], agents: &Interner) -> Result<Columns> {
    let ids = |of: fn(&Closure) -> Option<u32>| {
        let events = each(rows, move |_, c| of(c)).enumerate();
        events.map(|(i, v)| part.view.event_id(i, v? as usize))
    };
    let touched = |of: fn(&Touches) -> Option<Touch>| {
        let events = each(rows, move |_, c| of(&c.touches)).enumerate();
        events.map(|(i, touch)| part.view.event_id(i, touch?.event as usize))
    };
    let after = |of: fn(&Touches) -> Option<Touch>| each(rows, move |_, c| of(&c.touches).map(|t| t.after));
    let trust = |of: fn(&Tally) -> u32| rows.iter().map(move |a| a.trust.then(|| of(&a.tally)));
    let sizes = part.chunk.starts.windows(2).map(|w| (w[1][0] - w[0][0]).max(1));
    let shares = each(rows, |a, _| Some(a.tally.tainted)).zip(sizes);
    let path = |of: fn(&Closure) -> &[u32]| {
        let paths = rows.iter().map(move |a| a.closure.as_ref().map_or(&[][..], of));
        id_lists(&part.view, paths.enumerate())
    };
    columns
        .shared(&["trace", "trace_id", "task_id"], &part.chunk.traces)
        .counts("n_untrusted", trust(|tally| tally.untrusted))
        .counts("n_trust_unknown", trust(|tally| tally.unknown))
        .counts("n_seeds", each(rows, |a, _| Some(a.tally.seeds)))
        .counts("n_tainted", each(rows, |a, _| Some(a.tally.tainted)))
        .numbers("taint_share", shares.map(|(tainted, n)| Some(f64::from(tainted?) / f64::from(n))))
        .texts("outcome", ids(|c| c.outcome))
        .flags("outcome_tainted", each(rows, |_, c| Some(c.reached?.0)))
        .counts("seeds_to_outcome", each(rows, |_, c| Some(c.reached?.1)))
        .counts("n_tainted_lower", each(rows, |_, c| Some(c.lower?.0)))
        .flags("outcome_tainted_lower", each(rows, |_, c| c.lower?.1))
        .texts("first_seed", ids(|c| c.touches.seed))
        .texts("first_agent", each(rows, |_, c| (c.agent != NOBODY).then(|| agents.name(c.agent))))
        .texts("first_agent_event", touched(|t| t.agent))
        .numbers("time_to_agent", after(|t| t.agent))
        .texts("first_decision", touched(|t| t.decision))
        .numbers("time_to_decision", after(|t| t.decision))
        .texts("first_spawn", touched(|t| t.spawn))
        .numbers("time_to_spawn", after(|t| t.spawn))
        .texts("first_privileged_call", touched(|t| t.call))
        .numbers("time_to_privileged_call", after(|t| t.call))
        .counts("n_tainted_privileged", each(rows, |_, c| Some(c.touches.calls)))
        .set("privileged_path", path(|c| &c.way))
        .set("path", path(|c| &c.path))
        .numbers("taint_spread", each(rows, |_, c| c.spread))
        .counts("sandbox_violations", each(rows, |_, c| c.violations))
        .counts("sandbox_crossings", each(rows, |_, c| c.crossings))
        .numbers("outcome_probability", each(rows, |_, c| c.risk?.0))
        .numbers("expected_tainted", each(rows, |_, c| Some(c.risk?.1)))
        .reasons(rows.iter().map(|a| a.closure.as_ref().map_or_else(|reason| Some(*reason), |c| c.reason)))
}
