//! Search in the records of files, and whose what was found is.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::ArrowError;
use orchestrace_core::error::{Error, Result};
use orchestrace_core::ingest::{self, Hit, Input, NotOne, Owner, Request};
use orchestrace_core::search::Pattern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::run_detached;
use crate::corpus::{PyStore, read_options};
use crate::error::to_python;
use crate::files::Exchange;
use crate::stream::Stream;

/// Matches, how many there are, whether there are more, and what was not searched: file, first byte, why.
type Searched = (Stream, u64, bool, Vec<(String, u64, String)>);

/// Searches files, each a path and a name, for a `pattern`: the expression, whether it is a text, whether case is ignored.
/// `extent` is how much text to show around a match, the most matches, and whether they are only counted.
#[pyfunction]
#[pyo3(signature = (inputs, pattern, extent, *, threads = None, progress = None, **options))]
pub(crate) fn search(
    py: Python<'_>,
    inputs: Vec<(PathBuf, String)>,
    pattern: (String, bool, bool),
    extent: (usize, Option<u64>, bool),
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Searched> {
    let options = read_options(py, options.as_ref())?;
    let inputs: Vec<_> = inputs.into_iter().map(|(path, name)| (name, path)).collect();
    let (spelled, fixed, ignore_case) = pattern;
    let pattern = Pattern::new(&spelled, fixed, ignore_case).map_err(|e| to_python(py, &e))?;
    let (context, limit, count) = extent;
    let request = Request { pattern, context, limit, count };
    let (matches, batch) = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        let matches = ingest::search(&inputs, &request, &options, run)?;
        let batch = hits(&matches.hits)?;
        Ok((matches, batch))
    })?;
    let unsearched = matches.unsearched.iter().map(|part| {
        (
            part.file.to_string(),
            part.offset,
            format!("{}: {}", part.reject.code.as_str(), part.reject.message),
        )
    });
    let schema = batch.schema();
    Ok((Stream::new(vec![batch], schema), matches.count, matches.cut, unsearched.collect()))
}

/// Reads files for what is made of some places, each a file or entry and a byte of it: the tables of their traces, and of
/// each place the first record of its trace, its trace, its event, or why there is none.
#[pyfunction]
#[pyo3(signature = (inputs, places, *, threads = None, progress = None, **options))]
pub(crate) fn owners(
    py: Python<'_>,
    inputs: Vec<(PathBuf, String)>,
    places: Vec<(String, u64)>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<(PyStore, Stream)> {
    let options = read_options(py, options.as_ref())?;
    let inputs = inputs.into_iter().map(|(path, name)| Input::Named { name, path }).collect();
    let (store, batch) = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        let (store, owners) = ingest::owners(inputs, &places, &options, run)?;
        Ok((store, owner_rows(&owners)?))
    })?;
    let schema = batch.schema();
    Ok((PyStore(Arc::new(store)), Stream::new(vec![batch], schema)))
}

/// Text of a table: its columns have 32-bit offsets.
const MOST: usize = i32::MAX as usize;

fn texts<'a>(rows: impl Iterator<Item = Option<&'a str>> + Clone) -> Result<ArrayRef> {
    if rows.clone().flatten().map(str::len).sum::<usize>() > MOST {
        let message =
            "the matches have more than 2 GiB of text: ask for fewer (max_count, -m), or count them";
        return Err(Error::TooLarge(message.into()));
    }
    Ok(Arc::new(rows.collect::<StringArray>()))
}

fn hits(hits: &[Hit]) -> Result<RecordBatch> {
    let counts =
        |of: fn(&Hit) -> u64| Arc::new(UInt64Array::from_iter_values(hits.iter().map(of))) as ArrayRef;
    batch([
        ("file", texts(hits.iter().map(|hit| Some(&*hit.file)))?),
        ("line", counts(|hit| hit.line)),
        ("offset", counts(|hit| hit.offset)),
        ("length", counts(|hit| hit.length)),
        ("match", texts(hits.iter().map(|hit| Some(hit.matched.as_str())))?),
        ("text", texts(hits.iter().map(|hit| Some(hit.text.as_str())))?),
        ("input", counts(|hit| hit.input as u64)),
    ])
}

fn owner_rows(owners: &[Owner]) -> Result<RecordBatch> {
    let seqs: UInt32Array = owners.iter().map(|owner| owner.event.ok()).collect();
    let offsets: UInt64Array = owners.iter().map(|owner| owner.home.as_ref().map(|home| home.1)).collect();
    batch([
        ("home", texts(owners.iter().map(|owner| owner.home.as_ref().map(|home| home.0.as_str())))?),
        ("home_offset", Arc::new(offsets)),
        ("home_id", texts(owners.iter().map(|owner| owner.trace_id.as_deref()))?),
        ("seq", Arc::new(seqs)),
        ("reason", texts(owners.iter().map(|owner| owner.event.err().map(NotOne::as_str)))?),
    ])
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<RecordBatch> {
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|e: ArrowError| Error::Arrow(e))
}
