//! The cheapest places for sanitizers: a minimum vertex cut between seeds and outcome.
//!
//! Every tainted event on a way to the outcome is split into an entry and an exit, joined by an arc of its cost; edges
//! that carry, the source to the seeds and the outcome to the sink are arcs without limit. A maximum flow (Dinic) gives
//! the value; the events whose entry is still reachable from the source and whose exit is not are the minimum cut nearest
//! to the seeds, which is unique. Seeds may be cut, the outcome not; sinks before a virtual outcome may.
//!
//! Costs are whole numbers inside, scaled by a power of two so that sums are exact; what is finer than 2^-60 of their sum
//! is rounded. O(|E| √|V|) where all costs are 1, O(|V|² |E|) in the worst case. References: K. Menger, Fundamenta
//! Mathematicae 10, 1927; E. A. Dinic, Soviet Math. Doklady 11, 1970; S. Even, R. E. Tarjan, SIAM J. Comput. 4, 1975.

use super::taint::{Scene, Taint};
use crate::error::Reason;
use crate::graph::{NOBODY, Outcome};

/// More than any sum of costs.
const NO_LIMIT: u64 = 1 << 62;

/// Bits that a sum of costs has at most.
const COST_BITS: i32 = 60;

/// An arc of the network; its reverse is beside it.
#[derive(Debug, Clone, Copy)]
struct Arc {
    to: u32,
    next: u32,
    room: u64,
}

/// The cut of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct SanitizerCut {
    /// Events to clean, ascending.
    pub chosen: Vec<u32>,
    leading: Vec<bool>,
    /// Position of an event among those of the network.
    place: Vec<u32>,
    first: Vec<u32>,
    arcs: Vec<Arc>,
    level: Vec<u32>,
    queue: Vec<u32>,
    at: Vec<u32>,
    path: Vec<u32>,
}

impl SanitizerCut {
    /// The cut of the last closure of `taint`, nothing where the outcome is clean. Costs are at least 0.
    pub fn compute(
        &mut self,
        taint: &Taint,
        scene: &Scene<'_>,
        cost: impl Fn(usize) -> f64,
    ) -> Result<(), Reason> {
        self.chosen.clear();
        if !taint.reaches_outcome(scene)? {
            return Ok(());
        }
        let y = if let Ok(Outcome::Event(y)) = scene.outcome { y } else { NOBODY };
        if y != NOBODY && taint.is_seed(y as usize) {
            return Err(Reason::OutcomeSeed);
        }
        taint.leading(scene, &mut self.leading);
        let n = self.build(taint, scene, y, cost);
        let (source, sink) = (2 * n, 2 * n + 1);
        while self.layers(source, sink) {
            self.block(source, sink);
        }
        for (v, &place) in self.place.iter().enumerate() {
            if place != NOBODY {
                let (entry, exit) = (2 * place as usize, 2 * place as usize + 1);
                if self.level[entry] != NOBODY && self.level[exit] == NOBODY {
                    self.chosen.push(v as u32);
                }
            }
        }
        Ok(())
    }

    /// The network over the events that may be cut; returns how many they are.
    fn build(&mut self, taint: &Taint, scene: &Scene<'_>, y: u32, cost: impl Fn(usize) -> f64) -> u32 {
        let mut n = 0;
        let mut total = 0.0;
        self.place.clear();
        for (v, &leads) in self.leading.iter().enumerate() {
            let inside = leads && v as u32 != y;
            self.place.push(if inside { n } else { NOBODY });
            n += u32::from(inside);
            total += if inside { cost(v) } else { 0.0 };
        }
        let (source, sink) = (2 * n, 2 * n + 1);
        self.first.clear();
        self.first.resize(2 * n as usize + 2, NOBODY);
        self.arcs.clear();
        let scale = scale_of(total);
        for v in 0..self.place.len() {
            let place = self.place[v];
            if place == NOBODY && v as u32 != y {
                continue;
            }
            let entry = if place == NOBODY { sink } else { 2 * place };
            for &u in taint.carried().predecessors_of(v) {
                let before = self.place[u as usize];
                if before != NOBODY {
                    self.join(2 * before + 1, entry, NO_LIMIT);
                }
            }
            if place == NOBODY {
                continue;
            }
            let price = cost(v);
            // what costs anything is not for nothing
            let room = if price > 0.0 { ((price * scale).round() as u64).max(1) } else { 0 };
            self.join(entry, entry + 1, room);
            if taint.is_seed(v) {
                self.join(source, entry, NO_LIMIT);
            }
        }
        if y == NOBODY {
            for v in scene.ends() {
                if self.leading[v] {
                    self.join(2 * self.place[v] + 1, sink, NO_LIMIT);
                }
            }
        }
        n
    }

    fn join(&mut self, from: u32, to: u32, room: u64) {
        for (from, to, room) in [(from, to, room), (to, from, 0)] {
            self.arcs.push(Arc { to, next: self.first[from as usize], room });
            self.first[from as usize] = self.arcs.len() as u32 - 1;
        }
    }

    /// Distances from the source over arcs that have room; whether the sink has one.
    fn layers(&mut self, source: u32, sink: u32) -> bool {
        self.level.clear();
        self.level.resize(self.first.len(), NOBODY);
        self.level[source as usize] = 0;
        self.queue.clear();
        self.queue.push(source);
        let mut head = 0;
        while let Some(&u) = self.queue.get(head) {
            head += 1;
            let mut arc = self.first[u as usize];
            while arc != NOBODY {
                let Arc { to, next, room } = self.arcs[arc as usize];
                if room > 0 && self.level[to as usize] == NOBODY {
                    self.level[to as usize] = self.level[u as usize] + 1;
                    self.queue.push(to);
                }
                arc = next;
            }
        }
        self.level[sink as usize] != NOBODY
    }

    /// A blocking flow in the layers. The path is a stack of arcs, since it may be as long as a run.
    fn block(&mut self, source: u32, sink: u32) {
        self.at.clear();
        self.at.extend_from_slice(&self.first);
        self.path.clear();
        let mut u = source;
        loop {
            if u == sink {
                let least = self.path.iter().map(|&arc| self.arcs[arc as usize].room).min().unwrap_or(0);
                let mut full = 0;
                for (k, &arc) in self.path.iter().enumerate().rev() {
                    self.arcs[arc as usize].room -= least;
                    self.arcs[arc as usize ^ 1].room += least;
                    if self.arcs[arc as usize].room == 0 {
                        full = k;
                    }
                }
                // go on before the first arc that is full now
                u = self.arcs[self.path[full] as usize ^ 1].to;
                self.path.truncate(full);
                continue;
            }
            let arc = self.at[u as usize];
            if arc == NOBODY {
                // a dead end: nobody comes here again
                let Some(back) = self.path.pop() else { return };
                u = self.arcs[back as usize ^ 1].to;
                self.at[u as usize] = self.arcs[self.at[u as usize] as usize].next;
                continue;
            }
            let Arc { to, next, room } = self.arcs[arc as usize];
            if room > 0 && self.level[to as usize] == self.level[u as usize] + 1 {
                self.path.push(arc);
                u = to;
            } else {
                self.at[u as usize] = next;
            }
        }
    }
}

/// The power of two that makes sums of costs whole numbers of [`COST_BITS`] bits.
fn scale_of(total: f64) -> f64 {
    if total > 0.0 && total.is_finite() {
        let exponent = total.log2().floor() as i32 + 1;
        f64::exp2(f64::from((COST_BITS - exponent).min(1_000)))
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::taint::tests::{closed, rules};
    use super::*;
    use crate::graph::test_trace::{TestTrace, decided_trace};
    use crate::schema::{EdgeType, EventType};
    use proptest::prelude::*;

    fn cut(t: &TestTrace, cost: impl Fn(usize) -> f64) -> Result<Vec<u32>, Reason> {
        closed(t, &rules(), |taint, scene| {
            let mut cut = SanitizerCut::default();
            cut.compute(taint, scene, cost)?;
            Ok(cut.chosen)
        })
    }

    fn unit_cost(_: usize) -> f64 {
        1.0
    }

    #[test]
    fn the_cut_nearest_to_the_seed() {
        let mut t = TestTrace::artifact();
        t.flag_trusted(5, false);
        // e6 -> e7 -> e8: both of the first two are minimum cuts
        assert_eq!(cut(&t, unit_cost), Ok(vec![5]));
        assert_eq!(cut(&t, |v| if v == 5 { 3.0 } else { 2.5 }), Ok(vec![6]));
        // the outcome itself is not cut, however cheap
        assert_eq!(cut(&t, |v| if v == 7 { 0.0 } else { 1.0 }), Ok(vec![5]));
        t.flag_trusted(7, false);
        assert_eq!(cut(&t, unit_cost), Err(Reason::OutcomeSeed));
        t.flag_sanitizer(7);
        assert_eq!(cut(&t, unit_cost), Ok(vec![]), "what cleans is clean");
    }

    #[test]
    fn two_seeds_meet_in_one() {
        // seeds 0, 1 -> 2 -> 3, 4 -> 5; seed 6 leads nowhere
        let mut t = TestTrace::default();
        (0..5).for_each(|_| {
            t.event(EventType::Message, "a");
        });
        t.event(EventType::Aggregate, "a").event(EventType::Message, "b");
        for (u, v) in [(0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5)] {
            t.edge(u, v, EdgeType::Causal);
        }
        for v in [0, 1, 6] {
            t.flag_trusted(v, false);
        }
        assert_eq!(cut(&t, unit_cost), Ok(vec![2]));
        // at 0.75 each the two seeds are cheaper than 2 at 2
        assert_eq!(cut(&t, |v| [0.75, 0.75, 2.0, 1.0, 1.0, 1.0, 1.0][v]), Ok(vec![0, 1]));
        assert_eq!(cut(&t, |v| [1.0, 1.0, 2.0, 0.1, 0.2, 1.0, 1.0][v]), Ok(vec![3, 4]));
    }

    #[test]
    fn sinks_before_a_virtual_outcome_may_be_cut() {
        let mut t = TestTrace::events(4);
        t.edge(0, 1, EdgeType::Causal).edge(0, 2, EdgeType::Temporal);
        for v in [0, 3] {
            t.flag_trusted(v, false);
        }
        assert_eq!(cut(&t, unit_cost), Ok(vec![0, 3]));
        assert_eq!(cut(&t, |v| if v == 1 { 0.5 } else { 1.0 }), Ok(vec![1, 3]));
    }

    #[test]
    fn long_chains_are_no_deep_recursion() {
        let n = 200_000;
        let mut t = TestTrace::events(n);
        (0..n as u32 - 1).for_each(|v| {
            t.edge(v, v + 1, EdgeType::Causal);
        });
        t.flag_trusted(0, false);
        assert_eq!(cut(&t, unit_cost), Ok(vec![0]));
    }

    #[test]
    fn scales_are_powers_of_two_that_fill_the_bits() {
        for total in [1.0, 3.0, 1e-300, 1e300, 0.7] {
            let scaled: f64 = total * scale_of(total);
            assert_eq!(scale_of(total).log2().fract(), 0.0);
            assert!(scaled < f64::exp2(60.0) && (scaled >= f64::exp2(59.0) || total < 1e-200), "{total}");
        }
        assert_eq!(scale_of(0.0), 1.0);
    }

    proptest! {
        #[test]
        fn no_cheaper_set_keeps_the_outcome_clean(
            mut t in decided_trace(9, true), seeds in 1_u16..512, costs in prop::collection::vec(0_u8..4, 9)
        ) {
            let n = t.t.len();
            t.flag_trusted(0, true);
            (0..n).filter(|v| seeds >> v & 1 == 1).for_each(|v| t.flag_trusted(v, false));
            let cost = |v: usize| f64::from(costs[v]) / 3.0;
            let sum = |set: u32| (0..n).filter(|v| set >> v & 1 == 1).map(|v| u32::from(costs[v])).sum::<u32>();
            let solution = cut(&t, cost);
            let y = closed(&t, &rules(), |_, scene| match scene.outcome {
                Ok(Outcome::Event(y)) => y,
                _ => NOBODY,
            });
            let clean = |set: u32| {
                let mut t = t.clone();
                (0..n).filter(|v| set >> v & 1 == 1).for_each(|v| t.flag_sanitizer(v));
                // what cleans has to stay in its place among the sinks
                closed(&t, &rules(), |taint, scene| taint.reaches_outcome(scene) == Ok(false))
            };
            let best = (0..1_u32 << n).filter(|set| y == NOBODY || set >> y & 1 == 0).filter(|&set| clean(set)).map(sum).min();
            match solution {
                Err(reason) => {
                    prop_assert_eq!(reason, Reason::OutcomeSeed);
                    prop_assert_eq!(best, None);
                }
                Ok(chosen) => {
                    let set = chosen.iter().fold(0_u32, |set, v| set | 1 << v);
                    prop_assert!(clean(set), "{:?}", chosen);
                    prop_assert_eq!(Some(sum(set)), best);
                }
            }
        }
    }
}
