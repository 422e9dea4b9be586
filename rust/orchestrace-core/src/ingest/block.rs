//! Blocks of records, as the importers get them.

use std::path::Path;

use crate::error::Reject;

/// Records of one block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Place of the block in its input, for putting results back in order.
    pub index: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of the first byte in the decompressed stream.
    pub offset: u64,
    /// Elements of an array, with their lines counted from the start of the block; `None` for lines.
    pub elements: Option<Vec<(usize, usize, u64)>>,
    /// Line of the first byte, where it is known; workers that read ranges do not know it.
    pub line: Option<u64>,
    /// A last record without a line end: what is missing from it is missing from the input.
    pub open_end: bool,
    /// What could not be framed at all, after the records.
    pub broken: Option<Broken>,
    /// Whether the whole block is one record, line ends included.
    pub document: bool,
    /// Lines to count beside those of `bytes`: of records that were too long to keep.
    pub extra_lines: u64,
}

/// A record that never became bytes of a block.
#[derive(Debug)]
pub(crate) struct Broken {
    pub offset: u64,
    pub length: u64,
    /// Lines before it, counted from the start of the block.
    pub lines_before: u64,
    pub reject: Reject,
    pub head: Vec<u8>,
}

/// File name without folders and without all of its extensions that say how it is stored.
pub(crate) fn stem(path: &Path) -> String {
    let mut name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    for suffix in [".gz", ".zst", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather"] {
        if let Some(short) = name.strip_suffix(suffix) {
            name.truncate(short.len());
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_lose_storage_extensions() {
        assert_eq!(stem(Path::new("/a/b/run.7.jsonl.zst")), "run.7");
        assert_eq!(stem(Path::new("12.json")), "12");
    }
}
