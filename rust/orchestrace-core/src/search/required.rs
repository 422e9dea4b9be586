//! Texts of which every match of a pattern has one, found in the tree of the pattern.

use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

/// More texts than that are no faster to look for than the pattern itself.
const MOST: usize = 64;
/// So many bytes of a text tell as much as all of it.
const ENOUGH: usize = 8;
/// So many texts are looked for as fast as one.
const FEW: usize = 16;

/// Texts of which every match has one, as JSON writes them without an escape but `\uXXXX`: none of their characters has a
/// short escape. None where the pattern has no such texts, or too many.
pub(super) fn required(pattern: &Hir) -> Option<Vec<String>> {
    match pattern.kind() {
        HirKind::Capture(group) => required(&group.sub),
        HirKind::Repetition(repeated) if repeated.min > 0 => required(&repeated.sub),
        HirKind::Concat(parts) => {
            let tails = (0..parts.len()).map(|at| beginning(&Hir::concat(parts[at..].to_vec())));
            best(tails.chain(parts.iter().map(required)))
        }
        HirKind::Alternation(parts) => {
            let of_parts: Option<Vec<_>> = parts.iter().map(required).collect();
            let all = of_parts.and_then(|texts| settled(&texts.concat()));
            best([all, beginning(pattern)].into_iter())
        }
        _ => beginning(pattern),
    }
}

/// How much a set of texts leaves out: long ones much, many ones less.
fn worth(texts: &[String]) -> usize {
    let least = texts.iter().map(String::len).min().unwrap_or(0).min(ENOUGH);
    least * 2 * MOST - texts.len()
}

fn best(sets: impl Iterator<Item = Option<Vec<String>>>) -> Option<Vec<String>> {
    sets.flatten().max_by_key(|texts| worth(texts))
}

/// What matches begin with.
fn beginning(pattern: &Hir) -> Option<Vec<String>> {
    let mut texts = Extractor::new().kind(ExtractKind::Prefix).extract(pattern);
    let settled_of = |texts: &Seq| {
        let in_characters = |bytes: &[u8]| {
            let end = std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let literals: Vec<_> =
            texts.literals()?.iter().map(|literal| in_characters(literal.as_bytes())).collect();
        settled(&literals)
    };
    texts.dedup();
    if texts.len()? > FEW {
        // In both cases of letters: the longest beginnings that are not too many.
        texts = (1..=ENOUGH).rev().find_map(|length| {
            let mut cut = texts.clone();
            cut.keep_first_bytes(length);
            cut.dedup();
            cut.len().is_some_and(|len| len <= MOST / 2).then_some(cut)
        })?;
    }
    settled_of(&texts)
}

/// The longest part of each text that JSON writes without short escapes, in order, each once.
fn settled(texts: &[String]) -> Option<Vec<String>> {
    let mut parts: Vec<String> = texts
        .iter()
        .map(|text| {
            let parts = text.split(|c: char| c.is_control() || matches!(c, '"' | '\\' | '/'));
            parts.max_by_key(|part| part.len()).unwrap_or("").to_owned()
        })
        .collect();
    parts.sort_unstable();
    parts.dedup();
    let good = !parts.is_empty() && parts.len() <= MOST && parts.iter().all(|part| !part.is_empty());
    good.then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pattern: &str) -> Option<Vec<String>> {
        required(&regex_syntax::parse(pattern).unwrap())
    }

    #[test]
    fn texts_of_patterns() {
        assert_eq!(texts("timeout").unwrap(), ["timeout"]);
        assert_eq!(texts(r"\w+Error: (\d+)").unwrap(), ["Error: "]);
        assert_eq!(texts("\"tool\": *\"bash\"").unwrap(), ["bash"]);
        assert_eq!(texts(r"src/main\.py\n").unwrap(), ["main.py"]);
        assert_eq!(texts("left|right").unwrap(), ["left", "right"]);
        assert_eq!(texts("(?:error)+s").unwrap(), ["error"]);
        let either_case = texts("(?i)timeout").unwrap();
        let is_part = |text: &String| text.len() > 2 && "timeout".contains(&text.to_lowercase());
        assert!(either_case.iter().all(is_part), "{either_case:?}");
        for none in ["[a-z]+", "a*", "\"", "a|\n", ".+"] {
            assert_eq!(texts(none), None, "{none}");
        }
    }
}
