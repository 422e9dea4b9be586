//! Formats by cases: `data/cases/<format>/<case>.txt` has inputs, each followed by what they have to become. The file is
//! named as the defect or the promise that it holds; `ORCHESTRACE_GOLDEN=write` writes what follows the inputs anew,
//! for a review of the difference.
//!
//! Lines that begin with `# ` say what the case is about. `--- name` begins an input, `--- name cut` one without the
//! end of its last line; several inputs are read together. `===` ends them, and the tables follow up to the next input.
//! `=== as the first` promises the traces of the first tables, which are not written once more; `=== inputs` asks for
//! no more than how sure the format is of its inputs, and what became of their records.

use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use orchestrace_core::importers::{
    AgentDojo, AgentLightning, Atif, Copilot, Cursor, Droid, Format, GeminiCli, Hermes, IMPORTERS, Inspect,
    Kimi, LangSmith, Langfuse, LettaCode, NemoGym, OpenAiAgents, OpenCode, OpenHands, Opik, Pi, QwenCode,
    SpreadImporter, SweAgent, TauBench, Verifiers, Weave,
};
use orchestrace_core::ingest::ReadOptions;
use orchestrace_core::store::Store;
use serde_json::Value;

use super::golden::cell;
use crate::importers::testing::{
    column, content_ref, documents, event, fates, holds_up, only, read_bytes, read_checked, read_texts,
    traces,
};
use crate::json::Limits;
use crate::json::tree::Tree;

/// Columns of traces that say where a record lies, or that count the rows below.
const PLACES: &[&str] =
    &["trace", "importer", "file", "line", "offset", "length", "n_events", "n_edges", "n_agents"];

/// A cell without quotes, where that is no other text; of a hash its beginning.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() == 71 && text.starts_with("sha256:") => text[..15].into(),
        Value::String(text)
            if !text.is_empty() && !text.contains(|c: char| " \"=>".contains(c) || c.is_control()) =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}

/// The rows of a table: names and values of the cells that are not null.
fn rows(store: &Store, table: &str) -> Vec<Vec<(String, Value)>> {
    let batch: RecordBatch = store.combined(table).unwrap();
    let schema = batch.schema();
    let row = |row: usize| {
        let cells = schema.fields().iter().zip(batch.columns());
        cells.filter_map(|(field, column)| Some((field.name().clone(), cell(column, row)?))).collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The value of a column in a row.
fn at<'a>(row: &'a [(String, Value)], name: &str) -> &'a Value {
    row.iter().find(|(key, _)| key == name).map_or(&Value::Null, |(_, value)| value)
}

/// The cells of a row as `name=value`, without some columns; extra members lie open.
fn cells(row: &[(String, Value)], without: &[&str]) -> String {
    let mut out = String::new();
    for (name, value) in row.iter().filter(|(name, _)| !without.contains(&name.as_str())) {
        let extras = (name == "extras").then(|| serde_json::from_str(value.as_str().unwrap()).unwrap());
        if let Some(Value::Object(members)) = extras {
            for (key, member) in members {
                write!(out, " {key}={}", plain(&member)).unwrap();
            }
        } else {
            write!(out, " {name}={}", plain(value)).unwrap();
        }
    }
    out
}

/// Rows of one kind in one line: `title word word …`, in the order in which the titles come first.
fn gathered(words: impl Iterator<Item = (String, String)>) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (title, word) in words {
        match lines.iter_mut().find(|line| line.0 == title) {
            Some(line) => line.1.extend([" ", &word]),
            None => lines.push((title, word)),
        }
    }
    lines.into_iter().flat_map(|(title, words)| [title, " ".into(), words, "\n".into()]).collect()
}

/// The tables of traces: each trace with its agents, events, edges, measures and findings.
fn of_traces(store: &Store) -> String {
    let mut out = String::new();
    let [agents, events, edges, measures, findings] =
        ["agents", "events", "edges", "measures", "findings"].map(|table| rows(store, table));
    for trace in rows(store, "traces") {
        let of = |table: &'_ [Vec<(String, Value)>]| -> Vec<Vec<(String, Value)>> {
            table.iter().filter(|row| at(row, "trace") == at(&trace, "trace")).cloned().collect()
        };
        let word = |row: &[(String, Value)], names: &[&str]| {
            names.iter().map(|name| plain(at(row, name))).collect::<Vec<_>>()
        };
        writeln!(out, "trace{}", cells(&trace, PLACES)).unwrap();
        for row in of(&events) {
            let lead = word(&row, &["seq", "id", "type", "agent"]).join(" ");
            writeln!(out, "{lead}{}", cells(&row, &["trace", "seq", "id", "type", "agent"])).unwrap();
        }
        out += &gathered(of(&edges).iter().map(|row| {
            let more = cells(row, &["trace", "src", "dst", "type"]).replace(' ', ",");
            (plain(at(row, "type")), format!("{}{more}", word(row, &["src", "dst"]).join(">")))
        }));
        out += &gathered(
            of(&measures).iter().map(|row| (plain(at(row, "kind")), word(row, &["name", "value"]).join("="))),
        );
        out += &gathered(of(&agents).iter().map(|row| {
            let more =
                cells(row, &["trace", "agent", "first_seq", "n_events"]).trim_start().replace(' ', ",");
            ("agents".into(), format!("{}({more})", plain(at(row, "agent"))))
        }));
        for row in of(&findings) {
            writeln!(out, "finding{}", cells(&row, &["trace"])).unwrap();
        }
    }
    out
}

/// Labels and rejects.
fn of_records(store: &Store) -> String {
    let mut out = String::new();
    for row in rows(store, "labels") {
        writeln!(out, "label{}", cells(&row, &[])).unwrap();
    }
    for row in rows(store, "quarantine") {
        writeln!(out, "reject{}", cells(&row, &["importer", "excerpt"])).unwrap();
    }
    out
}

/// How sure the format is of the beginning of each input, and what became of its records.
fn of_inputs(store: &Store, inputs: &[(&str, &[u8])], format: Format) -> String {
    let counts = rows(store, "record_counts");
    let line = |(name, bytes): &(&str, &[u8])| {
        let text = String::from_utf8_lossy(bytes);
        let tree = Tree::head(&text, Limits { depth: 64, string: 1 << 20, lenient: true });
        let sure = match format {
            Format::Spread(importer) => importer.sniff(tree.root(), name),
            Format::Whole(importer) => {
                let keys: Vec<&str> = tree.root().members().map(|(key, _)| key).collect();
                importer.recognizes(tree.root(), &keys)
            }
        };
        let counts = counts.iter().filter(|row| at(row, "file") == name).map(|row| {
            let kind = row.iter().rfind(|(key, _)| key == "kind" || key == "status");
            format!(" {}={}", plain(&kind.unwrap().1), at(row, "count"))
        });
        format!("input {name} {sure:?}{}\n", counts.collect::<String>())
    };
    inputs.iter().map(line).collect()
}

/// A case with what its inputs become instead of what it expects.
fn read(text: &str, format: Format) -> String {
    let (mut out, mut inputs, mut first) = (String::new(), Vec::<(&str, Vec<u8>)>::new(), None);
    let mut cut = false;
    let mut expected = true;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("--- ") {
            if expected {
                inputs.clear();
            }
            expected = false;
            cut = name.ends_with(" cut");
            inputs.push((name.trim_end_matches(" cut"), Vec::new()));
        } else if line.starts_with("===") {
            if cut {
                inputs.last_mut().unwrap().1.pop();
            }
            expected = true;
            let inputs: Vec<(&str, &[u8])> = inputs.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
            let store = read_bytes(format, &inputs, &ReadOptions::default(), 1);
            let documents = traces(&store);
            let first = first.get_or_insert_with(|| documents.clone());
            let again = line == "=== as the first";
            assert!(!again || *first == documents, "not as the first:\n{}", of_traces(&store));
            let tables = match line {
                "===" => of_traces(&store) + &of_records(&store),
                "=== as the first" => of_records(&store),
                "=== inputs" => String::new(),
                _ => panic!("{line}"),
            };
            writeln!(out, "{line}\n{}", (tables + &of_inputs(&store, &inputs, format)).trim_end()).unwrap();
            continue;
        } else if !expected {
            let bytes = &mut inputs.last_mut().unwrap().1;
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        } else if !line.starts_with('#') {
            continue;
        }
        writeln!(out, "{line}").unwrap();
    }
    assert!(expected && first.is_some(), "a case ends with what its inputs become");
    out
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/cases")
}

fn within(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn inputs_of_cases_become_what_follows_them() {
    let write = std::env::var("ORCHESTRACE_GOLDEN").is_ok_and(|v| v == "write");
    let mut wrong = Vec::new();
    for folder in within(&root()) {
        let name = folder.file_name().unwrap();
        let format = IMPORTERS.iter().find(|format| name == format.info().name);
        let format = *format.unwrap_or_else(|| panic!("no format has the name of {}", folder.display()));
        for case in within(&folder) {
            let text = fs::read_to_string(&case).unwrap();
            let Ok(now) = catch_unwind(AssertUnwindSafe(|| read(&text, format))) else {
                wrong.push(format!("{} panics, as said above", case.display()));
                continue;
            };
            if write {
                fs::write(&case, &now).unwrap();
            } else if now != text {
                let differs = now.lines().zip(text.lines()).find(|(now, before)| now != before);
                wrong.push(format!("{}: now, before, {differs:#?} in\n{now}", case.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Formats that record spans a line, each with a case whose first input shows most of it.
const SPANS: [(&dyn SpreadImporter, &str); 6] = [
    (&AgentLightning, "the_last_reward_is_the_teams_and_earlier_ones_are_of_answers"),
    (&LangSmith, "a_graph_of_one_agent_is_that_agent"),
    (&Langfuse, "pages_and_lines_give_the_same_trace"),
    (&Opik, "an_export_gives_the_trace_of_its_spans"),
    (&Weave, "a_list_and_lines_give_the_same_trace"),
    (&OpenAiAgents, "a_handoff_is_a_decision_and_a_message_to_who_stands_beside"),
];

/// A case of these formats, which begins with a document of one run.
const ATIF: (&dyn SpreadImporter, &str) = (&Atif, "a_step_is_a_response_with_its_results");
const DOJO: (&dyn SpreadImporter, &str) = (&AgentDojo, "a_run_becomes_a_trace");
const INSPECT: (&dyn SpreadImporter, &str) = (&Inspect, "agents_that_tools_ask_are_spawned_by_the_call");
const SWE: (&dyn SpreadImporter, &str) = (&SweAgent, "steps_are_answers_commands_and_what_they_print");
const TAU: (&dyn SpreadImporter, &str) =
    (&TauBench, "a_trajectory_becomes_a_trace_whose_turns_are_its_messages");
const VERIFIERS: (&dyn SpreadImporter, &str) = (&Verifiers, "a_run_of_one_agent_has_no_environment");
const NEMO: (&dyn SpreadImporter, &str) = (&NemoGym, "a_rollout_becomes_a_trace");
const HANDS: (&dyn SpreadImporter, &str) = (&OpenHands, "a_response_of_several_actions_is_paid_once");
/// Its events a line: as V0 and V1 write them.
const LINES_OF_HANDS: [&str; 2] = ["events_in_lines_and_in_any_order", "a_conversation_in_one_file"];

const GEMINI: (&dyn SpreadImporter, &str) = (&GeminiCli, "a_session_in_lines_becomes_a_trace");
const COPILOT: (&dyn SpreadImporter, &str) = (&Copilot, "a_session_becomes_a_trace");
const KIMI: (&dyn SpreadImporter, &str) = (&Kimi, "a_session_becomes_a_trace");
const OPENCODE: (&dyn SpreadImporter, &str) = (&OpenCode, "a_session_in_one_document_becomes_a_trace");
const CURSOR: (&dyn SpreadImporter, &str) = (&Cursor, "a_transcript_becomes_a_trace");
const DROID: (&dyn SpreadImporter, &str) = (&Droid, "a_session_becomes_a_trace");
const HERMES: (&dyn SpreadImporter, &str) = (&Hermes, "a_session_becomes_a_trace");
const LETTA: (&dyn SpreadImporter, &str) = (&LettaCode, "a_transcript_becomes_a_trace");
const PI: (&dyn SpreadImporter, &str) = (&Pi, "a_session_becomes_a_trace");
const QWEN: (&dyn SpreadImporter, &str) = (&QwenCode, "a_session_becomes_a_trace");

/// The first input of a case.
pub(crate) fn first_input(importer: &dyn SpreadImporter, case: &str) -> String {
    let path = root().join(importer.info().name).join(case).with_extension("txt");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().skip_while(|line| !line.starts_with("--- ")).skip(1);
    lines.take_while(|line| !line.starts_with("===")).flat_map(|line| [line, "\n"]).collect()
}

/// All inputs that a case begins with: their paths and their texts.
pub(crate) fn inputs_of(importer: &dyn SpreadImporter, case: &str) -> Vec<(String, String)> {
    let path = root().join(importer.info().name).join(case).with_extension("txt");
    let text = fs::read_to_string(path).unwrap();
    let mut inputs: Vec<(String, String)> = Vec::new();
    for line in text.lines().take_while(|line| !line.starts_with("===")) {
        if let Some(name) = line.strip_prefix("--- ") {
            inputs.push((name.to_owned(), String::new()));
        } else if let Some((_, text)) = inputs.last_mut() {
            text.extend([line, "\n"]);
        }
    }
    inputs
}

/// The same in one line.
fn in_one_line((importer, case): (&dyn SpreadImporter, &str)) -> String {
    serde_json::from_str::<Value>(&first_input(importer, case)).unwrap().to_string()
}

#[test]
fn any_prefix_and_any_order_will_do() {
    for (importer, case) in SPANS {
        holds_up(|inputs| read_checked(importer, inputs), &first_input(importer, case));
    }
}

#[test]
fn any_prefix_gives_the_runs_that_it_has_whole() {
    let injected = "an_injection_that_is_read_is_seen_and_its_values_are_followed";
    let runs = format!("{}\n{}", in_one_line(DOJO), in_one_line((&AgentDojo, injected)));
    let episodes = first_input(VERIFIERS.0, "advantages_that_are_absent_and_those_that_are_zero");
    let tasks = first_input(TAU.0, "two_runs_of_two_tasks");
    let rollouts = first_input(NEMO.0, "the_environment_speaks_in_the_name_of_the_user");
    let lines = first_input(HANDS.0, "prices_without_responses").trim_end().to_owned();
    for (importer, text) in
        [(DOJO.0, runs), (TAU.0, tasks), (VERIFIERS.0, episodes), (NEMO.0, rollouts), (HANDS.0, lines)]
    {
        let read = |text: &str| documents(&read_texts(importer, &[("a.json", text)]));
        let all = read(&text);
        assert_eq!(all.len(), 2);
        for end in (0..text.len()).step_by(17) {
            let some = read(&text[..end]);
            assert!(some.len() < 2 && some[..] == all[..some.len()], "{end} of {}", importer.info().name);
        }
    }
}

#[test]
fn any_prefix_of_events_will_do_and_their_numbers_are_their_order() {
    for case in LINES_OF_HANDS {
        let text = first_input(HANDS.0, case);
        for end in (0..text.len()).step_by(7) {
            read_checked(HANDS.0, &[("x.jsonl", &text[..end])]);
        }
    }
    let text = first_input(HANDS.0, LINES_OF_HANDS[0]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.reverse();
    let read = |text: &str| documents(&read_texts(HANDS.0, &[("x.jsonl", text)]));
    assert_eq!(read(&text), read(&lines.join("\n")));
}

/// Formats of small tools, each with a case of several files.
const TALKS: [(&dyn SpreadImporter, &str); 5] = [
    (&Cursor, "sub_agents_lie_beside_who_asked_them"),
    (&Cursor, "calls_with_ids_and_results_in_any_order"),
    (&Droid, "sub_agents_name_the_call_that_asked_them"),
    (&Droid, "agents_of_agents"),
    (&LettaCode, "calls_that_failed_or_have_not_ended"),
];

#[test]
fn any_prefix_of_a_conversation_gives_what_it_has() {
    let n_lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    for (importer, case) in TALKS {
        let files = inputs_of(importer, case);
        for cut in 0..files.len() {
            for end in (0..files[cut].1.len()).step_by(11) {
                let mut inputs: Vec<(&str, &str)> =
                    files.iter().map(|(path, text)| (&**path, &**text)).collect();
                inputs[cut].1 = &inputs[cut].1[..end];
                let store = read_checked(importer, &inputs);
                let all: u64 = inputs.iter().map(|(_, text)| n_lines(text)).sum();
                assert_eq!(fates(&store).values().sum::<u64>(), all, "{end} of {} in {case}", files[cut].0);
            }
        }
    }
}

#[test]
fn no_order_of_files_decides_what_a_conversation_is() {
    for (importer, case) in TALKS {
        let files = inputs_of(importer, case);
        let read = |inputs: &[(&str, &[u8])], threads| {
            documents(&read_bytes(Format::Spread(importer), inputs, &ReadOptions::default(), threads))
        };
        let mut inputs: Vec<(&str, &[u8])> =
            files.iter().map(|(path, text)| (&**path, text.as_bytes())).collect();
        let first = read(&inputs, 1);
        for threads in [1, 2, 7] {
            for _ in &files {
                inputs.rotate_left(1);
                assert_eq!(read(&inputs, threads), first, "{case} on {threads} threads");
            }
            inputs.reverse();
        }
        let doubled: Vec<(&str, &[u8])> = inputs.iter().chain(&inputs).copied().collect();
        assert_eq!(read(&doubled, 2), first, "{case}, each file twice");
    }
}

#[test]
fn a_document_that_is_cut_is_no_trace() {
    for run in [ATIF, INSPECT, SWE, VERIFIERS, NEMO, HANDS, OPENCODE] {
        let text = in_one_line(run);
        for cut in (1..text.len()).step_by(17) {
            let store = read_texts(run.0, &[("a.json", &text[..cut])]);
            assert_eq!((store.n_traces(), store.records_quarantined()), (0, 1), "{cut} of {}", run.1);
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let runs = [
        (INSPECT, "quiz"),
        (DOJO, "pay the"),
        (VERIFIERS, "I compute"),
        (NEMO, "I compute"),
        (HANDS, "Both are"),
        (PI, "It is"),
        (GEMINI, "It is"),
        (QWEN, "It says"),
        (COPILOT, "It is"),
        (KIMI, "It is"),
        (OPENCODE, "It is"),
        (CURSOR, "It is"),
        (DROID, "It is"),
        (HERMES, "It is"),
        (LETTA, "It is"),
    ];
    for (run, word) in runs {
        let mut bytes = first_input(run.0, run.1).into_bytes();
        let at = bytes.windows(word.len()).position(|window| window == word.as_bytes()).unwrap();
        bytes[at + 1] = 0xff;
        let store = read_bytes(Format::Spread(run.0), &[("a.json", &bytes)], &ReadOptions::default(), 2);
        assert_eq!((store.n_traces(), store.records_quarantined()), (1, 0));
        assert!(column(&store, "findings", "code").contains(&"utf8.replaced".to_owned()), "{word}");
        if word == "quiz" {
            assert_eq!(documents(&store)[0]["task_id"], "q\u{fffd}iz/1");
        }
    }
}

#[test]
fn a_line_of_five_megabytes() {
    let long = "x".repeat(5 << 20);
    let runs = [
        (ATIF, "looking", "s1:3"),
        (DOJO, "Bill: 5", "a:r"),
        (INSPECT, "deep", "e19"),
        (SWE, "Done.", "s1"),
        (TAU, "there is C", "8"),
        (VERIFIERS, "I compute.", "a1:2"),
        (NEMO, "I compute.", "1"),
        (PI, "It is 3.", "main:5"),
        (HANDS, "Both are done.", "5"),
        ((HANDS.0, LINES_OF_HANDS[1]), "Yes.", "e8"),
        (GEMINI, "It is 3.", "a2"),
        (QWEN, "It says three.", "a4"),
        (COPILOT, "It is 3.", "e8"),
        (KIMI, "It is 3.", "s2"),
        (OPENCODE, "It is 3.", "a2"),
        (CURSOR, "It is 3.", "main:3"),
        (DROID, "It is 3.", "m4"),
        (HERMES, "It is 3.", "4"),
        (LETTA, "It is 3.", "l4"),
    ];
    let spans = SPANS.map(|(importer, _)| ((importer, "times_that_are_missing"), "three", "b3"));
    for ((importer, case), word, id) in runs.into_iter().chain(spans) {
        let text = first_input(importer, case).replace(word, &long);
        let trace = only(&read_texts(importer, &[("x.json", &text)]));
        assert_eq!(event(&trace, id)["content_ref"], content_ref(&long), "{}", importer.info().name);
    }
}
