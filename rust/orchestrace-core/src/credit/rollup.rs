//! Roll-up of event values to unit values (D11).
//!
//! Shares are summed, so that the rows of a level, the one without a unit included, sum to the amount divided.
//! Advantages are weighted means of the method's rows, never sums; their row without a unit is null. Sums run in
//! document order with compensation, so that neither threads nor sizes show. O(|V|).

use super::method::{Quantity, Values};
use super::sum::{Compensated, pairwise};
use crate::graph::{NO_UNIT, Partition};
use crate::schema::Reason;
use crate::store::view::TraceView;

/// The rows of one trace among [`Rows`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceRows {
    /// Number of the trace in its corpus.
    pub trace: u32,
    /// Row after its last one; its first one is where the trace before ends.
    pub end: usize,
    /// For shares, the amount less the sum of the trace's rows; the same on each of them.
    pub residual: Option<f64>,
}

/// Credits of many traces, in columns.
#[derive(Debug, Default)]
pub struct Rows {
    /// Unit, as its number in the trace's partition, or [`NO_UNIT`]. Empty at level `event`, as is [`Rows::seq`]: rows
    /// are the events then.
    pub unit: Vec<u32>,
    /// First event of the unit, or [`NO_UNIT`].
    pub seq: Vec<u32>,
    /// Credit; 0 where [`Rows::valid`] is false.
    pub credit: Vec<f64>,
    /// Whether there is a credit. As long as [`Rows::reason`]; rows beyond it have one, and no reason.
    pub valid: Vec<bool>,
    /// Why a credit is null or exactly zero.
    pub reason: Vec<Option<Reason>>,
    /// Standard error of a credit, NaN where there is none; rows beyond it have none.
    pub stderr: Vec<f64>,
    /// Draws that a credit rests on, 0 where it is exact; as long as [`Rows::stderr`].
    pub n_samples: Vec<i64>,
    /// Where each trace's rows end.
    pub traces: Vec<TraceRows>,
}

impl Rows {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.credit.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.credit.is_empty()
    }

    /// Trace of each row, by its place among [`Rows::traces`].
    pub(super) fn trace_of(&self) -> Vec<u32> {
        let mut trace_of = Vec::with_capacity(self.len());
        self.traces.iter().zip(0..).for_each(|(trace, i)| trace_of.resize(trace.end, i));
        trace_of
    }

    /// Forgets all rows and keeps the buffers.
    pub fn clear(&mut self) {
        self.unit.clear();
        self.seq.clear();
        self.credit.clear();
        self.valid.clear();
        self.reason.clear();
        self.stderr.clear();
        self.n_samples.clear();
        self.traces.clear();
    }

    fn push(&mut self, unit: u32, seq: u32, credit: std::result::Result<f64, Reason>) {
        self.unit.push(unit);
        self.seq.push(seq);
        self.append(credit.ok(), credit.err());
    }

    pub(super) fn append(&mut self, credit: Option<f64>, reason: Option<Reason>) {
        if credit.is_none() || reason.is_some() {
            self.settle();
            self.valid.push(credit.is_some());
            self.reason.push(reason);
        }
        self.credit.push(credit.unwrap_or(0.0));
    }

    /// Says of all rows so far that they have a credit, where nothing else was said.
    pub(super) fn settle(&mut self) {
        self.valid.resize(self.credit.len(), true);
        self.reason.resize(self.credit.len(), None);
    }

    /// Says of the row that was appended last how sure it is.
    pub(super) fn estimated(&mut self, stderr: f64, n_samples: i64) {
        self.stderr.resize(self.credit.len() - 1, f64::NAN);
        self.stderr.push(stderr);
        self.n_samples.resize(self.credit.len() - 1, 0);
        self.n_samples.push(n_samples);
    }

    fn name_unit(&mut self, unit: u32, seq: u32) {
        self.unit.push(unit);
        self.seq.push(seq);
    }

    /// The credit of the unit named last: a value that is a number, with what is to be said of it; another value, null
    /// with the reason; nothing, where the unit is in no row of the method.
    fn put(&mut self, value: Option<(f64, Option<Reason>)>) {
        let (credit, reason) = match value {
            None => (None, Some(Reason::UnitNone)),
            Some((x, reason)) if x.is_finite() => (Some(x), reason),
            Some((_, reason)) => (None, reason.or(Some(Reason::FieldAbsent))),
        };
        self.append(credit, reason);
    }

    pub(super) fn push_rest(&mut self, credit: std::result::Result<f64, Reason>) {
        self.push(NO_UNIT, NO_UNIT, credit);
    }

    /// Rows of all units; a credit beyond the range of a float is null.
    fn push_units(&mut self, partition: &Partition, credits: &[f64]) {
        self.name_units(partition);
        if credits.iter().all(|credit| credit.is_finite()) {
            self.credit.extend_from_slice(credits);
        } else {
            for &credit in credits {
                let reason = (!credit.is_finite()).then_some(Reason::ResultRange);
                self.put(Some((credit, reason)));
            }
        }
    }

    pub(super) fn name_units(&mut self, partition: &Partition) {
        if !partition.is_identity() {
            let n = partition.len();
            self.unit.extend(0..n as u32);
            self.seq.extend((0..n).map(|unit| partition.first(unit)));
        }
    }

    pub(super) fn end_trace(&mut self, view: &TraceView<'_>, residual: Option<f64>) {
        self.traces.push(TraceRows { trace: view.trace, end: self.len(), residual });
    }
}

/// Buffers of the roll-up.
#[derive(Debug, Default)]
pub struct Sums {
    values: Vec<Compensated>,
    weights: Vec<Compensated>,
    // rows of each unit, and the value of its latest row
    rows: Vec<(u32, f64)>,
    credits: Vec<f64>,
    pairs: Vec<(u32, u32)>,
}

impl Sums {
    /// Rows of a share.
    pub fn shares(
        &mut self,
        view: &TraceView<'_>,
        values: &Values,
        amount: f64,
        partition: &Partition,
        out: &mut Rows,
    ) {
        let from = out.credit.len();
        let mut rest = Compensated::default();
        if !values.left_out.is_empty() {
            self.of_others(values, partition, &mut rest, out);
        } else if partition.is_identity() {
            out.push_units(partition, &values.events);
        } else {
            self.values.clear();
            self.values.resize(partition.len(), Compensated::default());
            for (&unit, &value) in partition.of_events().iter().zip(&values.events) {
                self.values.get_mut(unit as usize).unwrap_or(&mut rest).add(value);
            }
            self.credits.clear();
            self.credits.extend(self.values.iter().map(|sum| sum.value()));
            out.push_units(partition, &self.credits);
        }
        if partition.has_rest() || values.remainder != 0.0 || values.left_out.contains(&true) {
            rest.add(values.remainder);
            let rest = rest.value();
            out.push_rest(if rest.is_finite() { Ok(rest) } else { Err(Reason::ResultRange) });
        }
        let residual = amount - pairwise(&out.credit[from..]);
        out.end_trace(view, Some(residual).filter(|residual| residual.is_finite()));
    }

    /// Shares of units with an event that is not left out; what those that are left out hold is in the row without a
    /// unit.
    fn of_others(&mut self, values: &Values, partition: &Partition, rest: &mut Compensated, out: &mut Rows) {
        self.values.clear();
        self.values.resize(partition.len(), Compensated::default());
        self.rows.clear();
        self.rows.resize(partition.len(), (0, 0.0));
        for (v, (&value, &left_out)) in values.events.iter().zip(&values.left_out).enumerate() {
            let unit = if partition.is_identity() { v } else { partition.of_events()[v] as usize };
            match self.values.get_mut(unit).filter(|_| !left_out) {
                Some(sum) => {
                    sum.add(value);
                    self.rows[unit].0 += 1;
                }
                None => rest.add(value),
            }
        }
        out.name_units(partition);
        for (sum, &(events, _)) in self.values.iter().zip(&self.rows) {
            let credit = sum.value();
            out.put(Some(match (events, credit.is_finite()) {
                (0, _) => (f64::NAN, Some(Reason::AgentFrozen)),
                (_, true) => (credit, None),
                (_, false) => (credit, Some(Reason::ResultRange)),
            }));
        }
    }

    /// Rows of an advantage. A unit inside one row of the method takes its value; a larger one the mean over the rows
    /// with an event in it, each of weight 1 or, if `by_tokens`, of the tokens it wrote. Rows without a value are
    /// left out; without any the unit is null.
    pub fn advantages(
        &mut self,
        view: &TraceView<'_>,
        values: &Values,
        by_tokens: bool,
        partition: &Partition,
        out: &mut Rows,
    ) {
        if values.row_of.is_empty() && values.reasons.is_empty() {
            self.of_events(view, values, by_tokens, partition, out);
        } else if partition.is_identity() {
            for v in 0..view.len() {
                let row = values.row_of.get(v).map_or(v, |&row| row as usize);
                let reason = values.reasons.get(row).copied().flatten();
                out.put(values.events.get(row).map(|value| (*value, reason)));
            }
            out.end_trace(view, None);
        } else {
            self.of_rows(view, values, by_tokens, partition, out);
        }
    }

    /// The general case: rows may be anything, and so may units.
    fn of_rows(
        &mut self,
        view: &TraceView<'_>,
        values: &Values,
        by_tokens: bool,
        partition: &Partition,
        out: &mut Rows,
    ) {
        let row_of = |v: usize| values.row_of.get(v).copied().unwrap_or(v as u32);
        self.credits.clear();
        if by_tokens {
            self.credits.resize(values.events.len(), 0.0);
            for v in 0..view.len() {
                if let Some(tokens) = self.credits.get_mut(row_of(v) as usize) {
                    *tokens += view.tokens_out.get(v).unwrap_or(0) as f64;
                }
            }
        }
        self.pairs.clear();
        let pairs = partition.of_events().iter().enumerate().filter_map(|(v, &unit)| {
            let row = row_of(v);
            (unit != NO_UNIT && row != NO_UNIT).then_some((unit, row))
        });
        self.pairs.extend(pairs);
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let mut pairs = self.pairs.chunk_by(|a, b| a.0 == b.0).peekable();
        for unit in 0..partition.len() as u32 {
            out.name_unit(unit, partition.first(unit as usize));
            let Some(rows) = pairs.next_if(|rows| rows[0].0 == unit) else {
                out.put(None);
                continue;
            };
            let (mut sum, mut weights) = (Compensated::default(), Compensated::default());
            let (mut valued, mut only, mut why, mut degenerate) = (0, 0.0, None, true);
            for &(_, row) in rows {
                let value = values.events[row as usize];
                let reason = values.reasons.get(row as usize).copied().flatten();
                if !value.is_finite() {
                    why = why.or(reason).or(Some(Reason::FieldAbsent));
                    continue;
                }
                let weight = if by_tokens { self.credits[row as usize] } else { 1.0 };
                sum.add(weight * value);
                weights.add(weight);
                valued += 1;
                only = value;
                degenerate &= reason == Some(Reason::GroupDegenerate);
            }
            let reason = (degenerate && valued > 0).then_some(Reason::GroupDegenerate);
            match (valued, weights.value() > 0.0) {
                (0, _) => out.put(Some((f64::NAN, why))),
                (1, _) => out.put(Some((only, reason))),
                (_, true) => {
                    let mean = sum.value() / weights.value();
                    out.put(Some((mean, if mean.is_finite() { reason } else { Some(Reason::ResultRange) })));
                }
                (_, false) => out.put(Some((f64::NAN, Some(Reason::FieldAbsent)))),
            }
        }
        if partition.has_rest() {
            out.push_rest(Err(Reason::UnitNone));
        }
        out.end_trace(view, None);
    }

    /// Rows are the events.
    fn of_events(
        &mut self,
        view: &TraceView<'_>,
        values: &Values,
        by_tokens: bool,
        partition: &Partition,
        out: &mut Rows,
    ) {
        if partition.is_identity() {
            out.push_units(partition, &values.events);
        } else {
            let n = partition.len();
            self.values.clear();
            self.values.resize(n, Compensated::default());
            self.weights.clear();
            self.weights.resize(n, Compensated::default());
            self.rows.clear();
            self.rows.resize(n, (0, 0.0));
            for (v, (&unit, &value)) in partition.of_events().iter().zip(&values.events).enumerate() {
                let unit = unit as usize;
                let Some(rows) = self.rows.get_mut(unit) else { continue };
                *rows = (rows.0 + 1, value);
                let weight = if by_tokens { view.tokens_out.get(v).unwrap_or(0) as f64 } else { 1.0 };
                self.values[unit].add(weight * value);
                self.weights[unit].add(weight);
            }
            for (unit, &(rows, value)) in self.rows.iter().enumerate() {
                let weight = self.weights[unit].value();
                let mean = match (rows, weight > 0.0) {
                    (1, _) => Ok(value),
                    (_, true) => Ok(self.values[unit].value() / weight),
                    (_, false) => Err(Reason::FieldAbsent),
                };
                let mean = mean.and_then(|x| if x.is_finite() { Ok(x) } else { Err(Reason::ResultRange) });
                out.push(unit as u32, partition.first(unit), mean);
            }
        }
        if partition.has_rest() {
            out.push_rest(Err(Reason::UnitNone));
        }
        out.end_trace(view, None);
    }
}

/// Rows of a trace that a method cannot serve: all its rows, null, with the reason.
pub fn refused(
    view: &TraceView<'_>,
    quantity: Quantity,
    reason: Reason,
    partition: &Partition,
    out: &mut Rows,
) {
    out.name_units(partition);
    out.settle();
    out.credit.resize(out.len() + partition.len(), 0.0);
    out.valid.resize(out.len(), false);
    out.reason.resize(out.len(), Some(reason));
    if partition.has_rest() {
        out.push_rest(Err(if quantity == Quantity::Share { reason } else { Reason::UnitNone }));
    }
    out.end_trace(view, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::methods::discounted::Discounted;
    use crate::credit::methods::flow::Flow;
    use crate::credit::methods::uniform::Uniform;
    use crate::credit::{CreditMethod, Judged, Params, Scratch, Value, assign_judged, assign_trace};
    use crate::graph::test_trace::{TestTrace, decided_trace, random_trace};
    use crate::schema::EventType::{Message, ToolCall};
    use crate::schema::Unit;
    use proptest::prelude::*;

    fn rows(
        method: &dyn CreditMethod,
        t: &TestTrace,
        amount: Option<f64>,
        unit: Unit,
        given: &[(&str, Value)],
    ) -> Rows {
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        let params = Params::check(method.info().params, given).unwrap();
        assign_trace(method, &t.view(), amount, &params, unit, &mut scratch, &mut rows);
        rows
    }

    #[test]
    fn uniform_and_the_row_without_a_unit() {
        let t = TestTrace::artifact();
        let got = rows(&Uniform, &t, Some(4.0), Unit::Message, &[]);
        assert_eq!(got.credit, [0.5, 0.5, 3.0]);
        assert_eq!((got.unit, got.seq), (vec![0, 1, NO_UNIT], vec![3, 6, NO_UNIT]));
        assert_eq!(got.traces, [TraceRows { trace: 0, end: 3, residual: Some(0.0) }]);
        assert_eq!(rows(&Uniform, &t, Some(4.0), Unit::Agent, &[]).credit, [2.0, 0.5, 1.5]);
    }

    #[test]
    fn a_missing_reward_keeps_the_rows() {
        let got = rows(&Uniform, &TestTrace::artifact(), None, Unit::Message, &[]);
        assert_eq!((got.valid, got.traces[0].residual), (vec![false; 3], None));
        assert_eq!(got.reason, [Some(Reason::RewardAbsent); 3]);
        let got = rows(&Discounted, &TestTrace::artifact(), None, Unit::Message, &[]);
        assert_eq!(
            got.reason,
            [Some(Reason::RewardAbsent), Some(Reason::RewardAbsent), Some(Reason::UnitNone)]
        );
    }

    #[test]
    fn discounted_follows_canonical_order() {
        let gamma = [("gamma", Value::Float(0.5))];
        let mut t = TestTrace::events(3);
        assert_eq!(rows(&Discounted, &t, Some(4.0), Unit::Event, &gamma).credit, [1.0, 2.0, 4.0]);
        t.t = vec![2.0, 1.0, 1.0];
        assert_eq!(rows(&Discounted, &t, Some(4.0), Unit::Event, &gamma).credit, [4.0, 1.0, 2.0]);
        assert_eq!(
            rows(&Discounted, &t, Some(4.0), Unit::Event, &[("gamma", Value::Int(0))]).credit,
            [4.0, 0.0, 0.0]
        );
    }

    #[test]
    fn advantages_are_weighted_means() {
        let mut t = TestTrace::default();
        t.event(Message, "a").tokens_out(3).event(Message, "a").tokens_out(1).event(ToolCall, "b");
        t.event(ToolCall, "c").event(Message, "c").event(Message, "user");
        let mut arguments = vec![("gamma", Value::Float(0.5))];
        let got = rows(&Discounted, &t, Some(32.0), Unit::Agent, &arguments);
        assert_eq!((got.credit, got.valid), (vec![1.5, 4.0, 12.0, 0.0], vec![true, true, true, false]));
        assert_eq!((got.reason[3], got.traces[0].residual), (Some(Reason::UnitNone), None));
        arguments.push(("weight", Value::Text("tokens_out".into())));
        let got = rows(&Discounted, &t, Some(32.0), Unit::Agent, &arguments);
        // b is one row, which counts as it is; c wrote nothing
        assert_eq!((got.credit, got.valid), (vec![1.25, 4.0, 0.0, 0.0], vec![true, true, false, false]));
        assert_eq!(got.reason[2..], [Some(Reason::FieldAbsent), Some(Reason::UnitNone)]);
    }

    #[test]
    fn a_rollout_passes_its_value_to_every_unit() {
        let t = TestTrace::artifact();
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        let params = Params::defaults(&[]);
        let judged = Judged { values: &[0.0], reasons: &[Some(Reason::GroupDegenerate)], row_of: &[] };
        for (judged, unit) in [(Ok(judged), Unit::Message), (Err(Reason::RewardAbsent), Unit::Team)] {
            assign_judged(&t.view(), judged, &params, unit, &mut scratch, &mut rows);
        }
        assert_eq!((rows.credit, rows.valid), (vec![0.0; 4], vec![true, true, false, false]));
        let degenerate = Some(Reason::GroupDegenerate);
        assert_eq!(rows.reason, [degenerate, degenerate, Some(Reason::UnitNone), Some(Reason::RewardAbsent)]);
        assert_eq!(rows.traces.iter().map(|t| t.end).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn traces_without_events_have_no_rows() {
        for unit in Unit::ALL {
            assert!(rows(&Flow, &TestTrace::default(), Some(1.0), *unit, &[]).is_empty());
            assert!(rows(&Uniform, &TestTrace::default(), Some(1.0), *unit, &[]).is_empty());
        }
    }

    proptest! {
        #[test]
        fn shares_close_and_advantages_stay_inside(t in decided_trace(25, true), amount in -5.0..5.0_f64) {
            for &unit in Unit::ALL {
                for method in [&Uniform as &dyn CreditMethod, &Flow] {
                    let got = rows(method, &t, Some(amount), unit, &[]);
                    prop_assert!((got.credit.iter().sum::<f64>() - amount).abs() < 1e-9);
                    prop_assert!(got.traces[0].residual.unwrap().abs() < 1e-9);
                    prop_assert!(got.valid.iter().all(|&v| v));
                }
                let got = rows(&Discounted, &t, Some(1.0), unit, &[]);
                prop_assert!(got.credit.iter().zip(&got.valid).all(|(&c, &v)| !v || (0.0..=1.0).contains(&c)));
            }
        }

        #[test]
        fn a_warm_scratch_gives_the_same_bits(traces in prop::collection::vec(random_trace(20, false), 1..5)) {
            let (mut scratch, mut warm) = (Scratch::default(), Rows::default());
            for &unit in Unit::ALL {
                for t in &traces {
                    let before = warm.len();
                    assign_trace(&Flow, &t.view(), Some(1.0), &Flow.info().defaults(), unit, &mut scratch, &mut warm);
                    let mut cold = rows(&Flow, t, Some(1.0), unit, &[]);
                    warm.settle();
                    cold.settle();
                    prop_assert_eq!(&warm.credit[before..], &cold.credit[..]);
                    let named = warm.seq.len() - cold.seq.len();
                    prop_assert_eq!(&warm.unit[named..], &cold.unit[..]);
                    prop_assert_eq!(&warm.seq[named..], &cold.seq[..]);
                    prop_assert_eq!(&warm.reason[before..], &cold.reason[..]);
                }
            }
        }
    }
}
