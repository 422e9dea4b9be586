//! Who did what: agents, spans, steps, branches.

use std::collections::HashMap;

use super::*;

/// A lead that asks two helpers of one name at once through tools, of which one asks a third.
fn team() -> Vec<Json> {
    let delegate = |span, start, end, id, child: &str, result| {
        let mut event = tool(span, start, end, id, "ask", result);
        event["agent_span_id"] = child.into();
        event
    };
    vec![
        begin("init", "", "init", "init", 0),
        at(0, json!({"event": "sample_init", "sample": {}, "state": {}})),
        end("init", 1),
        begin("solvers", "", "solvers", "solvers", 1),
        begin("S", "solvers", "agent", "lead", 1),
        model("S", 2, 3, "", &["c1:ask", "c2:ask"]),
        begin("t1", "S", "tool", "ask", 3),
        delegate("S", 3, 20, "c1", "A", "one"),
        begin("t2", "S", "tool", "ask", 3),
        delegate("S", 3, 9, "c2", "B", "two"),
        begin("A", "t1", "agent", "helper", 4),
        begin("B", "t2", "agent", "helper", 4),
        model("A", 4, 6, "", &["c3:ask"]),
        model("B", 4, 8, "two", &[]),
        begin("t3", "A", "tool", "ask", 7),
        delegate("A", 7, 12, "c3", "C", "deep"),
        begin("C", "t3", "agent", "critic", 7),
        end("B", 9),
        end("t2", 9),
        model("C", 8, 11, "deep", &[]),
        end("C", 12),
        end("t3", 12),
        model("A", 13, 19, "one", &[]),
        end("A", 20),
        end("t1", 20),
        model("S", 21, 25, "all", &[]),
        end("S", 25),
        end("solvers", 25),
        begin("scorers", "", "scorers", "scorers", 26),
        begin("g", "scorers", "scorer", "grader", 26),
        model("g", 26, 28, "C", &[]),
        at(29, json!({"event": "score", "span_id": "g", "score": {"value": "C"}})),
        end("g", 29),
        end("scorers", 29),
    ]
}

#[test]
fn agents_that_tools_ask_are_spawned_by_the_call() {
    let trace = of(team());
    assert_eq!(
        events(&trace),
        [
            "input0 message user lead",
            "e5:d orchestrator_decision lead -",
            "c1:s spawn lead helper",
            "c2:s spawn lead helper#2",
            "e12:d orchestrator_decision helper -",
            "c3:s spawn helper critic",
            "e13 return helper#2 lead",
            "c2:r tool_result ask -",
            "e19 return critic helper",
            "c3:r tool_result ask -",
            "e22 return helper lead",
            "c1:r tool_result ask -",
            "e25 aggregate lead user",
            "e30 message grader -",
        ]
    );
    let drawn = edges(&trace);
    for edge in [
        "e5:d spawn c1:s",
        "c1:s spawn e12:d",
        "c2:s spawn e13",
        "c3:s spawn e19",
        "e13 return c2:r",
        "e22 return c1:r",
        "e13 aggregate e25",
        "e22 aggregate e25",
        "e25 causal e30",
    ] {
        assert!(drawn.contains(edge), "{edge} of {drawn:?}");
    }
    assert_eq!(trace["topology"], "hierarchical");
    assert_eq!(event(&trace, "c1:s")["x_agent_id"], "A");
    assert_eq!(
        (trace["costs"]["tokens"].as_i64(), trace["costs"]["tool_calls"].as_i64()),
        (Some(72), Some(0))
    );
    assert_eq!(trace["costs"]["scorer_tokens"], 12, "what a grader uses is no cost of the team");
    assert_eq!(event(&trace, "c1:r")["trusted"], true);
    assert!(!is_partial(&trace));
}

#[test]
fn agents_are_found_by_the_tool_around_them() {
    // Logs before `agent_span_id`.
    let mut events = team();
    for event in &mut events {
        event.as_object_mut().unwrap().remove("agent_span_id");
    }
    assert_eq!(of(events), of(team()));
}

#[test]
fn an_agent_that_nobody_calls_is_spawned_where_it_begins() {
    let trace = of(vec![
        model("", 0, 1, "plan", &[]),
        begin("A", "", "agent", "worker", 2),
        model("A", 3, 4, "", &["c:f"]),
        tool("A", 4, 5, "c", "f", "r"),
        end("A", 6),
        begin("B", "", "agent", "worker", 6),
        model("B", 7, 8, "w", &[]),
        end("B", 9),
        model("", 10, 11, "done", &[]),
    ]);
    let told = events(&trace);
    for event in [
        "A:s spawn main worker",
        "B:s spawn main worker#2",
        "A:end return worker main",
        "e6 return worker#2 main",
    ] {
        assert!(told.contains(&event.to_owned()), "{event} of {told:?}");
    }
    assert_eq!(event(&trace, "A:end")["t"].as_f64(), Some(6.0));
    assert!(edges(&trace).contains("A:end aggregate e8"));
}

#[test]
fn a_tool_that_asks_a_model_is_an_agent() {
    let trace = of(vec![
        model("", 0, 1, "", &["c:search"]),
        begin("t", "", "tool", "search", 1),
        tool("", 1, 6, "c", "search", "found"),
        model("t", 2, 5, "found", &[]),
        end("t", 6),
        model("", 7, 8, "done", &[]),
    ]);
    assert_eq!(
        events(&trace),
        [
            "input0 message user main",
            "e0:d orchestrator_decision main -",
            "c:s spawn main search",
            "e3 return search main",
            "c:r tool_result search -",
            "e5 aggregate main user",
        ]
    );
}

#[test]
fn older_logs_nest_the_events_of_tools_and_subtasks() {
    let mut asks = tool("", 2, 9, "c", "handoff", "r");
    asks["agent"] = "expert".into();
    asks["events"] =
        json!([model("", 3, 4, "", &["d:f"]), tool("", 4, 5, "d", "f", "x"), model("", 6, 8, "r", &[])]);
    let fork = json!({"event": "subtask", "name": "vote", "type": "fork", "input": {"n": 1}, "result": {},
        "events": [model("", 11, 12, "yes", &[])]});
    let plain = json!({"event": "subtask", "name": "sum", "input": [], "result": {}, "events": [model("", 14, 15, "s", &[])]});
    let trace = of(vec![
        model("", 0, 1, "", &["c:handoff"]),
        asks,
        from_to(10, 13, fork),
        from_to(13, 16, plain),
        model("", 17, 18, "done", &[]),
    ]);
    let told = events(&trace);
    for event in [
        "c:s spawn main expert",
        "d tool_call expert -",
        "e4 return expert main",
        "e5:s spawn main vote",
        "e6 return vote main",
        "e8 aggregate main -",
        "e9 return main user",
    ] {
        assert!(told.contains(&event.to_owned()), "{event} of {told:?}");
    }
}

#[test]
fn steps_of_older_logs_end_the_innermost() {
    let step = |action: &str, kind: &str, name: &str, second| {
        at(second, json!({"event": "step", "action": action, "type": kind, "name": name}))
    };
    let trace = of(vec![
        step("end", "solver", "lost", 0),
        step("begin", "solver", "chain", 0),
        step("begin", "scorer", "judge", 1),
        model("", 1, 2, "x", &[]),
        step("end", "solver", "chain", 3),
        model("", 4, 5, "y", &[]),
        step("end", "scorer", "judge", 6),
    ]);
    let told = events(&trace);
    assert!(
        told.contains(&"e3 message judge -".into()) && told.contains(&"e5 return main user".into()),
        "{told:?}"
    );
}

#[test]
fn branches_are_flagged_and_answer_nothing() {
    let trace = of(vec![
        begin("S", "", "agent", "lead", 0),
        model("S", 0, 1, "first", &[]),
        begin("br", "S", "branch", "branch 1", 2),
        at(2, json!({"event": "branch", "span_id": "br", "from_span": "S", "from_anchor": "x"})),
        model("br", 3, 4, "other", &["c:f"]),
        tool("br", 4, 5, "c", "f", "r"),
        model("br", 6, 7, "last", &[]),
        end("br", 8),
        end("S", 9),
    ]);
    assert_eq!(
        events(&trace)[1..],
        [
            "e1 message lead -",
            "c tool_call lead -",
            "e4 message lead -",
            "c:r tool_result f -",
            "e6 message lead -",
            "end return lead user",
        ]
    );
    for id in ["c", "e4", "c:r", "e6"] {
        let found = event(&trace, id);
        assert_eq!(found["x_branch"], "br", "{found}");
    }
    assert!(event(&trace, "e1")["x_branch"].is_null());
    assert_eq!(trace["costs"]["tokens"], 36, "what was given up has cost its tokens");
}

#[test]
fn compaction_bounds_what_flows() {
    let flows = |compacts: bool| {
        let mut events = vec![
            model("", 0, 1, "", &["c:f"]),
            tool("", 1, 2, "c", "f", "r"),
            model("", 3, 4, "a", &[]),
            at(5, json!({"event": if compacts { "compaction" } else { "info" }})),
        ];
        events.push(model("", 6, 7, "b", &[]));
        edges(&of(events)).into_iter().filter(|e| e.contains("safety_flow")).count()
    };
    assert_eq!((flows(false), flows(true)), (2, 1));
}

#[test]
fn spans_that_are_missing_cyclic_repeated_or_open() {
    let lost = read(&log(vec![sample(&json!(1), 1, vec![model("gone", 0, 1, "x", &[])])]));
    assert_eq!(column(&lost, "findings", "code"), ["field.ignored", "trace.partial"]);
    let cyclic = read(&log(vec![sample(
        &json!(1),
        1,
        vec![
            begin("a", "b", "agent", "a", 0),
            begin("b", "a", "agent", "b", 0),
            model("b", 1, 2, "x", &[]),
            end("b", 3),
            end("a", 4),
        ],
    )]));
    assert_eq!(column(&cyclic, "findings", "code"), ["field.ignored"]);
    let told = events(&documents(&cyclic)[0]);
    assert!(told.iter().any(|e| e.contains("spawn a b") || e.contains("spawn b a")), "{told:?}");
    let once = vec![begin("a", "", "agent", "a", 0), model("a", 1, 2, "x", &[]), end("a", 3)];
    let mut twice = once.clone();
    twice.insert(1, once[0].clone());
    let again = read(&log(vec![sample(&json!(1), 1, twice)]));
    assert_eq!(column(&again, "findings", "code"), ["id.repeated"]);
    assert_eq!(column(&again, "agents", "agent"), ["user", "a"]);
    // An agent whose span never ended has given no answer.
    let open = of(vec![
        model("", 0, 1, "p", &[]),
        begin("a", "", "agent", "a", 2),
        model("a", 3, 4, "half", &[]),
        model("", 5, 6, "done", &[]),
    ]);
    assert!(is_partial(&open));
    assert!(events(&open).contains(&"e2 message a -".to_owned()), "{:?}", events(&open));
}

#[test]
fn clocks_can_be_an_hour_apart() {
    let mut events = team();
    for event in &mut events {
        if event["span_id"] == "B" {
            for key in ["timestamp", "completed"] {
                if let Some(text) = event[key].as_str() {
                    event[key] = text.replace("+02:00", "+03:00").into();
                }
            }
        }
    }
    let store = read(&log(vec![sample(&json!(1), 1, events)]));
    assert!(column(&store, "findings", "code").contains(&"clock.skew".to_owned()));
    let skewed = documents(&store).remove(0);
    assert_eq!(edges(&skewed).len(), edges(&of(team())).len(), "what led to what does not depend on clocks");
}

#[test]
fn order_of_samples_and_threads_change_nothing() {
    let samples: Vec<Json> = (0..9).map(|n| sample(&json!(n), 1, team())).collect();
    let of = |samples: Vec<Json>, threads| {
        let text = log(samples).to_string();
        let store = read_bytes(
            Format::Spread(&Inspect),
            &[("a.json", text.as_bytes())],
            &ReadOptions::default(),
            threads,
        );
        documents(&store)
    };
    let forward = of(samples.clone(), 1);
    assert_eq!(forward, of(samples.clone(), 7));
    let mut backward = of(samples.into_iter().rev().collect(), 2);
    backward.reverse();
    assert_eq!(forward, backward);
}

/// Any prefix of a list of events gives events of the whole list. What can differ, because what follows is not known:
/// whether a call is ever answered (`x_partial`) and whether a tool is an agent, the last text of a stream (a message
/// or an answer), and roles, which say whether there are children.
#[test]
fn prefixes_tell_the_same_story() {
    let all = team();
    let whole: HashMap<String, Json> =
        list(&of(all.clone())).into_iter().map(|e| (e["id"].as_str().unwrap().to_owned(), e)).collect();
    for cut in 0..all.len() {
        let bare = json!({"id": 1, "epoch": 1, "input": "question", "target": "", "messages": [],
            "events": all[..cut]});
        let store = read(&log(vec![bare]));
        assert_eq!(store.records_quarantined(), 0);
        for trace in documents(&store) {
            // Nobody returns from what has not ended.
            for event in list(&trace) {
                let id = event["id"].as_str().unwrap();
                let id = id.split_once(':').map_or(id, |(stem, _)| stem);
                let same = whole.iter().find(|(other, _)| other.split(':').next() == Some(id));
                let (_, same) =
                    same.unwrap_or_else(|| panic!("{id} of the prefix {cut} is not in the whole"));
                for field in ["t", "content_ref", "tokens_in", "model", "turn"] {
                    if event["id"] == same["id"] && !event[field].is_null() {
                        assert_eq!(event[field], same[field], "{field} of {id}, cut {cut}");
                    }
                }
            }
        }
    }
}
