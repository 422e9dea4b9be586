//! Tokens by the records of responses, tokens without parts, and whose a text is.

use super::*;

fn sums((input, output): (i64, i64)) -> Json {
    json!({"input_tokens": input, "cached_input_tokens": 1, "cache_write_input_tokens": 0,
        "output_tokens": output, "reasoning_output_tokens": 0, "total_tokens": input + output})
}

fn record(response: &str, used: (i64, i64), turn: (i64, i64), thread: (i64, i64)) -> Json {
    json!({"thread_id": ROOT, "turn_id": "t1", "response_id": response, "usage": sums(used),
        "turn_token_usage": sums(turn), "thread_token_usage": sums(thread)})
}

/// Two turns of one response each, and a compaction between them; `count` says where the running totals stand.
fn recorded(count: Option<bool>) -> File {
    let mut file = File::of(ROOT, json!({}));
    let spend = |file: &mut File, record: Json, total: (i64, i64), last: (i64, i64)| {
        if count == Some(true) {
            file.usage(total, last);
        }
        file.put("token_usage_record", record);
        if count == Some(false) {
            file.usage(total, last);
        }
    };
    file.start("t1").user("do it").calls("c1", "shell", &json!({"cmd": "ls"}));
    spend(&mut file, record("r1", (100, 10), (100, 10), (100, 10)), (100, 10), (100, 10));
    file.output("c1", "Exit code: 0").says("done");
    spend(&mut file, record("r2", (100, 10), (200, 20), (200, 20)), (200, 20), (100, 10));
    file.end("t1", "done");
    let compaction = record("r3", (50, 40), (50, 40), (250, 60));
    file.put("token_usage_record", compaction.clone());
    file.put("compacted", json!({"message": "", "latest_token_usage_record": compaction}));
    file.start("t2").user("and now").says("so be it");
    // The counts of this version leave the compaction out.
    spend(&mut file, record("r4", (30, 5), (80, 45), (280, 65)), (230, 25), (30, 5));
    file.end("t2", "so be it");
    file
}

fn gens(trace: &Json) -> BTreeSet<String> {
    let list = trace["events"].as_array().unwrap();
    list.iter().filter_map(|event| event["x_gen"].as_str().map(str::to_owned)).collect()
}

#[test]
fn each_response_counts_once_by_its_record() {
    for count in [None, Some(false), Some(true)] {
        let file = recorded(count);
        let store = read_files(&[&file]);
        let trace = &traces(&store)[0];
        assert_eq!(trace["costs"]["tokens"], json!(345), "{count:?}");
        assert_eq!(gens(trace).len(), 4, "two equal usages are two responses");
        // The counts alone lack what the compaction took, and say so.
        assert_eq!(finding(&store, "usage.repeated"), count.is_some());
    }
}

#[test]
fn a_record_that_only_the_compaction_repeats_counts() {
    let mut file = recorded(None);
    let at = file.lines.iter().position(|line| line["payload"]["response_id"] == "r3").unwrap();
    file.lines.remove(at);
    let store = read_files(&[&file]);
    assert_eq!(traces(&store)[0]["costs"]["tokens"], json!(345));
    assert!(!finding(&store, "usage.repeated"));
}

#[test]
fn totals_of_threads_and_turns_are_compared() {
    for key in ["thread_token_usage", "turn_token_usage"] {
        let mut file = recorded(None);
        let at = file.lines.iter().rposition(|line| line["type"] == "token_usage_record").unwrap();
        file.lines[at]["payload"][key] = sums((999, 1));
        let store = read_files(&[&file]);
        assert!(finding(&store, "usage.repeated"), "{key}");
        assert_eq!(traces(&store)[0]["costs"]["tokens"], json!(345));
    }
}

#[test]
fn tokens_in_all_have_no_parts() {
    let total_alone = |all: i64| {
        json!({"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0,
            "reasoning_output_tokens": 0, "total_tokens": all})
    };
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("do it").says("done");
    file.event(
        "token_count",
        json!({"info": {"last_token_usage": total_alone(500), "total_token_usage": total_alone(500)}}),
    );
    file.end("t1", "done").start("t2").user("more").says("again");
    let mut total = sums((100, 10));
    total["total_tokens"] = json!(610);
    file.event(
        "token_count",
        json!({"info": {"last_token_usage": sums((100, 10)), "total_token_usage": total}}),
    );
    // An estimate of a context is no use of tokens: the total stays.
    file.event(
        "token_count",
        json!({"info": {"last_token_usage": total_alone(77), "total_token_usage": total}}),
    );
    file.end("t2", "again");
    let store = read_files(&[&file]);
    let trace = &traces(&store)[0];
    assert_eq!(trace["costs"]["tokens"], json!(610));
    let list = trace["events"].as_array().unwrap();
    let first = list.iter().find(|event| event["tokens"] == json!(500)).unwrap();
    for part in ["tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning"] {
        assert!(first[part].is_null(), "{part}");
    }
    assert!(finding(&store, "usage.unsplit") && !finding(&store, "usage.repeated"));
    assert!(!finding(&read_files(&[&session()]), "usage.unsplit"));
}

/// A text in the name of the user, with what the file says of its parts.
fn named(file: &mut File, text: &str, kinds: &[&str]) {
    let content = json!([{"type": "input_text", "text": text}]);
    let passed = json!({"content_item_kinds": kinds});
    file.item(
        "message",
        json!({"role": "user", "content": content, "internal_chat_message_metadata_passthrough": passed}),
    );
}

fn prompts(trace: &Json) -> usize {
    events(trace).iter().filter(|event| event.contains(" message user ")).count()
}

#[test]
fn kinds_say_whose_a_text_is() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1");
    named(&mut file, "Read this first.", &["hooks.additional_context"]);
    named(&mut file, "<skill> is a tag: why?", &["user.text"]);
    named(&mut file, "Look.", &["environments.environment_context", "user.image"]);
    file.says("well").usage((10, 1), (10, 1)).end("t1", "well");
    let trace = only_trace(&[&file]);
    assert_eq!(prompts(&trace), 2, "{:?}", events(&trace));
    assert_eq!(fates(&read_files(&[&file]))["codex.context"], 1);
}

#[test]
fn without_kinds_the_completed_items_say_it() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1");
    let text = |text: &str| json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
    file.item("message", text("Some context of a new kind."));
    file.item("message", text("do it"));
    let item = json!({"type": "UserMessage", "id": "u", "content": [{"type": "text", "text": "do it"}]});
    file.event("item_completed", json!({"thread_id": ROOT, "item": item}));
    file.says("done").usage((10, 1), (10, 1)).end("t1", "done");
    let trace = only_trace(&[&file]);
    assert_eq!(events(&trace), ["A:5 message user codex", "A:8 return codex user"]);
}

#[test]
fn what_the_harness_says_in_the_users_name_is_no_prompt() {
    for context in [
        "<recommended_plugins>\nnone\n</recommended_plugins>",
        "<codex_internal_context source=\"goal\">x</codex_internal_context>",
        "<goal_context>x</goal_context>",
        "<external_sources>x</external_sources>",
        "The following is the Codex agent history whose request action you are assessing.",
    ] {
        let mut file = File::of(ROOT, json!({}));
        let text = json!({"role": "user", "content": [{"type": "input_text", "text": context}]});
        file.start("t1").item("message", text);
        let text = json!({"role": "user", "content": [{"type": "input_text", "text": "do it"}]});
        file.item("message", text).says("done").usage((10, 1), (10, 1)).end("t1", "done");
        assert_eq!(prompts(&only_trace(&[&file])), 1, "{context}");
    }
}

#[test]
fn a_response_begins_when_the_one_before_has_ended() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("do it");
    for n in 1..=4 {
        file.usage((10 * n, n), (10, 1));
    }
    file.end("t1", "done");
    let trace = only_trace(&[&file]);
    let list = trace["events"].as_array().unwrap();
    let took: Vec<f64> = list.iter().filter_map(|event| event["duration_s"].as_f64()).collect();
    // The first since what the user said, whose echo is a second later; each of the others since the one before, and
    // so the text that the end of the turn has.
    assert_eq!(took, [1.0; 5]);
}
