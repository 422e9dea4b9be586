//! What goes wrong: tries.

use super::*;

#[test]
fn a_tool_tried_again_is_two_calls() {
    let mut broken = tool("", 1, 2, "c1", "fetch", "");
    broken["error"] = json!({"type": "timeout", "message": "late"});
    let trace = of(vec![
        model("", 0, 1, "", &["c1:fetch"]),
        broken,
        model("", 3, 4, "", &["c2:fetch"]),
        tool("", 4, 6, "c2", "fetch", "got it"),
        model("", 7, 8, "done", &[]),
    ]);
    assert_eq!(
        events(&trace),
        [
            "input0 message user main",
            "c1 tool_call main -",
            "c1:r tool_result fetch -",
            "c2 tool_call main -",
            "c2:r tool_result fetch -",
            "e4 return main user",
        ]
    );
    let drawn = edges(&trace);
    for edge in ["c1 return c1:r", "c1:r causal c2", "c2 return c2:r", "c2:r causal e4"] {
        assert!(drawn.contains(edge), "{edge} of {drawn:?}");
    }
    let ok = |id: &str| event(&trace, id)["ok"].as_bool();
    assert_eq!((ok("c1:r"), ok("c2:r")), (Some(false), Some(true)));
    assert_eq!(event(&trace, "c1")["content_ref"], event(&trace, "c2")["content_ref"]);
    assert_eq!(trace["costs"]["tool_calls"].as_i64(), Some(2));
}
