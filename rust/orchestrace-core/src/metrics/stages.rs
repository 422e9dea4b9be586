//! Stages of the root agent (D9).
//!
//! A stage opens at the first event and at each orchestrator decision or aggregate of the root. Steps of an agent are its
//! events but messages, spawns and despawns; those of the root count in the stage that is open, those of another agent in
//! the stage of its latest spawn. O(|V| + a log a), a being agents per stage. Source: Kimi K2.5, arXiv 2602.02276.

use crate::graph::{NOBODY, Owners};
use crate::schema::EventType;
use crate::store::view::TraceView;

/// Steps of one sub-agent in one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Number of the stage, from 0.
    pub stage: u32,
    /// Position of the agent among the names.
    pub agent: u32,
    /// Its steps there.
    pub steps: u32,
}

/// Stages of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct StageTable {
    /// Steps of the root agent in each stage.
    pub main: Vec<u32>,
    /// First event of each stage in canonical order.
    pub opened: Vec<u32>,
    /// Steps of the other agents, by stage, then agent.
    pub shares: Vec<Share>,
    /// Of each event that is a step of another agent than the root its stage; [`NOBODY`] else.
    pub stage_of: Vec<u32>,
    latest: Vec<Latest>,
}

/// Where an agent is: the stage of its latest spawn, and a run of steps in one stage that is not yet written.
#[derive(Debug, Clone, Copy)]
struct Latest {
    spawned: u32,
    stage: u32,
    steps: u32,
}

/// Whether events of a type are steps (D9).
fn is_step(kind: u8) -> bool {
    const NOT: [u8; 3] = [EventType::Message as u8, EventType::Spawn as u8, EventType::Despawn as u8];
    !NOT.contains(&kind)
}

impl StageTable {
    /// Replaces everything by what `view` says.
    pub fn compute(&mut self, view: &TraceView<'_>, owners: &Owners) {
        let names = owners.names();
        let root = owners.root().and_then(|code| owners.name_index(code)).unwrap_or(NOBODY);
        for column in [&mut self.main, &mut self.opened, &mut self.stage_of] {
            column.clear();
        }
        self.shares.clear();
        self.stage_of.resize(view.len(), NOBODY);
        self.latest.clear();
        // the stage of an agent is that of its latest spawn; one that nobody spawned is in the open stage
        self.latest.resize(names.len(), Latest { spawned: NOBODY, stage: NOBODY, steps: 0 });
        for &v in owners.order().rows() {
            let i = v as usize;
            let (kind, owner) = (view.types[i], owners.indices()[i]);
            let opens = kind == EventType::OrchestratorDecision as u8 || kind == EventType::Aggregate as u8;
            if self.main.is_empty() || (opens && owner == root && root != NOBODY) {
                self.main.push(0);
                self.opened.push(v);
            }
            let open = self.main.len() as u32 - 1;
            if kind == EventType::Spawn as u8 {
                let child = view.to.get(i).and_then(|to| owners.name_index(to));
                let spawner = self.latest.get(owner as usize).map_or(NOBODY, |of| of.spawned);
                let stage = if owner == root || spawner == NOBODY { open } else { spawner };
                if let Some(child) = child.filter(|&child| child != root) {
                    self.latest[child as usize].spawned = stage;
                }
            }
            if owner == NOBODY || !is_step(kind) {
                continue;
            }
            if owner == root {
                self.main[open as usize] += 1;
                continue;
            }
            let latest = &mut self.latest[owner as usize];
            let stage = if latest.spawned == NOBODY { open } else { latest.spawned };
            self.stage_of[i] = stage;
            if latest.steps > 0 && latest.stage == stage {
                latest.steps += 1;
            } else {
                let finished = std::mem::replace(latest, Latest { stage, steps: 1, ..*latest });
                self.push(finished, owner);
            }
        }
        for owner in 0..names.len() {
            let finished = self.latest[owner];
            self.push(finished, owner as u32);
        }
        self.shares.sort_unstable();
        // an agent may come back to a stage
        self.shares.dedup_by(|again, first| {
            let same = (again.stage, again.agent) == (first.stage, first.agent);
            first.steps += if same { again.steps } else { 0 };
            same
        });
    }

    fn push(&mut self, Latest { stage, steps, .. }: Latest, agent: u32) {
        if steps > 0 {
            self.shares.push(Share { stage, agent, steps });
        }
    }

    /// Steps of the other agents, stage by stage, those without any left out.
    pub fn fan_outs(&self) -> impl Iterator<Item = &[Share]> {
        self.shares.chunk_by(|a, b| a.stage == b.stage)
    }
}
