//! The growing event columns of one block.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use arrow_array::ArrayRef;

use super::column::{CodeColumn, FlagColumn, ListColumn, NO_CODE, TextColumn, Values};
use super::projection::Keep;
use crate::columns::RecordOptions;
use crate::error::Result;
use crate::schema::{Dict, EventField, Kind};

/// Storage of one optional event column.
#[derive(Debug)]
pub(crate) enum OptionalColumn {
    F64(Values<f64>),
    I64(Values<i64>),
    U32(Values<u32>),
    Flag(FlagColumn),
    Text(TextColumn),
    Code(CodeColumn, Dict),
    List(ListColumn),
}

impl OptionalColumn {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::F64 => Self::F64(Values::default()),
            Kind::I64 | Kind::U64 | Kind::Time => Self::I64(Values::default()),
            Kind::U32 => Self::U32(Values::default()),
            Kind::Bool => Self::Flag(FlagColumn::default()),
            Kind::Text | Kind::Word(_) => Self::Text(TextColumn::default()),
            Kind::Name(dict) => Self::Code(CodeColumn::default(), dict),
            Kind::F64List => Self::List(ListColumn::default()),
        }
    }

    fn truncate(&mut self, rows: usize) {
        match self {
            Self::F64(c) => c.truncate(rows),
            Self::I64(c) => c.truncate(rows),
            Self::U32(c) => c.truncate(rows),
            Self::Flag(c) => c.truncate(rows),
            Self::Text(c) => c.truncate(rows),
            Self::Code(c, _) => c.codes.truncate(rows),
            Self::List(c) => c.truncate(rows),
        }
    }

    fn is_used(&self) -> bool {
        match self {
            Self::F64(c) => c.is_used(),
            Self::I64(c) => c.is_used(),
            Self::U32(c) => c.is_used(),
            Self::Flag(c) => c.is_used(),
            Self::Text(c) => c.is_used(),
            Self::Code(c, _) => c.codes.iter().any(|code| *code != NO_CODE),
            Self::List(c) => c.is_used(),
        }
    }
}

/// A finished column: an array, or codes of the block's own dictionary that are yet to be remapped.
#[derive(Debug, Clone)]
pub(crate) enum Finished {
    Array(ArrayRef),
    Codes(Vec<u32>, Dict),
}

/// The event columns of one block.
#[derive(Debug)]
pub(crate) struct EventColumns {
    pub id: TextColumn,
    pub t: Vec<f64>,
    pub types: Vec<u8>,
    pub agent: Vec<u32>,
    /// One for each optional field, from `role` on.
    pub optional: Vec<OptionalColumn>,
    pub lifted: Vec<OptionalColumn>,
}

/// The first field that is not in every event.
pub(super) const FIRST_OPTIONAL: usize = EventField::Role as usize;

impl EventColumns {
    pub(super) fn new(options: &RecordOptions) -> Self {
        let optional = EventField::ALL[FIRST_OPTIONAL..].iter();
        Self {
            id: TextColumn::default(),
            t: Vec::new(),
            types: Vec::new(),
            agent: Vec::new(),
            optional: optional.map(|f| OptionalColumn::new(f.column().kind)).collect(),
            lifted: options.fields.iter().map(|(_, kind)| OptionalColumn::new(kind.kind())).collect(),
        }
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.id.truncate(rows);
        self.t.truncate(rows);
        self.types.truncate(rows);
        self.agent.truncate(rows);
        self.optional.iter_mut().chain(&mut self.lifted).for_each(|c| c.truncate(rows));
    }

    #[inline(always)]
    pub(crate) fn optional(&mut self, field: EventField) -> &mut OptionalColumn {
        &mut self.optional[field as usize - FIRST_OPTIONAL]
    }

    /// The column of a field, as far as it has been written.
    pub(crate) fn column(&self, field: EventField) -> &OptionalColumn {
        &self.optional[field as usize - FIRST_OPTIONAL]
    }

    /// The event columns at their exact size, in the order of the schema; empties them.
    pub(super) fn finish(&mut self, rows: usize, keep: Keep) -> Result<Vec<(usize, Finished)>> {
        let mut out = Vec::with_capacity(8);
        for (i, column) in self.optional.iter_mut().chain(&mut self.lifted).enumerate() {
            let wanted = EventField::ALL.get(FIRST_OPTIONAL + i).is_none_or(|field| keep.field(*field));
            if !wanted || !column.is_used() {
                // Rows before those of a rejected trace may have been padded.
                column.truncate(0);
                continue;
            }
            let finished = match column {
                OptionalColumn::F64(c) => Finished::Array(c.finish(rows)),
                OptionalColumn::I64(c) => Finished::Array(c.finish(rows)),
                OptionalColumn::U32(c) => Finished::Array(c.finish(rows)),
                OptionalColumn::Flag(c) => Finished::Array(c.finish(rows)),
                OptionalColumn::Text(c) => Finished::Array(c.finish(rows)?),
                OptionalColumn::List(c) => Finished::Array(c.finish(rows)?),
                OptionalColumn::Code(c, dict) => Finished::Codes(c.take(rows), *dict),
            };
            out.push((FIRST_OPTIONAL + 2 + i, finished));
        }
        Ok(out)
    }
}
