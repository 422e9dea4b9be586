//! Calls that make agents work, and what comes back of them.

use std::collections::HashSet;

use super::describe::Describing;
use super::team::{Delegate, Team};
use crate::importers::recording::{Agent, Call, CallResult, Does, Entry, Text, hash};
use crate::importers::responses::text_of;
use crate::json::tree::Value;

/// What a member of a swarm gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member<'t> {
    id: Option<&'t str>,
    outcome: &'t str,
    text: &'t str,
}

impl<'v> Describing<'_, 'v> {
    /// The agents that results name.
    pub(super) fn named_agents(&self) -> HashSet<&'v str> {
        let mut named = HashSet::new();
        for (call, result) in &self.steps.result_of {
            let output = self.lines[*result].value.path(&["event", "result", "output"]);
            match (self.lines[*call].value.path(&["event", "name"]).str(), output.str()) {
                (Some("Agent"), Some(text)) => named.extend(of_head(text, "agent_id")),
                (Some("AgentSwarm"), Some(text)) => {
                    named.extend(members(text).into_iter().filter_map(|member| member.id));
                }
                _ => {}
            }
        }
        named
    }

    /// A call of a response; its id.
    pub(super) fn call(&mut self, response: Entry, line: usize) -> &'v str {
        let event = self.lines[line].value.get("event");
        let id = self.text_of(event.get("toolCallId"), "event.toolCallId");
        let tool = self.text_of(event.get("name"), "event.name");
        let call = self.tool_call(id, tool, event.get("args"));
        let agents = match tool {
            "Agent" => self.agent_of(line, event).into_iter().map(|agent| (agent, None)).collect(),
            "AgentSwarm" => self.swarm_of(line, event),
            _ => Vec::new(),
        };
        if agents.is_empty() {
            self.recording.call(response, call);
        }
        for (number, (agent, nth)) in agents.into_iter().enumerate() {
            let call_id = if number == 0 { call.id } else { self.call_id(&format!("{id}/{}", number + 1)) };
            self.recording.call(response, Call { id: call_id, does: Does::Spawns(agent), ..call });
            let delegate = Delegate { call: call_id, agent, nth };
            self.delegates.entry(line).or_default().push(delegate);
        }
        id
    }

    fn output_of(&self, call: usize) -> Option<(Value<'v>, bool)> {
        let result = self.lines[*self.steps.result_of.get(&call)?].value.path(&["event", "result"]);
        Some((result.get("output"), result.get("isError").bool() == Some(true)))
    }

    /// The agent that a call makes work, unless it failed before there was one.
    fn agent_of(&mut self, line: usize, event: Value<'v>) -> Option<Agent> {
        let args = event.get("args");
        let output = self.output_of(line);
        let text = output.and_then(|(output, _)| output.str()).unwrap_or_default();
        let kind = of_head(text, "actual_subagent_type").or_else(|| args.get("subagent_type").some_str());
        let kind = kind.unwrap_or("agent");
        let prompt = args.get("prompt").str().unwrap_or_default();
        let id = of_head(text, "agent_id").or_else(|| args.get("resume").some_str());
        if id.is_none() && output.is_some_and(|(_, failed)| failed) {
            return None;
        }
        let id = id.or_else(|| self.team.find_by_prompt(self.id, prompt, &self.claimed));
        let agent = match id {
            Some(id) => self.team.member(id, kind, self.agent, self.recording),
            None => Team::missing("", kind, self.agent, self.recording),
        };
        if is_running(text)
            && let Some(task) = of_head(text, "task_id")
        {
            self.team.works_on(self.id, task, agent);
        }
        Some(agent)
    }

    /// The agents of a swarm: those that its result names; without it those that are known to have been asked.
    fn swarm_of(&mut self, line: usize, event: Value<'v>) -> Vec<(Agent, Option<usize>)> {
        let args = event.get("args");
        let kind = args.get("subagent_type").some_str().unwrap_or("coder");
        let mut ids: Vec<(&'v str, Option<usize>)> = Vec::new();
        if let Some(text) = self.output_of(line).and_then(|(output, _)| output.str()) {
            let members = members(text).into_iter().enumerate();
            ids.extend(members.filter_map(|(nth, member)| Some((member.id?, Some(nth)))));
        } else {
            ids.extend(args.get("resume_agent_ids").members().map(|(id, _)| (id, None)));
            let template = args.get("prompt_template").str().unwrap_or_default();
            for item in args.get("items").elements().filter_map(Value::str) {
                let prompt = template.replace("{{item}}", item.trim());
                ids.extend(self.team.find_by_prompt(self.id, &prompt, &self.claimed).map(|id| (id, None)));
            }
        }
        let member = |(id, nth): (&'v str, _)| (self.team.member(id, kind, self.agent, self.recording), nth);
        ids.into_iter().map(member).collect()
    }

    /// What comes back of agents: once for each of them.
    pub(super) fn returns(&mut self, delegates: Vec<Delegate>, result: CallResult, output: Value<'v>) {
        let text = text_of(output);
        let launched = is_running(&text);
        let members = members(&text);
        for (number, delegate) in delegates.into_iter().enumerate() {
            let member = delegate.nth.and_then(|nth| members.get(nth));
            if !launched {
                self.team.end_is_told(delegate.agent);
            }
            let (content, ok) = match member {
                Some(member) => (Some(hash(member.text)), Some(member.outcome == "completed")),
                None => (result.content, result.ok),
            };
            let id = if number == 0 { result.id } else { Text::default() };
            let result = CallResult { call: delegate.call, id, content, ok, launched, ..result };
            self.recording.result(self.agent, result);
        }
    }
}

/// A value at the head of what the tool `Agent` gives back: lines of names and values, up to an empty one.
fn of_head<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let lines = text.lines().take_while(|line| !line.is_empty());
    let values = lines.filter_map(|line| line.split_once(": "));
    values.filter(|(key, _)| *key == name).map(|(_, value)| value.trim()).find(|value| !value.is_empty())
}

/// Whether a result says no more than that work in the background has begun.
fn is_running(text: &str) -> bool {
    of_head(text, "agent_id").is_some()
        && of_head(text, "status").is_some_and(|status| status.starts_with("running"))
}

/// The members that the result of a swarm lists; what they say may look like a member, too.
fn members(text: &str) -> Vec<Member<'_>> {
    const OPEN: &str = "<subagent";
    const CLOSE: &str = "</subagent>";
    let mut listed = Vec::new();
    if !text.starts_with("<agent_swarm_result>") {
        return listed;
    }
    let (mut at, mut depth) = (0, 0_usize);
    // Where the tag of the outermost open member begins, and where its text does.
    let mut outer = (0, 0);
    while let Some(next) = text[at..].find('<').map(|next| at + next) {
        let rest = &text[next..];
        at = next + 1;
        if rest.starts_with(CLOSE) {
            depth = depth.saturating_sub(1);
            if depth == 0 && outer.1 > 0 {
                let tag = &text[outer.0..outer.1];
                listed.push(Member {
                    id: attribute(tag, "agent_id"),
                    outcome: attribute(tag, "outcome").unwrap_or_default(),
                    text: &text[outer.1..next],
                });
                outer = (0, 0);
            }
        } else if rest.strip_prefix(OPEN).is_some_and(|rest| rest.starts_with([' ', '>'])) {
            if depth == 0 {
                outer = (next, rest.find('>').map_or(text.len(), |end| next + end + 1));
            }
            depth += 1;
        }
    }
    listed
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_result_ends_with_an_empty_line() {
        let text = "agent_id: agent-0\nstatus: completed\n\n[summary]\ntask_id: no";
        assert_eq!(of_head(text, "agent_id"), Some("agent-0"));
        assert_eq!(of_head(text, "task_id"), None);
        assert!(!is_running(text));
        assert!(is_running("task_id: t\nstatus: running\nagent_id: agent-1\n"));
    }

    #[test]
    fn members_of_a_swarm_may_quote_another_swarm() {
        let text = "<agent_swarm_result>\n<summary>completed: 1, failed: 1</summary>\n\
                    <subagent agent_id=\"agent-1\" item=\"a &gt; b\" outcome=\"completed\">x <b> \
                    <subagent agent_id=\"agent-9\">y</subagent></subagent>\n\
                    <subagent item=\"c\" outcome=\"failed\">no</subagent>\n</agent_swarm_result>";
        let listed = members(text);
        assert_eq!(listed.len(), 2);
        assert_eq!((listed[0].id, listed[0].outcome), (Some("agent-1"), "completed"));
        assert_eq!(listed[0].text, "x <b> <subagent agent_id=\"agent-9\">y</subagent>");
        assert_eq!((listed[1].id, listed[1].outcome, listed[1].text), (None, "failed", "no"));
        assert_eq!(members("<subagent agent_id=\"agent-9\">y</subagent>"), []);
        assert_eq!(members("<agent_swarm_result><subagent agent_id=\"agent-9\""), []);
    }
}
