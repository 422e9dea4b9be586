//! A method over all traces of a store.

use super::assign::{assign_judged, assign_trace};
use super::columns;
use super::decisions::Vocabulary;
use super::game::solve::{Call, append_rows, solve_all};
use super::game::{CustomOutcomes, Outcomes};
use super::groups::judge;
use super::method::Method;
use super::params::Params;
use super::reward::{Channels, measures};
use crate::error::{Error, Result, unknown_name};
use crate::run::Run;
use crate::schema::{Dict, MeasureKind, Over, Unit};
use crate::store::Store;
use crate::store::view::TraceView;
use crate::tables::Batches;

/// The options of the computation.
#[derive(Debug)]
pub struct Request<'a> {
    /// What a trace is paid: a sum of weighted reward channels for each result.
    pub rewards: &'a [Vec<(String, f64)>],
    /// Reward channels of the corpus that this store is a part of: a trace here may lack them.
    pub elsewhere: &'a [String],
    /// Level of the rows.
    pub unit: Unit,
    /// Whose credit it is: others are compared with nobody and have none.
    pub over: Over,
    /// Checked parameters of the method.
    pub params: &'a Params,
    /// Seed of methods that sample.
    pub seed: u64,
    /// For games: what coalitions are worth, in place of the surrogate.
    pub outcomes: Option<&'a dyn Outcomes>,
}

/// Credits of all traces, a batch for each chunk of the store; one table for each requested reward, in one pass over
/// the traces.
///
/// Columns that are null throughout are left out of the batches; the schema says which are there. At unit
/// `event` the ids and numbers are the store's own buffers. O(events + edges) a trace, plus the method.
pub fn credit(store: &Store, method: &Method, request: &Request<'_>, run: &Run) -> Result<Vec<Batches>> {
    store.expect_whole()?;
    // a game is worth what its outcome is; it pays a reward only where that is asked for
    let paid = !matches!(method, Method::PerGame(_)) || request.params.bool("scaled");
    let rewards = request
        .rewards
        .iter()
        .map(
            |reward| {
                if paid { Channels::of(store, reward, request.elsewhere) } else { Ok(Channels::default()) }
            },
        )
        .collect::<Result<Vec<_>>>()?;
    run.expect(store.n_traces() as u64);
    let (params, unit, over) = (request.params, request.unit, request.over);
    let chunks = run.pool().install(|| match method {
        Method::PerTrace(method) => {
            columns::of_chunks(store, unit, rewards.len(), run, over, |_, which, trace, scratch, rows| {
                let amount = rewards[which].paid(trace);
                assign_trace(*method, trace, amount, params, unit, scratch, rows);
            })
        }
        Method::PerGroup(method) => {
            let corpus = Vocabulary::new(store, params.text("batch"));
            if let Some(batch) = params.text("batch") {
                expect_metric(store, batch)?;
            }
            let judged = rewards
                .iter()
                .map(|channels| {
                    let reward = |view: &TraceView<'_>| channels.paid(view);
                    judge(*method, store, (&reward, over), params, &corpus, run)
                })
                .collect::<Result<Vec<_>>>()?;
            columns::of_chunks(store, unit, rewards.len(), run, over, |place, which, trace, scratch, rows| {
                let of = judged[which].of(place, trace.len());
                assign_judged(trace, of, params, unit, scratch, rows);
            })
        }
        Method::PerGame(method) => {
            let custom = request.outcomes.map(|outcomes| CustomOutcomes { outcomes, names: store.names() });
            let needs = method.needs();
            if over == Over::Trainable && (needs.links || needs.parents) {
                return Err(Error::Parameter(format!(
                    "method '{}' has no over='trainable': it divides along links between agents, and agents that are \
                     not trained would drop out of those links; use 'shapley' or 'owen'",
                    method.info().name
                )));
            }
            let call = Call::new(*method, params, unit, request.seed)?.over(over).with_outcomes(custom);
            let solved = solve_all(store, &call, run)?;
            columns::of_chunks(store, unit, rewards.len(), run, over, |place, which, trace, scratch, rows| {
                let reward = paid.then(|| rewards[which].paid(trace));
                append_rows(trace, &solved[place.chunk][place.trace], reward, unit, scratch, rows);
            })
        }
    })?;
    columns::into_tables(chunks, rewards.len())
}

/// A metric that no trace has is a mistake.
fn expect_metric(store: &Store, name: &str) -> Result<()> {
    let dict = store.names().dict(Dict::Measure);
    let is_metric = measures(store, MeasureKind::Metric, dict.len());
    if store.n_traces() == 0 || dict.find(name).is_some_and(|code| is_metric[code as usize]) {
        return Ok(());
    }
    let names: Vec<&str> =
        (0..dict.len() as u32).filter(|code| is_metric[*code as usize]).map(|code| dict.name(code)).collect();
    Err(Error::Parameter(unknown_name("metric", name, &names)))
}
