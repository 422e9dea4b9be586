use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::*;
use crate::assembly::assemble;
use crate::columns::RecordOptions;
use crate::columns::chunk::Segment;
use crate::columns::quarantine::Position;
use crate::columns::writer::{BlockWriter, Event, TraceWriter};
use crate::ingest::{Input, ReadOptions, read};
use crate::run::Run;
use crate::store::{Store, write_jsonl};

fn store(recording: &Recording) -> Store {
    store_with(recording, &RecordOptions::default())
}

fn store_with(recording: &Recording, options: &RecordOptions) -> Store {
    let mut writer = BlockWriter::new(options);
    let mut out = writer.begin(options, Position { line: 1, offset: 0, length: 0 });
    assert!(recording.write(&mut out));
    out.commit("test").unwrap();
    let segment = Segment { absolute_lines: true, lines: 1, records: 1, traces: 1, ..Segment::default() };
    let chunk = writer.finish(vec![segment]).unwrap();
    assemble(vec![chunk], &["test".into()], options, &Run::new(Some(1)).unwrap()).unwrap()
}

/// The trace as the native export has it, which the native importer has to accept.
fn native(recording: &Recording) -> Json {
    let run = Run::new(Some(1)).unwrap();
    let mut text = Vec::new();
    write_jsonl(&store(recording), &mut text, &run).unwrap();
    let reader = Box::new(std::io::Cursor::new(text.clone()));
    let back = read(vec![Input::Stream { name: "x".into(), reader }], &ReadOptions::default(), &run).unwrap();
    assert_eq!((back.n_traces(), back.records_quarantined()), (1, 0), "{}", String::from_utf8_lossy(&text));
    serde_json::from_slice(&text).unwrap()
}

fn events(trace: &Json) -> Vec<String> {
    let text = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let list = trace["events"].as_array().unwrap();
    list.iter().map(|e| ["id", "type", "agent", "to", "role"].map(|key| text(e, key)).join(" ")).collect()
}

fn edges(trace: &Json) -> BTreeSet<String> {
    let list = trace["edges"].as_array().unwrap();
    let text = |edge: &Json, key: &str| edge[key].as_str().unwrap().to_owned();
    list.iter().map(|e| format!("{} {} {}", text(e, "src"), text(e, "type"), text(e, "dst"))).collect()
}

fn set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|e| (*e).to_owned()).collect()
}

fn finding_codes(store: &Store) -> Vec<String> {
    use arrow_array::cast::AsArray;
    let mut out = Vec::new();
    for batch in store.table("findings").unwrap() {
        let column = batch.column_by_name("code").unwrap();
        let codes = column.as_dictionary::<arrow_array::types::UInt8Type>();
        out.extend(codes.keys().values().iter().map(|c| crate::error::FINDING_CODES[*c as usize].to_owned()));
    }
    out
}

const S: i64 = 1_000_000_000;
const T0: i64 = 1_700_000_000 * S;

struct Sketch(Recording);

impl Sketch {
    fn new() -> Self {
        let mut recording = Recording::default();
        recording.trace.trace_id = recording.text("t");
        Self(recording)
    }

    fn agent(&mut self, name: &str, parent: Option<Agent>) -> Agent {
        let name = self.0.text(name);
        self.0.agent(AgentInfo { name, parent, ..AgentInfo::default() })
    }

    fn asks(&mut self, agent: Agent, id: &str, at: i64) -> Entry {
        let incoming = Incoming {
            id: self.0.text(id),
            from: Party::User,
            time: Some(T0 + at * S),
            content: Some(hash(id)),
            trusted: Some(true),
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        self.0.incoming(agent, incoming)
    }

    fn answers(&mut self, agent: Agent, id: &str, at: i64) -> Entry {
        let response = Response {
            id: self.0.text(id),
            time: Some(T0 + at * S),
            usage: Usage { tokens_in: Some(10), tokens_out: Some(1), ..Usage::default() },
            ..Response::default()
        };
        self.0.response(agent, response)
    }

    fn says(&mut self, response: Entry) -> Entry {
        self.0.say(response, Saying { content: Some(hash("text")), ..Saying::default() })
    }

    fn calls(&mut self, response: Entry, id: &str, does: Does) -> Entry {
        let call = Call { id: self.0.text(id), tool: self.0.text("tool"), does, ..Call::default() };
        self.0.call(response, call)
    }

    fn result(&mut self, agent: Agent, call: &str, at: i64, trusted: bool) -> Entry {
        let call = self.0.text(call);
        let result =
            CallResult { call, time: Some(T0 + at * S), trusted: Some(trusted), ..CallResult::default() };
        self.0.result(agent, result)
    }
}

/// A lead that asks two children, of which one asks a third.
fn team() -> Recording {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let worker = s.agent("worker", None);
    let two = s.agent("worker", None);
    let deep = s.agent("helper", None);
    s.asks(lead, "q", 0);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::Spawns(worker));
    s.calls(r, "c2", Does::Spawns(two));
    let r = s.answers(two, "w2", 2);
    s.calls(r, "c3", Does::Spawns(deep));
    let r = s.answers(deep, "d1", 3);
    s.says(r);
    s.result(two, "c3", 4, true);
    let r = s.answers(two, "w3", 5);
    s.says(r);
    let r = s.answers(worker, "w1", 6);
    s.says(r);
    s.result(lead, "c2", 7, true);
    s.result(lead, "c1", 8, true);
    let r = s.answers(lead, "r2", 9);
    s.says(r);
    s.0
}

#[test]
fn delegation_returns_and_is_put_together() {
    let trace = native(&team());
    assert_eq!(
        events(&trace),
        [
            "q message user lead -",
            "r1:d orchestrator_decision lead - lead",
            "c1:s spawn lead worker executor",
            "c2:s spawn lead worker#2 executor",
            "w2:d orchestrator_decision worker#2 - executor",
            "c3:s spawn worker#2 helper executor",
            "d1 return helper worker#2 executor",
            "c3:r tool_result tool - -",
            "w3 return worker#2 lead executor",
            "w1 return worker lead executor",
            "c2:r tool_result tool - -",
            "c1:r tool_result tool - -",
            "r2 aggregate lead user lead",
        ]
    );
    assert_eq!(
        edges(&trace),
        set(&[
            "q message r1:d",
            "r1:d temporal c1:s",
            "c1:s temporal c2:s",
            "r1:d spawn c1:s",
            "r1:d spawn c2:s",
            "c1:s spawn w1",
            "c2:s spawn w2:d",
            "w2:d temporal c3:s",
            "w2:d spawn c3:s",
            "c3:s spawn d1",
            "d1 return c3:r",
            "c3:r causal w3",
            "c3:s temporal w3",
            "w3 return c2:r",
            "w1 return c1:r",
            "c2:r causal r2",
            "c1:r causal r2",
            "c2:s temporal r2",
            "w3 aggregate r2",
            "w1 aggregate r2",
        ])
    );
    assert_eq!(trace["topology"], "hierarchical");
    assert_eq!(trace["costs"]["tokens"], 66);
    assert_eq!(trace["costs"]["wall_clock_s"].as_f64(), Some(9.0));
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "seconds");
    assert_eq!(trace["events"][12]["turn"], 5);
    assert!(finding_codes(&store(&team())).is_empty());
}

#[test]
fn results_find_their_calls_in_any_order() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    s.result(agent, "c0", 0, false);
    let r = s.answers(agent, "r1", 1);
    for id in ["c0", "c1", "c2"] {
        s.calls(r, id, Does::UsesTool);
    }
    s.result(agent, "c2", 2, false);
    s.result(agent, "c1", 3, true);
    s.result(agent, "lost", 3, true);
    let r = s.answers(agent, "r2", 4);
    s.calls(r, "c9", Does::UsesTool);
    s.says(r);
    let trace = native(&s.0);
    let edges = edges(&trace);
    for pair in ["c0 return c0:r", "c1 return c1:r", "c2 return c2:r", "c2:r safety_flow r2:d"] {
        // The answer of the second response is the first of its events that has read anything.
        let pair = pair.replace("r2:d", "c9");
        assert!(edges.contains(&pair), "{pair} of {edges:?}");
    }
    assert!(!edges.iter().any(|e| e.starts_with("lost:r return") || e.ends_with("return lost:r")));
    let partial = |id: &str| {
        let list = trace["events"].as_array().unwrap();
        list.iter().find(|e| e["id"] == id).unwrap()["x_partial"].as_bool()
    };
    assert_eq!([partial("lost:r"), partial("c9"), partial("c1")], [Some(true), Some(true), None]);
    assert_eq!(trace["costs"]["tool_calls"], 4);
    assert!(finding_codes(&store(&s.0)).contains(&"safety.conservative".into()));
}

#[test]
fn several_that_help_in_a_row_read_by_way_of_the_one_before() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    s.asks(agent, "q", 0);
    for (at, id) in (1..).zip(["h1", "h2", "h3"]) {
        let helping = s.answers(agent, id, at);
        s.0.response_mut(helping).unwrap().helps = true;
    }
    let r = s.answers(agent, "r", 4);
    s.says(r);
    assert_eq!(
        edges(&native(&s.0)),
        set(&[
            "q message h1",
            "h1 temporal h2",
            "h1 causal h2",
            "h2 temporal h3",
            "h2 causal h3",
            "q message r",
            "h1 causal r",
            "h2 causal r",
            "h3 temporal r",
            "h3 causal r",
        ])
    );
}

#[test]
fn events_with_one_id_are_numbered_in_their_order() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    for (at, id) in (0..).zip(["a", "a", "a~2", "a", "a~2"]) {
        s.asks(agent, id, at);
    }
    let ids: Vec<String> = events(&native(&s.0)).iter().map(|e| e[..e.find(' ').unwrap()].into()).collect();
    assert_eq!(ids, ["a", "a~2", "a~2~2", "a~3", "a~2~3"]);
}

#[test]
fn untrusted_text_flows_from_response_to_response_until_compaction() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let r = s.answers(agent, "r1", 1);
    s.calls(r, "c1", Does::UsesTool);
    s.result(agent, "c1", 2, false);
    for (id, at) in [("r2", 3), ("r3", 4)] {
        let r = s.answers(agent, id, at);
        s.says(r);
    }
    s.0.compaction(agent);
    let r = s.answers(agent, "r4", 5);
    s.says(r);
    let flows =
        |trace: &Json| edges(trace).into_iter().filter(|e| e.contains("safety_flow")).collect::<Vec<_>>();
    assert_eq!(flows(&native(&s.0)), ["c1:r safety_flow r2", "r2 safety_flow r3"]);
    s.0.trace.exact_flows = true;
    assert!(flows(&native(&s.0)).is_empty());
}

#[test]
fn what_was_read_flows_on_through_responses_that_read_more() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    for n in 1..4 {
        let r = s.answers(agent, &format!("r{n}"), 2 * n);
        s.calls(r, &format!("c{n}"), Does::UsesTool);
        s.result(agent, &format!("c{n}"), 2 * n + 1, n == 3);
    }
    let r = s.answers(agent, "r4", 8);
    s.says(r);
    let flows: Vec<String> = edges(&native(&s.0)).into_iter().filter(|e| e.contains("safety_flow")).collect();
    // The first two results are untrusted. What came with the first is still there when the second is read.
    assert_eq!(
        flows,
        ["c1:r safety_flow c2", "c2 safety_flow c3", "c2:r safety_flow c3", "c3 safety_flow r4"]
    );
}

#[test]
fn a_response_without_content_still_has_its_tokens() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    s.answers(agent, "r1", 1);
    let r = s.answers(agent, "r2", 2);
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(events(&trace), ["r1 message solo - -", "r2 return solo user -"]);
    assert_eq!(trace["costs"]["tokens"], 22);
}

#[test]
fn an_open_stream_has_no_answer() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    s.0.agent_info(agent).open = true;
    let r = s.answers(agent, "r1", 1);
    s.says(r);
    assert_eq!(events(&native(&s.0)), ["r1 message solo - -"]);
    assert_eq!(finding_codes(&store(&s.0)), ["trace.partial"]);
}

#[test]
fn times_that_are_sums_of_durations_have_no_date() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let r = s.answers(agent, "r1", 1);
    s.says(r);
    s.0.trace.time_basis = Some(TimeBasis::Partial);
    let facts = |recording: &Recording| native(recording)["events"][0]["x_trace"].clone();
    assert!(facts(&s.0)["started_at"].is_null());
    s.0.trace.started_at = Some(T0);
    assert_eq!(facts(&s.0)["started_at"], "2023-11-14T22:13:20Z");
}

#[test]
fn what_is_said_aside_is_no_answer() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let r = s.answers(agent, "r1", 1);
    s.says(r);
    let r = s.answers(agent, "r2", 2);
    s.0.say(r, Saying { aside: true, ..Saying::default() });
    let judge = s.agent("judge", None);
    s.0.lone_saying(judge, Saying { aside: true, time: Some(T0 + 3 * S), ..Saying::default() });
    let trace = native(&s.0);
    assert_eq!(events(&trace), ["r1 return solo user -", "r2 message solo - -", "judge:2 message judge - -"]);
    assert!(finding_codes(&store(&s.0)).is_empty());
}

#[test]
fn order_alone_is_a_time() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let id = s.0.text("r1");
    let r = s.0.response(agent, Response { id, ..Response::default() });
    s.calls(r, "c1", Does::UsesTool);
    let call = s.0.text("c1");
    s.0.result(agent, CallResult { call, ..CallResult::default() });
    s.0.lone_saying(agent, Saying { id: Text::default(), ..Saying::default() });
    let trace = native(&s.0);
    let times: Vec<f64> =
        trace["events"].as_array().unwrap().iter().map(|e| e["t"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 1.0, 2.0]);
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert_eq!(trace["events"][0]["x_trace"]["unknown_costs"], serde_json::json!(["tokens", "wall_clock_s"]));
}

#[test]
fn streams_keep_their_order_and_their_times() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let r = s.answers(lead, "r1", 3600);
    s.calls(r, "c1", Does::Spawns(child));
    // The child's clock is an hour behind, and goes back within its stream.
    for (id, at) in [("w1", 2), ("w0", 1)] {
        let r = s.answers(child, id, at);
        s.says(r);
    }
    s.result(lead, "c1", 3700, true);
    let r = s.answers(lead, "r2", 3701);
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(
        events(&trace),
        [
            "w1 message child - executor",
            "w0 return child lead executor",
            "r1:d orchestrator_decision lead - lead",
            "c1:s spawn lead child executor",
            "c1:r tool_result tool - -",
            "r2 aggregate lead user lead",
        ]
    );
    let t = |i: usize| trace["events"][i]["t"].as_f64().unwrap();
    assert_eq!((t(0), t(1), t(2)), (1.0, 0.0, 3599.0));
    let codes = finding_codes(&store(&s.0));
    assert!(codes.contains(&"clock.skew".into()) && codes.contains(&"time.reversed".into()), "{codes:?}");
    assert!(!codes.contains(&"graph.cycle".into()), "edges still order the events");
}

#[test]
fn a_child_known_from_its_result_alone_is_built() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::Spawns(child));
    s.result(lead, "c1", 2, true);
    let r = s.answers(lead, "r2", 3);
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(events(&trace)[2], "c1:return return child lead executor");
    assert!(edges(&trace).is_superset(&set(&[
        "c1:return return c1:r",
        "c1:s spawn c1:return",
        "c1:return aggregate r2"
    ])));
    assert_eq!(finding_codes(&store(&s.0)), ["trace.partial"]);
}

#[test]
fn a_child_whose_spawn_is_not_recorded_is_spawned() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", Some(lead));
    let r = s.answers(lead, "r1", 1);
    s.says(r);
    let r = s.answers(child, "w1", 2);
    s.says(r);
    let r = s.answers(lead, "r2", 3);
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(events(&trace)[1], "child:s spawn lead child executor");
    assert!(edges(&trace).is_superset(&set(&["child:s spawn w1", "w1 return r2", "w1 aggregate r2"])));
}

#[test]
fn work_in_the_background_returns_when_it_is_told() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::Spawns(child));
    let launched = s.result(lead, "c1", 2, true);
    s.0.result_mut(launched).unwrap().launched = true;
    let r = s.answers(child, "w1", 3);
    s.says(r);
    let r = s.answers(lead, "r2", 4);
    s.says(r);
    s.0.delivery(lead, child);
    let r = s.answers(lead, "r3", 5);
    s.says(r);
    let edges = edges(&native(&s.0));
    assert!(edges.is_superset(&set(&["c1:s return c1:r", "w1 return r3", "w1 aggregate r3"])), "{edges:?}");
    assert!(!edges.contains("w1 return r2"));
}

#[test]
fn an_answer_before_the_last_is_a_message_where_it_arrives() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::Spawns(child));
    let launched = s.result(lead, "c1", 2, true);
    s.0.result_mut(launched).unwrap().launched = true;
    s.0.delivery_at(lead, child, Some(T0 + 4 * S));
    // What is told twice arrives once.
    s.0.delivery_at(lead, child, Some(T0 + 5 * S));
    let r = s.answers(lead, "r2", 6);
    s.calls(r, "c2", Does::Tells(Party::Agent(child)));
    s.0.delivery_at(lead, child, Some(T0 + 9 * S));
    let r = s.answers(lead, "r3", 10);
    s.says(r);
    for (id, at) in [("w1", 3), ("w2", 8)] {
        let r = s.answers(child, id, at);
        s.says(r);
    }
    let trace = native(&s.0);
    assert!(events(&trace).contains(&"w1 message child lead executor".to_owned()), "{:?}", events(&trace));
    let edges = edges(&trace);
    let wanted = ["w1 message c2", "c2 message w2", "w2 return r3", "w2 aggregate r3"];
    assert!(edges.is_superset(&set(&wanted)), "{edges:?}");
    assert!(!edges.contains("w1 message r3") && !edges.contains("w2 return c2"), "{edges:?}");
}

#[test]
fn messages_handoffs_and_ends() {
    let mut s = Sketch::new();
    let a = s.agent("a", None);
    let b = s.agent("b", None);
    let r = s.answers(a, "r1", 1);
    s.calls(r, "c1", Does::Tells(Party::Agent(b)));
    let r = s.answers(b, "r2", 2);
    s.calls(r, "c2", Does::HandsOff(a));
    let r = s.answers(a, "r3", 3);
    s.calls(r, "c3", Does::Ends(b));
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(
        events(&trace),
        [
            "c1 message a b -",
            "r2:d orchestrator_decision b - -",
            "c2 message b a -",
            "c3 despawn a b -",
            "r3 return a user -",
        ]
    );
    assert!(edges(&trace).is_superset(&set(&["c1 message r2:d", "c2 message c3"])));
}

#[test]
fn names_come_in_order_of_appearance() {
    let mut s = Sketch::new();
    let later = s.agent("x", None);
    let sooner = s.agent("x", None);
    let numbered = s.agent("x#2", None);
    let user = s.agent("user", None);
    for (agent, id, at) in [(sooner, "1", 1), (later, "2", 2), (numbered, "3", 3), (user, "4", 4)] {
        let r = s.answers(agent, id, at);
        s.says(r);
    }
    let trace = native(&s.0);
    let names: Vec<&str> =
        trace["events"].as_array().unwrap().iter().map(|e| e["agent"].as_str().unwrap()).collect();
    assert_eq!(names, ["x", "x#2", "x#2#2", "user#2"]);
}

#[test]
fn repeated_ids_get_a_suffix_and_are_told() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    for at in 1..4 {
        let r = s.answers(agent, "r", at);
        s.says(r);
    }
    assert_eq!(events(&native(&s.0)).iter().map(|e| &e[..3]).collect::<Vec<_>>(), ["r m", "r~2", "r~3"]);
    assert_eq!(finding_codes(&store(&s.0)), ["id.repeated"]);
}

#[test]
fn labels_edges_measures_and_extras_arrive() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let first = s.answers(agent, "r1", 1);
    s.calls(first, "c1", Does::UsesTool);
    let second = s.answers(agent, "r2", 2);
    let extras = s.0.extra_text(Text::default(), "x_note", "a \"b\"");
    let extras = s.0.extra(extras, "x_n", "3");
    s.0.response_mut(second).unwrap().extras = extras;
    s.says(second);
    s.0.edge(first, second, EdgeType::SafetyFlow);
    s.0.measure(MeasureKind::Reward, "team", 1.0);
    s.0.measure(MeasureKind::Cost, "tokens", 5.0);
    let label = Label {
        annotator: s.0.text("who"),
        entry: s.0.text("r2"),
        label: s.0.text("bad"),
        ..Label::default()
    };
    s.0.label(label);
    let trace = native(&s.0);
    assert!(edges(&trace).contains("c1 safety_flow r2"));
    assert_eq!(
        (trace["rewards"]["team"].as_f64(), trace["costs"]["tokens"].as_f64()),
        (Some(1.0), Some(5.0))
    );
    assert_eq!(
        (trace["events"][1]["x_note"].as_str(), trace["events"][1]["x_n"].as_i64()),
        (Some("a \"b\""), Some(3))
    );
    assert_eq!(trace["events"][0]["x_gen"], "r1");
    let labels = store(&s.0).table("labels").unwrap();
    assert_eq!(labels.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(), 1);
}

#[test]
fn agents_that_spawn_each_other_are_no_endless_family() {
    let mut s = Sketch::new();
    let a = s.agent("a", None);
    let b = s.agent("b", None);
    let r = s.answers(a, "r1", 1);
    s.calls(r, "c1", Does::Spawns(b));
    let r = s.answers(b, "r2", 2);
    s.calls(r, "c2", Does::Spawns(a));
    let r = s.answers(a, "r3", 3);
    s.says(r);
    assert_eq!(events(&native(&s.0)).len(), 5);
}

#[test]
fn own_fields_become_columns() {
    use arrow_array::cast::AsArray;

    use crate::columns::LiftKind;

    let options = RecordOptions {
        fields: vec![("x_gen".into(), LiftKind::Text), ("x_n".into(), LiftKind::I64)],
        extras: false,
        ..RecordOptions::default()
    };
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let r = s.answers(agent, "r1", 1);
    s.0.response_mut(r).unwrap().extras = s.0.extra(Text::default(), "x_n", "3");
    s.calls(r, "c1", Does::UsesTool);
    s.says(r);
    let events = store_with(&s.0, &options).table("events").unwrap().remove(0);
    let column = |name: &str| events.column_by_name(name).unwrap().clone();
    assert_eq!(column("x_gen").as_string_view().iter().collect::<Vec<_>>(), [Some("r1"); 2]);
    let numbers = column("x_n");
    let numbers = numbers.as_primitive::<arrow_array::types::Int64Type>();
    assert_eq!(numbers.iter().collect::<Vec<_>>(), [Some(3), None]);
}

#[test]
fn the_last_text_to_one_who_plays_the_user_is_the_answer() {
    let mut s = Sketch::new();
    let agent = s.agent("agent", None);
    let user = s.agent("simulator", None);
    s.0.agent_info(user).outside = Some(crate::schema::AgentKind::User);
    for (index, (by, to)) in
        [(user, agent), (agent, user), (user, agent), (agent, user), (user, agent)].into_iter().enumerate()
    {
        let id = format!("{}", index + 1);
        let r = s.answers(by, &id, index as i64);
        s.0.response_mut(r).unwrap().turn = Some(index as u32 + 1);
        s.0.say(r, Saying { to: Some(Party::Agent(to)), ..Saying::default() });
    }
    let trace = native(&s.0);
    assert_eq!(
        events(&trace),
        [
            "1 message simulator agent user",
            "2 message agent simulator -",
            "3 message simulator agent user",
            "4 return agent simulator -",
            "5 message simulator agent user",
        ]
    );
    let turns: Vec<_> =
        trace["events"].as_array().unwrap().iter().map(|e| e["turn"].as_u64().unwrap()).collect();
    assert_eq!(turns, [1, 2, 3, 4, 5], "turns are those of the log");
    assert_eq!(
        edges(&trace),
        set(&[
            "1 message 2",
            "2 message 3",
            "3 message 4",
            "4 message 5",
            "1 temporal 3",
            "3 temporal 5",
            "2 temporal 4",
        ])
    );
    assert_eq!(finding_codes(&store(&s.0)), [""; 0]);
}

#[test]
fn what_children_returned_is_put_together_for_one_who_plays_the_user_too() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let user = s.agent("simulator", None);
    s.0.agent_info(user).outside = Some(crate::schema::AgentKind::User);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::Spawns(child));
    let r = s.answers(child, "w1", 2);
    s.says(r);
    s.result(lead, "c1", 3, true);
    let r = s.answers(lead, "r2", 4);
    s.0.say(r, Saying { to: Some(Party::Agent(user)), ..Saying::default() });
    let r = s.answers(user, "u1", 5);
    s.0.say(r, Saying { to: Some(Party::Agent(lead)), ..Saying::default() });
    let trace = native(&s.0);
    assert_eq!(events(&trace)[4], "r2 aggregate lead simulator lead");
    assert!(edges(&trace).is_superset(&set(&["w1 aggregate r2", "r2 message u1"])));
    assert_eq!(finding_codes(&store(&s.0)), [""; 0]);
}

#[test]
fn calls_of_one_response_are_asked_one_by_one() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::UsesTool);
    s.result(lead, "c1", 2, true);
    let second_call = s.calls(r, "c2", Does::Spawns(child));
    s.0.call_mut(second_call).unwrap().time = Some(T0 + 3 * S);
    s.result(lead, "c2", 5, true);
    let r = s.answers(child, "w1", 4);
    s.says(r);
    let r = s.answers(lead, "r2", 6);
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(
        events(&trace),
        [
            "r1:d orchestrator_decision lead - lead",
            "c1 tool_call lead - lead",
            "c1:r tool_result tool - -",
            "c2:s spawn lead child executor",
            "w1 return child lead executor",
            "c2:r tool_result tool - -",
            "r2 aggregate lead user lead",
        ]
    );
    let list = trace["events"].as_array().unwrap();
    let turns: Vec<i64> = list.iter().map(|e| e["turn"].as_i64().unwrap()).collect();
    assert_eq!(turns, [0, 0, 0, 0, 1, 0, 2]);
    assert_eq!((list[3]["t"].as_f64(), list[3]["x_gen"].as_str()), (Some(2.0), Some("r1")));
    assert!(edges(&trace).is_superset(&set(&[
        "r1:d tool_dependency c1",
        "r1:d spawn c2:s",
        "c2:s spawn w1"
    ])));
    assert!(finding_codes(&store(&s.0)).is_empty());
}

#[test]
fn a_marked_spawn_is_the_one_of_its_agent() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    let child = s.agent("child", None);
    let r = s.answers(lead, "r1", 1);
    s.calls(r, "c1", Does::UsesTool);
    let mark = Mark {
        event_type: EventType::Spawn,
        id: s.0.text("m1"),
        by: None,
        to: Some(child),
        time: Some(T0 + S),
        content: None,
        trusted: Some(true),
        ok: None,
        tool: Text::default(),
        extras: Text::default(),
    };
    s.0.mark(lead, mark);
    let r = s.answers(child, "w1", 2);
    s.says(r);
    let r = s.answers(lead, "r2", 3);
    s.says(r);
    let trace = native(&s.0);
    assert_eq!(
        events(&trace),
        [
            "c1 tool_call lead - lead",
            "m1 spawn lead child executor",
            "w1 return child lead executor",
            "r2 aggregate lead user lead",
        ]
    );
    let edges = edges(&trace);
    assert!(edges.is_superset(&set(&["m1 spawn w1", "w1 return r2", "w1 aggregate r2"])), "{edges:?}");
}

#[test]
fn what_is_compacted_before_it_is_read_flows_nowhere() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let r = s.answers(agent, "r1", 1);
    s.calls(r, "c1", Does::UsesTool);
    s.result(agent, "c1", 2, false);
    s.0.compaction(agent);
    let r = s.answers(agent, "r2", 3);
    s.says(r);
    let edges = edges(&native(&s.0));
    assert!(edges.contains("c1:r causal r2"), "{edges:?}");
    assert!(!edges.iter().any(|edge| edge.contains("safety_flow")), "{edges:?}");
}

#[test]
fn no_member_of_an_event_is_there_twice() {
    let mut s = Sketch::new();
    let lead = s.agent("lead", None);
    s.0.agent_info(lead).source_id = s.0.text("l-1");
    let child = s.agent("child", Some(lead));
    s.0.agent_info(child).source_id = s.0.text("c-1");
    let id = s.0.text("r1");
    let extras = s.0.extra(Text::default(), "x_partial", "true");
    let extras = s.0.extra(extras, "x_note", "1");
    let extras = s.0.extra(extras, "x_note", "2"); // of one text the first counts
    let extras = s.0.extra(extras, "x_gen", "3"); // what is written of the response is taken
    let extras = s.0.extra(extras, "tokens", "4"); // what events have a column for, too
    let r = s.0.response(lead, Response { id, extras, ..Response::default() });
    let other = s.0.extra(Text::default(), "x_note", "5");
    let other = s.0.extra(other, "x_more", r#""\ud800""#);
    let id = s.0.text("c1");
    let call = Call { id, does: Does::UsesTool, extras: other, ..Call::default() };
    s.0.call(r, call);
    let r = s.answers(child, "r2", 1);
    s.says(r);
    let trace = native(&s.0);
    let call = &trace["events"][0];
    assert_eq!((&call["x_partial"], &call["x_note"]), (&Json::Bool(true), &Json::from(1)));
    assert_eq!((&call["x_gen"], &call["x_more"]), (&Json::from("r1"), &Json::from("\u{fffd}")));
    let ids: Vec<&Json> = trace["events"].as_array().unwrap().iter().map(|e| &e["x_agent_id"]).collect();
    assert_eq!(ids, ["l-1", "c-1", "c-1"], "of whom an event is, or whom it concerns");
    assert!(finding_codes(&store(&s.0)).contains(&"field.ignored".into()));
}

#[test]
fn numbers_of_python_that_are_none_are_null_in_members() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let stated = r#"{"logprobs":[-0.5,-Infinity,NaN,1],"NaN":"-Infinity \"NaN\" \\","high":Infinity}"#;
    let extras = s.0.extra(Text::default(), "x_stream", stated);
    let extras = s.0.extra(extras, "x_word", r#""NaN""#);
    let r = s.0.response(agent, Response { id: Text::default(), extras, ..Response::default() });
    s.says(r);
    let event = &native(&s.0)["events"][0];
    let expected = r#"{"NaN":"-Infinity \"NaN\" \\","high":null,"logprobs":[-0.5,null,null,1]}"#;
    assert_eq!(event["x_stream"], serde_json::from_str::<Json>(expected).unwrap());
    assert_eq!(event["x_word"], "NaN");
    assert_eq!(finding_codes(&store(&s.0)), ["value.impossible"]);
}

#[test]
fn what_nothing_can_have_is_left_out_and_told() {
    let mut s = Sketch::new();
    let agent = s.agent("solo", None);
    let usage = Usage { tokens_in: Some(-5), tokens_out: Some(2), cost_usd: Some(-1.0), ..Usage::default() };
    let response = Response { id: s.0.text("r1"), usage, duration_s: Some(-0.5), ..Response::default() };
    let response = Response { score: Some(f64::NAN), ..response };
    let r = s.0.response(agent, response);
    s.says(r);
    s.0.measure(MeasureKind::Cost, "wall_clock_s", -1.0);
    s.0.measure(MeasureKind::Metric, "loss", f64::INFINITY);
    s.0.measure(MeasureKind::Metric, "change", -1.0);
    let (annotator, label) = (s.0.text("me"), s.0.text("odd"));
    s.0.label(Label { annotator, label, weight: Some(f64::NAN), ..Label::default() });
    let trace = native(&s.0);
    let event = &trace["events"][0];
    for field in ["tokens_in", "cost_usd", "duration_s", "score"] {
        assert!(event[field].is_null(), "{field} is {}", event[field]);
    }
    assert_eq!((&event["tokens_out"], &trace["costs"]["tokens"]), (&Json::from(2), &Json::from(2)));
    assert_eq!(trace["metrics"], serde_json::json!({"change": -1}));
    let codes = finding_codes(&store(&s.0));
    assert!(codes.contains(&"value.impossible".into()), "{codes:?}");
}

/// Does something to a trace that has one event.
type Change = fn(&mut TraceWriter<'_>, Event<'_>);

#[test]
fn a_trace_that_cannot_be_held_is_rejected() {
    let options = RecordOptions::default();
    let mut writer = BlockWriter::new(&options);
    let event = Event { id: "e", t: 0.0, event_type: EventType::Message, agent: "a" };
    let changes: [(Change, &str); 6] = [
        (
            |out, event| {
                out.event(Event { id: "", ..event });
            },
            "field.empty",
        ),
        (
            |out, event| {
                out.event(Event { agent: "", ..event });
            },
            "field.empty",
        ),
        (
            |out, event| {
                out.event(Event { t: -1.0, ..event });
            },
            "field.minimum",
        ),
        (
            |out, event| {
                out.event(Event { t: f64::NAN, ..event });
            },
            "field.minimum",
        ),
        (|out, _| out.edge(0, 1, EdgeType::Causal), "edge.unknown"),
        (
            |out, event| {
                out.event(event);
            },
            "id.duplicate",
        ),
    ];
    for (change, code) in changes {
        let mut out = writer.begin(&options, Position { line: 1, offset: 0, length: 0 });
        out.ids("t", "t");
        out.event(event);
        change(&mut out, event);
        assert_eq!(out.commit("test").unwrap_err().into_reject().code.as_str(), code);
        out.rollback();
    }
    let mut out = writer.begin(&options, Position { line: 1, offset: 0, length: 0 });
    out.ids("", "t");
    out.event(event);
    assert_eq!(out.commit("test").unwrap_err().into_reject().code.as_str(), "field.empty");
    out.rollback();
}
