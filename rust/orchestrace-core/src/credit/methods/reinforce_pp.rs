//! REINFORCE++: the outcome whitened over a whole batch.
//!
//! ```text
//! x = R, or R - mean of the group (`baseline`)        A = (x - mean_B x) / √(var_B x + 1e-8), ddof 1
//! ```
//!
//! The batch B is the corpus, or the traces that share the value of a metric (`batch="train_step"`). Each rollout is
//! one token: recordings do not have token masks. A batch that says nothing gives exactly 0. O(N log N).
//! Reference: J. Hu, REINFORCE++, arXiv 2501.03262; docs/reference/definitions.md, D13.

use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, halves, key_of};
use crate::credit::method::{Axiom, GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{COMPAT, Param, ParamKind, Params, Value};
use crate::credit::segments::{Scale, center, standardize, standardize_by_key};
use crate::credit::terms::{Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::schema::{MeasureKind, Reason, Unit};
use crate::store::view::TraceView;
use xxhash_rust::xxh3::xxh3_128;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGroup(&ReinforcePp)];

/// The method `reinforce_pp`.
pub struct ReinforcePp;

const EPSILON: f64 = 1e-8;

static INFO: MethodInfo = MethodInfo {
    name: "reinforce_pp",
    summary: "reward of a rollout, whitened over the batch",
    reference: "arXiv 2501.03262",
    quantity: Quantity::Advantage,
    scope: Scope::Corpus,
    units: Unit::ALL,
    axioms: &[Axiom::ZeroMean],
    params: &[
        Param {
            name: "baseline",
            kind: ParamKind::Bool,
            default: Value::Bool(false),
            doc: "subtract the mean of the group before whitening",
        },
        Param {
            name: "batch",
            kind: ParamKind::Text,
            default: Value::Null,
            doc: "trace metric whose values define the batches; null: the whole corpus is one batch",
        },
        COMPAT,
    ],
    tier: None,
    needs_graph: false,
};

impl GroupMethod for ReinforcePp {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn decide(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        corpus: &Vocabulary,
        _: &mut TraceGraph,
        rows: &mut Decisions,
    ) -> Result<(), Reason> {
        let batch = match params.text("batch") {
            None => 0,
            Some(_) => metric(view, corpus.metric()).ok_or(Reason::FieldAbsent)?.to_bits(),
        };
        rows.push(key_of(&[batch]), xxh3_128(view.group_id.as_bytes()), amount, amount);
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        if !params.bool("baseline") {
            return standardize_by_key(group, group.value, WHITENED, out);
        }
        let keep_single = params.text("compat") == Some("verl");
        let (centered, silent) = centered(group, keep_single, out);
        standardize_by_key(group, &centered, WHITENED, out);
        // centered rewards have mean 0 up to rounding, which must not speak for a group that says nothing
        for row in (0..silent.len()).filter(|&row| silent[row]) {
            (out.value[row], out.reason[row]) = (0.0, Some(Reason::GroupDegenerate));
        }
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        let (baseline, keep_single) = (params.bool("baseline"), params.text("compat") == Some("verl"));
        let rule = if baseline {
            "amount = (x - mean of the batch) / √(variance + 1e-8), x = R - mean of the group".into()
        } else {
            "amount = (x - mean of the batch) / √(variance + 1e-8), x = R".into()
        };
        let x = if baseline {
            centered(group, keep_single, &mut Compared::default()).0
        } else {
            group.value.to_vec()
        };
        for (part, &own_row) in rows.iter().enumerate() {
            out.begin(part);
            let own_row = own_row as usize;
            let batch = (0..x.len()).filter(|&row| group.key[row] == group.key[own_row]);
            let numbers: Vec<f64> = batch.clone().map(|row| x[row]).collect();
            let (mean, divisor) = center(&numbers, WHITENED);
            let unit = divisor.map_or(0.0, |divisor| 1.0 / divisor);
            let whom = Subject::Rollout(group.rollout[own_row]);
            out.push(TermKind::Rollout, &rule, unit, group.value[own_row], whom);
            let siblings: Vec<f64> = batch
                .filter(|&row| group.choice[row] == group.choice[own_row])
                .map(|row| group.value[row])
                .collect();
            if baseline && !(siblings.len() == 1 && keep_single) {
                let (mean, _) = center(&siblings, Scale::None);
                let note = (Subject::Nothing, "of the group".to_owned());
                out.noted(TermKind::Mean, &rule, -unit, mean, note);
            }
            let note = (Subject::Nothing, format!("of the batch of {}", numbers.len()));
            out.noted(TermKind::Mean, &rule, -unit, mean, note);
            // equal numbers have no deviation
            out.beside(TermKind::Deviation, &rule, divisor.unwrap_or(EPSILON.sqrt()), "divisor");
        }
    }
}

const WHITENED: Scale = Scale::Whitened(1, EPSILON);

/// Rewards less the mean of the group, and whether the group says nothing; the mean is taken over its rollouts in the
/// batch.
fn centered(group: &Rollouts<'_>, keep_single: bool, out: &mut Compared) -> (Vec<f64>, Vec<bool>) {
    let within: Vec<u128> = group
        .key
        .iter()
        .zip(group.choice)
        .map(|(batch, group)| {
            let ([a, b], [c, d]) = (halves(*batch), halves(*group));
            key_of(&[a, b, c, d])
        })
        .collect();
    let mut centered = vec![0.0; group.value.len()];
    let mut silent = vec![false; group.value.len()];
    out.segments.by(within.into_iter());
    for segment in out.segments.iter() {
        out.gathered.clear();
        out.gathered.extend(segment.iter().map(|&(_, row)| group.value[row as usize]));
        out.scaled.clear();
        let degenerate = if keep_single && segment.len() == 1 {
            out.scaled.push(out.gathered[0]);
            false
        } else {
            standardize(&out.gathered, Scale::None, &mut out.scaled)
        };
        for (&(_, row), x) in segment.iter().zip(&out.scaled) {
            centered[row as usize] = *x;
            // released code whitens flat groups along with all others
            silent[row as usize] = degenerate && !keep_single;
        }
    }
    (centered, silent)
}

/// A metric of the trace.
fn metric(view: &TraceView<'_>, code: Option<u32>) -> Option<f64> {
    let code = code?;
    let row = (0..view.measure_names.len())
        .find(|&i| view.measure_names[i] == code && view.measure_kinds[i] == MeasureKind::Metric as u8)?;
    Some(view.measure_values[row])
}
