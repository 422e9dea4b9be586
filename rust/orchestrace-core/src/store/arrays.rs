//! Constructors of Arrow arrays that several rooms share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, StringViewArray, UInt8Array, UInt32Array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;

use super::{Chunk, Store};
use crate::columns::column::NO_CODE;
use crate::error::Result;

/// Absent entries of a small vocabulary.
pub(crate) const NO_WORD: u8 = u8::MAX;

/// A categorical column of codes, [`NO_CODE`] being null.
pub fn code_array(mut codes: Vec<u32>, names: &ArrayRef) -> Result<ArrayRef> {
    let nulls = if codes.contains(&NO_CODE) {
        let valid = BooleanBuffer::collect_bool(codes.len(), |i| codes[i] != NO_CODE);
        for code in codes.iter_mut().filter(|c| **c == NO_CODE) {
            *code = 0;
        }
        Some(NullBuffer::new(valid))
    } else {
        None
    };
    let keys = UInt32Array::new(codes.into(), nulls);
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(names))?))
}

/// A categorical column of a block's own codes, which `map` turns into codes of the store.
pub(crate) fn mapped_array(mut codes: Vec<u32>, map: &[u32], names: &ArrayRef) -> Result<ArrayRef> {
    // Where a block met the names in the order of the corpus its codes are right already.
    if map.iter().enumerate().all(|(i, code)| i as u32 == *code) {
        return code_array(codes, names);
    }
    // One entry more, for "no name": then every code is looked up alike.
    let mut map = map.to_vec();
    let none = map.len();
    map.push(0);
    let mut valid = Vec::with_capacity(codes.len().div_ceil(8));
    let mut nulls = 0;
    for group in codes.chunks_mut(8) {
        let mut bits = 0;
        for (i, code) in group.iter_mut().enumerate() {
            bits |= u8::from(*code != NO_CODE) << i;
            *code = map[(*code as usize).min(none)];
        }
        nulls += group.len() - bits.count_ones() as usize;
        valid.push(bits);
    }
    let rows = codes.len();
    let nulls = (nulls > 0).then(|| NullBuffer::new(BooleanBuffer::new(valid.into(), 0, rows)));
    let keys = UInt32Array::new(codes.into(), nulls);
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(names))?))
}

/// A column of a closed vocabulary, [`NO_WORD`] being null.
pub fn word_array(mut codes: Vec<u8>, words: &'static [&'static str]) -> Result<ArrayRef> {
    let nulls = if codes.contains(&NO_WORD) {
        let valid = BooleanBuffer::collect_bool(codes.len(), |i| codes[i] != NO_WORD);
        for code in codes.iter_mut().filter(|c| **c == NO_WORD) {
            *code = 0;
        }
        Some(NullBuffer::new(valid))
    } else {
        None
    };
    let keys = UInt8Array::new(codes.into(), nulls);
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(keys, word_values(words))?))
}

/// The words as an array, one for the whole process: arrays that share it are put together without merging
/// their dictionaries, of which there is one a chunk.
pub(crate) fn word_values(words: &'static [&'static str]) -> ArrayRef {
    static VALUES: Mutex<Vec<(&[&str], ArrayRef)>> = Mutex::new(Vec::new());
    let mut values = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, array)) = values.iter().find(|(known, _)| *known == words) {
        return Arc::clone(array);
    }
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(words));
    values.push((words, Arc::clone(&array)));
    array
}

/// Values of a `UInt32` column without nulls.
pub(crate) fn u32_values(batch: &RecordBatch, column: usize) -> &[u32] {
    batch.column(column).as_primitive::<UInt32Type>().values()
}

/// Text values, for columns built from rows.
pub(crate) fn text_array<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

/// The traces of a chunk that `keep` names, with their rows in all tables.
pub(crate) fn filter_chunk(chunk: &Chunk, keep: &[bool]) -> Result<Chunk> {
    let mut numbers: Vec<u32> = (u32_values(&chunk.traces, 0).iter().zip(keep))
        .filter_map(|(number, keep)| keep.then_some(*number))
        .collect();
    numbers.sort_unstable();
    // The first column of every table is the trace's number.
    let rows = |batch: &RecordBatch| -> Result<RecordBatch> {
        let stays = |n: &u32| Some(numbers.binary_search(n).is_ok());
        let mask = u32_values(batch, 0).iter().map(stays).collect::<BooleanArray>();
        Ok(filter_record_batch(batch, &mask)?)
    };
    // The large ones are known by their rows.
    let spans = |batch: &RecordBatch, table: usize| -> Result<RecordBatch> {
        let mut mask = BooleanBufferBuilder::new(batch.num_rows());
        for (window, keep) in chunk.starts.windows(2).zip(keep) {
            mask.append_n((window[1][table] - window[0][table]) as usize, *keep);
        }
        Ok(filter_record_batch(batch, &BooleanArray::new(mask.finish(), None))?)
    };
    let mut starts = vec![[0_u32; 3]];
    for (i, window) in chunk.starts.windows(2).enumerate() {
        if keep[i] {
            let last = starts[starts.len() - 1];
            starts.push(std::array::from_fn(|k| last[k] + window[1][k] - window[0][k]));
        }
    }
    Ok(Chunk {
        traces: rows(&chunk.traces)?,
        events: spans(&chunk.events, 0)?,
        edges: spans(&chunk.edges, 1)?,
        agents: rows(&chunk.agents)?,
        measures: spans(&chunk.measures, 2)?,
        findings: rows(&chunk.findings)?,
        starts,
        empty_metrics: chunk
            .empty_metrics
            .iter()
            .zip(keep)
            .filter(|(_, keep)| **keep)
            .map(|(e, _)| *e)
            .collect(),
        ownership: chunk.ownership.as_ref().map(|ownership| Arc::new(ownership.filter(keep))),
        trace_ids: OnceLock::new(),
    })
}

/// The labels of the traces that a store has.
pub(crate) fn filter_labels(store: &Store) -> Result<RecordBatch> {
    if store.labels.num_rows() == 0 {
        return Ok(store.labels.clone());
    }
    let ids: HashSet<&str> =
        store.chunks.iter().flat_map(|c| c.traces.column(1).as_string_view().iter().flatten()).collect();
    let labeled = store.labels.column(0).as_string_view();
    let mask = labeled.iter().map(|id| Some(id.is_some_and(|id| ids.contains(id)))).collect::<BooleanArray>();
    Ok(filter_record_batch(&store.labels, &mask)?)
}

/// Text of a row in a column of text, names or words.
pub(crate) fn text_of<'a>(batch: &'a RecordBatch, name: &str, row: usize) -> Option<&'a str> {
    text_at(batch.column_by_name(name)?, row)
}

/// Text of a row, whichever of Arrow's spellings of text the column has; `None` for a null and for a column
/// that is not text.
pub(crate) fn text_at(column: &dyn Array, row: usize) -> Option<&str> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Dictionary(key, _) => {
            let (values, code) = match **key {
                DataType::UInt8 => {
                    let column = column.as_dictionary::<UInt8Type>();
                    (column.values(), column.keys().value(row) as usize)
                }
                DataType::UInt16 => {
                    let column = column.as_dictionary::<UInt16Type>();
                    (column.values(), column.keys().value(row) as usize)
                }
                DataType::UInt32 => {
                    let column = column.as_dictionary::<UInt32Type>();
                    (column.values(), column.keys().value(row) as usize)
                }
                _ => return None,
            };
            text_at(values, code)
        }
        _ => None,
    }
}
