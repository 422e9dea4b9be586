//! Advantages written back: an episode with new `advantages` of its nodes, and with nothing else that is new.
//!
//! The format's own rule: a node that a model sampled has one number for each token that its mask says was sampled, or no
//! `advantages`, which means that no algorithm looked at it. A list of zeros means that it was scored and has no gradient.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::iter::Peekable;
use std::ops::AddAssign;

use super::seats::traces;
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};

/// What became of the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamped {
    /// Nodes that have advantages now.
    pub nodes: u64,
    /// Nodes whose agent is not trained, which get none.
    pub untrained: u64,
    /// Nodes without a mask, so that it is unknown how many tokens were sampled.
    pub without_mask: u64,
    /// Numbers of nodes whose trace has the id of another one of the episode, so that nobody knows whose they are.
    pub ambiguous: u64,
    /// Numbers whose node is not in the episode.
    pub missing: u64,
}

impl AddAssign for Stamped {
    fn add_assign(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.untrained += other.untrained;
        self.without_mask += other.without_mask;
        self.ambiguous += other.ambiguous;
        self.missing += other.missing;
    }
}

/// Writes episodes, which it gets as lines, with the advantages of each.
pub struct StampedLines<'a, W, I: Iterator<Item = (u32, &'a str, f64)>> {
    target: W,
    limits: Limits,
    /// Numbers of nodes, by the line of the episode in ascending order, and by `x_gen`: the id of the trace, a colon, and
    /// the index of the node.
    numbers: Peekable<I>,
    /// Those of the line.
    advantages: HashMap<&'a str, f64>,
    /// Whether a number is shared among the tokens of its node, or that of each.
    is_share: bool,
    /// The line so far.
    line: Vec<u8>,
    /// Lines before it.
    lines: usize,
    /// Whether a line is no episode, after which nothing is written.
    is_broken: bool,
    stamped: Stamped,
}

impl<'a, W: Write, I: Iterator<Item = (u32, &'a str, f64)>> StampedLines<'a, W, I> {
    /// Lines to `target`, with `numbers` by line, from 0 and ascending, and by `x_gen`. A number is divided among the
    /// tokens of its node if `is_share`.
    pub fn new(target: W, numbers: I, is_share: bool, limits: Limits) -> Self {
        Self {
            target,
            limits,
            numbers: numbers.peekable(),
            advantages: HashMap::new(),
            is_share,
            line: Vec::new(),
            lines: 0,
            is_broken: false,
            stamped: Stamped::default(),
        }
    }

    /// How many episodes were written, up to the first line that is none, and what became of the numbers.
    pub fn stamped(&self) -> (usize, Stamped) {
        (self.lines, self.stamped)
    }

    fn end_line(&mut self) -> io::Result<()> {
        let record = String::from_utf8_lossy(&self.line);
        // As forgiving as the reader: what JSON does not have stays as it is written.
        let limits = Limits { lenient: true, ..self.limits };
        let Ok(tree) = Tree::parse(&record, limits) else {
            self.is_broken = true;
            return Ok(());
        };
        self.advantages.clear();
        while let Some((_, node, value)) = self.numbers.next_if(|(line, ..)| *line as usize <= self.lines) {
            self.advantages.insert(node, value);
        }
        let mut edits = Edits { is_share: self.is_share, parts: Vec::new(), stamped: Stamped::default() };
        for (index, trace) in traces(tree.root()).enumerate() {
            let id = trace.get("id").str();
            let is_shared =
                traces(tree.root()).enumerate().any(|(i, other)| i != index && other.get("id").str() == id);
            edits.trace(trace, &self.advantages, is_shared);
        }
        let Stamped { nodes, untrained, without_mask, ambiguous, .. } = edits.stamped;
        let of_nodes = nodes + untrained + without_mask + ambiguous;
        edits.stamped.missing = (self.advantages.len() as u64).saturating_sub(of_nodes);
        self.stamped += edits.stamped;
        let mut at = 0;
        for Part { from, to, text } in edits.parts {
            self.target.write_all(record[at..from].as_bytes())?;
            self.target.write_all(text.as_bytes())?;
            at = to;
        }
        self.target.write_all(record[at..].as_bytes())?;
        self.target.write_all(b"\n")?;
        self.lines += 1;
        self.line.clear();
        Ok(())
    }
}

impl<'a, W: Write, I: Iterator<Item = (u32, &'a str, f64)>> Write for StampedLines<'a, W, I> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !self.is_broken
            && let Some(end) = memchr::memchr(b'\n', rest)
        {
            self.line.extend_from_slice(&rest[..end]);
            self.end_line()?;
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// What is written in the place of a part of the record.
struct Part {
    from: usize,
    to: usize,
    text: String,
}

/// The changes of an episode, in order.
struct Edits {
    is_share: bool,
    parts: Vec<Part>,
    stamped: Stamped,
}

impl Edits {
    fn trace(&mut self, trace: Value<'_>, advantages: &HashMap<&str, f64>, is_shared: bool) {
        let id = trace.get("id").str().unwrap_or_default();
        // The package takes who does not say it for trained.
        let is_trained = trace.path(&["agent", "trainable"]).bool() != Some(false);
        let mut name = String::new();
        for (index, node) in trace.get("nodes").elements().enumerate() {
            name.clear();
            name.push_str(id);
            name.push(':');
            name.push_str(&index.to_string());
            let is_sampled = node.get("sampled").bool() == Some(true);
            let value = advantages.get(name.as_str()).filter(|_| is_sampled);
            // The package takes 1 for true.
            let is_set = |token: &Value<'_>| token.bool() == Some(true) || token.i64() == Some(1);
            let tokens = node.get("mask").elements().filter(is_set).count();
            let list = match value {
                Some(_) if is_shared => {
                    self.stamped.ambiguous += 1;
                    None
                }
                Some(_) if !is_trained => {
                    self.stamped.untrained += 1;
                    None
                }
                Some(_) if tokens == 0 => {
                    self.stamped.without_mask += 1;
                    None
                }
                Some(value) => {
                    self.stamped.nodes += 1;
                    Some(list(if self.is_share { value / tokens as f64 } else { *value }, tokens))
                }
                None => None,
            };
            self.node(node, list);
        }
    }

    /// Puts a list on a node, in the place of one that is there, else behind the log-probabilities, where the package has
    /// it; or takes away what is there.
    fn node(&mut self, node: Value<'_>, mut list: Option<String>) {
        if node.kind() != Some(Kind::Object) {
            return;
        }
        let begin = node.span().0 as usize;
        let start = begin + 1;
        // Where the last member ends that is cut or kept; while none is kept, where the first one may begin.
        let (mut before, mut is_first) = (start, true);
        // Where a list goes that no other has the place of, and how far back that is in `PLACES`.
        let mut place = (start, 0);
        let has_place = node.members().any(|(name, _)| name == "advantages");
        for (name, value) in node.members() {
            let (from, to) = value.span();
            let (from, to) = (from as usize, to as usize);
            if name != "advantages" {
                (before, is_first) = (to, false);
                let rank = PLACES.iter().position(|one| *one == name).map_or(0, |rank| rank + 1);
                if rank >= place.1 {
                    place = (to, rank);
                }
            } else if let Some(text) = list.take() {
                self.parts.push(Part { from, to, text });
                (before, is_first) = (to, false);
            } else {
                // The comma before it goes with it; of the first member the one behind it.
                let behind = node.raw().get(to - begin..).unwrap_or_default();
                let comma = behind.len() - behind.trim_ascii_start().len();
                let with_comma = is_first && behind[comma..].starts_with(',');
                let to = if with_comma { to + comma + 1 } else { to };
                self.parts.push(Part { from: before, to, text: String::new() });
                before = to;
            }
        }
        if let Some(list) = list.filter(|_| !has_place) {
            let comma = if is_first { "" } else { "," };
            self.parts.push(Part {
                from: place.0,
                to: place.0,
                text: format!("{comma}\"advantages\":{list}"),
            });
        }
    }
}

/// Members that a list is put behind, the last of them that there is.
const PLACES: [&str; 4] = ["token_ids", "mask", "is_content", "logprobs"];

/// As many numbers with four decimals, which is how the package writes numbers of tokens.
fn list(value: f64, length: usize) -> String {
    // 0 has no sign there.
    let value = format!("{value:.4}").parse().unwrap_or(value) + 0.0;
    let mut text = String::with_capacity(2 + 8 * length);
    text.push('[');
    for token in 0..length {
        if token > 0 {
            text.push(',');
        }
        // Writing into memory does not fail.
        let _written = write!(text, "{value:?}");
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::RecordOptions;

    fn stamped(episodes: &str, advantages: &[&[(&'static str, f64)]], is_share: bool) -> (String, Stamped) {
        let numbers = advantages.iter().zip(0_u32..);
        let numbers =
            numbers.flat_map(|(some, line)| some.iter().map(move |(node, value)| (line, *node, *value)));
        let mut out = Vec::new();
        let mut lines = StampedLines::new(&mut out, numbers, is_share, RecordOptions::default().limits);
        // Pieces end anywhere.
        for piece in episodes.as_bytes().chunks(7) {
            lines.write_all(piece).unwrap();
        }
        let (written, stamped) = lines.stamped();
        assert_eq!(written, episodes.lines().count());
        (String::from_utf8(out).unwrap(), stamped)
    }

    fn episode(nodes: &str) -> String {
        format!(
            "{{\"id\":\"e\",\"traces\":[{{\"id\":\"t\",\"agent\":{{\"name\":\"a\"}},\"nodes\":[{nodes}]}}]}}\n"
        )
    }

    #[test]
    fn what_json_does_not_have_stays_as_it_is_written() {
        let node = r#"{"sampled":true,"mask":[1],"logprobs":[NaN],"message":"\ud83d"}"#;
        let (text, _) = stamped(&episode(node), &[&[("t:0", 1.0)]], false);
        assert_eq!(text, episode(&node.replace("[NaN]", "[NaN],\"advantages\":[1.0]")));
    }

    #[test]
    fn nobody_knows_whose_numbers_of_a_shared_id_are() {
        let trace = format!("{{\"id\":\"t\",\"nodes\":[{SAMPLED}]}}");
        let twice = format!("{{\"traces\":[{trace},{trace}]}}\n");
        let (text, counts) = stamped(&twice, &[&[("t:0", 1.0)]], false);
        assert_eq!((text, counts.ambiguous, counts.nodes), (twice, 2, 0));
    }

    const SAMPLED: &str =
        r#"{"sampled":true,"mask":[false,true,true],"logprobs":[-0.1,-0.2],"entropies":[]}"#;

    #[test]
    fn a_list_stands_behind_the_log_probabilities() {
        let (text, counts) = stamped(&episode(SAMPLED), &[&[("t:0", 0.123_456)]], false);
        let node = r#"{"sampled":true,"mask":[false,true,true],"logprobs":[-0.1,-0.2],"advantages":[0.1235,0.1235],"entropies":[]}"#;
        assert_eq!(text, episode(node));
        assert_eq!(counts, Stamped { nodes: 1, ..Stamped::default() });
    }

    #[test]
    fn what_was_there_goes_wherever_it_stood() {
        for node in [
            r#"{"sampled":true,"advantages":[1.0,1.0],"mask":[true,true]}"#,
            r#"{"advantages":[1.0,1.0],"sampled":true,"mask":[true,true]}"#,
            r#"{"advantages": null , "sampled":true,"mask":[true,true],"advantages":[2.0]}"#,
            r#"{"advantages":[1],"advantages":[2],"sampled":true,"mask":[true,true],"advantages":[],"advantages":7}"#,
            r#"{"sampled":true,"mask":[true,true], "advantages" : [1.0, 1.0]}"#,
        ] {
            let (text, counts) = stamped(&episode(node), &[&[]], false);
            assert!(!text.contains("advantages") && counts == Stamped::default(), "{text}");
            let tree = Tree::parse(&text, RecordOptions::default().limits).unwrap();
            let node = tree.root().get("traces").at(0).get("nodes").at(0);
            assert_eq!(node.members().map(|(name, _)| name).collect::<Vec<_>>(), ["sampled", "mask"]);
            let (text, _) = stamped(&episode(r#"{"advantages":[1.0]}"#), &[&[]], false);
            assert_eq!(text, episode("{}"));
        }
        let placed = r#"{"advantages": [7], "sampled":true,"mask":[true]}"#;
        let (text, _) = stamped(&episode(placed), &[&[("t:0", -0.000_01)]], false);
        assert_eq!(text, episode(&placed.replace("[7]", "[0.0]")), "a zero without a sign, in its place");
    }

    #[test]
    fn only_what_was_sampled_of_who_is_trained_gets_numbers() {
        let nodes = r#"{"mask":[true]},{"sampled":true},{"sampled":true,"mask":[false]},{"sampled":true,"mask":[true]}"#;
        let all: &[(&str, f64)] = &[("t:0", 1.0), ("t:1", 1.0), ("t:2", 1.0), ("t:3", 1.0), ("t:9", 1.0)];
        let (text, counts) = stamped(&episode(nodes), &[all], false);
        assert_eq!(text.matches("advantages").count(), 1);
        assert_eq!(counts, Stamped { nodes: 1, untrained: 0, without_mask: 2, ambiguous: 0, missing: 2 });
        let idle = episode(nodes).replace("{\"name\":\"a\"}", "{\"trainable\":false}");
        let (text, counts) = stamped(&idle, &[all], false);
        assert_eq!((text.as_str(), counts.untrained), (idle.as_str(), 3));
    }

    #[test]
    fn nothing_is_written_behind_a_line_that_is_no_episode() {
        let mut out = Vec::new();
        let mut lines =
            StampedLines::new(&mut out, std::iter::empty(), false, RecordOptions::default().limits);
        write!(lines, "{}{{\n{}", episode(SAMPLED), episode(SAMPLED)).unwrap();
        assert_eq!(lines.stamped().0, 1);
        assert_eq!(out, episode(SAMPLED).as_bytes());
    }

    #[test]
    fn a_share_is_divided_among_the_tokens_of_its_own_episode() {
        let two = episode(SAMPLED).repeat(2);
        let (text, _) = stamped(&two, &[&[], &[("t:0", 1.0)]], true);
        let (first, second) = text.split_at(text.find('\n').unwrap() + 1);
        assert_eq!(first, episode(SAMPLED));
        assert!(second.contains("\"advantages\":[0.5,0.5]"));
    }
}
