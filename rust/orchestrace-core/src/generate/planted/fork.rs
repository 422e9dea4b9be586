//! Rollouts of a group with a shared beginning: one stream up to a decision that matters, separate streams after it.
//!
//! A fork is due from a certain event on and takes place at the first decision that matters, other than one
//! that begins with a call of a tool, since which tool is called is drawn later; at the latest at the answer
//! of the run. This is a stopping time of what all rollouts of the block have seen, so that a fork changes no
//! probability. With several forks the group is a tree: a fork divides a block of rollouts into blocks that
//! go on together, the last one into single rollouts. What is drawn after a fork is independent between its
//! blocks.

use super::Spec;
use super::law::{Chain, Policy, decides, matters};
use super::spawning::SpawnState;
use crate::generate::record::Event;
use crate::generate::task::Task;
use crate::generate::trace::Rules;
use crate::rng::Stream;
use crate::schema::EventType;

/// The rules of a planted corpus.
#[derive(Debug)]
pub(super) struct Planned {
    width: (u64, u64),
    nest: f64,
    forks: Vec<Fork>,
    actions: usize,
    density: f64,
    forked: usize,
    chain: Chain,
    chained: usize,
    spawning: Option<SpawnState>,
    spawned: bool,
}

/// Where a run leaves the stream that it shares with the rest of its block, and what it goes on with.
#[derive(Debug)]
struct Fork {
    after: u32,
    stream: Stream,
}

impl Planned {
    /// What all rollouts of a corpus have in common.
    pub(super) fn of(spec: &Spec) -> Self {
        let branching = u64::from(spec.branching);
        Self {
            width: (branching.div_ceil(2), branching),
            nest: if spec.depth > 1 { 0.15 } else { 0.0 },
            forks: Vec::new(),
            actions: spec.actions,
            density: spec.density,
            forked: 0,
            chain: Chain::default(),
            chained: 0,
            spawning: None,
            spawned: true,
        }
    }

    /// Makes ready for a rollout of a task.
    pub(super) fn begin(&mut self, spec: &Spec, task: &Task, rollout: u64) {
        let Spec { seed, group_size, branches: levels, .. } = *spec;
        (self.forked, self.chain, self.chained) = (0, Chain::start(task.key), 0);
        (self.spawning, self.spawned) = (spec.spawning.map(|s| s.of(seed, task.number)), true);
        let length = spec.length_of(task.number);
        self.forks.clear();
        if group_size < 2 {
            return;
        }
        let mut places = Stream::numbered(seed, "planted.places", task.number);
        // The least number of parts that comes down to single rollouts in so many forks.
        let enough = |fan: &u64| fan.saturating_pow(levels as u32) >= group_size;
        let fan = (2..group_size).find(enough).unwrap_or(group_size);
        let (mut low, mut high) = (0, group_size);
        for level in 0..levels {
            // Between an eighth and five eighths of the run, one fork in each equal part.
            let share = (level as f64 + places.unit_f64()) / levels as f64;
            let after = (length as f64 * (0.125 + 0.5 * share)) as u32;
            // The decision to spawn is one that rollouts of a group take each for itself.
            let after = if level == 0 && self.spawning.is_some() { 0 } else { after };
            let parts = if level + 1 == levels { high - low } else { fan.min(high - low) };
            let part = (rollout - low) * parts / (high - low);
            // The rollouts whose quotient is `part`.
            (low, high) = (
                low + (part * (high - low)).div_ceil(parts),
                low + ((part + 1) * (high - low)).div_ceil(parts),
            );
            let mut id = [0; 24];
            for (slot, value) in id.chunks_exact_mut(8).zip([task.number, level, low]) {
                slot.copy_from_slice(&value.to_le_bytes());
            }
            self.forks.push(Fork { after, stream: Stream::new(seed, "planted.fork", &id) });
        }
    }

    /// The planted decision to spawn and how it went.
    pub(super) fn decision(&self) -> Option<(SpawnState, bool)> {
        self.spawning.map(|state| (state, self.spawned))
    }
}

impl Rules for Planned {
    fn undisturbed(&self) -> bool {
        true
    }

    fn exact_depth(&self) -> bool {
        true
    }

    fn width(&self) -> Option<(u64, u64)> {
        Some(self.width)
    }

    fn nest(&self) -> f64 {
        self.nest
    }

    fn spawns(&mut self, rng: &mut Stream) -> bool {
        if let Some(state) = self.spawning {
            self.spawned = state.draw(rng);
        }
        self.spawned
    }

    fn fork(&mut self, events: &[Event], ends: bool) -> Option<Stream> {
        let fork = self.forks.get(self.forked)?;
        let (event, before) = events.split_last()?;
        if !ends && (before.len() < fork.after as usize || event.kind == EventType::ToolCall) {
            return None;
        }
        for (i, passed) in before[self.chained..].iter().enumerate() {
            let context = self.chain.context(passed);
            let action = decides(passed).then(|| match self.spawning {
                Some(_) if self.chained + i == 0 => usize::from(self.spawned),
                _ => Policy::of(context, self.actions, false).pick(passed.salt),
            });
            let content = self.chain.content(passed, action);
            self.chain.add(passed, content);
        }
        self.chained = before.len();
        let planted = before.is_empty() && self.spawning.is_some();
        if !ends && !planted && !matters(self.chain.context(event), self.density) {
            return None;
        }
        if ends {
            self.forked = self.forks.len() - 1;
        }
        self.forked += 1;
        Some(self.forks[self.forked - 1].stream.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a group after each fork, as the first draws of the streams.
    fn blocks(group_size: u64, levels: u64) -> Vec<Vec<u64>> {
        let spec = Spec { seed: 7, group_size, branches: levels, ..Spec::default() };
        let mut rules = Planned::of(&spec);
        let lineages = (0..group_size).map(|rollout| {
            rules.begin(&spec, &Task::planted(7, 3, None), rollout);
            assert!(rules.forks.is_sorted_by_key(|f| f.after));
            assert!(rules.forks.iter().all(|f| (12..63).contains(&f.after)));
            rules.forks.iter().map(|f| f.stream.clone().bits64()).collect::<Vec<_>>()
        });
        lineages.collect()
    }

    #[test]
    fn groups_are_trees_with_single_leaves() {
        for group_size in 2..20 {
            for levels in 1..4 {
                let lineages = blocks(group_size, levels);
                for a in 0..lineages.len() {
                    for b in 0..a {
                        let (a, b) = (&lineages[a], &lineages[b]);
                        assert_ne!(a.last(), b.last());
                        // Once apart, apart for ever.
                        let same = a.iter().zip(b).map(|(x, y)| x == y).collect::<Vec<_>>();
                        assert!(same.is_sorted_by(|x, y| x >= y), "{same:?}");
                    }
                }
                let first = lineages.iter().map(|l| l[0]).collect::<std::collections::BTreeSet<_>>().len();
                assert!(first > 1 && (levels > 1 || first == group_size as usize));
            }
        }
        assert_eq!(blocks(8, 3).iter().map(|l| l[0]).collect::<std::collections::BTreeSet<_>>().len(), 2);
        assert_eq!(blocks(1, 3), [[0u64; 0]]);
    }
}
