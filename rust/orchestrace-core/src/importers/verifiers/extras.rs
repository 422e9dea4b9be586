//! What the columns of events have no room for: members that travel with an event as `x_` fields.

use super::graph::{Node, Sort};
use crate::importers::hex::hex;
use crate::importers::object_text::ObjectText;
use crate::importers::recording::{Recording, Text, hash};
use crate::importers::responses::text_of;
use crate::json::tree::Value;

/// What a node has for each of its tokens. Token ids and masks have one value for each token of the node, the others
/// one for each that was sampled.
const STREAMS: [&str; 9] = [
    "token_ids",
    "mask",
    "is_content",
    "logprobs",
    "advantages",
    "reference_logprobs",
    "trainer_logprobs",
    "entropies",
    "loss_weights",
];

/// The streams of a node as one object. Empty ones are left out, but for advantages: none at all and an empty list are
/// different facts.
fn streams(node: Value<'_>) -> Option<String> {
    let mut object = ObjectText::new();
    let mut any = false;
    for key in STREAMS {
        let stream = node.get(key);
        if stream.exists() && (!stream.is_empty() || key == "advantages") {
            object.raw(key, stream.raw());
            any = true;
        }
    }
    any.then(|| object.finish())
}

/// The mean of the advantages of a node; nothing where no algorithm gave any, or where one is no number.
fn advantage(node: Value<'_>) -> Option<f64> {
    let values: Vec<f64> = node.get("advantages").elements().map(Value::f64).collect::<Option<_>>()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

/// Members of an event, which are added to.
#[derive(Debug)]
pub(super) struct Extras<'r> {
    pub recording: &'r mut Recording,
    pub members: Text,
}

impl<'r> Extras<'r> {
    pub(super) fn new(recording: &'r mut Recording) -> Self {
        Self { recording, members: Text::default() }
    }

    pub(super) fn raw(&mut self, key: &str, json: &str) {
        self.members = self.recording.extra(self.members, key, json);
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.members = self.recording.extra_text(self.members, key, text);
    }

    /// A value as it stands in the source, if there is one.
    pub(super) fn value(&mut self, key: &str, value: Value<'_>) {
        if value.exists() {
            self.raw(key, value.raw());
        }
    }

    /// Where a node stands in its graph, and how it relates to nodes of other paths.
    pub(super) fn place(&mut self, index: usize, node: &Node<'_>) {
        self.raw("x_node", &index.to_string());
        self.value("x_parent", node.value.get("parent"));
        let labels: Vec<&str> = node.relations().map(|(_, label)| label).collect();
        if !labels.is_empty() {
            self.text("x_edge_label", &labels.join(" "));
        }
        if node.abandoned {
            self.raw("x_abandoned", "true");
        }
    }

    /// What a node has for each of its tokens, and what that comes to. These may be long: they come last.
    pub(super) fn tokens(&mut self, node: &Node<'_>) {
        if node.sort == Sort::Sampled
            && let Some(mean) = advantage(node.value)
        {
            self.raw("x_advantage", &mean.to_string());
        }
        if let Some(streams) = streams(node.value) {
            self.raw("x_token_streams", &streams);
        }
    }
}

/// A node that gives no event, for the answer that reads it first.
pub(super) fn context(index: usize, node: &Node<'_>) -> String {
    let mut object = ObjectText::new();
    object.raw("node", &index.to_string());
    if node.value.get("parent").exists() {
        object.raw("parent", node.value.get("parent").raw());
    }
    object.text("role", node.role());
    let content = text_of(node.message().get("content"));
    object.text("content_ref", &["sha256:", &hex(&hash(&content))].concat());
    if let Some(streams) = streams(node.value) {
        object.raw("token_streams", &streams);
    }
    object.finish()
}
