//! A run as one JSON document. Keys are constants and names are already escaped, so that nothing is
//! allocated but the growth of the buffer.

use super::literals::{fixed, flag, hash, hex, padded, put, scatter, signed, uint, word};
use super::names::{ACTIONS, FILLER, MODELS, NOTES, ROLES, SPANS, SYSTEMS, TOOLS};
use super::outcome::{Account, price, shows_score};
use super::record::{Event, NONE, USER};
use super::task::{Feature, Ids};
use super::trace::{Rules, Run};
use crate::schema::EventType;

/// How one recording departs from the usual form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// `t` counts events instead of seconds.
    pub(super) ordinal: bool,
    /// Secret of the trace for ids.
    pub(super) key: u64,
}

pub(super) fn name(out: &mut Vec<u8>, run: &Run<impl Rules>, agent: u32) {
    match agent {
        USER | NONE => put(out, "user"),
        a => out.extend_from_slice(run.names.get(run.agents[a as usize].name)),
    }
}

fn named(out: &mut Vec<u8>, key: &str, run: &Run<impl Rules>, agent: u32) {
    put(out, key);
    out.push(b'"');
    name(out, run, agent);
    out.push(b'"');
}

pub(super) fn id(out: &mut Vec<u8>, run: &Run<impl Rules>, form: Form, at: u32) {
    match run.task.ids {
        Ids::Count => {
            out.push(b'e');
            uint(out, u64::from(at) + 1);
        }
        Ids::Span => hex(out, scatter(form.key.wrapping_add(u64::from(at)))),
        Ids::Line => {
            let event = &run.events[at as usize];
            name(out, run, event.actor);
            out.push(b':');
            uint(out, u64::from(at) + 1);
            out.push(b':');
            uint(out, u64::from(event.place));
        }
    }
}

/// One document and the end of its line.
pub(super) fn document(
    out: &mut Vec<u8>,
    run: &Run<impl Rules>,
    form: Form,
    order: &[u32],
    sum: &Account,
    number: u64,
) {
    let task = &run.task;
    match task.key % 16 {
        0 => {
            put(out, r#"{"trace_id":"run_"#);
            hex(out, scatter(number ^ form.key & 0xffff_ffff_0000_0000));
            padded(out, number, 8);
        }
        1 => {
            put(out, r#"{"trace_id":"épreuve/"#);
            padded(out, number, 8);
        }
        _ => {
            put(out, r#"{"trace_id":"trace-"#);
            padded(out, number, 8);
        }
    }
    put(out, r#"","task_id":"task-"#);
    padded(out, task.number, 7);
    out.push(b'"');
    if task.writes_system {
        word(out, ",\"system\":", SYSTEMS[usize::from(task.system)]);
    }
    if task.writes_topology {
        word(out, ",\"topology\":", task.topology.as_str());
    }
    if task.has(Feature::EdgesFirst) {
        edges(out, run, form);
        events(out, run, form, order);
    } else {
        events(out, run, form, order);
        edges(out, run, form);
    }
    account(out, run, form, sum, number);
    put(out, "}\n");
}

fn events(out: &mut Vec<u8>, run: &Run<impl Rules>, form: Form, order: &[u32]) {
    put(out, ",\"events\":[");
    for (place, &at) in order.iter().enumerate() {
        put(out, if place == 0 { "{\"id\":\"" } else { ",{\"id\":\"" });
        id(out, run, form, at);
        put(out, "\",\"t\":");
        let event = &run.events[at as usize];
        if form.ordinal {
            uint(out, u64::from(at));
        } else {
            fixed(out, event.t, 3);
        }
        word(out, ",\"type\":", event.kind.as_str());
        parties(out, run, event);
        if run.task.has(Feature::Contents) && !matches!(event.kind, EventType::Spawn | EventType::Despawn) {
            hash(out, ",\"content_ref\":", event.hash);
        }
        if let Some(trusted) = event.trusted {
            flag(out, ",\"trusted\":", trusted);
        }
        usage(out, run, form, event);
        judgments(out, run, event, at);
        if place == 0 && run.task.has(Feature::Group) {
            put(out, ",\"group_id\":\"group-");
            uint(out, run.task.number);
            put(out, "\",\"harness_hash\":\"");
            hex(out, run.task.key);
            out.push(b'"');
        }
        extras(out, run, event);
        out.push(b'}');
    }
    out.push(b']');
}

/// Who, to whom, with which tool.
pub(super) fn parties(out: &mut Vec<u8>, run: &Run<impl Rules>, event: &Event) {
    let tool = &TOOLS[usize::from(event.tool)];
    match event.kind {
        EventType::ToolResult => {
            word(out, ",\"agent\":", tool.name);
            word(out, ",\"tool\":", tool.name);
            return;
        }
        EventType::HumanIntervention => {
            named(out, ",\"agent\":", run, USER);
            named(out, ",\"to\":", run, event.to);
            return;
        }
        _ => named(out, ",\"agent\":", run, event.actor),
    }
    let spawns = matches!(event.kind, EventType::Spawn | EventType::Despawn);
    // The role on a spawn is that of the agent spawned.
    let whose = if spawns { event.to } else { event.actor };
    word(out, ",\"role\":", ROLES[usize::from(run.agents[whose as usize].role)]);
    if event.to != NONE {
        if !spawns {
            named(out, ",\"from\":", run, event.actor);
        }
        named(out, ",\"to\":", run, event.to);
    }
    if event.kind == EventType::ToolCall {
        word(out, ",\"tool\":", tool.name);
    }
}

/// Time, tokens, money.
fn usage(out: &mut Vec<u8>, run: &Run<impl Rules>, form: Form, event: &Event) {
    let task = &run.task;
    if event.duration > 0 && !form.ordinal && task.has(Feature::Durations) {
        put(out, ",\"duration_s\":");
        fixed(out, u64::from(event.duration), 3);
    }
    if event.tokens_out > 0 {
        if task.has(Feature::SplitTokens) {
            put(out, ",\"tokens_in\":");
            uint(out, u64::from(event.tokens_in));
            put(out, ",\"tokens_out\":");
            uint(out, u64::from(event.tokens_out));
        } else {
            put(out, ",\"tokens\":");
            uint(out, u64::from(event.tokens_in) + u64::from(event.tokens_out));
        }
        if task.has(Feature::Models) {
            word(out, ",\"model\":", MODELS[usize::from(run.agents[event.actor as usize].model)].name);
            put(out, ",\"cost_usd\":");
            fixed(out, price(run, event), 6);
        }
    }
    if task.has(Feature::Turns) && event.actor != USER {
        put(out, ",\"turn\":");
        uint(out, u64::from(event.turn));
    }
}

/// What verifiers, critics, policies and annotators said of the event.
fn judgments(out: &mut Vec<u8>, run: &Run<impl Rules>, event: &Event, at: u32) {
    let task = &run.task;
    let result = event.kind == EventType::ToolResult;
    if result && (!event.ok || task.has(Feature::Scores)) {
        flag(out, ",\"ok\":", event.ok);
    }
    if let (Some(score), true) = (event.score, shows_score(run, event)) {
        put(out, ",\"score\":");
        fixed(out, u64::from(score), 3);
    }
    if task.has(Feature::Drafts) && event.kind == EventType::Aggregate {
        put(out, ",\"draft_score\":");
        fixed(out, u64::from(event.score.unwrap_or(0)), 3);
    }
    if task.has(Feature::DenseRewards) && (result || event.score.is_some()) {
        put(out, ",\"reward\":");
        let base = if event.ok { 100 } else { -300 };
        signed(out, base - i64::from(event.corrupted) * 200 + (event.salt >> 8 & 127) as i64, 4);
        put(out, ",\"value\":");
        fixed(out, 300 + (event.salt >> 16 & 511), 3);
    }
    if task.has(Feature::Policy) && event.kind == EventType::OrchestratorDecision {
        policy(out, run, event, at);
    }
    if task.has(Feature::Subtasks) && event.subtask != NONE {
        put(out, ",\"subtask_id\":\"st-");
        uint(out, u64::from(event.subtask));
        out.push(b'"');
    }
    if task.has(Feature::Hashes) {
        // One in eight repeats one of four contents of the task, so that duplicates can be found.
        let repeated = (event.salt >> 32).is_multiple_of(8);
        let value = if repeated { scatter(task.key ^ event.salt >> 40 & 3) } else { event.hash };
        match event.kind {
            EventType::Message => hash(out, ",\"content_hash\":", value),
            EventType::ToolCall => hash(out, ",\"args_hash\":", value),
            _ => {}
        }
    }
    if task.has(Feature::Faults) && (event.corrupted || event.kind == EventType::Return) {
        flag(out, ",\"corrupted\":", event.corrupted);
    }
    if task.has(Feature::Safety) {
        if event.kind == EventType::SafetyEvent {
            flag(out, ",\"sanitizer\":", event.sanitizer);
        }
        if event.kind == EventType::ToolCall && TOOLS[usize::from(event.tool)].privileged {
            put(out, ",\"privileged\":true,\"sandbox_id\":\"sbx-");
            hex(out, scatter(task.key ^ u64::from(event.actor)));
            out.push(b'"');
        }
    }
}

/// The logged decision with its probability among all actions.
fn policy(out: &mut Vec<u8>, run: &Run<impl Rules>, event: &Event, at: u32) {
    // Four positive shares that add up to 1000.
    let cut = |shift: u32| 1 + (event.salt >> shift) % 300;
    let (a, b, c) = (cut(0), cut(12), cut(24));
    let shares = [1000 - a - b - c, a, b, c];
    let next = run.events.get(at as usize + 1).map(|e| e.kind);
    let action = usize::from(next != Some(EventType::Spawn));
    word(out, ",\"action\":", ACTIONS[action]);
    put(out, ",\"p_behavior\":");
    fixed(out, shares[action], 3);
    put(out, ",\"p_actions\":[");
    for (i, &share) in shares.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        fixed(out, share, 3);
    }
    put(out, "],\"state_key\":\"r");
    uint(out, u64::from(event.turn).min(9));
    put(out, ":d");
    uint(out, u64::from(run.agents[event.actor as usize].depth));
    // Rollouts share prefixes only at the start.
    put(out, "\",\"prefix_key\":\"");
    hex(out, if event.turn <= 1 { run.task.key } else { event.hash });
    out.push(b'"');
}

/// Fields that no schema knows.
fn extras(out: &mut Vec<u8>, run: &Run<impl Rules>, event: &Event) {
    if !run.task.has(Feature::Notes) {
        return;
    }
    let (dice, pick) = (event.salt >> 44 & 1023, (event.salt >> 54) as usize);
    match dice {
        0 => {
            put(out, ",\"note\":\"");
            for _ in 0..8 + pick % 48 {
                put(out, FILLER);
            }
            out.push(b'"');
        }
        1..60 => word(out, ",\"note\":", NOTES[pick % NOTES.len()]),
        60..90 => {
            put(out, ",\"x_span\":");
            put(out, SPANS[pick % SPANS.len()]);
        }
        90..100 => put(out, ",\"x_retry\":null,\"x_cached\":0"),
        _ => {}
    }
}

pub(super) fn edges(out: &mut Vec<u8>, run: &Run<impl Rules>, form: Form) {
    put(out, ",\"edges\":[");
    for (place, edge) in run.edges.iter().enumerate() {
        put(out, if place == 0 { "{\"src\":\"" } else { ",{\"src\":\"" });
        id(out, run, form, edge.src);
        put(out, "\",\"dst\":\"");
        id(out, run, form, edge.dst);
        word(out, "\",\"type\":", edge.kind.as_str());
        out.push(b'}');
    }
    out.push(b']');
}

fn measure(out: &mut Vec<u8>, separator: &mut &str, key: &str, value: i64) {
    put(out, separator);
    *separator = ",";
    word(out, "", key);
    out.push(b':');
    signed(out, value, 3);
}

/// The three maps.
fn account(out: &mut Vec<u8>, run: &Run<impl Rules>, form: Form, sum: &Account, number: u64) {
    let task = &run.task;
    put(out, ",\"rewards\":{");
    let mut separator = "";
    for (key, value) in [("team", sum.team), ("tool", sum.tool), ("process", sum.process)] {
        if let Some(value) = value {
            measure(out, &mut separator, key, value);
        }
    }
    if task.key >> 8 & 3 != 0 {
        measure(out, &mut separator, "orchestration", sum.orchestration);
    }
    put(out, "},\"costs\":{\"tokens\":");
    uint(out, sum.tokens);
    put(out, ",\"wall_clock_s\":");
    if form.ordinal {
        // Near the number of events it would read as the spread of `t` in seconds.
        let (wall, steps) = (sum.wall_ms / 1000, run.events.len() as u64);
        uint(out, if wall.abs_diff(steps) * 5 < steps { 0 } else { wall });
    } else {
        fixed(out, sum.wall_ms, 3);
    }
    put(out, ",\"tool_calls\":");
    uint(out, sum.tool_calls);
    put(out, ",\"messages\":");
    uint(out, sum.messages);
    if task.has(Feature::Models) {
        put(out, ",\"usd\":");
        fixed(out, sum.dollars, 6);
    }
    out.push(b'}');
    if task.key >> 10 & 7 != 0 {
        put(out, ",\"metrics\":{");
        let mut separator = "";
        if sum.team.is_some() {
            put(out, if sum.success { "\"task_success\":1" } else { "\"task_success\":0" });
            separator = ",";
        }
        measure(out, &mut separator, "protocol_overhead", sum.overhead);
        if task.has(Feature::Faults) {
            measure(out, &mut separator, "error_amplification", sum.amplification);
        }
        if task.has(Feature::Group) {
            put(out, ",\"train_step\":");
            uint(out, number / 64);
        }
        out.push(b'}');
    }
}
