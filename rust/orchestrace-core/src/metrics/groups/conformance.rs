//! Conformance of agents to the actions that their harness allows. O(|V|).
//!
//! Actions are the decisions, spawns, despawns, messages, calls, returns and aggregates of an agent. An action is judged
//! by what the harness declares ([`Harness`]): its type; of a call the tool; of a spawn the role that it makes. A call
//! that does not name its tool, or a spawn that does not name a role, is judged by its type alone. Runs of different
//! harnesses are not one population: `n_harnesses` counts them within a run.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::Reason;
use crate::graph::NOBODY;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::{Harness, Options};
use crate::metrics::subject::Subject;
use crate::schema::EventType;

/// Conformance with a harness.
#[derive(Debug)]
pub struct Conformance;

static INFO: GroupInfo = GroupInfo {
    name: "conformance",
    cost: Cost::Linear,
    reference: "arXiv 2605.02801, section 5.2",
    metrics: &[
        Metric {
            name: "n_harnesses",
            count: Count::Things,
            summary: "distinct harness hashes; null if no event has one",
        },
        Metric {
            name: "n_nonconforming",
            count: Count::Things,
            summary: "actions that the declared harness does not allow; null without a declaration",
        },
        Metric {
            name: "nonconformance",
            count: Count::Ratio,
            summary: "share of the actions covered by the declaration that it does not allow",
        },
    ],
};

impl Group for Conformance {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, options: &Options) -> Box<dyn Measure> {
        Box::new(Worker { harness: options.harness.clone(), hashes: Vec::new() })
    }
}

#[derive(Debug)]
struct Worker {
    harness: Option<Arc<Harness>>,
    hashes: Vec<u128>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        self.hashes.clear();
        let hashes_of_events = (0..view.len()).filter_map(|v| view.harness_hash.get(v));
        self.hashes.extend(hashes_of_events.map(|hash| xxh3_128(hash.as_bytes())));
        self.hashes.sort_unstable();
        self.hashes.dedup();
        if !self.hashes.is_empty() {
            out.count(0, self.hashes.len());
        }
        let Some(harness) = &self.harness else {
            return out.all_absent(1..3, Reason::SupportAbsent);
        };
        let (mut judged, mut beyond) = (0_usize, 0_usize);
        for v in (0..view.len()).filter(|&v| subject.owner(v) != NOBODY && subject.is(v, &ACTIONS)) {
            if let Some(conforms) = harness.conforms(subject, v) {
                judged += 1;
                beyond += usize::from(!conforms);
            }
        }
        out.count(1, beyond);
        out.ratio(2, beyond as f64, judged as f64);
    }
}

/// What agents do.
const ACTIONS: [EventType; 7] = [
    EventType::OrchestratorDecision,
    EventType::Spawn,
    EventType::Despawn,
    EventType::Message,
    EventType::ToolCall,
    EventType::Return,
    EventType::Aggregate,
];

impl Harness {
    /// Whether it has an action; `None` if it declares nothing of that kind.
    fn conforms(&self, subject: &Subject<'_>, v: usize) -> Option<bool> {
        let view = subject.view;
        let kind = self.types.as_ref().map(|types| types.binary_search(&view.types[v]).is_ok());
        let (names, name) = match view.event_type(v) {
            EventType::ToolCall => (self.tools.as_ref(), view.tool.get(v)),
            EventType::Spawn => (self.roles.as_ref(), view.role.get(v)),
            _ => (None, None),
        };
        let named = names.zip(name).map(|(names, name)| names.binary_search(&name).is_ok());
        match (kind, named) {
            (None, None) => None,
            (kind, named) => Some(kind.unwrap_or(true) && named.unwrap_or(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::{Measured, measured, measured_with};
    use EventType::*;

    /// A decision, two spawns, three calls of which one names no tool, a result, and a message of the user.
    fn run() -> TestTrace {
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "boss").harness("h1");
        t.event(Spawn, "boss")
            .to("a")
            .role("executor")
            .harness("h2")
            .event(Spawn, "boss")
            .to("b")
            .role("critic");
        t.event(ToolCall, "a").tool("web").harness("h1").event(ToolCall, "a").tool("shell");
        t.event(ToolCall, "a").event(ToolResult, "a").tool("shell").event(Message, "user");
        t
    }

    fn judged(types: Option<&[EventType]>, tools: Option<&[&str]>, roles: Option<&[&str]>) -> Vec<Measured> {
        let t = run();
        let sorted = |mut codes: Vec<u32>| {
            codes.sort_unstable();
            codes
        };
        let harness = Harness {
            types: types.map(|of| {
                sorted(of.iter().map(|&kind| kind as u32).collect()).iter().map(|&c| c as u8).collect()
            }),
            tools: tools.map(|of| sorted(of.iter().map(|tool| TestTrace::tool_code(tool)).collect())),
            roles: roles.map(|of| sorted(of.iter().map(|role| TestTrace::role_code(role)).collect())),
        };
        let options = Options { harness: Some(Arc::new(harness)), ..Options::default() };
        measured_with(&Conformance, &t.view(), &options)
    }

    #[test]
    fn harnesses_are_counted_and_nothing_is_judged_undeclared() {
        let none = Err(Reason::SupportAbsent);
        assert_eq!(measured(&Conformance, &run()), [Ok(2.0), none, none]);
        assert_eq!(measured(&Conformance, &TestTrace::artifact())[0], Err(Reason::FieldAbsent));
        assert_eq!(judged(None, None, None)[1..], [Ok(0.0), Err(Reason::RatioEmpty)]);
    }

    #[test]
    fn actions_are_judged_by_what_is_declared() {
        let all = [OrchestratorDecision, Spawn, ToolCall];
        assert_eq!(judged(Some(&all), None, None)[1..], [Ok(0.0), Ok(0.0)]);
        assert_eq!(judged(Some(&[Spawn, ToolCall]), None, None)[1..], [Ok(1.0), Ok(1.0 / 6.0)]);
        // two calls name a tool; results are no actions
        assert_eq!(judged(None, Some(&["web"]), None)[1..], [Ok(1.0), Ok(0.5)]);
        assert_eq!(judged(None, None, Some(&["executor"]))[1..], [Ok(1.0), Ok(0.5)]);
        let strict = judged(Some(&all), Some(&["web"]), Some(&[]));
        assert_eq!(strict[1..], [Ok(3.0), Ok(0.5)]);
    }
}
