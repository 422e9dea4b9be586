//! The store: immutable columns in chunks, cut between traces.
//!
//! A chunk is one block of input. Its columns are Arrow arrays that go to Python as they are; kernels see
//! slices of them through [`view::ChunkView`].

use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::take::take;

use crate::columns::intern::Interner;
use crate::columns::mapping_counts::MappingCounts;
use crate::columns::{LiftKind, Projection};
use crate::error::{Error, Result};
use crate::schema::{self, Column, Dict, Table};

pub(crate) mod arrays;
pub mod ownership;
mod partition;
pub mod view;
mod write;

#[cfg(test)]
pub(crate) use arrays::text_at;
pub use arrays::{code_array, word_array};
use ownership::Ownership;
pub use partition::{Part, Partition};
pub use write::write_jsonl;

/// The dictionaries of a store, shared by all of its chunks.
#[derive(Debug)]
pub struct Names {
    interners: Vec<Interner>,
    arrays: Vec<ArrayRef>,
}

impl Names {
    pub(crate) fn new(interners: Vec<Interner>) -> Self {
        let arrays = interners
            .iter()
            .map(|i| Arc::new(StringArray::from_iter_values(i.names())) as ArrayRef)
            .collect();
        Self { interners, arrays }
    }

    /// The dictionary of a vocabulary.
    #[must_use]
    pub fn dict(&self, dict: Dict) -> &Interner {
        &self.interners[dict as usize]
    }

    /// Its names as an Arrow array, in code order.
    #[must_use]
    pub fn array(&self, dict: Dict) -> &ArrayRef {
        &self.arrays[dict as usize]
    }
}

/// The tables of one block of input, for whole traces.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Table `traces`.
    pub traces: RecordBatch,
    /// Table `events`: the columns that are in use anywhere in the store.
    pub events: RecordBatch,
    /// Table `edges`.
    pub edges: RecordBatch,
    /// Table `agents`.
    pub agents: RecordBatch,
    /// Table `measures`.
    pub measures: RecordBatch,
    /// Table `findings`.
    pub findings: RecordBatch,
    /// First row of each trace in events, edges and measures, and the end of the last one.
    pub starts: Vec<[u32; 3]>,
    /// Traces whose document has an empty `metrics`, so that it is written again.
    pub(crate) empty_metrics: Vec<bool>,
    /// Owners and outcomes; none where the store was read for nothing that needs them.
    pub(crate) ownership: Option<Arc<Ownership>>,
    /// `trace_id` of every event, once somebody asked for it.
    pub(crate) trace_ids: OnceLock<ArrayRef>,
}

impl Chunk {
    /// Number of traces.
    #[must_use]
    pub fn n_traces(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// `trace_id` of every event, views of the one text. Every result at unit `event` has this column: it is made
    /// once and shared.
    pub(crate) fn trace_ids(&self) -> Result<ArrayRef> {
        if let Some(ids) = self.trace_ids.get() {
            return Ok(Arc::clone(ids));
        }
        let spans = self.starts.windows(2).zip(0..);
        let trace_of: UInt32Array =
            spans.flat_map(|(w, i)| std::iter::repeat_n(i, (w[1][0] - w[0][0]) as usize)).collect();
        let ids = take(self.traces.column(1), &trace_of, None)?;
        Ok(Arc::clone(self.trace_ids.get_or_init(|| ids)))
    }
}

/// A corpus in memory.
#[derive(Debug)]
pub struct Store {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) names: Arc<Names>,
    pub(crate) labels: RecordBatch,
    pub(crate) quarantine: RecordBatch,
    pub(crate) record_counts: RecordBatch,
    /// Columns of `events` that are in use, by their place in the table.
    pub(crate) event_columns: Vec<usize>,
    pub(crate) lifted: Vec<(String, LiftKind)>,
    pub(crate) records_read: u64,
    pub(crate) projection: Projection,
    pub(crate) mapping: Option<Arc<MappingCounts>>,
    pub(crate) set_aside: Vec<SetAside>,
}

/// Something of tables from elsewhere that a store does not hold, left out rather than refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Number of the trace that is left out; `None` where no trace is, but a label.
    pub trace: Option<u32>,
    /// Where it stood, what was found and expected.
    pub message: String,
}

impl Store {
    /// What was left out of the tables that it was made from, in the order of traces.
    #[must_use]
    pub fn set_aside(&self) -> &[SetAside] {
        &self.set_aside
    }

    /// The chunks, in trace order.
    #[must_use]
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The dictionaries.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Number of traces.
    #[must_use]
    pub fn n_traces(&self) -> usize {
        self.chunks.iter().map(Chunk::n_traces).sum()
    }

    /// Number of events.
    #[must_use]
    pub fn n_events(&self) -> usize {
        self.chunks.iter().map(|c| c.events.num_rows()).sum()
    }

    /// Number of edges; 0 where the store was read for nothing that needs them.
    #[must_use]
    pub fn n_edges(&self) -> usize {
        let count = |c: &Chunk| c.starts.last().map_or(0, |end| end[1] as usize);
        self.chunks.iter().map(count).sum()
    }

    /// What the store was read for.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// An error if tables or columns were left out when the store was read: what looks at whole traces
    /// cannot do without them.
    pub fn expect_whole(&self) -> Result<()> {
        if self.projection.is_all() {
            return Ok(());
        }
        Err(Error::Parameter(
            "the corpus lacks tables or columns that were not read; read it without a projection".into(),
        ))
    }

    /// Records that were read, whatever became of them: the sum of `record_counts`, also of a store that was
    /// filtered since.
    #[must_use]
    pub fn records_read(&self) -> u64 {
        self.records_read
    }

    /// What the reading found of its mapping, if it had one; also of a store that was filtered since. Of several
    /// batches the last one says it, of them all.
    #[must_use]
    pub fn mapping_counts(&self) -> Option<&MappingCounts> {
        self.mapping.as_deref()
    }

    /// Records that were rejected.
    #[must_use]
    pub fn records_quarantined(&self) -> usize {
        self.quarantine.num_rows()
    }

    /// Columns that unknown event keys were lifted into.
    #[must_use]
    pub fn lifted(&self) -> &[(String, LiftKind)] {
        &self.lifted
    }

    /// Bytes held by columns and dictionaries.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let batches = self
            .chunks
            .iter()
            .flat_map(|c| [&c.traces, &c.events, &c.edges, &c.agents, &c.measures, &c.findings]);
        let columns: usize = batches
            .chain([&self.labels, &self.quarantine, &self.record_counts])
            .flat_map(|b| b.columns().iter().map(buffers_size))
            .sum();
        // views of ids that are counted already
        let views: usize =
            self.chunks.iter().filter_map(|c| c.trace_ids.get()).map(|ids| ids.len() * 16).sum();
        let owners: usize = self.chunks.iter().filter_map(|c| Some(c.ownership.as_ref()?.nbytes())).sum();
        columns + views + owners + self.names.interners.iter().map(Interner::nbytes).sum::<usize>()
    }

    /// Schema of a table as this store holds it: `events` without the columns that no event uses.
    pub fn table_schema(&self, name: &str) -> Result<SchemaRef> {
        let table = find_table(name)?;
        if !self.projection.table(name) {
            return Err(Error::Parameter(format!("the corpus was read without the table '{name}'")));
        }
        if name != "events" {
            return Ok(table.arrow());
        }
        Ok(events_schema(&self.event_columns, &self.lifted, &self.projection))
    }

    /// Batches of a table, one for each chunk that has rows.
    pub fn table(&self, name: &str) -> Result<Vec<RecordBatch>> {
        self.table_schema(name)?;
        let mut batches: Vec<RecordBatch> = match name {
            "labels" => vec![self.labels.clone()],
            "quarantine" => vec![self.quarantine.clone()],
            "record_counts" => vec![self.record_counts.clone()],
            _ => self
                .chunks
                .iter()
                .map(|c| match name {
                    "traces" => c.traces.clone(),
                    "events" => c.events.clone(),
                    "edges" => c.edges.clone(),
                    "agents" => c.agents.clone(),
                    "measures" => c.measures.clone(),
                    _ => c.findings.clone(),
                })
                .collect(),
        };
        batches.retain(|batch| batch.num_rows() > 0);
        Ok(batches)
    }

    /// A table in one batch: the same bytes whatever the threads and the block size.
    pub fn combined(&self, name: &str) -> Result<RecordBatch> {
        let schema = self.table_schema(name)?;
        let batch = arrow_select::concat::concat_batches(&schema, &self.table(name)?)?;
        // Text of a joined column still lies in the buffers of its chunks: one buffer makes it canonical.
        let columns = batch.columns().iter().map(|column| match column.as_string_view_opt() {
            Some(text) => Arc::new(text.gc()) as ArrayRef,
            None => Arc::clone(column),
        });
        // A projection may be of columns that no event uses: rows without columns.
        let shape = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, columns.collect(), &shape)?)
    }

    /// The traces whose numbers are listed (ascending), with everything that belongs to them. They keep
    /// their numbers; the quarantine and the counts of records stay, since they are about the reading.
    pub fn filter(&self, traces: &[u32]) -> Result<Store> {
        self.expect_whole()?;
        if traces.windows(2).any(|w| w[0] >= w[1]) {
            return Err(Error::Parameter("trace numbers must be ascending and distinct".into()));
        }
        let mut chunks = Vec::new();
        for chunk in &self.chunks {
            let numbers = arrays::u32_values(&chunk.traces, 0);
            let keep: Vec<bool> = numbers.iter().map(|n| traces.binary_search(n).is_ok()).collect();
            if keep.iter().any(|k| *k) {
                chunks.push(if keep.iter().all(|k| *k) {
                    chunk.clone()
                } else {
                    arrays::filter_chunk(chunk, &keep)?
                });
            }
        }
        let filtered = Store {
            records_read: self.records_read,
            chunks,
            names: Arc::clone(&self.names),
            labels: self.labels.clone(),
            quarantine: self.quarantine.clone(),
            record_counts: self.record_counts.clone(),
            event_columns: self.event_columns.clone(),
            lifted: self.lifted.clone(),
            projection: self.projection,
            mapping: self.mapping.clone(),
            set_aside: self.set_aside.clone(),
        };
        let labels = arrays::filter_labels(&filtered)?;
        Ok(Store { labels, ..filtered })
    }
}

/// The table of a name.
pub(crate) fn find_table(name: &str) -> Result<&'static Table> {
    schema::TABLES.iter().find(|t| t.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = schema::TABLES.iter().map(|t| t.name).collect();
        Error::Parameter(crate::error::unknown_name("table", name, &names))
    })
}

/// Columns that every whole store has: up to `agent`.
pub(crate) const REQUIRED_EVENT_COLUMNS: usize = 6;

pub(crate) fn events_schema(
    columns: &[usize],
    lifted: &[(String, LiftKind)],
    projection: &Projection,
) -> SchemaRef {
    let required = schema::EVENTS.columns[..REQUIRED_EVENT_COLUMNS].iter().enumerate();
    let required = required.filter(|(i, _)| projection.column(*i)).map(|(_, column)| Column::field(column));
    let optional = columns.iter().filter(|i| projection.column(**i)).map(|i| {
        if let Some(column) = schema::EVENTS.columns.get(*i) {
            column.field()
        } else {
            let (name, kind) = &lifted[*i - schema::EVENTS.columns.len()];
            Field::new(name, kind.kind().arrow(), true)
        }
    });
    Arc::new(Schema::new(required.chain(optional).collect::<Vec<_>>()))
}

/// Bytes of an array's own buffers, dictionaries and shared text not counted twice.
fn buffers_size(array: &ArrayRef) -> usize {
    let data = array.to_data();
    let children: usize = if matches!(array.data_type(), arrow_schema::DataType::Dictionary(..)) {
        0
    } else {
        data.child_data()
            .iter()
            .map(|c| c.buffers().iter().map(arrow_buffer::Buffer::len).sum::<usize>())
            .sum()
    };
    data.buffers().iter().map(arrow_buffer::Buffer::len).sum::<usize>()
        + data.nulls().map_or(0, |n| n.len().div_ceil(8))
        + children
}
