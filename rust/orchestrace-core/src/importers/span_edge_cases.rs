//! What goes wrong in recordings, told to each format that records spans: the same story in the words of all of them,
//! and what has to come of it, worked out by hand. OpenTelemetry has tests of its own.
#![allow(clippy::needless_pass_by_value, clippy::format_collect)] // JSON literals, small texts

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::recording::hash;
use super::testing::{counts, documents, read_texts};
use super::{AgentLightning, LangSmith, Langfuse, OpenAiAgents, SpreadImporter};
use crate::json::time::format_timestamp;
use crate::store::{Store, text_at};

/// 2026-03-01T10:00:00Z.
const T0: i64 = 1_772_359_200;

/// A span, as every format records one: first and last second, if it has times.
#[derive(Clone)]
struct Told {
    id: &'static str,
    parent: &'static str,
    times: Option<(i64, i64)>,
    what: What,
}

#[derive(Clone)]
enum What {
    Agent(&'static str),
    Says(String),
    /// Calls by id and tool.
    Asks(Vec<(&'static str, &'static str)>),
    Tool {
        name: &'static str,
        call: &'static str,
        failed: bool,
    },
}

fn told(id: &'static str, parent: &'static str, from: i64, to: i64, what: What) -> Told {
    Told { id, parent, times: Some((from, to)), what }
}

fn agent(id: &'static str, parent: &'static str, from: i64, to: i64, name: &'static str) -> Told {
    told(id, parent, from, to, What::Agent(name))
}

fn says(id: &'static str, parent: &'static str, from: i64, to: i64, text: &str) -> Told {
    told(id, parent, from, to, What::Says(text.to_owned()))
}

fn asks(
    id: &'static str,
    parent: &'static str,
    from: i64,
    to: i64,
    calls: &[(&'static str, &'static str)],
) -> Told {
    told(id, parent, from, to, What::Asks(calls.to_vec()))
}

fn tool(
    id: &'static str,
    parent: &'static str,
    from: i64,
    to: i64,
    name: &'static str,
    call: &'static str,
) -> Told {
    told(id, parent, from, to, What::Tool { name, call, failed: false })
}

fn failed(mut span: Told) -> Told {
    if let What::Tool { failed, .. } = &mut span.what {
        *failed = true;
    }
    span
}

impl Told {
    fn parent(&self) -> Json {
        if self.parent.is_empty() { Json::Null } else { self.parent.into() }
    }

    /// First and last time as text.
    fn clock(&self) -> [Json; 2] {
        self.times.map_or([Json::Null, Json::Null], |(from, to)| {
            [from, to].map(|second| format_timestamp((T0 + second) * 1_000_000_000).into())
        })
    }
}

fn with(mut record: Json, more: Json) -> Json {
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

fn langfuse(span: &Told) -> Json {
    let usage = json!({"input": 10, "output": 2, "total": 12});
    let (kind, name, more) = match &span.what {
        What::Agent(name) => ("AGENT", *name, json!({})),
        What::Says(text) => {
            let output = json!({"role": "assistant", "content": text});
            ("GENERATION", "chat", json!({"output": output, "usageDetails": usage}))
        }
        What::Asks(calls) => {
            let calls: Vec<Json> = calls
                .iter()
                .map(|(id, name)| json!({"toolCallId": id, "toolName": name, "input": "{\"q\":1}"}))
                .collect();
            let output = Json::from(calls).to_string();
            ("GENERATION", "chat", json!({"output": output, "usageDetails": usage}))
        }
        What::Tool { name, call, failed } => {
            let attributes = json!({"gen_ai.tool.call.id": call, "gen_ai.tool.name": name});
            let metadata = json!({"attributes": attributes}).to_string();
            let mut more = json!({"metadata": metadata, "output": format!("of {}", span.id)});
            if *failed {
                more["level"] = "ERROR".into();
                more["statusMessage"] = "TimeoutError: late".into();
            }
            ("TOOL", *name, more)
        }
    };
    let [start, end] = span.clock();
    let record = json!({"id": span.id, "traceId": "t1", "projectId": "p", "type": kind, "name": name, "startTime": start,
        "endTime": end, "level": "DEFAULT", "statusMessage": null, "metadata": "{}",
        "parentObservationId": span.parent()});
    with(record, more)
}

fn langsmith(span: &Told) -> Json {
    let generation = |message: Json| {
        json!({"outputs": {"generations": [[{"text": "", "message": {"kwargs": message}}]]}, "prompt_tokens": 10,
            "completion_tokens": 2, "total_tokens": 12})
    };
    let (kind, name, more) = match &span.what {
        What::Agent(name) => ("chain", *name, json!({"tags": ["agent"]})),
        What::Says(text) => ("llm", "Chat", generation(json!({"content": text, "type": "ai"}))),
        What::Asks(calls) => {
            let calls: Vec<Json> = calls
                .iter()
                .map(|(id, name)| json!({"id": id, "name": name, "args": {"q": 1}, "type": "tool_call"}))
                .collect();
            ("llm", "Chat", generation(json!({"content": "", "tool_calls": calls, "type": "ai"})))
        }
        What::Tool { name, call, failed } => {
            let output = json!({"type": "tool", "name": name, "tool_call_id": call, "content": format!("of {}", span.id)});
            let mut more = json!({"outputs": {"output": output}});
            if *failed {
                more["error"] = "TimeoutError('late')".into();
                more["status"] = "error".into();
            }
            ("tool", *name, more)
        }
    };
    let [start, end] = span.clock();
    let record = json!({"id": span.id, "trace_id": "t1", "parent_run_id": span.parent(), "name": name, "run_type": kind,
        "start_time": start, "end_time": end, "inputs": {}, "outputs": {}, "error": null, "status": "success", "tags": []});
    with(record, more)
}

fn openai_agents(span: &Told) -> Json {
    let generation = |message: Json| {
        let usage = json!({"input_tokens": 10, "output_tokens": 2});
        json!({"type": "generation", "input": [], "output": [message], "model": "m", "usage": usage})
    };
    let mut error = Json::Null;
    let data = match &span.what {
        What::Agent(name) => json!({"type": "agent", "name": name}),
        What::Says(text) => generation(json!({"role": "assistant", "content": text})),
        What::Asks(calls) => {
            let calls: Vec<Json> = calls.iter().map(|(id, name)| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"q\":1}"}})
            }).collect();
            generation(json!({"role": "assistant", "content": null, "tool_calls": calls}))
        }
        What::Tool { name, failed, .. } => {
            if *failed {
                error = json!({"message": "Error running tool", "data": {"error": "TimeoutError: late"}});
            }
            json!({"type": "function", "name": name, "input": "{\"q\":1}", "output": format!("of {}", span.id)})
        }
    };
    let [start, end] = span.clock();
    json!({"object": "trace.span", "id": span.id, "trace_id": "t1", "parent_id": span.parent(), "started_at": start,
        "ended_at": end, "span_data": data, "error": error})
}

fn agent_lightning(span: &Told) -> Json {
    let generation = |parts: Json| {
        json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2,
            "gen_ai.output.messages": json!([{"role": "assistant", "parts": parts}]).to_string()})
    };
    let mut status = "OK";
    let (name, attributes) = match &span.what {
        What::Agent(name) => {
            (*name, json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}))
        }
        What::Says(text) => ("chat", generation(json!([{"type": "text", "content": text}]))),
        What::Asks(calls) => {
            let parts = calls.iter().map(
                |(id, name)| json!({"type": "tool_call", "id": id, "name": name, "arguments": {"q": 1}}),
            );
            ("chat", generation(parts.collect()))
        }
        What::Tool { name, call, failed } => {
            let mut attributes = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": call, "gen_ai.tool.call.result": format!("of {}", span.id)});
            if *failed {
                status = "ERROR";
                attributes["error.type"] = "TimeoutError".into();
            }
            (*name, attributes)
        }
    };
    let [start, end] = span
        .times
        .map_or([Json::Null, Json::Null], |(from, to)| [from, to].map(|second| (T0 + second).into()));
    json!({"rollout_id": "t1", "attempt_id": "0", "sequence_id": 1, "trace_id": "f1", "span_id": span.id,
        "parent_id": span.parent(), "name": name, "status": {"status_code": status}, "attributes": attributes, "events": [],
        "links": [], "start_time": start, "end_time": end})
}

/// An importer, and how a span is written for it.
type Format = (&'static dyn SpreadImporter, fn(&Told) -> Json);

const FORMATS: [Format; 4] = [
    (&Langfuse, langfuse),
    (&LangSmith, langsmith),
    (&OpenAiAgents, openai_agents),
    (&AgentLightning, agent_lightning),
];

fn text((_, write): Format, spans: &[Told]) -> String {
    spans.iter().map(|span| format!("{}\n", write(span))).collect()
}

fn read((importer, _): Format, text: &str) -> Store {
    read_texts(importer, &[("x.jsonl", text)])
}

fn only(store: &Store, name: &str) -> Json {
    let mut traces = documents(store);
    assert_eq!(traces.len(), 1, "{name}");
    traces.remove(0)
}

/// The one trace of a story in each format, with the name of the format.
fn each(spans: &[Told]) -> impl Iterator<Item = (&'static str, Store, Json)> {
    FORMATS.into_iter().map(|format| {
        let store = read(format, &text(format, spans));
        let name = format.0.info().name;
        let trace = only(&store, name);
        (name, store, trace)
    })
}

fn events(trace: &Json) -> Vec<String> {
    let text = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let list = trace["events"].as_array().unwrap().iter();
    list.map(|e| ["id", "type", "agent", "to"].map(|key| text(e, key)).join(" ")).collect()
}

fn event<'e>(trace: &'e Json, id: &str) -> &'e Json {
    let mut list = trace["events"].as_array().unwrap().iter();
    list.find(|e| e["id"] == id).unwrap_or_else(|| panic!("no event {id} in {:?}", events(trace)))
}

fn t(trace: &Json, id: &str) -> f64 {
    event(trace, id)["t"].as_f64().unwrap()
}

fn has_edges(name: &str, trace: &Json, wanted: &[&str]) {
    let text = |edge: &Json, key: &str| edge[key].as_str().unwrap().to_owned();
    let list = trace["edges"].as_array().unwrap().iter();
    let found: BTreeSet<String> =
        list.map(|e| ["src", "type", "dst"].map(|key| text(e, key)).join(" ")).collect();
    for edge in wanted {
        assert!(found.contains(*edge), "{name}: no {edge} in {found:?}");
    }
}

fn partial(trace: &Json) -> bool {
    trace["events"][0]["x_trace"]["partial"] == true
}

/// Codes of `findings` or `quarantine`.
fn codes(store: &Store, table: &str) -> Vec<String> {
    let batch = store.combined(table).unwrap();
    let column = batch.column_by_name("code").unwrap();
    (0..batch.num_rows()).map(|row| text_at(column, row).unwrap_or_default().to_owned()).collect()
}

fn fates(store: &Store) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (_, status, _, n) in counts(store) {
        *sums.entry(status).or_default() += n;
    }
    sums
}

/// A clerk that looks something up and answers.
fn lookup() -> Vec<Told> {
    vec![
        agent("a1", "", 0, 8, "clerk"),
        asks("b1", "a1", 1, 2, &[("c1", "stock")]),
        tool("b2", "a1", 2, 4, "stock", "c1"),
        says("b3", "a1", 6, 7, "three"),
    ]
}

/// A lead asks a worker, which asks a helper; each is asked by a tool.
fn three_levels() -> Vec<Told> {
    vec![
        agent("a1", "", 0, 20, "lead"),
        asks("b1", "a1", 1, 2, &[("c1", "worker")]),
        tool("b2", "a1", 2, 15, "worker", "c1"),
        agent("a2", "b2", 3, 14, "worker"),
        asks("b3", "a2", 4, 5, &[("c2", "helper")]),
        tool("b4", "a2", 5, 12, "helper", "c2"),
        agent("a3", "b4", 6, 11, "helper"),
        says("b5", "a3", 7, 10, "deep"),
        says("b6", "a2", 12, 13, "middle"),
        says("b7", "a1", 16, 17, "high"),
    ]
}

#[test]
fn a_last_line_that_is_cut_costs_itself_and_is_missed_by_its_trace() {
    for format in FORMATS {
        let name = format.0.info().name;
        let before = text(format, &lookup()[..3]);
        let whole = text(format, &lookup());
        // Without its last brace the line still says which trace it is of.
        let cut = read(format, &whole[..whole.len() - 2]);
        assert_eq!(codes(&cut, "quarantine"), ["input.truncated"], "{name}");
        let trace = only(&cut, name);
        assert_eq!(events(&trace), events(&only(&read(format, &before), name)), "{name}");
        assert_eq!(events(&trace)[..2], ["c1 tool_call clerk -", "b2:r tool_result stock -"], "{name}");
        assert!(partial(&trace), "{name}");
        // What does not say it is of nobody.
        let stray = read(format, &format!("{whole}{{\"na"));
        assert_eq!(codes(&stray, "quarantine"), ["input.truncated"], "{name}");
        let trace = only(&stray, name);
        assert_eq!((events(&trace).len(), partial(&trace)), (3, false), "{name}");
    }
}

#[test]
fn agents_of_agents_of_agents() {
    for (name, _, trace) in each(&three_levels()) {
        assert_eq!(
            events(&trace),
            [
                "b1:d orchestrator_decision lead -",
                "c1:s spawn lead worker",
                "b3:d orchestrator_decision worker -",
                "c2:s spawn worker helper",
                "b5 return helper worker",
                "b6 return worker lead",
                "b7 aggregate lead user",
            ],
            "{name}"
        );
        let edges = ["b1:d spawn c1:s", "c1:s spawn b3:d", "b3:d spawn c2:s", "c2:s spawn b5"];
        has_edges(name, &trace, &edges);
        has_edges(name, &trace, &["b5 return b6", "b6 return b7", "b6 aggregate b7"]);
        assert_eq!((&trace["topology"], partial(&trace)), (&json!("hierarchical"), false), "{name}");
        assert_eq!(trace["costs"]["tokens"].as_f64(), Some(60.0), "{name}");
    }
}

#[test]
fn who_worked_for_somebody_that_is_not_there() {
    for (name, _, trace) in each(&three_levels()[3..]) {
        // The worker's span names a parent that is missing: a root, of which the end is not the end of all.
        assert!(partial(&trace), "{name}");
        has_edges(name, &trace, &["b3:d spawn c2:s", "c2:s spawn b5", "b5 return b6"]);
        let helper = event(&trace, "b5");
        assert_eq!((&helper["agent"], &helper["to"]), (&json!("helper"), &json!("worker")), "{name}");
    }
}

#[test]
fn calls_side_by_side_and_results_in_any_order() {
    let spans = [
        says("b4", "a1", 6, 7, "both"),
        tool("b3", "a1", 2, 3, "price", "c2"),
        agent("a1", "", 0, 8, "clerk"),
        asks("b1", "a1", 1, 2, &[("c1", "stock"), ("c2", "price")]),
        tool("b2", "a1", 2, 5, "stock", "c1"),
    ];
    for (name, _, trace) in each(&spans) {
        assert_eq!(
            events(&trace),
            [
                "c1 tool_call clerk -",
                "c2 tool_call clerk -",
                "b3:r tool_result price -",
                "b2:r tool_result stock -",
                "b4 return clerk user",
            ],
            "{name}"
        );
        let edges = ["c1 return b2:r", "c2 return b3:r", "b2:r causal b4", "b3:r causal b4"];
        has_edges(name, &trace, &edges);
    }
}

#[test]
fn a_tool_tried_again_is_two_calls() {
    let spans = [
        agent("a1", "", 0, 9, "clerk"),
        asks("b1", "a1", 1, 2, &[("c1", "fetch")]),
        failed(tool("b2", "a1", 2, 3, "fetch", "c1")),
        asks("b3", "a1", 4, 5, &[("c2", "fetch")]),
        tool("b4", "a1", 5, 6, "fetch", "c2"),
        says("b5", "a1", 7, 8, "got it"),
    ];
    for (name, _, trace) in each(&spans) {
        assert_eq!(
            events(&trace),
            [
                "c1 tool_call clerk -",
                "b2:r tool_result fetch -",
                "c2 tool_call clerk -",
                "b4:r tool_result fetch -",
                "b5 return clerk user",
            ],
            "{name}"
        );
        has_edges(name, &trace, &["c1 return b2:r", "b2:r causal c2", "c2 return b4:r"]);
        let result = event(&trace, "b2:r");
        assert_eq!(
            (&result["ok"], &result["x_error_type"]),
            (&json!(false), &json!("TimeoutError")),
            "{name}"
        );
        assert_ne!(event(&trace, "b4:r")["ok"], json!(false), "{name}");
    }
}

#[test]
fn records_that_come_twice_and_two_records_of_one_id() {
    for format in FORMATS {
        let name = format.0.info().name;
        let once = text(format, &lookup());
        let twice = read(format, &format!("{once}{once}"));
        assert_eq!(only(&twice, name), only(&read(format, &once), name));
        assert_eq!(fates(&twice)["duplicate"], 4, "{name}");

        let spans = [
            agent("a1", "", 0, 9, "clerk"),
            says("b1", "a1", 1, 2, "first"),
            says("b1", "a1", 3, 4, "other"),
        ];
        let store = read(format, &text(format, &spans));
        let found = events(&only(&store, name));
        // Where an observation, a run, is written anew while it lasts, the fullest version counts.
        if matches!(name, "langfuse" | "langsmith") {
            assert_eq!((found, fates(&store)["duplicate"]), (vec!["b1 return clerk user".into()], 1));
        } else {
            assert_eq!(found, ["b1 message clerk -", "b1~2 return clerk user"], "{name}");
            assert!(codes(&store, "findings").contains(&"id.repeated".to_owned()), "{name}");
        }
    }
}

#[test]
fn a_clock_that_is_an_hour_behind() {
    let mut spans = three_levels();
    for span in &mut spans {
        if ["a2", "b3", "b4", "a3", "b5", "b6"].contains(&span.id) {
            span.times = span.times.map(|(from, to)| (from - 3600, to - 3600));
        }
    }
    for (name, store, trace) in each(&spans) {
        let found = codes(&store, "findings");
        assert!(found.contains(&"clock.skew".to_owned()), "{name}: {found:?}");
        assert!(!found.contains(&"graph.cycle".to_owned()), "{name}: {found:?}");
        let edges = ["c1:s spawn b3:d", "c2:s spawn b5", "b5 return b6", "b6 return b7", "b6 aggregate b7"];
        has_edges(name, &trace, &edges);
        // Times are as recorded, from the first of them on: the worker begins at second 3 - 3600.
        let times = ["b1:d", "c1:s", "b3:d", "b5", "b6", "b7"].map(|id| t(&trace, id));
        assert_eq!(times, [3599.0, 3599.0, 2.0, 7.0, 10.0, 3614.0], "{name}");
        assert!(!partial(&trace), "{name}");
    }
}

#[test]
fn times_that_are_missing() {
    let mut spans = lookup();
    spans[2].times = None;
    for (name, _, trace) in each(&spans) {
        // The result has the time of what was before it.
        assert_eq!(["c1", "b2:r", "b3"].map(|id| t(&trace, id)), [2.0, 2.0, 7.0], "{name}");
        assert!(event(&trace, "b2:r")["duration_s"].is_null(), "{name}");
    }
    for span in &mut spans {
        span.times = None;
    }
    for (name, _, trace) in each(&spans) {
        let found = ["c1 tool_call clerk -", "b2:r tool_result stock -", "b3 message clerk -"];
        assert_eq!(events(&trace), found, "{name}: an agent without an end goes on");
        assert_eq!(["c1", "b2:r", "b3"].map(|id| t(&trace, id)), [0.0, 1.0, 2.0], "{name}");
        let facts = &trace["events"][0]["x_trace"];
        assert_eq!((&facts["time_basis"], partial(&trace)), (&json!("ordinal"), true), "{name}");
    }
}

#[test]
fn a_line_of_five_megabytes() {
    let long = "x".repeat(5 << 20);
    let hex: String = hash(&long).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut spans = lookup();
    spans[3] = says("b3", "a1", 6, 7, &long);
    for (name, _, trace) in each(&spans) {
        assert_eq!(event(&trace, "b3")["content_ref"], format!("sha256:{hex}"), "{name}");
    }
}
