//! History that a thread has of another one, whose file is missing.

use super::*;

/// A parent's turn that begins at second 1 and spawns, as a child copies it.
fn past(file: &mut File, started_at: Option<i64>) {
    let mut turn = json!({"turn_id": "p1"});
    if let Some(at) = started_at {
        turn["started_at"] = json!(1_767_225_600 + at);
    }
    file.event("task_started", turn);
    file.put("turn_context", json!({"turn_id": "p1", "model": "gpt-x"}));
    file.user("Check the two.")
        .calls("p2", "exec_command", &json!({"cmd": "ls"}))
        .usage((200, 20), (200, 20));
    file.output("p2", "Exit code: 0");
    file.calls("p3", "spawn_agent", &json!({"message": "Check billing."})).usage((450, 50), (250, 30));
}

/// The child's own turn, with totals that go on from the parent's.
fn own_turn(file: &mut File, started_at: Option<i64>) {
    let mut turn = json!({"turn_id": "k1"});
    if let Some(at) = started_at {
        turn["started_at"] = json!(1_767_225_600 + at);
    }
    file.event("task_started", turn);
    file.put("turn_context", json!({"turn_id": "k1", "model": "gpt-y"}));
    file.user("Check billing.")
        .calls("k2", "exec_command", &json!({"cmd": "curl"}))
        .usage((750, 60), (300, 10));
    file.output("k2", "Exit code: 0").says("healthy").usage((1060, 80), (310, 20)).end("k1", "healthy");
}

fn foreign(file: &mut File) {
    file.put("session_meta", json!({"id": ROOT, "timestamp": "2026-01-01T00:00:00Z", "source": "cli"}));
}

fn is_the_childs_own(trace: &Json, why: &str) {
    assert_eq!(trace["costs"]["tokens"], json!(640), "{why}");
    let calls: Vec<String> = events(trace).into_iter().filter(|event| event.contains("tool_call")).collect();
    assert_eq!(calls, ["k2 tool_call Ada -"], "{why}");
    assert!(!events(trace).iter().any(|event| event.starts_with("p3")), "{why}");
    assert!(is_partial(trace), "{why}");
}

#[test]
fn the_file_says_where_its_own_lines_begin() {
    let mut file = File::child(KID, ROOT, "Ada", 10);
    past(&mut file, None);
    let from = file.lines.len();
    own_turn(&mut file, None);
    for (i, line) in file.lines.iter_mut().enumerate() {
        line["ordinal"] = json!(i);
    }
    file.lines[0]["payload"]["subagent_history_start_ordinal"] = json!(from);
    let store = read_files(&[&file]);
    is_the_childs_own(&traces(&store)[0], "ordinal");
    assert!(!finding(&store, "usage.repeated"), "totals go on from what was inherited");
    file.lines[0]["payload"]["subagent_history_start_ordinal"] = Json::Null;
    file.lines[0]["payload"]["history_base"] = json!({"thread_id": ROOT, "end_ordinal_exclusive": from});
    is_the_childs_own(&only_trace(&[&file]), "history_base");
}

#[test]
fn lines_of_a_fork_that_are_numbered_from_its_base_on_are_its_own() {
    for start in [100, 0] {
        let mut file = File::child(KID, ROOT, "Ada", 10);
        own_turn(&mut file, None);
        for (i, line) in file.lines.iter_mut().enumerate() {
            line["ordinal"] = json!(start + i);
        }
        file.lines[0]["payload"]["history_base"] = json!({"thread_id": ROOT, "end_ordinal_exclusive": 100});
        let store = read_files(&[&file]);
        is_the_childs_own(&traces(&store)[0], "no copy");
        assert!(!finding(&store, "usage.repeated"), "its totals hold those of its base");
    }
}

#[test]
fn turns_that_are_older_than_the_thread_are_not_its_own() {
    // Copied over several seconds, with new times, and without the parent's session_meta.
    let mut file = File::child(KID, ROOT, "Ada", 10);
    past(&mut file, Some(1));
    let at = file.second;
    own_turn(&mut file, Some(at));
    is_the_childs_own(&only_trace(&[&file]), "started_at");
    // Without that, the ids of turns have their time.
    let dated = |file: &mut File, at: i64, id: &str| {
        let id = format!("{:012x}", 1_767_225_600_000 + at * 1000) + id;
        let line = file.lines.iter_mut().rfind(|line| line["payload"]["type"] == "task_started").unwrap();
        line["payload"]["turn_id"] = format!("{}-{}", &id[..8], &id[8..]).into();
    };
    let mut file = File::child(KID, ROOT, "Ada", 10);
    past(&mut file, None);
    dated(&mut file, 1, "-7000-8000-000000000001");
    let at = file.second;
    own_turn(&mut file, None);
    dated(&mut file, at, "-7000-8000-000000000002");
    is_the_childs_own(&only_trace(&[&file]), "the time in an id");
    // A turn that begins with the thread, in the same second, is its own.
    let mut file = File::child(KID, ROOT, "Ada", 10);
    own_turn(&mut file, Some(10));
    is_the_childs_own(&only_trace(&[&file]), "the same second");
}

#[test]
fn the_order_that_spawned_a_child_ends_what_it_inherits() {
    let mut file = File::child(KID, ROOT, "Ada", 10);
    foreign(&mut file);
    past(&mut file, None);
    own_turn(&mut file, None);
    is_the_childs_own(&only_trace(&[&file]), "order");
}

#[test]
fn siblings_show_what_they_inherit() {
    let sibling = |id: &str, name: &str, fork: bool| {
        let mut file = if fork {
            let mut file = File::of(id, json!({"forked_from_id": ROOT}));
            file.lines[0]["timestamp"] = time(10).into();
            file
        } else {
            File::child(id, ROOT, name, 10)
        };
        past(&mut file, None);
        file.start(&format!("k{name}")).user(name).calls(&format!("c{name}"), "exec_command", &json!({}));
        file.usage((450 + 10, 50 + 1), (10, 1)).output(&format!("c{name}"), "").says(name);
        file.usage((480, 53), (20, 2)).end(&format!("k{name}"), name);
        file
    };
    let children = [sibling(KID, "Ada", false), sibling(DEEP, "Bob", false)];
    for files in [[&children[0], &children[1]], [&children[1], &children[0]]] {
        let trace = only_trace(&files);
        assert_eq!(trace["costs"]["tokens"], json!(33 + 33));
        assert!(is_partial(&trace));
    }
    // Nobody else has what forks have in common: it counts once.
    let forks = [sibling(KID, "Ada", true), sibling(DEEP, "Bob", true)];
    for files in [[&forks[0], &forks[1]], [&forks[1], &forks[0]]] {
        let mut tokens: Vec<i64> =
            traces(&read_files(&files)).iter().map(|t| t["costs"]["tokens"].as_i64().unwrap()).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [33, 500 + 33]);
    }
}

#[test]
fn siblings_that_were_asked_the_same_inherit_nothing() {
    let sibling = |id: &str, name: &str| {
        let mut file = File::child(id, ROOT, name, 10);
        file.start(name).user("Say yes.").says("yes").usage((30, 3), (30, 3)).end(name, "yes");
        file
    };
    let trace = only_trace(&[&sibling(KID, "Ada"), &sibling(DEEP, "Bob")]);
    assert_eq!(trace["costs"]["tokens"], json!(66));
}

#[test]
fn pages_of_a_thread_have_ids_of_their_own() {
    let mut first = File::of(ROOT, json!({"history_base": null}));
    first.start("t1").user("one").says("1").usage((10, 1), (10, 1)).end("t1", "1");
    let mut second = File::of(ROOT, json!({"history_base": {"thread_id": ROOT, "end_ordinal_exclusive": 8}}));
    second.lines[0]["timestamp"] = time(100).into();
    second.second = 101;
    second.path = second.path.replace(".jsonl", &format!("_{DEEP}.jsonl"));
    second.start("t2").user("two").says("2").usage((30, 3), (20, 2)).end("t2", "2");
    let store = read_files(&[&second, &first]);
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "A:4 message user codex",
            "A:7 message codex -",
            "A:C:4 message user codex",
            "A:C:7 return codex user",
        ]
    );
    assert!(!finding(&store, "id.repeated") && !is_partial(trace));
    assert_eq!(trace["costs"]["tokens"], json!(33));
    assert_eq!(only_trace(&[&first, &second]), *trace);
    // Without the first page the run lacks its beginning.
    let store = read_files(&[&second]);
    assert!(is_partial(&traces(&store)[0]) && finding(&store, "usage.repeated"));
}
