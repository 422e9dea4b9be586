//! Names and words of external tables that come as codes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{Field, Schema};

use crate::error::{Error, Result, printable};
use crate::schema::Kind;
use crate::store::arrays::word_values;
use crate::store::find_table;

/// Names by code. A code may be listed twice, with the same name.
#[derive(Debug)]
pub struct Codes {
    /// Of each code the place of its name, [`Codes::NONE`] where no name has it.
    places: Vec<u32>,
    names: ArrayRef,
}

impl Codes {
    const NONE: u32 = u32::MAX;

    /// Of a table with the columns `code`, `UInt32`, and `name`. O(the largest code).
    pub fn new(listed: &RecordBatch) -> Result<Self> {
        let codes = listed.column_by_name("code").and_then(|codes| codes.as_primitive_opt::<UInt32Type>());
        let (Some(codes), Some(names)) = (codes, listed.column_by_name("name")) else {
            return Err(Error::Schema("names have no columns 'code' and 'name'".into()));
        };
        let most = codes.iter().flatten().max().map_or(0, |code| code as usize + 1);
        let mut places = vec![Self::NONE; most];
        for (place, code) in codes.values().iter().enumerate() {
            places[*code as usize] = place as u32;
        }
        Ok(Self { places, names: Arc::clone(names) })
    }

    /// A table with names in columns of names that are `UInt32`, and words in columns of words that are `UInt8`, places
    /// in the vocabulary; other columns as they are. A code that no name has is refused. O(rows).
    pub fn named(&self, table: &str, batch: &RecordBatch) -> Result<RecordBatch> {
        let table = find_table(table)?;
        let mut fields = Vec::with_capacity(batch.num_columns());
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let kind = table.columns.iter().find(|column| column.name == field.name()).map(|c| c.kind);
            let nameless = || {
                let column = printable(field.name());
                Error::Schema(format!("{}.{column} has a code that no name has", table.name))
            };
            let (codes, places) =
                (array.as_primitive_opt::<UInt32Type>(), array.as_primitive_opt::<UInt8Type>());
            let column: ArrayRef = match (kind, codes, places) {
                (Some(Kind::Name(_)), Some(codes), _) => {
                    let place = |code: &u32| self.places.get(*code as usize).copied().unwrap_or(Self::NONE);
                    let mut keys: Vec<u32> = codes.values().iter().map(place).collect();
                    if keys.contains(&Self::NONE) {
                        // what lies under a null is no code
                        for (row, key) in keys.iter_mut().enumerate().filter(|(_, key)| **key == Self::NONE) {
                            if codes.is_valid(row) {
                                return Err(nameless());
                            }
                            *key = 0;
                        }
                    }
                    let keys = UInt32Array::new(keys.into(), codes.nulls().cloned());
                    Arc::new(DictionaryArray::try_new(keys, Arc::clone(&self.names))?)
                }
                (Some(Kind::Word(words)), _, Some(places)) => {
                    let array = DictionaryArray::try_new(places.clone(), word_values(words));
                    Arc::new(array.map_err(|_| nameless())?)
                }
                _ => Arc::clone(array),
            };
            fields.push(Field::new(field.name(), column.data_type().clone(), field.is_nullable()));
            columns.push(column);
        }
        let shape = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &shape)?)
    }
}
