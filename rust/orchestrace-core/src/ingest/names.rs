//! What the names of recordings end with. A file that is named itself may be called anything.

/// Files of records.
pub const RECORDINGS: &[&str] = &[".json", ".jsonl", ".ndjson", ".traj"];

/// Archives of such files.
pub const ARCHIVES: &[&str] = &[".eval", ".tar", ".tgz", ".zip"];

/// What a compressed file has behind that.
pub const COMPRESSED: &[&str] = &[".gz", ".zst"];

/// Whether an entry of an archive has the name of a file of records, compressed or not.
pub(super) fn is_recording(name: &str) -> bool {
    let plain = COMPRESSED.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    RECORDINGS.iter().any(|end| plain.ends_with(end))
}
