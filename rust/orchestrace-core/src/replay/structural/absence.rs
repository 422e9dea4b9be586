//! The effect of each event's absence on the outcome, under the default surrogate.
//!
//! As `drop(event=..., mode="node")` of structural replay: abduction, action, prediction, with nothing lost but the event.
//! O((|V|+|E|) K/8) for K events, less what lies before the first of eight.

use std::ops::ControlFlow;

use super::predict::{Base, Prediction};
use crate::error::Reason;
use crate::graph::{GraphOptions, TraceGraph};
use crate::replay::intervention::masks::Scene;
use crate::replay::intervention::{Masks, Plan, Roster};
use crate::store::view::TraceView;
use crate::surrogate::Cost;
use crate::surrogate::{MAX_SETS, Structure};

/// A worker's buffers.
#[derive(Debug, Default)]
pub struct Absences {
    graph: TraceGraph,
    base: Base,
    prediction: Prediction,
    masks: Masks,
    plan: Plan,
    roster: Roster,
}

impl Absences {
    /// Hands `tell` each of `events` with what the outcome loses without it, until it has heard enough. Gives up where
    /// that takes more visits of events and edges than [`Cost::MOST_VISITS`].
    pub fn each(
        &mut self,
        view: &TraceView<'_>,
        program_order: bool,
        events: impl Iterator<Item = u32>,
        mut tell: impl FnMut(u32, f64) -> ControlFlow<()>,
    ) -> Result<(), Reason> {
        let Self { graph, base, prediction, masks, plan, roster } = self;
        let structure = Structure::default();
        graph.begin();
        let outcome = graph.outcome(view)?;
        graph.build(view, GraphOptions { program_order, weights: Some(structure.weights.table()) });
        let (csr, order) = graph.ordered();
        let order = order.ok_or(Reason::GraphCycle)?;
        base.compute(view, csr, order, outcome, &structure, plan);
        let scene = Scene { view, graph: csr, order, outcome, roster };
        masks.absent.clear();
        masks.absent.resize(view.len(), 0);
        let mut events = events.peekable();
        let (mut asked, size) = (0, Cost::of(view.len() + view.src.len()));
        while events.peek().is_some() {
            if Cost::of(asked).times(size) > Cost::MOST_VISITS {
                return Err(Reason::BudgetExceeded);
            }
            asked += MAX_SETS;
            let (mut block, mut n) = ([0; MAX_SETS], 0);
            for event in events.by_ref().take(MAX_SETS) {
                masks.absent[event as usize] |= 1 << n;
                block[n] = event;
                n += 1;
            }
            let mut outcomes = [0.0; MAX_SETS];
            prediction.prepare(base, masks, &scene, n);
            // nobody asks for a stop, so that there is an answer
            let _ = prediction.run(base, masks, &scene, None, &mut outcomes[..n]);
            for (&event, &there) in block[..n].iter().zip(&outcomes) {
                masks.absent[event as usize] = 0;
                if tell(event, base.outcome() - there).is_break() {
                    block[..n].iter().for_each(|&event| masks.absent[event as usize] = 0);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
