//! Threads of one family, and of one origin.

use super::*;

#[test]
fn threads_of_a_family_are_one_trace_in_any_order_of_files() {
    let [root, kid, deep] = team();
    let trace = only_trace(&[&root, &kid, &deep]);
    assert_eq!(
        events(&trace),
        [
            "A:4 message user codex",
            "A:6:d orchestrator_decision codex -",
            "s1:s spawn codex Ada",
            "s1:r tool_result spawn_agent -",
            "B:6:d orchestrator_decision Ada -",
            "s2:s spawn Ada Bob",
            "s2:r tool_result spawn_agent -",
            "C:7 return Bob Ada",
            "w2 tool_call Ada -",
            "w2:r tool_result wait_agent -",
            "B:13 return Ada codex",
            "w1 tool_call codex -",
            "w1:r tool_result wait -",
            "e1 despawn codex Ada",
            "A:16 aggregate codex user",
        ]
    );
    assert_eq!(edges(&trace, "spawn"), set(&["A:6:d s1:s", "s1:s B:6:d", "B:6:d s2:s", "s2:s C:7"]));
    assert_eq!(edges(&trace, "aggregate"), set(&["B:13 A:16"]));
    assert!(edges(&trace, "return").is_superset(&set(&["C:7 w2:r", "B:13 w1:r"])));
    assert_eq!(event(&trace, "s1:s")["x_agent_id"], KID);
    assert_eq!(event(&trace, "s1:s")["role"], "explorer");
    assert_eq!(trace["costs"]["tokens"], json!(440 + 66 + 6));
    assert_eq!(trace["topology"], "hierarchical");
    assert!(!is_partial(&trace));
    for files in [[&deep, &kid, &root], [&kid, &root, &deep]] {
        assert_eq!(only_trace(&files), trace);
    }
}

#[test]
fn prompts_of_children_are_told_once() {
    let [root, kid, deep] = team();
    // The prompts of two children in two records each; what agents say and users say is echoed.
    let fates = fates(&read_files(&[&root, &kid, &deep]));
    assert_eq!(fates["duplicate"], 1 + 1 + 4 + 1 + 1);
    assert_eq!(fates.keys().map(String::as_str).collect::<Vec<_>>(), ["duplicate", "used"]);
}

/// The lines of another file, with times of its own, as a thread that is forked writes them.
fn replayed(mut file: File, of: &File, at: i64) -> File {
    let n_own = file.lines.len();
    file.lines.extend(of.lines.iter().cloned());
    for line in &mut file.lines[n_own..] {
        line["timestamp"] = time(at).replace('Z', ".020Z").into();
    }
    file.second = at + 5;
    file
}

fn go_on(mut file: File) -> File {
    file.start("k9").user("and now").says("so be it").usage((400, 50), (150, 20)).end("k9", "so be it");
    file
}

#[test]
fn what_a_child_repeats_of_its_parent_is_left_out() {
    let mut root = session();
    let cut = root.clone();
    root.start("t2").user("help").calls(
        "s1",
        "spawn_agent",
        &json!({"message": "and now", "fork_context": true}),
    );
    root.usage((300, 40), (50, 10)).output("s1", &json!({"agent_id": KID}).to_string());
    root.says("ok").usage((310, 41), (10, 1)).end("t2", "ok");
    let child = go_on(replayed(File::child(KID, ROOT, "Ada", 40), &cut, 40));
    let trace = only_trace(&[&root, &child]);
    let of_ada = |trace: &Json| events(trace).into_iter().filter(|e| e.contains(" Ada ")).collect::<Vec<_>>();
    assert_eq!(of_ada(&trace), ["B:28 return Ada codex"]);
    assert!(events(&trace).contains(&"s1:s spawn codex Ada".into()));
    assert_eq!(trace["costs"]["tokens"], json!(351 + 170));
    let fates = fates(&read_files(&[&child, &root]));
    assert_eq!(fates["duplicate"], 4 + 2 + cut.lines.len() as u64 + 2 + 1);
    // Without the parent's file it is when its turns began.
    let mut child = child;
    for line in child.lines.iter_mut().filter(|line| line["payload"]["turn_id"] == "t1") {
        line["payload"]["started_at"] = json!(1_767_225_600 + 4);
    }
    let alone = only_trace(&[&child]);
    assert_eq!(alone["trace_id"], ROOT);
    assert_eq!(of_ada(&alone), ["B:28 return Ada codex"]);
    assert_eq!(alone["costs"]["tokens"], json!(170));
    assert!(is_partial(&alone));
}

#[test]
fn a_fork_is_a_trace_of_its_own_without_what_it_copies() {
    let origin = session();
    let mut fork = File::of(KID, json!({"forked_from_id": ROOT}));
    fork.lines[0]["timestamp"] = time(100).into();
    let fork = go_on(replayed(fork, &origin, 100));
    for files in [[&origin, &fork], [&fork, &origin]] {
        let store = read_files(&files);
        let mut all = traces(&store);
        all.sort_by_key(|trace| trace["trace_id"].to_string());
        assert_eq!(all[0], only_trace(&[&origin]));
        assert_eq!(events(&all[1]), ["B:25 message user codex", "B:28 return codex user"]);
        assert_eq!((&all[1]["trace_id"], &all[1]["costs"]["tokens"]), (&json!(KID), &json!(170)));
        assert!(!is_partial(&all[1]));
        let total: u64 = fates(&store).values().sum();
        assert_eq!(total, (origin.lines.len() + fork.lines.len()) as u64);
    }
    // Original times, and the origin's file gone: what is older than the thread was copied.
    let mut alone = fork.clone();
    for (i, line) in session().lines.iter().enumerate() {
        alone.lines[i + 1]["timestamp"] = line["timestamp"].clone();
    }
    let alone = only_trace(&[&alone]);
    assert_eq!((&alone["trace_id"], &alone["costs"]["tokens"]), (&json!(KID), &json!(170)));
}

#[test]
fn children_without_files_are_spawned_and_answer() {
    let [root, ..] = team();
    let trace = only_trace(&[&root]);
    let list = events(&trace);
    assert!(
        list.contains(&"s1:s spawn codex Ada".into()) && list.contains(&"B:return return Ada codex".into())
    );
    assert_eq!(list.last().unwrap(), "A:16 aggregate codex user");
    assert!(is_partial(&trace));
}

#[test]
fn children_without_parents_are_one_trace_under_the_parents_id() {
    let [_, kid, deep] = team();
    let trace = only_trace(&[&deep, &kid]);
    assert_eq!(trace["trace_id"], ROOT);
    assert!(is_partial(&trace));
    assert_eq!(events(&trace)[0], "B:s spawn codex Ada");
    let alone = only_trace(&[&deep]);
    assert_eq!(alone["trace_id"], KID, "the last parent that anybody names");
}

#[test]
fn parents_in_a_circle_are_one_trace() {
    let mut one_file = File::child(KID, DEEP, "Ada", 0);
    one_file.start("a").user("x").says("y").end("a", "y");
    let mut other = File::child(DEEP, KID, "Bob", 0);
    other.start("b").user("z").says("w").end("b", "w");
    let trace = only_trace(&[&one_file, &other]);
    assert_eq!(trace["trace_id"], KID);
    assert_eq!(only_trace(&[&other, &one_file]), trace);
}

#[test]
fn second_generation_agents_talk_by_paths() {
    let mut root = File::of(ROOT, json!({}));
    root.start("t1").user("go").calls("s1", "spawn_agent", &json!({"task_name": "dig", "message": "dig"}));
    root.event(
        "sub_agent_activity",
        json!({"event_id": "s1", "agent_thread_id": KID, "agent_path": "/root/dig", "kind": "started"}),
    );
    root.usage((10, 1), (10, 1)).output("s1", &json!({"task_name": "/root/dig"}).to_string());
    let spawn = json!({"parent_thread_id": ROOT, "depth": 1, "agent_path": "/root/dig"});
    let mut kid = File::of(KID, json!({"source": {"subagent": {"thread_spawn": spawn}}}));
    kid.lines[0]["timestamp"] = time(root.second).into();
    kid.second = root.second + 1;
    kid.start("k1").item("agent_message", json!({"author": "/root", "recipient": "/root/dig", "content": [{"type": "input_text", "text": "dig"}]}));
    kid.calls("m1", "send_message", &json!({"target": "/root", "message": "deep"}))
        .usage((5, 1), (5, 1))
        .output("m1", "");
    kid.says("dug").usage((10, 2), (5, 1)).end("k1", "dug");
    root.second = kid.second;
    let mail = |text: &str| json!({"author": "/root/dig", "recipient": "/root", "content": [{"type": "input_text", "text": text}]});
    root.item("agent_message", mail("deep"));
    root.item("agent_message", mail("Message Type: FINAL_ANSWER\nPayload:\ndug"));
    root.says("fine").usage((20, 2), (10, 1)).end("t1", "fine");
    let trace = only_trace(&[&kid, &root]);
    assert_eq!(
        events(&trace),
        [
            "A:4 message user codex",
            "A:6:d orchestrator_decision codex -",
            "s1:s spawn codex dig",
            "s1:r tool_result spawn_agent -",
            "m1 message dig codex",
            "B:9 return dig codex",
            "A:13 aggregate codex user",
        ]
    );
    assert_eq!(edges(&trace, "aggregate"), set(&["B:9 A:13"]));
    assert!(!is_partial(&trace));
}

#[test]
fn clocks_may_disagree_by_an_hour() {
    let [root, kid, deep] = team();
    let mut early = kid.clone();
    for line in &mut early.lines {
        let t = crate::json::time::parse_timestamp(line["timestamp"].as_str().unwrap()).unwrap();
        line["timestamp"] = crate::json::time::format_timestamp(t - 3_600_000_000_000).into();
    }
    let store = read_files(&[&root, &early, &deep]);
    let trace = &traces(&store)[0];
    assert!(finding(&store, "clock.skew"));
    let calm = only_trace(&[&root, &kid, &deep]);
    assert_eq!(edges(trace, "aggregate"), edges(&calm, "aggregate"));
    let sorted = |trace: &Json| events(trace).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(trace), sorted(&calm));
    // Backwards within a file: its own order stays.
    let mut back = session();
    back.lines[18]["timestamp"] = time(1).into();
    assert_eq!(events(&only_trace(&[&back])), events(&only_trace(&[&session()])));
}

#[test]
fn the_same_file_twice_is_one_trace() {
    let file = session();
    let mut copy = file.clone();
    copy.path = copy.path.replace("sessions", "archived_sessions");
    let store = read_files(&[&file, &copy]);
    assert_eq!(traces(&store), [only_trace(&[&file])]);
    assert_eq!(fates(&store)["duplicate"], 4 + file.lines.len() as u64);
    // A file that is named otherwise is known by its first line; one that has gone on is one with its beginning.
    let mut longer = go_on(file.clone());
    longer.path = "elsewhere/renamed.jsonl".into();
    let text = longer.text();
    let text_of_file = file.text();
    let alone = traces(&read_texts(&Codex, &[(&longer.path, &text)]));
    assert_eq!(alone[0]["trace_id"], ROOT);
    let both = traces(&read_texts(&Codex, &[(&file.path, &text_of_file), (&longer.path, &text)]));
    assert_eq!(both, alone);
}
