//! Messages of a session, as its files have them: each in its last state, and which of them were given up.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;

use super::{REWIND, is_header};
use crate::importers::TraceItems;
use crate::importers::parsed::ParsedItems;
use crate::json::time::instant;
use crate::json::tree::Value;

/// A message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'v> {
    pub item: u32,
    pub path: &'v str,
    /// Which message of its session it is, from 1.
    pub number: usize,
    pub value: Value<'v>,
    pub id: Option<&'v str>,
    pub kind: &'v str,
    pub time: Option<i64>,
    pub after_loss: bool,
    /// Whether a rewind gave it up.
    pub abandoned: bool,
}

/// All messages of a trace, and its headers.
#[derive(Debug, Default)]
pub(super) struct Read<'v> {
    pub heads: Vec<(u32, Value<'v>)>,
    pub messages: Vec<Message<'v>>,
    /// Where the message of a file, an id and a kind is.
    known: HashMap<(&'v str, &'v str, &'v str), usize>,
    /// Rewinds to a message that is not there.
    pub lost_rewinds: usize,
}

impl<'v> Read<'v> {
    pub(super) fn of(items: &TraceItems<'v>, parsed: &'v ParsedItems<'_>) -> Self {
        let mut read = Self::default();
        for (item, value) in parsed.values() {
            let from = &items.as_slice()[item as usize];
            if is_header(value) {
                read.heads.push((item, value));
            } else if value.get(REWIND).exists() {
                items.ignored(item as usize, "gemini_cli.rewind");
                read.rewind(from.path, value.get(REWIND).str());
            } else {
                let message = Message {
                    item,
                    path: from.path,
                    number: 0,
                    value,
                    id: value.get("id").some_str(),
                    kind: value.first(&["type", "role"]).str().unwrap_or_default(),
                    time: instant(time_of(value)),
                    after_loss: from.after_loss,
                    abandoned: false,
                };
                read.put(items, message);
            }
        }
        read.merge(items);
        for (number, message) in (1..).zip(&mut read.messages) {
            message.number = number;
        }
        read
    }

    /// A message that is written again is the same one in a later state, at its first place.
    fn put(&mut self, items: &TraceItems<'_>, message: Message<'v>) {
        let Some(id) = message.id else {
            self.messages.push(message);
            return;
        };
        match self.known.entry((message.path, id, message.kind)) {
            Slot::Occupied(at) => {
                let before = &mut self.messages[*at.get()];
                items.duplicate(before.item as usize);
                *before = Message { time: before.time.or(message.time), ..message };
            }
            Slot::Vacant(slot) => {
                slot.insert(self.messages.len());
                self.messages.push(message);
            }
        }
    }

    /// The message of this id and all after it are given up; without it, all are.
    fn rewind(&mut self, path: &str, id: Option<&str>) {
        let of_file = |message: &Message<'_>| message.path == path && !message.abandoned;
        let at =
            self.messages.iter().position(|message| of_file(message) && id.is_some() && message.id == id);
        self.lost_rewinds += usize::from(at.is_none());
        for message in &mut self.messages[at.unwrap_or(0)..] {
            message.abandoned |= message.path == path;
        }
    }

    /// Puts several files of one session together: of a message that two have, the one that says most is used. The order
    /// within a file stays, and no order of files decides.
    fn merge(&mut self, items: &TraceItems<'_>) {
        if self.messages.windows(2).all(|pair| pair[0].path == pair[1].path) {
            return;
        }
        let name = |message: &Message<'v>| Some((message.id?, message.kind));
        let rank = |message: &Message<'v>| {
            let text = message.value.raw();
            (text.len(), text, std::cmp::Reverse(message.path))
        };
        let mut used = BTreeMap::new();
        for message in &self.messages {
            if let Some(name) = name(message) {
                let most = used.entry(name).or_insert_with(|| rank(message));
                *most = rank(message).max(*most);
            }
        }
        self.messages.retain(|message| {
            let is_used = name(message).is_none_or(|name| used.get(&name) == Some(&rank(message)));
            if !is_used {
                items.duplicate(message.item as usize);
            }
            is_used
        });
        let mut latest = BTreeMap::new();
        let mut ordered: Vec<_> = std::mem::take(&mut self.messages)
            .into_iter()
            .map(|message| {
                let time = latest.entry(message.path).or_insert(message.time);
                *time = message.time.max(*time);
                ((*time, message.path), message)
            })
            .collect();
        ordered.sort_by_key(|(place, _)| *place);
        self.messages = ordered.into_iter().map(|(_, message)| message).collect();
    }
}

pub(super) fn time_of(message: Value<'_>) -> Value<'_> {
    message.first(&["timestamp", "ts"])
}
