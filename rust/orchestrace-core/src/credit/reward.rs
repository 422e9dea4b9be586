//! The reward of a trace: a weighted sum of reward channels.
//!
//! ```text
//! R = Σ weight_c value_c   over the channels c, in the order of their names
//! ```
//!
//! A trace that lacks one of the channels has no reward, and a sum beyond the float range is none either. Of a channel that
//! a trace has twice the first value counts. Everything that asks for a reward asks here.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use hashbrown::HashMap;

use crate::error::{Error, Result, unknown_name};
use crate::schema::{Dict, MeasureKind};
use crate::store::Store;
use crate::store::view::{ChunkView, TraceView};

/// What is closer to a threshold than this has reached it: a judge's sum of parts may be .9999999 where 1 is meant.
const REACHED: f64 = 1e-6;

/// Whether an outcome reaches a threshold, to rounding.
#[must_use]
pub fn reaches(outcome: f64, threshold: f64) -> bool {
    outcome >= threshold - REACHED
}

/// The code of a channel that no trace of this store has.
const NOT_HERE: u32 = u32::MAX;

/// The weighted sum of channels whose values are given by place; null if one of them is absent or the sum is beyond
/// the float range.
fn sum(weights: impl Iterator<Item = f64>, mut value: impl FnMut(usize) -> Option<f64>) -> Option<f64> {
    let mut sum = 0.0;
    for (place, weight) in weights.enumerate() {
        sum += weight * value(place)?;
    }
    sum.is_finite().then_some(sum)
}

/// Rejects an empty list of channels and weights that are not finite.
fn check(reward: &[(String, f64)]) -> Result<()> {
    if reward.is_empty() {
        return Err(Error::Parameter("reward names no channel".into()));
    }
    match reward.iter().find(|(_, weight)| !weight.is_finite()) {
        None => Ok(()),
        Some((name, weight)) => Err(Error::Parameter(format!(
            "the weight of reward '{name}' is {weight}, expected a finite number"
        ))),
    }
}

/// Channels of a store and their weights.
#[derive(Debug, Default)]
pub struct Channels(Vec<(u32, f64)>);

impl Channels {
    /// The channels of `reward`; one that no trace has is a mistake. `elsewhere` names those of the corpus that this store
    /// is a part of: a trace here may lack them. O(measures).
    pub fn of(store: &Store, reward: &[(String, f64)], elsewhere: &[String]) -> Result<Self> {
        check(reward)?;
        let dict = store.names().dict(Dict::Measure);
        let is_channel = measures(store, MeasureKind::Reward, dict.len());
        let code = |name: &String| {
            let code = dict.find(name).filter(|code| store.n_traces() == 0 || is_channel[*code as usize]);
            if let Some(code) = code {
                return Ok(code);
            }
            if store.n_traces() == 0 || elsewhere.contains(name) {
                return Ok(NOT_HERE);
            }
            let here = (0..dict.len() as u32).filter(|code| is_channel[*code as usize]);
            let mut names: Vec<&str> = here.map(|code| dict.name(code)).collect();
            names.extend(elsewhere.iter().map(String::as_str));
            names.sort_unstable();
            names.dedup();
            Err(Error::Parameter(unknown_name("reward channel", name, &names)))
        };
        reward.iter().map(|(name, weight)| Ok((code(name)?, *weight))).collect::<Result<_>>().map(Self)
    }

    /// What a trace is paid. O(measures of the trace).
    #[must_use]
    pub fn paid(&self, view: &TraceView<'_>) -> Option<f64> {
        let value = |place: usize| measured(view, MeasureKind::Reward, self.0[place].0);
        sum(self.0.iter().map(|(_, weight)| *weight), value)
    }
}

/// The first value that a trace has of a measure. O(measures of the trace).
#[must_use]
pub fn measured(view: &TraceView<'_>, kind: MeasureKind, name: u32) -> Option<f64> {
    let is_it = |i: &usize| view.measure_names[*i] == name && view.measure_kinds[*i] == kind as u8;
    (0..view.measure_names.len()).find(is_it).map(|row| view.measure_values[row])
}

/// Whether each of so many names of measures is one of this kind; in one pass, since a recording may have a million of them.
#[must_use]
pub fn measures(store: &Store, wanted: MeasureKind, names: usize) -> Vec<bool> {
    let mut is_channel = vec![false; names];
    for chunk in store.chunks() {
        let view = ChunkView::new(store, chunk);
        let Some((kinds, codes, _)) = view.measures() else { continue };
        for (_, code) in kinds.iter().zip(codes).filter(|(kind, _)| **kind == wanted as u8) {
            is_channel[*code as usize] = true;
        }
    }
    is_channel
}

/// The rewards of `traces`, from rows `(trace, channel, value)` of a table: the columns `trace` and
/// `reward`. It takes no events, so that a corpus on disk is asked without reading them. O(traces + rows).
pub fn rewards<'a>(
    traces: &[u32],
    rows: impl Iterator<Item = (u32, &'a str, f64)>,
    reward: &[(String, f64)],
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    check(reward)?;
    let n = reward.len();
    let row_of: HashMap<u32, usize> = traces.iter().copied().zip(0..).collect();
    let mut values = vec![None; traces.len() * n];
    for (trace, channel, value) in rows {
        let place = reward.iter().position(|(name, _)| name == channel);
        if let (Some(row), Some(place)) = (row_of.get(&trace), place) {
            values[row * n + place].get_or_insert(value);
        }
    }
    let paid: Float64Array = values
        .chunks_exact(n)
        .map(|values| sum(reward.iter().map(|(_, weight)| *weight), |place| values[place]))
        .collect();
    let fields =
        [Field::new("trace", DataType::UInt32, false), Field::new("reward", DataType::Float64, true)];
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(traces.to_vec())), Arc::new(paid)];
    Ok((vec![RecordBatch::try_new(Arc::clone(&schema), columns)?], schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;

    fn paid(rows: &[(u32, &str, f64)], reward: &[(&str, f64)]) -> Vec<Option<f64>> {
        let reward: Vec<_> = reward.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        let (batches, _) = rewards(&[4, 7], rows.iter().copied(), &reward).unwrap();
        batches[0].column(1).as_primitive::<Float64Type>().iter().collect()
    }

    #[test]
    fn a_threshold_is_reached_to_rounding() {
        assert!(reaches(1.0, 1.0) && reaches(0.999_999_9, 1.0) && reaches(0.1 + 0.2, 0.3));
        assert!(!reaches(0.999_99, 1.0) && !reaches(0.5, 1.0));
    }

    #[test]
    fn every_channel_must_be_there_and_the_sum_a_number() {
        let rows = [(4, "a", 1.0), (4, "b", 2.0), (7, "a", 3.0), (4, "a", 9.0), (8, "a", 1.0)];
        assert_eq!(paid(&rows, &[("a", 1.0), ("b", 0.5)]), [Some(2.0), None]);
        assert_eq!(paid(&rows, &[("a", 2.0)]), [Some(2.0), Some(6.0)]);
        assert_eq!(paid(&[(4, "a", f64::MAX), (7, "a", 1.0)], &[("a", 2.0)]), [None, Some(2.0)]);
        assert!(rewards(&[], std::iter::empty(), &[]).is_err());
        let infinite = [("a".to_owned(), f64::INFINITY)];
        assert!(rewards(&[], std::iter::empty(), &infinite).unwrap_err().to_string().contains("is inf"));
    }
}
