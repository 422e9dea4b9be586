//! What the telemetry of a session says of requests and tools. It repeats the usage that messages have, and is all that
//! is known of requests without a message.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::line::Line;
use crate::importers::gemini_parts::Counts;

/// A request to a model that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'v> {
    pub item: u32,
    /// The id of its line.
    pub id: Option<&'v str>,
    /// The place of its line in its stream.
    pub at: usize,
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
    /// The place of its line in its stream.
    pub at: usize,
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
    pub(super) fn of(at: usize, line: &Line<'v>) -> Self {
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
                at,
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
                Self::ToolRun(ToolRun { item: line.item, at, tool, took_s })
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
    /// Of each agent, and of all whose own records are not there: the last one first.
    by_counts: HashMap<(Owner<'v>, [i64; 4]), Vec<usize>>,
    /// Of each agent, in the order in which they were made.
    of_agent: BTreeMap<Option<&'v str>, Vec<usize>>,
}

/// Whose a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner<'v> {
    /// The agent of a stream; none of the main one.
    Stream(Option<&'v str>),
    /// Any agent of which there is no stream.
    Unknown,
}

impl<'v> Requests<'v> {
    /// `has_stream` says whether an agent has records of its own.
    pub(super) fn of(all: Vec<Request<'v>>, has_stream: impl Fn(Option<&str>) -> bool) -> Self {
        let mut by_counts: HashMap<_, Vec<usize>> = HashMap::new();
        let mut of_agent: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, request) in all.iter().enumerate().rev() {
            let is_known = has_stream(request.agent);
            let owner = if is_known { Owner::Stream(request.agent) } else { Owner::Unknown };
            by_counts.entry((owner, key(&request.counts))).or_default().push(at);
        }
        for (at, request) in all.iter().enumerate() {
            of_agent.entry(request.agent).or_default().push(at);
        }
        // The telemetry of sub-agents stands in the main stream, their answers do not.
        for (_, requests) in of_agent.iter_mut().filter(|(agent, _)| agent.is_some()) {
            requests.sort_by_key(|at| all[*at].time);
        }
        Self { all, by_counts, of_agent }
    }

    /// The first request of an agent that nothing answers yet and whose answer has these counts.
    pub(super) fn answered(&mut self, agent: Option<&'v str>, counts: &Counts) -> Option<usize> {
        let at = self.by_counts.get_mut(&(Owner::Stream(agent), key(counts)))?.pop()?;
        self.all[at].is_told = true;
        Some(at)
    }

    /// The same of an agent that telemetry calls otherwise than its records do.
    pub(super) fn answered_by_another_name(&mut self, counts: &Counts) -> Option<usize> {
        let at = self.by_counts.get_mut(&(Owner::Unknown, key(counts)))?.pop()?;
        self.all[at].is_told = true;
        Some(at)
    }

    /// The last request of an agent before an answer that nothing answers yet. `is_late` says of a request whether it came
    /// after the answer, `is_early` whether it came before the answer before. O(log n) and those between.
    pub(super) fn before(
        &mut self,
        agent: Option<&'v str>,
        is_early: impl Fn(&Request<'v>) -> bool,
        is_late: impl Fn(&Request<'v>) -> bool,
    ) -> Option<usize> {
        let requests = self.of_agent.get(&agent)?;
        let begin = requests.partition_point(|at| is_early(&self.all[*at]));
        let end = requests.partition_point(|at| !is_late(&self.all[*at]));
        let at = *requests.get(begin..end)?.iter().rfind(|at| !self.all[**at].is_told)?;
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
