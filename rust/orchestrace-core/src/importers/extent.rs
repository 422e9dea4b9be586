//! How much a source says that it holds, and how much of it is there.

use crate::error::FindingCode;

/// What a part of a source states, or shows, of how much the whole of it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Parts with the same number are of one source.
    pub source: u64,
    pub counted: Counted,
    /// How many of them the source says that it holds.
    pub stated: Option<i64>,
    /// Which part it is: one that is read twice counts once.
    pub part: u64,
    /// How many of them the part holds, broken ones included.
    pub held: u32,
    /// A trace of the part, by code of the block.
    pub trace: u32,
}

/// What a source counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    /// The name of the count.
    pub statement: &'static str,
    pub things: &'static str,
    /// Whether each of them is a trace.
    pub are_traces: bool,
}

impl Counted {
    /// What is odd where a source states a number of them and so many are there.
    pub(crate) fn differs(self, stated: i64, held: i64) -> Option<Note> {
        let Self { statement, things, are_traces } = self;
        let code = match stated.cmp(&held) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Less => FindingCode::SourceSurplus,
            std::cmp::Ordering::Greater if are_traces => FindingCode::SourceRunsMissing,
            std::cmp::Ordering::Greater => FindingCode::SourceIncomplete,
        };
        let message = format!("{statement} is {stated}, {things} found: {held}");
        Some(Note { code, count: u32::try_from(stated.abs_diff(held)).unwrap_or(u32::MAX), message })
    }
}

/// What is odd about a source, which is written with one of its traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub code: FindingCode,
    /// Of how many things it is said.
    pub count: u32,
    pub message: String,
}
