//! A session, put together from all of its lines.

use std::collections::{BTreeMap, BTreeSet};

use super::NAME;
use super::is_meta;
use super::line::{Line, Stream, TELEMETRY, agent_of};
use super::telemetry::{Event, Request, Requests, ToolRun};
use crate::importers::TraceItems;
use crate::importers::kind::counted_as;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::Recording;
use crate::json::tree::Value;

/// A session, as its files have it.
#[derive(Debug)]
pub(super) struct Session<'v> {
    /// The main stream, which may be empty, then those of sub-agents in the order of their ids.
    pub streams: Vec<Stream<'v>>,
    /// What stands beside the files of sub-agents, by their ids.
    pub metas: BTreeMap<&'v str, Value<'v>>,
    pub requests: Requests<'v>,
    pub tool_runs: Vec<ToolRun<'v>>,
}

impl<'v> Session<'v> {
    pub(super) fn of(items: &TraceItems<'v>, parsed: &'v ParsedItems<'_>, recording: &mut Recording) -> Self {
        let mut by_agent = BTreeMap::from([(None, Stream::default())]);
        let mut metas = BTreeMap::new();
        for (item, value) in parsed.values() {
            if is_meta(value) {
                // Written again whenever something becomes of the agent; what is read of it stays.
                if metas.insert(value.get("agentId").str().unwrap_or_default(), value).is_some() {
                    items.duplicate(item as usize);
                }
                continue;
            }
            by_agent.entry(agent_of(value)).or_default().lines.push(Line::of(item, items, value));
        }
        let (mut streams, mut requests, mut tool_runs) = (Vec::new(), Vec::new(), Vec::new());
        for (agent, mut stream) in by_agent {
            stream.agent = agent;
            stream.merge_files();
            stream.branch(recording);
            stream.step(items);
            let telemetry = stream.lines.iter().enumerate();
            for (at, line) in telemetry.filter(|(_, line)| line.kind == "system" && line.subtype == TELEMETRY)
            {
                match Event::of(at, line) {
                    Event::Request(request) => {
                        requests.push(Request { agent: request.agent.or(agent), ..request });
                    }
                    Event::ToolRun(run) => tool_runs.push(run),
                    Event::Other => items.ignored(line.item as usize, &counted_as(NAME, TELEMETRY)),
                }
            }
            streams.push(stream);
        }
        let agents: BTreeSet<_> = streams.iter().map(|stream| stream.agent).collect();
        let requests = Requests::of(requests, |agent| agents.contains(&agent));
        Self { streams, metas, requests, tool_runs }
    }
}
