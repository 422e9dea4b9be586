//! Structural counterfactuals of a run: abduction, action, prediction.
//!
//! ```text
//! abduction    x_v = the field `score`, kept within 0..1, else what the gate makes of its inputs;   u_v = x_v - f_v(x_pa)
//! action       events are absent (0) or set, edges carry 0, aggregates follow another rule (and lose their u)
//! prediction   x'_v = f_v(x'_pa) + u_v, kept within 0..1;   effect = x'_y - x_y
//! ```
//!
//! Only what is downstream of a change is computed again, and an event whose gate gives what it gave before keeps its
//! x bit for bit: no change, no effect, exactly. What is not among the ancestors of the outcome has the effect 0.
//!
//! The answer rests on the gates that are assumed. `lower` and `upper` are the least and the greatest effect over seven
//! families of them and the one that is asked for; where its sign is not the same in all of them the row says
//! `gate.unstable`. Tier: `surrogate`; `observed` where aggregates follow another rule, the outcome is a scored
//! aggregate, all its inputs are scored and the change alters none of them, since then no gate is assumed but the rule
//! itself, and all families agree.
//!
//! Where no value on a way to the outcome is recorded, and no weights are given, gates are all there is: that what is
//! changed leads to the outcome is known, what it is worth is not. The effect is then null (`support.absent`) between
//! bounds that include 0, the case that others would have done the work. A partial recording lacks ways to its outcome
//! that nobody knows of (`trace.partial`), and so has no effects at all.
//!
//! O((|V|+|E|) K/8) for K scenarios of a trace and each family, less what lies before the first change. Reference:
//! J. Pearl, Causality, 2009, section 7.1 (the three steps); docs/reference/definitions.md, D15 (gates).

mod absence;
mod predict;
mod presence;
mod table;

use std::ops::Range;

use rayon::prelude::*;

pub use self::absence::Absences;
use self::predict::{Base, Prediction};
pub use self::presence::presence;
pub use self::table::replay;
use super::intervention::masks::Scene;
use super::intervention::{Action, Masks, Plan, Roster, Segment};
use crate::error::{Error, Result};
use crate::graph::{GraphOptions, Outcome, TraceGraph};
use crate::run::Run;
use crate::schema::{Reason, Tier};
use crate::store::view::TraceView;
use crate::surrogate::Cost;
use crate::surrogate::{MAX_SETS, Model, Structure, Weights};

/// The families of gates over which an effect is bounded.
pub const FAMILIES: [Model; 7] =
    [Model::NoisyOr, Model::Typed, Model::Mean, Model::NoisyAnd, Model::Max, Model::Min, Model::Majority];

/// An effect below this is one that rounding makes.
const ROUNDING: f64 = 1e-12;

/// Assumptions of the replay.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The gates.
    pub structure: Structure,
    /// Whether effects are bounded over all families of gates.
    pub sensitivity: bool,
    /// Whether to report effects that rest on the graph and the assumed gates alone.
    pub structure_alone: bool,
    /// Whether consecutive events of one owner are joined (D3).
    pub program_order: bool,
}

/// The answer for one scenario, or one of its units, in one trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Number of the scenario.
    pub scenario: u32,
    /// Unit, where units are tried in turn.
    pub unit: Option<u32>,
    /// Outcome as recorded and in the scenario.
    pub values: Option<[f64; 2]>,
    /// Lower and upper bound of their difference.
    pub bounds: Option<[f64; 2]>,
    /// Tokens of the run and of what is left of it.
    pub tokens: Option<[i64; 2]>,
    /// What the answer rests on.
    pub tier: Option<Tier>,
    /// Share of the events that lead to the outcome whose value is recorded.
    pub support: Option<f64>,
    /// Why there is none, or what is to be said of it.
    pub reason: Option<Reason>,
}

impl Answer {
    fn none(scenario: usize, unit: Option<u32>, reason: Reason) -> Self {
        Self {
            scenario: scenario as u32,
            unit,
            values: None,
            bounds: None,
            tokens: None,
            tier: None,
            support: None,
            reason: Some(reason),
        }
    }
}

/// A worker's buffers for traces.
#[derive(Debug, Default)]
pub struct Replayer {
    graph: TraceGraph,
    roster: Roster,
    bases: Vec<Base>,
    tokens: Vec<i64>,
    worker: Worker,
}

/// A worker's buffers for blocks of scenarios.
#[derive(Debug, Default)]
struct Worker {
    masks: Masks,
    prediction: Prediction,
}

/// A trace, ready for any scenario.
struct Ready<'a> {
    plan: &'a Plan,
    scene: Scene<'a>,
    bases: &'a [Base],
    tokens: Option<(&'a [i64], i64)>,
    /// Share of the events that lead to the outcome whose value is recorded; why effects are not known.
    support: std::result::Result<f64, Reason>,
    /// Whether gates without any recorded value are not enough for an effect.
    cautious: bool,
    /// Whether effects are bounded over all families.
    bounded: bool,
}

impl Replayer {
    /// Appends the answers of a trace, by scenario, and hands the trace's units to `name` one by one in that order.
    pub fn answers(
        &mut self,
        view: &TraceView<'_>,
        plan: &Plan,
        options: &Options,
        run: &Run,
        answers: &mut Vec<Answer>,
        mut name: impl FnMut(&Scene<'_>, usize, u32),
    ) -> Result<()> {
        let Self { graph, roster, bases, tokens, worker } = self;
        graph.begin();
        let outcome_event = graph.outcome(view);
        let outcome =
            outcome_event.and_then(|y| if view.partial { Err(Reason::TracePartial) } else { Ok(y) });
        roster.compute(plan, view, graph);
        let tokens = count_tokens(graph.owners(view), view, tokens);
        let weights = Some(options.structure.weights.table());
        graph.build(view, GraphOptions { program_order: options.program_order, weights });
        let (csr, order) = graph.ordered();
        let Some(order) = order else {
            answers.extend(cyclic(plan));
            return Ok(());
        };
        let models = std::iter::once(options.structure.model)
            .chain(FAMILIES.iter().copied().filter(|m| options.sensitivity && *m != options.structure.model));
        let mut used = 0;
        for model in models {
            if bases.len() == used {
                bases.push(Base::default());
            }
            if let Ok(outcome) = outcome {
                let structure = Structure { model, ..options.structure };
                bases[used].compute(view, csr, order, outcome, &structure, plan);
            }
            used += 1;
        }
        let support = outcome.map(|_| bases[0].support(view));
        // what has no effect reported is left out of what is dropped nevertheless (D22)
        let outcome = outcome_event.unwrap_or(Outcome::VirtualSink);
        let scene = Scene { view, graph: csr, order, outcome, roster };
        let ready = Ready {
            plan,
            scene,
            bases: &bases[..used],
            tokens,
            support,
            bounded: options.sensitivity,
            cautious: !options.structure_alone && options.structure.weights == Weights::Normalized,
        };
        affordable(plan, &scene, used)?;
        let from = answers.len();
        let Blocks { segments, spans, rows } = Blocks::new(plan, |s| units(plan, &scene, s), answers);
        for answer in &answers[from..] {
            if let Some(unit) = answer.unit {
                name(&scene, answer.scenario as usize, unit);
            }
        }
        let block = |of: &Range<usize>, worker: &mut Worker| ready.block(&segments[of.clone()], worker, run);
        let by_span: Vec<Vec<Answer>> = if let [only] = &spans[..] {
            vec![block(only, worker)?]
        } else {
            // a trace whose every event is tried has many blocks
            spans
                .par_iter()
                .map_init(Worker::default, |worker, of| block(of, worker))
                .collect::<Result<_>>()?
        };
        for (row, answer) in rows.into_iter().zip(by_span.into_iter().flatten()) {
            answers[row] = answer;
        }
        Ok(())
    }
}

/// The scenarios of a trace in blocks of 64.
struct Blocks {
    segments: Vec<Segment>,
    /// Segments of each block.
    spans: Vec<Range<usize>>,
    /// Where the answer of each scenario and unit goes, one block after the other.
    rows: Vec<usize>,
}

impl Blocks {
    /// `units` says whether the units of a scenario are tried in turn, and how many there are. Appends an answer for
    /// each, yet without values.
    fn new(plan: &Plan, units: impl Fn(usize) -> (bool, usize), answers: &mut Vec<Answer>) -> Self {
        let mut blocks = Self { segments: Vec::new(), spans: Vec::new(), rows: Vec::new() };
        let (mut first, mut bit) = (0, 0);
        for scenario in 0..plan.scenarios.len() {
            let (each, n) = units(scenario);
            if n == 0 {
                answers.push(Answer::none(scenario, None, Reason::SelectionEmpty));
            }
            blocks.rows.extend(answers.len()..answers.len() + n);
            answers.extend(
                (0..n)
                    .map(|unit| Answer::none(scenario, each.then_some(unit as u32), Reason::SelectionEmpty)),
            );
            let mut unit = 0;
            while unit < n {
                let take = (n - unit).min(MAX_SETS - bit);
                blocks.segments.push(Segment { scenario, units: unit..unit + take, bit: bit as u32 });
                (unit, bit) = (unit + take, bit + take);
                if bit == MAX_SETS {
                    blocks.spans.push(first..blocks.segments.len());
                    (first, bit) = (blocks.segments.len(), 0);
                }
            }
        }
        if bit > 0 {
            blocks.spans.push(first..blocks.segments.len());
        }
        blocks
    }
}

impl Ready<'_> {
    /// Answers of one block, in the order of its bits.
    fn block(&self, segments: &[Segment], worker: &mut Worker, run: &Run) -> Result<Vec<Answer>> {
        run.check()?;
        let Worker { masks, prediction } = worker;
        masks.compute(self.plan, &self.scene, segments);
        let n: usize = segments.iter().map(|segment| segment.units.len()).sum();
        let effects = match self.support {
            Ok(_) => self.effects(masks, prediction, n, run)?,
            Err(_) => Effects::default(),
        };
        let left = self.tokens.map(|(of, total)| tokens_left(of, total, masks));
        let mut answers = Vec::with_capacity(n);
        for segment in segments {
            let scenario = &self.plan.scenarios[segment.scenario];
            let each = scenario.each().is_some();
            // a value that is set or a loss elsewhere would be a second reason for the outcome to differ
            let swaps_only = scenario.actions.iter().all(|action| matches!(action, Action::Aggregate(_)));
            for (bit, unit) in (segment.bit as usize..).zip(segment.units.clone()) {
                let unit = each.then_some(unit as u32);
                if masks.found >> bit & 1 == 0 {
                    answers.push(Answer::none(segment.scenario, unit, Reason::SelectionEmpty));
                    continue;
                }
                let tokens = left.map(|left| [self.tokens.map_or(0, |(_, total)| total), left[bit]]);
                let answer = self.answer(&effects, bit, swaps_only, segment.scenario, unit);
                // what is lost with what is dropped, and so what is left, is part of the assumptions
                let tier = answer.tier.or_else(|| tokens.map(|_| Tier::Surrogate));
                answers.push(Answer { tokens, tier, ..answer });
            }
        }
        Ok(answers)
    }

    /// The effects of one block in all families.
    fn effects(&self, masks: &Masks, prediction: &mut Prediction, n: usize, run: &Run) -> Result<Effects> {
        prediction.prepare(&self.bases[0], masks, &self.scene, n);
        let mut effects = Effects { direct: u64::MAX, ..Effects::default() };
        let mut signs = [None; MAX_SETS];
        for (family, base) in self.bases.iter().enumerate() {
            let mut outcomes = [0.0; MAX_SETS];
            effects.direct &= prediction.run(base, masks, &self.scene, Some(run), &mut outcomes[..n])?;
            for (bit, &changed) in outcomes[..n].iter().enumerate() {
                // what rounding makes is no effect
                let same = (changed - base.outcome()).abs() <= ROUNDING;
                let changed = if same { base.outcome() } else { changed };
                let effect = changed - base.outcome();
                let sign = if same { 0 } else { effect.signum() as i8 };
                let [lower, upper] = &mut effects.bounds[bit];
                if family == 0 {
                    effects.values[bit] = [base.outcome(), changed];
                    (*lower, *upper) = (effect, effect);
                    signs[bit] = Some(sign);
                } else {
                    (*lower, *upper) = (lower.min(effect), upper.max(effect));
                    effects.unstable |= u64::from(signs[bit] != Some(sign)) << bit;
                }
            }
        }
        Ok(effects)
    }

    fn answer(
        &self,
        effects: &Effects,
        bit: usize,
        swaps_only: bool,
        scenario: usize,
        unit: Option<u32>,
    ) -> Answer {
        let support = match self.support {
            Ok(support) => support,
            Err(reason) => return Answer::none(scenario, unit, reason),
        };
        let none = Answer::none(scenario, unit, Reason::SupportAbsent);
        let [lower, upper] = effects.bounds[bit];
        let observed = swaps_only && effects.direct >> bit & 1 == 1;
        if support == 0.0 && self.cautious && !observed && (lower < 0.0 || upper > 0.0) {
            // one family has no spread to report
            let bounds = self.bounded.then(|| [lower.min(0.0), upper.max(0.0)]);
            let tier = bounds.map(|_| Tier::Surrogate);
            return Answer { bounds, tier, support: Some(0.0), ..none };
        }
        Answer {
            values: Some(effects.values[bit]),
            bounds: self.bounded.then_some(effects.bounds[bit]),
            tier: Some(if observed { Tier::Observed } else { Tier::Surrogate }),
            support: Some(if observed { 1.0 } else { support }),
            reason: (effects.unstable >> bit & 1 == 1).then_some(Reason::GateUnstable),
            ..none
        }
    }
}

/// What a block of scenarios does to the outcome, a bit or place for each.
struct Effects {
    /// Outcome as recorded and in the scenario, by the model that is asked for.
    values: [[f64; 2]; MAX_SETS],
    /// Least and greatest difference over all families.
    bounds: [[f64; 2]; MAX_SETS],
    /// Whether an aggregate's rule on recorded inputs is all that makes the outcome.
    direct: u64,
    /// Whether the families disagree about the sign.
    unstable: u64,
}

impl Default for Effects {
    fn default() -> Self {
        Self { values: [[0.0; 2]; MAX_SETS], bounds: [[0.0; 2]; MAX_SETS], direct: 0, unstable: 0 }
    }
}

/// Tokens of the events that each scenario leaves.
fn tokens_left(of: &[i64], total: i64, masks: &Masks) -> [i64; MAX_SETS] {
    let mut left = [total; MAX_SETS];
    for (&tokens, &absent) in of.iter().zip(&masks.absent) {
        let mut bits = if tokens == 0 { 0 } else { absent };
        while bits != 0 {
            left[bits.trailing_zeros() as usize] -= tokens;
            bits &= bits - 1;
        }
    }
    left
}

/// Whether the units of a scenario are tried in turn, and how many there are.
fn units(plan: &Plan, scene: &Scene<'_>, scenario: usize) -> (bool, usize) {
    let each = plan.scenarios[scenario].each();
    (each.is_some(), each.map_or(1, |level| scene.roster.units(level, scene.graph)))
}

/// Refuses what a trace whose every unit is tried would take hours for, before anything is kept for each unit.
fn affordable(plan: &Plan, scene: &Scene<'_>, families: usize) -> Result<()> {
    let tried: usize = (0..plan.scenarios.len()).map(|s| units(plan, scene, s).1).sum();
    let size = scene.graph.len() + scene.graph.n_edges();
    let visits = Cost::of(tried).times(Cost::of(size)).times(Cost::of(families));
    // what is asked for one by one ends, however large the trace is
    if visits <= Cost::MOST_VISITS || tried <= MAX_SETS {
        return Ok(());
    }
    let (id, events) = (scene.view.trace_id, scene.view.len());
    Err(Error::Parameter(format!(
        "trace '{id}': {tried} scenarios of {events} events under {families} families of gates visit {visits} events \
         and edges, the limit is {}: use larger units (each='agent') or single ones, or pass sensitivity=False for \
         one family",
        Cost::MOST_VISITS
    )))
}

/// Without an order there are no units to try either: an answer for each scenario says why.
fn cyclic(plan: &Plan) -> Vec<Answer> {
    (0..plan.scenarios.len()).map(|scenario| Answer::none(scenario, None, Reason::GraphCycle)).collect()
}

/// Tokens of each event of the team (D18) and of all; `None` if none records any, or if their sum is beyond the range.
fn count_tokens<'a>(
    owners: &crate::graph::Owners,
    view: &TraceView<'_>,
    of: &'a mut Vec<i64>,
) -> Option<(&'a [i64], i64)> {
    of.clear();
    let (mut any, mut total) = (false, 0_i64);
    for v in 0..view.len() {
        let tokens = owners.tokens(view, v);
        any |= tokens.is_some();
        total = total.checked_add(tokens.unwrap_or(0))?;
        of.push(tokens.unwrap_or(0));
    }
    any.then_some((of, total))
}

#[cfg(test)]
mod tests;
