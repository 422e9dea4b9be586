//! Lanes of steps and their alignment: conversion of Python's requests.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use orchestrace_core::error::{Error, Result};
use orchestrace_core::lanes::{self, align, steps::Key};
use orchestrace_core::run::Run;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::error::to_python;
use crate::stream::{Stream, import, rows_of};

/// The steps of every trace, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, key, root_only = false, threads = None, progress = None))]
pub(crate) fn lane_steps(
    py: Python<'_>,
    store: &PyStore,
    key: &str,
    root_only: bool,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    let key = Key::parse(key).map_err(|error| to_python(py, &error))?;
    let store = &store.0;
    rows_of(py, threads, progress.as_ref(), |run| lanes::lane_steps(store, key, root_only, run))
}

/// The turns of every trace in which agents act, a row each with what the record says of it.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None))]
pub(crate) fn blame_candidates(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    let store = &store.0;
    rows_of(py, threads, progress.as_ref(), |run| lanes::blame_candidates(store, run))
}

/// What an alignment may cost, and what it lists: the matches of each pair in place of a row.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct AlignRequest {
    budget: u64,
    rejoin: u32,
    matches: bool,
}

/// `keys` has the column `key` (u64), `offsets` one (u32): sequence i is `keys[offsets[i]..offsets[i + 1]]`. `pairs` has
/// two, the sequences to align. A row for each pair, or, if `matches` are asked for, for each match.
#[pyfunction]
#[pyo3(signature = (keys, offsets, pairs, *, threads = None, progress = None, **options))]
pub(crate) fn align_lanes(
    py: Python<'_>,
    keys: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    pairs: &Bound<'_, PyAny>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let AlignRequest { budget, rejoin, matches } = request(py, options)?;
    let options = align::Options { budget, rejoin, matches };
    let (keys, offsets) = (import(py, "keys", keys)?, import(py, "offsets", offsets)?);
    let pairs = import(py, "pairs", pairs)?;
    let keys = (keys.columns().first()).and_then(|column| column.as_primitive_opt::<UInt64Type>().cloned());
    let keys = keys.ok_or_else(|| fail(Error::Schema("table keys has no column of type UInt64".into())))?;
    let offsets = numbers(&offsets, 0).map_err(fail)?;
    let pairs: Vec<(u32, u32)> = {
        let (a, b) = (numbers(&pairs, 0).map_err(fail)?, numbers(&pairs, 1).map_err(fail)?);
        a.values().iter().copied().zip(b.values().iter().copied()).collect()
    };
    rows_of(py, threads, progress.as_ref(), |run: &Run| {
        let sequences = align::Sequences::new(keys.values(), offsets.values())?;
        let rows = align::align(sequences, &pairs, options, run)?;
        let batch = if matches { of_matches(&rows) } else { of_pairs(&rows) }?;
        let schema = batch.schema();
        Ok((vec![batch], schema))
    })
}

fn numbers(table: &RecordBatch, at: usize) -> Result<UInt32Array> {
    let column = table.columns().get(at).and_then(|column| column.as_primitive_opt::<UInt32Type>());
    column.cloned().ok_or_else(|| Error::Schema(format!("column {at} of a table is not of type UInt32")))
}

fn of_pairs(rows: &[align::Alignment]) -> Result<RecordBatch> {
    let column = |of: fn(&align::Alignment) -> Option<u32>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<UInt32Array>())
    };
    Ok(RecordBatch::try_from_iter([
        ("prefix", column(|row| Some(row.prefix))),
        ("common", column(|row| row.common)),
        ("rejoin_a", column(|row| row.rejoin.map(|places| places.0))),
        ("rejoin_b", column(|row| row.rejoin.map(|places| places.1))),
    ])?)
}

fn of_matches(rows: &[align::Alignment]) -> Result<RecordBatch> {
    let all =
        || (0_u32..).zip(rows).flat_map(|(pair, row)| row.matches.iter().map(move |&(a, b)| (pair, a, b)));
    let column = |of: fn((u32, u32, u32)) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(all().map(of)))
    };
    Ok(RecordBatch::try_from_iter([
        ("pair", column(|row| row.0)),
        ("place_a", column(|row| row.1)),
        ("place_b", column(|row| row.2)),
    ])?)
}
