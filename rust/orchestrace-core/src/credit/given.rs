//! Roll-up of values computed elsewhere, by the rules of the built-in methods.

use std::ops::Range;

use arrow_array::{Array, Float64Array};

use super::assign::assign_values;
use super::columns;
use super::method::{Quantity, Values};
use crate::error::{Error, Result};
use crate::graph::NO_UNIT;
use crate::run::Run;
use crate::schema::{Over, Reason, Unit};
use crate::store::Store;
use crate::tables::Batches;

/// Given values of the events of a store, in corpus order.
#[derive(Debug)]
pub struct GivenEvents {
    /// Values.
    pub values: Float64Array,
    /// Why there is none, or one of exactly 0.
    pub reasons: Vec<Option<Reason>>,
}

impl GivenEvents {
    fn fill(&self, events: Range<usize>, out: &mut Values) {
        let value = |v: usize| if self.values.is_null(v) { f64::NAN } else { self.values.value(v) };
        out.events.extend(events.clone().map(value));
        let reasons = &self.reasons[events];
        if reasons.iter().all(Option::is_none) && !out.events.iter().any(|value| value.is_nan()) {
            return;
        }
        out.reasons.extend_from_slice(reasons);
        let rows = out.events.iter().zip(reasons).zip(0..);
        out.row_of.extend(
            rows.map(|((value, reason), v)| if value.is_nan() && reason.is_none() { NO_UNIT } else { v }),
        );
    }
}

/// Given values of the traces of a store, in corpus order.
#[derive(Debug)]
pub struct GivenTraces {
    /// The amount that was divided; null where there is none.
    pub amount: Float64Array,
    /// For shares, what no event holds; null is 0.
    pub remainder: Float64Array,
    /// Why a trace has no values; `reward.absent` where the amount is null and nothing is said.
    pub reasons: Vec<Option<Reason>>,
}

/// Credits at `unit` from values of the events. An event with neither a value nor a reason is in no row of an
/// advantage; a share must value every event of a trace that has an amount. O(events).
pub fn roll_up(
    store: &Store,
    quantity: Quantity,
    unit: Unit,
    events: &GivenEvents,
    traces: &GivenTraces,
    run: &Run,
) -> Result<Batches> {
    store.expect_whole()?;
    let values = &events.values;
    let of_events = [values.len(), events.reasons.len()];
    let of_traces = [traces.amount.len(), traces.remainder.len(), traces.reasons.len()];
    if of_events.iter().any(|&n| n != store.n_events()) || of_traces.iter().any(|&n| n != store.n_traces()) {
        return Err(Error::Parameter(format!(
            "found {of_events:?} values of events and {of_traces:?} of traces, expected {} and {}",
            store.n_events(),
            store.n_traces()
        )));
    }
    run.expect(store.n_traces() as u64);
    // first trace and first event of every chunk
    let mut firsts = Vec::with_capacity(store.chunks().len());
    let mut next = (0, 0);
    for chunk in store.chunks() {
        firsts.push(next);
        next = (next.0 + chunk.n_traces(), next.1 + chunk.events.num_rows());
    }
    let starts = |chunk: usize, i: usize| {
        let (trace, event) = firsts[chunk];
        (trace + i, event + store.chunks()[chunk].starts[i][0] as usize)
    };
    let served = |trace: usize| match (traces.reasons[trace], traces.amount.is_valid(trace)) {
        (Some(reason), _) => Err(reason),
        (None, false) => Err(Reason::RewardAbsent),
        (None, true) => Ok(traces.amount.value(trace)),
    };
    if quantity == Quantity::Share && values.null_count() > 0 {
        let lacking = store.chunks().iter().enumerate().find_map(|(index, chunk)| {
            (0..chunk.n_traces()).find_map(|i| {
                let (trace, from) = starts(index, i);
                let n = (chunk.starts[i + 1][0] - chunk.starts[i][0]) as usize;
                (served(trace).is_ok() && (from..from + n).any(|v| values.is_null(v))).then_some(trace)
            })
        });
        if let Some(trace) = lacking {
            return Err(Error::Parameter(format!(
                "an event of trace {trace} has no value, expected one for every event (quantity 'share')"
            )));
        }
    }
    let pieces = columns::of_chunks(store, unit, 1, run, Over::All, |place, _, view, scratch, rows| {
        let (trace, from) = starts(place.chunk, place.trace);
        let fill = |out: &mut Values| {
            events.fill(from..from + view.len(), out);
            let remainder = &traces.remainder;
            out.remainder = if remainder.is_valid(trace) { remainder.value(trace) } else { 0.0 };
        };
        assign_values(view, quantity, served(trace), fill, unit, scratch, rows);
    })?;
    Ok(columns::into_tables(pieces, 1)?.remove(0))
}
