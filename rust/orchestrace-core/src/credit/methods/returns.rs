//! Returns and generalised advantages along the turns of a trace.
//!
//! ```text
//! return_to_go      Q_t = Σ_{k≥t} γ^(k-t) r_k
//! gae               δ_t = r_t + γ V_{t+1} - V_t,   A_t = δ_t + γλ A_{t+1};   λ=0: δ, λ=1: Q_t - V_t
//! sequential_gae    the same along the order of play: step by step, in a step agent by agent
//! eligibility       Σ_{k≥t} δ_k e_k(t): every turn lays a trace that fades by γλ; `replacing`: until the agent's next turn
//! ```
//!
//! Rows are the turns in order of their first events, all agents in one sequence; r is the field `reward` of the turn's
//! events (absent = 0), plus the outcome on the last turn of the sequence; V is the first `value` in the turn, 0 after the last turn. A turn
//! without a value makes the trace null (`field.absent`) where a critic is needed. Accumulating eligibility traces
//! equal `gae`, which is the equivalence of the backward and the forward view. O(|V|).
//! References: J. Schulman et al., GAE, arXiv 1506.02438, eq. 11–16; J. Liao et al., MARFT, arXiv 2504.16129; R. S.
//! Sutton, A. G. Barto, 2018, chapter 12; docs/reference/definitions.md, D14.

use std::borrow::Cow;

use crate::credit::method::{CreditMethod, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::{GAMMA, LAMBDA, Param, ParamKind, Params, ROWS, Value, WEIGHT};
use crate::graph::{NO_UNIT, Owners, TraceGraph, Turns};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// A rule along the turns.
pub struct AlongTurns {
    info: &'static MethodInfo,
    rule: Rule,
}

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    ReturnToGo,
    Gae,
    Sequential,
    Eligibility,
}

/// The method `return_to_go`.
pub static RETURN_TO_GO: AlongTurns = AlongTurns { info: &RETURN_INFO, rule: Rule::ReturnToGo };
/// The method `gae`.
pub static GAE: AlongTurns = AlongTurns { info: &GAE_INFO, rule: Rule::Gae };
/// The method `sequential_gae`.
pub static SEQUENTIAL_GAE: AlongTurns = AlongTurns { info: &SEQUENTIAL_INFO, rule: Rule::Sequential };
/// The method `eligibility`.
pub static ELIGIBILITY: AlongTurns = AlongTurns { info: &ELIGIBILITY_INFO, rule: Rule::Eligibility };

static RETURN_INFO: MethodInfo = MethodInfo {
    name: "return_to_go",
    summary: "discounted sum of the rewards from a turn on",
    reference: "Sutton & Barto 2018, section 3.3",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[],
    params: &[GAMMA, ROWS, WEIGHT],
    tier: None,
    needs_graph: false,
};

static GAE_INFO: MethodInfo = MethodInfo {
    name: "gae",
    summary: "generalised advantage along the turns, with the recorded critic",
    reference: "arXiv 1506.02438, eq. 16",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[],
    params: &[GAMMA, LAMBDA, ROWS, WEIGHT],
    tier: None,
    needs_graph: false,
};

static SEQUENTIAL_INFO: MethodInfo = MethodInfo {
    name: "sequential_gae",
    summary: "generalised advantage along the order of play: step by step, agent by agent",
    reference: "arXiv 2504.16129",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[],
    params: &[GAMMA, LAMBDA, WEIGHT],
    tier: None,
    needs_graph: false,
};

static ELIGIBILITY_INFO: MethodInfo = MethodInfo {
    name: "eligibility",
    summary: "differences of the critic, paid to the turns whose traces have not faded",
    reference: "Sutton & Barto 2018, chapter 12",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        GAMMA,
        LAMBDA,
        Param {
            name: "traces",
            kind: ParamKind::Choice(&["accumulating", "replacing"]),
            default: Value::Text(Cow::Borrowed("accumulating")),
            doc: "replacing: a trace ends where its agent acts again",
        },
        WEIGHT,
    ],
    tier: None,
    needs_graph: false,
};

impl CreditMethod for AlongTurns {
    fn info(&self) -> &'static MethodInfo {
        self.info
    }

    fn assign(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        graph: &mut TraceGraph,
        values: &mut Values,
    ) -> Result<(), Reason> {
        if params.text("rows") == Some("events") {
            return self.along_events(view, amount, params, graph, values);
        }
        let (owners, turns) = graph.turns(view);
        values.row_of.extend_from_slice(turns.of_events());
        let mut series = TurnSeries { values: std::mem::take(&mut values.events), ..TurnSeries::default() };
        std::mem::swap(&mut series.reward, &mut values.work[0]);
        std::mem::swap(&mut series.critic, &mut values.work[1]);
        let in_time = if self.rule == Rule::Sequential { 0.0 } else { amount };
        series.rewards(view, in_time, turns);
        let gamma = params.float("gamma").unwrap_or_default();
        let lambda = params.float("lambda_").unwrap_or_default();
        let done = match self.rule {
            Rule::ReturnToGo => {
                series.returns_to_go(gamma);
                Ok(())
            }
            _ => series.critics(view, owners, turns),
        };
        if done.is_ok() {
            match self.rule {
                Rule::ReturnToGo => {}
                Rule::Gae => series.generalised(gamma, lambda, 0..turns.list().len()),
                Rule::Sequential => {
                    series.ordinals(owners, turns);
                    let order = series.order_of_play(owners, turns);
                    if let Some(&last) = order.last() {
                        series.reward[last] += amount;
                    }
                    series.generalised(gamma, lambda, order.into_iter());
                }
                Rule::Eligibility => {
                    series.generalised(gamma, lambda, 0..turns.list().len());
                    if params.text("traces") == Some("replacing") {
                        series.until_next_turn(gamma * lambda, owners, turns);
                    }
                }
            }
        }
        std::mem::swap(&mut series.reward, &mut values.work[0]);
        std::mem::swap(&mut series.critic, &mut values.work[1]);
        values.events = series.values;
        done
    }
}

impl AlongTurns {
    /// Every event is a step of its own, in canonical order.
    fn along_events(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        graph: &mut TraceGraph,
        values: &mut Values,
    ) -> Result<(), Reason> {
        let n = view.len();
        let gamma = params.float("gamma").unwrap_or_default();
        let fading = match self.rule {
            Rule::Gae => gamma * params.float("lambda_").unwrap_or_default(),
            // without a critic the return is what the differences sum to
            _ => gamma,
        };
        let critic = |v: usize| match self.rule {
            Rule::Gae => view.value.get(v).ok_or(Reason::FieldAbsent),
            _ => Ok(0.0),
        };
        values.events.resize(n, 0.0);
        let (mut next_critic, mut next, mut reward_at_end) = (0.0, 0.0, amount);
        let mut step = |v: usize| {
            let (reward, critic) = (view.reward.get(v).unwrap_or(0.0) + reward_at_end, critic(v)?);
            reward_at_end = 0.0;
            next = reward + gamma * next_critic - critic + fading * next;
            next_critic = critic;
            values.events[v] = next;
            Ok(())
        };
        let order = graph.canonical(view);
        if order.is_document() {
            (0..n).rev().try_for_each(&mut step)
        } else {
            order.rows().iter().rev().try_for_each(|&v| step(v as usize))
        }
    }
}

/// Rewards, critic and results along the turns of a trace.
#[derive(Debug, Default)]
pub(super) struct TurnSeries {
    /// Reward of each turn.
    pub(super) reward: Vec<f64>,
    /// Ordinal of each turn among its agent's, from 0.
    pub(super) ordinal: Vec<u32>,
    /// Critic's estimate of each turn.
    pub(super) critic: Vec<f64>,
    /// Results.
    pub(super) values: Vec<f64>,
}

impl TurnSeries {
    pub(super) fn rewards(&mut self, view: &TraceView<'_>, amount: f64, turns: &Turns) {
        let n = turns.list().len();
        self.reward.clear();
        self.reward.resize(n, 0.0);
        if !view.reward.is_absent() {
            for (v, &turn) in turns.of_events().iter().enumerate() {
                if let (Some(sum), Some(reward)) = (self.reward.get_mut(turn as usize), view.reward.get(v)) {
                    *sum += reward;
                }
            }
        }
        if let Some(last) = self.reward.last_mut() {
            *last += amount;
        }
    }

    pub(super) fn ordinals(&mut self, owners: &Owners, turns: &Turns) {
        let mut of_agent = vec![0_u32; owners.names().len()];
        self.ordinal.clear();
        self.ordinal.extend(turns.list().iter().map(|turn| {
            let ordinal = &mut of_agent[turn.owner as usize];
            *ordinal += 1;
            *ordinal - 1
        }));
    }

    /// First `value` of each turn in canonical order.
    fn critics(&mut self, view: &TraceView<'_>, owners: &Owners, turns: &Turns) -> Result<(), Reason> {
        self.critic.clear();
        self.critic.resize(turns.list().len(), f64::NAN);
        for &v in owners.order().rows() {
            let Some(critic) = self.critic.get_mut(turns.of_events()[v as usize] as usize) else { continue };
            if let (true, Some(value)) = (critic.is_nan(), view.value.get(v as usize)) {
                *critic = value;
            }
        }
        if self.critic.iter().any(|v| v.is_nan()) { Err(Reason::FieldAbsent) } else { Ok(()) }
    }

    pub(super) fn returns_to_go(&mut self, gamma: f64) {
        self.values.clear();
        self.values.extend_from_slice(&self.reward);
        let mut next = 0.0;
        for value in self.values.iter_mut().rev() {
            *value += gamma * next;
            next = *value;
        }
    }

    /// Return of all agents from each step on, step t being the t-th turn of every agent; undiscounted. The outcome,
    /// which the rewards must not hold, comes when all is done, so that it belongs to every step.
    pub(super) fn joint_returns(&mut self, amount: f64) {
        let steps = self.ordinal.iter().map(|&t| t as usize + 1).max().unwrap_or(0);
        let mut of_step = vec![0.0; steps];
        for (&t, reward) in self.ordinal.iter().zip(&self.reward) {
            of_step[t as usize] += reward;
        }
        let mut next = amount;
        for step in of_step.iter_mut().rev() {
            *step += next;
            next = *step;
        }
        self.values.clear();
        self.values.extend(self.ordinal.iter().map(|&t| of_step[t as usize]));
    }

    /// Generalised advantages along `order`, a permutation of the turns.
    fn generalised(&mut self, gamma: f64, lambda: f64, order: impl DoubleEndedIterator<Item = usize>) {
        self.values.clear();
        self.values.resize(self.reward.len(), 0.0);
        let (mut next_critic, mut next) = (0.0, 0.0);
        for t in order.rev() {
            let delta = self.reward[t] + gamma * next_critic - self.critic[t];
            next = delta + gamma * lambda * next;
            next_critic = self.critic[t];
            self.values[t] = next;
        }
    }

    /// Turns by (ordinal, agent), agents in order of their first turns.
    fn order_of_play(&self, owners: &Owners, turns: &Turns) -> Vec<usize> {
        let mut rank = vec![NO_UNIT; owners.names().len()];
        let mut agents = 0;
        for turn in turns.list() {
            let rank = &mut rank[turn.owner as usize];
            if *rank == NO_UNIT {
                *rank = agents;
                agents += 1;
            }
        }
        let mut order: Vec<usize> = (0..turns.list().len()).collect();
        order.sort_by_key(|&t| (self.ordinal[t], rank[turns.list()[t].owner as usize]));
        order
    }

    /// Cuts sums over all later turns off where the agent acts again.
    fn until_next_turn(&mut self, fading: f64, owners: &Owners, turns: &Turns) {
        let mut next = vec![(0, 0.0); owners.names().len()];
        for (t, turn) in turns.list().iter().enumerate().rev() {
            let whole = self.values[t];
            let (at, later) = next[turn.owner as usize];
            if at > 0 {
                self.values[t] -= fading.powi((at - t) as i32) * later;
            }
            next[turn.owner as usize] = (t, whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::{Rows, Scratch, assign_trace};
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::schema::EventType::Message;
    use crate::store::view::Nullable;
    use proptest::prelude::*;

    fn number(x: f64) -> Value {
        Value::Float(x)
    }

    fn credits(method: &AlongTurns, view: &TraceView<'_>, unit: Unit, given: &[(&str, Value)]) -> Vec<f64> {
        let params = Params::check(method.info.params, given).unwrap();
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        assign_trace(method, view, Some(2.0), &params, unit, &mut scratch, &mut rows);
        let mut credits = rows.credit;
        credits.iter_mut().zip(&rows.valid).filter(|(_, valid)| !**valid).for_each(|(c, _)| *c = f64::NAN);
        credits
    }

    /// Two agents: a, b, a, b at t = 0..3, each event a turn.
    fn play() -> TestTrace {
        let mut t = TestTrace::default();
        for (at, name) in [(0.0, "a"), (1.0, "b"), (2.0, "a"), (3.0, "b")] {
            t.event(Message, name).at(at).turn(at as u32);
        }
        t
    }

    const REWARD: [f64; 4] = [1.0, 0.0, -1.0, 0.5];
    const CRITIC: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len(), "{got:?}");
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() < 1e-12, "{got:?} {want:?}");
        }
    }

    #[test]
    fn golden() {
        let t = play();
        let view = TraceView {
            reward: Nullable::new(&REWARD, None, 0),
            value: Nullable::new(&CRITIC, None, 0),
            ..t.view()
        };
        let (g, l) = (0.5, 0.5);
        // rewards 1, 0, -1, 2.5 with the outcome on the last turn
        let returns = [1.0 - 0.25 + 2.5 / 8.0, -0.5 + 2.5 / 4.0, -1.0 + 2.5 / 2.0, 2.5];
        close(&credits(&RETURN_TO_GO, &view, Unit::Turn, &[("gamma", number(g))]), &returns);
        let delta = [1.0 + g * 1.0 - 0.5, g * 2.0 - 1.0, -1.0 + g * 4.0 - 2.0, 2.5 - 4.0];
        let given = [("gamma", number(g)), ("lambda_", number(l))];
        let f = g * l;
        let a2 = delta[2] + f * delta[3];
        let want = [delta[0] + f * (delta[1] + f * a2), delta[1] + f * a2, a2, delta[3]];
        for method in [&GAE, &SEQUENTIAL_GAE, &ELIGIBILITY] {
            close(&credits(method, &view, Unit::Turn, &given), &want);
        }
        // an agent's trace ends where it acts again
        let mut replacing = given.to_vec();
        replacing.push(("traces", Value::Text("replacing".into())));
        let want = [delta[0] + f * delta[1], delta[1] + f * delta[2], a2, delta[3]];
        close(&credits(&ELIGIBILITY, &view, Unit::Turn, &replacing), &want);
        // larger units are means
        close(
            &credits(&RETURN_TO_GO, &view, Unit::Agent, &[("gamma", number(g))])[..1],
            &[f64::midpoint(returns[0], returns[2])],
        );
    }

    #[test]
    fn the_order_of_play_is_step_by_step() {
        // a acts twice before b does: b's first turn belongs to the first step
        let mut t = TestTrace::default();
        for (at, name) in [(0.0, "a"), (1.0, "a"), (2.0, "b")] {
            t.event(Message, name).at(at).turn(at as u32);
        }
        let critic = [1.0, 2.0, 3.0];
        let view = TraceView { value: Nullable::new(&critic, None, 0), ..t.view() };
        let given = [("gamma", number(1.0)), ("lambda_", number(0.0))];
        // a, b, a: the outcome comes with the last turn that is played
        close(&credits(&SEQUENTIAL_GAE, &view, Unit::Turn, &given), &[3.0 - 1.0, 2.0 - 2.0, 2.0 - 3.0]);
    }

    #[test]
    fn a_turn_without_a_value_makes_the_trace_null() {
        let t = play();
        for method in [&GAE, &SEQUENTIAL_GAE, &ELIGIBILITY] {
            assert!(credits(method, &t.view(), Unit::Turn, &[]).iter().all(|c| c.is_nan()));
        }
        assert!(credits(&RETURN_TO_GO, &t.view(), Unit::Turn, &[]).iter().all(|c| c.is_finite()));
    }

    proptest! {
        #[test]
        fn limits_of_lambda(t in random_trace(20, true), gamma in 0.0..1.0_f64) {
            let n = t.t.len();
            let reward: Vec<f64> = (0..n).map(|v| (v % 5) as f64 - 2.0).collect();
            let critic: Vec<f64> = (0..n).map(|v| (v % 7) as f64).collect();
            let view = TraceView {
                reward: Nullable::new(&reward, None, 0),
                value: Nullable::new(&critic, None, 0),
                ..t.view()
            };
            for unit in [Unit::Turn, Unit::Event] {
                for rows in ["turns", "events"] {
                    let common = [("gamma", number(gamma)), ("rows", Value::Text(rows.into()))];
                    let with = |lambda| [common[0].clone(), common[1].clone(), ("lambda_", number(lambda))];
                    let returns = credits(&RETURN_TO_GO, &view, unit, &common);
                    let whole = credits(&GAE, &view, unit, &with(1.0));
                    let step = credits(&GAE, &view, unit, &with(0.0));
                    let half = credits(&GAE, &view, unit, &with(0.5));
                    for i in 0..returns.len() {
                        // λ = 1 is the return less the critic: a constant per row, bounded by the critic's range
                        let critic = returns[i] - whole[i];
                        prop_assert!(returns[i].is_nan() || (-1e-9..=6.0 + 1e-9).contains(&critic));
                        prop_assert!(step[i].is_nan() == half[i].is_nan());
                    }
                }
            }
        }

        #[test]
        fn accumulating_traces_are_gae(t in random_trace(20, true), gamma in 0.0..1.0_f64, lambda in 0.0..1.0_f64) {
            let critic: Vec<f64> = (0..t.t.len()).map(|v| (v % 7) as f64).collect();
            let view = TraceView { value: Nullable::new(&critic, None, 0), ..t.view() };
            let given = [("gamma", number(gamma)), ("lambda_", number(lambda))];
            let (a, b) = (credits(&GAE, &view, Unit::Turn, &given), credits(&ELIGIBILITY, &view, Unit::Turn, &given));
            for (a, b) in a.iter().zip(&b) {
                prop_assert!(a.to_bits() == b.to_bits());
            }
        }
    }
}
