//! Parts of the paths of files.

/// The folder of a path, and the name in it.
pub(super) fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once(['/', '\\']).unwrap_or(("", path))
}

/// The name of a file without its endings.
pub(super) fn stem(path: &str) -> &str {
    let name = parts(path).1;
    let name = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    [".jsonl", ".json"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}
