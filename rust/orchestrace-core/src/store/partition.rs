//! Partitions of a store by a hash of the traces' group, so that no group is split.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::dictionary::garbage_collect_any_dictionary;
use arrow_select::filter::filter_record_batch;
use xxhash_rust::xxh3::Xxh3;

use super::arrays::{filter_chunk, text_at};
use super::{Chunk, Store};
use crate::error::{Error, Result, unknown_name};
use crate::schema::{Kind, TRACES};

/// Parts of a store.
#[derive(Debug)]
pub struct Partition {
    /// The part of each trace, chunk by chunk.
    parts: Vec<Vec<u32>>,
    /// The part of each label: that of the first trace with its id.
    labels: Vec<u32>,
    n: u32,
}

/// Stands for the part of labels of which the trace is not there.
const LOOSE: u32 = u32::MAX;

impl Partition {
    /// Assigns every trace to one of `n` parts by its values in the `key` columns of `traces`, which must be
    /// text, names or words. The hash is stable: equal keys meet in one part whatever store they come from.
    ///
    /// ```
    /// use orchestrace_core::{ingest::{Input, ReadOptions, read}, run::Run, store::Partition};
    ///
    /// let store = read(Vec::new(), &ReadOptions::default(), &Run::new(Some(1))?)?;
    /// assert!(Partition::new(&store, &["group_id".into()], 4)?.present().is_empty());
    /// # Ok::<(), orchestrace_core::error::Error>(())
    /// ```
    pub fn new(store: &Store, key: &[String], n: u32) -> Result<Self> {
        store.expect_whole()?;
        let columns = key.iter().map(|name| key_column(name)).collect::<Result<Vec<usize>>>()?;
        if columns.is_empty() || n == 0 {
            return Err(Error::Parameter("a partition needs a column and at least one part".into()));
        }
        let parts =
            store.chunks.iter().map(|c| (0..c.n_traces()).map(|row| part(c, &columns, row, n)).collect());
        let parts: Vec<Vec<u32>> = parts.collect();
        let mut of_id: HashMap<&str, u32> = HashMap::new();
        if store.labels.num_rows() > 0 {
            for (chunk, parts) in store.chunks.iter().zip(&parts) {
                for (id, part) in chunk.traces.column(1).as_string_view().iter().zip(parts) {
                    of_id.entry(id.unwrap_or_default()).or_insert(*part);
                }
            }
        }
        let labeled = store.labels.column(0).as_string_view().iter();
        let labels = labeled.map(|id| of_id.get(id.unwrap_or_default()).copied().unwrap_or(LOOSE)).collect();
        Ok(Self { parts, labels, n })
    }

    /// The parts that have a trace, ascending.
    #[must_use]
    pub fn present(&self) -> Vec<u32> {
        let mut seen = vec![false; self.n as usize];
        self.parts.iter().flatten().for_each(|part| seen[*part as usize] = true);
        (0..self.n).filter(|part| seen[*part as usize]).collect()
    }

    /// The traces of one part, with everything that is theirs; without the quarantine, which is of no trace.
    pub fn part(&self, store: &Store, part: u32) -> Result<Part> {
        let mut chunks = Vec::new();
        for (chunk, parts) in store.chunks.iter().zip(&self.parts) {
            let keep: Vec<bool> = parts.iter().map(|p| *p == part).collect();
            if keep.iter().all(|k| *k) {
                chunks.push(chunk.clone());
            } else if keep.iter().any(|k| *k) {
                chunks.push(filter_chunk(chunk, &keep)?);
            }
        }
        self.store(store, part, chunks)
    }

    /// The labels of traces that are not here: those that an annotator wrote apart from the recording.
    pub fn loose_labels(&self, store: &Store) -> Result<Part> {
        self.store(store, LOOSE, Vec::new())
    }

    fn store(&self, from: &Store, part: u32, chunks: Vec<Chunk>) -> Result<Part> {
        let mask = self.labels.iter().map(|p| Some(*p == part)).collect::<BooleanArray>();
        Ok(Part(Store {
            records_read: chunks.iter().map(Chunk::n_traces).sum::<usize>() as u64,
            chunks,
            names: Arc::clone(&from.names),
            labels: filter_record_batch(&from.labels, &mask)?,
            quarantine: RecordBatch::new_empty(from.quarantine.schema()),
            record_counts: RecordBatch::new_empty(from.record_counts.schema()),
            event_columns: from.event_columns.clone(),
            lifted: from.lifted.clone(),
            projection: from.projection,
            mapping: None,
            set_aside: Vec::new(),
        }))
    }
}

/// Tables of one part.
#[derive(Debug)]
pub struct Part(Store);

impl Part {
    /// Batches of a table, as [`Store::table`]. A dictionary that is longer than its column is cut to the names
    /// that occur: that of a whole store may have a name for every trace.
    pub fn table(&self, name: &str) -> Result<Vec<RecordBatch>> {
        self.0.table(name)?.iter().map(compact).collect()
    }

    /// Schema of a table.
    pub fn table_schema(&self, name: &str) -> Result<SchemaRef> {
        self.0.table_schema(name)
    }
}

fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let columns = batch.columns().iter().map(|column| match column.as_any_dictionary_opt() {
        Some(names) if names.values().len() > rows => garbage_collect_any_dictionary(names),
        _ => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

fn key_column(name: &str) -> Result<usize> {
    let textual = |kind: Kind| matches!(kind, Kind::Text | Kind::Name(_) | Kind::Word(_));
    let names: Vec<&str> = TRACES.columns.iter().filter(|c| textual(c.kind)).map(|c| c.name).collect();
    match TRACES.index(name) {
        Some(i) if textual(TRACES.columns[i].kind) => Ok(i),
        _ => Err(Error::Parameter(unknown_name("grouping column of traces", name, &names))),
    }
}

fn part(chunk: &Chunk, columns: &[usize], row: usize, n: u32) -> u32 {
    let mut hash = Xxh3::new();
    for column in columns {
        // A length before each value keeps ("ab", "c") from meeting ("a", "bc"); a null is no text.
        let value = text_at(chunk.traces.column(*column), row);
        hash.update(&value.map_or(u64::MAX, |v| v.len() as u64).to_le_bytes());
        hash.update(value.unwrap_or_default().as_bytes());
    }
    (hash.digest() % u64::from(n)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Input, ReadOptions, read};
    use crate::run::Run;

    fn store() -> Store {
        let line = |trace: &str, task: &str| {
            format!(
                r#"{{"trace_id":"{trace}","task_id":"{task}","events":[{{"id":"e","t":0,"type":"message","agent":"x{trace}"}}],"edges":[],"rewards":{{"team":1}},"costs":{{"tokens":0,"wall_clock_s":0}}}}"#
            )
        };
        let lines: Vec<String> = (0..40).map(|i| line(&format!("t{i}"), &format!("q{}", i / 4))).collect();
        let reader = Box::new(std::io::Cursor::new(lines.join("\n")));
        let options = ReadOptions { block_size: 1000, ..ReadOptions::default() };
        let run = Run::new(Some(2)).expect("two threads");
        read(vec![Input::Stream { name: "memory".into(), reader }], &options, &run).expect("valid")
    }

    #[test]
    fn groups_stay_together_and_nothing_is_lost() {
        let store = store();
        let partition = Partition::new(&store, &["group_id".into()], 3).expect("a column of traces");
        let mut traces = 0;
        let mut of_group = HashMap::new();
        for part in partition.present() {
            let piece = partition.part(&store, part).expect("filters");
            let here = piece.table("traces").expect("a table");
            traces += piece.0.n_traces();
            assert_eq!(piece.0.n_traces(), piece.0.n_events());
            for batch in here {
                for group in batch.column(3).as_string_view().iter().flatten() {
                    assert_eq!(*of_group.entry(group.to_owned()).or_insert(part), part);
                }
            }
        }
        assert_eq!(traces, 40);
        let part = partition.part(&store, partition.present()[0]).expect("filters");
        for batch in part.table("events").expect("a table") {
            let names = batch.column_by_name("agent").and_then(|c| c.as_any_dictionary_opt()).expect("names");
            assert_eq!(names.values().len(), batch.num_rows());
        }
        assert!(Partition::new(&store, &["line".into()], 3).is_err());
    }
}
