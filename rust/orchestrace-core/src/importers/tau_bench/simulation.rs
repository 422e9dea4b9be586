//! Simulations of tau2-bench: the user has tools too, and messages have times, tokens and prices.

use super::{Names, Speakers, id, number, place, unknown};
use crate::importers::recording::{
    Agent, Call, CallResult, Party, Recording, Response, Saying, Text, Usage, call_hash, call_hash_of_text,
    hash,
};
use crate::importers::usage;
use crate::json::Limits;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// Ways in which a run comes to its end by itself.
const COMPLETE: [&str; 2] = ["user_stop", "agent_stop"];

/// Ways that give nothing to judge; the benchmark leaves such runs out.
const NOT_JUDGED: [&str; 2] = ["infrastructure_error", "context_window_exceeded"];

struct Describing<'r> {
    recording: &'r mut Recording,
    speakers: Speakers,
    models: [Text; 2],
    limits: Limits,
    /// What messages of the agent and of the user cost.
    costs: [f64; 2],
    /// Why the run ended.
    extras: Text,
}

/// `info` is what the document says about all of its runs.
pub(super) fn describe(
    run: Value<'_>,
    info: Option<Value<'_>>,
    names: &Names<'_>,
    limits: Limits,
    recording: &mut Recording,
) {
    let about = |path: &[&str]| info.and_then(|info| info.path(path).some_str());
    let domain = about(&["environment_info", "domain_name"]);
    let models = [about(&["agent_info", "llm"]), about(&["user_info", "llm"])];
    let task = domain.map_or_else(|| names.task.to_owned(), |domain| format!("{domain}/{}", names.task));
    let trace_id = match id(run.get("id")) {
        Some(id) => id.to_owned(),
        None => format!("{}/{}", names.task(), names.trial),
    };
    recording.trace.trace_id = recording.text(&trace_id);
    recording.trace.task_id = recording.text(&task);
    if let Some(model) = models[0] {
        recording.trace.group_id = recording.text(&format!("{task}/{model}"));
    }
    recording.trace.system = recording.text("tau2-bench");
    recording.trace.started_at = time(run.get("start_time"));
    let reason = run.get("termination_reason").str().unwrap_or_default();
    let speakers = Speakers::of(recording, !COMPLETE.contains(&reason));
    let models = models.map(|model| recording.text(model.unwrap_or_default()));
    let extras = match reason {
        "" => Text::default(),
        reason => recording.extra_text(Text::default(), "x_termination_reason", reason),
    };
    let mut describing = Describing { recording, speakers, models, limits, costs: [0.0; 2], extras };
    describing.messages(run);
    let costs = describing.costs;
    measures(run, reason, costs, recording);
}

fn time(value: Value<'_>) -> Option<i64> {
    value.str().and_then(|text| parse_timestamp(&text.replacen(' ', "T", 1)))
}

impl Describing<'_> {
    fn messages(&mut self, run: Value<'_>) {
        let mut index = 0;
        if run.get("messages").exists() {
            for message in run.get("messages").elements() {
                self.message(&mut index, message);
            }
            return;
        }
        // Runs by voice are recorded tick by tick, in the order that the benchmark makes messages of them.
        for tick in run.get("ticks").elements() {
            for (by, chunk, calls, results) in [
                (self.speakers.assistant, "agent_chunk", "agent_tool_calls", "agent_tool_results"),
                (self.speakers.user, "user_chunk", "user_tool_calls", "user_tool_results"),
            ] {
                let (chunk, calls) = (tick.get(chunk), tick.get(calls));
                if chunk.exists() || !calls.is_empty() {
                    let at = time(chunk.get("timestamp")).or(time(tick.get("timestamp")));
                    self.turn_of_agent(index, chunk, calls, by, at);
                    index += 1;
                }
                for result in tick.get(results).elements() {
                    self.result(index, result);
                    index += 1;
                }
            }
        }
    }

    fn message(&mut self, index: &mut usize, message: Value<'_>) {
        match message.get("role").str() {
            Some("system") => {}
            // Results that came together are one message.
            Some("tool") if message.get("tool_messages").exists() => {
                for result in message.get("tool_messages").elements() {
                    self.result(*index, result);
                }
            }
            Some("tool") => self.result(*index, message),
            Some(role @ ("user" | "assistant")) => {
                // Who calls is who asks for the call, not who is said to speak.
                let calls = message.get("tool_calls");
                let by = calls.at(0).get("requestor").some_str().unwrap_or(role);
                let by = self.speakers.by_role(by);
                self.turn_of_agent(*index, message, calls, by, time(message.get("timestamp")));
            }
            _ => unknown(*index, message, self.recording),
        }
        *index += 1;
    }

    fn turn_of_agent(
        &mut self,
        index: usize,
        message: Value<'_>,
        calls: Value<'_>,
        by: Agent,
        at: Option<i64>,
    ) {
        let usage = usage(message);
        self.costs[usize::from(by == self.speakers.user)] += usage.cost_usd.unwrap_or_default();
        let turn = message.get("turn_idx").u64().unwrap_or(index as u64);
        let response = Response {
            id: place(index, self.recording),
            time: at,
            turn: u32::try_from(turn).ok(),
            duration_s: message.get("generation_time_seconds").f64().filter(|seconds| *seconds >= 0.0),
            model: self.models[usize::from(by == self.speakers.user)],
            usage,
            extras: self.extras,
            ..Response::default()
        };
        let response = self.recording.response(by, response);
        for call in calls.elements() {
            let name = call.get("name").str().unwrap_or_default();
            let arguments = call.get("arguments");
            let content = match arguments.str() {
                Some(text) => call_hash_of_text(name, text, self.limits),
                None => call_hash(name, arguments),
            };
            let call = Call {
                id: self.recording.text(call.get("id").str().unwrap_or_default()),
                tool: self.recording.text(name),
                content: Some(content),
                ..Call::default()
            };
            self.recording.call(response, call);
        }
        if let Some(text) = message.get("content").some_str() {
            let to = Some(Party::Agent(self.speakers.other(by)));
            self.recording.say(response, Saying { content: Some(hash(text)), to, ..Saying::default() });
        }
    }

    fn result(&mut self, index: usize, message: Value<'_>) {
        let text = message.get("content").str().unwrap_or_default();
        let call = self.recording.text(message.get("id").str().unwrap_or_default());
        let id = if call.is_none() { place(index, self.recording) } else { Text::default() };
        let by = self.speakers.by_role(message.get("requestor").str().unwrap_or("assistant"));
        let result = CallResult {
            call,
            id,
            time: time(message.get("timestamp")),
            content: Some(hash(text)),
            ok: message.get("error").bool().map(|error| !error),
            trusted: Some(false),
            ..CallResult::default()
        };
        self.recording.result(by, result);
    }
}

fn usage(message: Value<'_>) -> Usage {
    let cost_usd = message.get("cost").f64().filter(|cost| *cost >= 0.0);
    Usage { cost_usd, ..usage::of(message.get("usage")).0 }
}

fn measures(run: Value<'_>, reason: &str, costs: [f64; 2], recording: &mut Recording) {
    if let Some(seconds) = run.get("duration").f64().filter(|seconds| *seconds >= 0.0) {
        recording.wall_clock_s(seconds);
    }
    // What the user's model costs is no cost of the run.
    for ((name, measure), parts) in
        [("agent_cost", "cost_usd"), ("user_cost", "user_cost_usd")].iter().zip(costs)
    {
        let Some(cost) = run.get(name).f64().filter(|cost| *cost >= 0.0) else { continue };
        recording.price_of_run(name, cost, (measure, parts));
    }
    let judged = run.get("reward_info");
    if NOT_JUDGED.contains(&reason) || !judged.exists() {
        return;
    }
    if let Some(reward) = judged.get("reward").f64() {
        recording.measure(MeasureKind::Reward, "team", reward);
    }
    let share = |list: Value<'_>, key: &str| {
        let met: Vec<f64> = list.elements().filter_map(|check| number(check.get(key))).collect();
        (!met.is_empty()).then(|| met.iter().sum::<f64>() / met.len() as f64)
    };
    if let Some(share) = share(judged.get("action_checks"), "action_match") {
        recording.measure(MeasureKind::Reward, "tool", share);
    }
    if let Some(met) = number(judged.path(&["db_check", "db_match"])) {
        recording.measure(MeasureKind::Metric, "db_match", met);
    }
    for name in ["env_assertions", "nl_assertions", "communicate_checks"] {
        if let Some(share) = share(judged.get(name), "met") {
            recording.measure(MeasureKind::Metric, name, share);
        }
    }
}
