//! Actions of agents in their turn: call tools, write, delegate, return, aggregate; and interruptions.

use super::super::names::TOOLS;
use super::super::record::{Agent, NONE, USER};
use super::super::task::Feature;
use super::{ROOT, Rules, Run, log_normal};
use crate::schema::{EdgeType, EventType};

impl<R: Rules> Run<R> {
    /// Now and then a person or a guard speaks before the agent does.
    pub(super) fn interrupted(&mut self, a: u32) -> bool {
        if self.rules.undisturbed() {
            return false;
        }
        let Agent { last, untrusted, .. } = self.agents[a as usize];
        let guarded = self.task.has(Feature::Safety);
        if untrusted != NONE && self.rng.bool(if guarded { 0.08 } else { 0.004 }) {
            self.agent(a).untrusted = NONE;
            let at = self.act(EventType::SafetyEvent, a);
            self.edge(untrusted, at, EdgeType::SafetyFlow);
            let event = &mut self.events[at as usize];
            event.trusted = Some(false);
            event.sanitizer = guarded && event.salt & 1 == 0;
            self.deliver(a, at, EdgeType::Causal);
            return true;
        }
        if last != NONE && self.rng.bool(if self.task.has(Feature::Humans) { 0.02 } else { 0.001 }) {
            let at = self.emit(EventType::HumanIntervention, USER);
            self.events[at as usize].to = a;
            self.edge(last, at, EdgeType::Causal);
            self.deliver(a, at, EdgeType::Causal);
            return true;
        }
        false
    }

    /// Tools, a message, or thinking aloud.
    pub(super) fn work(&mut self, a: u32, slack: u32) {
        let shape = self.task.shape();
        let choice = self.rng.unit_f64();
        if choice < shape.tools && slack >= 2 {
            self.call_tools(a, slack / 2);
            return;
        }
        let to = if choice < shape.tools + shape.talk { self.peer(a) } else { NONE };
        let at = self.begin(EventType::Message, a);
        self.events[at as usize].to = to;
        self.judge(at);
        if to != NONE {
            self.deliver(to, at, EdgeType::Message);
        }
        self.schedule(a);
    }

    /// Somebody at work to write to, else the boss.
    fn peer(&mut self, a: u32) -> u32 {
        for _ in 0..3 {
            let other = self.rng.below(self.agents.len() as u64) as u32;
            if other != a && self.agents[other as usize].active {
                return other;
            }
        }
        self.agents[a as usize].boss
    }

    fn call_tools(&mut self, a: u32, most: u32) {
        let calls = (1 + u32::from(self.rng.bool(0.2)) + u32::from(self.rng.bool(0.06))).min(most);
        let mut first = NONE;
        for _ in 0..calls {
            let at = if first == NONE {
                self.begin(EventType::ToolCall, a)
            } else {
                self.follow(EventType::ToolCall, a, first, EdgeType::ToolDependency)
            };
            first = first.min(at);
            // The smaller of two draws: early tools are the popular ones.
            let tools = TOOLS.len() as u64;
            let tool = self.rng.below(tools).min(self.rng.below(tools));
            self.events[at as usize].tool = tool as u8;
            self.reserved += 1;
            self.agent(a).open_calls += 1;
            let took = 1 + log_normal(&mut self.rng, TOOLS[tool as usize].median_ms);
            self.wake_at(self.now + took, a, at);
        }
    }

    pub(super) fn finish_call(&mut self, a: u32, call: u32) {
        let at = self.emit(EventType::ToolResult, a);
        self.reserved -= 1;
        self.edge(call, at, EdgeType::Return);
        let faulty = self.task.has(Feature::Faults) && self.rng.bool(0.03);
        let ok = self.rng.bool(0.93);
        let call_event = &self.events[call as usize];
        let (tool, turn, began, subtask, ill) =
            (call_event.tool, call_event.turn, call_event.t, call_event.subtask, call_event.corrupted);
        let event = &mut self.events[at as usize];
        event.tool = tool;
        event.turn = turn;
        event.subtask = subtask;
        event.trusted = Some(TOOLS[usize::from(tool)].trusted);
        event.ok = ok;
        event.duration = (event.t - began) as u32;
        event.corrupted = faulty || ill;
        event.seed = faulty && !ill;
        let untrusted = event.trusted == Some(false);
        let size = log_normal(&mut self.rng, 300) as u32;
        let agent = &mut self.agents[a as usize];
        agent.context += size;
        agent.open_calls -= 1;
        if untrusted {
            agent.untrusted = at;
        }
        let more = agent.open_calls > 0;
        self.deliver(a, at, EdgeType::Causal);
        if !more {
            self.schedule(a);
        }
    }

    /// Decides on subtasks and hands them out, to new agents or to idle ones; false if there is nobody.
    pub(super) fn delegate(&mut self, a: u32, slack: u32) -> bool {
        let shape = self.task.shape();
        let born = self.unborn > 0 && (self.idle.is_empty() || self.rng.bool(0.7));
        let free = if born { u64::from(self.unborn) } else { self.idle.len() as u64 };
        if free == 0 {
            return false;
        }
        // Large teams start in proportion; where workers spawn too, some agents are left for them.
        let share = if shape.nest > 0.0 && born { free.div_ceil(2) } else { free };
        let (least, most) = self.rules.width().unwrap_or((shape.width.0, shape.width.1.max(free / 5)));
        let width = self.rng.range(least, most + 1);
        let width = width.min(share).min(u64::from(slack - 1) / 2) as u32;
        let first = self.begin(EventType::OrchestratorDecision, a);
        if first == 0 && !self.rules.spawns(&mut self.rng) {
            // Decided not to: nobody is ever spawned, and the root goes on by itself.
            self.unborn = 0;
            self.schedule(a);
            return true;
        }
        for _ in 0..width {
            if born {
                self.spawn(a, first);
            } else {
                self.engage(a, first);
            }
        }
        true
    }

    fn spawn(&mut self, a: u32, decision: u32) {
        let roles = self.task.shape().roles;
        let role = roles[(self.agents.len() - 1) % roles.len()];
        let depth = self.agents[a as usize].depth + 1;
        self.unborn -= 1;
        let child = self.add_agent(role, a, depth);
        let at = self.follow(EventType::Spawn, a, decision, EdgeType::Spawn);
        self.start(a, child, at, EdgeType::Spawn);
    }

    fn engage(&mut self, a: u32, decision: u32) {
        let pick = self.rng.below(self.idle.len() as u64) as usize;
        let child = self.idle.swap_remove(pick);
        let at = self.follow(EventType::Message, a, decision, EdgeType::Causal);
        self.start(a, child, at, EdgeType::Message);
    }

    fn start(&mut self, boss: u32, child: u32, by: u32, edge: EdgeType) {
        // Responses per engagement, so that the team goes round between once and twice.
        let fair = u64::from(self.target / (self.team * 3).max(1)).max(1);
        let quota = log_normal(&mut self.rng, fair).max(1) as u32;
        let subtask = self.subtasks;
        self.subtasks += 1;
        let agent = self.agent(child);
        (agent.boss, agent.active, agent.quota, agent.subtask) = (boss, true, quota, subtask);
        self.events[by as usize].to = child;
        self.events[by as usize].subtask = subtask;
        self.reserved += 1;
        self.agent(boss).live_children += 1;
        self.deliver(child, by, edge);
        self.schedule(child);
    }

    pub(super) fn give_back(&mut self, a: u32) {
        let at = self.begin(EventType::Return, a);
        self.judge(at);
        let boss = self.agents[a as usize].boss;
        self.events[at as usize].to = boss;
        self.reserved -= 1;
        let agent = self.agent(a);
        (agent.active, agent.returns) = (false, NONE);
        self.idle.push(a);
        self.deliver(boss, at, EdgeType::Return);
        let returns = self.agents[boss as usize].returns;
        self.agents[boss as usize].returns = self.post(at, EdgeType::Aggregate, returns);
        let boss_state = self.agent(boss);
        boss_state.live_children -= 1;
        let last = boss_state.live_children == 0;
        if !boss_state.scheduled && (last || self.rng.bool(0.12)) {
            self.schedule(boss);
        }
    }

    /// Joins what came back; the root may then let idle agents go.
    pub(super) fn aggregate(&mut self, a: u32) {
        let at = self.begin(EventType::Aggregate, a);
        self.judge(at);
        if a != ROOT || !self.rng.bool(0.3) {
            return;
        }
        let gone = self.rng.below(4).min(self.idle.len() as u64 / 2).min(u64::from(self.slack()));
        for _ in 0..gone {
            let pick = self.rng.below(self.idle.len() as u64) as usize;
            let child = self.idle.swap_remove(pick);
            let bye = self.follow(EventType::Despawn, a, at, EdgeType::Causal);
            self.events[bye as usize].to = child;
            let last = self.agents[child as usize].last;
            self.edge(last, bye, EdgeType::Causal);
        }
    }
}
