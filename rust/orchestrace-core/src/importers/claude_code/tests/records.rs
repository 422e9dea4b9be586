//! Records that are odd, broken, repeated, or on branches.

use super::agents::{read_team, team};
use super::*;

#[test]
fn nothing_gives_nothing() {
    for nothing in ["", "\n\n  \n"] {
        let store = read_texts(&ClaudeCode, &[(MAIN, nothing)]);
        assert_eq!((store.n_traces(), store.records_quarantined()), (0, 0));
    }
}

#[test]
fn a_line_that_is_cut_leaves_the_rest() {
    let all_lines = text(&short());
    let cut = &all_lines[..all_lines.len() - 40];
    let store = read_texts(&ClaudeCode, &[(MAIN, cut)]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 3);
    assert!(is_partial(trace));
    fated(&store, &[("quarantined", 1), ("used", 3)]);
    let start = all_lines.trim_end().rfind('\n').unwrap() as u64 + 1;
    assert_eq!(rejects(&store), [("input.truncated".to_owned(), 4, start)]);
}

#[test]
fn broken_lines_are_put_aside_and_the_rest_is_read() {
    let mut lines: Vec<String> = short().iter().map(Json::to_string).collect();
    lines.insert(1, "{\"type\":\"user\",\"sessionId\":".into());
    lines.insert(2, "[1]".into());
    lines.insert(3, "\"text\"".into());
    lines.insert(4, "{\"silly\":1}".into());
    lines.insert(5, json!({"type": "user", "sessionId": SESSION, "message": "error"}).to_string());
    lines.insert(6, json!({"type": "user", "message": {"content": "x"}}).to_string());
    // The name of the file tells the session of a line that breaks before it does.
    let store = read_texts(&ClaudeCode, &[(MAIN, &lines.join("\n"))]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 5, "the last of them has its session from its file");
    assert!(is_partial(trace));
    fated(&store, &[("quarantined", 5), ("used", 5)]);
    let codes: Vec<String> = rejects(&store).into_iter().map(|(code, ..)| code).collect();
    assert_eq!(
        codes,
        ["json.syntax", "record.not_object", "record.not_object", "field.missing", "field.type"]
    );
}

#[test]
fn no_member_of_a_line_puts_it_aside() {
    let mut lines = short();
    for line in &mut lines {
        line["aside"] = "claude_code.progress".into();
    }
    let store = store(&[(MAIN, &lines)]);
    fated(&store, &[("used", 4)]);
    assert_eq!(traces(&store), [solo(&short())]);
}

#[test]
fn records_that_come_twice() {
    let mut again = short();
    for line in &mut again {
        line["cwd"] = "elsewhere".into();
    }
    again.push(says(9, "a3", "a2", "m3", "more"));
    let store = store(&[(MAIN, &short()), ("p/resumed.jsonl", &again)]);
    fated(&store, &[("duplicate", 4), ("used", 5)]);
    assert_eq!(events(&traces(&store)[0]).len(), 5);
    // The very same lines never reach the importer twice.
    let same = self::store(&[(MAIN, &short()), ("p/copy.jsonl", &short())]);
    assert_eq!(fates(&same), [("duplicate".to_owned(), 4), ("used".to_owned(), 4)]);
    assert_eq!(traces(&same), [solo(&short())]);
}

#[test]
fn files_that_share_a_session_and_contradict_each_other() {
    let mut other = short();
    other[1] = says(2, "a1", "u1", "m1", "another answer");
    other[3]["message"]["id"] = "m9".into();
    let read =
        |first: &[Json], second: &[Json]| traces(&store(&[("p/a.jsonl", first), ("p/b.jsonl", second)]));
    assert_eq!(read(&short(), &other), read(&other, &short()));
}

#[test]
fn one_id_for_two_records() {
    let mut lines = short();
    lines.push(asks(6, "u1", "a2", "again"));
    lines.push(says(7, "a4", "u1", "m4", "fine"));
    let store = store(&[(MAIN, &lines)]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace)[4..], ["u1~2 message user main", "m4 return main user"]);
    assert!(findings(&store).contains(&("id.repeated".into(), 1)));
    // Either of the two comes again.
    lines.extend([asks(8, "u1", "a2", "again"), asks(9, "u1", "", "list"), asks(9, "u1", "a2", "again")]);
    fated(&self::store(&[(MAIN, &lines)]), &[("duplicate", 3), ("used", 6)]);
}

#[test]
fn records_without_an_id_are_told_apart_by_all_of_them() {
    let mut lines = short();
    for folder in ["here", "there"] {
        let mut line = asks(6, "", "", "again");
        line["cwd"] = folder.into();
        lines.push(line);
    }
    fated(&store(&[(MAIN, &lines)]), &[("used", 6)]);
}

#[test]
fn branches_that_were_given_up() {
    let mut attachment = line(3, "attachment", "x1", "a1", json!({"attachment": {"type": "hook_success"}}));
    attachment["timestamp"] = "2026-01-01T00:00:03.000Z".into();
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        says(2, "a1", "u1", "m1", "well"),
        attachment,
        asks(4, "u2", "x1", "left"),
        calls(5, "a2", "u2", "m2", "t1", "Bash", json!({})),
        gives(6, "u3", "a2", "t1", "ok"),
        says(7, "a3", "u3", "m3", "left it is"),
        // The prompt is edited: both hang on the same record.
        asks(10, "u4", "x1", "right"),
        calls(11, "a4", "u4", "m4", "t2", "Bash", json!({})),
        calls(12, "a5", "a4", "m4", "t3", "Bash", json!({})),
        gives(13, "u5", "a5", "t3", "ok"),
        // Side by side is no fork: this one hangs on the first of the two calls.
        gives(14, "u6", "a4", "t2", "ok"),
        says(15, "a6", "u6", "m5", "right it is"),
    ]);
    let given_up: Vec<&str> = trace["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["x_abandoned"] == true)
        .map(|e| e["id"].as_str().unwrap())
        .collect();
    assert_eq!(given_up, ["u2", "t1", "t1:r", "m3"]);
    assert_eq!(event(&trace, "m3")["type"], "message");
    assert_eq!(event(&trace, "m5")["type"], "return");
    assert_eq!(trace["costs"]["tokens"], 5 * 20 + 3 * 2 + 2 * 3, "they have cost what they cost");
    assert!(!is_partial(&trace));
}

#[test]
fn links_that_go_round() {
    let mut lines = short();
    lines[0]["parentUuid"] = "a2".into();
    let store = store(&[(MAIN, &lines)]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 4);
    assert!(!is_partial(trace));
    assert_eq!(findings(&store), [("field.ignored".to_owned(), 1), ("safety.conservative".to_owned(), 1)]);
}

#[test]
fn compaction_ends_what_flows_and_has_no_event() {
    let mut summary = asks(6, "u3", "b1", "This session is being continued");
    summary["isCompactSummary"] = true.into();
    let mut boundary = line(
        5,
        "system",
        "b1",
        "",
        json!({"subtype": "compact_boundary", "compactMetadata": {"preTokens": 9}}),
    );
    boundary["logicalParentUuid"] = "a2".into();
    let mut lines = short();
    lines.extend([boundary, summary, says(7, "a3", "u3", "m3", "on")]);
    let mut inside = by("acompact-1", says(5, "z1", "", "z", "summary"));
    inside["message"]["usage"]["output_tokens"] = 999.into();
    let store = store(&[(MAIN, &lines), (&file_of("acompact-1"), &[inside])]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 5);
    let flows: Vec<String> = edges(trace).into_iter().filter(|e| e.contains("safety_flow")).collect();
    assert_eq!(flows, ["t1:r safety_flow m2"]);
    fated(&store, &[("compaction", 1), ("used", 6), ("user.meta", 1)]);
}

#[test]
fn hooks_that_object() {
    let blocked = json!({"type": "hook_blocking_error", "hookName": "PostToolUse:Edit", "blockingError": {"blockingError": "no"}});
    let mut lines = short();
    lines.insert(3, line(4, "attachment", "h1", "u2", json!({"attachment": blocked})));
    let stopped =
        json!({"subtype": "stop_hook_summary", "preventedContinuation": true, "stopReason": "tests"});
    lines.insert(4, line(4, "system", "h2", "h1", stopped));
    let quiet = json!({"subtype": "stop_hook_summary", "preventedContinuation": false});
    lines.insert(5, line(4, "system", "h3", "h2", quiet));
    let trace = solo(&lines);
    assert_eq!(events(&trace)[3..5], ["h1 safety_event main -", "h2 safety_event main -"]);
    let event = event(&trace, "h1");
    assert_eq!((event["tool"].as_str(), event["ok"].as_bool()), (Some("Edit"), Some(false)));
    assert!(!is_partial(&trace));
}

#[test]
fn times_that_are_none_or_go_back() {
    let mut lines = short();
    lines[1]["timestamp"] = "soon".into();
    lines[2].as_object_mut().unwrap().remove("timestamp");
    let unusual = store(&[(MAIN, &lines)]);
    let times: Vec<f64> =
        traces(&unusual)[0]["events"].as_array().unwrap().iter().map(|e| e["t"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 0.0, 0.0, 5.0]);
    assert!(findings(&unusual).contains(&("field.ignored".into(), 1)));
    let mut lines = short();
    lines[2]["timestamp"] = "2026-01-01T00:00:01.000Z".into();
    let back = store(&[(MAIN, &lines)]);
    assert_eq!(events(&traces(&back)[0])[2], "t1:r tool_result Bash -", "in the order of the file");
    assert_eq!(event(&traces(&back)[0], "t1:r")["t"].as_f64(), Some(1.0));
    assert!(findings(&back).contains(&("time.reversed".into(), 1)));
    let mut lines = short();
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("timestamp");
    }
    let none = solo(&lines);
    assert_eq!(none["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert_eq!(event(&none, "m2")["t"].as_f64(), Some(3.0));
}

#[test]
fn a_clock_that_is_an_hour_behind() {
    let mut team = team();
    for line in &mut team[0].1 {
        let time = line["timestamp"].as_str().unwrap().replace("T00:", "T01:");
        line["timestamp"] = time.into();
    }
    let store = read_team(&team);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 13);
    assert!(findings(&store).iter().any(|(code, _)| code == "clock.skew"));
    has(trace, &["t2:s spawn m4:d", "m6 return t2:r"]);
}

#[test]
fn long_lines_odd_texts_and_odd_bytes() {
    let mut lines = short();
    lines[2]["message"]["content"][0]["content"] = "x\u{0}".repeat(2_500_000).into();
    assert_eq!(events(&solo(&lines)).len(), 4);
    let text = text(&short()).replace("one file", "one \\ud800 file");
    let lone = read_texts(&ClaudeCode, &[(MAIN, &text)]);
    assert_eq!(events(&traces(&lone)[0]).len(), 4);
    assert!(findings(&lone).contains(&("utf8.replaced".into(), 1)));
    let mut bytes = self::text(&short()).into_bytes();
    let at = bytes.windows(8).position(|w| w == b"one file").unwrap();
    bytes[at] = 0xFF;
    let store = read_bytes(Format::Spread(&ClaudeCode), &[(MAIN, &bytes)], &ReadOptions::default(), 1);
    assert_eq!(events(&traces(&store)[0]).len(), 4);
    assert!(findings(&store).contains(&("utf8.replaced".into(), 1)));
    // What is not of the expected type is left out.
    let unusual = json!({"message": {"role": "user", "content": ["wow", 3]}});
    let mut lines = short();
    lines.insert(1, line(1, "user", "o1", "u1", unusual));
    lines.insert(2, line(1, "user", "o2", "o1", json!({"message": {"role": "user", "contents": []}})));
    let store = self::store(&[(MAIN, &lines)]);
    fated(&store, &[("used", 4), ("user.wrapped", 2)]);
    assert!(findings(&store).contains(&("field.ignored".into(), 2)));
}

#[test]
fn only_its_own_records_are_taken() {
    let sniffs = |text: &str, path: &str| {
        let limits = Limits { depth: 64, string: 1 << 20, lenient: true };
        ClaudeCode.sniff(Tree::parse(text, limits).unwrap().root(), path)
    };
    for line in short() {
        assert_eq!(sniffs(&line.to_string(), "x.jsonl"), Confidence::Yes);
    }
    let yes = [
        (r#"{"type":"summary","summary":"s","leafUuid":"l"}"#, "x.jsonl"),
        (r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}"#, "x.jsonl"),
        (r#"{"type":"permission-mode","permissionMode":"plan","sessionId":"s"}"#, "x.jsonl"),
        (r#"{"agentType":"x","description":"y"}"#, "s/subagents/agent-1.meta.json"),
        (r#"{"type":"started","key":"k","agentId":"a"}"#, "s/subagents/workflows/w/journal.jsonl"),
    ];
    for (text, path) in yes {
        assert_eq!(sniffs(text, path), Confidence::Yes, "{text}");
    }
    let no = [
        (
            r#"{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[]}}"#,
            Confidence::Maybe,
        ),
        (r#"{"type":"session_meta","payload":{"id":"x"}}"#, Confidence::No),
        (r#"{"type":"session.start","data":{"sessionId":"s"}}"#, Confidence::No),
        (r#"{"sessionId":"s","projectHash":"h","messages":[]}"#, Confidence::No),
        (r#"{"type":"result","key":"k","agentId":"a"}"#, Confidence::No),
        (r#"{"agentType":"x"}"#, Confidence::No),
    ];
    for (text, how) in no {
        assert_eq!(sniffs(text, "x.jsonl"), how, "{text}");
    }
    let records: Vec<Vec<u8>> =
        [json!({"type": "mystery"}), short().remove(0)].iter().map(|l| l.to_string().into_bytes()).collect();
    assert_eq!(detect(records.iter().map(Vec::as_slice), "x").info().name, "claude_code");
}

#[test]
fn what_nobody_reads_may_be_of_any_length() {
    let session = |long: &str| {
        let thought = json!([{"type": "thinking", "thinking": long, "signature": long}, {"type": "text", "text": "so"}]);
        let result =
            json!({"stdout": long, "totalDurationMs": 1500, "status": "completed", "content": [long]});
        let failed = keeps(gives(5, "u3", "a3", "c2", "no"), json!(format!("Error: {long}")));
        let refused =
            "The user doesn't want to proceed with this tool use. The tool use was rejected ".to_owned();
        vec![
            asks(0, "u1", "", "go"),
            answers(1, "a1", "u1", "m1", 2, thought),
            calls(2, "a2", "a1", "m1", "c1", "Bash", json!({"command": "ls"})),
            keeps(gives(3, "u2", "a2", "c1", "x"), result),
            calls(4, "a3", "u2", "m2", "c2", "Bash", json!({"command": "rm"})),
            failed,
            calls(6, "a4", "u3", "m3", "c3", "Bash", json!({"command": "mv"})),
            keeps(gives(7, "u4", "a4", "c3", &refused), json!(format!("User rejected {long}"))),
            says(8, "a5", "u4", "m4", "done"),
        ]
    };
    let short = solo(&session("…"));
    assert_eq!(solo(&session(&"\"long\" \n".repeat(400))), short);
    assert_eq!(event(&short, "c1:r")["duration_s"], 1.5);
}
