//! The end of a sample whose last event does not state it.

use super::content::Contents;
use crate::importers::recording::{Agent, Entry, Recording, Saying, Text};
use crate::json::tree::Value;

/// The answer that the sample ended with, where its last event is none.
pub(super) fn finish(
    agent: Agent,
    sample: Value<'_>,
    contents: &Contents<'_>,
    time: Option<i64>,
    out: &mut Recording,
) -> Option<Entry> {
    let output = sample.get("output");
    let hash_of_message = contents.hash(output.get("choices").at(0).path(&["message", "content"]));
    let content = hash_of_message.or_else(|| contents.hash(output.get("completion")));
    output.exists().then(|| {
        let id = out.text("end");
        out.lone_saying(agent, Saying { id, content, time, ..Saying::default() })
    })
}

/// What failed, as a field of an event.
pub(super) fn error_type(kind: Option<&str>, out: &mut Recording) -> Text {
    kind.map_or(Text::default(), |kind| out.extra_text(Text::default(), "x_error_type", kind))
}
