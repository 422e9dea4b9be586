//! Counts of the values that a mapping found, passed along with the columns.

/// Counts of the values that a mapping found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MappingCounts {
    /// In the order of the file's sections.
    pub keys: Vec<KeyCount>,
    /// Where that was asked for; those that most records have first.
    pub unread: Vec<UnreadField>,
}

/// How often a value was found on one way of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCount {
    /// The key with its sections, `step.tokens_in`.
    pub key: String,
    /// The way, as the file spells it.
    pub pointer: String,
    /// Steps, records or elements of a list where there was a value.
    pub matched: u64,
    /// Those where it was looked for.
    pub of: u64,
    /// Types of JSON that the values had.
    pub types: String,
}

/// A field of records that no key reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadField {
    /// A JSON pointer into the record, with `*` for each element of a list.
    pub field: String,
    /// Types of JSON that it has.
    pub types: String,
    /// Records that have it.
    pub records: u64,
    /// Values of it in all of them.
    pub values: u64,
}
