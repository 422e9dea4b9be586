//! What goes wrong: cut lines, tries, copies, size.

use super::*;

fn line(question: &str, content: &str) -> String {
    json!({"history": [{"content": content, "name": "A"}, {"content": "TERMINATE", "name": "B"}],
        "question_ID": question, "mistake_agent": "A", "mistake_step": "0"})
    .to_string()
}

#[test]
fn a_last_line_that_is_cut_costs_itself_alone() {
    let (first, second) = (line("q1", "x"), line("q2", "y"));
    let store = ingest(&format!("{first}\n{}", &second[..second.len() - 1]));
    assert_eq!(rows(&store, "traces", &["trace_id", "partial"]), ["q1 false"]);
    assert_eq!(rows(&store, "quarantine", &["code"]), ["input.truncated"]);
}

#[test]
fn code_that_is_run_again_is_another_call() {
    let store = chat(&[
        ("A", "```python\nprint(1)\n```"),
        ("Computer_terminal", "exitcode: 1 (execution failed)"),
        ("A", "Again:\n```python\nprint(1)\n```"),
        ("Computer_terminal", "exitcode: 0 (execution succeeded)\n1"),
        ("A", "1 TERMINATE"),
    ]);
    assert_eq!(edges(&store, "return"), ["0:1 > 1:0", "2:1 > 3:0"]);
    let calls: Vec<String> = rows(&store, "events", &["type", "content_ref"])
        .into_iter()
        .filter(|row| row.starts_with("tool_call"))
        .collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0], calls[1], "one call, made twice");
    let ok: Vec<String> = rows(&store, "events", &["type", "ok"]);
    assert_eq!([&ok[2], &ok[5]], ["tool_result false", "tool_result true"]);
}

#[test]
fn a_run_that_comes_twice_counts_once_and_another_of_its_name_is_told() {
    let (one, other) = (line("q1", "x"), line("q1", "y"));
    let store = ingest(&format!("{one}\n{other}\n {one}\n"));
    assert_eq!(rows(&store, "traces", &["trace", "trace_id"]), ["0 q1", "1 q1"]);
    assert_eq!(rows(&store, "findings", &["trace", "code"]), ["1 trace.id_reused"]);
}

#[test]
fn a_line_of_five_megabytes() {
    let long = "x".repeat(5 << 20);
    let store = ingest(&format!("{}\n", line("q1", &long)));
    let digest = Sha256::digest(&long);
    let hex: String = digest.iter().fold(String::new(), |out, byte| out + &format!("{byte:02x}"));
    assert_eq!(rows(&store, "events", &["content_ref"])[0], format!("sha256:{hex}"));
}
