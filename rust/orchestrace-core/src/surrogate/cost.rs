//! The cost of an exact solution in whole numbers, known before any allocation.
//!
//! A count is checked: one that no 64-bit number holds is [`Cost::Countless`], which is above every limit. A float would
//! round, overflow to infinity and, by infinity times nothing, become a number that is above no limit at all.

use std::fmt;

use crate::error::{Error, Result};

/// Players up to which all coalitions are evaluated; beyond, a method needs `samples` ([`Cost`]).
pub const EXACT_PLAYERS: usize = 20;

/// The number of evaluations of a game, or of gates; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// As many as this.
    Count(u64),
    /// More than are counted.
    Countless,
}

impl Cost {
    /// Evaluations that an exact solution makes at most: all coalitions of [`EXACT_PLAYERS`] players. A table of them
    /// takes 8 MiB.
    pub const MOST_EVALUATIONS: Self = Self::Count(1 << EXACT_PLAYERS);

    /// Events and edges that the evaluations of one trace visit at most, a minute or two of one core. Nobody asked for
    /// this many: a solution without samples is a default, and a default must end.
    pub const MOST_VISITS: Self = Self::Count(1 << 37);

    /// Coalitions of `items`, which are players or unions of them: 2^items.
    #[must_use]
    pub fn coalitions(items: usize) -> Self {
        u32::try_from(items)
            .ok()
            .and_then(|items| 1_u64.checked_shl(items))
            .map_or(Self::Countless, Self::Count)
    }

    /// As many as there are of something.
    #[must_use]
    pub fn of(many: usize) -> Self {
        u64::try_from(many).map_or(Self::Countless, Self::Count)
    }

    /// Both, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.joined(other, u64::checked_add)
    }

    /// The product of two counts. Zero times anything, even [`Self::Countless`], is zero.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        if self == Self::Count(0) || other == Self::Count(0) {
            return Self::Count(0);
        }
        self.joined(other, u64::checked_mul)
    }

    /// Whether an exact solution may make as many evaluations.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self <= Self::MOST_EVALUATIONS
    }

    fn joined(self, other: Self, by: fn(u64, u64) -> Option<u64>) -> Self {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) => by(a, b).map_or(Self::Countless, Self::Count),
            _ => Self::Countless,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // what is long in digits is read as a power
            Self::Count(n) if *n < 10_000_000 => write!(f, "{n}"),
            Self::Count(n) if n.is_power_of_two() => write!(f, "2^{}", n.ilog2()),
            Self::Count(n) => write!(f, "over 2^{}", n.ilog2()),
            Self::Countless => f.write_str("over 2^64"),
        }
    }
}

/// The limit that an exact solution exceeds, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// [`Cost::MOST_VISITS`]: evaluations, and visits of them all.
    Visits(Cost, Cost),
    /// [`Cost::MOST_EVALUATIONS`]: evaluations.
    Evaluations(Cost),
}

impl Bound {
    /// The limit that `evaluations` of a game of `size` events and edges are beyond; `draws` says whether the method can
    /// draw samples in place of them.
    #[must_use]
    pub fn beyond(draws: bool, evaluations: Cost, size: usize) -> Option<Self> {
        let visits = evaluations.times(Cost::of(size));
        if draws && !evaluations.is_exact() {
            return Some(Self::Evaluations(evaluations));
        }
        (visits > Cost::MOST_VISITS).then_some(Self::Visits(evaluations, visits))
    }
}

/// Places of a table of the coalitions of `items`. It makes every table: methods check their cost first, and one that
/// does not fails here, before memory is allocated.
pub fn places(items: usize) -> Result<usize> {
    match Cost::coalitions(items) {
        cost @ Cost::Count(n) if cost.is_exact() => Ok(n as usize),
        cost => Err(Error::Parameter(format!(
            "a list of all coalitions of {items} players or unions has {cost} entries, the limit is {}: pass samples=, \
             or choose a larger unit",
            Cost::MOST_EVALUATIONS
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalitions_are_counted_or_countless() {
        assert_eq!(Cost::coalitions(0), Cost::Count(1));
        assert_eq!(Cost::coalitions(20), Cost::MOST_EVALUATIONS);
        assert_eq!(Cost::coalitions(21), Cost::Count(1 << 21));
        assert_eq!(Cost::coalitions(63), Cost::Count(1 << 63));
        for players in [64, 65, 256, 1_024, 1_025, 1_087, 1_000_000, 1 << 32, usize::MAX] {
            assert_eq!(Cost::coalitions(players), Cost::Countless, "{players}");
        }
        assert!(Cost::coalitions(20).is_exact());
        assert!(
            [21, 63, 64, 1_024, 1_025, 1_087, 1_000_000].iter().all(|&n| !Cost::coalitions(n).is_exact())
        );
    }

    #[test]
    fn sums_and_products_do_not_wrap() {
        let (one, most) = (Cost::Count(1), Cost::Count(u64::MAX));
        assert_eq!(one.and(one), Cost::Count(2));
        assert_eq!(most.and(one), Cost::Countless);
        assert_eq!(Cost::Count(3).times(Cost::Count(5)), Cost::Count(15));
        assert_eq!(most.times(Cost::Count(2)), Cost::Countless);
        assert_eq!(Cost::Countless.and(Cost::Count(0)), Cost::Countless);
        // the product that was not a number
        assert_eq!(Cost::Countless.times(Cost::Count(0)), Cost::Count(0));
        assert!(Cost::Countless > most && most > one);
    }

    #[test]
    fn counts_read_well() {
        let text = |cost: Cost| cost.to_string();
        assert_eq!(text(Cost::MOST_EVALUATIONS), "1048576");
        assert_eq!(text(Cost::coalitions(21)), "2097152");
        assert_eq!(text(Cost::coalitions(40)), "2^40");
        assert_eq!(text(Cost::coalitions(40).and(Cost::Count(1))), "over 2^40");
        assert_eq!(text(Cost::coalitions(1_025)), "over 2^64");
    }

    #[test]
    fn a_table_is_never_larger_than_the_limit() {
        assert_eq!(places(20).unwrap(), 1 << 20);
        for items in [21, 64, 1_024, 1_025, 1_064, 1_087, 1_000_000] {
            let refused = places(items).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("{items} players")) && refused.contains("the limit is 1048576"),
                "{refused}"
            );
        }
    }
}
