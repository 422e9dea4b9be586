//! The projection of a read: the tables and columns to store. Validation is the same, whatever is kept.

use crate::error::{Error, Result, unknown_name};
use crate::schema::{EVENTS, EventField, TABLES};

/// Tables, and columns of `events`, that a read keeps. `labels`, `quarantine` and `record_counts` are always kept.
///
/// Records are accepted and rejected exactly as without a projection. Codes of a name column may differ from
/// those of a whole read, since a dictionary holds the names of the columns that are kept; the names do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projection {
    tables: u16,
    columns: u64,
}

impl Default for Projection {
    fn default() -> Self {
        Self { tables: u16::MAX, columns: u64::MAX }
    }
}

impl Projection {
    /// Everything.
    pub const ALL: Self = Self { tables: u16::MAX, columns: u64::MAX };

    /// These tables; of `events` these columns, or all. Columns that were lifted are kept with `events`.
    pub fn new(tables: &[&str], columns: Option<&[&str]>) -> Result<Self> {
        let mut chosen = Self { tables: 0, columns: 0 };
        for name in tables {
            chosen.tables |= 1 << table(name)?;
        }
        for name in columns.unwrap_or_default() {
            let column = EVENTS.index(name).ok_or_else(|| {
                let names: Vec<&str> = EVENTS.columns.iter().map(|c| c.name).collect();
                Error::Parameter(unknown_name("column of events", name, &names))
            })?;
            chosen.columns |= 1 << column;
        }
        if columns.is_none() {
            chosen.columns = u64::MAX;
        }
        if chosen.table("events") {
            return Ok(chosen);
        }
        Ok(Self { columns: 0, ..chosen })
    }

    /// Whether nothing is left out.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::ALL || (TABLES.iter().all(|t| self.table(t.name)) && self.columns == u64::MAX)
    }

    /// Whether a table is kept.
    #[must_use]
    pub fn table(&self, name: &str) -> bool {
        matches!(name, "labels" | "quarantine" | "record_counts")
            || table(name).is_ok_and(|at| self.tables & 1 << at != 0)
    }

    /// Whether a column of `events` is kept, by its place in the table; lifted ones come after it.
    #[must_use]
    pub fn column(&self, index: usize) -> bool {
        if index < EVENTS.columns.len() { self.columns & 1 << index != 0 } else { self.table("events") }
    }

    /// Whether owners and oddities of the graph are asked for.
    pub(crate) fn derives(&self) -> bool {
        ["agents", "traces", "findings"].iter().any(|name| self.table(name))
    }

    /// The same with the columns that are needed on the way to the tables that are kept.
    pub(crate) fn needed(&self) -> Self {
        let mut columns = self.columns;
        if self.derives() {
            // Owners come from these, messages name ids, and places of required columns are fixed.
            columns |= 0b11_1111;
            for field in [EventField::Role, EventField::To, EventField::Tool, EventField::GroupId] {
                columns |= 1 << (field as usize + 2);
            }
        }
        // Counts of tokens follow from each other, and what contradicts is a finding.
        let tokens = EventField::TOKENS.iter().fold(0_u64, |bits, field| bits | 1 << (*field as usize + 2));
        if columns & tokens != 0 || self.table("findings") {
            columns |= tokens;
        }
        Self { columns, ..*self }
    }
}

/// Place of a table.
fn table(name: &str) -> Result<usize> {
    TABLES.iter().position(|t| t.name == name).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|t| t.name).collect();
        Error::Parameter(unknown_name("table", name, &names))
    })
}

/// What a block's writer stores of a trace that it reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep {
    /// Fields of events, by number.
    pub fields: u64,
    pub edges: bool,
    pub measures: bool,
    /// What is settled about a trace from its events.
    pub facts: bool,
}

impl Keep {
    pub(crate) fn new(projection: &Projection) -> Self {
        let needed = projection.needed();
        Self {
            fields: needed.columns >> 2,
            edges: projection.table("edges") || projection.derives(),
            measures: projection.table("measures") || projection.table("traces"),
            facts: projection.derives(),
        }
    }

    /// Whether a field of events is stored.
    #[inline]
    pub(crate) fn field(self, field: EventField) -> bool {
        self.fields & 1 << field as u64 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_needs_follow() {
        assert!(Projection::default().is_all());
        assert!(Projection::new(&["event"], None).unwrap_err().to_string().contains("'events'"));
        assert!(Projection::new(&["events"], Some(&["typ"])).unwrap_err().to_string().contains("'type'"));
        let only = Projection::new(&["events"], Some(&["type"])).unwrap();
        assert!(only.column(4) && !only.column(5) && !only.table("edges") && only.table("quarantine"));
        assert!(!only.derives() && only.needed() == only);
        let agents = Projection::new(&["agents"], Some(&["type"])).unwrap();
        assert!(!agents.column(4) && agents.needed().column(4) && agents.derives());
    }
}
