//! Credit among siblings: a decision's outcome relative to the alternatives taken in the same context.
//!
//! ```text
//! A_j = r̄_j - (Σ_k w_k r̄_k - w_j r̄_j) / (Σ_k w_k - w_j)     candidates j of one (group, context, acting role)
//! ```
//!
//! Candidates are the distinct choices (type, addressee, tool, text), w is how many decisions made the choice, r̄ the mean
//! outcome of their rollouts. `baseline="mean"` subtracts the weighted mean of all candidates instead. A context with one
//! candidate, or whose outcomes are all equal, says nothing: exactly 0 (`group.degenerate`). Nothing is removed or
//! replayed; the alternatives are those that were recorded. O(N log N) for N decisions.
//! Reference: C3, arXiv 2603.06859; docs/reference/definitions.md, "Contexts".

use std::borrow::Cow;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::credit::context::{Contexts, is_decision};
use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, halves, key_of};
use crate::credit::method::{GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{CONTEXT, Param, ParamKind, Params, Value, WEIGHT};
use crate::credit::segments::silent;
use crate::credit::terms::{RowKind, Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::schema::{Reason, Tier, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGroup(&C3)];

/// The method `c3`.
pub struct C3;

static INFO: MethodInfo = MethodInfo {
    name: "c3",
    summary: "outcome of a decision relative to its recorded alternatives in the same context",
    reference: "arXiv 2603.06859",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        Param {
            name: "baseline",
            kind: ParamKind::Choice(&["loo", "mean"]),
            default: Value::Text(Cow::Borrowed("loo")),
            doc: "loo: mean of the other candidates; mean: mean of all",
        },
        CONTEXT,
        WEIGHT,
    ],
    tier: Some(Tier::Observed),
    needs_graph: true,
};

impl GroupMethod for C3 {
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
        let mut contexts = Contexts::default();
        contexts.find(view, params.text("context"), corpus, graph)?;
        rows.no_event_of(view.len());
        let owners = graph.owners(view);
        let first = rows.len();
        for v in 0..view.len() {
            if !is_decision(view.event_type(v), owners.codes()[v]) {
                continue;
            }
            rows.row_of[v] = (rows.len() - first) as u32;
            let role = owners.names()[owners.indices()[v] as usize].role();
            match contexts.of_event[v].zip(contexts.act(view, corpus, v)) {
                Some((context, choice)) => {
                    let [a, b] = halves(context);
                    rows.push(key_of(&[a, b, corpus.role(role)]), choice, amount, 0.0);
                }
                None => rows.push(0, 0, f64::NAN, 0.0),
            }
        }
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        out.begin(group.value.len());
        out.segments.by(group.key.iter().copied());
        let all = over_all(params);
        let Compared { value, reason, segments, gathered, .. } = out;
        let mut candidates: Vec<(u128, u32)> = Vec::new();
        let mut means: Vec<(f64, f64)> = Vec::new();
        for segment in segments.iter() {
            candidates.clear();
            candidates.extend(segment.iter().map(|&(_, row)| (group.choice[row as usize], row)));
            candidates.sort_unstable();
            gathered.clear();
            gathered.extend(segment.iter().map(|&(_, row)| group.value[row as usize]));
            means.clear();
            means.extend(candidates.chunk_by(|a, b| a.0 == b.0).map(|rows| {
                let w = rows.len() as f64;
                (w, rows.iter().map(|&(_, row)| group.value[row as usize]).sum::<f64>() / w)
            }));
            if means.len() < 2 || silent(gathered) {
                for &(_, row) in segment {
                    reason[row as usize] = Some(Reason::GroupDegenerate);
                }
                continue;
            }
            let weight: f64 = means.iter().map(|m| m.0).sum();
            let total: f64 = means.iter().map(|m| m.0 * m.1).sum();
            for (rows, &(w, mean)) in candidates.chunk_by(|a, b| a.0 == b.0).zip(&means) {
                let baseline = if all { total / weight } else { (total - w * mean) / (weight - w) };
                for &(_, row) in rows {
                    value[row as usize] = mean - baseline;
                }
            }
        }
    }

    fn row_kind(&self, _: &Params) -> RowKind {
        RowKind::Event
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        let all = over_all(params);
        let rule = if all {
            "amount = mean outcome of the choice - mean outcome of all".into()
        } else {
            "amount = mean outcome of the choice - mean outcome of the others".into()
        };
        for (part, &own_row) in rows.iter().enumerate() {
            out.begin(part);
            let own_row = own_row as usize;
            // candidates in the order in which they were first taken
            let mut candidates: Vec<(u128, Vec<usize>)> = Vec::new();
            let mut of_choice: HashMap<u128, usize, RandomState> = HashMap::default();
            let bucket = (0..group.key.len()).filter(|&row| group.key[row] == group.key[own_row]);
            let mut decisions = 0;
            for row in bucket.clone() {
                let choice = group.choice[row];
                let next = candidates.len();
                let at = *of_choice.entry(choice).or_insert(next);
                if at == next {
                    candidates.push((choice, Vec::new()));
                }
                candidates[at].1.push(row);
                decisions += 1;
            }
            let numbers: Vec<f64> = bucket.clone().map(|row| group.value[row]).collect();
            let flat = candidates.len() < 2 || silent(&numbers);
            let mine = candidates.iter().find(|(choice, _)| *choice == group.choice[own_row]);
            let others = decisions - if all { 0 } else { mine.map_or(0, |(_, made)| made.len()) };
            for (choice, made) in &candidates {
                let is_own = *choice == group.choice[own_row];
                let taken = made.len() as f64;
                let baseline = if others > 0 && (all || !is_own) { taken / others as f64 } else { 0.0 };
                let weight = if flat { 0.0 } else { f64::from(u8::from(is_own)) - baseline };
                let mean = made.iter().map(|&row| group.value[row]).sum::<f64>() / taken;
                let this = if is_own { ", this choice" } else { "" };
                let note = format!(" ({} of {decisions}){this}", made.len());
                out.noted(TermKind::Sibling, &rule, weight, mean, (Subject::Row(made[0] as u32), note));
            }
        }
    }
}

/// Whether a choice is compared with all candidates, itself included.
fn over_all(params: &Params) -> bool {
    params.text("baseline") == Some("mean")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn advantages(choice: &[u128], value: &[f64], arguments: &[(&str, Value)]) -> Vec<f64> {
        let params = Params::check(INFO.params, arguments).unwrap();
        let rollout: Vec<u32> = (0..value.len() as u32).collect();
        let key = vec![7; value.len()];
        let mut out = Compared::default();
        C3.compare(
            &Rollouts { outcomes: value, rollout: &rollout, key: &key, choice, value, other: &[] },
            &params,
            &mut out,
        );
        out.value
    }

    #[test]
    fn by_hand() {
        // two rollouts chose 1 (outcomes 1 and 0), one chose 2 (outcome 1), one 3 (outcome 0)
        let got = advantages(&[1, 2, 1, 3], &[1.0, 1.0, 0.0, 0.0], &[]);
        assert_eq!(got, [0.0, 1.0 - 1.0 / 3.0, 0.0, -2.0 / 3.0]);
        let mean = [("baseline", Value::Text("mean".into()))];
        assert_eq!(advantages(&[1, 2, 1, 3], &[1.0, 1.0, 0.0, 0.0], &mean), [0.0, 0.5, 0.0, -0.5]);
        assert_eq!(advantages(&[1, 1], &[1.0, 0.0], &[]), [0.0, 0.0]);
    }

    proptest! {
        #[test]
        fn equal_weights_are_a_scaled_mean(value in prop::collection::vec(-4.0_f64..4.0, 2..8)) {
            let choice: Vec<u128> = (0..value.len() as u128).collect();
            let b = value.len() as f64;
            let mean = value.iter().sum::<f64>() / b;
            let got = advantages(&choice, &value, &[]);
            for (a, r) in got.iter().zip(&value) {
                prop_assert!((a - b / (b - 1.0) * (r - mean)).abs() < 1e-12);
            }
            prop_assert!(got.iter().sum::<f64>().abs() < 1e-12);
        }
    }
}
