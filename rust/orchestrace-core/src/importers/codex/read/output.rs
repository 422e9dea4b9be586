//! Results of calls, in the words of their tools.

use super::super::line::LineContent;
use super::Reader;
use crate::importers::recording::{Text, hash};
use crate::importers::responses::text_of;
use crate::json::tree::{Tree, Value};

impl Reader<'_> {
    pub(super) fn output(&mut self, call: Text, output: Value<'_>) -> LineContent {
        let body = if output.get("content").exists() { output.get("content") } else { output };
        let text = text_of(body);
        let mut parsed = Output { ok: output.get("success").bool(), ..Output::default() };
        let mut statuses = (0, 0);
        if text.starts_with('{')
            && let Ok(tree) = Tree::parse(&text, self.limits)
        {
            let inner = tree.root();
            parsed.read_json(inner);
            let spawned = inner.first(&["agent_id", "task_name"]).some_str();
            parsed.spawned = spawned.map_or(Text::default(), |id| self.recording.text(id));
            parsed.nickname = self.keep(inner.get("nickname"));
            let of = inner.first(&["status", "statuses"]).members();
            statuses = self.statuses(of);
        } else {
            parsed.read_text(&text);
        }
        LineContent::Output {
            call,
            content: hash(&text),
            ok: parsed.ok,
            duration_s: parsed.duration_s,
            spawned: parsed.spawned,
            nickname: parsed.nickname,
            statuses,
            denied: text.contains("rejected by user"),
        }
    }
}

/// What a result says in the words of its tool.
#[derive(Default)]
struct Output {
    ok: Option<bool>,
    duration_s: Option<f64>,
    spawned: Text,
    nickname: Text,
}

impl Output {
    /// Older versions: `{"output": …, "metadata": {"exit_code": …, "duration_seconds": …}}`.
    fn read_json(&mut self, inner: Value<'_>) {
        let metadata = inner.get("metadata");
        let code = metadata.get("exit_code").i64().map(|code| code == 0);
        self.ok = self.ok.or(code);
        self.duration_s = metadata.get("duration_seconds").f64().filter(|s| *s >= 0.0);
    }

    /// Newer versions put lines before the output itself.
    fn read_text(&mut self, text: &str) {
        for line in text.lines().take(8) {
            if line.starts_with("Output:") {
                break;
            }
            let after = |prefix: &str| line.strip_prefix(prefix).map(str::trim);
            let code = after("Process exited with code").or_else(|| after("Exit code:"));
            if let Some(code) = code.and_then(|code| code.parse::<i64>().ok()) {
                self.ok = self.ok.or(Some(code == 0));
            }
            if let Some(took) = after("Wall time:") {
                let number = took.strip_suffix("seconds").unwrap_or(took).trim();
                self.duration_s = number.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
            }
        }
    }
}
