//! The number of sanitizers that would keep the outcome clean (D17). O(|E| √|V|).

use super::taint::scene;
use crate::error::Reason;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::safety::{Rules, SanitizerCut, Taint};

/// Minimum vertex cuts.
#[derive(Debug)]
pub struct Cut;

static INFO: GroupInfo = GroupInfo {
    name: "cut",
    cost: Cost::SuperLinear,
    reference: "D17; Menger 1927; Dinic 1970",
    metrics: &[Metric {
        name: "sanitizer_cut",
        count: Count::Things,
        summary: "smallest number of events to clean so that the outcome stays clean; null if the outcome is a seed",
    }],
};

impl Group for Cut {
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
    rules: Rules,
    taint: Taint,
    cut: SanitizerCut,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let Some(scene) = scene(subject) else { return out.absent(0, Reason::GraphCycle) };
        let closed = self.taint.compute(&scene, &self.rules);
        let cut = closed.and_then(|_| self.cut.compute(&self.taint, &scene, |_| 1.0));
        out.put(0, cut.map(|()| self.cut.chosen.len() as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::measured;
    use crate::schema::EdgeType;

    #[test]
    fn one_is_enough_in_the_artifact_example() {
        let mut t = TestTrace::artifact();
        assert_eq!(measured(&Cut, &t), [Err(Reason::FieldAbsent)]);
        t.flag_trusted(5, true);
        assert_eq!(measured(&Cut, &t), [Ok(0.0)]);
        t.flag_trusted(5, false);
        assert_eq!(measured(&Cut, &t), [Ok(1.0)]);
        t.flag_trusted(3, false);
        assert_eq!(measured(&Cut, &t), [Ok(1.0)], "behind both is e6");
        t.edge(3, 7, EdgeType::Causal);
        assert_eq!(measured(&Cut, &t), [Ok(2.0)]);
        t.flag_trusted(7, false);
        assert_eq!(measured(&Cut, &t), [Err(Reason::OutcomeSeed)]);
        t.edge(7, 7, EdgeType::Causal);
        assert_eq!(measured(&Cut, &t), [Err(Reason::GraphCycle)]);
    }
}
