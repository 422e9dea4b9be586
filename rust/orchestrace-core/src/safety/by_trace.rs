//! The taint of every trace as columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringViewArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::table::{Ids, Options, Worker, field, key, over};
use super::taint::{Carry, Rules, Scene, Tally};
use super::touch::{Touch, Touches};
use crate::error::{Reason, Result};
use crate::graph::{NOBODY, Outcome};
use crate::run::Run;
use crate::schema::{Dict, Kind, REASONS};
use crate::store::view::{ChunkView, TraceView};
use crate::store::{Chunk, Store, word_array};

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
        let mut told = Closure {
            outcome: if let Ok(Outcome::Event(y)) = scene.outcome { Some(y) } else { None },
            reached: taint.reaches_outcome(scene).ok().zip(taint.seeds_to_outcome(scene).ok()),
            reason: scene.outcome.err(),
            lower: worker.lower_bound(scene, &options.rules),
            agent: touches.agent.map_or(NOBODY, |touch| scene.owners.codes()[touch.event as usize]),
            spread: taint.spread().ok(),
            violations: taint.is_sandboxed().then_some(tally.violations),
            crossings: taint.is_sandboxed().then_some(tally.crossings),
            ..Closure::default()
        };
        let nearest = scene.ends().filter(|&v| taint.is_tainted(v)).min_by_key(|&v| (taint.hops(v), v));
        let end = nearest.map(|v| v as u32).or_else(|| touches.action().map(|touch| touch.event));
        if let Some(end) = end {
            taint.path(end, &mut told.path);
        }
        if let Some(call) = touches.call {
            taint.path(call.event, &mut told.way);
        }
        told.touches = touches;
        told.risk = options.risk.map(|risk| {
            let (p, outcome) = taint.risk(scene, risk);
            (outcome, p.iter().sum())
        });
        told
    });
    Answer {
        tally: worker.taint.tally(),
        trust: worker.taint.tally().unknown as usize != view.len(),
        closure,
    }
}

impl Worker {
    /// The closure over exact safety flows; `None` where they are themselves an upper bound.
    fn lower_bound(&mut self, scene: &Scene<'_>, rules: &Rules) -> Option<(u32, Option<bool>)> {
        if scene.view.conservative_flows {
            return None;
        }
        let rules = Rules { carry: Carry::SafetyFlow, program_order: false, ..rules.clone() };
        let tally = self.lower.compute(scene, &rules).ok()?;
        Some((tally.tainted, self.lower.reaches_outcome(scene).ok()))
    }
}

/// The taint of every trace, a row each.
pub fn taints(store: &Store, options: &Options, run: &Run) -> Result<(Vec<RecordBatch>, SchemaRef)> {
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
    let of = |worker: &mut Worker, view: &TraceView<'_>, _: usize| answer(worker, view, options);
    let columns = |chunk: &Chunk, view: &ChunkView<'_>, told: Vec<Answer>| {
        let ids = Ids { view };
        let whole = || told.iter().map(|answer| answer.closure.as_ref().ok());
        let count = |of: &dyn Fn(&Answer, &Closure) -> Option<u32>| -> ArrayRef {
            let each = told.iter().map(|answer| answer.closure.as_ref().ok().and_then(|c| of(answer, c)));
            Arc::new(each.collect::<UInt32Array>())
        };
        let flag = |of: &dyn Fn(&Closure) -> Option<bool>| -> ArrayRef {
            Arc::new(whole().map(|c| c.and_then(of)).collect::<BooleanArray>())
        };
        let number = |of: &dyn Fn(&Closure) -> Option<f64>| -> ArrayRef {
            Arc::new(whole().map(|c| c.and_then(of)).collect::<Float64Array>())
        };
        let event = |of: &dyn Fn(&Closure) -> Option<u32>| -> ArrayRef {
            let each = whole().enumerate().map(|(i, c)| c.and_then(of).and_then(|v| ids.of(i, v)));
            Arc::new(each.collect::<StringViewArray>())
        };
        let first = |of: fn(&Touches) -> Option<Touch>| -> [ArrayRef; 2] {
            [event(&|c| of(&c.touches).map(|t| t.event)), number(&|c| of(&c.touches).map(|t| t.after))]
        };
        let trust = |of: fn(&Tally) -> u32| -> ArrayRef {
            Arc::new(
                told.iter().map(|answer| answer.trust.then(|| of(&answer.tally))).collect::<UInt32Array>(),
            )
        };
        let sizes: Vec<usize> = (0..view.len()).map(|i| view.trace(i).len()).collect();
        let shares = told.iter().zip(&sizes).map(|(answer, &n)| {
            answer.closure.is_ok().then(|| f64::from(answer.tally.tainted) / n.max(1) as f64)
        });
        let agents = store.names().dict(Dict::Agent);
        let name = |c: &Closure| (c.agent != NOBODY).then(|| agents.name(c.agent));
        let reason =
            |answer: &Answer| answer.closure.as_ref().map_or_else(|reason| Some(*reason), |c| c.reason);
        let reasons = told.iter().map(|answer| reason(answer).map_or(u8::MAX, |reason| reason as u8));
        let [agent, to_agent] = first(|t| t.agent);
        let [decision, to_decision] = first(|t| t.decision);
        let [spawn, to_spawn] = first(|t| t.spawn);
        let [call, to_call] = first(|t| t.call);
        Ok(vec![
            Arc::clone(chunk.traces.column(0)),
            Arc::clone(chunk.traces.column(1)),
            Arc::clone(chunk.traces.column(2)),
            trust(|tally| tally.untrusted),
            trust(|tally| tally.unknown),
            count(&|answer, _| Some(answer.tally.seeds)),
            count(&|answer, _| Some(answer.tally.tainted)),
            Arc::new(shares.collect::<Float64Array>()),
            event(&|c| c.outcome),
            flag(&|c| c.reached.map(|reached| reached.0)),
            count(&|_, c| c.reached.map(|reached| reached.1)),
            count(&|_, c| c.lower.map(|lower| lower.0)),
            flag(&|c| c.lower.and_then(|lower| lower.1)),
            event(&|c| c.touches.seed),
            Arc::new(whole().map(|c| c.and_then(name)).collect::<StringViewArray>()),
            agent,
            to_agent,
            decision,
            to_decision,
            spawn,
            to_spawn,
            call,
            to_call,
            count(&|_, c| Some(c.touches.calls)),
            ids.lists(whole().map(|c| c.map_or(&[][..], |c| &c.way))),
            ids.lists(whole().map(|c| c.map_or(&[][..], |c| &c.path))),
            number(&|c| c.spread),
            count(&|_, c| c.violations),
            count(&|_, c| c.crossings),
            number(&|c| c.risk.and_then(|risk| risk.0)),
            number(&|c| c.risk.map(|risk| risk.1)),
            word_array(reasons.collect(), REASONS)?,
        ])
    };
    Ok((over(store, run, &schema, of, columns)?, schema))
}
