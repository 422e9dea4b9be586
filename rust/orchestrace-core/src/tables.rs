//! Tables of results: every trace of a store goes through a worker, and columns are set by their names.
//!
//! ```text
//! chunks in parallel ──► traces in parallel: a worker and its rows ──► rows of the chunk, in order ──► Columns ──► batch
//! ```
//!
//! A worker takes a trace at a time and rows are joined in the order of the traces, so a table is the same on any number
//! of threads.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray, UInt32Array,
};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::take::take;
use rayon::prelude::*;

use crate::error::Result;
use crate::run::Run;
use crate::schema::{Column, REASONS, Reason};
use crate::store::view::{ChunkView, TraceView};
use crate::store::{Chunk, Store, word_array};

/// Batches, one for each chunk, and their schema.
pub type Batches = (Vec<RecordBatch>, SchemaRef);

/// A chunk of a store, of which a part of a table is made.
pub(crate) struct Part<'a> {
    /// Place of the chunk among those of the store.
    pub(crate) index: usize,
    pub(crate) chunk: &'a Chunk,
    pub(crate) view: ChunkView<'a>,
    /// Its first event among those of the store.
    start: usize,
}

impl<'a> Part<'a> {
    #[inline]
    pub(crate) fn trace(&self, i: usize) -> TraceView<'a> {
        self.view.trace(i)
    }

    /// The first event of a trace among those of the store.
    pub(crate) fn first_event(&self, i: usize) -> usize {
        self.start + self.view.first_event(i)
    }
}

/// Rows of several traces, which are joined to those of the traces before.
pub(crate) trait Rows: Send {
    fn append(&mut self, more: Self);
}

impl<T: Send> Rows for Vec<T> {
    fn append(&mut self, mut more: Self) {
        self.append(&mut more);
    }
}

/// The results of `of` for every chunk, in order. A chunk is the work of one thread.
pub(crate) fn of_chunks<W, T: Send>(
    store: &Store,
    run: &Run,
    worker: impl Fn() -> W + Sync + Send,
    of: impl Fn(&mut W, &Part<'_>) -> Result<T> + Sync + Send,
) -> Result<Vec<T>> {
    run.expect(store.n_traces() as u64);
    in_chunks(store, run, worker, |worker, part| {
        let result = of(worker, part)?;
        run.advance(part.view.len() as u64);
        Ok(result)
    })
}

/// The results of `finish` for the rows of every chunk, in order. Threads share the traces of a chunk: each begins with a
/// worker and no rows, and `of` appends the rows of a trace, by its place in the chunk.
pub(crate) fn of_traces<W: Send, R: Rows, T: Send>(
    store: &Store,
    run: &Run,
    begin: impl Fn() -> (W, R) + Sync,
    of: impl Fn(&mut W, &mut R, &Part<'_>, usize) -> Result<()> + Sync,
    finish: impl Fn(&Part<'_>, R) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let of_chunk = |(): &mut (), part: &Part<'_>| {
        let parts = (0..part.view.len()).into_par_iter().fold(
            || Ok(Box::new(begin())), // passed on from trace to trace
            |state, i| {
                let mut state = state?;
                run.check()?;
                of(&mut state.0, &mut state.1, part, i)?;
                run.advance(1);
                Ok(state)
            },
        );
        let parts = parts.map(|state| state.map(|state| state.1)).collect::<Result<Vec<R>>>()?;
        let rows = parts.into_iter().reduce(|mut rows, more| {
            rows.append(more);
            rows
        });
        finish(part, rows.unwrap_or_else(|| begin().1))
    };
    run.expect(store.n_traces() as u64);
    in_chunks(store, run, || (), of_chunk)
}

/// A table of [`of_traces`], whose columns `columns` sets.
pub(crate) fn table<W: Send, R: Rows>(
    store: &Store,
    run: &Run,
    schema: SchemaRef,
    begin: impl Fn() -> (W, R) + Sync,
    of: impl Fn(&mut W, &mut R, &Part<'_>, usize) -> Result<()> + Sync,
    columns: impl Fn(Columns, &Part<'_>, R) -> Result<Columns> + Sync,
) -> Result<Batches> {
    let finish = |part: &Part<'_>, rows| columns(Columns::new(&schema), part, rows)?.finish();
    let batches = of_traces(store, run, begin, of, finish)?;
    Ok((batches, schema))
}

/// The results of `of` for every chunk, in order, where the caller announces and counts the work.
pub(crate) fn in_chunks<W, T: Send>(
    store: &Store,
    run: &Run,
    worker: impl Fn() -> W + Sync + Send,
    of: impl Fn(&mut W, &Part<'_>) -> Result<T> + Sync + Send,
) -> Result<Vec<T>> {
    store.expect_whole()?;
    let starts: Vec<usize> = (store.chunks().iter())
        .scan(0, |next, chunk| Some(std::mem::replace(next, *next + chunk.events.num_rows())))
        .collect();
    run.pool().install(|| {
        let chunks = store.chunks().par_iter().zip(&starts).enumerate();
        let of_chunk = |worker: &mut W, (index, (chunk, &start)): (usize, (&Chunk, &usize))| {
            run.check()?;
            of(worker, &Part { index, chunk, view: ChunkView::new(store, chunk), start })
        };
        chunks.map_init(worker, of_chunk).collect()
    })
}

/// The schema of these columns.
pub(crate) fn schema_of(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>()))
}

/// The columns of a batch, each set by its name, in any order.
///
/// A name that the schema does not have, one that is set twice or never, a wrong type and a wrong length are mistakes of
/// the program: [`finish`](Self::finish) refuses them.
#[must_use]
pub(crate) struct Columns {
    schema: SchemaRef,
    arrays: Vec<Option<ArrayRef>>,
    /// The place that the next name has, if names come in the order of the schema.
    next: usize,
    /// The first mistake.
    mistake: Option<String>,
}

impl Columns {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let n = schema.fields().len();
        Self { schema: Arc::clone(schema), arrays: vec![None; n], next: 0, mistake: None }
    }

    pub(crate) fn set(mut self, name: &str, array: ArrayRef) -> Self {
        match self.put(name, array) {
            Ok(()) => self,
            Err(mistake) => self.refuse(mistake),
        }
    }

    pub(crate) fn numbers(self, name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        self.set(name, Arc::new(values.into_iter().collect::<Float64Array>()))
    }

    pub(crate) fn counts(self, name: &str, values: impl IntoIterator<Item = Option<u32>>) -> Self {
        self.set(name, Arc::new(values.into_iter().collect::<UInt32Array>()))
    }

    pub(crate) fn tokens(self, name: &str, values: impl IntoIterator<Item = Option<i64>>) -> Self {
        self.set(name, Arc::new(values.into_iter().collect::<Int64Array>()))
    }

    pub(crate) fn flags(self, name: &str, values: impl IntoIterator<Item = Option<bool>>) -> Self {
        self.set(name, Arc::new(values.into_iter().collect::<BooleanArray>()))
    }

    pub(crate) fn texts<'a>(self, name: &str, values: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        self.set(name, Arc::new(values.into_iter().collect::<StringViewArray>()))
    }

    /// Codes of a closed vocabulary, [`u8::MAX`] being null.
    pub(crate) fn words(self, name: &str, codes: Vec<u8>, words: &'static [&'static str]) -> Result<Self> {
        Ok(self.set(name, word_array(codes, words)?))
    }

    /// The column `reason`.
    pub(crate) fn reasons(self, reasons: impl IntoIterator<Item = Option<Reason>>) -> Result<Self> {
        let codes = reasons.into_iter().map(|reason| reason.map_or(u8::MAX, |reason| reason as u8));
        self.words("reason", codes.collect(), REASONS)
    }

    /// Columns of another table as they are.
    pub(crate) fn shared(mut self, names: &[&str], from: &RecordBatch) -> Self {
        for name in names {
            self = self.of(name, from.column_by_name(name).map(Arc::clone));
        }
        self
    }

    /// Rows of columns of another table.
    pub(crate) fn taken(mut self, names: &[&str], from: &RecordBatch, rows: &UInt32Array) -> Result<Self> {
        for name in names {
            let rows_of = |column: &ArrayRef| take(column, rows, None);
            self = self.of(name, from.column_by_name(name).map(rows_of).transpose()?);
        }
        Ok(self)
    }

    fn of(self, name: &str, array: Option<ArrayRef>) -> Self {
        match array {
            Some(array) => self.set(name, array),
            None => self.refuse(format!("column '{name}' is not in the table that it is of")),
        }
    }

    /// The batch.
    pub(crate) fn finish(mut self) -> Result<RecordBatch> {
        if let Some(at) = self.arrays.iter().position(Option::is_none) {
            let name = self.schema.field(at).name().clone();
            self = self.refuse(format!("column '{name}' is not set"));
        }
        match self.mistake {
            Some(mistake) => Err(ArrowError::SchemaError(mistake).into()),
            None => Ok(RecordBatch::try_new(self.schema, self.arrays.into_iter().flatten().collect())?),
        }
    }

    fn refuse(mut self, mistake: String) -> Self {
        self.mistake.get_or_insert(mistake);
        self
    }

    fn put(&mut self, name: &str, array: ArrayRef) -> std::result::Result<(), String> {
        let fields = self.schema.fields();
        let at = match fields.get(self.next) {
            Some(field) if field.name() == name => self.next,
            _ => (fields.iter().position(|field| field.name() == name))
                .ok_or_else(|| format!("column '{name}' is not in the schema"))?,
        };
        let (actual, expected) = (array.data_type(), fields[at].data_type());
        if actual != expected {
            return Err(format!("column '{name}' is {actual}, expected {expected}"));
        }
        if self.arrays[at].replace(array).is_some() {
            return Err(format!("column '{name}' is set twice"));
        }
        self.next = at + 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Kind;

    fn columns() -> Columns {
        let column = |name, kind| Column { name, kind, nullable: true };
        Columns::new(&schema_of(&[
            column("seq", Kind::U32),
            column("credit", Kind::F64),
            column("reason", Kind::Word(REASONS)),
        ]))
    }

    fn refusal(columns: Columns) -> String {
        columns.finish().unwrap_err().to_string()
    }

    #[test]
    fn columns_stand_in_the_order_of_the_schema() {
        let batch = (columns().reasons([None, Some(Reason::GraphCycle)]).unwrap())
            .numbers("credit", [Some(0.5), None])
            .counts("seq", [Some(0), Some(1)])
            .finish()
            .unwrap();
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["seq", "credit", "reason"]);
        assert_eq!((batch.num_rows(), batch.column(1).null_count()), (2, 1));
        let other =
            columns().shared(&["seq", "credit"], &batch).taken(&["reason"], &batch, &vec![0, 1].into());
        assert_eq!(other.unwrap().finish().unwrap(), batch);
    }

    #[test]
    fn mistakes_are_refused() {
        let full = || columns().counts("seq", [Some(0)]).numbers("credit", [None]).reasons([None]).unwrap();
        full().finish().unwrap();
        let batch = full().finish().unwrap();
        for (wrong, message) in [
            (columns().counts("seq", [Some(0)]).numbers("credit", [None]), "column 'reason' is not set"),
            (full().numbers("value", [None]), "column 'value' is not in the schema"),
            (full().numbers("credit", [None]), "column 'credit' is set twice"),
            (columns().tokens("seq", [Some(0)]), "column 'seq' is Int64, expected UInt32"),
            (
                columns().words("reason", vec![0], &["other"]).unwrap().flags("seq", []),
                "column 'seq' is Boolean",
            ),
            (full().shared(&["value"], &batch), "column 'value' is not in the table that it is of"),
            (columns().counts("seq", []).numbers("credit", [None]).reasons([None]).unwrap(), "same length"),
        ] {
            let message_of = refusal(wrong);
            assert!(message_of.contains(message), "{message_of}");
        }
    }
}
