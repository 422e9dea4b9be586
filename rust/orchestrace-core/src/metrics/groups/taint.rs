//! The reach of untrusted content (D17, D21). O(|V|+|E|).
//!
//! The closure over every edge type but temporal, by [`safety`](crate::safety), whose verbs have more options. If no
//! event says whether it is trusted, everything is null.

use crate::error::Reason;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::safety::{Carry, Rules, Scene, Taint as Closure, Touches};

/// Taint.
#[derive(Debug)]
pub struct Taint;

static INFO: GroupInfo = GroupInfo {
    name: "taint",
    cost: Cost::Linear,
    reference: "D17, D21; Denning 1976; arXiv 2605.02801, section 6",
    metrics: &[
        Metric { name: "n_untrusted", count: Count::Things, summary: "events with trusted = false" },
        Metric {
            name: "n_trust_unknown",
            count: Count::Things,
            summary: "events that do not say whether they are trusted",
        },
        Metric {
            name: "n_tainted",
            count: Count::Things,
            summary: "untrusted events and everything downstream of them, up to barriers",
        },
        Metric { name: "taint_share", count: Count::Ratio, summary: "share of events that are tainted" },
        Metric { name: "outcome_tainted", count: Count::Flag, summary: "whether the outcome is tainted" },
        Metric {
            name: "time_to_tainted_action",
            count: Count::Clock,
            summary: "time from the first seed to the first tainted decision, spawn or privileged call, in the unit of \
                      t",
        },
        Metric {
            name: "taint_spread",
            count: Count::Ratio,
            summary: "mean number of tainted direct successors of a tainted event",
        },
        Metric {
            name: "sandbox_violations",
            count: Count::Things,
            summary: "tainted edges between two agents that share a sandbox; null if no event names one",
        },
        Metric {
            name: "sandbox_crossings",
            count: Count::Things,
            summary: "tainted edges from one sandbox into another; null if no event names one",
        },
        Metric {
            name: "outcome_tainted_lower",
            count: Count::Flag,
            summary: "whether the outcome is tainted over safety flows alone; null if these are drawn along contexts",
        },
    ],
};

impl Group for Taint {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, options: &Options) -> Box<dyn Measure> {
        let rules = Rules { tools: options.tools.as_ref().clone(), ..Rules::default() };
        Box::new(Worker { rules, ..Worker::default() })
    }
}

#[derive(Debug, Default)]
struct Worker {
    closure: Closure,
    rules: Rules,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let (view, n) = (subject.view, subject.view.len());
        let Some(scene) = scene(subject) else {
            let tally = self.closure.look(view, subject.owners, &self.rules);
            if (tally.unknown as usize) < n {
                out.set(0, f64::from(tally.untrusted));
                out.set(1, f64::from(tally.unknown));
                out.all_absent(2..10, Reason::GraphCycle);
            }
            return;
        };
        self.rules.carry = Carry::All;
        let tally = match self.closure.compute(&scene, &self.rules) {
            Ok(tally) => tally,
            Err(reason) => return out.all_absent(0..10, reason),
        };
        out.set(0, f64::from(tally.untrusted));
        out.set(1, f64::from(tally.unknown));
        out.set(2, f64::from(tally.tainted));
        out.ratio(3, f64::from(tally.tainted), n as f64);
        let flag = |reached: bool| f64::from(u8::from(reached));
        out.put(4, self.closure.reaches_outcome(&scene).map(flag));
        let action = Touches::of(&self.closure, &scene, &self.rules.tools).action();
        out.put(5, action.map(|touch| touch.after).ok_or(Reason::RatioEmpty));
        out.put(6, self.closure.spread());
        if self.closure.is_sandboxed() {
            out.set(7, f64::from(tally.violations));
            out.set(8, f64::from(tally.crossings));
        }
        if !view.conservative_flows {
            self.rules.carry = Carry::SafetyFlow;
            let lower = self.closure.compute(&scene, &self.rules);
            out.put(9, lower.and_then(|_| self.closure.reaches_outcome(&scene)).map(flag));
        }
    }
}

/// A trace as taint sees it, unless it has a cycle.
pub(super) fn scene<'a>(subject: &Subject<'a>) -> Option<Scene<'a>> {
    let Subject { view, owners, .. } = *subject;
    let order = subject.order()?;
    Some(Scene { view, owners, graph: subject.graph(), order, outcome: subject.outcome() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::{Measured, measured};
    use crate::schema::{EdgeType, EventType};

    fn taint(t: &TestTrace) -> Vec<Measured> {
        measured(&Taint, t)
    }

    #[test]
    fn artifact_example() {
        let mut t = TestTrace::artifact();
        assert_eq!(taint(&t), vec![Err(Reason::FieldAbsent); 10]);
        t.flag_trusted(5, false);
        let absent = Err(Reason::FieldAbsent);
        let none = Err(Reason::RatioEmpty);
        let flow = |lower| {
            vec![Ok(1.0), Ok(7.0), Ok(3.0), Ok(0.375), Ok(1.0), none, Ok(2.0 / 3.0), absent, absent, lower]
        };
        assert_eq!(taint(&t), flow(Ok(0.0)), "no safety flow leads to e8");
        t.edge(5, 7, EdgeType::SafetyFlow);
        let mut more = flow(Ok(1.0));
        more[6] = Ok(1.0);
        assert_eq!(taint(&t), more);
        t.conservative_flows = true;
        assert_eq!(taint(&t)[9], Err(Reason::FieldAbsent), "an upper bound is no lower one");
        t.edge(7, 0, EdgeType::Causal);
        let cycle = Err(Reason::GraphCycle);
        assert_eq!(taint(&t), [Ok(1.0), Ok(7.0), cycle, cycle, cycle, cycle, cycle, cycle, cycle, cycle]);
    }

    #[test]
    fn trusted_runs_are_clean() {
        let mut t = TestTrace::artifact();
        t.flag_trusted(5, true);
        let none = Err(Reason::RatioEmpty);
        let absent = Err(Reason::FieldAbsent);
        assert_eq!(
            taint(&t),
            [Ok(0.0), Ok(7.0), Ok(0.0), Ok(0.0), Ok(0.0), none, none, absent, absent, Ok(0.0)]
        );
    }

    #[test]
    fn actions_and_sandboxes() {
        use EventType::*;
        // an untrusted message of a reaches b, in the same sandbox, who decides 3 later; the safety event stops it
        let mut t = TestTrace::default();
        t.event(Message, "a").at(1.0).trusted(false).sandbox("s").to("b");
        t.event(OrchestratorDecision, "b").at(4.0).sandbox("s");
        t.event(SafetyEvent, "b").at(5.0).sanitizer().event(Aggregate, "b").at(6.0);
        t.edge(0, 1, EdgeType::Message).edge(1, 2, EdgeType::Causal).edge(2, 3, EdgeType::SafetyFlow);
        t.edge(0, 3, EdgeType::Temporal);
        let values = taint(&t);
        let expected = [1.0, 3.0, 2.0, 0.5, 0.0, 3.0, 0.5, 1.0, 0.0, 0.0].map(Ok);
        assert_eq!(values, expected);
        // from another sandbox it is a crossing
        let mut across = TestTrace::default();
        across.event(Message, "a").trusted(false).sandbox("s").event(Message, "b").sandbox("other");
        across.event(Message, "b").edge(0, 1, EdgeType::Message).edge(0, 2, EdgeType::Message);
        assert_eq!(taint(&across)[7..9], [Ok(0.0), Ok(1.0)]);
    }
}
