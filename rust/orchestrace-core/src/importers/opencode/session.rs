//! Sessions as their records have them: each message and part in its last state, in order.

use std::collections::{BTreeMap, HashMap};

use super::{BETWEEN, MESSAGE};
use crate::importers::TraceItems;
use crate::importers::parsed::ParsedItems;
use crate::json::tree::Value;

/// Least length of an id that says when it was made: such ids are in the order of time.
const ORDERED: usize = 20;

/// A part of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'v> {
    pub item: u32,
    path: &'v str,
    pub value: Value<'v>,
    pub kind: &'v str,
    pub id: Option<&'v str>,
}

/// A message.
#[derive(Debug)]
pub(super) struct Message<'v> {
    pub id: &'v str,
    /// What is said of it, if that is there.
    pub info: Option<(u32, Value<'v>)>,
    path: &'v str,
    pub parts: Vec<Part<'v>>,
    pub after_loss: bool,
}

impl<'v> Message<'v> {
    pub(super) fn get(&self, key: &str) -> Option<Value<'v>> {
        self.info.map(|(_, info)| info.get(key)).filter(|value| value.exists())
    }

    /// Who says it: a message of which only parts are there is an answer, since those alone are printed.
    pub(super) fn is_of_user(&self) -> bool {
        self.get("role").and_then(Value::str) == Some("user")
    }

    /// An item of it.
    pub(super) fn item(&self) -> u32 {
        self.info.map(|(item, _)| item).or(self.parts.first().map(|part| part.item)).unwrap_or(0)
    }

    fn place(&self) -> (&'v str, u32) {
        (self.path, self.item())
    }
}

/// A session.
#[derive(Debug)]
pub(super) struct Session<'v> {
    pub id: &'v str,
    pub info: Option<(u32, Value<'v>)>,
    pub messages: Vec<Message<'v>>,
}

impl<'v> Session<'v> {
    pub(super) fn get(&self, key: &str) -> Option<Value<'v>> {
        self.info.map(|(_, info)| info.get(key)).filter(|value| value.exists())
    }

    pub(super) fn parent(&self) -> Option<&'v str> {
        self.get("parentID")?.some_str()
    }
}

/// What something is called, within something else that has a name.
type Name<'v> = (&'v str, &'v str);

/// A state: its file, its item and what it says.
type State<'v> = (&'v str, u32, Value<'v>);

/// States of things by their ids.
struct States<'v> {
    /// By the file that has it: the last one of a file is its state there.
    of: BTreeMap<Name<'v>, Vec<State<'v>>>,
}

impl<'v> States<'v> {
    /// Takes a state of what is called so within something else.
    fn put(
        &mut self,
        items: &TraceItems<'_>,
        name: (&'v str, &'v str),
        path: &'v str,
        (item, value): (u32, Value<'v>),
    ) {
        let states = self.of.entry(name).or_default();
        match states.iter_mut().find(|(known, ..)| *known == path) {
            Some(state) => {
                items.duplicate(state.1 as usize);
                (state.1, state.2) = (item, value);
            }
            None => states.push((path, item, value)),
        }
    }

    /// The state of each that says most; no order of files decides.
    fn settle(self, items: &TraceItems<'_>) -> Vec<(Name<'v>, State<'v>)> {
        let mut settled = Vec::new();
        for (name, states) in self.of {
            let rank = |state: &(&'v str, u32, Value<'v>)| {
                let text = state.2.raw();
                (text.len(), text, std::cmp::Reverse(state.0))
            };
            let Some(most) = states.iter().max_by_key(|state| rank(state)).copied() else { continue };
            for (_, item, _) in states.iter().filter(|(_, item, _)| *item != most.1) {
                items.duplicate(*item as usize);
            }
            settled.push((name, most));
        }
        settled
    }
}

/// All sessions of a trace, by their ids.
pub(super) fn sessions<'v>(items: &TraceItems<'v>, parsed: &'v ParsedItems<'_>) -> Vec<Session<'v>> {
    let [mut heads, mut infos, mut named] = [(); 3].map(|()| States { of: BTreeMap::new() });
    let mut parts: Vec<(&str, Part<'v>)> = Vec::new();
    let mut of_message: HashMap<&str, &str> = HashMap::new();
    let mut lost: HashMap<&str, bool> = HashMap::new();
    for (item, value) in parsed.values() {
        let from = &items.as_slice()[item as usize];
        let (session, message) = from.context.split_once(BETWEEN).unwrap_or_default();
        if value.get("role").exists() {
            let id = if message.is_empty() { value.get("id").str().unwrap_or_default() } else { message };
            let session = value.get("sessionID").some_str().unwrap_or(session);
            of_message.entry(id).or_insert(session);
            infos.put(items, (session, id), from.path, (item, value));
        } else if from.context.is_empty() {
            heads.put(items, (value.get("id").str().unwrap_or_default(), ""), from.path, (item, value));
            continue;
        } else {
            if let Some(session) =
                value.get("sessionID").some_str().or(Some(session)).filter(|s| !s.is_empty())
            {
                of_message.entry(message).or_insert(session);
            }
            let part = Part {
                item,
                path: from.path,
                value,
                kind: value.get("type").str().unwrap_or_default(),
                id: value.get("id").some_str(),
            };
            match part.id {
                Some(id) => named.put(items, (message, id), from.path, (item, value)),
                None => parts.push((message, part)),
            }
        }
        if from.after_loss {
            lost.insert(
                if message.is_empty() { value.get("id").str().unwrap_or_default() } else { message },
                true,
            );
        }
    }
    parts.extend(named.settle(items).into_iter().map(|((message, id), (path, item, value))| {
        let kind = value.get("type").str().unwrap_or_default();
        (message, Part { item, path, value, kind, id: Some(id) })
    }));
    let mut all: BTreeMap<&str, Session<'v>> = BTreeMap::new();
    for ((id, _), (_, item, value)) in heads.settle(items) {
        all.insert(id, Session { id, info: Some((item, value)), messages: Vec::new() });
    }
    let mut messages: BTreeMap<(&str, &str), Message<'v>> = BTreeMap::new();
    for ((session, id), (path, item, value)) in infos.settle(items) {
        let after_loss = lost.contains_key(id);
        let message = Message { id, info: Some((item, value)), path, parts: Vec::new(), after_loss };
        messages.insert((session, id), message);
    }
    let unknown = items.key().trim_start_matches(MESSAGE);
    for (id, part) in parts {
        let session = of_message.get(id).copied().unwrap_or(unknown);
        let after_loss = lost.contains_key(id);
        let message = messages.entry((session, id)).or_insert_with(|| Message {
            id,
            info: None,
            path: part.path,
            parts: Vec::new(),
            after_loss,
        });
        message.parts.push(part);
    }
    for ((session, _), mut message) in messages {
        order_parts(&mut message.parts);
        let session =
            all.entry(session).or_insert_with(|| Session { id: session, info: None, messages: Vec::new() });
        session.messages.push(message);
    }
    let mut all: Vec<Session<'v>> = all.into_values().collect();
    for session in &mut all {
        order_messages(&mut session.messages);
    }
    all
}

/// Parts are in the order of their ids, which say when they were made; others in that of their places.
fn order_parts(parts: &mut [Part<'_>]) {
    if parts.iter().all(|part| part.id.is_some_and(|id| is_ordered(id, "prt_"))) {
        parts.sort_by_key(|part| part.id);
    } else {
        parts.sort_by_key(|part| (part.path, part.item));
    }
}

/// The same of messages; those that lie in several files are in the order of their times.
fn order_messages(messages: &mut [Message<'_>]) {
    if messages.iter().all(|message| is_ordered(message.id, "msg_")) {
        messages.sort_by_key(|message| message.id);
        return;
    }
    messages.sort_by_key(Message::place);
    let mut latest: HashMap<&str, Option<i64>> = HashMap::new();
    let mut before = None;
    let times: HashMap<(&str, u32), Option<i64>> = messages
        .iter()
        .map(|message| {
            // One without a time is where it lies.
            let time = message.get("time").and_then(|time| time.get("created").i64()).or(before);
            before = time;
            let so_far = latest.entry(message.path).or_insert(time);
            *so_far = time.max(*so_far);
            (message.place(), *so_far)
        })
        .collect();
    messages.sort_by_key(|message| times.get(&message.place()).copied().flatten());
}

fn is_ordered(id: &str, kind: &str) -> bool {
    id.len() >= ORDERED && id.starts_with(kind)
}
