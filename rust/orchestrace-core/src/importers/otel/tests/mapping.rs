//! Who did what, asked whom, and answered to whom.

use super::*;

fn ends_ok(mut span: Json, code: u8) -> Json {
    span["status"] = json!({"code": code});
    span
}

fn failed(mut span: Json, error: &str) -> Json {
    span["events"] = json!([{"name": "exception", "attributes": [{"key": "exception.type", "value": {"stringValue": error}}]}]);
    ends_ok(span, 2)
}

fn chain(id: &str, parent: &str, name: &str, from: f64, to: f64) -> Json {
    span(id, parent, name, from, to, &json!({"openinference.span.kind": "CHAIN"}))
}

#[test]
fn a_call_recorded_three_times_is_one() {
    let usage = json!({"gen_ai.system": "v", "gen_ai.request.model": "alias", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 1});
    let mut middle = usage.clone();
    middle["gen_ai.operation.name"] = "generate_content".into();
    // The outermost span goes on while the tool runs that the innermost one asked for.
    let spans = [
        agent("a", "", "clerk", 0.0, 9.0),
        span("1", "a", "call_llm", 0.0, 6.0, &usage),
        span("2", "1", "generate_content m", 0.5, 5.5, &middle),
        asks("3", "2", 1.0, 3.0, &[("c1", "look")]),
        tool("4", "2", "look", 4.0, 5.0, "c1"),
        span("5", "a", "call_llm", 6.0, 8.0, &usage),
        says("6", "5", 6.0, 7.5, "done"),
    ];
    let store = store(&[("x", &request(&spans))]);
    let trace = &documents(&store)[0];
    assert_eq!(events(trace), ["c1 tool_call clerk -", "4:r tool_result look -", "6 return clerk user"]);
    has_edges(trace, &["c1 return 4:r", "4:r causal 6", "4:r safety_flow 6", "c1 temporal 6"]);
    assert_eq!((&trace["costs"]["tokens"], &event(trace, "c1")["duration_s"]), (&json!(22), &json!(2)));
    assert_eq!(told(&store), pairs(&[("used", 7)]));
    assert_eq!(findings(&store), ["safety.conservative", "usage.repeated"]);
}

#[test]
fn what_only_an_outer_record_tells_is_kept() {
    let outer = json!({"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": 5, "llm.token_count.completion": 2, "llm.cost.total": 0.5});
    let inner = json!({"llm.request.type": "chat", "gen_ai.completion.0.content": "done"});
    let trace = one(&[span("1", "", "x", 0.0, 3.0, &outer), span("2", "1", "y", 1.0, 2.0, &inner)]);
    let response = event(&trace, "2");
    assert_eq!(
        (&response["tokens_in"], &response["tokens_out"], &response["cost_usd"]),
        (&json!(5), &json!(2), &json!(0.5))
    );
    assert_eq!(
        (&response["model"], &response["duration_s"], response["content_ref"].is_string()),
        (&json!("m"), &json!(1), true)
    );
}

#[test]
fn two_calls_within_one_are_two() {
    let outer = json!({"openinference.span.kind": "LLM", "llm.token_count.prompt": 20, "llm.token_count.completion": 2});
    let trace = one(&[
        span("1", "", "x", 0.0, 9.0, &outer),
        says("2", "1", 1.0, 2.0, "no"),
        says("3", "1", 3.0, 4.0, "yes"),
    ]);
    assert_eq!(events(&trace), ["2 message shop -", "3 return shop user"]);
    assert_eq!(trace["costs"]["tokens"], 22);
}

#[test]
fn agents_below_agents_are_spawned_and_return() {
    let mut lead = agent("a", "", "lead", 0.0, 20.0);
    lead["attributes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "llm.token_count.total", "value": {"intValue": 99}}));
    let spans = [
        lead,
        asks("1", "a", 0.0, 1.0, &[("c1", "ask_worker"), ("c2", "worker")]),
        // One agent is a tool, the other one is called by its name.
        tool("2", "a", "ask_worker", 1.0, 9.0, "c1"),
        agent("b", "2", "worker", 1.5, 8.0),
        says("3", "b", 2.0, 7.0, "first"),
        agent("c", "a", "worker", 1.2, 10.0),
        asks("4", "c", 2.0, 3.0, &[("c3", "helper")]),
        agent("d", "c", "helper", 3.0, 6.0),
        says("5", "d", 3.0, 5.0, "deep"),
        says("6", "c", 7.0, 9.5, "second"),
        says("7", "a", 10.0, 12.0, "all"),
    ];
    let store = store(&[("x", &request(&spans))]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events(trace),
        [
            "1:d orchestrator_decision lead -",
            "c1:s spawn lead worker",
            "c2:s spawn lead worker#2",
            "4:d orchestrator_decision worker#2 -",
            "c3:s spawn worker#2 helper",
            "5 return helper worker#2",
            "3 return worker lead",
            "6 aggregate worker#2 user",
            "c:r return worker#2 lead",
            "7 aggregate lead user",
        ]
        .map(str::to_owned)
        .into_iter()
        .filter(|e| !e.starts_with("c:r"))
        .map(|e| if e.starts_with("6 ") { "6 return worker#2 lead".to_owned() } else { e })
        .collect::<Vec<_>>()
    );
    has_edges(
        trace,
        &[
            "1:d spawn c1:s",
            "c1:s spawn 3",
            "c2:s spawn 4:d",
            "4:d spawn c3:s",
            "c3:s spawn 5",
            "5 return 6",
            "3 return 7",
            "6 return 7",
            "3 aggregate 7",
            "6 aggregate 7",
        ],
    );
    assert_eq!(trace["topology"], "hierarchical");
    assert_eq!(
        (&event(trace, "c1:s")["role"], &event(trace, "7")["role"]),
        (&json!("executor"), &json!("lead"))
    );
    assert_eq!(event(trace, "7")["x_reported_tokens"], 99);
    assert_eq!(trace["costs"]["tokens"], 66, "the total of an agent with responses does not count");
    assert_eq!(findings(&store), ["usage.conflict"]);
    assert_eq!(told(&store), pairs(&[("used", 11)]));
}

#[test]
fn an_agent_that_does_not_end_with_a_text_returns_at_its_end() {
    let mut lead = agent("a", "", "lead", 0.0, 9.0);
    lead["attributes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "output.value", "value": {"stringValue": "42"}}));
    let spans = [
        lead,
        says("1", "a", 0.0, 1.0, "I write code."),
        // No call of the answer says so: code that the model wrote uses tools and agents.
        tool("2", "a", "search", 2.0, 3.0, ""),
        failed(agent("b", "a", "worker", 4.0, 6.0), "Timeout"),
        tool("3", "a", "final_answer", 7.0, 8.0, ""),
    ];
    let trace = one(&spans);
    assert_eq!(
        events(&trace),
        [
            "1:d orchestrator_decision lead -",
            "1 message lead -",
            "2 tool_call lead -",
            "2:r tool_result search -",
            "b:s spawn lead worker",
            "b:r return worker lead",
            "3 tool_call lead -",
            "3:r tool_result final_answer -",
            "a:r aggregate lead user",
        ]
    );
    has_edges(
        &trace,
        &["1:d tool_dependency 2", "1:d spawn b:s", "b:s spawn b:r", "b:r return 3", "b:r aggregate a:r"],
    );
    assert_eq!(
        (&event(&trace, "b:r")["ok"], &event(&trace, "b:r")["x_error_type"]),
        (&json!(false), &json!("Timeout"))
    );
    assert_eq!(event(&trace, "2")["turn"], 0);
    assert!(!partial(&trace));
}

#[test]
fn several_records_of_one_agent() {
    let named = |id: &str, parent: &str, from: f64, to: f64| {
        span(
            id,
            parent,
            "invoke_agent",
            from,
            to,
            &json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "w", "gen_ai.agent.id": "w-1"}),
        )
    };
    let spans = [
        agent("a", "", "lead", 0.0, 20.0),
        // Recorded by two instrumentations, one inside the other.
        agent("b", "a", "lead", 0.1, 19.0),
        // Visited twice.
        named("c", "b", 1.0, 4.0),
        says("1", "c", 1.0, 3.0, "draft"),
        named("d", "b", 5.0, 8.0),
        says("2", "d", 5.0, 7.0, "final"),
        says("3", "b", 9.0, 10.0, "done"),
    ];
    let trace = one(&spans);
    assert_eq!(
        events(&trace),
        [
            "c:s spawn lead w",
            "1 message w lead",
            "d:s spawn lead w",
            "2 return w lead",
            "3 aggregate lead user",
        ]
    );
    has_edges(&trace, &["c:s spawn 1", "d:s spawn 2", "1 message d:s", "2 return 3", "2 aggregate 3"]);
    assert_eq!(event(&trace, "1")["x_agent_id"], "w-1");
}

#[test]
fn handovers_lead_to_a_sibling() {
    let spans = [
        agent("a", "", "desk", 0.0, 9.0),
        asks("1", "a", 0.0, 1.0, &[("c1", "transfer_to_clerk")]),
        tool("2", "a", "transfer_to_clerk", 1.0, 2.0, "c1"),
        // Who takes over is recorded below who hands over.
        agent("b", "2", "clerk", 2.0, 8.0),
        says("3", "b", 3.0, 4.0, "done"),
    ];
    let trace = one(&spans);
    assert_eq!(
        events(&trace),
        ["1:d orchestrator_decision desk -", "c1 message desk clerk", "3 return clerk user"]
    );
    has_edges(&trace, &["c1 message 3", "1:d temporal c1"]);
    let by_argument = json!([{"parts": [{"type": "tool_call", "id": "c1", "name": "transfer_to_agent", "arguments": {"agent_name": "clerk"}}]}]);
    let trace = one(&[
        agent("a", "", "desk", 0.0, 9.0),
        chat("1", "a", 0.0, 1.0, &by_argument),
        agent("b", "a", "clerk", 2.0, 8.0),
    ]);
    assert_eq!(events(&trace)[1..], ["c1 message desk clerk", "b:r return clerk user"]);
    let trace =
        one(&[agent("a", "", "desk", 0.0, 9.0), asks("1", "a", 0.0, 1.0, &[("c1", "transfer_to_nobody")])]);
    assert_eq!(
        events(&trace),
        ["c1 tool_call desk -", "a:r return desk user"],
        "nobody of that name is there"
    );
}

#[test]
fn parallel_calls_and_their_results_in_any_order() {
    let spans = [
        agent("a", "", "clerk", 0.0, 20.0),
        asks("1", "a", 0.0, 1.0, &[("c1", "x"), ("c2", "x"), ("c3", "y"), ("c4", "z")]),
        tool("2", "a", "x", 1.2, 5.0, "c2"),
        tool("3", "a", "x", 1.1, 6.0, "c1"),
        // Without an id: by name and order.
        tool("4", "a", "y", 1.0, 4.0, ""),
        tool("5", "a", "x", 7.0, 8.0, "c9"),
        says("6", "a", 9.0, 10.0, "done"),
    ];
    let trace = one(&spans);
    assert_eq!(
        events(&trace),
        [
            "c1 tool_call clerk -",
            "c2 tool_call clerk -",
            "c3 tool_call clerk -",
            "c4 tool_call clerk -",
            "4:r tool_result y -",
            "2:r tool_result x -",
            "3:r tool_result x -",
            "5 tool_call clerk -",
            "5:r tool_result x -",
            "6 return clerk user",
        ]
    );
    has_edges(
        &trace,
        &["c2 return 2:r", "c1 return 3:r", "c3 return 4:r", "5 return 5:r", "2:r causal 6", "5:r causal 6"],
    );
    assert_eq!(event(&trace, "c4")["x_partial"], true, "a call without a result");
    assert!(event(&trace, "c1")["x_partial"].is_null());
    assert_eq!(trace["costs"]["tool_calls"], 5);
}

#[test]
fn a_tool_tried_again_is_two_calls() {
    let spans = [
        agent("a", "", "clerk", 0.0, 20.0),
        asks("1", "a", 0.0, 1.0, &[("call_0", "x")]),
        failed(tool("2", "a", "x", 1.0, 2.0, "call_0"), "Refused"),
        // This server counts its calls from 0 in every answer.
        asks("3", "a", 3.0, 4.0, &[("call_0", "x")]),
        ends_ok(tool("4", "a", "x", 4.0, 5.0, "call_0"), 1),
        says("5", "a", 6.0, 7.0, "done"),
    ];
    let trace = one(&spans);
    assert_eq!(
        events(&trace),
        [
            "call_0 tool_call clerk -",
            "2:r tool_result x -",
            "3:c0 tool_call clerk -",
            "4:r tool_result x -",
            "5 return clerk user",
        ]
    );
    has_edges(&trace, &["call_0 return 2:r", "3:c0 return 4:r", "2:r causal 3:c0"]);
    let result = |id| (event(&trace, id)["ok"].clone(), event(&trace, id)["x_error_type"].clone());
    assert_eq!((result("2:r"), result("4:r")), ((json!(false), json!("Refused")), (json!(true), Json::Null)));
}

#[test]
fn lookups_and_servers() {
    let spans = [
        agent("a", "", "clerk", 0.0, 20.0),
        says("1", "a", 0.0, 1.0, "a better question"),
        span(
            "2",
            "a",
            "retriever",
            2.0,
            3.0,
            &json!({"openinference.span.kind": "RETRIEVER", "input.value": "q", "output.value": "docs"}),
        ),
        tool("3", "a", "look", 4.0, 6.0, ""),
        span(
            "4",
            "3",
            "tools/call look",
            4.5,
            5.5,
            &json!({"mcp.method.name": "tools/call", "gen_ai.tool.name": "look"}),
        ),
        span("5", "4", "POST", 4.6, 5.4, &json!({"http.request.method": "POST"})),
        span(
            "6",
            "a",
            "tools/call other",
            7.0,
            8.0,
            &json!({"mcp.method.name": "tools/call", "mcp.tool.name": "other"}),
        ),
        span("7", "a", "SELECT", 8.0, 8.1, &json!({"db.system": "x"})),
        span("8", "7", "publish", 8.0, 8.1, &json!({"messaging.system": "x"})),
        span(
            "9",
            "8",
            "embed",
            8.0,
            8.1,
            &json!({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 5}),
        ),
        // Noise is no border: who is below it belongs to who is above.
        says("b", "9", 9.0, 10.0, "done"),
    ];
    let store = store(&[("x", &request(&spans))]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events(trace),
        [
            "1 message clerk -",
            "2 tool_call clerk -",
            "2:r tool_result retriever -",
            "3 tool_call clerk -",
            "3:r tool_result look -",
            "6 tool_call clerk -",
            "6:r tool_result other -",
            "b return clerk user",
        ]
    );
    assert_eq!(event(trace, "2")["turn"], Json::Null, "no answer asked for a lookup of the program");
    assert_eq!(event(trace, "2:r")["trusted"], false);
    let noise = [("otel.db", 1), ("otel.http", 1), ("otel.messaging", 1), ("otel.other", 2), ("used", 6)];
    assert_eq!(told(&store), pairs(&noise));
}

#[test]
fn guardrails_scores_links_and_agents_that_are_made() {
    let score = |name: &str, value: f64| {
        json!({"name": "gen_ai.evaluation.result", "attributes": [
            {"key": "gen_ai.evaluation.name", "value": {"stringValue": name}}, {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": value}}]})
    };
    let mut scored = says("1", "a", 0.0, 1.0, "done");
    scored["events"] = json!([score("relevance", 0.75), score("length", 12.0)]);
    let mut linked = agent("b", "", "second", 5.0, 9.0);
    linked["links"] = json!([{"traceId": TRACE, "spanId": "0000000000000001"}, {"traceId": TRACE, "spanId": "00000000000000ff"}]);
    let made = |id: &str, name: &str| {
        span(
            id,
            "a",
            "create_agent",
            0.0,
            0.1,
            &json!({"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": name}),
        )
    };
    let spans = [
        agent("a", "", "first", 0.0, 4.0),
        made("5", "second"),
        made("6", "idle"),
        scored,
        span(
            "2",
            "a",
            "guard",
            2.0,
            3.0,
            &json!({"openinference.span.kind": "GUARDRAIL", "guardrail.triggered": true}),
        ),
        span(
            "3",
            "",
            "judge",
            9.0,
            10.0,
            &json!({"openinference.span.kind": "EVALUATOR", "gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": 4.0}),
        ),
        span(
            "7",
            "",
            "judge",
            10.0,
            11.0,
            &json!({"openinference.span.kind": "EVALUATOR", "gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": 5.0}),
        ),
        linked,
        says("4", "b", 6.0, 7.0, "too"),
    ];
    let store = store(&[("x", &request(&spans))]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events(trace),
        [
            "a:s spawn shop first",
            "6:s spawn first idle",
            "1 message first -",
            "2 safety_event first -",
            "a:r return first shop",
            "b:s spawn shop second",
            "4 return second shop",
            "3:r aggregate shop user",
        ]
        .map(|e| if e.starts_with("3:r") {
            events(trace).last().unwrap().clone()
        } else {
            e.to_owned()
        })
    );
    assert_eq!(events(trace).last().unwrap(), "a:all:r aggregate shop user");
    assert_eq!(
        (&event(trace, "2")["x_triggered"], &event(trace, "1")["score"]),
        (&json!(true), &json!(0.75))
    );
    has_edges(trace, &["1 message b:s"]);
    assert_eq!(trace["metrics"], json!({"helpful": 4, "length": 12}));
    assert_eq!(trace["rewards"], json!({}), "a score is a reward only if somebody says so");
    assert_eq!(told(&store), pairs(&[("otel.other", 1), ("used", 8)]));
}

#[test]
fn a_step_that_failed_by_what_the_model_wrote() {
    let spans = [
        agent("a", "", "coder", 0.0, 20.0),
        failed(chain("b", "a", "Step 1", 0.0, 4.0), "AgentExecutionError"),
        says("1", "b", 0.0, 1.0, "code"),
        failed(chain("c", "a", "Step 2", 5.0, 9.0), "AgentToolError"),
        says("2", "c", 5.0, 6.0, "code"),
        failed(tool("3", "c", "x", 6.0, 7.0, ""), "TypeError"),
        says("4", "a", 10.0, 11.0, "done"),
    ];
    let store = store(&[("x", &request(&spans))]);
    let trace = &documents(&store)[0];
    let outcome = |id| (event(trace, id)["ok"].clone(), event(trace, id)["x_error_type"].clone());
    assert_eq!(outcome("1"), (json!(false), json!("AgentExecutionError")));
    assert_eq!(outcome("2").0, Json::Null, "the tool failed, not the answer");
    assert_eq!(outcome("3:r"), (json!(false), json!("TypeError")));
    assert_eq!(told(&store), pairs(&[("otel.chain", 2), ("used", 5)]));
}

#[test]
fn who_works_where_no_agent_is_recorded() {
    let spans = [
        chain("9", "", "LangGraph", 0.0, 20.0),
        chain("a", "9", "planner", 0.0, 5.0),
        chain("b", "a", "RunnableSequence", 0.0, 4.0),
        asks("1", "b", 0.0, 1.0, &[("c1", "look")]),
        chain("c", "9", "tools", 5.0, 7.0),
        tool("2", "c", "look", 5.0, 6.0, "c1"),
        chain("d", "9", "planner", 7.0, 9.0),
        says("3", "d", 7.0, 8.0, "plan"),
        chain("e", "9", "writer", 9.0, 15.0),
        says("4", "e", 10.0, 11.0, "text"),
    ];
    let store = store(&[("x", &request(&spans))]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events(trace),
        [
            "planner:s spawn shop planner",
            "c1 tool_call planner -",
            "2:r tool_result look -",
            "3 return planner shop",
            "writer:s spawn shop writer",
            "4 return writer shop",
            "9:r aggregate shop user",
        ]
    );
    has_edges(trace, &["c1 return 2:r", "2:r causal 3", "3 aggregate 9:r", "4 aggregate 9:r"]);
    assert_eq!(told(&store), pairs(&[("otel.chain", 3), ("used", 7)]));
    // One graph of one node needs nobody above.
    let trace = one(&[chain("9", "", "agent", 0.0, 3.0), says("1", "9", 0.0, 1.0, "done")]);
    assert_eq!(events(&trace), ["1 return agent user"]);
    // Services are agents where nothing else is said, and the answer of a model that says who asked.
    let mut asked = says("2", "1", 2.0, 3.0, "x");
    asked["attributes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "gen_ai.agent.name", "value": {"stringValue": "named"}}));
    let trace = one(&[
        span("1", "", "GET /", 0.0, 9.0, &json!({"http.method": "GET"})),
        asked,
        says("3", "1", 4.0, 5.0, "y"),
    ]);
    assert_eq!(events(&trace), ["named:s spawn shop named", "2 return named shop", "3 aggregate shop user"]);
}
