//! One generation and one tool in every dialect.

use super::*;
use crate::importers::recording::{call_hash, hash};

fn hex(hash: [u8; 32]) -> String {
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn asked() -> String {
    let limits = ReadOptions::default().records.limits;
    hex(call_hash("look", Tree::parse(r#"{"b":[1,2],"a":"x"}"#, limits).unwrap().root()))
}

fn generations() -> Vec<(&'static str, Json)> {
    let arguments = r#"{"a": "x", "b": [1, 2]}"#;
    let current = json!([{"role": "assistant", "parts": [
        {"type": "reasoning", "content": "hidden"}, {"type": "text", "content": "I look."},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": "x", "b": [1, 2]}},
    ], "finish_reason": "tool_call"}]);
    let gemini = json!({"content": {"role": "model", "parts": [
        {"text": "I look."}, {"function_call": {"id": "c1", "name": "look", "args": {"a": "x", "b": [1, 2]}}},
    ]}});
    vec![
        (
            "current",
            json!({
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "p", "gen_ai.request.model": "alias", "gen_ai.response.model": "m",
                "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 60,
                "gen_ai.usage.cache_creation.input_tokens": 20, "gen_ai.usage.reasoning.output_tokens": 3,
                "gen_ai.input.messages": "[]", "gen_ai.output.messages": current.to_string(),
            }),
        ),
        (
            "openllmetry",
            json!({
                "llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.response.model": "m", "gen_ai.usage.prompt_tokens": 100,
                "gen_ai.usage.completion_tokens": 7, "llm.usage.total_tokens": 107, "gen_ai.usage.cache_read_input_tokens": 60,
                "gen_ai.usage.cache_creation_input_tokens": 20, "gen_ai.usage.reasoning_tokens": 3, "gen_ai.prompt.0.content": "hello",
                "gen_ai.completion.0.content": "I look.", "gen_ai.completion.0.tool_calls.0.id": "c1",
                "gen_ai.completion.0.tool_calls.0.name": "look", "gen_ai.completion.0.tool_calls.0.arguments": arguments,
                "gen_ai.completion.0.role": "assistant",
            }),
        ),
        (
            "openinference",
            json!({
                "openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": "100", "llm.token_count.completion": 7,
                "llm.token_count.total": 107, "llm.token_count.prompt_details.cache_read": 60,
                "llm.token_count.prompt_details.cache_write": 20, "llm.token_count.completion_details.reasoning": 3,
                "llm.input_messages.0.message.content": "hello", "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": "I look.",
                "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": arguments,
                "output.value": "all of it once more", "llm.tools.0.tool.json_schema": "{}",
            }),
        ),
        (
            "adk",
            json!({
                "gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 100,
                "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read_input_tokens": 60,
                "gen_ai.usage.cache_creation_input_tokens": 20, "gen_ai.usage.reasoning_tokens": 3,
                "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": gemini.to_string(),
            }),
        ),
        (
            "both",
            json!({
                // What the first column says counts, whatever the others say.
                "openinference.span.kind": "CHAIN", "gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "llm.model_name": "n",
                "gen_ai.usage.input_tokens": 100, "llm.token_count.prompt": 1, "gen_ai.usage.output_tokens": 7,
                "llm.token_count.completion": 2, "gen_ai.usage.cache_read.input_tokens": 60,
                "gen_ai.usage.cache_creation.input_tokens": 20, "gen_ai.usage.reasoning.output_tokens": 3,
                "gen_ai.output.messages": current.to_string(), "gen_ai.completion.0.content": "other",
            }),
        ),
    ]
}

#[test]
fn one_generation_in_every_dialect() {
    for (dialect, attributes) in generations() {
        let store = store(&[(
            "x",
            &request(&[agent("a", "", "clerk", 0.0, 9.0), span("1", "a", "x", 1.0, 2.0, &attributes)]),
        )]);
        let trace = &documents(&store)[0];
        assert_eq!(
            events(trace),
            ["c1 tool_call clerk -", "1 message clerk -", "a:r return clerk user"],
            "{dialect}"
        );
        let (call, text) = (event(trace, "c1"), event(trace, "1"));
        for (key, value) in [
            ("tokens_in", json!(100)),
            ("tokens_out", json!(7)),
            ("tokens_cached", json!(60)),
            ("tokens_cache_write", json!(20)),
            ("tokens_reasoning", json!(3)),
            ("model", json!("m")),
            ("tool", json!("look")),
            ("content_ref", json!(asked())),
            ("x_partial", json!(true)),
            ("turn", json!(0)),
        ] {
            assert_eq!(call[key], value, "{dialect} {key}");
        }
        assert_eq!(text["content_ref"], hex(hash("I look.")), "{dialect}");
        assert_eq!(trace["costs"]["tokens"], 107, "{dialect}");
        assert!(findings(&store).is_empty(), "{dialect}: {:?}", findings(&store));
    }
}

#[test]
fn answers_in_events_of_a_span() {
    let mut generation = span("1", "", "chat", 0.0, 1.0, &json!({"gen_ai.operation.name": "chat"}));
    let message = json!({"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":\"x\",\"b\":[1,2]}"}}]});
    generation["events"] = json!([
        {"name": "gen_ai.user.message", "attributes": [{"key": "content", "value": {"stringValue": "hello"}}]},
        {"name": "gen_ai.choice", "attributes": [{"key": "index", "value": {"intValue": 0}}, {"key": "message", "value": {"stringValue": message.to_string()}}]},
    ]);
    let trace = one(&[generation]);
    assert_eq!(
        (&event(&trace, "c1")["content_ref"], &event(&trace, "1")["content_ref"]),
        (&json!(asked()), &json!(hex(hash("I look."))))
    );
    assert_eq!(trace["events"][0]["x_trace"]["unknown_costs"], json!(["tokens"]), "no usage is no zero");
}

#[test]
fn tools_in_every_dialect() {
    for (dialect, attributes, name) in [
        (
            "current",
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.arguments": "{\"a\":\"x\",\"b\":[1,2]}", "gen_ai.tool.call.result": "found"}),
            "x",
        ),
        (
            "openllmetry",
            json!({"traceloop.span.kind": "tool", "traceloop.entity.name": "look", "traceloop.entity.input": "{\"a\":\"x\",\"b\":[1,2]}", "traceloop.entity.output": "found"}),
            "look.tool",
        ),
        (
            "openinference",
            json!({"openinference.span.kind": "TOOL", "tool.name": "look", "tool.parameters": "{\"a\":{}}", "input.value": "{\"a\":\"x\",\"b\":[1,2]}", "output.value": "found"}),
            "LookTool",
        ),
        (
            "adk",
            json!({"gcp.vertex.agent.tool_call_args": "{\"a\":\"x\",\"b\":[1,2]}", "gcp.vertex.agent.tool_response": "found"}),
            "execute_tool look",
        ),
    ] {
        let trace = one(&[agent("a", "", "clerk", 0.0, 9.0), span("2", "a", name, 1.0, 3.5, &attributes)]);
        assert_eq!(
            events(&trace),
            ["2 tool_call clerk -", "2:r tool_result look -", "a:r return clerk user"],
            "{dialect}"
        );
        let (call, result) = (event(&trace, "2"), event(&trace, "2:r"));
        assert_eq!((&call["content_ref"], &call["t"]), (&json!(asked()), &json!(1)), "{dialect}");
        assert_eq!(
            (&result["content_ref"], &result["duration_s"]),
            (&json!(hex(hash("found"))), &json!(2.5)),
            "{dialect}"
        );
        assert_eq!(result["trusted"], false);
    }
}

#[test]
fn agents_are_named_by_the_first_that_names_them() {
    let managed = r#"{"task": "You're a helpful agent named 'finder'.\nYou have been submitted this task"}"#;
    for (name, attributes, expected) in [
        (
            "x",
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "agent.name": "b"}),
            "a",
        ),
        ("x", json!({"openinference.span.kind": "AGENT", "agent.name": "b", "graph.node.id": "c"}), "b"),
        ("x", json!({"openinference.span.kind": "agent", "graph.node.id": "c"}), "c"),
        ("x.agent", json!({"traceloop.span.kind": "agent", "traceloop.entity.name": "d"}), "d"),
        ("invoke_agent e", json!({}), "e"),
        ("agent_run [f]", json!({}), "f"),
        ("CodeAgent.run", json!({"openinference.span.kind": "AGENT"}), "CodeAgent"),
        (
            "ToolCallingAgent.run",
            json!({"openinference.span.kind": "AGENT", "smolagents.max_steps": 3, "input.value": managed}),
            "finder",
        ),
        // Only the framework that writes it is believed.
        ("g", json!({"openinference.span.kind": "AGENT", "input.value": managed}), "g"),
    ] {
        let trace = one(&[span("1", "", name, 0.0, 1.0, &attributes)]);
        assert_eq!(events(&trace), [format!("1:r return {expected} user")], "{name} {attributes}");
    }
}

/// Tokens read and written, and findings: the total decides where the cache and the reasoning lie.
#[test]
fn the_total_says_what_lies_within_input_and_output() {
    type Row<'a> = (&'a [(&'a str, i64)], (i64, i64), bool);
    let table: [Row<'_>; 5] = [
        (
            &[("input_tokens", 100), ("output_tokens", 20), ("reasoning_tokens", 7), ("total_tokens", 120)],
            (100, 20),
            false,
        ),
        (
            &[
                ("input_tokens", 5),
                ("output_tokens", 20),
                ("cache_read_input_tokens", 90),
                ("total_tokens", 115),
            ],
            (95, 20),
            false,
        ),
        (
            &[
                ("input_tokens", 100),
                ("output_tokens", 20),
                ("cache_read_input_tokens", 60),
                ("total_tokens", 180),
            ],
            (160, 20),
            false,
        ),
        (
            &[("input_tokens", 100), ("output_tokens", 20), ("reasoning_tokens", 30), ("total_tokens", 150)],
            (100, 50),
            false,
        ),
        // The total leaves the cache out, which is more than input.
        (
            &[
                ("input_tokens", 5),
                ("output_tokens", 20),
                ("cache_read_input_tokens", 90),
                ("total_tokens", 25),
            ],
            (95, 20),
            true,
        ),
    ];
    for (counts, (read, written), differs) in table {
        let mut attributes = json!({"gen_ai.operation.name": "chat"});
        for (name, count) in counts {
            attributes[format!("gen_ai.usage.{name}")] = json!(count);
        }
        let store = store(&[("x", &request(&[span("1", "", "x", 0.0, 1.0, &attributes)]))]);
        let trace = documents(&store).remove(0);
        let event = event(&trace, "1");
        assert_eq!(
            (&event["tokens_in"], &event["tokens_out"]),
            (&json!(read), &json!(written)),
            "{counts:?}"
        );
        assert_eq!(findings(&store).contains(&"usage.conflict".to_owned()), differs, "{counts:?}");
    }
}

#[test]
fn totals_and_odd_numbers() {
    let usage = |a: Json| {
        let store = store(&[("x", &request(&[span("1", "", "x", 0.0, 1.0, &a)]))]);
        let trace = documents(&store).remove(0);
        (event(&trace, "1").clone(), trace["costs"]["tokens"].clone(), findings(&store))
    };
    let (event, tokens, found) = usage(json!({"openinference.span.kind": "LLM", "llm.token_count.total": 9}));
    assert_eq!(
        (&event["tokens"], event["tokens_in"].is_null(), tokens, found.len()),
        (&json!(9), true, json!(9), 0)
    );
    let (event, tokens, found) = usage(json!({
        "openinference.span.kind": "LLM", "llm.token_count.total": 9, "llm.token_count.prompt": 5, "llm.token_count.completion": 5,
    }));
    assert_eq!(
        (&event["x_reported_tokens"], tokens, found),
        (&json!(9), json!(10), vec!["usage.conflict".to_owned()])
    );
    // Who leaves the cache out of the input, as Anthropic's API does, reports less input than cache.
    let (event, tokens, _) = usage(json!({
        "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 4, "gen_ai.usage.output_tokens": 1,
        "gen_ai.usage.cache_read_input_tokens": 90, "gen_ai.usage.cache_creation_input_tokens": 6,
    }));
    assert_eq!((&event["tokens_in"], tokens), (&json!(100), json!(101)));
    let (event, _, found) = usage(
        json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": -1}),
    );
    assert!(event["tokens_in"].is_null() && event["tokens_out"].is_null());
    assert_eq!(
        (&event["x_gen_ai.usage.input_tokens"], &event["x_gen_ai.usage.output_tokens"]),
        (&json!("many"), &json!("-1"))
    );
    assert_eq!(found, ["field.ignored"]);
    let (event, ..) =
        usage(json!({"openinference.span.kind": "LLM", "llm.cost.prompt": 0.5, "llm.cost.completion": 0.25}));
    assert_eq!(event["cost_usd"], 0.75);
    let (event, ..) = usage(json!({"gen_ai.operation.name": "chat", "operation.cost": 0.5}));
    assert_eq!(event["cost_usd"], 0.5, "Pydantic AI");
}
