//! The laws of one event: its context, the policy there, what the logged action or the plain event does to
//! the outcome, and whether it is the decisive error.
//!
//! An answer of an agent is a *decision*: in its context (the hash of everything before it, of its time, its
//! kind and of who acts) a policy has a probability for each action, and one is logged. Any other event (a
//! spawn, a result of a tool, a further call) happens. Both matter with probability `density`, in which case
//!
//! - an action `a` of a decision has the effect `e(a)` with `Σ p(a) e(a) = 0` and `Σ p(a) |e(a)| = 1/2`,
//! - an event that happens has the effect `± m`, either sign equally likely, `m` uniform in 0.2..0.8;
//!
//! else the effect is 0. So whatever came before, the mean effect of the next event is 0, and its positive
//! and its negative part have the mean `density/4` each: that makes expected outcomes exact
//! ([`super::model`]).

use super::bits::{Bits, Purpose};
use super::ties::center;
use crate::generate::literals::scatter;
use crate::generate::record::Event;
use crate::schema::EventType;

/// Actions that a policy can have at most.
pub(super) const MOST_ACTIONS: usize = 5;
/// Thousandths that each action has at least, so that logs have overlap.
const LEAST_SHARE: u64 = 150;
/// Mean of the positive part of an effect that matters, and of the negative one.
pub(super) const HALF_EFFECT: f64 = 0.25;

/// What the actions in a context are worth and how likely they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Thousandths, sum 1000.
    pub(super) shares: [u16; MOST_ACTIONS],
    pub(super) effects: [f64; MOST_ACTIONS],
    actions: usize,
}

impl Policy {
    /// The policy of a context, and effects if it matters.
    pub(super) fn of(context: u64, actions: usize, matters: bool) -> Self {
        let mut bits = Bits::new(context, Purpose::Policy);
        let mut policy = Self { shares: [0; MOST_ACTIONS], effects: [0.0; MOST_ACTIONS], actions };
        let weights: [u64; MOST_ACTIONS] = std::array::from_fn(|_| 1 + bits.below(1000));
        let sum: u64 = weights[..actions].iter().sum();
        let spare = 1000 - LEAST_SHARE * actions as u64;
        for (share, weight) in policy.shares.iter_mut().zip(weights).take(actions) {
            *share = (LEAST_SHARE + spare * weight / sum) as u16;
        }
        // What rounding left over.
        policy.shares[0] += 1000 - policy.shares.iter().sum::<u16>();
        if matters {
            policy.draw_effects(&mut bits);
        }
        policy
    }

    fn draw_effects(&mut self, bits: &mut Bits) {
        // The quarter keeps two actions apart that draw the same number.
        self.rank(&std::array::from_fn(|a| bits.below(1 << 20) as f64 + a as f64 / 4.0));
    }

    /// Effects that are in the order of these numbers.
    pub(super) fn rank(&mut self, numbers: &[f64; MOST_ACTIONS]) {
        let (n, shares) = (self.actions, self.shares);
        self.effects[..n].copy_from_slice(&numbers[..n]);
        center(&mut self.effects[..n], |a| f64::from(shares[a]) / 1000.0);
    }

    /// The action that the bits of an event stand for.
    pub(super) fn pick(&self, salt: u64) -> usize {
        let mut drawn = Bits::new(salt, Purpose::Policy).below(1000) as u16;
        for a in 0..self.actions {
            if drawn < self.shares[a] {
                return a;
            }
            drawn -= self.shares[a];
        }
        self.actions - 1
    }
}

/// Whether what happens in a context matters.
pub(super) fn matters(number: u64, density: f64) -> bool {
    Bits::new(number, Purpose::Matter).unit() < density
}

/// The effect of an event that happens.
pub(super) fn happening(content: u64, density: f64) -> f64 {
    if !matters(content, density) {
        return 0.0;
    }
    let mut bits = Bits::new(content, Purpose::Effect);
    let size = 0.2 + 0.6 * bits.unit();
    if bits.next() & 1 == 0 { size } else { -size }
}

/// Whether the event is an agent's answer, which bears the tokens: then it has an action.
pub(super) fn decides(event: &Event) -> bool {
    event.tokens_out > 0
}

/// The first `n` events, in a hash.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chain {
    pub(super) prefix: u64,
}

impl Chain {
    pub(super) fn start(task: u64) -> Self {
        Self { prefix: scatter(task) }
    }

    /// The context in which the next event takes place.
    pub(super) fn context(self, event: &Event) -> u64 {
        let who = u64::from(event.kind as u8) << 32 | u64::from(event.actor);
        scatter(self.prefix ^ scatter(who ^ scatter(event.t)))
    }

    /// What the next event says: in one context the same for the same action, else its own.
    pub(super) fn content(self, event: &Event, action: Option<usize>) -> u64 {
        let choice = match action {
            Some(action) => action as u64,
            None => event.salt | 1 << 63,
        };
        Bits::new(self.context(event) ^ scatter(choice), Purpose::Content).next()
    }

    /// Goes past the next event.
    pub(super) fn add(&mut self, event: &Event, content: u64) {
        let whom = u64::from(event.to) << 8 | u64::from(event.tool);
        let ok = u64::from(event.kind == EventType::ToolResult && !event.ok) << 48;
        self.prefix = scatter(self.context(event) ^ scatter(content ^ scatter(whom ^ ok)));
    }
}

/// Probability that the decisive error is the event of number `i` of `n`, if none before was: each place is
/// equally likely in the share of traces that have one.
pub(super) fn hazard(share: f64, i: usize, n: usize) -> f64 {
    share / (n as f64 - share * i as f64)
}

/// Probability that the decisive error is yet to come after `seen` events without it.
pub(super) fn pending(share: f64, seen: usize, n: usize) -> f64 {
    if seen == n { 0.0 } else { share * (n - seen) as f64 / (n as f64 - share * seen as f64) }
}

/// Quality of the answer if the run stopped now, in thousandths: it rises to a peak that comes with a hazard
/// of 0.3 per epoch, and falls from there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    pub(super) quality: u16,
    peaked: bool,
}

impl Draft {
    /// The next epoch.
    pub(super) fn advance(&mut self, content: u64) -> u16 {
        let mut bits = Bits::new(content, Purpose::Draft);
        if self.peaked {
            self.quality -= (10 + bits.below(50) as u16).min(self.quality);
        } else {
            let room = u64::from(1000 - self.quality);
            self.quality += (room * (150 + bits.below(300)) / 1000) as u16;
            self.peaked = bits.unit() < 0.3;
        }
        self.quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_shares_and_effects_have_mean_zero() {
        for context in 0..2000 {
            for actions in 2..=MOST_ACTIONS {
                let policy = Policy::of(context, actions, true);
                assert_eq!(policy.shares.iter().sum::<u16>(), 1000);
                assert!(policy.shares[..actions].iter().all(|&s| u64::from(s) >= LEAST_SHARE));
                let mean = |f: &dyn Fn(f64) -> f64| -> f64 {
                    (0..actions).map(|a| f64::from(policy.shares[a]) / 1000.0 * f(policy.effects[a])).sum()
                };
                assert!(mean(&|e| e).abs() < 1e-12);
                assert!((mean(&|e| e.max(0.0)) - HALF_EFFECT).abs() < 1e-12);
                assert!(policy.effects.iter().all(|e| e.abs() <= 0.25 / 0.15 + 1e-9));
                let plain = Policy::of(context, actions, false);
                assert_eq!((plain.shares, plain.effects), (policy.shares, [0.0; MOST_ACTIONS]));
            }
        }
    }

    #[test]
    fn actions_come_up_as_often_as_the_policy_says() {
        let policy = Policy::of(5, 4, true);
        let mut seen = [0u32; 4];
        for salt in 0..40_000 {
            seen[policy.pick(scatter(salt))] += 1;
        }
        for a in 0..4 {
            let p = f64::from(policy.shares[a]) / 1000.0;
            // Six standard deviations of a binomial count.
            let bound = 6.0 * (40_000.0 * p * (1.0 - p)).sqrt();
            assert!((f64::from(seen[a]) - 40_000.0 * p).abs() < bound, "{seen:?}");
        }
    }

    #[test]
    fn the_decisive_error_is_equally_likely_everywhere() {
        for share in [0.0, 0.25, 1.0] {
            let (n, mut none) = (40, 1.0);
            for i in 0..n {
                assert!((pending(share, i, n) * none - share * (n - i) as f64 / n as f64).abs() < 1e-12);
                assert!((none * hazard(share, i, n) - share / n as f64).abs() < 1e-12);
                none *= 1.0 - hazard(share, i, n);
            }
            assert!((none - (1.0 - share)).abs() < 1e-12);
            assert_eq!(pending(share, n, n), 0.0);
        }
    }

    #[test]
    fn drafts_rise_to_one_peak_and_fall() {
        for key in 0..500u64 {
            let mut draft = Draft::default();
            let course = (0..30).map(|k| draft.advance(scatter(key << 8 | k))).collect::<Vec<_>>();
            let peak = (0..30).max_by_key(|&k| (course[k], 30 - k)).unwrap();
            assert!(course[..=peak].is_sorted_by(|a, b| a < b || *b > 990), "{course:?}");
            assert!(course[peak..].is_sorted_by(|a, b| a >= b));
            assert!(course.iter().all(|&q| q <= 1000));
        }
    }
}
