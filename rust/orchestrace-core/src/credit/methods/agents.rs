//! Outcomes of agents and turns relative to those of the same agent in the other rollouts of the group.
//!
//! ```text
//! dr_mas    rows: turns, or owned events; (R - μ) / (σ + ε) over all rows of one agent in the group
//! at_grpo   the same over the turns of one agent with one ordinal
//! magrpo    G_t - mean G_t over the rollouts that reach step t; G_t = Σ reward of turns with ordinal ≥ t, plus R
//! marshal   Q_t - μ, or (Q_t - μ) / (σ + ε), over all turns of one agent; Q_t the return-to-go of the turn
//! ```
//!
//! A rollout in which an agent acts more often weighs more in its μ and σ (`dr_mas`), as in the released code. Step t of
//! `magrpo` is the t-th turn of every agent: the return is joint, and each rollout counts once in the mean. A segment of
//! one value, or of equal ones, gives exactly 0; released code of `dr_mas` leaves a single value its reward
//! (`compat="verl"`). O(N log N) for N turns.
//! References: Dr. MAS, arXiv 2602.08847; AT-GRPO, arXiv 2510.11062; MAGRPO, arXiv 2508.04652; MARSHAL, arXiv
//! 2510.15414; docs/reference/definitions.md, D13.

use super::returns::TurnSeries;
use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, key_of};
use crate::credit::method::{GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{COMPAT, DDOF, EPSILON, GAMMA, NORM, Params, ROWS, WEIGHT};
use crate::credit::segments::{
    Scale, standardize, standardize_by_key, standardize_weighted, weighted_center,
};
use crate::credit::terms::{Relative, RowKind, Subject, TermKind, Terms};
use crate::graph::{NO_UNIT, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[
    Method::PerGroup(&DR_MAS),
    Method::PerGroup(&AT_GRPO),
    Method::PerGroup(&MAGRPO),
    Method::PerGroup(&MARSHAL),
];

/// A rule over the turns of an agent.
pub struct AgentRelative {
    info: &'static MethodInfo,
    rule: Rule,
}

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    DrMas,
    AtGrpo,
    Magrpo,
    Marshal,
}

/// The method `dr_mas`.
pub static DR_MAS: AgentRelative = AgentRelative { info: &DR_MAS_INFO, rule: Rule::DrMas };
/// The method `at_grpo`.
pub static AT_GRPO: AgentRelative = AgentRelative { info: &AT_GRPO_INFO, rule: Rule::AtGrpo };
/// The method `magrpo`.
pub static MAGRPO: AgentRelative = AgentRelative { info: &MAGRPO_INFO, rule: Rule::Magrpo };
/// The method `marshal`.
pub static MARSHAL: AgentRelative = AgentRelative { info: &MARSHAL_INFO, rule: Rule::Marshal };

static DR_MAS_INFO: MethodInfo = MethodInfo {
    name: "dr_mas",
    summary: "outcome relative to the turns of the same agent in the group",
    reference: "arXiv 2602.08847",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[DDOF, EPSILON, ROWS, COMPAT, WEIGHT],
    tier: None,
    needs_graph: false,
};

static AT_GRPO_INFO: MethodInfo = MethodInfo {
    name: "at_grpo",
    summary: "outcome relative to the same turn of the same agent in the group",
    reference: "arXiv 2510.11062",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[DDOF, EPSILON, WEIGHT],
    tier: None,
    needs_graph: false,
};

static MAGRPO_INFO: MethodInfo = MethodInfo {
    name: "magrpo",
    summary: "joint return from step t on, relative to the rollouts of the group that reach it",
    reference: "arXiv 2508.04652",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[WEIGHT],
    tier: None,
    needs_graph: false,
};

static MARSHAL_INFO: MethodInfo = MethodInfo {
    name: "marshal",
    summary: "return-to-go of a turn, relative to all turns of the same agent in the group",
    reference: "arXiv 2510.15414",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[NORM, GAMMA, DDOF, EPSILON, WEIGHT],
    tier: None,
    needs_graph: false,
};

impl GroupMethod for AgentRelative {
    fn info(&self) -> &'static MethodInfo {
        self.info
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
        if params.text("rows") == Some("events") {
            // Owned events of one agent have one value: a row stands for all of them, with how many there are.
            let owners = graph.owners(view);
            let first = rows.len();
            rows.row_of.clear();
            rows.row_of.extend_from_slice(owners.indices());
            for name in owners.names() {
                let agent = corpus.agent(Some(name.code));
                // a name that owns nothing is no row
                let value = if name.is_agent() { amount } else { f64::NAN };
                rows.push(key_of(&[agent]), 0, value, f64::from(name.owned));
            }
            debug_assert!(
                rows.row_of.iter().all(|&row| row == NO_UNIT || (row as usize) < rows.len() - first)
            );
            return Ok(());
        }
        let (owners, turns) = graph.turns(view);
        rows.row_of.clear();
        rows.row_of.extend_from_slice(turns.of_events());
        let mut series = TurnSeries::default();
        let at_end = if self.rule == Rule::Magrpo { 0.0 } else { amount };
        series.rewards(view, at_end, turns);
        series.ordinals(owners, turns);
        let first = rows.len();
        for (turn, &ordinal) in turns.list().iter().zip(&series.ordinal) {
            let agent = corpus.agent(Some(owners.names()[turn.owner as usize].code));
            let key = match self.rule {
                Rule::DrMas | Rule::Marshal => key_of(&[agent]),
                Rule::AtGrpo => key_of(&[agent, u64::from(ordinal)]),
                Rule::Magrpo => key_of(&[u64::from(ordinal)]),
            };
            rows.push(key, 0, amount, 0.0);
        }
        match self.rule {
            Rule::DrMas | Rule::AtGrpo => {}
            Rule::Marshal => {
                series.returns_to_go(params.float("gamma").unwrap_or(0.99));
                rows.value[first..].copy_from_slice(&series.values);
            }
            Rule::Magrpo => {
                series.joint_returns(amount);
                rows.value[first..].copy_from_slice(&series.values);
            }
        }
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        let scale = match self.rule {
            Rule::Magrpo => return joint(group, out),
            _ => self.scale(params),
        };
        if params.text("rows") == Some("events") {
            weighted(group, params, out);
        } else {
            standardize_by_key(group, group.value, scale, out);
        }
        if params.text("compat") == Some("verl") {
            let events =
                |row: usize| if params.text("rows") == Some("events") { group.other[row] } else { 1.0 };
            let Compared { value, reason, segments, .. } = out;
            for segment in segments.iter() {
                let row = segment[0].1 as usize;
                if segment.len() == 1 && events(row) < 2.0 {
                    // mean 0, deviation 1
                    value[row] = group.value[row] / (1.0 + params.float("epsilon").unwrap_or_default());
                    reason[row] = None;
                }
            }
        }
    }

    fn row_kind(&self, params: &Params) -> RowKind {
        if params.text("rows") == Some("events") { RowKind::Event } else { RowKind::Turn }
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        for (part, &own) in rows.iter().enumerate() {
            out.begin(part);
            match self.row_kind(params) {
                RowKind::Event => of_events(group, params, own as usize, out),
                _ => self.of_turns(group, params, own as usize, out),
            }
        }
    }
}

impl AgentRelative {
    fn scale(&self, params: &Params) -> Scale {
        let deviation =
            Scale::Deviation(params.int("ddof").unwrap_or(1), params.float("epsilon").unwrap_or_default());
        match self.rule {
            Rule::DrMas | Rule::AtGrpo => deviation,
            Rule::Marshal if params.text("norm") == Some("mean_std") => deviation,
            Rule::Marshal | Rule::Magrpo => Scale::None,
        }
    }

    /// What rewards of turns are made of.
    fn of_turns(&self, group: &Rollouts<'_>, params: &Params, own_row: usize, out: &mut Terms) {
        let scale = self.scale(params);
        let mut segment: Vec<usize> =
            (0..group.key.len()).filter(|&row| group.key[row] == group.key[own_row]).collect();
        let alone = segment.len() == 1 && params.text("compat") == Some("verl");
        if alone {
            let rule = "amount = R, since released code leaves a single value unchanged".into();
            let weight = 1.0 / (1.0 + params.float("epsilon").unwrap_or_default());
            out.push(TermKind::Turn, &rule, weight, group.value[own_row], Subject::PlacedRow(own_row as u32));
            return;
        }
        let joint = self.rule == Rule::Magrpo;
        if joint {
            // each rollout counts once
            segment.dedup_by_key(|row| group.rollout[*row]);
        }
        let is_own = |row: usize| row == own_row || (joint && group.rollout[row] == group.rollout[own_row]);
        let subject_of_rule = match self.rule {
            Rule::DrMas | Rule::AtGrpo => "R",
            Rule::Magrpo => "joint return from step t on",
            Rule::Marshal => "return-to-go",
        };
        let by = if scale == Scale::None { "" } else { " / (deviation + ε)" };
        let numbers: Vec<f64> = segment.iter().map(|&row| group.value[row]).collect();
        let relative = Relative {
            numbers: &numbers,
            place: segment.iter().position(|&row| is_own(row)).unwrap_or_default(),
            scale,
            factor: 1.0,
            kind: if joint { TermKind::Rollout } else { TermKind::Turn },
            rule: format!("amount = ({subject_of_rule} - mean){by}").into(),
        };
        let whom = |at: usize| {
            let row = segment[at];
            if joint { Subject::Rollout(group.rollout[row]) } else { Subject::PlacedRow(row as u32) }
        };
        relative.explain(whom, out);
    }
}

/// What values of rows that stand for several events are made of.
fn of_events(group: &Rollouts<'_>, params: &Params, own_row: usize, out: &mut Terms) {
    let (ddof, epsilon) = (params.int("ddof").unwrap_or(1), params.float("epsilon").unwrap_or_default());
    let segment: Vec<usize> =
        (0..group.key.len()).filter(|&row| group.key[row] == group.key[own_row]).collect();
    let numbers: Vec<f64> = segment.iter().map(|&row| group.value[row]).collect();
    let counts: Vec<f64> = segment.iter().map(|&row| group.other[row]).collect();
    let total: f64 = counts.iter().sum();
    let (mean, mut divisor) = weighted_center(&numbers, &counts, ddof, epsilon);
    let alone = total < 2.0 && params.text("compat") == Some("verl");
    let rule = if alone {
        divisor = Some(1.0 + epsilon);
        "amount = R, since released code leaves a single value unchanged".into()
    } else {
        "amount = (R - mean) / (deviation + ε) over all events of the agent in the group".into()
    };
    for ((&row, &reward), &count) in segment.iter().zip(&numbers).zip(&counts) {
        let of_mean = if alone { 0.0 } else { count / total };
        let weight = divisor.map_or(0.0, |divisor| (f64::from(u8::from(row == own_row)) - of_mean) / divisor);
        let whom = (Subject::Rollout(group.rollout[row]), format!(" ({count} events)"));
        out.noted(TermKind::Rollout, &rule, weight, reward, whom);
    }
    out.beside(TermKind::Mean, &rule, mean, format!("of {total}"));
    out.beside(TermKind::Deviation, &rule, divisor.unwrap_or(1.0), "divisor");
}

/// Rows that stand for as many events as their second number says.
fn weighted(group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
    let (ddof, epsilon) = (params.int("ddof").unwrap_or(1), params.float("epsilon").unwrap_or_default());
    out.by_key(group, |rows, gathered, values| {
        gathered.extend(rows.iter().map(|&(_, row)| group.other[row as usize]));
        let (numbers, weights) = gathered.split_at(rows.len());
        standardize_weighted(numbers, weights, ddof, epsilon, values)
    });
}

/// Centres joint returns among the rollouts that reach a step; agents of a rollout share the value.
fn joint(group: &Rollouts<'_>, out: &mut Compared) {
    out.begin(group.value.len());
    out.segments.by(group.key.iter().copied());
    let Compared { value, reason, segments, gathered, scaled } = out;
    for segment in segments.iter() {
        gathered.clear();
        let of_rollouts = segment.chunk_by(|a, b| group.rollout[a.1 as usize] == group.rollout[b.1 as usize]);
        gathered.extend(of_rollouts.map(|rows| group.value[rows[0].1 as usize]));
        scaled.clear();
        let degenerate = standardize(gathered, Scale::None, scaled);
        let of_rollouts = segment.chunk_by(|a, b| group.rollout[a.1 as usize] == group.rollout[b.1 as usize]);
        for (rows, scaled) in of_rollouts.zip(&*scaled) {
            for &(_, row) in rows {
                value[row as usize] = *scaled;
                reason[row as usize] = degenerate.then_some(Reason::GroupDegenerate);
            }
        }
    }
}
