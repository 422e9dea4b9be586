//! Sub-agents, teams, workflows.

use super::*;

/// A lead that asks two sub-agents at once, of which one asks a third.
pub(super) fn team() -> Vec<(String, Vec<Json>)> {
    let task = |prompt: &str| json!({"subagent_type": "Explore", "description": "look", "prompt": prompt});
    let done = |agent: &str| json!({"status": "completed", "agentId": agent, "totalTokens": 22, "totalToolUseCount": 0, "totalDurationMs": 1500});
    vec![
        (
            MAIN.into(),
            vec![
                asks(0, "u1", "", "look"),
                calls(1, "a1", "u1", "m1", "t1", "Task", task("left")),
                calls(2, "a2", "a1", "m1", "t2", "Task", task("right")),
                keeps(gives(12, "u2", "a2", "t2", "R"), done("bb")),
                keeps(gives(14, "u3", "a1", "t1", "L"), done("aa")),
                says(16, "a3", "u3", "m9", "both"),
            ],
        ),
        (file_of("aa"), vec![by("aa", asks(1, "p1", "", "left")), by("aa", says(13, "p2", "p1", "m3", "L"))]),
        (
            file_of("bb"),
            vec![
                by("bb", asks(2, "q1", "", "right")),
                by(
                    "bb",
                    calls(
                        3,
                        "q2",
                        "q1",
                        "m4",
                        "t3",
                        "Agent",
                        json!({"subagent_type": "Plan", "prompt": "deep"}),
                    ),
                ),
                by("bb", keeps(gives(8, "q3", "q2", "t3", "D"), done("cc"))),
                by("bb", says(11, "q4", "q3", "m6", "R")),
            ],
        ),
        (file_of("cc"), vec![by("cc", asks(3, "r1", "", "deep")), by("cc", says(7, "r2", "r1", "m5", "D"))]),
    ]
}

pub(super) fn read_team(team: &[(String, Vec<Json>)]) -> Store {
    let inputs: Vec<(&str, &[Json])> =
        team.iter().map(|(path, lines)| (path.as_str(), lines.as_slice())).collect();
    store(&inputs)
}

#[test]
fn sub_agents_of_sub_agents() {
    let store = read_team(&team());
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "u1 message user main",
            "m1:d orchestrator_decision main -",
            "t1:s spawn main Explore",
            "t2:s spawn main Explore#2",
            "m4:d orchestrator_decision Explore#2 -",
            "t3:s spawn Explore#2 Plan",
            "m5 return Plan Explore#2",
            "t3:r tool_result Agent -",
            "m6 return Explore#2 main",
            "t2:r tool_result Task -",
            "m3 return Explore main",
            "t1:r tool_result Task -",
            "m9 aggregate main user",
        ]
    );
    has(
        trace,
        &[
            "m1:d spawn t1:s",
            "m1:d spawn t2:s",
            "t1:s spawn m3",
            "t2:s spawn m4:d",
            "t3:s spawn m5",
            "m5 return t3:r",
            "m6 return t2:r",
            "m3 return t1:r",
            "m3 aggregate m9",
            "m6 aggregate m9",
        ],
    );
    assert_eq!(trace["topology"], "hierarchical");
    assert_eq!(
        (event(trace, "t2:s")["x_agent_id"].as_str(), event(trace, "t2:s")["role"].as_str()),
        (Some("bb"), Some("Explore"))
    );
    assert_eq!(event(trace, "t2:s")["t"].as_f64(), Some(2.0), "each is spawned when it is asked");
    let result = event(trace, "t1:r");
    assert_eq!((result["x_reported_tokens"].as_i64(), result["duration_s"].as_f64()), (Some(22), Some(1.5)));
    assert!(!is_partial(trace));
    assert!(findings(&store).is_empty(), "{:?}", findings(&store));
    fated(&store, &[("used", 14)]);
}

#[test]
fn the_order_of_files_changes_nothing() {
    let mut team = team();
    let forwards = documents(&read_team(&team));
    team.reverse();
    assert_eq!(documents(&read_team(&team)), forwards);
    team.swap(0, 2);
    assert_eq!(documents(&read_team(&team)), forwards);
    assert_eq!(documents(&read_team(&team)), documents(&read_team(&team)));
}

#[test]
fn totals_that_differ_are_told() {
    let mut team = team();
    team[0].1[4]["toolUseResult"]["totalTokens"] = 23.into();
    assert_eq!(findings(&read_team(&team)), [("usage.incomplete".to_owned(), 1)]);
    team[0].1[4]["toolUseResult"]["totalTokens"] = 21.into();
    assert_eq!(findings(&read_team(&team)), [("usage.repeated".to_owned(), 1)]);
}

#[test]
fn links_are_found_without_the_field() {
    let mut team = team();
    for at in [3, 4] {
        team[0].1[at]["toolUseResult"] = Json::Null;
    }
    // One by what the text of its result says, the other by its prompt.
    team[0].1[3]["message"]["content"][0]["content"] =
        json!([{"type": "text", "text": "R\nagentId: bb (internal)"}]);
    let trace = &traces(&read_team(&team))[0];
    has(trace, &["t1:s spawn m3", "t2:s spawn m4:d"]);
    assert_eq!(event(trace, "t1:s")["x_agent_id"], "aa");
}

#[test]
fn a_result_that_only_talks_of_agents_links_nothing() {
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Bash", json!({"command": "echo agentId: aa"})),
        gives(
            2,
            "u2",
            "a1",
            "t1",
            "agentId: aa\n<task-notification><task-id>aa</task-id><status>completed</status></task-notification>",
        ),
        says(3, "a2", "u2", "m2", "ok"),
    ]);
    assert_eq!(events(&trace).len(), 4);
    assert_eq!(trace["topology"], "unknown");
}

#[test]
fn lines_within_the_file_of_the_lead() {
    let inline = |mut line: Json| {
        line["isSidechain"] = true.into();
        line
    };
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Task", json!({"subagent_type": "x", "prompt": "left"})),
        calls(2, "a2", "a1", "m1", "t2", "Task", json!({"subagent_type": "y", "prompt": "right"})),
        inline(asks(3, "s1", "", "right")),
        inline(says(4, "s2", "s1", "m2", "R")),
        // Without its prompt it still hangs on the line that asked.
        inline(says(5, "s3", "a1", "m3", "L")),
        gives(6, "u2", "a2", "t2", "R"),
        gives(7, "u3", "u2", "t1", "L"),
        says(8, "a3", "u3", "m4", "both"),
    ]);
    has(&trace, &["t1:s spawn m3", "t2:s spawn m2", "m2 return t2:r", "m3 return t1:r", "m2 aggregate m4"]);
    assert_eq!(
        (event(&trace, "m3")["agent"].as_str(), event(&trace, "m2")["agent"].as_str()),
        (Some("x"), Some("y"))
    );
    assert!(!is_partial(&trace));
}

#[test]
fn a_sub_agent_whose_session_is_not_there() {
    let trace = trace(&[(
        &file_of("aa"),
        &[by("aa", asks(1, "p1", "", "left")), by("aa", says(3, "p2", "p1", "m3", "L"))],
    )]);
    assert_eq!(events(&trace), ["aa:s spawn main aa", "m3 return aa main"]);
    assert_eq!(trace["trace_id"], SESSION);
    assert_eq!(event(&trace, "m3")["t"].as_f64(), Some(2.0), "its prompt is the beginning");
    assert!(is_partial(&trace));
}

#[test]
fn a_session_whose_sub_agent_is_not_there() {
    let team = team();
    let trace = trace(&[(MAIN, &team[0].1)]);
    has(&trace, &["t2:s spawn t2:return", "t2:return return t2:r", "t2:return aggregate m9"]);
    assert!(is_partial(&trace));
    // Still at work.
    let running = solo(&team[0].1[..3]);
    assert_eq!(events(&running).len(), 4);
    assert!(is_partial(&running));
}

#[test]
fn an_agent_that_nobody_asked_for_is_its_own_root() {
    let mut team = team();
    team.push((
        file_of("dd"),
        vec![by("dd", asks(4, "w1", "", "Warmup")), by("dd", says(5, "w2", "w1", "m7", "ready"))],
    ));
    let more = [asks(4, "x1", "", "Warmup"), asks(5, "x2", "x1", "More"), says(6, "x3", "x2", "m8", "ready")];
    team.push((file_of("ee"), more.map(|line| by("ee", line)).to_vec()));
    let trace = &traces(&read_team(&team))[0];
    // It answers nobody, least of all the human; what it is told comes from the program.
    assert_eq!((&event(trace, "m7")["type"], &event(trace, "m7")["to"]), (&json!("message"), &Json::Null));
    assert_eq!(
        (&event(trace, "x2")["agent"], &event(trace, "x2")["role"]),
        (&json!("claude-code"), &json!("environment"))
    );
    assert!(!edges(trace).iter().any(|edge| edge.starts_with("m7 ")), "the lead has not heard of it");
    assert!(!is_partial(trace));
}

#[test]
fn the_file_beside_a_sub_agent_names_it() {
    let mut team = team();
    let beside = |agent: &str| format!("p/{SESSION}/subagents/agent-{agent}.meta.json");
    team.push((file_of("dd"), vec![by("dd", says(5, "w2", "", "m7", "ready"))]));
    team.push((file_of("ff"), vec![by("ff", says(6, "x2", "", "m8", "ready"))]));
    // The same text, of two agents.
    team.push((beside("dd"), vec![json!({"agentType": "warm"})]));
    team.push((beside("ee"), vec![json!({"agentType": "cold"})]));
    team.push((beside("ff"), vec![json!({"agentType": "warm"})]));
    let store = read_team(&team);
    let trace = &traces(&store)[0];
    assert_eq!(
        (event(trace, "m7")["agent"].as_str(), event(trace, "m8")["agent"].as_str()),
        (Some("warm"), Some("warm#2"))
    );
    fated(&store, &[("meta_file", 1), ("used", 18)]);
}

#[test]
fn work_in_the_background_returns_when_it_is_told() {
    let launch = json!({"isAsync": true, "status": "async_launched", "agentId": "aa"});
    let note = "<task-notification>\n<task-id>aa</task-id>\n<status>completed</status>\n<result>L</result>\n</task-notification>";
    let poll = |status: &str| {
        format!(
            "<retrieval_status>success</retrieval_status>\n\n<task_id>aa</task_id>\n\n<status>{status}</status>\n"
        )
    };
    let main = |last: Json| {
        vec![
            asks(0, "u1", "", "go"),
            calls(1, "a1", "u1", "m1", "t1", "Task", json!({"subagent_type": "x", "prompt": "left"})),
            keeps(gives(2, "u2", "a1", "t1", "Async agent launched successfully."), launch.clone()),
            calls(3, "a2", "u2", "m2", "t2", "TaskOutput", json!({"task_id": "aa"})),
            gives(4, "u3", "a2", "t2", &poll("in_progress")),
            says(5, "a3", "u3", "m3", "waiting"),
            last,
            says(9, "a4", "u4", "m4", "done"),
        ]
    };
    let child = vec![by("aa", asks(2, "p1", "", "left")), by("aa", says(6, "p2", "p1", "m5", "L"))];
    let returned = trace(&[(MAIN, &main(asks(8, "u4", "a3", note))), (&file_of("aa"), &child)]);
    has(
        &returned,
        &["t1 return t1:r", "t1:s spawn m5", "m5 return m4", "m5 aggregate m4"]
            .map(|e| if e == "t1 return t1:r" { "t1:s return t1:r" } else { e }),
    );
    assert_eq!(event(&returned, "m3")["type"], "message", "it has not come back yet");
    assert!(!is_partial(&returned));
    // Nothing is left of the child but what is told of it.
    let alone = solo(&main(asks(8, "u4", "a3", note)));
    has(&alone, &["aa:return return m4", "aa:return aggregate m4"]);
    assert!(is_partial(&alone));
    let polled =
        trace(&[(MAIN, &main(gives(8, "u4", "a3", "t2", &poll("completed")))), (&file_of("aa"), &child)]);
    // The call that waited brought it.
    has(&polled, &["m5 return t2:r~2"]);
    let never =
        trace(&[(MAIN, &main(gives(8, "u4", "a3", "t2", &poll("in_progress")))), (&file_of("aa"), &child)]);
    has(&never, &["m5 return m4"]);
}

#[test]
fn members_of_a_team() {
    let task = |name: &str| json!({"name": name, "subagent_type": "general-purpose", "prompt": name});
    let send = |to: &str, text: &str| json!({"recipient": to, "content": text});
    let news = "<teammate-message teammate_id=\"ann\" color=\"red\">\nhalf way\n</teammate-message>\n\n<teammate-message teammate_id=\"bob\">\nhello\n</teammate-message>";
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Agent", task("ann")),
        keeps(gives(2, "u2", "a1", "t1", "spawned"), json!({"status": "async_launched", "agentId": "aa"})),
        calls(3, "a2", "u2", "m2", "t2", "SendMessage", send("ann", "be quick")),
        gives(4, "u3", "a2", "t2", "sent"),
        asks(9, "u4", "u3", news),
        calls(
            10,
            "a3",
            "u4",
            "m3",
            "t3",
            "SendMessage",
            json!({"type": "shutdown_request", "recipient": "ann", "content": "bye"}),
        ),
        gives(11, "u5", "a3", "t3", "sent"),
        says(12, "a4", "u5", "m4", "done"),
    ];
    let child = [
        by("aa", asks(2, "p1", "", "ann")),
        by("aa", says(4, "p2", "p1", "m5", "starting")),
        by("aa", asks(5, "p3", "p2", "be quick")),
        by("aa", calls(6, "p4", "p3", "m6", "t4", "SendMessage", send("team-lead", "half way"))),
        by("aa", gives(7, "p5", "p4", "t4", "sent")),
        by("aa", says(8, "p6", "p5", "m7", "ready")),
    ];
    let trace = trace(&[(MAIN, &lines), (&file_of("aa"), &child)]);
    let kinds: Vec<String> = events(&trace).into_iter().filter(|e| !e.contains(" tool_")).collect();
    assert_eq!(
        kinds,
        [
            "u1 message user main",
            "m1:d orchestrator_decision main -",
            "t1:s spawn main ann",
            "t2 message main ann",
            "m5 message ann -",
            "t4 message ann main",
            "m7 return ann main",
            "u4:1 message bob main",
            "t3 despawn main ann",
            "m4 aggregate main user",
        ]
    );
    // What was sent and then arrived is one message.
    has(&trace, &["t2 message m5", "t4 message t3", "u4:1 message t3"]);
}

#[test]
fn agents_of_a_workflow() {
    let run = |file: &str| format!("p/{SESSION}/subagents/workflows/wf1/{file}");
    let launched = json!({"isAsync": true, "status": "async_launched", "runId": "wf1", "taskId": "k"});
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Workflow", json!({"script": "s"})),
        keeps(gives(2, "u2", "a1", "t1", "Workflow launched"), launched),
        says(9, "a2", "u2", "m2", "done"),
    ];
    let mut first = by("aa", asks(3, "p1", "", "left"));
    first["sessionId"] = format!("{SESSION}#agent-aa").into();
    let child = [first, by("aa", says(5, "p2", "p1", "m3", "L"))];
    let journal = [
        json!({"type": "started", "key": "k1", "agentId": "aa"}),
        json!({"type": "started", "key": "k2", "agentId": "bb"}),
        json!({"type": "result", "key": "k2", "agentId": "bb", "result": {"a": 1}}),
    ];
    let store = store(&[
        (MAIN, &lines),
        (&run("agent-aa.jsonl"), &child),
        (&run("agent-aa.meta.json"), &[json!({"agentType": "reviewer"})]),
        (&run("journal.jsonl"), &journal),
    ]);
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "u1 message user main",
            "m1:d orchestrator_decision main -",
            "t1 tool_call main -",
            "bb:return return bb main",
            "aa:s spawn main reviewer",
            "bb:s spawn main bb",
            "t1:r tool_result Workflow -",
            "m3 return reviewer main",
            "m2 aggregate main user",
        ]
    );
    has(trace, &["aa:s spawn m3", "bb:s spawn bb:return", "m3 aggregate m2", "bb:return aggregate m2"]);
    fated(&store, &[("journal", 1), ("used", 9)]);
}

#[test]
fn copies_of_a_childs_lines() {
    let task = json!({"subagent_type": "x", "prompt": "left"});
    let copy = |uuid: &str, of: &Json| {
        let record = json!({
            "type": of["type"], "message": of["message"], "uuid": of["uuid"], "timestamp": of["timestamp"],
            "requestId": "q",
        });
        let data = json!({"type": "agent_progress", "message": record, "agentId": "aa"});
        line(4, "progress", uuid, "a1", json!({"data": data, "parentToolUseID": "t1"}))
    };
    let child = [by("aa", asks(2, "p1", "", "left")), by("aa", says(6, "p2", "p1", "m5", "L"))];
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Task", task),
        copy("x1", &child[0]),
        copy("x2", &child[1]),
        gives(7, "u2", "x2", "t1", "L"),
        says(8, "a2", "u2", "m2", "done"),
    ];
    let both = store(&[(MAIN, &lines), (&file_of("aa"), &child)]);
    fated(&both, &[("duplicate", 2), ("used", 6)]);
    let alone = store(&[(MAIN, &lines)]);
    fated(&alone, &[("used", 6)]);
    // Without the child's own file the copies are the child.
    assert_eq!(traces(&alone), traces(&both));
    has(&traces(&alone)[0], &["t1:s spawn m5", "m5 return t1:r"]);
    // Copies of one moment in two files: what they say orders them, not which was read first.
    let more = [copy("x3", &by("aa", says(6, "p3", "p1", "m6", "M")))];
    let read =
        |first: &[Json], second: &[Json]| traces(&store(&[("p/a.jsonl", first), ("p/b.jsonl", second)]));
    assert_eq!(read(&lines, &more), read(&more, &lines));
}
