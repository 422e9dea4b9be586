//! Children that answer more than once.

use super::*;

/// How a parent asks for more.
fn asks(file: &mut File, how: &str, id: &str) {
    let target = if how == "followup_task" { "/root/dig" } else { KID };
    file.calls(id, how, &json!({"target": target, "message": "and more"}))
        .usage((20, 2), (10, 1))
        .output(id, "{}");
}

/// How an answer reaches it.
fn hears(file: &mut File, by: &str, id: &str, text: &str) {
    match by {
        "wait" => {
            file.calls(id, "wait", &json!({"ids": [KID]})).usage((30, 3), (10, 1));
            file.output(id, &json!({"status": {KID: {"completed": text}}, "timed_out": false}).to_string());
        }
        "notice" => {
            let notice = json!({"agent_id": KID, "status": {"completed": text}});
            let text = format!("<subagent_notification>{notice}</subagent_notification>");
            file.item("message", json!({"role": "user", "content": [{"type": "input_text", "text": text}]}));
        }
        _ => {
            let text = format!("Message Type: FINAL_ANSWER\nTask name: /root\nPayload:\n{text}");
            let content = json!([{"type": "input_text", "text": text}]);
            let message = json!({"author": "/root/dig", "recipient": "/root", "content": content});
            file.item("agent_message", message);
        }
    }
}

/// A parent and a child that answers, is asked for more, and answers again.
fn twice(how: &str, by: &str) -> [File; 2] {
    let mut root = File::of(ROOT, json!({}));
    root.start("t1").user("go").calls("s1", "spawn_agent", &json!({"task_name": "dig", "message": "dig"}));
    let started =
        json!({"event_id": "s1", "agent_thread_id": KID, "agent_path": "/root/dig", "kind": "started"});
    root.usage((10, 1), (10, 1)).event("sub_agent_activity", started);
    root.output("s1", &json!({"agent_id": KID, "nickname": "Ada"}).to_string());
    let spawn =
        json!({"parent_thread_id": ROOT, "depth": 1, "agent_path": "/root/dig", "agent_nickname": "Ada"});
    let mut kid = File::of(KID, json!({"source": {"subagent": {"thread_spawn": spawn}}}));
    kid.lines[0]["timestamp"] = time(root.second).into();
    kid.second = root.second + 1;
    kid.start("k1").user("dig").says("one").usage((5, 1), (5, 1)).end("k1", "one");
    root.second = kid.second + 10;
    hears(&mut root, by, "w1", "one");
    asks(&mut root, how, "m1");
    kid.second = root.second;
    kid.start("k2").user("and more").says("two").usage((10, 2), (5, 1)).end("k2", "two");
    root.second = kid.second + 10;
    hears(&mut root, by, "w2", "two");
    root.says("fine").usage((50, 5), (10, 1)).end("t1", "fine");
    [root, kid]
}

fn of_answer(trace: &Json, text: &str) -> Json {
    let hash = content_ref(text);
    let list = trace["events"].as_array().unwrap();
    list.iter().find(|event| event["agent"] == "Ada" && event["content_ref"] == json!(hash)).unwrap().clone()
}

#[test]
fn each_answer_reaches_the_parent_with_its_own_text_and_time() {
    for how in ["send_input", "followup_task"] {
        for by in ["wait", "notice", "final"] {
            let [root, kid] = twice(how, by);
            for files in [vec![&root, &kid], vec![&root]] {
                let why = format!("{how} {by} {}", files.len());
                let store = read_files(&files);
                let trace = &traces(&store)[0];
                let (first, second) = (of_answer(trace, "one"), of_answer(trace, "two"));
                assert_eq!((&first["type"], &second["type"]), (&json!("message"), &json!("return")), "{why}");
                assert_eq!((&first["to"], &second["to"]), (&json!("codex"), &json!("codex")), "{why}");
                let request = event(trace, "m1");
                let t = |event: &Json| event["t"].as_f64().unwrap();
                assert!(t(&first) <= t(request) && t(request) < t(&second), "{why}");
                let id = |event: &Json| event["id"].as_str().unwrap().to_owned();
                let into = |kind: &str, from: &str| -> Vec<String> {
                    edges_of(trace, kind)
                        .iter()
                        .filter_map(|edge| edge.strip_prefix(&format!("{from} ")).map(str::to_owned))
                        .collect()
                };
                let heard = if by == "wait" { "w1:r" } else { "m1" };
                assert_eq!(into("message", &id(&first)), [heard], "{why}");
                let last = trace["events"].as_array().unwrap().last().unwrap().clone();
                assert!(into("aggregate", &id(&second)).contains(&id(&last)), "{why}");
                assert_eq!(last["type"], json!("aggregate"), "{why}");
                for code in ["graph.cycle", "time.reversed"] {
                    assert!(!finding(&store, code), "{why} {code}");
                }
            }
        }
    }
}

#[test]
fn an_answer_that_is_reported_twice_is_one_answer() {
    let [mut root, kid] = twice("send_input", "wait");
    let at = root.lines.iter().position(|line| line["payload"]["call_id"] == "m1").unwrap();
    let mut again = File::of(ROOT, json!({}));
    hears(&mut again, "notice", "", "one");
    let mut line = again.lines[1].clone();
    line["timestamp"] = root.lines[at - 1]["timestamp"].clone();
    root.lines.insert(at, line);
    for files in [vec![&root, &kid], vec![&root]] {
        let trace = only_trace(&files);
        let answers: Vec<String> = events(&trace).into_iter().filter(|e| e.ends_with(" Ada codex")).collect();
        assert_eq!(answers.len(), 2, "{answers:?}");
    }
}

#[test]
fn equal_answers_to_two_orders_are_two_answers() {
    let [mut root, mut kid] = twice("send_input", "wait");
    for file in [&mut root, &mut kid] {
        let text = file.text().replace("two", "one");
        file.lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    }
    for files in [vec![&root, &kid], vec![&root]] {
        let trace = only_trace(&files);
        let answers: Vec<String> = events(&trace).into_iter().filter(|e| e.ends_with(" Ada codex")).collect();
        assert_eq!(answers.len(), 2, "{answers:?}");
    }
}
