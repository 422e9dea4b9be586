//! The first tainted decision, spawn and privileged call, and the agent that took up the taint first.
//!
//! "First" is by canonical order (D1), times are measured from the first seed (D17). O(|V|).

use super::taint::{Scene, Taint, Tools};
use crate::graph::NOBODY;
use crate::schema::EventType;

/// An event and when it came after the first seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Touch {
    /// The event.
    pub event: u32,
    /// Its time less that of the first seed, in the unit of `t`.
    pub after: f64,
}

/// The first events of a trace that taint touched.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Touches {
    /// The first seed.
    pub seed: Option<u32>,
    /// The first tainted event of an agent at which taint did not begin: who owns it took it up first.
    pub agent: Option<Touch>,
    /// The first tainted orchestrator decision.
    pub decision: Option<Touch>,
    /// The first tainted spawn.
    pub spawn: Option<Touch>,
    /// The first tainted tool call that is privileged.
    pub call: Option<Touch>,
    /// How many of these there are.
    pub calls: u32,
}

impl Touches {
    /// Of the last closure.
    #[must_use]
    pub fn of(taint: &Taint, scene: &Scene<'_>, tools: &Tools) -> Self {
        let mut touches = Self::default();
        if taint.tally().tainted == 0 {
            return touches;
        }
        let (view, rows) = (scene.view, scene.owners.order().rows());
        // by way of edges back in time something may be tainted before the first seed
        touches.seed = rows.iter().copied().find(|&v| taint.is_seed(v as usize));
        let begun = touches.seed.map_or(0.0, |seed| view.t[seed as usize]);
        for &v in rows.iter().filter(|&&v| taint.is_tainted(v as usize)) {
            let i = v as usize;
            let touch = Touch { event: v, after: view.t[i] - begun };
            if !taint.is_seed(i) && scene.owners.codes()[i] != NOBODY {
                touches.agent.get_or_insert(touch);
            }
            match view.event_type(i) {
                EventType::OrchestratorDecision => touches.decision.get_or_insert(touch),
                EventType::Spawn => touches.spawn.get_or_insert(touch),
                EventType::ToolCall if tools.is_privileged_call(view, i) => {
                    touches.calls += 1;
                    touches.call.get_or_insert(touch)
                }
                _ => continue,
            };
        }
        touches
    }

    /// The first of the decision, the spawn and the privileged call.
    #[must_use]
    pub fn action(&self) -> Option<Touch> {
        let actions = [self.decision, self.spawn, self.call].into_iter().flatten();
        actions.min_by(|a, b| a.after.total_cmp(&b.after).then(a.event.cmp(&b.event)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::taint::Named;
    use super::super::taint::tests::{closed, rules};
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::schema::EdgeType;

    #[test]
    fn the_first_of_each_kind_counts_from_the_first_seed() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(ToolResult, "browser").at(2.0).trusted(false);
        t.event(Message, "user").at(3.0);
        t.event(ToolCall, "a").at(9.0).privileged().event(ToolCall, "a").at(4.0);
        t.event(Spawn, "b").at(6.0).to("c").event(OrchestratorDecision, "b").at(5.0);
        t.event(ToolCall, "a").at(7.0).privileged();
        (1..7).for_each(|v| {
            t.edge(0, v, EdgeType::Causal);
        });
        let at = |event, after| Some(Touch { event, after });
        closed(&t, &rules(), |taint, scene| {
            let touches = Touches::of(taint, scene, &Tools::default());
            assert_eq!(touches.seed, Some(0));
            assert_eq!(touches.agent, at(3, 2.0), "what the user says is no agent's");
            assert_eq!(touches.decision, at(5, 3.0));
            assert_eq!(touches.spawn, at(4, 4.0));
            assert_eq!(touches.call, at(6, 5.0));
            assert_eq!((touches.calls, touches.action()), (2, at(5, 3.0)));
        });
        let mut clean = TestTrace::artifact();
        clean.trusted(true);
        closed(&clean, &rules(), |taint, scene| {
            assert_eq!(Touches::of(taint, scene, &Tools::default()), Touches::default());
            assert_eq!(Touches::default().action(), None);
        });
        // A call is privileged, too, whose tool is said to be.
        let mut named = TestTrace::artifact();
        named.flag_trusted(0, false);
        let view = named.view();
        let call = (0..8).find(|&v| view.event_type(v) == ToolCall && view.tool.get(v).is_some()).unwrap();
        let privileged = Named { tools: vec![view.tool.get(call).unwrap()], any: true, ..Named::default() };
        let tools = Tools { privileged, ..Tools::default() };
        closed(&named, &rules(), |taint, scene| {
            assert_eq!(Touches::of(taint, scene, &Tools::default()).call, None);
            let touches = Touches::of(taint, scene, &tools);
            assert_eq!(touches.call.map(|touch| touch.event), Some(call as u32));
        });
    }
}
