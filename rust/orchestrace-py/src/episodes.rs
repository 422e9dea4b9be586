//! Episodes of verifiers with other advantages.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use arrow_array::StringViewArray;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use orchestrace_core::error::Error;
use orchestrace_core::importers::StampedLines;
use orchestrace_core::ingest;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::run_detached;
use crate::corpus::read_options;
use crate::error::to_python;
use crate::files::{Exchange, writer};
use crate::stream::import;

/// Episodes; nodes with numbers; numbers of nodes without a mask, of ids that several traces have, and of no node.
type Counts = (usize, u64, u64, u64, u64);

/// Copies episodes of a file, by offset and length, to a target, a line each, with the numbers that `advantages` has for
/// their nodes and no others: `record` (which of the episodes, ascending), `node` (`x_gen`), `value`;
/// and whether each is shared among the tokens of its node.
#[pyfunction]
#[pyo3(signature = (path, places, advantages, target, *, progress = None, **options))]
pub(crate) fn stamp_episodes(
    py: Python<'_>,
    path: PathBuf,
    places: Vec<(u64, u64)>,
    advantages: (Bound<'_, PyAny>, bool),
    target: &Bound<'_, PyAny>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Counts> {
    let (rows, is_share) = advantages;
    let rows = import(py, "advantages", &rows)?;
    let missing = || to_python(py, &Error::Schema("advantages are record u32, node text, value f64".into()));
    let column = |name: &str| rows.column_by_name(name);
    let records =
        column("record").and_then(|array| array.as_primitive_opt::<UInt32Type>()).ok_or_else(missing)?;
    let values =
        column("value").and_then(|array| array.as_primitive_opt::<Float64Type>()).ok_or_else(missing)?;
    let nodes: &StringViewArray =
        column("node").and_then(|array| array.as_string_view_opt()).ok_or_else(missing)?;
    let options = read_options(py, options.as_ref())?;
    let exchange = Exchange::default();
    let sink = writer(target, &exchange)?;
    run_detached(py, Some(1), progress.as_ref(), &exchange, move |run| {
        let numbers = records.values().iter().zip(nodes).zip(values.values());
        let numbers = numbers.filter_map(|((record, node), value)| Some((*record, node?, *value)));
        let mut sink = BufWriter::with_capacity(1 << 20, sink);
        let mut lines = StampedLines::new(&mut sink, numbers, is_share, options.records.limits);
        ingest::copy_records(&path, &places, &options, &mut lines, run)?;
        let (episodes, stamped) = lines.stamped();
        sink.flush().map_err(|source| Error::Io { path: "the target".into(), source })?;
        Ok((episodes, stamped.nodes, stamped.without_mask, stamped.ambiguous, stamped.missing))
    })
}
