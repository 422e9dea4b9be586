//! Tools that ask models: whoever asks within the use of a tool is not the agent that uses it. Each such use becomes
//! an agent at work, called as the call says or like the tool.

use hashbrown::HashMap;

use super::forest::Forest;
use super::{AgentWork, NONE, Span, Spans, Text, Who, Work};

/// Puts an agent between such tools and what is below them; whether there was one.
pub(super) fn insert(all: &mut Spans, forest: &Forest) -> bool {
    // By tool, the id of who asked first.
    let mut asking: HashMap<u32, Text> = HashMap::new();
    for &i in &forest.order {
        let tool = forest.places[i as usize].tool;
        if let Work::Generation(generation) = all.spans[i as usize].work
            && tool != NONE
        {
            let id = asking.entry(tool).or_insert(generation.who.id);
            if id.is_none() {
                *id = generation.who.id;
            }
        }
    }
    if asking.is_empty() {
        return false;
    }
    let mut tools: Vec<(u32, Text)> = asking.into_iter().collect();
    tools.sort_unstable_by_key(|(tool, _)| *tool);
    let mut ids: HashMap<String, Text> = HashMap::new();
    let mut agents = Vec::new();
    for (tool, asker) in tools {
        let span = all.spans[tool as usize];
        let Work::Tool(used) = span.work else { continue };
        let span_id = all.read(span.id).to_owned();
        let id = all.recording.join(&[&span_id, ":agent"]);
        let name = if used.asks_for.is_none() { used.tool } else { used.asks_for };
        let who = Who { name, id: asker, ..Who::default() };
        let work = Work::Agent(AgentWork { who, output: used.result });
        agents.push(Span { id, parent: span.id, error_type: Text::default(), work, ..span });
        ids.insert(span_id, id);
    }
    for i in 0..all.spans.len() {
        let parent = all.spans[i].parent;
        if !matches!(all.spans[i].work, Work::Decision)
            && let Some(id) = ids.get(all.read(parent))
        {
            all.spans[i].parent = *id;
        }
    }
    for agent in agents {
        all.push(agent);
    }
    true
}
