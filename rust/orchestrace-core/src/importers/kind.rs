//! The words that records are counted under which say nothing to anybody.

/// Longest word that is kept.
const LONGEST: usize = 60;

/// The word for a kind that a source wrote, in its format: `pi.label`. What is no word counts as `other`.
pub(super) fn counted_as(format: &str, kind: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_word = !kind.is_empty() && kind.len() <= LONGEST && kind.chars().all(is_plain);
    [format, ".", if is_word { kind } else { "other" }].concat()
}
