//! Texts in the name of the user: a human's, or the harness's.

use super::super::line::{By, LineContent};
use super::Reader;
use crate::importers::recording::hash;
use crate::json::tree::{Tree, Value};

/// Texts that the harness writes in the name of the user.
const WRAPPERS: [&str; 21] = [
    "<environment_context",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<user_shell_command>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<skill>",
    "<hook_prompt>",
    "<model_switch>",
    "<recommended_plugins",
    "<plugins_instructions>",
    "<skills_instructions>",
    "<apps_instructions>",
    "<personality_spec>",
    "<realtime_conversation>",
    "<codex_internal_context",
    "<goal_context",
    "<external_",
    // What a guardian is asked.
    "The following is the Codex agent history",
];
const NOTICE: (&str, &str) = ("<subagent_notification>", "</subagent_notification>");

impl Reader<'_> {
    /// A text in the name of the user; `human` where the file says whether it is his.
    pub(super) fn user(&mut self, text: &str, human: Option<bool>) -> LineContent {
        let start = text.trim_start();
        if let Some(rest) = start.strip_prefix(NOTICE.0) {
            let inner = rest.split(NOTICE.1).next().unwrap_or(rest).trim();
            return match Tree::parse(inner, self.limits) {
                Ok(tree) => {
                    let notice = tree.root();
                    let agent = notice.first(&["agent_id", "agent_path", "thread_id"]).str();
                    LineContent::Notice(
                        self.statuses(agent.map(|agent| (agent, notice.get("status"))).into_iter()),
                    )
                }
                Err(_) => LineContent::Wrapped,
            };
        }
        if !human.unwrap_or_else(|| !WRAPPERS.iter().any(|wrapper| start.starts_with(wrapper))) {
            return LineContent::Wrapped;
        }
        LineContent::Message { by: By::User, content: hash(text) }
    }
}

/// Whether a message in the name of the user is a human's, where the kinds of its parts say so.
pub(super) fn speaker(item: Value<'_>) -> Option<bool> {
    let kinds = item.path(&["internal_chat_message_metadata_passthrough", "content_item_kinds"]);
    let mut kinds = kinds.elements().filter_map(Value::str).filter(|kind| *kind != "unknown").peekable();
    kinds.peek()?;
    Some(kinds.any(|kind| kind == "user" || kind.starts_with("user.")))
}
