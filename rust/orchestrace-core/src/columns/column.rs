//! Growing columns of one block. They are reused from block to block: finishing copies them out at
//! their exact size, so what is kept has no slack and the scratch stays in the cache.
//!
//! Optional columns are filled lazily: an absent value costs nothing until a later one is written.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, LargeListArray, StringViewArray, UInt32Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field};

use crate::json::Str;

/// The code of "no name" while a block is being written; remapping turns it into a null.
pub const NO_CODE: u32 = u32::MAX;

/// Makes place for `row`. Columns grow by many rows at once, absent ones, so that setting a row is one write
/// whatever the distance from the last one.
#[cold]
fn grow<T: Copy>(values: &mut Vec<T>, row: usize, absent: T) {
    values.resize((row + 1).max(values.len() * 2).max(1024), absent);
}

/// Which rows have a value; rows beyond the last one written have none.
#[derive(Debug, Default)]
pub struct Validity {
    bits: Vec<u8>,
}

impl Validity {
    #[inline]
    fn set(&mut self, row: usize) {
        if self.bits.len() <= row / 8 {
            grow(&mut self.bits, row / 8, 0);
        }
        self.bits[row / 8] |= 1 << (row % 8);
    }

    #[inline]
    fn unset(&mut self, row: usize) {
        if let Some(byte) = self.bits.get_mut(row / 8) {
            *byte &= !(1 << (row % 8));
        }
    }

    /// Takes over which of the first rows have a value, where none is written yet.
    fn take_over(&mut self, rows: usize, nulls: Option<&NullBuffer>) {
        match nulls {
            Some(nulls) => self.bits.extend_from_slice(&nulls.inner().sliced()),
            None => self.bits.resize(rows.div_ceil(8), u8::MAX),
        }
        self.truncate(rows);
    }

    #[inline]
    fn of_eight(&self, eight: usize) -> u8 {
        self.bits.get(eight).copied().unwrap_or(0)
    }

    fn any(&self) -> bool {
        self.bits.iter().any(|byte| *byte != 0)
    }

    fn truncate(&mut self, rows: usize) {
        self.bits.truncate(rows.div_ceil(8));
        if !rows.is_multiple_of(8)
            && let Some(last) = self.bits.get_mut(rows / 8)
        {
            *last &= (1 << (rows % 8)) - 1;
        }
    }

    fn buffer(&mut self, rows: usize) -> BooleanBuffer {
        self.bits.resize(rows.div_ceil(8), 0);
        let buffer = BooleanBuffer::new(Buffer::from(self.bits.as_slice()), 0, rows);
        self.bits.clear();
        buffer
    }

    fn nulls(&mut self, rows: usize) -> Option<NullBuffer> {
        Some(NullBuffer::new(self.buffer(rows))).filter(|n| n.null_count() > 0)
    }
}

/// A nullable column of plain values.
#[derive(Debug, Default)]
pub struct Values<T> {
    /// Often more than the rows so far.
    values: Vec<T>,
    valid: Validity,
}

impl<T: Copy + Default> Values<T> {
    /// Sets the value of `row`.
    #[inline]
    pub fn set(&mut self, row: usize, value: T) {
        if self.values.len() <= row {
            grow(&mut self.values, row, T::default());
        }
        self.values[row] = value;
        self.valid.set(row);
    }

    /// Takes over the values of the first rows, where none is written yet.
    pub fn take_over(&mut self, values: &[T], nulls: Option<&NullBuffer>) {
        self.values.extend_from_slice(values);
        self.valid.take_over(values.len(), nulls);
        // what lies under a null is anybody's guess
        for (values, valid) in self.values.chunks_mut(8).zip(&self.valid.bits).filter(|(_, v)| **v != u8::MAX)
        {
            for (_, value) in values.iter_mut().enumerate().filter(|(bit, _)| valid & (1 << bit) == 0) {
                *value = T::default();
            }
        }
    }

    /// The value of `row`.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<T> {
        (self.valid.of_eight(row / 8) & 1 << (row % 8) != 0).then(|| self.values[row])
    }

    /// Which of the eight rows from `8 * eight` on have a value, as bits.
    #[inline]
    #[must_use]
    pub fn which(&self, eight: usize) -> u8 {
        self.valid.of_eight(eight)
    }

    /// Forgets the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.valid.truncate(rows);
    }

    /// Whether any row has a value.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.valid.any()
    }

    fn take(&mut self, rows: usize) -> (Vec<T>, Option<NullBuffer>) {
        self.values.resize(rows, T::default());
        let values = self.values.as_slice().to_vec();
        self.values.clear();
        (values, self.valid.nulls(rows))
    }
}

impl Values<f64> {
    /// The column as an array of `rows` rows; empties it.
    pub fn finish(&mut self, rows: usize) -> ArrayRef {
        let (values, nulls) = self.take(rows);
        Arc::new(Float64Array::new(values.into(), nulls))
    }
}

impl Values<i64> {
    /// The column as an array of `rows` rows; empties it.
    pub fn finish(&mut self, rows: usize) -> ArrayRef {
        let (values, nulls) = self.take(rows);
        Arc::new(Int64Array::new(values.into(), nulls))
    }
}

impl Values<u32> {
    /// The column as an array of `rows` rows; empties it.
    pub fn finish(&mut self, rows: usize) -> ArrayRef {
        let (values, nulls) = self.take(rows);
        Arc::new(UInt32Array::new(values.into(), nulls))
    }
}

/// A nullable column of flags.
#[derive(Debug, Default)]
pub struct FlagColumn {
    values: Validity,
    valid: Validity,
    /// The first row with a flag; kept, so that taking back a rejected record does not look at the rows before it.
    first: Option<usize>,
}

impl FlagColumn {
    /// Sets the flag of `row`.
    #[inline]
    pub fn set(&mut self, row: usize, value: bool) {
        self.first.get_or_insert(row);
        self.valid.set(row);
        if value {
            self.values.set(row);
        } else {
            self.values.unset(row);
        }
    }

    /// Takes over the flags of the first rows, where none is written yet.
    pub fn take_over(&mut self, flags: &BooleanBuffer, nulls: Option<&NullBuffer>) {
        let set = nulls.map(|nulls| flags & nulls.inner());
        self.values.take_over(flags.len(), Some(&NullBuffer::new(set.unwrap_or_else(|| flags.clone()))));
        self.valid.take_over(flags.len(), nulls);
        self.first = (0..flags.len()).find(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
    }

    /// Forgets the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.valid.truncate(rows);
        self.first = self.first.filter(|first| *first < rows);
    }

    /// Whether any row has a value.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.first.is_some()
    }

    /// The column as an array of `rows` rows; empties it.
    pub fn finish(&mut self, rows: usize) -> ArrayRef {
        self.first = None;
        let values = self.values.buffer(rows);
        Arc::new(BooleanArray::new(values, self.valid.nulls(rows)))
    }
}

/// A nullable column of dictionary codes, null as [`NO_CODE`].
#[derive(Debug, Default)]
pub struct CodeColumn {
    /// The codes, often more than the rows so far; rows beyond the end are null.
    pub codes: Vec<u32>,
}

impl CodeColumn {
    /// Sets the code of `row`, which is not before any row that has one.
    #[inline]
    pub fn set(&mut self, row: usize, code: u32) {
        if self.codes.len() <= row {
            grow(&mut self.codes, row, NO_CODE);
        }
        self.codes[row] = code;
    }

    /// The codes of `rows` rows at their exact size; empties the column.
    pub fn take(&mut self, rows: usize) -> Vec<u32> {
        self.codes.resize(rows, NO_CODE);
        let codes = self.codes.as_slice().to_vec();
        self.codes.clear();
        codes
    }
}

/// A nullable column of text, as string views over one buffer.
#[derive(Debug, Default)]
pub struct TextColumn {
    views: Vec<u128>,
    data: Vec<u8>,
    valid: Validity,
}

impl TextColumn {
    /// Sets the text of `row`, which is not before any row that has one.
    pub fn set(&mut self, row: usize, text: &str) {
        self.views.resize(row, 0);
        let offset = self.data.len();
        if text.len() > 12 {
            self.data.extend_from_slice(text.as_bytes());
        }
        // A block is a few MiB, or one record of at most `max_record` < 4 GiB: offsets fit.
        self.views.push(make_view(text.as_bytes(), 0, offset as u32));
        self.valid.set(row);
    }

    /// The same for a string as it stands in a record, which is copied without a look at its length where
    /// the record goes on far enough.
    #[inline(always)]
    pub fn set_str(&mut self, row: usize, text: &Str<'_>, scratch: &mut String) {
        if text.is_escaped() {
            return self.set(row, text.text(scratch));
        }
        while self.views.len() < row {
            self.views.push(0);
        }
        let (len, head) = (text.len(), text.head());
        if len <= 12 {
            self.views.push(len as u128 | head << 32);
        } else {
            let offset = self.data.len();
            if let (true, Some(chunk)) = (len <= 32, text.chunk()) {
                self.data.extend_from_slice(chunk);
                self.data.truncate(offset + len);
            } else {
                self.data.extend_from_slice(text.bytes());
            }
            self.views.push(len as u128 | (head & 0xFFFF_FFFF) << 32 | (offset as u128) << 96);
        }
        self.valid.set(row);
    }

    /// Whether a row has a text, be it empty.
    #[must_use]
    pub fn is_set(&self, row: usize) -> bool {
        self.valid.bits.get(row / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0)
    }

    /// The views from `row` on.
    #[must_use]
    pub fn views(&self, row: usize) -> &[u128] {
        &self.views[row.min(self.views.len())..]
    }

    /// Bytes of a view of this column.
    #[must_use]
    #[inline]
    pub fn bytes<'a>(&'a self, view: &'a [u8; 16]) -> &'a [u8] {
        let len = u32::from_le_bytes([view[0], view[1], view[2], view[3]]) as usize;
        if len <= 12 {
            &view[4..4 + len]
        } else {
            let start = u32::from_le_bytes([view[12], view[13], view[14], view[15]]) as usize;
            &self.data[start..start + len]
        }
    }

    /// Forgets the rows from `rows` on. Their bytes stay until the block ends, if any row is left.
    pub fn truncate(&mut self, rows: usize) {
        self.views.truncate(rows);
        self.valid.truncate(rows);
        if rows == 0 {
            self.data.clear();
        }
    }

    /// Whether any row has a value.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.valid.any()
    }

    /// The column as an array of `rows` rows; empties it.
    pub fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.views.resize(rows, 0);
        let views = ScalarBuffer::from(self.views.as_slice().to_vec());
        let buffers = if self.data.is_empty() { vec![] } else { vec![Buffer::from(self.data.as_slice())] };
        self.views.clear();
        self.data.clear();
        let nulls = self.valid.nulls(rows);
        Ok(Arc::new(StringViewArray::try_new(views, buffers, nulls)?))
    }
}

/// A nullable column of lists of floats.
#[derive(Debug, Default)]
pub struct ListColumn {
    values: Vec<f64>,
    /// End of each row's list.
    ends: Vec<i64>,
    valid: Validity,
}

impl ListColumn {
    /// Sets the list of `row`, which is not before any row that has one.
    pub fn set(&mut self, row: usize, list: &[f64]) {
        // Of a list that is given twice the last one stays, as of any other value.
        if self.ends.len() > row {
            self.truncate(row);
        }
        self.ends.resize(row, self.values.len() as i64);
        self.values.extend_from_slice(list);
        self.ends.push(self.values.len() as i64);
        self.valid.set(row);
    }

    /// Forgets the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.values.truncate(self.ends.last().map_or(0, |e| *e as usize));
        self.valid.truncate(rows);
    }

    /// Whether any row has a value.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.valid.any()
    }

    /// The column as an array of `rows` rows; empties it.
    pub fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.ends.resize(rows, self.values.len() as i64);
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        let values = Float64Array::from(self.values.as_slice().to_vec());
        self.values.clear();
        let nulls = self.valid.nulls(rows);
        let item = Arc::new(Field::new("item", DataType::Float64, true));
        Ok(Arc::new(LargeListArray::try_new(
            item,
            OffsetBuffer::new(offsets.into()),
            Arc::new(values),
            nulls,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Cursor, Limits};
    use arrow_array::{Array, cast::AsArray};

    #[test]
    fn absent_rows_are_null() {
        let mut column = Values::<f64>::default();
        column.set(2, 1.5);
        let array = column.finish(4);
        let nulls: Vec<bool> = (0..4).map(|i| array.is_null(i)).collect();
        assert_eq!(nulls, [true, true, false, true]);
        assert!(!column.is_used());
    }

    #[test]
    fn truncated_rows_leave_no_bits() {
        let mut column = FlagColumn::default();
        column.set(0, true);
        column.set(3, true);
        column.truncate(2);
        column.set(3, false);
        let array = column.finish(5);
        let flags: Vec<Option<bool>> = array.as_boolean().iter().collect();
        assert_eq!(flags, [Some(true), None, None, Some(false), None]);
    }

    #[test]
    fn long_and_short_text() {
        let mut column = TextColumn::default();
        column.set(1, "short");
        column.set(2, "rather longer than twelve");
        let view = column.views(2)[0].to_le_bytes();
        assert_eq!(column.bytes(&view), b"rather longer than twelve");
        let array = column.finish(3).unwrap();
        let texts: Vec<Option<&str>> = array.as_string_view().iter().collect();
        assert_eq!(texts, [None, Some("short"), Some("rather longer than twelve")]);
    }

    #[test]
    fn strings_of_a_record_are_stored_as_their_text() {
        let long = "x".repeat(40);
        let texts =
            ["", "twelve bytes", "thirteen byte", "sixteen bytes ok", "seventeen bytes !", &long, "é\n"];
        let record = serde_json::to_string(&texts).unwrap();
        let limits = Limits { depth: 8, string: 1 << 20, lenient: false };
        let mut scratch = String::new();
        let (mut read, mut told) = (TextColumn::default(), TextColumn::default());
        let mut cursor = Cursor::new(&record, limits);
        cursor.open_array().unwrap();
        for (i, text) in texts.iter().enumerate() {
            read.set_str(2 * i, &cursor.string().unwrap(), &mut scratch);
            told.set(2 * i, text);
            cursor.more_array().unwrap();
        }
        assert_eq!(read.views(0), told.views(0));
        assert_eq!(&read.finish(14).unwrap(), &told.finish(14).unwrap());
    }

    #[test]
    fn lists_have_offsets() {
        let mut column = ListColumn::default();
        column.set(1, &[0.5, 0.5]);
        column.set(2, &[9.0]);
        column.truncate(2);
        column.set(3, &[1.0]);
        let array = column.finish(5).unwrap();
        let lists = array.as_list::<i64>();
        assert_eq!(lists.offsets().as_ref(), [0, 0, 2, 2, 3, 3]);
        assert_eq!(lists.null_count(), 3);
    }
}
