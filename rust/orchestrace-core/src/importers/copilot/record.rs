//! Events of a session, as their lines have them.

use std::collections::HashMap;

use crate::importers::TraceItems;
use crate::importers::parsed::ParsedItems;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

pub(super) const START: &str = "session.start";
pub(super) const HOOK: &str = "hook.start";

/// What the root is called where agents are named by an id.
pub(super) const MAIN: &str = "main";

/// An event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'v> {
    pub item: u32,
    pub path: &'v str,
    pub line: u64,
    pub value: Value<'v>,
    pub kind: &'v str,
    pub data: Value<'v>,
    pub time: Option<i64>,
    pub after_loss: bool,
}

impl<'v> Event<'v> {
    /// What the sub-agent that it is of is known by: the call that spawned it, or its id. Of the root nothing.
    pub(super) fn owner(&self) -> Option<&'v str> {
        let by_id = self.value.get("agentId").some_str().filter(|id| *id != MAIN);
        self.data.get("parentToolCallId").some_str().or(by_id)
    }

    /// The call that it is about.
    pub(super) fn call(&self) -> &'v str {
        self.data.get("toolCallId").str().unwrap_or_default()
    }
}

/// The prompt that a hook was told, which says what the user asked where no event does.
pub(super) fn prompt_of_hook(data: Value<'_>) -> Option<&str> {
    let is_prompt = data.get("hookType").str() == Some("userPromptSubmitted");
    data.path(&["input", "prompt"]).str().filter(|_| is_prompt)
}

/// All events of a trace in their order.
pub(super) fn events<'v>(items: &TraceItems<'v>, parsed: &'v ParsedItems<'_>) -> Vec<Event<'v>> {
    let mut events: Vec<Event<'v>> = parsed
        .values()
        .map(|(item, value)| {
            let from = &items.as_slice()[item as usize];
            Event {
                item,
                path: from.path,
                line: from.line,
                value,
                kind: value.get("type").str().unwrap_or_default(),
                data: value.get("data"),
                time: value.get("timestamp").str().and_then(parse_timestamp),
                after_loss: from.after_loss,
            }
        })
        .collect();
    if events.windows(2).any(|pair| pair[0].path != pair[1].path) {
        merge(&mut events);
    }
    events
}

/// Puts several files of one session together, of which one goes on where another ends: by time, which never goes back
/// within a file, then by line, so that the order of files decides nothing.
fn merge(events: &mut [Event<'_>]) {
    let mut latest: HashMap<&str, Option<i64>> = HashMap::new();
    let mut times = HashMap::with_capacity(events.len());
    for event in events.iter() {
        let time = latest.entry(event.path).or_insert(event.time);
        *time = event.time.max(*time);
        times.insert(event.item, *time);
    }
    events.sort_by_key(|event| (times.get(&event.item).copied().flatten(), event.line, event.path));
}
