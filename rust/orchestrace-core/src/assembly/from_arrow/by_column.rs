//! Events of a run of traces, taken over column by column.
//!
//! Checks are those of single events: numbers in their ranges, names that are not empty, rows in order. Where one of them
//! fails, or a column is spelled so that it has to be looked at row by row, nothing is said here, and the traces go event
//! by event: that way finds the same, and says where.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use hashbrown::HashMap;

use super::Builder;
use super::by_row::trimmed;
use crate::columns::RawChunk;
use crate::columns::block::BlockWriter;
use crate::columns::column::NO_CODE;
use crate::columns::event_columns::{Finished, OptionalColumn};
use crate::columns::gate::{self, Bound};
use crate::columns::writer::TraceWriter;
use crate::schema::{Dict, EVENTS, EventField, EventType, Kind};
use crate::store::arrays::text_at;

/// A dictionary with more entries than so many for each row of a piece is looked up, not laid out.
const LAID_OUT: usize = 4;

/// What every event of a piece has, judged, and arrays of what some have that can stay as they are.
pub(super) struct Events<'a> {
    first: usize,
    ids: ArrayRef,
    t: &'a [f64],
    types: Vec<u8>,
    agents: Vec<u32>,
    /// By place in the table.
    arrays: Vec<(usize, ArrayRef)>,
}

impl Builder<'_> {
    /// Writes the optional columns of rows of `events` into an empty block, and hands out the others; nothing if a row
    /// has to be looked at. Names get their codes in the order of the events, and of the columns of each, as they do event
    /// by event. O(rows · columns).
    pub(super) fn events_by_column(&self, rows: Range<usize>, block: &mut BlockWriter) -> Option<Events<'_>> {
        let [_, Some(seqs), Some(ids), Some(times), Some(types), Some(agents)] = self.events.columns[..6]
        else {
            return None;
        };
        let t = &times.as_primitive::<Float64Type>().values()[rows.clone()];
        let bound = Bound::of_field(EventField::T);
        if !t.iter().all(|t| bound.holds(*t)) {
            return None;
        }
        let types = words(types, rows.clone(), |word| EventType::parse(word).map(|kind| kind as u8))?;
        let seqs = seqs.as_primitive::<UInt32Type>().values();
        let begin = self.spans.events.partition_point(|start| *start < rows.start);
        for window in self.spans.events[begin..].windows(2).take_while(|w| w[1] <= rows.end) {
            if !seqs[window[0]..window[1]].iter().zip(0..).all(|(seq, expected)| *seq == expected) {
                return None;
            }
        }
        let mut arrays = Vec::new();
        let mut names = vec![(None, Coded::new(agents, rows.clone(), Dict::Agent)?)];
        for (place, array) in self.events.columns.iter().enumerate().skip(6) {
            let Some(array) = array else { continue };
            let piece = array.slice(rows.start, rows.len());
            if piece.null_count() == rows.len() {
                continue;
            }
            let field = EventField::ALL[place - 2];
            if let Kind::Name(dict) = field.column().kind {
                names.push((Some(field), Coded::new(array, rows.clone(), dict)?));
            } else if field == EventField::Extras {
                self.extras_by_row(array, rows.clone(), block)?;
            } else if !EventField::TOKENS.contains(&field)
                && let Some(array) = unchanged(&piece, Some(field))
            {
                arrays.push((place, array));
            } else {
                take_over(block.events.optional(field), &piece, Some(field))?;
            }
        }
        for (place, (column, array)) in block.events.lifted.iter_mut().zip(&self.lifted).enumerate() {
            let piece = array.slice(rows.start, rows.len());
            if piece.null_count() == rows.len() {
                continue;
            }
            match unchanged(&piece, None) {
                Some(array) => arrays.push((EVENTS.columns.len() + place, array)),
                None => take_over(column, &piece, None)?,
            }
        }
        for row in 0..rows.len() {
            for (_, column) in &mut names {
                column.settle(row, block);
            }
        }
        let mut agents = Vec::new();
        for (field, column) in names {
            match field.map(|field| block.events.optional(field)) {
                Some(OptionalColumn::Code(codes, _)) => codes.codes.extend_from_slice(&column.codes),
                _ => agents = column.codes,
            }
        }
        let unnamed = block.dicts[Dict::Agent as usize].find("");
        if agents.iter().any(|code| *code == NO_CODE || Some(*code) == unnamed) {
            return None;
        }
        let ids = unchanged(&ids.slice(rows.start, rows.len()), None)?;
        Some(Events { first: rows.start, ids, t, types, agents, arrays })
    }

    /// Members beside the columns are JSON, which is judged text by text.
    fn extras_by_row(&self, array: &ArrayRef, rows: Range<usize>, block: &mut BlockWriter) -> Option<()> {
        let first = rows.start;
        each_text(array, rows, |row, text| {
            let text = trimmed(text);
            let rest = self.extras(row, text, &mut block.scratch).ok()?;
            let members = rest.as_deref().unwrap_or(text);
            if let OptionalColumn::Text(column) = block.events.optional(EventField::Extras)
                && (members != "{}" || text == "{}")
            {
                column.set(row - first, members);
            }
            Some(())
        })
    }
}

impl Events<'_> {
    /// Writes rows of `events`, those of one trace, behind those of the trace before.
    pub(super) fn write(&self, rows: Range<usize>, out: &mut TraceWriter<'_>) -> Option<()> {
        let events = &mut out.block.events;
        let piece_rows = rows.start - self.first..rows.end - self.first;
        let mut place = events.t.len();
        each_text(&self.ids, piece_rows.clone(), |_, id| {
            events.id.set(place, id);
            place += 1;
            (!id.is_empty()).then_some(())
        })?;
        events.t.extend_from_slice(&self.t[piece_rows.clone()]);
        events.types.extend_from_slice(&self.types[piece_rows.clone()]);
        events.agent.extend_from_slice(&self.agents[piece_rows]);
        (place == events.t.len()).then_some(())
    }

    /// Puts what stays as it is into the block of the piece.
    pub(super) fn add_arrays(&self, chunk: &mut RawChunk) {
        chunk.id = Arc::clone(&self.ids);
        let arrays = self.arrays.iter().map(|(place, array)| (*place, Finished::Array(Arc::clone(array))));
        chunk.optional.extend(arrays);
        chunk.optional.sort_by_key(|(place, _)| *place);
    }
}

/// A column of names, by place in its dictionary until a name has the code of the block.
struct Coded<'a> {
    codes: Vec<u32>,
    values: &'a ArrayRef,
    dict: Dict,
    settled: Settled,
}

/// Codes of the block by place in a dictionary.
enum Settled {
    LaidOut(Vec<u32>),
    LookedUp(HashMap<u32, u32>),
}

impl<'a> Coded<'a> {
    fn new(array: &'a ArrayRef, rows: Range<usize>, dict: Dict) -> Option<Self> {
        let many = LAID_OUT * rows.len();
        let (codes, values) = coded(array, rows)?;
        let settled = if values.len() <= many {
            Settled::LaidOut(vec![NO_CODE; values.len()])
        } else {
            Settled::LookedUp(HashMap::new())
        };
        Some(Self { codes, values, dict, settled })
    }

    /// The code of the block for the name in a row.
    #[inline]
    fn settle(&mut self, row: usize, block: &mut BlockWriter) {
        let place = self.codes[row];
        if place == NO_CODE {
            return;
        }
        let settled = match &mut self.settled {
            Settled::LaidOut(codes) => &mut codes[place as usize],
            Settled::LookedUp(codes) => codes.entry(place).or_insert(NO_CODE),
        };
        if *settled == NO_CODE
            && let Some(name) = text_at(self.values, place as usize)
        {
            *settled = block.dicts[self.dict as usize].code(name);
        }
        self.codes[row] = *settled;
    }
}

/// Rows of a categorical column by place in its dictionary, null as [`NO_CODE`]; nothing if the column is plain text.
fn coded(array: &ArrayRef, rows: Range<usize>) -> Option<(Vec<u32>, &ArrayRef)> {
    fn of<K: ArrowDictionaryKeyType>(array: &ArrayRef, rows: Range<usize>) -> (Vec<u32>, &ArrayRef) {
        let column = array.as_dictionary::<K>();
        let keys = &column.keys().values()[rows.clone()];
        let mut codes: Vec<u32> = keys.iter().map(|key| key.as_usize() as u32).collect();
        if let Some(nulls) = column.keys().nulls() {
            let nulls = nulls.slice(rows.start, rows.len());
            for (code, valid) in codes.iter_mut().zip(nulls.iter()) {
                *code = if valid { *code } else { NO_CODE };
            }
        }
        (codes, column.values())
    }
    match array.data_type() {
        DataType::Dictionary(key, _) => match **key {
            DataType::UInt8 => Some(of::<UInt8Type>(array, rows)),
            DataType::UInt16 => Some(of::<UInt16Type>(array, rows)),
            DataType::UInt32 => Some(of::<UInt32Type>(array, rows)),
            _ => None,
        },
        _ => None,
    }
}

/// Codes of words in rows of a categorical column; nothing if the column is plain text, or a row has no such word.
pub(super) fn words(array: &ArrayRef, rows: Range<usize>, parse: fn(&str) -> Option<u8>) -> Option<Vec<u8>> {
    let (places, values) = coded(array, rows)?;
    let codes: Vec<Option<u8>> =
        (0..values.len()).map(|place| text_at(values, place).and_then(parse)).collect();
    places.into_iter().map(|place| codes.get(place as usize).copied().flatten()).collect()
}

/// A piece of a column as the store holds it, if it can be that without a look at single rows: text apart from the buffers
/// of the rest of its column, and numbers in their ranges, zero where they are null.
fn unchanged(piece: &ArrayRef, field: Option<EventField>) -> Option<ArrayRef> {
    if let Some(texts) = piece.as_string_view_opt() {
        return Some(Arc::new(texts.gc()));
    }
    let numbers = piece.as_primitive_opt::<Float64Type>()?;
    let bound = field.map_or(Bound::Finite, Bound::of_field);
    let values = numbers.values().iter();
    // without a branch: the compiler takes several at a time
    let fits = values.clone().fold(true, |fits, value| fits & bound.holds(*value));
    let zero = numbers.nulls().is_none_or(|nulls| {
        let mut valid = nulls.inner().bit_chunks().iter_padded();
        numbers.values().chunks(64).all(|values| {
            let mut absent = !valid.next().unwrap_or_default();
            while absent.trailing_zeros() < values.len() as u32 {
                if values[absent.trailing_zeros() as usize].to_bits() != 0 {
                    return false;
                }
                absent &= absent - 1;
            }
            true
        })
    });
    (fits && zero).then(|| Arc::clone(piece))
}

/// Takes a whole piece of a column over into an empty one; nothing if a value is not one that the store holds. `field` is
/// none for a lifted column.
fn take_over(column: &mut OptionalColumn, array: &ArrayRef, field: Option<EventField>) -> Option<()> {
    match column {
        OptionalColumn::F64(column) => {
            let array = array.as_primitive_opt::<Float64Type>()?;
            let bound = field.map_or(Bound::Finite, Bound::of_field);
            if !array.iter().flatten().all(|value| bound.holds(value)) {
                return None;
            }
            column.take_over(array.values(), array.nulls());
        }
        OptionalColumn::I64(column) => {
            let array = array.as_primitive_opt::<Int64Type>()?;
            let least = array.values().iter().fold(0, |least, value| least.min(*value));
            if field.is_some() && least < 0 && array.iter().flatten().any(|value| value < 0) {
                return None;
            }
            column.take_over(array.values(), array.nulls());
        }
        OptionalColumn::U32(column) => {
            let array = array.as_primitive_opt::<UInt32Type>()?;
            column.take_over(array.values(), array.nulls());
        }
        OptionalColumn::Flag(column) => {
            let array = array.as_boolean_opt()?;
            column.take_over(array.values(), array.nulls());
        }
        OptionalColumn::Text(column) => {
            each_text(array, 0..array.len(), |row, text| {
                column.set(row, text);
                Some(())
            })?;
        }
        OptionalColumn::List(column) => {
            let lists = array.as_list_opt::<i64>()?;
            let values = lists.values().as_primitive_opt::<Float64Type>()?;
            for (row, ends) in lists.offsets().windows(2).enumerate().filter(|(row, _)| lists.is_valid(*row))
            {
                let (start, end) = (ends[0].as_usize(), ends[1].as_usize());
                let list = &values.values()[start..end];
                if gate::odd_element(list).is_some() || (start..end).any(|at| values.is_null(at)) {
                    return None;
                }
                column.set(row, list);
            }
        }
        OptionalColumn::Code(..) => return None,
    }
    Some(())
}

/// Hands out the texts of rows, until nothing is said of one.
fn each_text(
    array: &ArrayRef,
    mut rows: Range<usize>,
    mut each: impl FnMut(usize, &str) -> Option<()>,
) -> Option<()> {
    match array.data_type() {
        DataType::Utf8View => {
            let texts = array.as_string_view();
            rows.try_for_each(|row| if texts.is_valid(row) { each(row, texts.value(row)) } else { Some(()) })
        }
        DataType::LargeUtf8 => {
            let texts = array.as_string::<i64>();
            rows.try_for_each(|row| if texts.is_valid(row) { each(row, texts.value(row)) } else { Some(()) })
        }
        _ => rows.try_for_each(|row| text_at(array, row).map_or(Some(()), |text| each(row, text))),
    }
}
