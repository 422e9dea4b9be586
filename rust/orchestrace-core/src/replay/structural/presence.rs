//! Presence of events in each scenario, for custom outcome functions.

use arrow_array::RecordBatch;

use super::{Answer, Blocks, count_tokens, tokens_left};
use crate::error::{Error, Result};
use crate::graph::{GraphOptions, Outcome, TraceGraph};
use crate::replay::intervention::masks::Scene;
use crate::replay::intervention::{Masks, Plan, Roster};
use crate::schema::{Column, Kind, REASONS};
use crate::store::Store;
use crate::store::view::ChunkView;
use crate::tables::{Columns, schema_of};

/// Flags of all scenarios of a trace at most, a byte each.
const MOST_FLAGS: usize = 1 << 30;

static ANSWERS: [Column; 5] = [
    Column { name: "scenario", kind: Kind::U32, nullable: false },
    Column { name: "unit_id", kind: Kind::Text, nullable: true },
    Column { name: "tokens", kind: Kind::I64, nullable: true },
    Column { name: "tokens_cf", kind: Kind::I64, nullable: true },
    Column { name: "reason", kind: Kind::Word(REASONS), nullable: true },
];

/// Scenarios, units, tokens and reasons of the `at`-th trace of a store, and beside each row a byte for every event: 1
/// if it is there. All scenarios are of presence and absence alone.
pub fn presence(
    store: &Store,
    plan: &Plan,
    at: usize,
    program_order: bool,
) -> Result<(RecordBatch, Vec<u8>)> {
    store.expect_whole()?;
    if let Some(scenario) = plan.scenarios.iter().position(|scenario| !scenario.is_boolean()) {
        return Err(Error::Parameter(format!(
            "scenario {scenario} sets values, cuts edges or changes a rule: a custom outcome function only sees which \
             events are present"
        )));
    }
    let mut left = at;
    let place = store.chunks().iter().find(|chunk| {
        let here = left < chunk.n_traces();
        left -= if here { 0 } else { chunk.n_traces() };
        here
    });
    let chunk = place.ok_or_else(|| Error::Parameter(format!("there is no trace at {at}")))?;
    let trace = ChunkView::new(store, chunk).trace(left);
    let (mut graph, mut roster, mut tokens) = (TraceGraph::default(), Roster::default(), Vec::new());
    graph.begin();
    // an outcome of one's own is asked, whether or not the recording shows one
    let outcome = graph.outcome(&trace).unwrap_or(Outcome::VirtualSink);
    roster.compute(plan, &trace, &mut graph);
    let tokens = count_tokens(graph.owners(&trace), &trace, &mut tokens);
    graph.build(&trace, GraphOptions { program_order, weights: None });
    let (csr, order) = graph.ordered();
    let (mut answers, mut present) = (Vec::new(), Vec::new());
    let mut ids = Vec::new();
    if let Some(order) = order {
        let scene = Scene { view: &trace, graph: csr, order, outcome, roster: &roster };
        let Blocks { segments, spans, rows } =
            Blocks::new(plan, |s| super::units(plan, &scene, s), &mut answers);
        affordable(answers.len(), trace.len())?;
        present.resize(answers.len() * trace.len(), 1);
        let (mut masks, mut rows) = (Masks::default(), rows.into_iter());
        for of in spans {
            let segments = &segments[of];
            masks.compute(plan, &scene, segments);
            let left = tokens.map(|(of, total)| (total, tokens_left(of, total, &masks)));
            for (bit, row) in rows.by_ref().take(segments.iter().map(|s| s.units.len()).sum()).enumerate() {
                if masks.found >> bit & 1 == 1 {
                    answers[row].reason = None;
                    answers[row].tokens = left.map(|(total, left)| [total, left[bit]]);
                }
                let flags = &mut present[row * trace.len()..][..trace.len()];
                flags
                    .iter_mut()
                    .zip(&masks.absent)
                    .for_each(|(flag, bits)| *flag = u8::from(bits >> bit & 1 == 0));
            }
        }
        ids.extend(answers.iter().map(|answer| {
            answer.unit.and_then(|unit| {
                plan.scenarios[answer.scenario as usize].each().map(|level| {
                    let mut id = String::new();
                    roster.write_id(store, &trace, csr, level, unit as usize, &mut id);
                    id
                })
            })
        }));
    } else {
        answers = super::cyclic(plan);
        affordable(answers.len(), trace.len())?;
        present.resize(answers.len() * trace.len(), 1);
        ids.resize(answers.len(), None);
    }
    Ok((table(&answers, &ids)?, present))
}

/// Refuses what would fill the memory with masks.
fn affordable(scenarios: usize, events: usize) -> Result<()> {
    if scenarios.saturating_mul(events) <= MOST_FLAGS {
        return Ok(());
    }
    Err(Error::Parameter(format!(
        "{scenarios} scenarios of {events} events exceed the limit of 2^30 flags per trace for a custom outcome \
         function: choose larger units, or name a model, outcome='noisy_or'"
    )))
}

fn table(answers: &[Answer], ids: &[Option<String>]) -> Result<RecordBatch> {
    Columns::new(&schema_of(&ANSWERS))
        .counts("scenario", answers.iter().map(|answer| Some(answer.scenario)))
        .texts("unit_id", ids.iter().map(Option::as_deref))
        .tokens("tokens", answers.iter().map(|answer| answer.tokens.map(|[all, _]| all)))
        .tokens("tokens_cf", answers.iter().map(|answer| answer.tokens.map(|[_, left]| left)))
        .reasons(answers.iter().map(|answer| answer.reason))?
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_that_fill_the_memory_are_refused() {
        assert!(affordable(1 << 15, 1 << 15).is_ok() && affordable(0, usize::MAX).is_ok());
        let refused = affordable(100_000, 100_000).unwrap_err().to_string();
        assert!(refused.starts_with("100000 scenarios of 100000 events"), "{refused}");
        assert!(affordable(usize::MAX, 2).is_err());
    }
}
