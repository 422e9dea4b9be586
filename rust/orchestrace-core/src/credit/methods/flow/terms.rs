//! Terms of the flow: an event's inflow, edge by edge.

use std::sync::Arc;

use super::Call;
use crate::credit::terms::{Credited, Subject, TermKind, Terms};
use crate::graph::{Outcome, TraceGraph};

/// Appends what each event keeps or, unless `KEPT`, receives: of the outcome, and over the edges to its successors, those
/// first that the flow comes to first. O(|V| + |E|).
pub(in crate::credit::methods) fn explain<const KEPT: bool>(
    credited: &Credited<'_>,
    graph: &mut TraceGraph,
    out: &mut Terms,
) {
    let Ok(outcome) = graph.outcome(credited.view) else { return };
    let call = Call::new(credited.params, outcome, credited.amount);
    graph.build(credited.view, call.options);
    let Some(order) = graph.topological.breadth_first(&mut graph.csr).map(<[u32]>::to_vec) else { return };
    let mut edges = Vec::new();
    let Ok((pass, weights)) = call.prepare(credited.view, credited.params, graph, &mut edges) else { return };
    let mut received = Vec::new();
    pass.run::<false>(weights, &mut received);
    let n = credited.view.len();
    let mut totals = vec![0.0; n];
    let mut is_sink = vec![true; n];
    let mut came: Vec<Vec<(u32, f64)>> = vec![Vec::new(); n];
    for &v in order.iter().rev() {
        let row = v as usize;
        let into = weights.into_event(pass.graph, row);
        totals[row] = into.iter().sum();
        for (&u, weight) in pass.graph.predecessors_of(row).iter().zip(into) {
            is_sink[u as usize] = false;
            if received[row] != 0.0 && totals[row] > 0.0 {
                came[u as usize].push((v, received[row] * pass.sent(totals[row]) * weight));
            }
        }
    }
    let sinks = is_sink.iter().filter(|is| **is).count() as f64;
    let rule: Arc<str> = if KEPT {
        "amount = kept part of what the successors sent".into()
    } else {
        "amount = Σ of what the successors sent".into()
    };
    for (part, &u) in credited.rows.iter().enumerate() {
        out.begin(part);
        let row = u as usize;
        let retained = if KEPT && totals[row] > 0.0 { pass.retained(totals[row]) } else { 1.0 };
        let paid = match outcome {
            Outcome::Event(y) => (y == u).then_some(credited.amount),
            Outcome::VirtualSink => is_sink[row].then_some(credited.amount / sinks),
        };
        if let Some(paid) = paid {
            out.push(TermKind::Outcome, &rule, retained, paid, Subject::OwnRow(u));
        }
        for &(v, amount) in &came[row] {
            out.push(TermKind::Edge, &rule, retained, amount, Subject::Edge(u, v));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::flow_discounted::FlowDiscounted;
    use super::super::Flow;
    use crate::credit::method::{CreditMethod, Values};
    use crate::credit::params::{Params, Value};
    use crate::credit::terms::testing::sums;
    use crate::credit::terms::{Credited, Subject, TermKind, Terms};
    use crate::graph::TraceGraph;
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::schema::{EdgeType, EventType};
    use proptest::prelude::*;

    fn amounts_and_terms(
        method: &dyn CreditMethod,
        t: &TestTrace,
        arguments: &[(&str, Value)],
    ) -> Option<(Vec<f64>, Terms)> {
        let params = Params::check(method.info().params, arguments).unwrap();
        let (mut graph, mut values, mut terms) = (TraceGraph::default(), Values::default(), Terms::default());
        graph.begin();
        method.assign(&t.view(), 2.0, &params, &mut graph, &mut values).ok()?;
        let rows: Vec<u32> = (0..t.t.len() as u32).collect();
        let view = t.view();
        let credited = Credited { view: &view, amount: 2.0, params: &params, values: &values, rows: &rows };
        method.terms(&credited, &mut graph, &mut terms);
        Some((values.events, terms))
    }

    #[test]
    fn by_hand() {
        // 0 and 1 lead to the outcome 2, 0 along an edge of twice the weight
        let mut t = TestTrace::events(2);
        t.event(EventType::Aggregate, "a");
        t.edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Spawn);
        let arguments = [("kernel", Value::Text("edge_type".into())), ("retention", Value::Float(0.25))];
        let (_, terms) = amounts_and_terms(&Flow, &t, &arguments).unwrap();
        let got: Vec<_> =
            terms.list().iter().map(|t| (t.part, t.kind, t.weight, t.amount, t.subject)).collect();
        assert_eq!(
            got,
            [
                (0, TermKind::Edge, Some(1.0), 1.0, Subject::Edge(0, 2)),
                (1, TermKind::Edge, Some(1.0), 0.5, Subject::Edge(1, 2)),
                (2, TermKind::Outcome, Some(0.25), 2.0, Subject::OwnRow(2)),
            ]
        );
    }

    proptest! {
        #[test]
        fn terms_sum_to_values(
            t in random_trace(25, false),
            kernel in prop::sample::select(vec!["uniform", "edge_type", "time_decay", "lrp", "shapley_gate"]),
            program_order in any::<bool>(),
        ) {
            let arguments = [
                ("kernel", Value::Text(kernel.into())),
                ("program_order", Value::Bool(program_order)),
                ("epsilon", Value::Float(0.2)),
                ("retention", Value::Float(0.3)),
            ];
            for method in [&Flow as &dyn CreditMethod, &FlowDiscounted] {
                let Some((values, terms)) = amounts_and_terms(method, &t, &arguments) else { continue };
                for (got, want) in sums(&terms, values.len()).iter().zip(&values) {
                    prop_assert!((got - want).abs() < 1e-12, "{} {}", got, want);
                }
            }
        }
    }
}
