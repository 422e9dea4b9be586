//! The outcome of a rollout relative to those of its group: one kernel, several rules.
//!
//! ```text
//! grpo      (R - mean) / (std + ε)
//! dr_grpo    R - mean
//! rloo       R - mean of the others = G/(G-1) (R - mean)
//! opo        R - Σ l R / Σ l, l the length of a rollout
//! maxrl     (R - mean) / mean, of rewards that are 0 or 1
//! pass_k     the best gets r_max - r_second, the others 0; divided by std + ε if `norm_std`
//! ```
//!
//! The row of each is the whole trace, or with `reward_of` an agent or role (`own_reward`). A group of one, or of rewards that are equal to rounding, says nothing: its
//! advantages are exactly 0. Released code gives a group of one its raw reward (mean 0, deviation 1), which `compat="verl"` reproduces.
//! `maxrl` is the gradient of the log-likelihood of success: a success weighs the more, the rarer it is, and a failure -1. It says
//! nothing of rewards between 0 and 1. Two passes in f64, O(G log G).
//! References: Z. Shao et al., `DeepSeekMath`, arXiv 2402.03300, eq. 3; Z. Liu et al., Dr. GRPO, arXiv 2503.20783;
//! A. Ahmadian et al., RLOO, arXiv 2402.14740; Y. Hao et al., OPO, arXiv 2505.23585; Y. Chen et al., Pass@k, arXiv 2503.19595; `MaxRL`, arXiv 2602.02710;
//! docs/reference/definitions.md, D13.
//! Axioms: the values of a group sum to zero, but for `pass_k`, and for `opo`, where they do times lengths; invariance of `grpo` to R → aR + b, a > 0, up to ε.

use std::borrow::Cow;

use super::own_reward::{self, REWARD_OF};
use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary};
use crate::credit::method::{Axiom, GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{COMPAT, DDOF, EPSILON, Param, ParamKind, Params, Value};
use crate::credit::segments::{Scale, alike, center, silent, standardize, unit_of};
use crate::credit::sum::pairwise;
use crate::credit::terms::{Relative, RowKind, Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::graph::owner::NOBODY;
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[
    Method::PerGroup(&GRPO),
    Method::PerGroup(&DR_GRPO),
    Method::PerGroup(&RLOO),
    Method::PerGroup(&OPO),
    Method::PerGroup(&MAXRL),
    Method::PerGroup(&PASS_K),
];

/// A rule over the rewards of a group.
pub struct GroupRelative {
    info: &'static MethodInfo,
    rule: Rule,
}

enum Rule {
    Grpo,
    DrGrpo,
    Rloo,
    PassK,
    Opo,
    MaxRl,
}

/// The method `grpo`.
pub static GRPO: GroupRelative = GroupRelative { info: &GRPO_INFO, rule: Rule::Grpo };
/// The method `dr_grpo`.
pub static DR_GRPO: GroupRelative = GroupRelative { info: &DR_GRPO_INFO, rule: Rule::DrGrpo };
/// The method `rloo`.
pub static RLOO: GroupRelative = GroupRelative { info: &RLOO_INFO, rule: Rule::Rloo };
/// The method `opo`.
pub static OPO: GroupRelative = GroupRelative { info: &OPO_INFO, rule: Rule::Opo };
/// The method `maxrl`.
pub static MAXRL: GroupRelative = GroupRelative { info: &MAXRL_INFO, rule: Rule::MaxRl };
/// The method `pass_k`.
pub static PASS_K: GroupRelative = GroupRelative { info: &PASS_K_INFO, rule: Rule::PassK };

static GRPO_INFO: MethodInfo = MethodInfo {
    name: "grpo",
    summary: "reward of a rollout, centered and scaled within its group",
    reference: "arXiv 2402.03300, eq. 3",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[Axiom::ZeroMean],
    params: &[DDOF, EPSILON, REWARD_OF, COMPAT],
    tier: None,
    needs_graph: false,
};

static DR_GRPO_INFO: MethodInfo = MethodInfo {
    name: "dr_grpo",
    summary: "reward of a rollout - mean of its group",
    reference: "arXiv 2503.20783",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[Axiom::ZeroMean, Axiom::Linearity],
    params: &[REWARD_OF, COMPAT],
    tier: None,
    needs_graph: false,
};

static RLOO_INFO: MethodInfo = MethodInfo {
    name: "rloo",
    summary: "reward of a rollout - mean of the others of its group",
    reference: "arXiv 2402.14740",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[Axiom::ZeroMean, Axiom::Linearity],
    params: &[REWARD_OF, COMPAT],
    tier: None,
    needs_graph: false,
};

static OPO_INFO: MethodInfo = MethodInfo {
    name: "opo",
    summary: "reward of a rollout - length-weighted mean of its group",
    reference: "arXiv 2505.23585",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[Axiom::Linearity],
    params: &[
        Param {
            name: "length",
            kind: ParamKind::Choice(&["tokens_out", "events"]),
            default: Value::Text(Cow::Borrowed("tokens_out")),
            doc: "length of a rollout: tokens that the team wrote, or events that it owns",
        },
        COMPAT,
    ],
    tier: None,
    needs_graph: false,
};

static MAXRL_INFO: MethodInfo = MethodInfo {
    name: "maxrl",
    summary: "success of a rollout relative to the success rate of its group",
    reference: "arXiv 2602.02710",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[Axiom::ZeroMean],
    params: &[],
    tier: None,
    needs_graph: false,
};

static PASS_K_INFO: MethodInfo = MethodInfo {
    name: "pass_k",
    summary: "lead of a group's best rollout over the second; 0 for all others",
    reference: "arXiv 2503.19595",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        Param {
            name: "norm_std",
            kind: ParamKind::Bool,
            default: Value::Bool(false),
            doc: "divide by the standard deviation of the group (n - 1), as the released code does",
        },
        EPSILON,
    ],
    tier: None,
    needs_graph: false,
};

impl GroupMethod for GroupRelative {
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
        if let Some(whose) = own_reward::whose(params) {
            own_reward::decide(view, whose, corpus, graph, rows);
        } else if matches!(self.rule, Rule::Opo) {
            // what is not known makes the baseline of the group unknown
            let length = length(view, params.text("length") == Some("events"), graph.owners(view).codes());
            rows.push(0, 0, amount, length.unwrap_or(f64::NAN));
        } else {
            rows.value.push(amount);
        }
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        let rewards = group.value;
        let n = rewards.len();
        let epsilon = params.float("epsilon").unwrap_or_default();
        if own_reward::whose(params).is_some() {
            let lone = (params.text("compat") == Some("verl")).then(|| self.lone_divisor(epsilon));
            let scale = |n| self.scale(n, params).unwrap_or(Scale::None);
            return own_reward::compare(group, scale, lone, out);
        }
        out.value.clear();
        out.reason.clear();
        if n == 1 && params.text("compat") == Some("verl") {
            out.value.push(rewards[0] / self.lone_divisor(epsilon));
            out.reason.push(None);
            return;
        }
        if matches!(self.rule, Rule::Opo) {
            return against_lengths(rewards, group.other, out);
        }
        if matches!(self.rule, Rule::MaxRl) {
            return against_successes(rewards, out);
        }
        let Some(scale) = self.scale(n, params) else {
            return best(rewards, params.bool("norm_std").then_some(epsilon), out);
        };
        let degenerate = standardize(rewards, scale, &mut out.value);
        out.reason.resize(n, degenerate.then_some(Reason::GroupDegenerate));
    }

    fn row_kind(&self, params: &Params) -> RowKind {
        if own_reward::whose(params).is_some() { RowKind::Agent } else { RowKind::Trace }
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        let rewards = group.value;
        let n = rewards.len();
        let epsilon = params.float("epsilon").unwrap_or_default();
        let whom = |row: usize| Subject::Rollout(group.rollout[row]);
        let verl = params.text("compat") == Some("verl");
        if own_reward::whose(params).is_some() {
            let scale = |n| self.scale(n, params).unwrap_or(Scale::None);
            let lone = verl.then(|| self.lone_divisor(epsilon));
            return own_reward::terms(group, scale, lone, rows, out);
        }
        let alone = n == 1 && verl;
        for (part, &own_row) in rows.iter().enumerate() {
            out.begin(part);
            if alone {
                let rule = "amount = R, since released code leaves a group of one unchanged".into();
                let weight = 1.0 / self.lone_divisor(epsilon);
                out.push(TermKind::Rollout, &rule, weight, rewards[0], whom(0));
                continue;
            }
            let rule = match self.rule {
                Rule::Grpo => "amount = (R - mean) / (deviation + ε) over the group",
                Rule::DrGrpo => "amount = R - mean over the group",
                Rule::Rloo => "amount = R - mean of the others of the group",
                Rule::Opo => "amount = R - mean of the group, weighted by length",
                Rule::MaxRl => "amount = (R - mean) / mean over the group",
                Rule::PassK => "amount = R_best - R_second for the best of the group, else 0",
            }
            .into();
            let (place, kind) = (own_row as usize, TermKind::Rollout);
            if let Some(scale) = self.scale(n, params) {
                Relative { numbers: rewards, place, scale, factor: 1.0, kind, rule }.explain(whom, out);
                continue;
            }
            if matches!(self.rule, Rule::MaxRl) {
                // What is equal is 0 by the same rule.
                let scale = successes(rewards).map_or(Scale::None, |k| Scale::Factor(n as f64 / k as f64));
                Relative { numbers: rewards, place, scale, factor: 1.0, kind, rule }.explain(whom, out);
                continue;
            }
            if matches!(self.rule, Rule::Opo) {
                let baseline = weighted_mean(rewards, group.other);
                let total = pairwise(group.other);
                for (row, &reward) in rewards.iter().enumerate() {
                    let is_own = f64::from(u8::from(row == place));
                    let weight = baseline.map_or(0.0, |_| is_own - group.other[row] / total);
                    out.push(kind, &rule, weight, reward, whom(row));
                }
                if let Some(baseline) = baseline {
                    out.beside(TermKind::Mean, &rule, baseline, "by length");
                }
                out.beside(TermKind::Count, &rule, group.other[place], "length of this rollout");
                continue;
            }
            let (_, divisor) = center(rewards, Scale::Deviation(1, epsilon));
            let unit = if params.bool("norm_std") { divisor.unwrap_or(1.0) } else { 1.0 };
            let lead = first_two(rewards).filter(|&(best, _)| best == place && divisor.is_some());
            for (row, &reward) in rewards.iter().enumerate() {
                let weight = match lead {
                    Some((best, _)) if best == row => 1.0 / unit,
                    Some((_, second)) if second == row => -1.0 / unit,
                    _ => 0.0,
                };
                out.push(kind, &rule, weight, reward, whom(row));
            }
        }
    }
}

impl GroupRelative {
    /// What released code divides the reward of a group of one by.
    fn lone_divisor(&self, epsilon: f64) -> f64 {
        if matches!(self.rule, Rule::Grpo) { 1.0 + epsilon } else { 1.0 }
    }

    /// How rewards of so many rollouts are scaled, unless the best alone is paid.
    fn scale(&self, n: usize, params: &Params) -> Option<Scale> {
        match self.rule {
            Rule::Grpo => {
                let epsilon = params.float("epsilon").unwrap_or_default();
                Some(Scale::Deviation(params.int("ddof").unwrap_or(1), epsilon))
            }
            Rule::DrGrpo => Some(Scale::None),
            Rule::Rloo => Some(Scale::Factor(n as f64 / (n as f64 - 1.0))),
            Rule::PassK | Rule::Opo | Rule::MaxRl => None,
        }
    }
}

/// How many rollouts succeeded, where some did and some did not; none, too, where a reward is neither 0 nor 1.
fn successes(rewards: &[f64]) -> Option<usize> {
    let succeeded = rewards.iter().filter(|reward| **reward == 1.0).count();
    let failed = rewards.iter().filter(|reward| **reward == 0.0).count();
    (succeeded > 0 && failed > 0 && succeeded + failed == rewards.len()).then_some(succeeded)
}

/// Rewards of 0 and 1 less their mean, over the mean: (n - k) / k for each of k successes of n, and -1 for a failure.
fn against_successes(rewards: &[f64], out: &mut Compared) {
    out.begin(rewards.len());
    if rewards.iter().any(|reward| !matches!(*reward, 0.0 | 1.0)) {
        out.value.fill(f64::NAN);
        out.reason.fill(Some(Reason::RewardNotBinary));
        return;
    }
    let Some(succeeded) = successes(rewards) else {
        out.reason.fill(Some(Reason::GroupDegenerate));
        return;
    };
    let gain = (rewards.len() - succeeded) as f64 / succeeded as f64;
    for (value, &reward) in out.value.iter_mut().zip(rewards) {
        *value = if reward == 1.0 { gain } else { -1.0 };
    }
}

/// How long a rollout is: the events that somebody of the team owns, or the tokens that they wrote, if any are
/// recorded.
fn length(view: &TraceView<'_>, by_events: bool, owners: &[u32]) -> Option<f64> {
    let mut owned = (0..view.len()).filter(|&v| owners[v] != NOBODY);
    if by_events {
        return Some(owned.count() as f64);
    }
    owned
        .try_fold(None, |sum: Option<i64>, v| {
            Some(view.tokens_out.get(v).map_or(sum, |n| Some(sum.unwrap_or(0).saturating_add(n))))
        })?
        .map(|sum| sum as f64)
}

/// Σ l R / Σ l; none where rewards are all alike, one alone among them, or nothing is long.
fn weighted_mean(rewards: &[f64], lengths: &[f64]) -> Option<f64> {
    let unit = unit_of(rewards);
    let total = pairwise(lengths);
    if silent(rewards) || total <= 0.0 {
        return None;
    }
    let parts: Vec<f64> = rewards.iter().zip(lengths).map(|(r, l)| r / unit * (l / total)).collect();
    Some(pairwise(&parts) * unit)
}

/// Rewards less their mean in which long rollouts weigh more.
fn against_lengths(rewards: &[f64], lengths: &[f64], out: &mut Compared) {
    out.begin(rewards.len());
    if lengths.iter().any(|length| length.is_nan()) {
        out.value.fill(f64::NAN);
        out.reason.fill(Some(Reason::FieldAbsent));
        return;
    }
    let Some(baseline) = weighted_mean(rewards, lengths) else {
        out.reason.fill(Some(Reason::GroupDegenerate));
        return;
    };
    for (value, reward) in out.value.iter_mut().zip(rewards) {
        *value = reward - baseline;
    }
}

/// The best rollout and the second, unless they are equal to rounding.
fn first_two(rewards: &[f64]) -> Option<(usize, usize)> {
    let n = rewards.len();
    let at = (1..n).fold(0, |at, i| if rewards[i] > rewards[at] { i } else { at });
    let second = (0..n).filter(|&i| i != at).fold(None, |second: Option<usize>, i| match second {
        Some(s) if rewards[s] >= rewards[i] => Some(s),
        _ => Some(i),
    });
    second.filter(|&second| !alike(rewards[second], rewards[at])).map(|second| (at, second))
}

/// The lead of the best over the second; a tie at the top gives 0 to all.
fn best(rewards: &[f64], by_deviation: Option<f64>, out: &mut Compared) {
    let n = rewards.len();
    out.scaled.clear();
    if standardize(rewards, Scale::Deviation(1, by_deviation.unwrap_or(0.0)), &mut out.scaled) {
        out.value.resize(n, 0.0);
        out.reason.resize(n, Some(Reason::GroupDegenerate));
        return;
    }
    out.value.resize(n, 0.0);
    out.reason.resize(n, None);
    if let Some((at, second)) = first_two(rewards) {
        // differences of standardized rewards are those of the rewards, divided
        let of = if by_deviation.is_some() { &out.scaled[..] } else { rewards };
        out.value[at] = of[at] - of[second];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REWARDS: [f64; 8] = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];

    fn advantages(method: &GroupRelative, rewards: &[f64], arguments: &[(&str, Value)]) -> (Vec<f64>, bool) {
        let params = Params::check(method.info.params, arguments).unwrap();
        let rollout: Vec<u32> = (0..rewards.len() as u32).collect();
        let group = Rollouts {
            outcomes: rewards,
            rollout: &rollout,
            key: &[],
            choice: &[],
            value: rewards,
            other: &[],
        };
        let mut out = Compared::default();
        method.compare(&group, &params, &mut out);
        let degenerate = out.reason.iter().filter(|r| r.is_some()).count();
        assert!(degenerate == 0 || degenerate == rewards.len());
        (out.value, degenerate > 0)
    }

    fn verl() -> [(&'static str, Value); 1] {
        [("compat", Value::Text("verl".into()))]
    }

    #[test]
    fn golden() {
        let zero_ddof = [("ddof", Value::Int(0))];
        for (method, given, one, zero) in [
            (&GRPO, &[][..], 1.2076, -0.7246),
            (&GRPO, &zero_ddof[..], 1.2910, -0.7746),
            (&DR_GRPO, &[], 0.625, -0.375),
            (&RLOO, &[], 0.7143, -0.4286),
            (&RLOO, &verl(), 0.7143, -0.4286),
            (&PASS_K, &[], 0.0, 0.0),
        ] {
            for (a, r) in advantages(method, &REWARDS, given).0.iter().zip(REWARDS) {
                let name = method.info.name;
                assert!((a - if r > 0.0 { one } else { zero }).abs() < 5e-5, "{name} {a}");
            }
        }
        assert_eq!(advantages(&PASS_K, &[1.0, 4.0, 2.5], &[]).0, [0.0, 1.5, 0.0]);
        let by_deviation = advantages(&PASS_K, &[1.0, 4.0, 2.5], &[("norm_std", Value::Bool(true))]).0;
        assert!((by_deviation[1] - 1.0).abs() < 1e-5 && by_deviation[0] == 0.0);
    }

    #[test]
    fn a_group_of_one_says_nothing_unless_the_released_code_is_asked_for() {
        for method in [&GRPO, &DR_GRPO, &RLOO, &PASS_K] {
            assert_eq!(advantages(method, &[7.0], &[]), (vec![0.0], true));
            assert_eq!(advantages(method, &[0.1; 3], &[]), (vec![0.0; 3], true));
        }
        assert_eq!(advantages(&DR_GRPO, &[7.0], &verl()), (vec![7.0], false));
        assert_eq!(advantages(&RLOO, &[7.0], &verl()), (vec![7.0], false));
        assert!((advantages(&GRPO, &[7.0], &verl()).0[0] - 7.0).abs() < 1e-5);
        assert_eq!(advantages(&GRPO, &[0.1; 3], &verl()), (vec![0.0; 3], true));
    }

    fn by_length(rewards: &[f64], lengths: &[f64]) -> (Vec<f64>, Option<Reason>) {
        let mut out = Compared::default();
        against_lengths(rewards, lengths, &mut out);
        (out.value, out.reason[0])
    }

    #[test]
    fn long_rollouts_weigh_more_in_the_baseline() {
        let (a, reason) = by_length(&[1.0, 0.0, 0.0, 1.0], &[10.0, 30.0, 40.0, 20.0]);
        for (a, wanted) in a.iter().zip([0.7, -0.3, -0.3, 0.7]) {
            assert!((a - wanted).abs() < 1e-15 && reason.is_none(), "{a} {wanted}");
        }
        let silent = Some(Reason::GroupDegenerate);
        assert_eq!(by_length(&[1.0, 0.0], &[0.0, 0.0]), (vec![0.0, 0.0], silent));
        assert_eq!(by_length(&[7.0], &[3.0]), (vec![0.0], silent));
        let (a, reason) = by_length(&[1.0, 0.0], &[f64::NAN, 1.0]);
        assert!(a.iter().all(|a| a.is_nan()) && reason == Some(Reason::FieldAbsent));
    }

    #[test]
    fn lengths_are_of_what_the_team_owns() {
        use crate::graph::test_trace::TestTrace;
        use crate::schema::EventType;
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a").tokens_out(3).event(EventType::Message, "b");
        t.event(EventType::Message, "c").role("user").tokens_out(50);
        let view = t.view();
        let mut graph = TraceGraph::default();
        graph.begin();
        let of =
            |by_events: bool, graph: &mut TraceGraph| length(&view, by_events, graph.owners(&view).codes());
        assert_eq!((of(false, &mut graph), of(true, &mut graph)), (Some(3.0), Some(2.0)));
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a");
        let view = t.view();
        graph.begin();
        assert_eq!(length(&view, false, graph.owners(&view).codes()), None);
    }

    proptest! {
        #[test]
        fn a_baseline_by_length(
            listed in prop::collection::vec((-1e9_f64..1e9, 1.0..1e6_f64), 2..20), by in 0.01..100.0_f64
        ) {
            let (rewards, lengths): (Vec<f64>, Vec<f64>) = listed.into_iter().unzip();
            let a = by_length(&rewards, &lengths).0;
            let total: f64 = lengths.iter().sum();
            prop_assert!(a.iter().zip(&lengths).map(|(a, l)| a * l / total).sum::<f64>().abs() < 1e-6);
            let longer: Vec<f64> = lengths.iter().map(|l| l * by).collect();
            let equal = vec![by; rewards.len()];
            let plain = advantages(&DR_GRPO, &rewards, &[]).0;
            for (i, a) in a.iter().enumerate() {
                prop_assert!((a - by_length(&rewards, &longer).0[i]).abs() < 1e-5);
                prop_assert!((plain[i] - by_length(&rewards, &equal).0[i]).abs() < 1e-5);
            }
        }

        #[test]
        fn sum_to_zero_and_ignore_location_and_scale(
            // large enough that ε, which is not scaled with the rewards, stays out of sight
            rewards in prop::collection::vec(-1e9_f64..1e9, 2..20),
            ddof in 0_i64..2, up in 1.0..1e3_f64, by in -1e9_f64..1e9
        ) {
            let arguments = [("ddof", Value::Int(ddof))];
            let a = advantages(&GRPO, &rewards, &arguments).0;
            prop_assert!(a.iter().sum::<f64>().abs() < 1e-9 * rewards.len() as f64);
            let moved: Vec<f64> = rewards.iter().map(|r| up * r + by).collect();
            for (x, y) in a.iter().zip(advantages(&GRPO, &moved, &arguments).0) {
                prop_assert!((x - y).abs() < 1e-4 * x.abs().max(1.0));
            }
        }

        #[test]
        fn rloo_is_the_mean_of_the_others(rewards in prop::collection::vec(-9.0_f64..9.0, 2..9)) {
            let sum: f64 = rewards.iter().sum();
            let n = rewards.len() as f64;
            for (a, r) in advantages(&RLOO, &rewards, &[]).0.iter().zip(&rewards) {
                prop_assert!((a - (r - (sum - r) / (n - 1.0))).abs() < 1e-12 * 9.0);
            }
        }

        #[test]
        fn order_of_rollouts_only_permutes(
            rewards in prop::collection::vec(prop::sample::select(vec![0.0, 0.25, 1.0]), 2..9), turn in 0..9_usize
        ) {
            let mut turned = rewards.clone();
            let turn = turn % rewards.len();
            turned.rotate_left(turn);
            let mut a = advantages(&GRPO, &rewards, &[]).0;
            a.rotate_left(turn);
            for (x, y) in a.iter().zip(advantages(&GRPO, &turned, &[]).0) {
                prop_assert!((x - y).abs() < 1e-12);
            }
        }
    }
}
