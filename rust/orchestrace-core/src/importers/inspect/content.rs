//! Texts of a sample: parts of messages, attachments stored once, shared messages.

use std::collections::HashMap;

use crate::importers::recording::{Hash, call_hash, call_hash_of_text, hash};
use crate::json::tree::Value;
use crate::json::{Limits, write_string};

/// What a text that is kept elsewhere is replaced by, and its key.
const ATTACHMENT: &str = "attachment://";

/// Where the texts of a sample lie.
#[derive(Debug)]
pub(super) struct Contents<'t> {
    attachments: HashMap<&'t str, &'t str>,
    /// Messages that model inputs refer to by ranges.
    pool: Vec<Value<'t>>,
    limits: Limits,
}

impl<'t> Contents<'t> {
    pub(super) fn of(sample: Value<'t>, limits: Limits) -> Self {
        let attachments = sample.get("attachments").members();
        let pool = match sample.get("message_pool") {
            pool if pool.exists() => pool,
            _ => sample.path(&["events_data", "messages"]),
        };
        Self {
            attachments: attachments.filter_map(|(key, text)| Some((key, text.str()?))).collect(),
            pool: pool.elements().collect(),
            limits,
        }
    }

    /// The text that a string stands for: an attachment that is not there stands for itself.
    pub(super) fn resolve(&self, text: &'t str) -> &'t str {
        let key = text.strip_prefix(ATTACHMENT);
        key.and_then(|key| self.attachments.get(key)).copied().unwrap_or(text)
    }

    /// Hash of a content: of its text, or of the texts among its parts; nothing where it has none.
    pub(super) fn hash(&self, content: Value<'t>) -> Option<Hash> {
        if let Some(text) = content.str() {
            let text = self.resolve(text);
            return (!text.is_empty()).then(|| hash(text));
        }
        let mut texts = content.elements().filter_map(|part| {
            let is_text = part.get("type").str().is_none_or(|kind| kind == "text");
            part.str().or_else(|| part.get("text").str().filter(|_| is_text))
        });
        let first = self.resolve(texts.next()?);
        let Some(second) = texts.next() else { return (!first.is_empty()).then(|| hash(first)) };
        let mut all = first.to_owned();
        std::iter::once(second).chain(texts).for_each(|text| all.push_str(self.resolve(text)));
        (!all.is_empty()).then(|| hash(&all))
    }

    /// Hash of what a tool gave back, which can be any value.
    pub(super) fn hash_result(&self, result: Value<'t>) -> Option<Hash> {
        self.hash(result).or_else(|| {
            let other = result.exists()
                && result.str().is_none()
                && !(result.is_empty() && result.raw().starts_with('['));
            other.then(|| hash(result.raw()))
        })
    }

    /// Hash of a call.
    pub(super) fn hash_call(&self, name: &str, arguments: Value<'t>) -> Hash {
        if !arguments.raw().contains(ATTACHMENT) {
            return call_hash(name, arguments);
        }
        let mut resolved = Vec::new();
        self.write(arguments, &mut resolved);
        call_hash_of_text(name, &String::from_utf8_lossy(&resolved), self.limits)
    }

    /// Writes a value with its attachments in their places.
    fn write(&self, value: Value<'t>, out: &mut Vec<u8>) {
        if let Some(text) = value.str() {
            return write_string(self.resolve(text), out);
        }
        let (mut open, close) = match value.raw().as_bytes().first() {
            Some(b'{') => (b'{', b'}'),
            Some(b'[') => (b'[', b']'),
            _ => return out.extend_from_slice(value.raw().as_bytes()),
        };
        let empty = value.is_empty();
        for (key, member) in value.members() {
            out.push(std::mem::replace(&mut open, b','));
            write_string(key, out);
            out.push(b':');
            self.write(member, out);
        }
        for element in value.elements() {
            out.push(std::mem::replace(&mut open, b','));
            self.write(element, out);
        }
        if empty {
            out.push(open);
        }
        out.push(close);
    }

    /// The messages that a model was given after the last answer among them, each with its place.
    pub(super) fn new_messages(&self, event: Value<'t>, out: &mut Vec<(usize, Value<'t>)>) {
        out.clear();
        let mut place = 0;
        let mut add = |message: Value<'t>| {
            if message.get("role").str() == Some("assistant") {
                out.clear();
            } else {
                out.push((place, message));
            }
            place += 1;
        };
        event.get("input").elements().for_each(&mut add);
        for range in event.get("input_refs").elements() {
            let end = |at: usize| range.at(at).u64().map_or(0, |n| n as usize).min(self.pool.len());
            let (from, to) = (end(0), end(1));
            self.pool.get(from..to).unwrap_or_default().iter().copied().for_each(&mut add);
        }
    }
}
