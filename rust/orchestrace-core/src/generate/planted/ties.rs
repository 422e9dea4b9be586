//! Keys of effects: the context alone, or something visible across many runs.
//!
//! By default an effect is a property of its context, which never comes back in another task. Under a tie one
//! number for the whole corpus ranks actions, actions by role, or tools; the effects of a context are these
//! numbers less their mean under the law by which the context draws, scaled to the mean size 1/2. So whatever is
//! tied, the next event has the mean effect 0 given the past, with the same positive and negative parts as
//! without a tie, and every expected outcome stays exact.
//!
//! - `action`: `e(a) ∝ r(a) − Σ p(b) r(b)`: an option is good everywhere.
//! - `role`: the same with `r(role, a)`: who acts decides which option is good.
//! - `tool`: a call that matters has the effect `r(tool)` so centered and scaled under the law of tools, whatever
//!   its action. Its action does nothing.
//!
//! Events that are not tied (all that happens, under `tool` all but calls) keep the effects of their contexts.

use super::bits::{Bits, Purpose};
use super::law::{HALF_EFFECT, MOST_ACTIONS, Policy};
use crate::error::{Error, Result, unknown_name};
use crate::generate::literals::scatter;
use crate::generate::names::{ROLES, TOOLS};

/// The key of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// The context of the event.
    Context,
    /// The name of the action.
    Action,
    /// The role of the actor with the name of the action.
    Role,
    /// The tool that is called.
    Tool,
}

const EFFECTS: [(&str, Effects); 4] = [
    ("context", Effects::Context),
    ("action", Effects::Action),
    ("role", Effects::Role),
    ("tool", Effects::Tool),
];

impl Effects {
    /// The tie of a name.
    pub fn parse(name: &str) -> Result<Self> {
        EFFECTS
            .iter()
            .find(|e| e.0 == name)
            .map(|e| e.1)
            .ok_or_else(|| Error::Parameter(unknown_name("effects", name, &EFFECTS.map(|e| e.0))))
    }
}

/// The numbers of a corpus that effects are tied to.
#[derive(Debug, Clone)]
pub(super) struct Ties {
    effects: Effects,
    by_role: [[f64; MOST_ACTIONS]; ROLES.len()],
    by_tool: [f64; TOOLS.len()],
}

impl Ties {
    pub(super) fn new(effects: Effects, seed: u64) -> Self {
        // One number for each thing of a kind; the quarter keeps two that draw the same apart.
        let number = |kind: u64, thing: usize| {
            let mut bits = Bits::new(scatter(seed) ^ scatter(kind << 8 | thing as u64), Purpose::Effect);
            bits.below(1 << 20) as f64 + thing as f64 / 32.0
        };
        let row = |role: usize| if effects == Effects::Role { role as u64 + 2 } else { 1 };
        let by_role = std::array::from_fn(|role| std::array::from_fn(|a| number(row(role), a)));
        let mut by_tool = std::array::from_fn(|tool| number(0, tool));
        center(&mut by_tool, tool_share);
        Self { effects, by_role, by_tool }
    }

    /// The effects of the actions of a policy that matters, if they are tied.
    pub(super) fn actions(&self, policy: &mut Policy, role: u8) {
        if matches!(self.effects, Effects::Action | Effects::Role) {
            policy.rank(&self.by_role[usize::from(role)]);
        }
    }

    /// The effect of a call of a tool that matters, if it hangs on the tool.
    pub(super) fn tool(&self, tool: u8) -> Option<f64> {
        (self.effects == Effects::Tool).then(|| self.by_tool[usize::from(tool)])
    }
}

/// Probability of a tool: calls take the smaller of two draws.
fn tool_share(tool: usize) -> f64 {
    let n = TOOLS.len() as f64;
    (2.0 * (n - tool as f64) - 1.0) / (n * n)
}

/// Numbers to effects: mean 0 and mean size 1/2 under a law.
pub(super) fn center(numbers: &mut [f64], share: impl Fn(usize) -> f64) {
    let mean: f64 = numbers.iter().enumerate().map(|(a, x)| share(a) * x).sum();
    let spread: f64 = numbers.iter().enumerate().map(|(a, x)| share(a) * (x - mean).abs()).sum();
    for x in numbers {
        *x = (*x - mean) * (2.0 * HALF_EFFECT / spread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_effects_have_mean_zero_and_the_size_of_untied_ones() {
        assert!(((0..TOOLS.len()).map(tool_share).sum::<f64>() - 1.0).abs() < 1e-12);
        for seed in 0..50 {
            let ties = Ties::new(Effects::Tool, seed);
            let sum = |f: &dyn Fn(f64) -> f64| -> f64 {
                (0..TOOLS.len()).map(|k| tool_share(k) * f(ties.tool(k as u8).unwrap())).sum()
            };
            assert!(sum(&|e| e).abs() < 1e-12 && (sum(&|e| e.max(0.0)) - HALF_EFFECT).abs() < 1e-12);
            for (effects, alike) in [(Effects::Action, true), (Effects::Role, false)] {
                let ties = Ties::new(effects, seed);
                assert_eq!(ties.tool(0), None);
                let of = |context, role| {
                    let mut policy = Policy::of(context, 3, true);
                    ties.actions(&mut policy, role);
                    policy
                };
                let order = |p: &Policy| {
                    let mut order = [0, 1, 2];
                    order.sort_by(|&a, &b| p.effects[a].total_cmp(&p.effects[b]));
                    order
                };
                let policy = of(seed, 4);
                let mean = |f: &dyn Fn(f64) -> f64| -> f64 {
                    (0..3).map(|a| f64::from(policy.shares[a]) / 1000.0 * f(policy.effects[a])).sum()
                };
                assert!(mean(&|e| e).abs() < 1e-12 && (mean(&|e| e.max(0.0)) - HALF_EFFECT).abs() < 1e-12);
                // One order of actions in all contexts, of one role or of all.
                assert_eq!(order(&policy), order(&of(seed + 1000, 4)));
                let others =
                    (0..ROLES.len() as u8).filter(|&r| order(&of(seed, r)) != order(&policy)).count();
                assert_eq!(others == 0, alike);
            }
        }
    }

    #[test]
    fn names_lead_to_ties() {
        assert_eq!(Effects::parse("role").unwrap(), Effects::Role);
        let message = Effects::parse("rol").unwrap_err().to_string();
        assert!(message.contains("did you mean 'role'"), "{message}");
    }
}
