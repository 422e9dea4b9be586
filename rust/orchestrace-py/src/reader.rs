//! Reading in batches, and the state with which a corpus on disk resumes.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use orchestrace_core::columns::Projection;
use orchestrace_core::error::Error;
use orchestrace_core::importers::{self, Format};
use orchestrace_core::ingest;
use orchestrace_core::ingest::{
    Batch, EventPlace, IndexRow, Input, ReadPosition, SoughtTrace, SourcePart, TraceIndex, TraceReader,
};
use orchestrace_core::store::{Part as StorePart, Partition, Store};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::run_detached;
use crate::corpus::{PyStore, read_options};
use crate::error::to_python;
use crate::files::{Exchange, writer};
use crate::stream::{Stream, import};

/// Offset, lines, blocks, done: see `ReadPosition`.
type Place = (u64, u64, u64, bool);
/// Records, used, ignored, quarantined, duplicates, and where the input is taken up again.
type Part = (u64, u64, u64, u64, u64, Place);

fn place(position: ReadPosition) -> Place {
    (position.offset, position.lines, position.blocks, position.done)
}

fn part(part: &SourcePart) -> Part {
    let SourcePart { records, used, ignored, quarantined, duplicates, position } = *part;
    (records, used, ignored, quarantined, duplicates, place(position))
}

/// Files that are read batch by batch.
#[pyclass(frozen, name = "TraceReader", module = "orchestrace._core")]
pub(crate) struct PyTraceReader(Mutex<TraceReader>);

#[pymethods]
impl PyTraceReader {
    /// `tables`, and `columns` of events, limit what is built.
    ///
    /// `inputs` are paths, names for the tables, and where to begin in each; `gathered` is where the traces that
    /// are spread over records are taken up again; `formats` are those that are known; `options` those of `read`.
    #[new]
    #[pyo3(signature = (inputs, *, gathered = 0, formats = None, tables = None, columns = None, **options))]
    fn new(
        py: Python<'_>,
        inputs: Vec<(PathBuf, String, Place)>,
        gathered: u64,
        formats: Option<Vec<Option<String>>>,
        tables: Option<Vec<String>>,
        columns: Option<Vec<String>>,
        options: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut options = read_options(py, options.as_ref())?;
        if let Some(tables) = tables {
            fn words(words: &[String]) -> Vec<&str> {
                words.iter().map(String::as_str).collect()
            }
            let columns = columns.as_ref().map(|c| words(c));
            options.records.projection =
                Projection::new(&words(&tables), columns.as_deref()).map_err(|e| to_python(py, &e))?;
        }
        let known = formats.unwrap_or_default();
        let find = |name: &String| match name.as_str() {
            importers::UNKNOWN => Ok(importers::unknown()),
            name => options.importer(name).map_err(|e| to_python(py, &e)),
        };
        let inputs = inputs
            .into_iter()
            .enumerate()
            .map(|(i, (path, name, (offset, lines, blocks, done)))| {
                let format = known.get(i).and_then(Option::as_ref).map(find).transpose()?;
                Ok((Input::Named { name, path }, ReadPosition { offset, lines, blocks, done }, format))
            })
            .collect::<PyResult<_>>()?;
        let gathered = ReadPosition { blocks: gathered, ..ReadPosition::default() };
        TraceReader::resumed(inputs, gathered, options)
            .map(|r| Self(Mutex::new(r)))
            .map_err(|e| to_python(py, &e))
    }

    /// The next traces, about `limit` bytes of tables: the store, what is new of each input, and rows for the
    /// index; `None` after the last.
    #[pyo3(signature = (limit, *, index = None, threads = None, progress = None))]
    fn next(
        &self,
        py: Python<'_>,
        limit: usize,
        index: Option<&Bound<'_, PyTraceIndex>>,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<(PyStore, Vec<Part>, Stream)>> {
        let index = index.map(Bound::get);
        let batch = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut index = index.map(|i| i.0.lock().unwrap_or_else(PoisonError::into_inner));
            reader.next(limit, index.as_deref_mut(), run)
        })?;
        let Some(Batch { store, parts, index }) = batch else { return Ok(None) };
        let rows = index_batch(&index).map_err(|e| to_python(py, &Error::Arrow(e)))?;
        let schema = rows.schema();
        let parts = parts.iter().map(part).collect();
        Ok(Some((PyStore(Arc::new(store)), parts, Stream::new(vec![rows], schema))))
    }
}

/// The traces of a corpus, by id and content.
#[pyclass(frozen, name = "TraceIndex", module = "orchestrace._core")]
pub(crate) struct PyTraceIndex(Mutex<TraceIndex>);

#[pymethods]
impl PyTraceIndex {
    /// Of a corpus that has given the numbers below `next_number`.
    #[new]
    #[pyo3(signature = (next_number = 0))]
    fn new(next_number: u32) -> Self {
        Self(Mutex::new(TraceIndex::starting_at(next_number)))
    }

    /// Puts traces of an earlier reading in; `former` ones are read anew and only keep their numbers.
    #[pyo3(signature = (rows, *, former = false))]
    fn insert(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, former: bool) -> PyResult<()> {
        let batch = import(py, "index", rows)?;
        let rows = index_rows(&batch).map_err(|e| to_python(py, &e))?;
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            if former { index.insert_former(row) } else { index.insert(row) }
        }
        Ok(())
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).nbytes()
    }

    #[getter]
    fn next_number(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_number()
    }
}

const COLUMNS: [(&str, DataType); 5] = [
    ("trace", DataType::UInt32),
    ("input", DataType::UInt32),
    ("id", DataType::UInt64),
    ("content", DataType::UInt64),
    ("duplicate", DataType::Boolean),
];

fn index_batch(rows: &[IndexRow]) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let fields: Vec<Field> =
        COLUMNS.iter().map(|(name, kind)| Field::new(*name, kind.clone(), false)).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.trace))),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.input))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.id))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.content))),
        Arc::new(rows.iter().map(|r| Some(r.duplicate)).collect::<BooleanArray>()),
    ];
    RecordBatch::try_new(schema, columns)
}

fn index_rows(batch: &RecordBatch) -> orchestrace_core::error::Result<Vec<IndexRow>> {
    for (name, kind) in &COLUMNS {
        let found = batch.column_by_name(name).map(|c| c.data_type().clone());
        if found.as_ref() != Some(kind) {
            return Err(Error::Schema(format!("index column '{name}' is {found:?}, expected {kind}")));
        }
    }
    let u32s = |i: usize| batch[COLUMNS[i].0].as_primitive::<UInt32Type>().values();
    let u64s = |i: usize| batch[COLUMNS[i].0].as_primitive::<UInt64Type>().values();
    let duplicate = batch[COLUMNS[4].0].as_boolean();
    let row = |i: usize| IndexRow {
        trace: u32s(0)[i],
        input: u32s(1)[i],
        id: u64s(2)[i],
        content: u64s(3)[i],
        duplicate: duplicate.value(i),
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

/// A store cut by the hash of a key.
#[pyclass(frozen, name = "Partition", module = "orchestrace._core")]
pub(crate) struct PyPartition {
    store: Arc<Store>,
    partition: Partition,
}

#[pymethods]
impl PyPartition {
    #[new]
    fn new(py: Python<'_>, store: &PyStore, key: Vec<String>, parts: u32) -> PyResult<Self> {
        let partition = Partition::new(&store.0, &key, parts).map_err(|e| to_python(py, &e))?;
        Ok(Self { store: Arc::clone(&store.0), partition })
    }

    /// The parts that have a trace, ascending.
    #[getter]
    fn present(&self) -> Vec<u32> {
        self.partition.present()
    }

    /// The labels of traces that are in no part.
    fn loose_labels(&self, py: Python<'_>) -> PyResult<PyPart> {
        self.partition.loose_labels(&self.store).map(PyPart).map_err(|e| to_python(py, &e))
    }

    /// The tables of one part.
    fn part(&self, py: Python<'_>, part: u32) -> PyResult<PyPart> {
        py.detach(|| self.partition.part(&self.store, part)).map(PyPart).map_err(|e| to_python(py, &e))
    }
}

/// The tables of one part of a store.
#[pyclass(frozen, name = "Part", module = "orchestrace._core")]
pub(crate) struct PyPart(StorePart);

#[pymethods]
impl PyPart {
    /// A table in batches.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Stream> {
        let made =
            self.0.table(name).and_then(|batches| Ok(Stream::new(batches, self.0.table_schema(name)?)));
        made.map_err(|e| to_python(py, &e))
    }
}

/// The importer of each file, and whether its traces are spread over records and files.
#[pyfunction]
#[pyo3(signature = (inputs, *, threads = None, **options))]
pub(crate) fn formats(
    py: Python<'_>,
    inputs: Vec<(PathBuf, String)>,
    threads: Option<usize>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Vec<(&'static str, bool)>> {
    let options = read_options(py, options.as_ref())?;
    let inputs = inputs.into_iter().map(|(path, name)| Input::Named { name, path }).collect();
    let found =
        run_detached(py, threads, None, &Exchange::default(), |run| ingest::formats(inputs, &options, run))?;
    Ok(found.into_iter().map(|format| (format.info().name, matches!(format, Format::Spread(_)))).collect())
}

/// Input or entry, line, offset, length: see `EventPlace`.
type Lies = (String, u64, u64, u64);

/// Reads files, each with its name, for one trace: its tables, and where each of its events lies, or one place for all.
#[pyfunction]
#[pyo3(signature = (inputs, trace_id, place, *, threads = None, progress = None, **options))]
pub(crate) fn locate(
    py: Python<'_>,
    inputs: Vec<(PathBuf, String)>,
    trace_id: String,
    place: Lies,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<(PyStore, Vec<Lies>)> {
    let options = read_options(py, options.as_ref())?;
    let inputs = inputs.into_iter().map(|(path, name)| Input::Named { name, path }).collect();
    let (file, line, offset, length) = place;
    let sought = SoughtTrace::new(trace_id, file, line, offset, length);
    let (store, places) = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        ingest::locate(inputs, sought, &options, run)
    })?;
    let places = places.into_iter().map(|place| (place.file, place.line, place.offset, place.length));
    Ok((PyStore(Arc::new(store)), places.collect()))
}

/// Bytes of a record of the file `path`, which the tables call `name`; nothing if it is not there.
#[pyfunction]
#[pyo3(signature = (path, name, place, **options))]
pub(crate) fn record_bytes(
    py: Python<'_>,
    path: PathBuf,
    name: &str,
    place: Lies,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Option<Cow<'static, [u8]>>> {
    let options = read_options(py, options.as_ref())?;
    let (file, line, offset, length) = place;
    let place = EventPlace { file, line, offset, length };
    let bytes = run_detached(py, Some(1), None, &Exchange::default(), |run| {
        ingest::record_bytes(&path, name, &place, &options, run)
    })?;
    Ok(bytes.map(Cow::Owned))
}

/// The BLAKE3 hash of a file's first `length` bytes.
#[pyfunction]
#[pyo3(signature = (path, length, *, progress = None))]
pub(crate) fn fingerprint(
    py: Python<'_>,
    path: PathBuf,
    length: u64,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    run_detached(py, Some(1), progress.as_ref(), &Exchange::default(), |run| {
        ingest::fingerprint(&path, length, run)
    })
}

/// Copies records of a file, by offset and length, to a target, a line each; how many.
#[pyfunction]
#[pyo3(signature = (path, places, target, **options))]
pub(crate) fn copy_records(
    py: Python<'_>,
    path: PathBuf,
    places: Vec<(u64, u64)>,
    target: &Bound<'_, PyAny>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let options = read_options(py, options.as_ref())?;
    let exchange = Exchange::default();
    let mut sink = writer(target, &exchange)?;
    run_detached(py, Some(1), None, &exchange, move |run| {
        ingest::copy_records(&path, &places, &options, &mut sink, run)
    })
}
