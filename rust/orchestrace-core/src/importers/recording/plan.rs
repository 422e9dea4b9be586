//! The plan of a recording: who asked whom, and which result answers which call.

use hashbrown::HashMap;

use super::answers::Answers;
use super::order::{Order, part_of};
use super::{Act, Call, CallResult, Does, Incoming, Mark, Party, Recording};
use crate::schema::{EventType, Topology};

/// No agent, no entry.
pub(super) const NONE: u32 = u32::MAX;

/// What the whole recording says about an entry or agent; known before the first event is written.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Parts of each response: ranges of `parts`.
    pub parts: Vec<u32>,
    pub part_of: Vec<(u32, u32)>,
    /// Whether each response makes others work.
    pub delegates: Vec<bool>,
    /// The last text of each agent.
    pub last_text: Vec<u32>,
    /// Whether each agent has entries.
    pub present: Vec<bool>,
    /// Whether it has children.
    pub leads: Vec<bool>,
    pub parent: Vec<u32>,
    /// The call that spawned it.
    pub spawn: Vec<u32>,
    /// Whether a result or delivery says when its last answer reaches the parent.
    pub told: Vec<bool>,
    /// Whether its answer is known although its stream goes on: it was told before, and nobody asked again.
    pub settled: Vec<bool>,
    /// Answers before the last.
    pub answers_before: Answers,
    /// Call of each result and of each decision of a human, and whether each call has a result.
    pub answers: Vec<u32>,
    pub answered: Vec<bool>,
    /// First event of each agent, by entry; to spawn those whose spawning is not recorded.
    pub unspawned: Vec<bool>,
}

impl Plan {
    pub(super) fn of(recording: &Recording, order: &Order) -> Self {
        let (n, agents) = (recording.entries.len(), recording.agents.len());
        let mut plan = Self {
            part_of: vec![(0, 0); n],
            delegates: vec![false; n],
            last_text: vec![NONE; agents],
            present: vec![false; agents],
            leads: vec![false; agents],
            parent: recording.agents.iter().map(|a| a.parent.map_or(NONE, |p| p.0)).collect(),
            spawn: vec![NONE; agents],
            told: vec![false; agents],
            settled: vec![false; agents],
            answers: vec![NONE; n],
            answered: vec![false; n],
            unspawned: vec![false; agents],
            ..Self::default()
        };
        plan.collect_parts(recording);
        plan.pair_results(recording, order);
        for (e, entry) in recording.entries.iter().enumerate() {
            let agent = entry.agent.0 as usize;
            plan.present[agent] = true;
            let (child, parent) = match &entry.act {
                Act::Call { call: Call { does: Does::Spawns(child), .. }, .. } => (child, agent),
                Act::Mark(Mark { event_type: EventType::Spawn, to: Some(child), by, .. }) => match by {
                    Some(Party::Agent(by)) => (child, by.0 as usize),
                    Some(_) => continue,
                    None => (child, agent),
                },
                _ => continue,
            };
            let child = child.0 as usize;
            if plan.spawn[child] == NONE && child != parent {
                plan.spawn[child] = e as u32;
                plan.parent[child] = parent as u32;
            }
        }
        plan.break_cycles();
        for child in 0..agents {
            if let Some(leads) = plan.leads.get_mut(plan.parent[child] as usize) {
                *leads = true;
                plan.unspawned[child] = plan.spawn[child] == NONE;
            }
        }
        for &e in &order.entries {
            let entry = &recording.entries[e as usize];
            let agent = entry.agent.0 as usize;
            match &entry.act {
                Act::Saying { saying, .. } if !saying.aside => plan.last_text[agent] = e,
                Act::Response(_) => {
                    let (from, to) = plan.part_of[e as usize];
                    let texts = plan.parts[from as usize..to as usize].iter();
                    let text = texts.rev().find(|p| {
                        matches!(&recording.entries[**p as usize].act, Act::Saying { saying, .. } if !saying.aside)
                    });
                    if let Some(text) = text {
                        plan.last_text[agent] = *text;
                    }
                }
                _ => {}
            }
        }
        plan.answers_before = Answers::of(recording, order, &mut plan);
        plan
    }

    /// The calls and texts of each response, in order of description.
    fn collect_parts(&mut self, recording: &Recording) {
        let mut counts = vec![0_u32; recording.entries.len() + 1];
        recording.entries.iter().filter_map(part_of).for_each(|r| counts[r as usize] += 1);
        let mut start = 0;
        for (range, count) in self.part_of.iter_mut().zip(&counts) {
            *range = (start, start);
            start += count;
        }
        self.parts = vec![0; start as usize];
        for (e, entry) in recording.entries.iter().enumerate() {
            if let Some(r) = part_of(entry) {
                let range = &mut self.part_of[r as usize];
                self.parts[range.1 as usize] = e as u32;
                range.1 += 1;
            }
            if let Act::Call { call: Call { does: Does::Spawns(_) | Does::HandsOff(_), .. }, of: Some(r) } =
                &entry.act
            {
                self.delegates[r.0 as usize] = true;
            }
        }
    }

    /// Pairs results, and what humans decided, with calls by id: of the same agent, the latest call before it; else any call of that id.
    fn pair_results(&mut self, recording: &Recording, order: &Order) {
        let mut of_agent: HashMap<(u32, &str), u32> = HashMap::new();
        let mut any: HashMap<&str, u32> = HashMap::new();
        for (e, entry) in recording.entries.iter().enumerate() {
            if let Act::Call { call, .. } = &entry.act
                && !call.id.is_none()
            {
                any.entry(recording.read(call.id)).or_insert(e as u32);
            }
        }
        for &e in &order.entries {
            let entry = &recording.entries[e as usize];
            let agent = entry.agent.0;
            let mut put = |at: u32| {
                if let Act::Call { call, .. } = &recording.entries[at as usize].act {
                    of_agent.insert((agent, recording.read(call.id)), at);
                }
            };
            match &entry.act {
                Act::Response(_) => {
                    let (from, to) = self.part_of[e as usize];
                    self.parts[from as usize..to as usize].iter().for_each(|part| put(*part));
                }
                Act::Call { .. } => put(e),
                Act::Result(CallResult { call, .. }) | Act::Incoming(Incoming { decides: call, .. })
                    if !call.is_none() =>
                {
                    let id = recording.read(*call);
                    let call = of_agent.get(&(agent, id)).or_else(|| any.get(id)).copied().unwrap_or(NONE);
                    self.answers[e as usize] = call;
                    let is_result = matches!(&entry.act, Act::Result(_));
                    if let Some(answered) = self.answered.get_mut(call as usize).filter(|_| is_result) {
                        *answered = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// An agent that would be its own ancestor is a root.
    fn break_cycles(&mut self) {
        let mut state = vec![0_u8; self.parent.len()];
        for start in 0..self.parent.len() {
            let mut path = Vec::new();
            let mut at = start;
            while state[at] == 0 {
                state[at] = 1;
                path.push(at);
                match self.parent.get(self.parent[at] as usize) {
                    Some(_) if state[self.parent[at] as usize] == 1 => self.parent[at] = NONE,
                    Some(_) => at = self.parent[at] as usize,
                    None => {}
                }
            }
            for at in path {
                state[at] = 2;
            }
        }
    }

    /// Who works for whom: nobody, all for agents that work for nobody, or in several levels.
    pub(super) fn topology(&self) -> Topology {
        let parents = || self.parent.iter().filter(|parent| **parent != NONE);
        if parents().any(|parent| self.parent.get(*parent as usize).is_some_and(|above| *above != NONE)) {
            Topology::Hierarchical
        } else if parents().next().is_some() {
            Topology::Centralized
        } else {
            Topology::Unknown
        }
    }
}
