//! What `codex exec --json` prints.

use super::*;

fn printed(items: &[Json], usage: (i64, i64)) -> Vec<Json> {
    let mut lines =
        vec![json!({"type": "thread.started", "thread_id": ROOT}), json!({"type": "turn.started"})];
    lines.extend_from_slice(items);
    lines.push(json!({"type": "turn.completed",
        "usage": {"input_tokens": usage.0, "cached_input_tokens": 1, "output_tokens": usage.1}}));
    lines
}

fn message(id: &str, text: &str) -> Json {
    json!({"type": "item.completed", "item": {"id": id, "type": "agent_message", "text": text}})
}

fn command(id: &str, code: i64) -> [Json; 2] {
    let item = |status: &str, code: Json| {
        json!({"id": id, "type": "command_execution", "command": "false", "aggregated_output": "x",
            "exit_code": code, "status": status})
    };
    let status = if code == 0 { "completed" } else { "failed" };
    [
        json!({"type": "item.started", "item": item("in_progress", Json::Null)}),
        json!({"type": "item.completed", "item": item(status, json!(code))}),
    ]
}

fn run(text: &str) -> Vec<Json> {
    let mut items = vec![message("item_0", "Now.")];
    items.extend(command("item_1", 42));
    items.push(message("item_2", text));
    printed(&items, (100, 10))
}

fn read(files: &[(&str, &[Json])]) -> Store {
    let texts: Vec<(&str, String)> = files.iter().map(|(path, file)| (*path, lines(file))).collect();
    let inputs: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    read_texts(&Codex, &inputs)
}

#[test]
fn a_stream_is_a_run() {
    let lines_of = run("It failed.");
    let text = lines(&lines_of);
    assert_eq!(detect(text.as_bytes().split_inclusive(|b| *b == b'\n'), "out.jsonl").info().name, "codex");
    let store = read(&[("out.jsonl", &lines_of)]);
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "A:4:c tool_call codex -",
            "A:3 message codex -",
            "A:4:c:r tool_result exec_command -",
            "A:6 return codex user",
        ]
    );
    assert_eq!(event(trace, &format!("{ROOT}:4:c:r"))["ok"], json!(false));
    assert_eq!(edges(trace, "return"), set(&["A:4:c A:4:c:r"]));
    assert_eq!(trace["costs"]["tokens"], json!(110));
    assert!(!is_partial(trace));
    assert!(
        is_partial(&traces(&read(&[("out.jsonl", &lines_of[..5])]))[0]),
        "cut before the end of the turn"
    );
}

#[test]
fn a_change_of_files_is_a_call_with_its_result() {
    let change = json!({"type": "item.completed", "item": {"id": "item_1", "type": "file_change",
        "changes": [{"path": "a", "kind": {"type": "update"}}], "status": "completed"}});
    let items = [message("item_0", "I write."), change, message("item_2", "I wrote.")];
    let trace = &traces(&read(&[("out.jsonl", &printed(&items, (100, 10)))]))[0];
    assert_eq!(
        events(trace),
        [
            "A:4:c tool_call codex -",
            "A:3 message codex -",
            "A:4:c:r tool_result apply_patch -",
            "A:5 return codex user",
        ]
    );
}

#[test]
fn runs_of_one_thread_go_on_with_its_total() {
    let first = run("One.");
    let mut second = run("Two.");
    second.last_mut().unwrap()["usage"]["input_tokens"] = json!(250);
    second.last_mut().unwrap()["usage"]["output_tokens"] = json!(30);
    for files in [
        [("a.jsonl", &first[..]), ("b.jsonl", &second[..])],
        [("a.jsonl", &second[..]), ("b.jsonl", &first[..])],
    ] {
        let store = read(&files);
        assert_eq!(traces(&store).len(), 1);
        assert_eq!(traces(&store)[0]["costs"]["tokens"], json!(280));
        assert!(!finding(&store, "id.repeated"));
    }
    // The same in one file; a copy of a file, or of its beginning, is no other run.
    let both = [first.clone(), second.clone()].concat();
    let store = read(&[("all.jsonl", &both)]);
    assert_eq!(traces(&store)[0]["costs"]["tokens"], json!(280));
    let store = read(&[("a.jsonl", &first), ("b.jsonl", &first), ("c.jsonl", &first[..4])]);
    assert_eq!(traces(&store)[0]["costs"]["tokens"], json!(110));
    assert_eq!(fates(&store)["duplicate"], first.len() as u64 + 4);
}

#[test]
fn several_threads_in_one_file_are_several_runs() {
    let mut other = run("It failed.");
    other[0]["thread_id"] = json!(KID);
    let both = [run("It failed."), other].concat();
    let store = read(&[("all.jsonl", &both)]);
    let mut ids: Vec<String> =
        traces(&store).iter().map(|t| t["trace_id"].as_str().unwrap().to_owned()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [ROOT, KID]);
    assert!(traces(&store).iter().all(|trace| trace["costs"]["tokens"] == json!(110)));
}

#[test]
fn a_stream_beside_its_rollout_is_a_copy() {
    let rollout = session();
    let texts = [rollout.text(), lines(&run("done"))];
    let without_findings = |mut trace: Json| {
        trace["events"][0]["x_trace"]["findings"].take();
        trace
    };
    let alone = without_findings(only_trace(&[&rollout]));
    for inputs in [
        [(rollout.path.as_str(), texts[0].as_str()), ("a.jsonl", &texts[1])],
        [("a.jsonl", &texts[1]), (rollout.path.as_str(), &texts[0])],
    ] {
        let both = traces(&read_texts(&Codex, &inputs));
        assert_eq!(both.into_iter().map(without_findings).collect::<Vec<_>>(), std::slice::from_ref(&alone));
    }
}

/// The rollout ends behind its first two responses; the stream has the whole turn, whose answer is another text.
#[test]
fn a_stream_has_what_a_cut_rollout_lacks() {
    let rollout = session();
    let cut: String = rollout.text().split_inclusive('\n').take(17).collect();
    let text = lines(&printed(&[message("item_0", "looking"), message("item_1", "It works.")], (250, 30)));
    for inputs in [
        [(rollout.path.as_str(), cut.as_str()), ("a.jsonl", &text)],
        [("a.jsonl", &text), (rollout.path.as_str(), &cut)],
    ] {
        let store = read_texts(&Codex, &inputs);
        let [trace] = &traces(&store)[..] else { panic!("one trace") };
        assert!(is_partial(trace));
        assert_eq!(trace["costs"]["tokens"], json!(110));
        assert_eq!(events(trace).last().unwrap(), "A:return return codex user");
        assert_eq!(
            messages(&store, "usage.incomplete"),
            [
                "recorded tokens are too low; what the program printed (codex, 'a.jsonl') states 280 tokens of the \
             thread, its rollout 110"
            ]
        );
        let [aside] = &messages(&store, "trace.set_aside")[..] else { panic!("one finding") };
        assert!(aside.starts_with("the session's own record is used, since it records more; set aside is "));
        assert!(aside.contains("which alone states 170 tokens (in no sum), the answer sha256:"), "{aside}");
    }
    let both = read_texts(&Codex, &[(&rollout.path, &rollout.text()), ("a.jsonl", &lines(&run("done")))]);
    assert_eq!(
        messages(&both, "trace.set_aside"),
        ["the session's own record is used, since it records more; set aside is what the program printed \
         (codex, 'a.jsonl')"]
    );
    assert!(!finding(&both, "usage.incomplete"));
}

#[test]
fn a_rollout_without_work_replaces_no_stream() {
    let head = json!({"timestamp": "2026-09-14T09:00:00.000Z", "type": "session_meta",
        "payload": {"id": ROOT, "timestamp": "2026-09-14T09:00:00.000Z", "cwd": "/w", "cli_version": "0.154.0"}});
    let path = format!("rollout-2026-09-14T09-00-00-{ROOT}.jsonl");
    let store = read(&[("run.jsonl", &run("Done.")), (&path, &[head])]);
    assert_eq!(traces(&store).len(), 1);
    let tokens: i64 = traces(&store)[0]["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| Some(event["tokens_in"].as_i64()? + event["tokens_out"].as_i64()?))
        .sum();
    assert_eq!(tokens, 110);
}

#[test]
fn a_turn_that_fails_has_no_answer() {
    let mut lines_of = run("half");
    *lines_of.last_mut().unwrap() = json!({"type": "turn.failed", "error": {"message": "stream closed"}});
    let trace = &traces(&read(&[("out.jsonl", &lines_of)]))[0];
    assert!(is_partial(trace));
    assert!(!events(trace).iter().any(|event| event.contains("return")));
}

#[test]
fn agents_of_a_stream_work_for_it() {
    let agents = |id: &str, tool: &str, more: Json| {
        let item = json!({"id": id, "type": "collab_tool_call", "tool": tool, "sender_thread_id": ROOT,
            "receiver_thread_ids": [KID], "status": "completed"});
        json!({"type": "item.completed", "item": with(item, more)})
    };
    let items = [
        agents("item_0", "spawn_agent", json!({"prompt": "dig"})),
        agents("item_1", "wait", json!({"agents_states": {KID: {"status": "completed", "message": "dug"}}})),
        message("item_2", "He dug."),
    ];
    let trace = &traces(&read(&[("out.jsonl", &printed(&items, (100, 10)))]))[0];
    let list = events(trace);
    assert!(list.contains(&format!("A:3:c:s spawn codex {KID}")), "{list:?}");
    assert!(list.iter().any(|event| event.ends_with(&format!(" return {KID} codex"))), "{list:?}");
    assert_eq!(list.last().unwrap(), "A:5 aggregate codex user");
}
