//! The meaning of each event of a finished run, and the truth of the trace.

use super::bits::{Bits, Purpose, normal};
use super::law::{Chain, Draft, MOST_ACTIONS, Policy, decides, happening, hazard, matters};
use super::model::{Game, Model, Pair, Part, Parts};
use super::spawning::SpawnState;
use super::ties::Ties;
use super::{Run, Spec};
use crate::generate::record::NONE;
use crate::rng::Stream;
use crate::schema::EventType;

/// What the recording says of an event beyond the run itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) prefix: u64,
    pub(super) content: u64,
    /// The logged action and the probabilities of all, in thousandths.
    pub(super) decision: Option<(u8, [u16; MOST_ACTIONS])>,
    pub(super) value: f64,
    pub(super) reward: f64,
    pub(super) draft: Option<u16>,
    pub(super) subtask: u8,
}

/// The best place to stop, and where the run did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stopping {
    pub(super) best: u32,
    pub(super) payoff: f64,
    pub(super) recorded: u32,
    pub(super) recorded_payoff: f64,
}

/// One trace; its buffers serve the next one.
#[derive(Debug, Default)]
pub(super) struct Planting {
    pub(super) steps: Vec<Step>,
    pub(super) parts: Parts,
    pub(super) contributions: Vec<f64>,
    /// Sums of contributions by agent.
    pub(super) earned: Vec<f64>,
    pub(super) game: Game,
    /// Whether the game was small enough.
    pub(super) solved: bool,
    pub(super) stopping: Option<Stopping>,
    /// Expected outcome before the first event, the outcome, and what was added to it.
    pub(super) expected: f64,
    pub(super) outcome: f64,
    pub(super) noise: f64,
    /// The planted decision to spawn, how it went, and the expected outcome without it.
    pub(super) decision: Option<(SpawnState, bool, f64)>,
}

impl Planting {
    /// Works out the trace of a number from its run.
    pub(super) fn plant(&mut self, spec: &Spec, model: &Model, ties: &Ties, run: &Run, number: u64) {
        self.walk(spec, model, ties, run);
        model.contributions(&self.parts, &mut self.contributions);
        let agents = run.agents.len();
        self.solved = model.shapley(&self.parts, &self.contributions, &mut self.game, agents);
        self.earned.clear();
        self.earned.resize(agents, 0.0);
        for (part, contribution) in self.parts.events.iter().zip(&self.contributions) {
            self.earned[part.agent as usize] += contribution;
        }
        let mut stream = Stream::numbered(spec.seed, "planted.noise", number);
        self.noise = spec.noise * normal(|| stream.unit_f64());
        self.stopping = self.stop(spec, run);
    }

    /// Effects, pairs, the decisive error and values, in order of time.
    fn walk(&mut self, spec: &Spec, model: &Model, ties: &Ties, run: &Run) {
        let n = run.events.len();
        let (mut chain, mut progress, mut draft) =
            (Chain::start(run.task.key), model.begin(), Draft::default());
        self.steps.clear();
        self.parts.events.clear();
        self.parts.pairs.clear();
        self.parts.decisive = None;
        // The last event with an effect, and the last one of an agent other than that one's.
        let (mut latest, mut other) = (NONE, NONE);
        let mut value = model.value(&progress);
        let decision = run.rules.decision();
        self.decision = decision.map(|(state, spawned)| (state, spawned, value + state.base));
        value += decision.map_or(0.0, |(state, _)| state.expected());
        self.expected = value;
        for (i, event) in run.events.iter().enumerate() {
            let context = chain.context(event);
            let spawning = decision.filter(|_| i == 0);
            let matter = matters(context, spec.density);
            let policy = decides(event).then(|| {
                let mut policy = Policy::of(context, spec.actions, matter);
                if matter {
                    ties.actions(&mut policy, run.agents[event.actor as usize].role);
                }
                policy
            });
            let action = match spawning {
                Some((_, spawned)) => Some(usize::from(spawned)),
                None => policy.map(|policy| policy.pick(event.salt)),
            };
            let content = chain.content(event, action);
            let called = if event.kind == EventType::ToolCall { ties.tool(event.tool) } else { None };
            let effect = match (spawning, called, policy, action) {
                (Some((state, spawned)), ..) => state.worth(spawned),
                (_, Some(effect), ..) => {
                    if matter {
                        effect
                    } else {
                        0.0
                    }
                }
                (_, _, Some(policy), Some(action)) => policy.effects[action],
                _ => happening(content, spec.density),
            };
            let part =
                Part { strength: model.strength(effect), subtask: model.subtask(i), agent: event.actor };
            let decisive = self.parts.decisive.is_none()
                && Bits::new(content, Purpose::Decisive).unit() < hazard(spec.decisive, i, n);
            if decisive {
                self.parts.decisive = Some(i as u32);
            }
            let mut pair = None;
            if part.strength != 0.0 {
                let agent = |at: u32| self.parts.events.get(at as usize).map(|p| p.agent);
                let partner = if agent(latest) == Some(part.agent) { other } else { latest };
                if let Some(first) = self.parts.events.get(partner as usize) {
                    let size = spec.interaction * (first.strength.abs() + part.strength.abs()) / 2.0;
                    let up = Bits::new(content, Purpose::Pair).next() & 1 == 0;
                    pair = Some(if up { size } else { -size }).filter(|_| spec.interaction > 0.0);
                }
                if agent(latest) != Some(part.agent) {
                    other = latest;
                }
                latest = i as u32;
                if let Some(weight) = pair {
                    self.parts.pairs.push(Pair { first: partner, second: latest, weight });
                }
            }
            progress.add(&part, decisive, pair);
            let next = model.value(&progress);
            let mut bits = Bits::new(context, Purpose::Critic);
            let blur = if spec.value_noise > 0.0 { spec.value_noise * normal(|| bits.unit()) } else { 0.0 };
            let epoch = matches!(event.kind, EventType::OrchestratorDecision | EventType::Aggregate);
            self.steps.push(Step {
                prefix: chain.prefix,
                content,
                decision: match spawning {
                    Some((state, spawned)) => Some((u8::from(spawned), state.shares())),
                    None => policy.zip(action).map(|(policy, action)| (action as u8, policy.shares)),
                },
                value: value + blur,
                reward: next - value,
                draft: epoch.then(|| draft.advance(content)),
                subtask: part.subtask,
            });
            self.parts.events.push(part);
            chain.add(event, content);
            value = next;
        }
        self.outcome = value;
    }

    /// The first epoch with the highest payoff, quality less the tokens so far at their price.
    fn stop(&self, spec: &Spec, run: &Run) -> Option<Stopping> {
        let (mut tokens, mut epoch) = (0u64, 0);
        let mut best_stop: Option<Stopping> = None;
        for (event, step) in run.events.iter().zip(&self.steps) {
            tokens += u64::from(event.tokens_in) + u64::from(event.tokens_out);
            let Some(quality) = step.draft else { continue };
            epoch += 1;
            let payoff = f64::from(quality) / 1000.0 - spec.stop_cost * tokens as f64;
            let best = best_stop.filter(|best| best.payoff >= payoff);
            best_stop = Some(Stopping {
                best: best.map_or(epoch, |best| best.best),
                payoff: best.map_or(payoff, |best| best.payoff),
                recorded: epoch,
                recorded_payoff: payoff,
            });
        }
        best_stop
    }
}
