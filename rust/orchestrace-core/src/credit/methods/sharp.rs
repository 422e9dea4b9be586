//! SHARP: team reward, an agent's contribution and its tools' success, relative to its other rollouts.
//!
//! ```text
//! c_i = broadcast · R + marginal · (v(N) - v(N \ i)) + process · (share of its tool results with `ok` that are)
//! mean_std  (c_i - μ_i) / (σ_i + ε) over the rollouts of the group in which agent i acts;  mean  c_i - μ_i;  none  c_i
//! ```
//!
//! The marginal masks one agent in what happened: it is the difference reward, not a Shapley value, and equals one where
//! nobody interacts, else by cancellation only. Where two are each enough, both get nothing of it. The published weights
//! are not verified: ours are 1, 1 and 0. An agent without judged tool results has 0 in the last term; a trace
//! whose tool results all lack `ok` has no value if the term counts.
//! n + 1 evaluations of the surrogate a trace, and one pass over the group. A trace whose evaluations visit more events
//! and edges than [`Cost::MOST_VISITS`] has no value (`budget.exceeded`).
//! References: SHARP, arXiv 2602.08335; marginal: D. Wolpert, K. Tumer, 2001; docs/reference/definitions.md, D13, D15.

use std::borrow::Cow;

use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, key_of};
use crate::credit::game::{
    COALITIONS, Circuit, CircuitGame, Compiler, Evaluation, Game, Memory, OUTCOME, WEIGHTS,
};
use crate::credit::method::{GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{DDOF, EPSILON, PROGRAM_ORDER, Param, ParamKind, Params, Value, WEIGHT};
use crate::credit::segments::{Scale, standardize_by_key};
use crate::credit::terms::{RowKind, Terms};
use crate::graph::{GraphOptions, NO_UNIT, NOBODY, TraceGraph};
use crate::schema::{EventType, Reason, Tier, Unit};
use crate::store::view::TraceView;
use crate::surrogate::Cost;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGroup(&Sharp)];

/// The method `sharp`.
pub struct Sharp;

const fn term(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, kind: ParamKind::Float(0.0, 1e9), default: Value::Float(default), doc }
}

static INFO: MethodInfo = MethodInfo {
    name: "sharp",
    summary: "outcome, gain of the agent and success of its tools, relative to the agent's other rollouts",
    reference: "arXiv 2602.08335; weights are the caller's",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        term("broadcast", 1.0, "weight of the reward, which is the same for all"),
        term("marginal", 1.0, "weight of what the outcome loses without the agent"),
        term("process", 0.0, "weight of the share of the agent's tool results with ok = true"),
        Param {
            name: "norm",
            kind: ParamKind::Choice(&["mean_std", "mean", "none"]),
            default: Value::Text(Cow::Borrowed("mean_std")),
            doc: "over the agent's rollouts in the group: mean: subtract the mean; mean_std: also divide by the \
                  standard deviation; none: unchanged",
        },
        DDOF,
        EPSILON,
        OUTCOME,
        WEIGHTS,
        PROGRAM_ORDER,
        WEIGHT,
    ],
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

impl GroupMethod for Sharp {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn decide(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        corpus: &Vocabulary,
        graph: &mut TraceGraph,
        rows: &mut Decisions,
    ) -> Result<(), Reason> {
        let owners = graph.owners(view);
        let names = owners.names().len();
        let agents: Vec<(u64, bool)> =
            owners.names().iter().map(|name| (corpus.agent(Some(name.code)), name.is_agent())).collect();
        rows.row_of.clear();
        rows.row_of.extend(owners.indices().iter().map(|&name| if name == NOBODY { NO_UNIT } else { name }));
        let marginal = marginals(view, names, params, graph, &rows.row_of)?;
        let process = params.float("process").unwrap_or_default();
        let went = if process > 0.0 { tools(view, names, &rows.row_of)? } else { vec![0.0; names] };
        let of = |name: &str| params.float(name).unwrap_or_default();
        for ((&(agent, acts), gain), went) in agents.iter().zip(marginal).zip(went) {
            let value = of("broadcast") * amount + of("marginal") * gain + process * went;
            // a name that owns nothing is no row
            rows.push(key_of(&[agent]), 0, if acts { value } else { f64::NAN }, 0.0);
        }
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        let scale = match params.text("norm") {
            Some("none") => {
                out.begin(group.value.len());
                out.value.copy_from_slice(group.value);
                return;
            }
            Some("mean") => Scale::None,
            _ => {
                Scale::Deviation(params.int("ddof").unwrap_or(1), params.float("epsilon").unwrap_or_default())
            }
        };
        standardize_by_key(group, group.value, scale, out);
    }

    fn row_kind(&self, _: &Params) -> RowKind {
        RowKind::Agent
    }

    /// Nothing: a part of the value is what a game gives.
    fn terms(&self, _: &Rollouts<'_>, _: &Params, _: &[u32], _: &mut Terms) {}
}

/// What the outcome loses without each of the owners of events; 0 for names that own none.
fn marginals(
    view: &TraceView<'_>,
    names: usize,
    params: &Params,
    graph: &mut TraceGraph,
    owner_of: &[u32],
) -> Result<Vec<f64>, Reason> {
    // a parameter that cannot be is refused by its list
    let structure = crate::credit::game::structure(params).map_err(|_| Reason::SupportAbsent)?;
    // a trace without a value leaves the others of its group theirs
    if Cost::of(names).times(Cost::of(view.len() + view.src.len())) > Cost::MOST_VISITS {
        return Err(Reason::BudgetExceeded);
    }
    let weights = Some(structure.weights.table());
    let outcome = graph.outcome(view)?;
    graph.build(view, GraphOptions { program_order: params.bool("program_order"), weights });
    let Some((_, _, surrogate)) = graph.surrogate(view, outcome, &structure) else {
        return Err(Reason::GraphCycle);
    };
    let (mut compiler, mut circuit) = (Compiler::default(), Circuit::default());
    compiler.compile(surrogate, names, |v| owner_of[v], &mut circuit);
    let mut game = CircuitGame::new(&circuit, Memory::default(), Evaluation::Auto);
    let mut members = vec![u64::MAX; names];
    let mut values = [0.0; COALITIONS];
    let mut lost = Vec::with_capacity(names);
    // everybody is in lane 0, and in lane k all but one
    for from in (0..names).step_by(COALITIONS - 1) {
        let some = (COALITIONS - 1).min(names - from);
        (0..some).for_each(|k| members[from + k] = !(2 << k));
        if game.values(&members, &mut values[..=some]).is_err() {
            return Err(Reason::SupportAbsent);
        }
        members[from..from + some].fill(u64::MAX);
        lost.extend(values[1..=some].iter().map(|value| values[0] - value));
    }
    Ok(lost)
}

/// Share of each owner's tool results with `ok` that are.
fn tools(view: &TraceView<'_>, names: usize, owner_of: &[u32]) -> Result<Vec<f64>, Reason> {
    let mut counts = vec![(0.0, 0.0); names];
    let (mut results, mut judged) = (0, 0);
    for (v, &owner) in owner_of.iter().enumerate() {
        if view.event_type(v) != EventType::ToolResult {
            continue;
        }
        results += 1;
        let Some(ok) = view.ok.get(v) else { continue };
        judged += 1;
        if let Some((good, all)) = counts.get_mut(owner as usize) {
            *good += f64::from(u8::from(ok));
            *all += 1.0;
        }
    }
    if results > 0 && judged == 0 {
        return Err(Reason::FieldAbsent);
    }
    Ok(counts.into_iter().map(|(good, all)| if all > 0.0 { good / all } else { 0.0 }).collect())
}
