//! Utility of messages for their tokens.
//!
//! A message's utility is what the outcome would lose without its event, under the default structural surrogate (D15) with
//! recorded scores kept, for each of its tokens: an assumed model, not an observation. Messages are those between two
//! agents (D18) that have tokens. O((|V|+|E|) m/8) for m messages; null where that visits more events and edges than
//! [`Visits::MOST_VISITS`]. Reference: J. Pearl, Causality, 2009, section 7.1.

use std::ops::ControlFlow;

use crate::error::Reason;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::replay::structural::Absences;
use crate::surrogate::Cost as Visits;

/// Utility of messages.
#[derive(Debug)]
pub struct Utility;

static INFO: GroupInfo = GroupInfo {
    name: "utility",
    cost: Cost::SuperLinear,
    reference: "D15, D18",
    metrics: &[
        Metric {
            name: "message_utility_mean",
            count: Count::Score,
            summary: "loss of outcome without a message, per token of it, averaged over messages",
        },
        Metric {
            name: "message_utility_min",
            count: Count::Score,
            summary: "the same for the message with the lowest value",
        },
    ],
};

impl Group for Utility {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, options: &Options) -> Box<dyn Measure> {
        Box::new(Worker { program_order: options.program_order, absences: Absences::default() })
    }
}

#[derive(Debug)]
struct Worker {
    program_order: bool,
    absences: Absences,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        if subject.messages().is_empty() {
            return out.all_absent(0..2, Reason::RatioEmpty);
        }
        let size = |v: usize| subject.tokens(v).filter(|&tokens| tokens > 0);
        let (mut n, mut sum, mut least) = (0.0, 0.0, f64::INFINITY);
        let sized = subject.messages().iter().copied().filter(|&v| size(v as usize).is_some());
        let each = Visits::of(subject.view.len() + subject.view.src.len());
        let visits = Visits::of(sized.clone().count()).times(each);
        if visits > Visits::MOST_VISITS {
            return out.all_absent(0..2, Reason::BudgetExceeded);
        }
        let result = self.absences.each(subject.view, self.program_order, sized, |v, lost| {
            if let Some(tokens) = size(v as usize) {
                let utility = lost / tokens as f64;
                n += 1.0;
                sum += utility;
                least = f64::min(least, utility);
            }
            ControlFlow::Continue(())
        });
        match result {
            Err(reason) => out.all_absent(0..2, reason),
            Ok(()) if n == 0.0 => out.all_absent(0..2, Reason::FieldAbsent),
            Ok(()) => {
                out.set(0, sum / n);
                out.set(1, least);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::measured;
    use crate::schema::{EdgeType, EventType::*};

    /// Messages of b and c to a, who aggregates.
    fn meeting() -> TestTrace {
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "a");
        t.event(Message, "b").to("a").tokens_out(10).event(Message, "c").to("a").tokens_out(40);
        t.event(Aggregate, "a").event(Message, "b").to("user").tokens_out(1);
        t.edge(1, 3, EdgeType::Message).edge(2, 3, EdgeType::Message);
        t
    }

    #[test]
    fn half_of_the_inputs_still_carry_two_thirds() {
        let lost = 1.0 - (1.0 - 0.25_f64.sqrt()) / 0.75;
        let [Ok(mean), Ok(least)] = measured(&Utility, &meeting())[..] else { panic!("both are told") };
        assert!((mean - f64::midpoint(lost / 10.0, lost / 40.0)).abs() < 1e-12, "{mean}");
        assert!((least - lost / 40.0).abs() < 1e-12, "{least}");
        // a third one that leads nowhere is worth nothing
        let mut t = meeting();
        t.event(Message, "c").to("b").tokens_out(5);
        assert_eq!(measured(&Utility, &t)[1], Ok(0.0));
    }

    #[test]
    fn without_messages_or_tokens_it_is_null() {
        let mut t = TestTrace::default();
        t.event(Message, "b").to("a").event(Aggregate, "a").edge(0, 1, EdgeType::Message);
        assert_eq!(measured(&Utility, &t), [Err(Reason::FieldAbsent); 2]);
        let mut silent = TestTrace::default();
        silent.event(Aggregate, "a").tokens_out(3);
        assert_eq!(measured(&Utility, &silent), [Err(Reason::RatioEmpty); 2]);
        let mut cyclic = meeting();
        cyclic.edge(3, 3, EdgeType::Causal);
        assert_eq!(measured(&Utility, &cyclic), [Err(Reason::GraphCycle); 2]);
    }
}
