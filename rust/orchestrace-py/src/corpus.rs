//! Reading, and the store that Python's `Corpus` holds.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use orchestrace_core::assembly::{Codes, Tables, Taking};
use orchestrace_core::columns::{LiftKind, Projection};
use orchestrace_core::importers::Mapping;
use orchestrace_core::importers::{TRACE_BY, TraceBy};
use orchestrace_core::ingest;
use orchestrace_core::ingest::{Input, ReadOptions};
use orchestrace_core::schema::TimeBasis;
use orchestrace_core::store::{Store, write_jsonl};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::run_detached;
use crate::error::{bad_parameter, to_python};
use crate::files::{Exchange, PyReader, writer};
use crate::freed::return_freed;
use crate::rows::row_opener;
use crate::stream::{Stream, import};

/// Immutable columns of a corpus in memory.
#[pyclass(frozen, name = "Store", module = "orchestrace._core")]
pub(crate) struct PyStore(pub(crate) Arc<Store>);

/// A key of a mapping: key, pointer, matched, of, types.
type KeyRow = (String, String, u64, u64, String);
/// A field that no key reads: field, types, records, values.
type FieldRow = (String, String, u64, u64);

/// Options of a reading, by name; what is absent or `None` has its default.
pub(crate) fn read_options(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<ReadOptions> {
    let mut options = ReadOptions { rows: Some(row_opener()), ..ReadOptions::default() };
    let given = given.map(PyDictMethods::iter).into_iter().flatten().filter(|(_, value)| !value.is_none());
    for (name, value) in given {
        match name.extract::<String>()?.as_str() {
            "format" => options.format = value.extract()?,
            "mapping" => {
                let (text, file) = value.extract::<(String, String)>()?;
                options.mapping = Some(Mapping::named(&text, &file).map_err(|e| to_python(py, &e))?);
            }
            "block_size" => options.block_size = value.extract::<usize>()?.clamp(1, 64 << 20),
            "max_record" => options.max_record = value.extract()?,
            "set_by_memory" => options.set_by_memory = Some(value.extract()?),
            "max_depth" => options.records.limits.depth = value.extract()?,
            "max_string" => options.records.limits.string = value.extract()?,
            "max_expansion" => options.max_expansion = value.extract()?,
            "max_decompressed" => options.max_decompressed = value.extract()?,
            "extras" => options.records.extras = value.extract()?,
            "gather_budget" => options.gather_budget = value.extract()?,
            "spill_folder" => options.spill_folder = Some(value.extract()?),
            "excerpt" => options.records.excerpt = value.extract()?,
            "fields" => {
                let mut fields: Vec<(String, String)> =
                    value.extract::<HashMap<String, String>>()?.into_iter().collect();
                fields.sort();
                for (name, kind) in fields {
                    options
                        .records
                        .fields
                        .push((name, LiftKind::parse(&kind).map_err(|e| to_python(py, &e))?));
                }
            }
            "time_basis" => {
                let word = value.extract::<String>()?;
                options.records.time_basis = Some(TimeBasis::parse(&word).ok_or_else(|| {
                    let known = orchestrace_core::schema::TIME_BASES;
                    bad_parameter(py, orchestrace_core::error::unknown_name("time basis", &word, known))
                })?);
            }
            "trace_by" => {
                let word = value.extract::<String>()?;
                options.trace_by = TraceBy::parse(&word).ok_or_else(|| {
                    bad_parameter(py, orchestrace_core::error::unknown_name("trace_by", &word, TRACE_BY))
                })?;
            }
            "reward_scores" => options.records.reward_scores = value.extract()?,
            "null_values" => {
                let values = value.extract::<BTreeMap<String, Vec<f64>>>()?;
                options.records.null_values = values.into_iter().collect();
            }
            "unread_fields" => options.unread_fields = value.extract()?,
            other => return Err(bad_parameter(py, format!("unknown option '{other}'"))),
        }
    }
    Ok(options)
}

/// Reads inputs into a store; `tables` limit what is built.
#[pyfunction]
#[pyo3(signature = (inputs, *, threads = None, progress = None, tables = None, **options))]
pub(crate) fn read(
    py: Python<'_>,
    inputs: Vec<Bound<'_, PyAny>>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    tables: Option<Vec<String>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<PyStore> {
    let mut options = read_options(py, options.as_ref())?;
    if let Some(tables) = tables {
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        options.records.projection = Projection::new(&tables, None).map_err(|e| to_python(py, &e))?;
    }
    let exchange = Exchange::default();
    let inputs = inputs.into_iter().map(|object| input(object, &exchange)).collect();
    let store = run_detached(py, threads, progress.as_ref(), &exchange, |run| {
        let store = ingest::read(inputs, &options, run)?;
        return_freed();
        Ok(store)
    })?;
    Ok(PyStore(Arc::new(store)))
}

/// A path, or a binary file object with an optional name.
fn input(object: Bound<'_, PyAny>, exchange: &Exchange) -> Input {
    if let Ok(path) = object.extract::<PathBuf>() {
        return Input::Path(path);
    }
    let name =
        object.getattr("name").and_then(|n| n.extract::<String>()).unwrap_or_else(|_| "<stream>".into());
    let reader = Box::new(PyReader::new(&object, &name, exchange));
    Input::Stream { name, reader }
}

#[pymethods]
impl PyStore {
    /// Checks tables and takes them over. With `names`, a table of `code` and `name`, columns of names and words may be
    /// codes. `judged`: their texts come from a reader that judged them; `set_aside`: what a store cannot hold is left
    /// out and reported, rather than raised.
    #[staticmethod]
    #[pyo3(signature = (tables, *, names = None, threads = None, judged = false, set_aside = false))]
    fn from_arrow(
        py: Python<'_>,
        tables: &Bound<'_, PyDict>,
        names: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
        judged: bool,
        set_aside: bool,
    ) -> PyResult<Self> {
        let fail = |error| to_python(py, &error);
        let names = names.map(|names| import(py, "names", names)).transpose()?;
        let codes = names.map(|names| Codes::new(&names)).transpose().map_err(fail)?;
        let optional = |name: &str| -> PyResult<Option<RecordBatch>> {
            let Some(table) = tables.get_item(name)?.filter(|t| !t.is_none()) else { return Ok(None) };
            let batch = import(py, name, &table)?;
            let Some(codes) = &codes else { return Ok(Some(batch)) };
            codes.named(name, &batch).map(Some).map_err(fail)
        };
        let required = |name: &str| -> PyResult<RecordBatch> {
            optional(name)?.ok_or_else(|| bad_parameter(py, format!("table {name} is needed")))
        };
        let tables = Tables {
            traces: required("traces")?,
            events: required("events")?,
            edges: required("edges")?,
            measures: optional("measures")?,
            labels: optional("labels")?,
            findings: optional("findings")?,
            quarantine: optional("quarantine")?,
            record_counts: optional("record_counts")?,
        };
        let taking = Taking { set_aside, judged };
        let store = run_detached(py, threads, None, &Exchange::default(), |run| {
            Store::from_arrow_as(&tables, taking, run)
        })?;
        Ok(Self(Arc::new(store)))
    }

    /// What was left out of the tables: the number of the trace, or none, and what is wrong with it.
    #[getter]
    fn set_aside(&self) -> Vec<(Option<u32>, String)> {
        self.0.set_aside().iter().map(|aside| (aside.trace, aside.message.clone())).collect()
    }

    #[getter]
    fn n_traces(&self) -> usize {
        self.0.n_traces()
    }

    #[getter]
    fn n_events(&self) -> usize {
        self.0.n_events()
    }

    #[getter]
    fn n_edges(&self) -> usize {
        self.0.n_edges()
    }

    #[getter]
    fn records_read(&self) -> u64 {
        self.0.records_read()
    }

    #[getter]
    fn records_quarantined(&self) -> usize {
        self.0.records_quarantined()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.nbytes()
    }

    /// What the reading found of its mapping: key, pointer, matched, of, types; unread fields: field, types, records,
    /// values.
    #[getter]
    fn mapping_counts(&self) -> Option<(Vec<KeyRow>, Vec<FieldRow>)> {
        let counts = self.0.mapping_counts()?.clone();
        let keys = counts.keys.into_iter().map(|k| (k.key, k.pointer, k.matched, k.of, k.types));
        let unread = counts.unread.into_iter().map(|f| (f.field, f.types, f.records, f.values));
        Some((keys.collect(), unread.collect()))
    }

    #[getter]
    fn lifted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let word = |kind: &LiftKind| match kind {
            LiftKind::Text => "text",
            LiftKind::I64 => "i64",
            LiftKind::F64 => "f64",
            LiftKind::Bool => "bool",
        };
        let out = PyDict::new(py); // in the order of the columns
        for (name, kind) in self.0.lifted() {
            out.set_item(name, word(kind))?;
        }
        Ok(out)
    }

    /// A table in batches, as it is held.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Stream> {
        let made =
            self.0.table(name).and_then(|batches| Ok(Stream::new(batches, self.0.table_schema(name)?)));
        made.map_err(|e| to_python(py, &e))
    }

    /// A table in one batch.
    fn combined(&self, py: Python<'_>, name: &str) -> PyResult<Stream> {
        let made = self.0.combined(name).map(|batch| {
            let schema = batch.schema();
            Stream::new(vec![batch], schema)
        });
        made.map_err(|e| to_python(py, &e))
    }

    /// The traces of the given numbers, ascending.
    fn filter(&self, py: Python<'_>, traces: Vec<u32>) -> PyResult<Self> {
        self.0.filter(&traces).map(|store| Self(Arc::new(store))).map_err(|e| to_python(py, &e))
    }

    /// Writes native documents, one a line; how many.
    #[pyo3(signature = (target, *, threads = None, progress = None))]
    fn write_jsonl(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let exchange = Exchange::default();
        let mut sink = writer(target, &exchange)?;
        let store = &self.0;
        run_detached(py, threads, progress.as_ref(), &exchange, move |run| write_jsonl(store, &mut sink, run))
    }
}
