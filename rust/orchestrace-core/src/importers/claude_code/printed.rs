//! What `claude -p --output-format stream-json` prints: the lines of a session, spelt as the SDK spells them, and at the
//! end what the program says of the whole. A line is put as the line of a session that it stands for. Who worked for a
//! call is named by the call.

use super::super::object_text::ObjectText;
use super::super::recording::Recording;
use crate::error::FindingCode;
use crate::importers::Items;
use crate::json::tree::{Tree, Value};
use crate::schema::MeasureKind;

/// What the keys of printed sessions begin with: the session itself, which records more, is another trace.
const PRINTED: &str = "printed:";

/// The word for the last line in place of `result`, which lines of journals have, too.
pub(super) const RESULT: &str = "printed-result";

/// The session of a key, and whether it is a printed one.
pub(super) fn session_of(key: &str) -> (&str, bool) {
    key.strip_prefix(PRINTED).map_or((key, false), |session| (session, true))
}

/// The key of a printed session.
pub(super) fn key_of(session: &str) -> String {
    [PRINTED, session].concat()
}

/// Whether a record is a line that the program prints.
pub(super) fn is_printed(record: Value<'_>) -> bool {
    let has = |key: &str| record.get(key).exists();
    let is_of_stream = match record.get("type").str() {
        Some("system") => has("subtype"),
        Some("assistant" | "user") => record.get("message").get("role").exists() && is_spelt(record),
        Some("result") => has("total_cost_usd") || has("num_turns"),
        _ => false,
    };
    is_of_stream && record.get("session_id").str().is_some() && !has("sessionId")
}

/// The member for whom a line was printed is always there, if only as null.
fn is_spelt(record: Value<'_>) -> bool {
    !record.get("parent_tool_use_id").is_absent()
}

/// Puts a line under its key.
pub(super) fn put(key: &str, text: &str, kind: &str, out: &mut Items<'_>) {
    let Ok(tree) = Tree::parse(text, out.limits()) else { return out.ignored("claude_code.unreadable") };
    let root = tree.root();
    let agent = root.get("parent_tool_use_id");
    let mut line = ObjectText::new();
    match kind {
        "assistant" | "user" => {
            line.text("type", kind);
            // Results have a time, responses have none: beside each other they would lie about the order.
            for (key, printed) in [
                ("uuid", "uuid"),
                ("requestId", "request_id"),
                ("toolUseResult", "tool_use_result"),
                ("message", "message"),
            ] {
                let value = root.get(printed);
                if value.exists() {
                    line.raw(key, value.raw());
                }
            }
            if agent.exists() {
                line.raw("isSidechain", "true");
                line.raw("agentId", agent.raw());
            }
        }
        "result" => {
            line.text("type", RESULT);
            for key in ["uuid", "subtype", "total_cost_usd", "usage"] {
                let value = root.get(key);
                if value.exists() {
                    line.raw(key, value.raw());
                }
            }
        }
        _ => return out.ignored("claude_code.other"),
    }
    out.item(key, &line.finish(), "");
}

/// What the program says at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Total {
    cost_usd: Option<f64>,
    read: Option<i64>,
    written: Option<i64>,
    /// What stopped the run; empty if nothing did.
    stopped_by: String,
}

impl Total {
    pub(super) fn of(line: Value<'_>) -> Self {
        let usage = line.get("usage");
        let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        let mut read = None;
        for part in parts.iter().filter_map(|key| usage.get(key).i64()) {
            read = Some(part.saturating_add(read.unwrap_or(0)));
        }
        let cost_usd = line.get("total_cost_usd").f64();
        let stopped_by =
            line.get("subtype").str().filter(|end| *end != "success").unwrap_or_default().to_owned();
        Self { cost_usd, read, written: usage.get("output_tokens").i64(), stopped_by }
    }

    /// What the results of a session say together. A call of the program that goes on with a session states what it took
    /// itself; one that answers several prompts may state what it took so far. `sum` is what the lines record, read and
    /// written: what was read tells which of both, and where it tells nothing, a price below the one before it is one's own.
    pub(super) fn of_all(totals: &[Self], sum: (i64, i64)) -> Option<Self> {
        let last = totals.last()?;
        let of_each = |count: fn(&Self) -> Option<i64>| -> Option<i64> {
            totals.iter().map(count).try_fold(0, |sum: i64, one| Some(sum.saturating_add(one?)))
        };
        let read = of_each(|total| total.read);
        let falls = totals.windows(2).any(|pair| match (pair[0].cost_usd, pair[1].cost_usd) {
            (Some(before), Some(after)) => after < before,
            _ => false,
        });
        if totals.len() == 1 || last.read == Some(sum.0) || read != Some(sum.0) && !falls {
            return Some(last.clone());
        }
        let cost_usd = totals.iter().filter_map(|total| total.cost_usd).reduce(|sum, one| sum + one);
        Some(Self { cost_usd, read, written: of_each(|total| total.written), ..last.clone() })
    }

    /// Says the price, and how far the lines of the main stream fall short: each was printed when its response began, so
    /// that what it says of the output is a floor. `sum` is what they record, read and written.
    pub(super) fn compare(&self, (read, written): (i64, i64), recording: &mut Recording) {
        recording.stopped_by(&self.stopped_by);
        if let Some(cost) = self.cost_usd {
            recording.measure(MeasureKind::Cost, "cost_usd", cost);
        }
        for (total, sum, what) in [(self.read, read, "input"), (self.written, written, "output")] {
            if let Some(total) = total.filter(|total| *total != sum) {
                let message = format!(
                    "the result says {total} {what} tokens of the main stream, but its lines sum to {sum}, which are used"
                );
                recording.finding(FindingCode::UsageConflict, None, message);
            }
        }
    }
}
