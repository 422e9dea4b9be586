//! A line of a wire file, and what can be said of it alone.

use crate::json::time::instant;
use crate::json::tree::Value;

/// A line of a wire file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'v> {
    pub item: u32,
    /// Its line, and which record of that line it is.
    pub at: (u64, u32),
    pub value: Value<'v>,
    pub time: Option<i64>,
    pub after_loss: bool,
    /// Whether it was taken back.
    pub abandoned: bool,
}

impl<'v> Line<'v> {
    pub(super) fn kind(&self) -> &'v str {
        self.value.get("type").str().unwrap_or_default()
    }

    /// The event of the agent's loop that it records.
    pub(super) fn event(&self) -> Option<(&'v str, Value<'v>)> {
        let event = self.value.get("event");
        (self.kind() == "context.append_loop_event")
            .then(|| (event.get("type").str().unwrap_or_default(), event))
    }

    /// Who began what it tells.
    pub(super) fn origin(&self) -> &'v str {
        self.origin_record().get("kind").str().unwrap_or("user")
    }

    pub(super) fn origin_record(&self) -> Value<'v> {
        let origin = self.value.get("origin");
        if origin.exists() { origin } else { self.value.path(&["message", "origin"]) }
    }

    /// Whether an agent began what it tells.
    pub(super) fn is_delegated(&self) -> bool {
        self.origin() == "system_trigger" && self.origin_record().get("name").str() == Some("subagent")
    }
}

/// When a line was written.
pub(super) fn time(line: Value<'_>) -> Option<i64> {
    instant(line.get("time")).or_else(|| instant(line.get("created_at")))
}

/// Marks what the user took back: his last prompts, and all that followed.
pub(super) fn take_back(lines: &mut [Line<'_>]) {
    let mut prompts: Vec<usize> = Vec::new();
    for at in 0..lines.len() {
        let line = &lines[at];
        match line.kind() {
            "context.append_message"
                if line.value.path(&["message", "role"]).str() == Some("user")
                    && is_of_user(line.origin()) =>
            {
                let is_told = at > 0 && lines[at - 1].kind() == "turn.prompt";
                prompts.push(if is_told { at - 1 } else { at });
            }
            "context.clear" | "context.apply_compaction" => prompts.clear(),
            "context.undo" => {
                let count = line.value.get("count").i64().and_then(|count| usize::try_from(count).ok());
                let n_kept =
                    count.filter(|count| *count > 0).and_then(|count| prompts.len().checked_sub(count));
                if let Some(n_kept) = n_kept {
                    let from = prompts[n_kept];
                    prompts.truncate(n_kept);
                    lines[from..at].iter_mut().for_each(|line| line.abandoned = true);
                }
            }
            _ => {}
        }
    }
}

/// Whether a user wrote it, whatever the program made of it.
pub(super) fn is_of_user(origin: &str) -> bool {
    matches!(origin, "user" | "skill_activation" | "plugin_command" | "shell_command")
}
