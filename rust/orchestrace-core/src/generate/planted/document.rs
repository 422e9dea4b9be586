//! A planted trace as a JSON document: every field that a method may need, none that reveals the truth.

use std::io::Write;

use super::planting::{Planting, Step};
use super::spawning::SpawnState;
use super::{Run, Spec};
use crate::generate::json::{Form, edges, id, parties};
use crate::generate::literals::{fixed, flag, hash, hex, padded, put, uint, word};
use crate::generate::names::ROLES;
use crate::generate::record::Event;
use crate::schema::EventType;

/// Actions, in the order of `p_actions`.
const ACTIONS: [&str; super::law::MOST_ACTIONS] =
    ["option_0", "option_1", "option_2", "option_3", "option_4"];

/// Actions of a planted decision to spawn, in the order of `p_actions`.
pub(super) const SPAWNING: [&str; 2] = ["no_spawn", "spawn"];

/// The id of the trace of a number: twelve bytes, which columns of text hold in place.
pub(super) fn trace_id(out: &mut Vec<u8>, number: u64) {
    put(out, "run-");
    padded(out, number, 8);
}

/// A float as the shortest text that reads as the same float.
fn float(out: &mut Vec<u8>, key: &str, value: f64) {
    put(out, key);
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok(), "memory takes what is written");
}

/// One document and the end of its line.
pub(super) fn document(out: &mut Vec<u8>, spec: &Spec, run: &Run, planting: &Planting, number: u64) {
    let form = Form { ordinal: false, key: run.task.key };
    put(out, "{\"trace_id\":\"");
    trace_id(out, number);
    put(out, "\",\"task_id\":\"task-");
    padded(out, run.task.number, 7);
    word(out, "\",\"system\":", "planted");
    word(out, ",\"topology\":", run.task.topology.as_str());
    put(out, ",\"events\":[");
    let mut totals = [0u64; 3];
    for (at, (event, step)) in run.events.iter().zip(&planting.steps).enumerate() {
        put(out, if at == 0 { "{\"id\":\"" } else { ",{\"id\":\"" });
        id(out, run, form, at as u32);
        put(out, "\",\"t\":");
        fixed(out, event.t, 3);
        word(out, ",\"type\":", event.kind.as_str());
        parties(out, run, event);
        event_fields(out, spec, run, event, step, at, planting.decision.filter(|_| at == 0).map(|d| d.0));
        out.push(b'}');
        totals[0] += u64::from(event.tokens_in) + u64::from(event.tokens_out);
        totals[1] += u64::from(event.kind == EventType::ToolCall);
        totals[2] += u64::from(event.kind == EventType::Message);
    }
    out.push(b']');
    edges(out, run, form);
    float(out, ",\"rewards\":{\"team\":", planting.outcome + planting.noise);
    put(out, "},\"costs\":{\"tokens\":");
    uint(out, totals[0]);
    put(out, ",\"wall_clock_s\":");
    fixed(out, run.events.last().map_or(0, |e| e.t), 3);
    put(out, ",\"tool_calls\":");
    uint(out, totals[1]);
    put(out, ",\"messages\":");
    uint(out, totals[2]);
    put(out, "}}\n");
}

fn event_fields(
    out: &mut Vec<u8>,
    spec: &Spec,
    run: &Run,
    event: &Event,
    step: &Step,
    at: usize,
    spawning: Option<SpawnState>,
) {
    if let Some(trusted) = event.trusted {
        flag(out, ",\"trusted\":", trusted);
    }
    put(out, ",\"duration_s\":");
    fixed(out, u64::from(event.duration), 3);
    if event.tokens_out > 0 {
        put(out, ",\"tokens_in\":");
        uint(out, u64::from(event.tokens_in));
        put(out, ",\"tokens_out\":");
        uint(out, u64::from(event.tokens_out));
    }
    put(out, ",\"turn\":");
    uint(out, u64::from(event.turn));
    let content = if event.kind == EventType::ToolCall { ",\"args_hash\":" } else { ",\"content_hash\":" };
    hash(out, content, step.content);
    if event.kind == EventType::ToolResult {
        flag(out, ",\"ok\":", event.ok);
    }
    if let Some(quality) = step.draft {
        put(out, ",\"draft_score\":");
        fixed(out, u64::from(quality), 3);
    }
    if spec.dense {
        float(out, ",\"reward\":", step.reward);
    }
    float(out, ",\"value\":", step.value);
    if let Some((action, shares)) = step.decision {
        let names = if spawning.is_some() { &SPAWNING[..] } else { &ACTIONS[..spec.actions] };
        word(out, ",\"action\":", names[usize::from(action)]);
        put(out, ",\"p_behavior\":");
        fixed(out, u64::from(shares[usize::from(action)]), 3);
        put(out, ",\"p_actions\":[");
        for (i, &share) in shares[..names.len()].iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            fixed(out, u64::from(share), 3);
        }
        out.push(b']');
    }
    // Where the run is, coarsely: states that come back in other rollouts.
    put(out, ",\"state_key\":\"");
    put(out, ROLES[usize::from(run.agents[event.actor as usize].role)]);
    put(out, ":");
    if let Some(spawning) = spawning {
        put(out, "state_");
        uint(out, u64::from(spawning.state));
    } else {
        uint(out, (at * 8 / run.events.len()) as u64);
    }
    put(out, "\",\"prefix_key\":\"");
    hex(out, step.prefix);
    put(out, "\",\"subtask_id\":\"s");
    uint(out, 1 + u64::from(step.subtask));
    out.push(b'"');
    if at == 0 {
        put(out, ",\"group_id\":\"group-");
        padded(out, run.task.number, 7);
        out.push(b'"');
    }
}
