use super::AgentRx;
use crate::importers::testing::{column, read_texts};

#[test]
fn a_line_of_five_megabytes() {
    let run = format!(
        r#"{{"trajectory_id": "q", "failure_summary": "{}",
            "failures": [{{"failure_id": 1, "step_number": 2, "failed_agent": "A"}}],
            "root_cause": {{"failure_id": 1}}}}"#,
        "x".repeat(5 << 20)
    );
    let store = read_texts(&AgentRx, &[("a.jsonl", &run.replace('\n', ""))]);
    assert_eq!(column(&store, "labels", "agent"), ["A", "A"]);
    assert_eq!(column(&store, "labels", "annotator"), ["agentrx", "agentrx.root_cause"]);
    assert_eq!(store.records_quarantined(), 0);
}
