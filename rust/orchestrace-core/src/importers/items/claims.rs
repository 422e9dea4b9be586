//! Responses that several traces have, and the one of these in which each counts (R12).

use hashbrown::HashMap;

/// A response that a trace has; others may have it, too, and it counts in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub response: u64,
    /// A code of the block first, its number in the end.
    pub trace: u32,
    /// Whether the trace says that it repeats it, and when it was.
    pub forked: bool,
    pub time: i64,
}

/// The traces that responses of several traces count in.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    traces: HashMap<u64, u32>,
    keys: HashMap<u32, Box<str>>,
}

impl Owners {
    /// Of the claims on a response the one of a trace that does not say that it repeats it, then the earliest, then
    /// that of the least key counts; no order of inputs decides.
    pub(crate) fn of<'k>(claims: impl Iterator<Item = Claim>, key: impl Fn(u32) -> &'k str) -> Self {
        let mut best: HashMap<u64, (Claim, bool)> = HashMap::new();
        for claim in claims {
            let (known, shared) = best.entry(claim.response).or_insert((claim, false));
            *shared |= known.trace != claim.trace;
            let rank = |claim: &Claim| (claim.forked, claim.time);
            if rank(&claim) < rank(known)
                || (rank(&claim) == rank(known)
                    && claim.trace != known.trace
                    && key(claim.trace) < key(known.trace))
            {
                *known = claim;
            }
        }
        let mut owners = Self::default();
        for (response, (claim, _)) in best.into_iter().filter(|(_, (_, shared))| *shared) {
            owners.traces.insert(response, claim.trace);
            owners.keys.entry(claim.trace).or_insert_with(|| key(claim.trace).into());
        }
        owners
    }

    /// The key of the trace that a response counts in, if several have it.
    pub(super) fn owner(&self, response: u64) -> Option<&str> {
        self.traces.get(&response).map(|trace| &*self.keys[trace])
    }
}
