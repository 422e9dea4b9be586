//! Which messages and tools the telemetry of a session speaks of, and what it alone knows.

use std::collections::{BTreeMap, BTreeSet};

use super::NAME;
use super::line::{Step, TELEMETRY};
use super::session::Session;
use super::telemetry::Request;
use super::usage::usage_of;
use crate::importers::TraceItems;
use crate::importers::gemini_parts::Part;
use crate::importers::kind::counted_as;
use crate::importers::recording::Usage;

/// What telemetry adds to messages.
#[derive(Debug, Default)]
pub(super) struct Telemetry {
    /// The request of an answer, by its stream and its first line.
    pub request_of: BTreeMap<(usize, usize), usize>,
    /// How long a tool took, by the item of the line with its result.
    pub took_s: BTreeMap<u32, f64>,
    /// Requests of sub-agents that no message answers.
    pub unpaired: Vec<usize>,
}

impl Telemetry {
    /// Finds the message that each request was answered with, and puts the rest where they were made.
    pub(super) fn of(items: &TraceItems<'_>, session: &mut Session<'_>) -> Self {
        let mut read = Self::default();
        let (mut unknown, mut silent) = (Vec::new(), Vec::new());
        let Session { streams, requests, .. } = session;
        for (at, stream) in streams.iter().enumerate() {
            let mut before = None;
            for step in &stream.steps {
                let Step::Answer(lines) = step else { continue };
                match usage_of(stream.answer(lines)).filter(|counts| !counts.is_empty()) {
                    Some(counts) => match requests.answered(stream.agent, &counts) {
                        Some(request) => drop(read.request_of.insert((at, lines.start), request)),
                        None if at > 0 => unknown.push((at, lines.start, counts)),
                        None => {}
                    },
                    None => silent.push((at, lines.start, before)),
                }
                before = Some(lines.end - 1);
            }
        }
        for (at, start, counts) in unknown {
            if let Some(request) = requests.answered_by_another_name(&counts) {
                read.request_of.insert((at, start), request);
            }
        }
        // Only what no usage identifies is left to the place, of sub-agents to the time.
        for (at, start, before) in silent {
            let stream = &streams[at];
            let time = |line: usize| stream.lines[line].time;
            let request = if at == 0 {
                let is_early = |request: &Request<'_>| before.is_some_and(|before| request.at <= before);
                requests.before(None, is_early, |request| request.at > start)
            } else {
                let is_early =
                    |request: &Request<'_>| before.is_some_and(|before| request.time <= time(before));
                requests.before(stream.agent, is_early, |request| request.time > time(start))
            };
            if let Some(request) = request {
                read.request_of.insert((at, start), request);
            }
        }
        read.tools(items, session);
        read.rest(items, session);
        read
    }

    /// How long tools of the main stream took. What says it names no call: it is believed where an answer has one call of
    /// a tool.
    fn tools(&mut self, items: &TraceItems<'_>, session: &Session<'_>) {
        let main = &session.streams[0];
        let mut used = BTreeSet::new();
        let mut runs = session.tool_runs.iter().peekable();
        let answers = main.steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Answer(_)));
        let bounds: Vec<usize> = answers.map(|(at, _)| at).chain([main.steps.len()]).collect();
        for bound in bounds.windows(2) {
            let end = main.steps.get(bound[1]).and_then(Step::begins).unwrap_or(usize::MAX);
            let begin = main.steps[bound[0]].begins().unwrap_or(0);
            let (mut results, mut runs_of) = (BTreeMap::new(), BTreeMap::new());
            for step in &main.steps[bound[0]..bound[1]] {
                let Step::Results(line) = step else { continue };
                for part in main.lines[*line].parts() {
                    let Part::Response(response) = part else { continue };
                    let name = response.get("name").str().unwrap_or_default();
                    results.entry(name).or_insert_with(Vec::new).push(main.lines[*line].item);
                }
            }
            while let Some(run) = runs.next_if(|run| run.at < end) {
                if run.at >= begin {
                    runs_of.entry(run.tool).or_insert_with(Vec::new).push(run);
                }
            }
            for (tool, runs) in runs_of {
                if let ([run], Some([item])) = (&runs[..], results.get(tool).map(Vec::as_slice)) {
                    self.took_s.insert(*item, run.took_s);
                    used.insert(run.item);
                }
            }
        }
        for run in session.tool_runs.iter().filter(|run| !used.contains(&run.item)) {
            items.ignored(run.item as usize, &counted_as(NAME, TELEMETRY));
        }
    }

    /// What no message answers. A request that counts nothing says nothing.
    fn rest(&mut self, items: &TraceItems<'_>, session: &mut Session<'_>) {
        let Session { streams, requests, .. } = session;
        let by_agent: BTreeMap<Option<&str>, usize> =
            streams.iter().enumerate().map(|(at, stream)| (stream.agent, at)).collect();
        let mut of_stream = vec![Vec::new(); streams.len()];
        for (at, request) in requests.all.iter().enumerate().filter(|(_, request)| !request.is_told) {
            if request.counts.usage() == Usage::default() {
                items.ignored(request.item as usize, &counted_as(NAME, TELEMETRY));
                continue;
            }
            match by_agent.get(&request.agent) {
                Some(stream) => of_stream[*stream].push(at),
                None => self.unpaired.push(at),
            }
        }
        for (stream, requests_here) in streams.iter_mut().zip(of_stream) {
            let is_main = stream.agent.is_none();
            let mut waiting = requests_here.into_iter().peekable();
            let mut steps = Vec::with_capacity(stream.steps.len() + waiting.len());
            for step in std::mem::take(&mut stream.steps) {
                if let Some(begins) = step.begins() {
                    let is_earlier = |at: &usize| {
                        let request = &requests.all[*at];
                        if is_main { request.at < begins } else { request.time < stream.lines[begins].time }
                    };
                    while let Some(at) = waiting.next_if(is_earlier) {
                        steps.push(Step::Request(at));
                    }
                }
                steps.push(step);
            }
            steps.extend(waiting.map(Step::Request));
            stream.steps = steps;
        }
    }
}
