//! Returns and generalized advantages along the turns of a trace.
//!
//! ```text
//! return_to_go      Q_t = Σ_{k≥t} γ^(k-t) r_k
//! gae               δ_t = r_t + γ V_{t+1} - V_t,   A_t = δ_t + γλ A_{t+1};   λ=0: δ, λ=1: Q_t - V_t
//! sequential_gae    the same along the order of play: step by step, in a step agent by agent
//! eligibility       Σ_{k≥t} δ_k e_k(t): every turn lays a trace that fades by γλ; `replacing`: until the agent's next turn
//! ```
//!
//! Rows are the turns in order of their first events, all agents in one sequence, or the events of `rows="events"`: those
//! of the policy, and others that have a `value`. What tools and the environment say without one is stepped over, and a
//! `reward` there belongs to the step before it. r is the field `reward` of the turn's
//! events (absent = 0), plus the outcome on the last turn of the sequence; V is the first `value` in the turn, 0 after the last turn. A turn
//! without a value makes the trace null (`field.absent`) where a critic is needed. Accumulating eligibility traces
//! equal `gae`, which is the equivalence of the backward and the forward view. O(|V|).
//! References: J. Schulman et al., GAE, arXiv 1506.02438, eq. 11–16; J. Liao et al., MARFT, arXiv 2504.16129; R. S.
//! Sutton, A. G. Barto, 2018, chapter 12; docs/reference/definitions.md, D14.

use std::borrow::Cow;

use crate::credit::method::{CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::{GAMMA, LAMBDA, Param, ParamKind, Params, ROWS, Value, WEIGHT};
use crate::credit::terms::{Credited, RowKind, Subject, TermKind, Terms};
use crate::graph::owner::NOBODY;
use crate::graph::{NO_UNIT, Owners, TraceGraph, Turns};
use crate::schema::{EventType, Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[
    Method::PerTrace(&RETURN_TO_GO),
    Method::PerTrace(&GAE),
    Method::PerTrace(&SEQUENTIAL_GAE),
    Method::PerTrace(&ELIGIBILITY),
];

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
    summary: "generalized advantage along the turns, with the recorded critic",
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
    summary: "generalized advantage along the order of play: step by step, agent by agent",
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
    summary: "temporal differences of the critic, credited to turns by their eligibility traces",
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
            doc: "replacing: a turn's eligibility ends when its agent acts again",
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
                Rule::Gae => series.generalized(gamma, lambda, 0..turns.list().len()),
                Rule::Sequential => {
                    series.ordinals(owners, turns);
                    let order = series.order_of_play(owners, turns);
                    if let Some(&last) = order.last() {
                        series.reward[last] += amount;
                    }
                    series.generalized(gamma, lambda, order.into_iter());
                }
                Rule::Eligibility => {
                    series.generalized(gamma, lambda, 0..turns.list().len());
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

    fn row_kind(&self, params: &Params) -> RowKind {
        if params.text("rows") == Some("events") { RowKind::Event } else { RowKind::Turn }
    }

    fn terms(&self, credited: &Credited<'_>, graph: &mut TraceGraph, out: &mut Terms) {
        let steps = self.steps(credited, graph);
        let replacing = credited.params.text("traces") == Some("replacing") && self.rule == Rule::Eligibility;
        if self.row_kind(credited.params) == RowKind::Event || (steps.order.len() > MOST_TURNS && !replacing)
        {
            steps.one_by_one(credited, out);
        } else {
            steps.all_later(credited, replacing, out);
        }
    }
}

/// Beyond so many turns, all later turns of every turn would be millions of terms.
const MOST_TURNS: usize = 300;

/// The steps of a trace as a method goes through them.
struct Steps {
    /// Own rows in the order of the method.
    order: Vec<usize>,
    /// Of every own row.
    reward: Vec<f64>,
    /// Of every own row, unless there is no critic.
    critic: Option<Vec<f64>>,
    /// Of every turn.
    owner: Vec<u32>,
    gamma: f64,
    fading: f64,
}

impl AlongTurns {
    fn steps(&self, credited: &Credited<'_>, graph: &mut TraceGraph) -> Steps {
        let &Credited { view, amount, params, .. } = credited;
        let gamma = params.float("gamma").unwrap_or_default();
        let has_critic = self.rule != Rule::ReturnToGo;
        let fading = if has_critic { gamma * params.float("lambda_").unwrap_or_default() } else { gamma };
        if self.row_kind(params) == RowKind::Event {
            let over = stepped_over(view, graph);
            let mut reward: Vec<f64> = (0..view.len()).map(|v| view.reward.get(v).unwrap_or(0.0)).collect();
            let (mut order, mut later) = (Vec::new(), amount);
            for &v in graph.canonical(view).rows().iter().rev() {
                later += reward[v as usize];
                if !is_over(over.as_deref(), v as usize) {
                    reward[v as usize] = std::mem::take(&mut later);
                    order.push(v as usize);
                }
            }
            order.reverse();
            let critic = |v| view.value.get(v).unwrap_or(f64::NAN);
            let critic = has_critic.then(|| (0..view.len()).map(critic).collect());
            return Steps { order, reward, critic, owner: Vec::new(), gamma, fading };
        }
        let (owners, turns) = graph.turns(view);
        let mut series = TurnSeries::default();
        series.rewards(view, 0.0, turns);
        let order = if self.rule == Rule::Sequential {
            series.ordinals(owners, turns);
            series.order_of_play(owners, turns)
        } else {
            (0..turns.list().len()).collect()
        };
        if let Some(&last) = order.last() {
            series.reward[last] += amount;
        }
        let has_values = has_critic && series.critics(view, owners, turns).is_ok();
        let owner = turns.list().iter().map(|turn| turn.owner).collect();
        Steps {
            order,
            reward: series.reward,
            critic: has_values.then_some(series.critic),
            owner,
            gamma,
            fading,
        }
    }
}

impl Steps {
    /// Place of every own row in the order.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.reward.len()];
        for (place, &row) in self.order.iter().enumerate() {
            places[row] = place;
        }
        places
    }

    /// A term for every step from the one that is asked about.
    fn all_later(&self, credited: &Credited<'_>, replacing: bool, out: &mut Terms) {
        let mut rule = match self.critic {
            None => "amount = Σ gamma^k r of the turns from this one on".to_owned(),
            Some(_) => {
                "amount = Σ (gamma lambda)^k δ of the turns from this one on, δ = r + gamma V' - V".to_owned()
            }
        };
        if replacing {
            rule.push_str(", until its agent's next one");
        }
        let rule = rule.into();
        let mut steps = self.reward.clone();
        if let Some(critic) = &self.critic {
            let mut next_critic = 0.0;
            for &t in self.order.iter().rev() {
                steps[t] = delta(steps[t], self.gamma, next_critic, critic[t]);
                next_critic = critic[t];
            }
        }
        let places = self.places();
        for (part, &first) in credited.rows.iter().enumerate() {
            out.begin(part);
            let first = first as usize;
            for (k, &t) in self.order[places[first]..].iter().enumerate() {
                if replacing && k > 0 && self.owner[t] == self.owner[first] {
                    break;
                }
                let weight = self.fading.powf(k as f64);
                out.push(TermKind::Turn, &rule, weight, steps[t], Subject::OwnRow(t as u32));
            }
        }
    }

    /// The recursion, in which the next step stands for all later ones.
    fn one_by_one(&self, credited: &Credited<'_>, out: &mut Terms) {
        let rule = match self.critic {
            None => "amount = r + gamma A'".into(),
            Some(_) => "amount = r + gamma V' - V + gamma lambda A'".into(),
        };
        let places = self.places();
        for (part, &row) in credited.rows.iter().enumerate() {
            out.begin(part);
            let own_row = row as usize;
            out.push(TermKind::Reward, &rule, 1.0, self.reward[own_row], Subject::OwnRow(row));
            if let Some(critic) = &self.critic {
                out.push(TermKind::Critic, &rule, -1.0, critic[own_row], Subject::OwnRow(row));
            }
            let Some(&later) = self.order.get(places[own_row] + 1) else { continue };
            if let Some(critic) = &self.critic {
                out.push(TermKind::Critic, &rule, self.gamma, critic[later], Subject::OwnRow(later as u32));
            }
            let value = credited.values.events[later];
            out.push(TermKind::Successor, &rule, self.fading, value, Subject::Edge(row, later as u32));
        }
    }
}

/// Which events of a trace are no steps of the policy where each event is one: what tools and the environment say, unless
/// a critic values it. None where all events are steps.
pub(super) fn stepped_over(view: &TraceView<'_>, graph: &mut TraceGraph) -> Option<Vec<bool>> {
    let valued = |v: usize| view.value.get(v).is_some();
    if (0..view.len()).all(valued) {
        return None;
    }
    let owners = graph.owners(view).codes().iter().zip(view.types);
    let over: Vec<bool> = owners
        .enumerate()
        .map(|(v, (&owner, &kind))| (owner == NOBODY || kind == EventType::ToolResult as u8) && !valued(v))
        .collect();
    over.contains(&true).then_some(over)
}

/// Whether an event is stepped over.
pub(super) fn is_over(over: Option<&[bool]>, v: usize) -> bool {
    over.is_some_and(|over| over[v])
}

/// Own rows of events where those that are stepped over have none.
pub(super) fn rows_beside(over: &[bool]) -> impl Iterator<Item = u32> + '_ {
    over.iter().zip(0..).map(|(&over, v)| if over { NO_UNIT } else { v })
}

/// The difference of a step: what it brings, less what the critic expected.
fn delta(reward: f64, gamma: f64, next_critic: f64, critic: f64) -> f64 {
    reward + gamma * next_critic - critic
}

impl AlongTurns {
    /// Every event of the policy is a step of its own, in canonical order.
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
        let over = stepped_over(view, graph);
        if let Some(over) = &over {
            values.row_of.extend(rows_beside(over));
        }
        let (mut next_critic, mut next, mut later) = (0.0, 0.0, amount);
        let mut step = |v: usize| {
            later += view.reward.get(v).unwrap_or(0.0);
            if is_over(over.as_deref(), v) {
                return Ok(());
            }
            let (reward, critic) = (std::mem::take(&mut later), critic(v)?);
            next = delta(reward, gamma, next_critic, critic) + fading * next;
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

    /// Generalized advantages along `order`, a permutation of the turns.
    fn generalized(&mut self, gamma: f64, lambda: f64, order: impl DoubleEndedIterator<Item = usize>) {
        self.values.clear();
        self.values.resize(self.reward.len(), 0.0);
        let (mut next_critic, mut next) = (0.0, 0.0);
        for t in order.rev() {
            next = delta(self.reward[t], gamma, next_critic, self.critic[t]) + gamma * lambda * next;
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
            let value_here = self.values[t];
            let (at, later) = next[turn.owner as usize];
            if at > 0 {
                self.values[t] -= fading.powi((at - t) as i32) * later;
            }
            next[turn.owner as usize] = (t, value_here);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::terms::testing::sums;
    use crate::credit::{Rows, Scratch, assign_trace};
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::schema::EventType::{Message, ToolResult};
    use crate::store::view::Nullable;
    use arrow_buffer::NullBuffer;
    use proptest::prelude::*;

    fn number(x: f64) -> Value {
        Value::Float(x)
    }

    fn credits(
        method: &AlongTurns,
        view: &TraceView<'_>,
        unit: Unit,
        arguments: &[(&str, Value)],
    ) -> Vec<f64> {
        let params = Params::check(method.info.params, arguments).unwrap();
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
        let arguments = [("gamma", number(g)), ("lambda_", number(l))];
        let f = g * l;
        let a2 = delta[2] + f * delta[3];
        let want = [delta[0] + f * (delta[1] + f * a2), delta[1] + f * a2, a2, delta[3]];
        for method in [&GAE, &SEQUENTIAL_GAE, &ELIGIBILITY] {
            close(&credits(method, &view, Unit::Turn, &arguments), &want);
        }
        // an agent's trace ends where it acts again
        let mut replacing = arguments.to_vec();
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
    fn what_tools_and_the_environment_say_is_stepped_over() {
        // a test of verl's: policy, policy, policy, two results, policy, policy
        let mut t = TestTrace::default();
        for (at, kind) in
            [Message, Message, Message, ToolResult, ToolResult, Message, Message].into_iter().enumerate()
        {
            t.event(kind, if kind == Message { "a" } else { "b" }).at(at as f64);
        }
        t.event(Message, "user").at(7.0);
        let mut reward = [0.1, 0.1, 0.1, 0.0, 0.0, 0.1, 1.0, 0.0];
        let critic = [4.0, 5.0, 6.0, f64::NAN, f64::NAN, 7.0, 9.0, f64::NAN];
        let nulls: NullBuffer = critic.iter().map(|x| !x.is_nan()).collect();
        let events = ("rows", Value::Text("events".into()));
        let of = |method: &AlongTurns, reward: &[f64], gamma, lambda| {
            let value = Nullable::new(&critic, Some(&nulls), 0);
            let view = TraceView { reward: Nullable::new(reward, None, 0), value, ..t.view() };
            let mut arguments = vec![events.clone(), ("gamma", number(gamma))];
            if method.rule != Rule::ReturnToGo {
                arguments.push(("lambda_", number(lambda)));
            }
            // the amount of these tests is 2
            let credits = credits(method, &view, Unit::Event, &arguments);
            let (steps, over): (Vec<_>, Vec<_>) =
                credits.into_iter().zip(&critic).partition(|(_, x)| !x.is_nan());
            assert!(over.iter().all(|(credit, _)| credit.is_nan()));
            steps.into_iter().map(|(credit, _)| credit).collect::<Vec<_>>()
        };
        reward[6] -= 2.0;
        let want = [-0.534_714_112, -1.575_992, -2.883_2, -4.56, -8.0];
        assert!(of(&GAE, &reward, 0.9, 0.8).iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-3));
        close(&of(&GAE, &reward, 1.0, 1.0), &[-2.6, -3.7, -4.8, -5.9, -8.0]);
        close(
            &of(&RETURN_TO_GO, &reward, 0.5, 0.0),
            &[0.1 * 1.875 + 1.0 / 16.0, 0.1 * 1.75 + 0.125, 0.4, 0.6, 1.0],
        );
        // what a result earns, the step before it earned; what comes after all steps, the last one
        (reward[4], reward[5], reward[6], reward[7]) = (0.4, -0.3, -2.0, 1.0);
        let paid = of(&RETURN_TO_GO, &reward, 1.0, 0.0);
        close(&paid, &[1.4, 1.3, 1.2, 0.7, 1.0]);
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
        let arguments = [("gamma", number(1.0)), ("lambda_", number(0.0))];
        // a, b, a: the outcome comes with the last turn that is played
        close(&credits(&SEQUENTIAL_GAE, &view, Unit::Turn, &arguments), &[3.0 - 1.0, 2.0 - 2.0, 2.0 - 3.0]);
    }

    #[test]
    fn a_turn_without_a_value_makes_the_trace_null() {
        let t = play();
        for method in [&GAE, &SEQUENTIAL_GAE, &ELIGIBILITY] {
            assert!(credits(method, &t.view(), Unit::Turn, &[]).iter().all(|c| c.is_nan()));
        }
        assert!(credits(&RETURN_TO_GO, &t.view(), Unit::Turn, &[]).iter().all(|c| c.is_finite()));
    }

    fn amounts_and_terms(
        method: &AlongTurns,
        view: &TraceView<'_>,
        arguments: &[(&str, Value)],
    ) -> Option<(Vec<f64>, Terms, usize)> {
        let params = Params::check(method.info.params, arguments).unwrap();
        let (mut graph, mut values, mut terms) = (TraceGraph::default(), Values::default(), Terms::default());
        graph.begin();
        method.assign(view, 2.0, &params, &mut graph, &mut values).ok()?;
        let rows: Vec<u32> = (0..values.events.len() as u32).collect();
        let credited = Credited { view, amount: 2.0, params: &params, values: &values, rows: &rows };
        method.terms(&credited, &mut graph, &mut terms);
        let kinds = terms.list().iter().filter(|term| term.kind == TermKind::Turn).count();
        Some((values.events, terms, kinds))
    }

    #[test]
    fn of_many_turns_the_next_stands_for_the_rest() {
        for (n, is_complete) in [(MOST_TURNS, true), (MOST_TURNS + 1, false)] {
            let mut t = TestTrace::default();
            for at in 0..n {
                t.event(Message, ["a", "b"][at % 2]).at(at as f64).turn(at as u32);
            }
            let numbers: Vec<f64> = (0..n).map(|v| v as f64 / 64.0).collect();
            let critic = Nullable::new(&numbers, None, 0);
            let view = TraceView { value: critic, ..t.view() };
            for method in [&RETURN_TO_GO, &GAE, &SEQUENTIAL_GAE] {
                let (values, terms, turns) = amounts_and_terms(method, &view, &[]).unwrap();
                assert_eq!(turns, if is_complete { n * (n + 1) / 2 } else { 0 }, "{}", method.info.name);
                for (got, want) in sums(&terms, n).iter().zip(&values) {
                    assert!((got - want).abs() < 1e-9);
                }
            }
            let replacing = [("traces", Value::Text("replacing".into()))];
            let (values, terms, turns) = amounts_and_terms(&ELIGIBILITY, &view, &replacing).unwrap();
            assert_eq!(turns, 2 * n - 1);
            for (got, want) in sums(&terms, n).iter().zip(&values) {
                assert!((got - want).abs() < 1e-9);
            }
        }
    }

    proptest! {
        #[test]
        fn terms_sum_to_values(t in random_trace(25, false), events in any::<bool>()) {
            let n = t.t.len();
            let reward: Vec<f64> = (0..n).map(|v| v as f64 / 4.0 - 1.0).collect();
            let value: Vec<f64> = (0..n).map(|v| 1.0 - v as f64 / 8.0).collect();
            // no critic values what a tool says
            let nulls: NullBuffer =
                t.view().types.iter().map(|&kind| kind != ToolResult as u8).collect();
            let (reward, value) = (Nullable::new(&reward, None, 0), Nullable::new(&value, Some(&nulls), 0));
            let view = TraceView { reward, value, ..t.view() };
            for method in [&RETURN_TO_GO, &GAE, &SEQUENTIAL_GAE, &ELIGIBILITY] {
                let mut arguments = vec![("gamma", number(0.8))];
                if events && method.info.params.iter().any(|param| param.name == "rows") {
                    arguments.push(("rows", Value::Text("events".into())));
                }
                if method.rule == Rule::Eligibility && events {
                    arguments.push(("traces", Value::Text("replacing".into())));
                }
                let Some((values, terms, _)) = amounts_and_terms(method, &view, &arguments) else { continue };
                for (row, (got, want)) in sums(&terms, values.len()).iter().zip(&values).enumerate() {
                    if events && method.info.params.iter().any(|p| p.name == "rows") && !nulls.is_valid(row) {
                        continue;
                    }
                    prop_assert!((got - want).abs() < 1e-9, "{} {} {}", method.info.name, got, want);
                }
            }
        }

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
                    let undiscounted = credits(&GAE, &view, unit, &with(1.0));
                    let step = credits(&GAE, &view, unit, &with(0.0));
                    let half = credits(&GAE, &view, unit, &with(0.5));
                    for i in 0..returns.len() {
                        // λ = 1 is the return less the critic: a constant per row, bounded by the critic's range
                        let critic = returns[i] - undiscounted[i];
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
            let arguments = [("gamma", number(gamma)), ("lambda_", number(lambda))];
            let (a, b) = (credits(&GAE, &view, Unit::Turn, &arguments), credits(&ELIGIBILITY, &view, Unit::Turn, &arguments));
            for (a, b) in a.iter().zip(&b) {
                prop_assert!(a.to_bits() == b.to_bits());
            }
        }
    }
}
