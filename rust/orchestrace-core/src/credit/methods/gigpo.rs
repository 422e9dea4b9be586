//! Two levels of comparison: a rollout within its group, and a step among the steps from the same state.
//!
//! ```text
//! A = A_E + w A_S;   A_E: R normalized over the rollouts of the group;   A_S: return-to-go of the turn, normalized over
//! the turns of the group with the same anchor
//! ```
//!
//! The anchor is the turn's first `state_key`, or where the trace has none the computed context of its first event. An
//! anchor that one turn has gives `A_S` = 0. O(N log N) for N turns.
//! Reference: L. Feng et al., `GiGPO`, arXiv 2505.10978; contexts: docs/reference/definitions.md.

use std::borrow::Cow;

use super::returns::TurnSeries;
use crate::credit::context::{Contexts, Source, source};
use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary};
use crate::credit::method::{GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{CONTEXT, DDOF, EPSILON, GAMMA, Param, ParamKind, Params, Value, WEIGHT};
use crate::credit::segments::{Scale, standardize};
use crate::credit::terms::{Relative, RowKind, Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::schema::{Reason, Tier, Unit};
use crate::store::view::TraceView;
use xxhash_rust::xxh3::xxh3_128;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGroup(&Gigpo)];

/// The method `gigpo`.
pub struct Gigpo;

static INFO: MethodInfo = MethodInfo {
    name: "gigpo",
    summary: "outcome relative to the group, plus return-to-go relative to the turns from the same state",
    reference: "arXiv 2505.10978",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        Param {
            name: "step_weight",
            kind: ParamKind::Float(0.0, 1e12),
            default: Value::Float(1.0),
            doc: "w: weight of the step-level term",
        },
        Param {
            name: "norm",
            kind: ParamKind::Choice(&["mean_std", "mean"]),
            default: Value::Text(Cow::Borrowed("mean_std")),
            doc: "mean: subtract the mean; mean_std: also divide by the standard deviation",
        },
        GAMMA,
        DDOF,
        EPSILON,
        CONTEXT,
        WEIGHT,
    ],
    tier: Some(Tier::Observed),
    needs_graph: true,
};

impl GroupMethod for Gigpo {
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
        let recorded = source(params.text("context"), &view.state_key, view.len()) == Source::Recorded;
        let mut contexts = Contexts::default();
        if !recorded {
            contexts.compute(view, corpus, graph)?;
        }
        let (owners, turns) = graph.turns(view);
        rows.row_of.clear();
        rows.row_of.extend_from_slice(turns.of_events());
        let mut anchors: Vec<Option<u128>> = vec![None; turns.list().len()];
        if recorded {
            for &v in owners.order().rows() {
                let Some(anchor) = anchors.get_mut(turns.of_events()[v as usize] as usize) else { continue };
                if anchor.is_none() {
                    *anchor = view.state_key.get(v as usize).map(|key| xxh3_128(key.as_bytes()));
                }
            }
        } else {
            for (anchor, turn) in anchors.iter_mut().zip(turns.list()) {
                *anchor = contexts.of_event[turn.first as usize];
            }
        }
        let mut series = TurnSeries::default();
        series.rewards(view, amount, turns);
        series.returns_to_go(params.float("gamma").unwrap_or_default());
        for (anchor, &step) in anchors.iter().zip(&series.values) {
            // a turn without an anchor still stands for its rollout
            rows.push(anchor.unwrap_or_default(), 0, amount, if anchor.is_some() { step } else { f64::NAN });
        }
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        let scale = scale(params);
        out.begin(group.value.len());
        out.segments.by(group.key.iter().copied());
        let Compared { value, reason, segments, gathered, scaled } = out;
        let weight = params.float("step_weight").unwrap_or(1.0);
        for segment in segments.iter() {
            let same_state =
                || segment.iter().map(|&(_, row)| row as usize).filter(|&row| !group.other[row].is_nan());
            gathered.clear();
            gathered.extend(same_state().map(|row| group.other[row]));
            scaled.clear();
            let degenerate = standardize(gathered, scale, scaled);
            for (row, step) in same_state().zip(&*scaled) {
                value[row] = weight * step;
                reason[row] = (degenerate || weight == 0.0).then_some(Reason::GroupDegenerate);
            }
        }
        scaled.clear();
        let degenerate = standardize(group.outcomes, scale, scaled);
        for (row, &rollout) in group.rollout.iter().enumerate() {
            let episode = scaled[rollout as usize];
            if group.other[row].is_nan() {
                (value[row], reason[row]) = (f64::NAN, Some(Reason::FieldAbsent));
                continue;
            }
            value[row] += episode;
            if !degenerate {
                reason[row] = None;
            }
        }
    }

    fn row_kind(&self, _: &Params) -> RowKind {
        RowKind::Turn
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        let (scale, weight) = (scale(params), params.float("step_weight").unwrap_or(1.0));
        for (part, &own) in rows.iter().enumerate() {
            out.begin(part);
            let row = own as usize;
            let episode = Relative {
                numbers: group.outcomes,
                place: group.rollout[row] as usize,
                scale,
                factor: 1.0,
                kind: TermKind::Rollout,
                rule: "first sum: R within the group".into(),
            };
            episode.explain(|at| Subject::Rollout(at as u32), out);
            let same: Vec<usize> = (0..group.key.len())
                .filter(|&r| group.key[r] == group.key[row] && !group.other[r].is_nan())
                .collect();
            let steps: Vec<f64> = same.iter().map(|&row| group.other[row]).collect();
            let step = Relative {
                numbers: &steps,
                place: same.iter().position(|&r| r == row).unwrap_or_default(),
                scale,
                factor: weight,
                kind: TermKind::Turn,
                rule: "second sum: return-to-go of the turns from the same state, by step_weight".into(),
            };
            step.explain(|at| Subject::PlacedRow(same[at] as u32), out);
        }
    }
}

fn scale(params: &Params) -> Scale {
    if params.text("norm") == Some("mean") {
        Scale::None
    } else {
        Scale::Deviation(params.int("ddof").unwrap_or(1), params.float("epsilon").unwrap_or_default())
    }
}
