//! What the telemetry of a session says of requests and tools. It repeats the usage that messages have, and is all that
//! is known of requests without a message.

use hashbrown::HashMap;

use super::line::Line;
use crate::importers::gemini_parts::Counts;

/// A request to a model that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'v> {
    pub item: u32,
    /// The id of its line.
    pub id: Option<&'v str>,
    pub path: &'v str,
    /// The sub-agent whose request it was; none of the main stream.
    pub agent: Option<&'v str>,
    pub model: &'v str,
    pub counts: Counts,
    pub time: Option<i64>,
    pub took_s: Option<f64>,
    /// Whether a message is its answer.
    pub is_told: bool,
}

/// A tool of the main stream that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolRun<'v> {
    pub item: u32,
    pub tool: &'v str,
    pub took_s: f64,
}

/// An event of telemetry.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<'v> {
    Request(Request<'v>),
    ToolRun(ToolRun<'v>),
    /// What says nothing to anybody: failed requests, feedback.
    Other,
}

impl<'v> Event<'v> {
    /// What a line of telemetry says.
    pub(super) fn of(line: &Line<'v>) -> Self {
        let event = line.value.path(&["systemPayload", "uiEvent"]);
        let took_s = event.get("duration_ms").f64().filter(|ms| *ms > 0.0).map(|ms| ms / 1e3);
        let agent = agent_of(event.get("prompt_id").str().unwrap_or_default());
        if event.get("input_token_count").exists() {
            let count = |key: &str| event.get(key).integer_like();
            let counts = Counts {
                input: count("input_token_count"),
                tool: count("tool_token_count"),
                output: count("output_token_count"),
                thoughts: count("thoughts_token_count"),
                cached: count("cached_content_token_count"),
                total: count("total_token_count"),
            };
            let model = event.get("model").str().unwrap_or_default();
            return Self::Request(Request {
                item: line.item,
                id: line.id,
                path: line.path,
                agent,
                model,
                counts,
                time: line.time,
                took_s,
                is_told: false,
            });
        }
        match (event.get("function_name").some_str(), took_s) {
            (Some(tool), Some(took_s)) if agent.is_none() => {
                Self::ToolRun(ToolRun { item: line.item, tool, took_s })
            }
            _ => Self::Other,
        }
    }
}

/// The sub-agent that a prompt is of: `<session>#<agent>#<round>`. Those of the main stream have no agent there.
fn agent_of(prompt: &str) -> Option<&str> {
    let (rest, round) = prompt.rsplit_once('#')?;
    let (_, agent) = rest.split_once('#')?;
    let is_round = !round.is_empty() && round.bytes().all(|byte| byte.is_ascii_digit());
    (is_round && !agent.is_empty() && !agent.contains('#')).then_some(agent)
}

/// The requests of a session, by what their answers count.
#[derive(Debug)]
pub(super) struct Requests<'v> {
    pub all: Vec<Request<'v>>,
    /// Of requests of the main stream, and of others: by counts, the last one first.
    by_counts: HashMap<(bool, [i64; 4]), Vec<usize>>,
}

impl<'v> Requests<'v> {
    pub(super) fn of(all: Vec<Request<'v>>) -> Self {
        let mut by_counts: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, request) in all.iter().enumerate().rev() {
            by_counts.entry((request.agent.is_some(), key(&request.counts))).or_default().push(at);
        }
        Self { all, by_counts }
    }

    /// The first request that nothing answers yet and whose answer has these counts.
    pub(super) fn answered(&mut self, is_main: bool, counts: &Counts) -> Option<usize> {
        let at = self.by_counts.get_mut(&(!is_main, key(counts)))?.pop()?;
        self.all[at].is_told = true;
        Some(at)
    }

    /// The last request of the main stream that nothing answers, within a part of a file. O(n) in those behind it.
    pub(super) fn before(&mut self, path: &str, after: u32, before: u32) -> Option<usize> {
        let end = self.all.partition_point(|request| request.item < before);
        let within = self.all[..end].iter().rposition(|r| r.item <= after).map_or(0, |at| at + 1);
        let at = (within..end).rev().find(|at| {
            let request = &self.all[*at];
            !request.is_told && request.agent.is_none() && request.path == path
        })?;
        self.all[at].is_told = true;
        Some(at)
    }
}

/// Telemetry writes 0 for what a message does not count.
fn key(counts: &Counts) -> [i64; 4] {
    [counts.input, counts.output, counts.cached, counts.thoughts].map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_names_its_agent() {
        let table = [
            ("s########3", None),
            ("s#explore-7f#0", Some("explore-7f")),
            ("s#explore-7f#", None),
            ("s#explore-7f#x", None),
            ("s#3", None),
            ("", None),
        ];
        for (prompt, agent) in table {
            assert_eq!(agent_of(prompt), agent, "{prompt}");
        }
    }
}
