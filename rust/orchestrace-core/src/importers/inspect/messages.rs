//! A log without events: the final messages of the main agent, in order.

use super::content::Contents;
use super::ends::{error_type, finish};
use super::usage::{reported, usage};
use crate::importers::recording::{
    AgentInfo, Call, CallResult, Incoming, Party, Recording, Response, Saying, Text, hash,
};
use crate::json::tree::Value;
use crate::schema::{MeasureKind, TimeBasis};

/// Describes them.
pub(super) fn describe(sample: Value<'_>, contents: &Contents<'_>, out: &mut Recording) {
    out.trace.time_basis = Some(TimeBasis::Ordinal);
    let name = out.text("main");
    let agent = out.agent(AgentInfo { name, ..AgentInfo::default() });
    let (mut last, mut answered) = (None, false);
    for (at, message) in sample.get("messages").elements().enumerate() {
        let content = contents.hash(message.get("content"));
        let id = match message.get("id").some_str() {
            Some(id) => out.text(id),
            None => out.join(&["message:", &at.to_string()]),
        };
        match message.get("role").str() {
            Some("user") => {
                let trusted = Some(true);
                let from = Party::User;
                let (time, intervenes, extras) = (None, false, Text::default());
                out.incoming(
                    agent,
                    Incoming {
                        id,
                        from,
                        time,
                        content,
                        trusted,
                        intervenes,
                        decides: Text::default(),
                        extras,
                    },
                );
            }
            Some("assistant") => {
                let model = message.get("model").some_str().map_or(Text::default(), |model| out.text(model));
                let response = out.response(agent, Response { id, model, ..Response::default() });
                for call in message.get("tool_calls").elements() {
                    let tool = call.get("function").str().unwrap_or_default();
                    let content = Some(contents.hash_call(tool, call.get("arguments")));
                    let id = out.text(call.get("id").str().unwrap_or_default());
                    let tool = out.text(tool);
                    out.call(response, Call { id, tool, content, ..Call::default() });
                }
                answered = content.is_some();
                if answered {
                    out.say(response, Saying { content, ..Saying::default() });
                }
                last = Some(response);
            }
            Some("tool") => {
                let error = message.get("error");
                let result = CallResult {
                    call: out.text(message.get("tool_call_id").str().unwrap_or_default()),
                    tool: out.text(message.get("function").str().unwrap_or_default()),
                    content,
                    ok: Some(!error.exists()),
                    trusted: Some(false),
                    extras: error_type(error.get("type").some_str(), out),
                    ..CallResult::default()
                };
                answered = false;
                out.result(agent, result);
            }
            _ => {}
        }
    }
    if let (Some(seconds), true) = (sample.get("total_time").f64(), last.is_some()) {
        out.wall_clock_s(seconds);
    }
    // Only the total is known: of no response, hence not of an event.
    let answer = || usage(sample.path(&["output", "usage"])).total();
    if let Some(tokens) = reported(sample).or_else(answer) {
        out.measure(MeasureKind::Cost, "tokens", tokens as f64);
    }
    let error = sample.path(&["error", "message"]);
    let limit = sample.path(&["limit", "type"]);
    if error.exists() || limit.exists() {
        let kind = if error.exists() {
            "error".into()
        } else {
            format!("limit:{}", limit.str().unwrap_or("unknown"))
        };
        let saying = Saying {
            id: out.text("end"),
            content: error.some_str().map(hash),
            ok: Some(false),
            extras: error_type(Some(&kind), out),
            ..Saying::default()
        };
        out.lone_saying(agent, saying);
    } else if !answered && last.is_some() {
        finish(agent, sample, contents, None, out);
    }
}
