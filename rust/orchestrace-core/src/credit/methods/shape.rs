//! The outcome relative to rollouts of a similar shape, shrunk towards the group.
//!
//! ```text
//! b = (⌊log2 |V|⌋, depth, ⌊log2 width⌋, ⌊log2 agents⌋)
//! μ = (n_b m_b + κ m_g) / (n_b + κ),   the same for the variance,   A = (R - μ) / (σ + ε)
//! ```
//!
//! Long runs with many agents and short ones with few differ in what they earn for reasons that no decision of theirs
//! changes. The mean of the group's rollouts of one shape is shrunk towards that of the group: κ→∞ is `grpo`, κ=0 compares
//! within a shape alone. Depth counts edges on the longest path, width is the largest layer. O(|V| + |E|) a trace.
//! Reference: defined by this project (docs/reference/definitions.md, D13).

use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, key_of};
use crate::credit::method::{GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{DDOF, EPSILON, PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::credit::segments::{silent, unit_of};
use crate::credit::sum::pairwise;
use crate::credit::terms::{Subject, TermKind, Terms};
use crate::graph::{GraphOptions, Order, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGroup(&ShapeNormalized)];

/// The method `shape_normalized`.
pub struct ShapeNormalized;

static INFO: MethodInfo = MethodInfo {
    name: "shape_normalized",
    summary: "reward of a rollout relative to rollouts of its group with a similar shape",
    reference: "defined by this project (docs/reference/definitions.md, D13)",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        Param {
            name: "kappa",
            kind: ParamKind::Float(0.0, 1e12),
            default: Value::Float(8.0),
            doc: "weight of the group's mean, in rollouts",
        },
        DDOF,
        EPSILON,
        PROGRAM_ORDER,
    ],
    tier: None,
    needs_graph: true,
};

impl GroupMethod for ShapeNormalized {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn decide(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        _: &Vocabulary,
        graph: &mut TraceGraph,
        rows: &mut Decisions,
    ) -> Result<(), Reason> {
        let agents = graph.owners(view).names().iter().filter(|name| name.is_agent()).count();
        graph.build(view, GraphOptions { program_order: params.bool("program_order"), weights: None });
        let (csr, order) = graph.ordered();
        let order = order.ok_or(Reason::GraphCycle)?;
        let mut depth = vec![0_u32; view.len()];
        let mut layers = vec![0_u64; 1];
        let rows_in_order = |place: usize| match order {
            Order::Document(_) => place,
            Order::Listed(rows) => rows[place] as usize,
        };
        for v in (0..view.len()).map(rows_in_order) {
            depth[v] = csr.predecessors_of(v).iter().map(|&u| depth[u as usize] + 1).max().unwrap_or(0);
            if layers.len() <= depth[v] as usize {
                layers.resize(depth[v] as usize + 1, 0);
            }
            layers[depth[v] as usize] += 1;
        }
        let width = layers.iter().copied().max().unwrap_or(0);
        let log2 = |x: u64| u64::from(x.checked_ilog2().map_or(0, |l| l + 1));
        let shape = [log2(view.len() as u64), layers.len() as u64, log2(width), log2(agents as u64)];
        rows.push(key_of(&shape), 0, amount, 0.0);
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        let n = group.value.len();
        let kappa = params.float("kappa").unwrap_or(8.0);
        let ddof = params.int("ddof").unwrap_or(1);
        let unit = unit_of(group.value);
        let epsilon = params.float("epsilon").unwrap_or_default() / unit;
        out.begin(n);
        out.segments.by(group.key.iter().copied());
        let Compared { value, reason, segments, gathered, scaled } = out;
        let all_rewards: Vec<f64> = group.value.iter().map(|r| r / unit).collect();
        if silent(&all_rewards) {
            reason.fill(Some(Reason::GroupDegenerate));
            return;
        }
        let of_group = moments(&all_rewards, ddof, scaled);
        for segment in segments.iter() {
            gathered.clear();
            gathered.extend(segment.iter().map(|&(_, row)| all_rewards[row as usize]));
            let of_shape = moments(gathered, ddof, scaled);
            let k = gathered.len() as f64;
            if kappa == 0.0 && silent(gathered) {
                for &(_, row) in segment {
                    reason[row as usize] = Some(Reason::GroupDegenerate);
                }
                continue;
            }
            let mean = shrunk(of_shape.0, k, of_group.0, kappa);
            let deviation = shrunk(of_shape.1, k, of_group.1, kappa).sqrt() + epsilon;
            for (&(_, row), x) in segment.iter().zip(&*gathered) {
                value[row as usize] = (x - mean) / deviation;
            }
        }
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        let kappa = params.float("kappa").unwrap_or(8.0);
        let ddof = params.int("ddof").unwrap_or(1);
        let unit = unit_of(group.value);
        let epsilon = params.float("epsilon").unwrap_or_default();
        let rule = "amount = (R - μ) / (deviation + ε), both shrunk from the shape towards the group".into();
        let all_rewards: Vec<f64> = group.value.iter().map(|r| r / unit).collect();
        let mut buffer = Vec::new();
        let of_group = moments(&all_rewards, ddof, &mut buffer);
        for (part, &own_row) in rows.iter().enumerate() {
            out.begin(part);
            let own_row = own_row as usize;
            let is_like = |row: usize| group.key[row] == group.key[own_row];
            let like: Vec<f64> =
                (0..all_rewards.len()).filter(|&row| is_like(row)).map(|row| all_rewards[row]).collect();
            let of_shape = moments(&like, ddof, &mut buffer);
            let flat = silent(&all_rewards) || (kappa == 0.0 && silent(&like));
            let (k, n) = (like.len() as f64, all_rewards.len() as f64);
            let divisor = shrunk(of_shape.1, k, of_group.1, kappa).sqrt() * unit + epsilon;
            for (row, &reward) in group.value.iter().enumerate() {
                let of = |is: bool| f64::from(u8::from(is));
                let weight = of(row == own_row) - of(is_like(row)) / (k + kappa) - kappa / (k + kappa) / n;
                let weight = if flat { 0.0 } else { weight / divisor };
                let note = if is_like(row) { " (same shape)" } else { "" };
                let whom = (Subject::Rollout(group.rollout[row]), note.to_owned());
                out.noted(TermKind::Rollout, &rule, weight, reward, whom);
            }
            out.beside(TermKind::Deviation, &rule, divisor, "divisor");
        }
    }
}

/// A number of `k` rollouts of a shape, and that of the group, which is worth `kappa` of them.
fn shrunk(of_shape: f64, k: f64, of_group: f64, kappa: f64) -> f64 {
    (k * of_shape + kappa * of_group) / (k + kappa)
}

/// Mean and variance; the variance of one number is 0.
fn moments(numbers: &[f64], ddof: i64, buffer: &mut Vec<f64>) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = pairwise(numbers) / n;
    buffer.clear();
    buffer.extend(numbers.iter().map(|x| (x - mean) * (x - mean)));
    let freedom = n - ddof as f64;
    (mean, if freedom > 0.0 { pairwise(buffer) / freedom } else { 0.0 })
}
