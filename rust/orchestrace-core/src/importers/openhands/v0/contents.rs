//! Hashes of what is said and asked for.

use crate::importers::object_text::ObjectText;
use crate::importers::recording::{Hash, call_hash, call_hash_of_text, hash};
use crate::json::Limits;
use crate::json::tree::{Tree, Value};

/// Members of arguments that the program adds to what the model asked for.
const ADDED: [&str; 8] = [
    "thought",
    "hidden",
    "blocking",
    "confirmation_state",
    "impl_source",
    "security_risk",
    "translated_ipython_code",
    "is_confirmed",
];
pub(super) fn text_hash(value: Value<'_>) -> Option<Hash> {
    match value.str() {
        Some(text) => Some(hash(text)),
        None if value.exists() => Some(hash(value.raw())),
        None => None,
    }
}

/// Hash of what was asked for: as the model wrote it, else the arguments without what the program adds.
pub(super) fn asked_hash(action: Value<'_>, tool: &str, limits: Limits) -> Hash {
    let metadata = action.get("tool_call_metadata");
    if let Some(id) = metadata.get("tool_call_id").some_str() {
        let choices = metadata.path(&["model_response", "choices"]).elements();
        let mut calls = choices.flat_map(|choice| choice.path(&["message", "tool_calls"]).elements());
        let call = calls.find(|call| call.get("id").str() == Some(id));
        if let Some(arguments) = call.and_then(|call| call.path(&["function", "arguments"]).str()) {
            return call_hash_of_text(tool, arguments, limits);
        }
    }
    let mut arguments = ObjectText::new();
    for (key, value) in action.get("args").members().filter(|(key, _)| !ADDED.contains(key)) {
        arguments.raw(key, value.raw());
    }
    let arguments = arguments.finish();
    match Tree::parse(&arguments, limits) {
        Ok(tree) => call_hash(tool, tree.root()),
        Err(_) => call_hash_of_text(tool, &arguments, limits),
    }
}
