//! Messages of the model: each of their steps is a response, with the calls and results that stand in it.

use super::super::NAME;
use super::super::session::{Message, Part};
use super::super::usage::Stated;
use super::tasks::has_ended;
use super::{Last, Telling, instant, is_set};
use crate::error::FindingCode;
use crate::importers::kind::counted_as;
use crate::importers::recording::{
    Call, CallResult, Does, Entry, Response, Saying, Text, Usage, call_hash, hash,
};
use crate::json::tree::Value;

/// What the message says of all its steps.
#[derive(Debug, Clone, Copy)]
struct Around<'v> {
    model: &'v str,
    /// When the first of its steps was asked for, and when the last one ended.
    asked: Option<i64>,
    completed: Option<i64>,
    /// What kind of error ended the last step.
    error: Option<&'v str>,
    /// Whether the program itself used the tools: no model answered.
    by_program: bool,
    /// Whether it condenses the context.
    condenses: bool,
}

/// A text that is being put together: where it is said, once it is.
#[derive(Debug, Default)]
struct OpenText {
    text: String,
    entry: Option<Entry>,
}

/// A step while it is told.
#[derive(Debug)]
struct Step<'v> {
    /// Its response; none where the program used the tools.
    response: Option<Entry>,
    open_text: OpenText,
    /// Results that are to come: when, and of what.
    pending: Vec<(Option<i64>, Part<'v>)>,
    /// Whether something came back already.
    came: bool,
    last: Last,
}

impl<'v> Telling<'_, '_, 'v> {
    pub(super) fn answer(&mut self, message: &Message<'v>) {
        let of_message = |key: &str| message.get(key);
        let model = of_message("modelID").or_else(|| of_message("model").map(|model| model.get("modelID")));
        let model = model.map_or("", |model| self.text_of(model, "modelID"));
        let error = of_message("error").map(|error| error.get("name").some_str().unwrap_or("error"));
        let steps = steps(&message.parts);
        let is_finished = |step: &&[Part<'_>]| step.iter().any(|part| part.kind == "step-finish");
        let mut finished = steps.iter().filter(|step| is_finished(step)).count();
        let stated = message.info.map(|(_, info)| Stated::of(info)).unwrap_or_default();
        for name in &stated.misfits {
            self.misfit(name);
        }
        let around = Around {
            model,
            asked: message.created(),
            completed: message.completed(),
            error,
            by_program: self.is_by_program(message, &stated, finished),
            condenses: of_message("summary").and_then(Value::bool) == Some(true),
        };
        let counts = |step: &[Part<'_>]| {
            let finishes = step.iter().filter(|part| part.kind == "step-finish");
            finishes.filter_map(|part| Stated::of(part.value).usage.total()).any(|tokens| tokens > 0)
        };
        if stated.usage.total().unwrap_or(0) > 0 && !steps.iter().any(|step| counts(step)) {
            // Where no step states anything, the message does.
            finished = 0;
        }
        let mut sums = (0_i64, 0_i64, 0.0_f64);
        let n = steps.len();
        for (number, step) in steps.iter().enumerate() {
            let finish = step.iter().rev().find(|part| part.kind == "step-finish");
            let step_usage = finish.map(|part| Stated::of(part.value));
            for name in step_usage.iter().flat_map(|stated| &stated.misfits) {
                self.misfit(name);
            }
            // The message repeats what its last step states.
            let by_message = (finished == 0 && number + 1 == n).then(|| stated.clone());
            let usage = by_message.or_else(|| step_usage.clone());
            let usage = usage.unwrap_or_default();
            let total = usage.usage.total().unwrap_or(0);
            sums = (sums.0.saturating_add(total), total, sums.2 + usage.usage.cost_usd.unwrap_or(0.0));
            let id = if number == 0 {
                self.recording.text(message.id)
            } else {
                self.recording.text(&format!("{}:{}", message.id, number + 1))
            };
            let says_end = step_usage.is_some() || around.completed.is_some();
            self.step(step, (id, number, number + 1 == n), &around, &usage);
            if usage.is_empty && says_end && !around.by_program && around.error.is_none() {
                let message = "a response states a usage of 0 in all: what it took is not known";
                self.recording.finding(FindingCode::UsageIncomplete, self.last_response, message);
            }
        }
        if finished > 0 {
            self.compare_message(&stated.usage, sums);
        }
        let is_written = of_message("tokens").is_some()
            && around.completed.is_none()
            && of_message("finish").is_none()
            && !steps.iter().any(|step| is_finished(&&**step));
        let wants_tools = of_message("finish").and_then(Value::str) == Some("tool-calls");
        if around.error.is_some() || is_written {
            self.last = Last::Stopped;
        } else if wants_tools
            && self.last == Last::Answer
            && message.parts.iter().all(|part| part.kind != "tool")
        {
            // One that wants tools and has no call is cut.
            self.last = Last::Stopped;
        }
    }

    /// Whether the program used tools because the user asked it to: no step of a model is there.
    fn is_by_program(&self, message: &Message<'v>, stated: &Stated, finished: usize) -> bool {
        let prompt = message.get("parentID").and_then(|id| self.prompts.get(id.str()?));
        let has_step = finished > 0 || message.parts.iter().any(|part| part.kind == "step-start");
        let has_tool = message.parts.iter().any(|part| part.kind == "tool");
        prompt.is_some_and(|prompt| prompt.is_of_program)
            && has_tool
            && !has_step
            && stated.usage.total().unwrap_or(0) == 0
    }

    /// A message states the tokens of its last step or of all, and the price of all.
    fn compare_message(&mut self, stated: &Usage, (sum, last, cost): (i64, i64, f64)) {
        if let Some(total) = stated.total().filter(|total| *total != sum && *total != last) {
            let message = format!("a message states {total} tokens, its steps sum to {sum}, which is used");
            self.recording.finding(FindingCode::UsageConflict, self.last_response, message);
        }
        if let Some(total) = stated.cost_usd.filter(|total| (total - cost).abs() > 1e-9 * total.abs()) {
            let message = format!("a message states {total} USD, its steps cost {cost}, which is used");
            self.recording.finding(FindingCode::UsageConflict, self.last_response, message);
        }
    }

    fn step(
        &mut self,
        parts: &[Part<'v>],
        (id, number, is_last): (Text, usize, bool),
        around: &Around<'v>,
        usage: &Stated,
    ) {
        let error = around.error.filter(|_| is_last);
        let part_extras = self.extras();
        let mut extras = part_extras;
        if let Some(error) = error {
            extras = self.recording.extra_text(extras, "x_error_type", error);
        }
        let retries = parts.iter().filter(|part| part.kind == "retry").count();
        if retries > 0 {
            extras = self.recording.extra(extras, "x_retries", &retries.to_string());
        }
        let time = time_of_step(parts, around);
        let took =
            around.asked.filter(|_| number == 0).zip(time).map(|(asked, end)| end.saturating_sub(asked));
        let is_timed = time != around.asked;
        let response = (!around.by_program).then(|| {
            let response = Response {
                id,
                time,
                duration_s: took.filter(|took| *took >= 0 && is_timed).map(|took| took as f64 / 1e9),
                model: self.recording.text(around.model),
                usage: usage.usage,
                ok: error.map(|_| false),
                extras,
                ..Response::default()
            };
            self.recording.response(self.agent, response)
        });
        self.last_response = response.or(self.last_response);
        let mut step = Step {
            response,
            open_text: OpenText::default(),
            pending: Vec::new(),
            came: false,
            last: self.last,
        };
        let mut compacts = around.condenses && is_last;
        for part in parts {
            self.recording.made_of(part.item);
            match part.kind {
                "text" if is_set(part, "synthetic") || is_set(part, "ignored") => {
                    // No model wrote it.
                    self.items.ignored(part.item as usize, "opencode.text.synthetic");
                }
                "text" => self.says(part, &mut step, part_extras, around.condenses),
                "tool" => self.calls(part, &mut step, part_extras),
                "step-start" | "step-finish" | "retry" => {}
                "compaction" => compacts = true,
                kind => self.items.ignored(part.item as usize, &counted_as(NAME, kind)),
            }
        }
        self.come_back(&mut step, None, part_extras);
        self.last = step.last;
        if compacts {
            self.recording.compaction(self.agent);
        }
    }

    /// A text: the one of the response, or one that was said after something came back.
    fn says(&mut self, part: &Part<'v>, step: &mut Step<'v>, extras: Text, aside: bool) {
        let text = self.text_of(part.value.get("text"), "text");
        if text.is_empty() {
            return;
        }
        let time = part.value.get("time");
        let began = instant(time.get("start"));
        // What has no time was written where it stands.
        self.come_back(step, Some(began.unwrap_or(i64::MAX)), extras);
        step.last = Last::Answer;
        step.open_text.text.push_str(text);
        let content = hash(&step.open_text.text);
        if let Some(saying) = step.open_text.entry.and_then(|entry| self.recording.saying_mut(entry)) {
            saying.content = Some(content);
            return;
        }
        let end = instant(time.get("end")).or(began);
        // What was given up is no answer.
        let aside = aside || self.abandoned;
        let id = part.id.map_or_else(Text::default, |id| self.recording.text(id));
        let saying = match (step.response, step.came) {
            (Some(_), false) => Saying { content: Some(content), aside, extras, ..Saying::default() },
            _ => Saying {
                id,
                content: Some(content),
                time: end,
                apart: true,
                aside,
                extras,
                ..Saying::default()
            },
        };
        step.open_text.entry = Some(match step.response {
            Some(response) => self.recording.say(response, saying),
            None => self.recording.lone_saying(self.agent, saying),
        });
    }

    fn calls(&mut self, part: &Part<'v>, step: &mut Step<'v>, extras: Text) {
        let state = part.value.get("state");
        let began = self.time_of(state.path(&["time", "start"]), "state.time");
        if let Some(began) = began {
            self.come_back(step, Some(began), extras);
        }
        self.text_of(part.value.get("callID"), "callID");
        let id = id_of_call(part);
        let tool = self.text_of(part.value.get("tool"), "tool");
        let worker = self.tasks.worker(part, self.agent, self.recording);
        let call = Call {
            id: self.recording.text(id),
            tool: self.recording.text(tool),
            does: worker.map_or(Does::UsesTool, Does::Spawns),
            content: Some(call_hash(tool, state.get("input"))),
            // Asked after something came back: it has a place of its own.
            time: began.filter(|_| step.came || step.response.is_none()),
            extras,
            ..Call::default()
        };
        match step.response {
            Some(response) => self.recording.call(response, call),
            None => self.recording.lone_call(self.agent, call),
        };
        step.last = Last::Calls;
        if has_ended(part) {
            let end = self.time_of(state.path(&["time", "end"]), "state.time");
            step.pending.push((end.or(began), *part));
        }
    }

    /// Tells the results that came until a time, or all.
    fn come_back(&mut self, step: &mut Step<'v>, until: Option<i64>, extras: Text) {
        let pending = std::mem::take(&mut step.pending);
        let (mut come, wait): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|(end, _)| until.is_none_or(|until| end.is_none_or(|end| end <= until)));
        step.pending = wait;
        if come.is_empty() {
            return;
        }
        come.sort_by_key(|(end, _)| *end);
        for (end, part) in come {
            self.recording.made_of(part.item);
            self.result(&part, end, extras);
        }
        step.came = true;
        step.open_text = OpenText::default();
    }

    fn result(&mut self, part: &Part<'v>, end: Option<i64>, extras: Text) {
        let state = part.value.get("state");
        let failed = state.get("status").str() == Some("error");
        let output = if failed { state.first(&["error", "output"]) } else { state.get("output") };
        let text = self.text_of(output, "state.output");
        let began = instant(state.path(&["time", "start"]));
        let took =
            began.zip(instant(state.path(&["time", "end"]))).map(|(began, end)| end.saturating_sub(began));
        let exit = state.path(&["metadata", "exit"]);
        let mut extras = extras;
        if exit.i64().is_some() {
            extras = self.recording.extra(extras, "x_exit_code", exit.raw());
        }
        self.failed_quietly += usize::from(!failed && exit.i64().is_some_and(|code| code != 0));
        let result = CallResult {
            call: self.recording.text(id_of_call(part)),
            tool: self.recording.text(part.value.get("tool").str().unwrap_or_default()),
            time: end,
            duration_s: took.filter(|took| *took >= 0).map(|took| took as f64 / 1e9),
            content: output.str().map(|_| hash(text)),
            ok: Some(!failed),
            trusted: Some(false),
            extras,
            ..CallResult::default()
        };
        self.recording.result(self.agent, result);
    }
}

/// The id of a call; where it has none, that of its part.
fn id_of_call<'v>(part: &Part<'v>) -> &'v str {
    part.value.get("callID").some_str().or(part.id).unwrap_or_default()
}

/// The steps of a message: each ends where it says so, and where the next one begins. At least one.
fn steps<'p, 'v>(parts: &'p [Part<'v>]) -> Vec<&'p [Part<'v>]> {
    let mut steps = Vec::new();
    let (mut from, mut begun, mut has_content) = (0, false, false);
    for (at, part) in parts.iter().enumerate() {
        match part.kind {
            // One that said nothing was tried again.
            "step-start" if begun && has_content => {
                steps.push(&parts[from..at]);
                (from, has_content) = (at, false);
            }
            "step-start" => begun = true,
            "step-finish" => {
                steps.push(&parts[from..=at]);
                (from, begun, has_content) = (at + 1, false, false);
            }
            "text" | "tool" => has_content = true,
            _ => {}
        }
    }
    match steps.last_mut() {
        // What stands behind the last step and says nothing is of it.
        Some(last) if !has_content && !begun => {
            let start = from - last.len();
            *last = &parts[start..];
        }
        _ => steps.push(&parts[from..]),
    }
    steps
}

/// When a step was complete: when it had asked for the first of its tools, or said all that it says.
fn time_of_step(parts: &[Part<'_>], around: &Around<'_>) -> Option<i64> {
    let tool = parts.iter().position(|part| part.kind == "tool");
    let before = &parts[..tool.unwrap_or(parts.len())];
    let is_said = |part: &&Part<'_>| matches!(part.kind, "text" | "reasoning") && !is_set(part, "synthetic");
    let text_ends = before.iter().filter(is_said).filter_map(|part| {
        let time = part.value.get("time");
        instant(time.get("end")).or_else(|| instant(time.get("start")))
    });
    let tools = parts.iter().filter(|part| part.kind == "tool");
    let first_call = tools.filter_map(|part| instant(part.value.path(&["state", "time", "start"]))).min();
    let end = text_ends.chain(first_call).max();
    end.or(around.completed.filter(|_| tool.is_none())).or(around.asked)
}
