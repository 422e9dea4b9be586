//! Calls that do nothing but wait for agents. Waiting is no work: their results take no time of their own, and what was
//! answered meanwhile leads to them.

use super::super::CallResult;
use super::{Emission, End};

impl Emission<'_, '_, '_> {
    /// How long the work of a call took.
    pub(super) fn duration_of(&self, result: &CallResult) -> Option<f64> {
        if result.waits { self.order.timed.then_some(0.0) } else { result.duration_s }
    }

    /// Leads the answers of which the source says that they have reached an agent to the result of the call that waited
    /// for them.
    pub(super) fn answers_waited_for(&mut self, agent: u32, seq: u32) {
        let state = &mut self.agents[agent as usize];
        let [waited, waiting] = [&mut state.waited, &mut state.waiting].map(std::mem::take);
        let [waited, waiting] = [waited, waiting].map(|mut edges| {
            edges.retain(|&(src, edge_type)| {
                let arrived = match src {
                    End::Event(_) => false,
                    End::Entry(_) => true,
                    End::ReturnOf(child) => self.plan.told[child as usize],
                };
                // What is not written yet comes later than the result.
                let answered = arrived && self.resolve(src).is_some_and(|src| src < seq);
                if answered {
                    self.edges.push((src, End::Event(seq), edge_type));
                }
                !answered
            });
            edges
        });
        let state = &mut self.agents[agent as usize];
        (state.waited, state.waiting) = (waited, waiting);
    }
}
