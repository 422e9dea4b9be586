//! The vocabulary of invented runs. Literals that end up inside JSON strings are already escaped, the
//! ones of [`NOTES`] on purpose in several spellings, since readers have to accept them all.

/// What an agent is for.
pub(super) const ROLES: [&str; 10] = [
    "lead",
    "planner",
    "executor",
    "critic",
    "researcher",
    "coder",
    "verifier",
    "browser",
    "debater",
    "manager",
];

/// Systems that could have made the recording.
pub(super) const SYSTEMS: [&str; 8] = [
    "illustrative",
    "swarm-lab",
    "deep-research",
    "group-chat",
    "graph-flow",
    "search-mas",
    "système-d’essai",
    "多智能体平台",
];

/// A model and its price in thousandths of a microdollar per token read and written.
pub(super) struct Model {
    pub(super) name: &'static str,
    pub(super) read: u64,
    pub(super) write: u64,
    /// Milliseconds per token written.
    pub(super) pace: u64,
}

/// Models that could have answered.
pub(super) const MODELS: [Model; 5] = [
    Model { name: "large-2026-05", read: 3000, write: 15_000, pace: 16 },
    Model { name: "small-2026-05", read: 250, write: 1250, pace: 6 },
    Model { name: "qwen3-32b", read: 400, write: 1200, pace: 11 },
    Model { name: "llama-3.3-70b-instruct", read: 600, write: 800, pace: 14 },
    Model { name: "mini-reasoner", read: 1100, write: 4400, pace: 9 },
];

/// A tool: whether its results can be trusted, whether it has side effects, how long it takes.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) trusted: bool,
    pub(super) privileged: bool,
    pub(super) median_ms: u64,
}

const fn tool(name: &'static str, trusted: bool, privileged: bool, median_ms: u64) -> Tool {
    Tool { name, trusted, privileged, median_ms }
}

/// Tools, from much to little used.
pub(super) const TOOLS: [Tool; 14] = [
    tool("browser.search", false, false, 850),
    tool("python.exec", true, false, 1200),
    tool("web.fetch", false, false, 1400),
    tool("bash", true, true, 2600),
    tool("file.read", false, false, 35),
    tool("browser.open", false, false, 1900),
    tool("file.write", true, true, 45),
    tool("sql.query", false, false, 240),
    tool("retriever.lookup", false, false, 130),
    tool("calculator", true, false, 4),
    tool("tests.run", true, false, 9000),
    tool("mail.send", true, true, 400),
    tool("mcp__jira__create_issue", false, true, 1100),
    tool("検索.画像", false, false, 2100),
];

/// Actions of an orchestrator, in the order of `p_actions`.
pub(super) const ACTIONS: [&str; 4] = ["spawn", "assign", "aggregate", "work"];

/// Free text as it stands between quotes in the file.
pub(super) const NOTES: [&str; 12] = [
    r#"said \"retry\"\nthen \\stop"#,
    "résumé du plan — étape 2",
    "计划：检索并总结",
    r"tab\tseparated\tcells",
    r"path C:\\tmp\\out.txt",
    "🤖 handoff → 🧠",
    r"escaped pair \ud83e\udd16, escaped \u00e9 and \u8ba1\u5212",
    r"control \u0001, \u001f and \u007f, \b\f\r, slash \/",
    "plain ascii note about the step",
    r"nul \u0000 inside; line\u2028separator",
    "نص من اليمين إلى اليسار",
    "",
];

/// A sentence that long notes repeat.
pub(super) const FILLER: &str =
    r#"The page lists prices in \u20ac and \"quotes\" the table — see ① for the method.\n"#;

/// Nested values of the unknown field `x_span`.
pub(super) const SPANS: [&str; 5] = [
    r#"{"attempt":2,"tags":["retry","tool"],"parent":null}"#,
    r#"{"k\u00e9y":{"deep":[[1,-2.5e-3],[{}],[]],"ok":false},"":"empty key"}"#,
    r#"{"http":{"status":503,"headers":{"retry-after":"1","x":"a\\\"b"}},"big":12345678901234567890}"#,
    r#"{ "spaced" : [ 1 , 2 , { "x" : null } ] , "braces" : "}{][\",:" }"#,
    r#"{"任务":"子任务","emoji":"🧪","e":1e308,"n":-0}"#,
];
