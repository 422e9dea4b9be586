//! Group-relative advantage: `A_i = (R_i - mean R) / (std R + ε)` over the rollouts of a group.
//!
//! Two passes in f64, O(G). A group of one, or of equal rewards, says nothing: its advantages are exactly 0 (some
//! implementations hand out the raw reward there). `ddof` is 1 as in torch's default, 0 is the population's.
//! Reference: Z. Shao et al., `DeepSeekMath`, arXiv 2402.03300; ARCHITECTURE.md, D13.
//! Axioms: the values of a group sum to zero; invariance to R → aR + b, a > 0, up to ε.

use super::method::{Axiom, GroupMethod, MethodInfo, Quantity};
use super::params::{Param, ParamKind, Params, Value};
use super::sum::pairwise;
use crate::schema::Unit;

/// The method `grpo`.
pub struct Grpo;

const DDOF: i64 = 1;
const EPSILON: f64 = 1e-6;

static INFO: MethodInfo = MethodInfo {
    name: "grpo",
    summary: "reward of a rollout, centred and scaled within its group",
    reference: "arXiv 2402.03300",
    quantity: Quantity::Advantage,
    units: Unit::ALL,
    axioms: &[Axiom::ZeroMean],
    params: &[
        Param {
            name: "ddof",
            kind: ParamKind::Int(0, 1),
            default: Value::Int(DDOF),
            doc: "1 divides the squares by G - 1, 0 by G",
        },
        Param {
            name: "epsilon",
            kind: ParamKind::Float(0.0, f64::MAX),
            default: Value::Float(EPSILON),
            doc: "added to the standard deviation",
        },
    ],
    tier: None,
    needs_graph: false,
};

impl GroupMethod for Grpo {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn assign(&self, rewards: &[f64], params: &Params, advantages: &mut Vec<f64>) -> bool {
        let n = rewards.len();
        if rewards.windows(2).all(|w| w[0] == w[1]) {
            advantages.resize(advantages.len() + n, 0.0);
            return true;
        }
        let from = advantages.len();
        let unit = unit_of(rewards);
        // what is summed takes the place of the advantages until its sum is known
        advantages.extend(rewards.iter().map(|r| r / unit));
        let mean = pairwise(&advantages[from..]) / n as f64;
        advantages.truncate(from);
        advantages.extend(rewards.iter().map(|r| (r / unit - mean) * (r / unit - mean)));
        let freedom = n as i64 - params.int("ddof").unwrap_or(DDOF);
        let deviation = (pairwise(&advantages[from..]) / freedom as f64).sqrt();
        let scale = deviation + params.float("epsilon").unwrap_or(EPSILON) / unit;
        advantages.truncate(from);
        advantages.extend(rewards.iter().map(|r| (r / unit - mean) / scale));
        false
    }
}

/// The power of two below the largest magnitude: dividing by it is exact, and squares neither overflow nor vanish.
fn unit_of(rewards: &[f64]) -> f64 {
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    const SMALLEST: f64 = 1e-300_f64;
    let largest = rewards.iter().fold(SMALLEST, |most, r| most.max(r.abs()));
    f64::from_bits(largest.to_bits() & EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::{GroupCredit, assign_group};
    use crate::schema::Reason;
    use proptest::prelude::*;

    fn advantages(rewards: &[f64], ddof: i64) -> (Vec<f64>, bool) {
        let params = Params::check(INFO.params, &[("ddof", Value::Int(ddof))]).unwrap();
        let mut out = vec![9.0];
        let degenerate = Grpo.assign(rewards, &params, &mut out);
        (out.split_off(1), degenerate)
    }

    #[test]
    fn golden() {
        let rewards = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        for (ddof, one, zero) in [(1, 1.2076, -0.7246), (0, 1.2910, -0.7746)] {
            for (a, r) in advantages(&rewards, ddof).0.iter().zip(rewards) {
                assert!((a - if r > 0.0 { one } else { zero }).abs() < 5e-5);
            }
        }
    }

    #[test]
    fn degenerate_groups_are_exactly_zero() {
        assert_eq!(advantages(&[], 1), (vec![], true));
        assert_eq!(advantages(&[7.0], 1), (vec![0.0], true));
        // their mean is not representable, so that the formula alone would not give 0
        assert_eq!(advantages(&[0.1; 3], 0), (vec![0.0; 3], true));
    }

    #[test]
    fn extreme_rewards_give_numbers() {
        let wanted = advantages(&[1.0, -1.0, 1.0], 1).0;
        for size in [1e308, 1.7e308, 2.0_f64.powi(600)] {
            let got = advantages(&[size, -size, size], 1).0;
            assert!(got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?}");
        }
        let given = [("epsilon", Value::Float(0.0))];
        let params = Params::check(INFO.params, &given).unwrap();
        for spread in [5e-324, 1e-300, 1e-200, f64::EPSILON] {
            let mut out = Vec::new();
            Grpo.assign(&[0.0, spread], &params, &mut out);
            assert!((out[0] + 0.5_f64.sqrt()).abs() < 1e-12, "{spread} {out:?}");
            out.clear();
            Grpo.assign(&[1.0, 1.0 + f64::EPSILON], &params, &mut out);
            assert!(out.iter().all(|a| a.is_finite()), "{out:?}");
        }
    }

    #[test]
    fn an_advantage_that_is_no_number_is_null() {
        struct Broken;
        impl GroupMethod for Broken {
            fn info(&self) -> &'static MethodInfo {
                &INFO
            }
            fn assign(&self, _: &[f64], _: &Params, advantages: &mut Vec<f64>) -> bool {
                advantages.extend([f64::NAN, f64::INFINITY, 1.0]);
                false
            }
        }
        let mut out = GroupCredit::default();
        assign_group(&Broken, &[Some(1.0), Some(2.0), None, Some(3.0)], &INFO.defaults(), &mut out);
        let (degenerate, absent) = (Some(Reason::GroupDegenerate), Some(Reason::RewardAbsent));
        assert_eq!(out.advantages, [None, None, None, Some(1.0)]);
        assert_eq!(out.reasons, [degenerate, degenerate, absent, None]);
    }

    #[test]
    fn rollouts_without_a_reward_are_left_out() {
        let mut out = GroupCredit::default();
        let absent = Some(Reason::RewardAbsent);
        assign_group(&Grpo, &[Some(1.0), None, Some(0.0)], &INFO.defaults(), &mut out);
        let (a, _) = advantages(&[1.0, 0.0], 1);
        assert_eq!(out.advantages, [Some(a[0]), None, Some(a[1])]);
        assert_eq!(out.reasons, [None, absent, None]);
        assign_group(&Grpo, &[None, Some(3.0)], &INFO.defaults(), &mut out);
        assert_eq!(out.advantages, [None, Some(0.0)]);
        assert_eq!(out.reasons, [absent, Some(Reason::GroupDegenerate)]);
    }

    proptest! {
        #[test]
        fn sums_to_zero_and_ignores_scale(rewards in prop::collection::vec(-10.0..10.0_f64, 2..20),
                                          a in 0.5..100.0_f64, b in -100.0..100.0_f64, ddof in 0_i64..2) {
            let (x, degenerate) = advantages(&rewards, ddof);
            prop_assert!(x.iter().sum::<f64>().abs() < 1e-9 * x.len() as f64);
            prop_assume!(!degenerate && pairwise(&x.iter().map(|v| v.abs()).collect::<Vec<_>>()) > 0.1);
            let moved: Vec<f64> = rewards.iter().map(|r| a * r + b).collect();
            for (u, v) in x.iter().zip(advantages(&moved, ddof).0) {
                prop_assert!((u - v).abs() < 1e-3, "{u} {v}");
            }
        }
    }
}
