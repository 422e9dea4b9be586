//! One trace in every container.

use super::*;

const ROOT: &str = "529566afa763bd4d";
const CALL: &str = "0ef5801af66aaae7";

/// Attributes of the agent and of its generation, as plain values.
fn attributes() -> [Json; 2] {
    [
        json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}),
        json!({
            "gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 1820,
            "gen_ai.usage.output_tokens": 13, "gen_ai.completion.0.content": "done \"it\"", "llm.cost.total": 0.25,
        }),
    ]
}

fn otlp(times_are_text: bool, base64: bool, old: bool) -> String {
    let typed = |value: &Json, text: bool| match value {
        Json::String(t) => json!({"stringValue": t}),
        Json::Number(n) if n.is_i64() => {
            if text {
                json!({"intValue": n.to_string()})
            } else {
                json!({"intValue": n})
            }
        }
        other => json!({"doubleValue": other}),
    };
    let list = |a: &Json| -> Vec<Json> {
        a.as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| json!({"key": k, "value": typed(v, times_are_text)}))
            .collect()
    };
    let time = |t: i64| if times_are_text { json!((T0 + t).to_string()) } else { json!(T0 + t) };
    let [agent, chat] = attributes();
    let (trace, root, call) = if base64 {
        ("3VR1gDGasDEs7gfx3vUNrQ==", "UpVmr6djvU0=", "DvWAGvZqquc=")
    } else {
        (TRACE, ROOT, CALL)
    };
    let spans = json!([
        {"traceId": trace, "spanId": call, "parentSpanId": root, "name": "chat", "startTimeUnixNano": time(S),
         "endTimeUnixNano": time(3 * S), "attributes": list(&chat), "status": {"code": if old { json!("STATUS_CODE_ERROR") } else { json!(2) }},
         "events": [{"name": "exception", "attributes": [{"key": "exception.type", "value": {"stringValue": "Late"}}]}]},
        {"traceId": trace, "spanId": root, "parentSpanId": if old { "0000000000000000" } else { "" }, "name": "invoke_agent clerk",
         "startTimeUnixNano": time(0), "endTimeUnixNano": time(4 * S), "attributes": list(&agent), "status": {"code": 1}},
    ]);
    let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]});
    if old {
        json!({"batches": [{"resource": resource, "instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "x"}, "spans": spans}]}]})
    } else {
        json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]})
    }
    .to_string()
}

fn jaeger() -> String {
    // Numbers arrive as strings whatever their type says.
    let tags = |a: &Json, more: &[(&str, &str)]| -> Vec<Json> {
        let own = a.as_object().unwrap().iter();
        own.map(|(k, v)| json!({"key": k, "type": if v.is_i64() { "int64" } else { "string" }, "value": v.as_str().map_or_else(|| v.to_string(), str::to_owned)}))
            .chain(more.iter().map(|(k, v)| json!({"key": k, "type": "string", "value": v})))
            .collect()
    };
    let [agent, chat] = attributes();
    json!({"data": [{"traceID": TRACE, "processes": {"p1": {"serviceName": "shop", "tags": []}}, "spans": [
        {"traceID": TRACE, "spanID": CALL, "operationName": "chat", "startTime": (T0 + S) / 1000, "duration": 2_000_000, "processID": "p1",
         "references": [{"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": "1"}, {"refType": "CHILD_OF", "traceID": TRACE, "spanID": ROOT}],
         "tags": tags(&chat, &[("otel.status_code", "ERROR"), ("error", "true")]),
         "logs": [{"timestamp": 1, "fields": [{"key": "event", "value": "exception"}, {"key": "exception.type", "value": "Late"}]}]},
        {"traceID": TRACE, "spanID": ROOT, "operationName": "invoke_agent clerk", "startTime": (T0 / 1000).to_string(), "duration": "4000000",
         "processID": "p1", "references": [], "tags": tags(&agent, &[("otel.status_code", "OK")]), "logs": []},
    ]}], "total": 0, "errors": null})
    .to_string()
}

fn nested() -> String {
    let strings = |a: &Json| -> Json {
        a.as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_owned).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let [agent, chat] = attributes();
    json!({"trace_id": TRACE, "spans": [{
        "timestamp": "2026-04-30T13:17:33Z", "trace_id": TRACE, "span_id": ROOT, "parent_span_id": null, "span_name": "invoke_agent clerk",
        "service_name": "shop", "span_attributes": strings(&agent), "duration": "PT4S", "status_code": "Ok", "events": [], "links": [], "logs": [{"body": "long"}],
        "child_spans": [{
            "timestamp": "2026-04-30T09:17:34.000000-04:00", "trace_id": TRACE, "span_id": CALL, "span_name": "chat", "service_name": "shop",
            "span_attributes": strings(&chat), "duration": "PT0M2.0S", "status_code": "Error",
            "events": [{"Timestamp": "x", "Name": "exception", "Attributes": {"exception.type": "Late"}}], "links": [], "child_spans": [],
        }],
    }]})
    .to_string()
}

fn python() -> String {
    let [agent, chat] = attributes();
    let span = |id: &str, parent: Json, from: &str, to: &str, a: &Json, status: &str, events: Json| {
        json!({"name": "chat", "context": {"trace_id": format!("0x{TRACE}"), "span_id": format!("0x{id}"), "trace_state": "[]"},
               "parent_id": parent, "start_time": from, "end_time": to, "status": {"status_code": status}, "attributes": a,
               "events": events, "links": [], "resource": {"attributes": {"service.name": "shop"}}})
        .to_string()
    };
    let failed = json!([{"name": "exception", "attributes": {"exception.type": "Late"}}]);
    [
        span(
            CALL,
            format!("0x{ROOT}").into(),
            "2026-04-30T13:17:34.000000Z",
            "2026-04-30T13:17:36.000000Z",
            &chat,
            "ERROR",
            failed,
        ),
        span(
            ROOT,
            Json::Null,
            "2026-04-30T13:17:33.000000Z",
            "2026-04-30T13:17:37.000000Z",
            &agent,
            "OK",
            json!([]),
        ),
    ]
    .join("\n")
}

fn javascript(console: bool) -> String {
    let [agent, chat] = attributes();
    let seconds = T0 / S;
    let span = |id: &str, parent: Option<&str>, from: i64, to: i64, a: &Json, code: u8, events: Json| {
        if console {
            json!({"name": "chat", "traceId": TRACE, "id": id, "parentSpanContext": parent.map(|p| json!({"spanId": p})), "timestamp": (T0 + from * S) / 1000,
                   "duration": (to - from) * 1_000_000, "attributes": a, "status": {"code": code}, "events": events, "links": [],
                   "resource": {"attributes": {"service.name": "shop"}}})
        } else {
            json!({"name": "chat", "_spanContext": {"traceId": TRACE, "spanId": id}, "parentSpanId": parent, "startTime": [seconds + from, 0],
                   "endTime": [seconds + to, 0], "attributes": a, "status": {"code": code}, "events": events, "links": [], "duration": [to - from, 0],
                   "resource": {"_attributes": {"service.name": "shop"}}})
        }
    };
    let failed = json!([{"name": "exception", "attributes": {"exception.type": "Late"}}]);
    // Arrays of spans are records too.
    json!([span(CALL, Some(ROOT), 1, 3, &chat, 2, failed), span(ROOT, None, 0, 4, &agent, 1, json!([]))])
        .to_string()
}

#[test]
fn every_container_gives_the_same_trace() {
    let reference = documents(&store(&[("x", &otlp(true, false, false))]));
    let trace = &reference[0];
    assert_eq!(
        events(trace),
        ["ef5801af66aaae7 message clerk -", "529566afa763bd4d:r return clerk user"],
        "a response that failed is no answer of its agent"
    );
    let response = event(trace, "ef5801af66aaae7");
    assert_eq!(response["t"], 3);
    assert_eq!(response["duration_s"], 2);
    assert_eq!((&response["ok"], &response["x_error_type"]), (&json!(false), &json!("Late")));
    assert_eq!((&response["tokens_in"], &response["tokens_out"]), (&json!(1820), &json!(13)));
    assert_eq!(response["cost_usd"], 0.25);
    assert_eq!(trace["trace_id"], TRACE);
    assert_eq!(trace["costs"]["wall_clock_s"], 4);
    for (name, text) in [
        ("numbers", otlp(false, false, false)),
        ("tempo", otlp(false, true, true)),
        ("jaeger", jaeger()),
        ("nested", nested()),
        ("python", python()),
        ("javascript", javascript(false)),
        ("console", javascript(true)),
    ] {
        assert_eq!(documents(&store(&[("x", &text)])), reference, "{name}");
    }
}

#[test]
fn nanoseconds_are_exact() {
    let mut span = says("1", "", 0.0, 1.0, "x");
    span["startTimeUnixNano"] = json!(1_777_555_053_812_873_701_i64);
    span["endTimeUnixNano"] = json!("1777555053812873802");
    let trace = one(&[span]);
    assert_eq!(event(&trace, "1")["duration_s"], json!(101.0 / 1e9));
    assert_eq!(event(&trace, "1")["t"], json!(101.0 / 1e9));
}

#[test]
fn requests_wrapped_alone_and_in_lines() {
    let line = request(&[says("1", "", 0.0, 1.0, "x")]);
    let inner: Json = serde_json::from_str(&line).unwrap();
    let wrapped = json!({"trace": inner}).to_string();
    let resource = inner["resourceSpans"][0].to_string();
    let bare = says("1", "", 0.0, 1.0, "x").to_string();
    let reference = documents(&store(&[("x", &line)]));
    assert_eq!(documents(&store(&[("x", &wrapped)])), reference);
    assert_eq!(documents(&store(&[("x", &resource)])), reference);
    assert_eq!(events(&documents(&store(&[("x", &bare)]))[0]), ["1 return agent user"], "nobody is named");
    assert!(documents(&store(&[("x", r#"{"resourceSpans":[]}"#)])).is_empty());
}

#[test]
fn only_its_own_files_are_taken() {
    let sniff = |text: &str| {
        let limits = ReadOptions::default().records.limits;
        let tree = Tree::parse(text, limits).unwrap();
        Otel.sniff(tree.root(), "x.json")
    };
    let annotation =
        r#"{"_trace_id":"a","errors":[{"category":"c","location":"l"}],"scores":[{"reliability_score":1}]}"#;
    let effect = r#"{"trace_id":"a","error_id":"a|b|c|0","effect_label":"disappeared"}"#;
    for own in [
        otlp(true, false, false),
        otlp(false, true, true),
        jaeger(),
        nested(),
        python().lines().next().unwrap().into(),
        annotation.into(),
        effect.into(),
    ] {
        assert_eq!(sniff(&own), Confidence::Yes, "{own}");
    }
    for other in [
        r#"{"trace_id":"a","task_id":"b","events":[],"edges":[],"rewards":{},"costs":{}}"#,
        r#"{"trace":{"observations":[],"id":"a"},"scores":[]}"#,
        r#"{"object":"trace.span","id":"span_1","trace_id":"t","started_at":"","ended_at":"","span_data":{"type":"agent"}}"#,
        r#"{"id":"a","run_type":"chain","dotted_order":"x","trace_id":"t","name":"n","start_time":"2026-01-01T00:00:00"}"#,
        r#"{"type":"user","sessionId":"s","uuid":"u","timestamp":"t"}"#,
        r#"{"trajectory_id":1,"failures":[],"root_cause":{},"errors":[]}"#,
        r#"{"eval":{},"plan":{},"samples":[],"name":"x"}"#,
        r#"{"data":[{"id":1}],"errors":null}"#,
        r#"{"spans":[{"name":"x"}]}"#,
        r#"{"errors":[],"scores":[],"trace_id":"a"}"#,
        "[1]",
        "1",
        "{}",
    ] {
        assert_eq!(sniff(other), Confidence::No, "{other}");
    }
    assert!(IMPORTERS.iter().any(|format| matches!(format, Format::Spread(i) if i.info().name == "otel")));
}

#[test]
fn structured_values_are_the_json_they_stand_for() {
    let mut generation = chat("1", "", 0.0, 1.0, &json!([]));
    let part = json!({"kvlistValue": {"values": [
        {"key": "type", "value": {"stringValue": "text"}}, {"key": "content", "value": {"stringValue": "hé"}},
    ]}});
    let call = json!({"kvlistValue": {"values": [
        {"key": "type", "value": {"stringValue": "tool_call"}}, {"key": "id", "value": {"stringValue": "c1"}},
        {"key": "name", "value": {"stringValue": "look"}},
        {"key": "arguments", "value": {"kvlistValue": {"values": [
            {"key": "b", "value": {"boolValue": true}}, {"key": "a", "value": {"intValue": "7"}}, {"key": "n", "value": {}},
        ]}}},
    ]}});
    let message = json!({"kvlistValue": {"values": [
        {"key": "role", "value": {"stringValue": "assistant"}},
        {"key": "parts", "value": {"arrayValue": {"values": [part, call]}}},
    ]}});
    for attribute in generation["attributes"].as_array_mut().unwrap() {
        if attribute["key"] == "gen_ai.output.messages" {
            attribute["value"] = json!({"arrayValue": {"values": [message.clone()]}});
        }
    }
    let plain = json!([{"role": "assistant", "parts": [
        {"type": "text", "content": "hé"},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": 7, "b": true, "n": null}},
    ]}]);
    assert_eq!(one(&[generation]), one(&[chat("1", "", 0.0, 1.0, &plain)]));
}
