//! Columns for unknown event keys that the caller asked for.

use crate::error::{Error, Result, unknown_name};
use crate::schema::Kind;

/// Type of a column that an unknown event key is lifted into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiftKind {
    /// Strings.
    Text,
    /// Integers.
    I64,
    /// Numbers.
    F64,
    /// Flags.
    Bool,
}

impl LiftKind {
    /// The column kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            LiftKind::Text => Kind::Text,
            LiftKind::I64 => Kind::I64,
            LiftKind::F64 => Kind::F64,
            LiftKind::Bool => Kind::Bool,
        }
    }

    /// The kind that a word names.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "text" => Ok(LiftKind::Text),
            "i64" => Ok(LiftKind::I64),
            "f64" => Ok(LiftKind::F64),
            "bool" => Ok(LiftKind::Bool),
            _ => Err(Error::Parameter(unknown_name(
                "type of a lifted field",
                word,
                &["text", "i64", "f64", "bool"],
            ))),
        }
    }
}
