//! Detection of an input's format from its first records, and the message if no importer matches.

use std::borrow::Cow;

use super::foreign::{self, Foreign};
use super::{Confidence, Format, IMPORTERS, Importer, ImporterInfo, Native, Record};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode, capped};
use crate::json::tree::Tree;
use crate::json::{Cursor, Kind, Limits, Parsed};

/// Records that are looked at.
const LOOKED_AT: usize = 20;

/// A longer record is looked at with its long texts and lists cut short.
const LONG: usize = 1 << 20;

const LIMITS: Limits = Limits { depth: 128, string: usize::MAX, lenient: true };

/// The format of the first records of an input: the first that an importer is sure of for two of up to twenty records,
/// so that an odd first line costs itself alone; else that of the only record or the first one that some importer is
/// sure of; else the tool that wrote one of them, if it is known and not read; else [`unknown`]. Importers are asked in the
/// order of [`IMPORTERS`]. The end of a record may be missing. The path is a hint.
#[must_use]
pub fn detect<'a>(records: impl Iterator<Item = &'a [u8]>, path: &str) -> Format {
    let records: Vec<&[u8]> = records.take(LOOKED_AT).collect();
    detect_sure(records.iter().copied(), path).unwrap_or_else(|| {
        let tool = records.iter().find_map(|record| {
            let text = String::from_utf8_lossy(if record.len() > LONG { &record[..LONG] } else { record });
            foreign::of_record(Tree::head(&text, LIMITS).root())
        });
        tool.map_or_else(unknown, |tool| Format::Whole(tool))
    })
}

/// The same if there is such a record.
pub(crate) fn detect_sure<'a>(records: impl Iterator<Item = &'a [u8]>, path: &str) -> Option<Format> {
    let mut sure: Vec<Format> = Vec::new();
    for record in records.take(LOOKED_AT) {
        // A line that a writer left unfinished may begin with zeros.
        let record = &record[record.iter().take_while(|byte| **byte == 0).count()..];
        let short = if record.len() > LONG { Cow::Owned(shortened(record)) } else { Cow::Borrowed(record) };
        let detected = match simdutf8::basic::from_utf8(&short) {
            Ok(text) => of_record(text, path),
            Err(_) => of_record(&String::from_utf8_lossy(&short), path),
        };
        let Some(detected) = detected else { continue };
        if sure.iter().any(|format| format.info().name == detected.info().name) {
            return Some(detected);
        }
        sure.push(detected);
    }
    sure.first().copied()
}

/// A record without most of its long texts and lists, so that its keys can be looked at in little memory however long
/// it is. Formats are detected by keys, by short texts and by the first elements of lists.
fn shortened(record: &[u8]) -> Vec<u8> {
    /// Bytes of a text, and elements of a list, that are kept.
    const TEXT: usize = 256;
    const ELEMENTS: usize = 16;
    let mut out = Vec::new();
    // Of each open list the elements before the current one; of an object nothing.
    let mut open: Vec<Option<usize>> = Vec::new();
    // How many are open in the list of which the rest is left out.
    let mut hidden = None;
    let mut at = 0;
    while at < record.len() && out.len() < LONG && open.len() <= LIMITS.depth {
        let byte = record[at];
        at += 1;
        match byte {
            b'"' => {
                let text = &record[at..];
                let end = text_end(text);
                at += end.map_or(text.len(), |end| end + 1);
                if hidden.is_none() {
                    let text = &text[..end.unwrap_or(text.len())];
                    out.push(b'"');
                    out.extend_from_slice(if text.len() > TEXT { beginning(&text[..TEXT]) } else { text });
                    out.extend(end.map(|_| b'"'));
                }
                continue;
            }
            b'{' => open.push(None),
            b'[' => open.push(Some(0)),
            b'}' | b']' => {
                if hidden == Some(open.len()) {
                    hidden = None;
                }
                open.pop();
            }
            b',' if hidden.is_none() => {
                let depth = open.len();
                if let Some(Some(before)) = open.last_mut() {
                    *before += 1;
                    if *before == ELEMENTS {
                        hidden = Some(depth);
                    }
                }
            }
            _ => {}
        }
        if hidden.is_none() && !byte.is_ascii_whitespace() {
            out.push(byte);
        }
    }
    out
}

/// Where the text of a string ends that begins here.
fn text_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// A text up to its first escape or a character that is cut.
fn beginning(text: &[u8]) -> &[u8] {
    let text = &text[..memchr::memchr(b'\\', text).unwrap_or(text.len())];
    let cut = text.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
    // The last character is left out if it is of several bytes, whole or not.
    if text.last().is_some_and(|byte| !byte.is_ascii()) { &text[..text.len() - cut - 1] } else { text }
}

fn of_record(text: &str, path: &str) -> Option<Format> {
    let keys = outer_keys(text);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    // Native records, of which there may be a million files, are detected before anything is parsed.
    if Native.sniff(&keys) == Confidence::Yes {
        return Some(IMPORTERS[0]);
    }
    let tree = Tree::head(text, LIMITS);
    let sure = |format: &&Format| {
        let confidence = match format {
            Format::Whole(importer) => importer.recognizes(tree.root(), &keys),
            Format::Spread(importer) => importer.sniff(tree.root(), path),
        };
        confidence == Confidence::Yes
    };
    IMPORTERS.iter().find(sure).copied()
}

/// Keys of the outermost object, as far as the text goes.
pub(crate) fn outer_keys(text: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut cursor = Cursor::new(text, LIMITS);
    let mut scratch = String::new();
    let mut read = || -> Parsed<()> {
        cursor.ws();
        if cursor.kind()? != Kind::Object {
            return Ok(());
        }
        let mut more = cursor.open_object()?;
        while more {
            keys.push(cursor.key()?.text(&mut scratch).to_owned());
            cursor.skip()?;
            more = cursor.more_object()?;
        }
        Ok(())
    };
    // A record that is cut or broken still shows the keys before the break.
    let _broken = read();
    keys
}

/// The importer that rejected records of an input are counted under when no importer recognizes it.
pub const UNKNOWN: &str = "unknown";

/// The format of an input that no importer recognizes. Its records are judged as native ones: perhaps some further on
/// are, and those count as native. A record that has nothing of a native one is rejected with the format that is
/// nearest.
#[must_use]
pub fn unknown() -> Format {
    Format::Whole(&Unread { tool: None })
}

/// An input that no importer reads.
#[derive(Debug)]
pub(super) struct Unread {
    /// What wrote it, if that is known.
    pub tool: Option<Foreign>,
}

static INFO: ImporterInfo = ImporterInfo {
    name: UNKNOWN,
    summary: "Input that no importer recognizes",
    evidence: &[],
    suffixes: &[],
    lenient: false,
};

impl Importer for Unread {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn accepted_as(&self) -> &'static str {
        Native.info().name
    }

    fn sniff(&self, _keys: &[&str]) -> Confidence {
        Confidence::No
    }

    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> Result<(), Reject> {
        Native.record(record, out).map_err(|reject| {
            let of_schema = matches!(
                reject.code,
                RejectCode::FieldMissing | RejectCode::FieldForbidden | RejectCode::FieldType
            );
            let keys = outer_keys(record.text);
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            if !of_schema || keys.is_empty() || Native.sniff(&keys) != Confidence::No {
                return reject;
            }
            let message = self.tool.as_ref().map_or_else(|| unknown_message(&keys), Foreign::message);
            Reject::new(RejectCode::FormatUnknown, "", message)
        })
    }
}

/// What reads a format that no importer knows.
const OWN: &str = "a format of your own needs a mapping file (docs/formats/mapping.md)";

/// What was looked for, and what comes nearest.
fn unknown_message(keys: &[&str]) -> String {
    const SHOWN: usize = 6;
    let listed: Vec<String> = keys.iter().take(SHOWN).map(|k| format!("'{}'", k.escape_debug())).collect();
    let more = if keys.len() > SHOWN { ", …" } else { "" };
    let key_list = capped(format!("{}{more}", listed.join(", ")));
    let (mut best, mut nearest) = (0.0, None);
    for format in IMPORTERS {
        let info = format.info();
        let has: Vec<&str> = info.evidence.iter().copied().filter(|key| keys.contains(key)).collect();
        // A key that half of all formats have is no likeness.
        if has == ["type"] {
            continue;
        }
        let share = has.len() as f64 / info.evidence.len().max(1) as f64;
        if share > best {
            (best, nearest) = (share, Some(info));
        }
    }
    let nearest = nearest.map_or_else(
        || format!("it matches no known format (docs/formats/README.md lists them); {OWN}"),
        |info| {
            let quoted = |has: bool| {
                let keys = info.evidence.iter().filter(|key| keys.contains(*key) == has);
                keys.map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ")
            };
            let (name, lacks) = (info.name, quoted(false));
            // a format that needs what is not there would refuse it, too
            let then = if lacks.is_empty() {
                format!("; if it is, pass format='{name}', else {OWN}")
            } else {
                format!(", but lacks {lacks}; {OWN}")
            };
            format!("looks most like {name}: has {}{then}", quoted(true))
        },
    );
    format!("{nearest}; found the keys {key_list}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::importers::testing::{column, read_bytes};
    use crate::ingest::ReadOptions;

    fn name(records: &[&[u8]]) -> Option<&'static str> {
        detect_sure(records.iter().copied(), "").map(|format| format.info().name)
    }

    #[test]
    fn formats_are_told_by_their_keys() {
        let native: &[u8] =
            br#"{"trace_id":"a","task_id":"b","events":[],"edges":[],"rewards":{},"costs":{}}"#;
        let labeled: &[u8] = br#"{"history":[],"question":"","mistake_agent":"x"}"#;
        let episode: &[u8] = br#"{"id":"e","env":{"id":"v"},"task":{"key":"k"},"traces":[]}"#;
        let bare: &[u8] = br#"{"version":1,"id":"t","task":{"key":"k"},"agent":{"config":{}},"nodes":[]}"#;
        let row: &[u8] = br#"{"id":1,"messages":[{"role":"user","content":"q"}],"resolved":-1}"#;
        let other: &[u8] = br#"{"atof_version":"0.1","kind":"scope","category":"agent","uuid":"u"}"#;
        assert_eq!(name(&[row]), Some("messages"));
        assert_eq!(name(&[other]), None, "a session of a tool that is not read");
        assert_eq!(name(&[labeled]), Some("who_and_when"));
        assert_eq!(name(&[episode]), Some("verifiers"));
        assert_eq!(name(&[bare]), Some("verifiers"));
        let rollout: &[u8] =
            br#"{"responses_create_params":{"input":[]},"response":{"output":[]},"reward":1}"#;
        assert_eq!(name(&[rollout]), Some("nemo_gym"));
        let session: &[u8] = br#"{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}"#;
        let called: &[u8] = br#"{"type":"message","message":{"role":"toolResult","toolCallId":"c"}}"#;
        let exported: &[u8] =
            br#"{"trace":{"id":"t","start_time":"2026-01-01 00:00:00+00:00"},"spans":[],"project_name":"p"}"#;
        assert_eq!(name(&[exported]), Some("opik"));
        let call: &[u8] =
            br#"{"id":"c","op_name":"weave:///t/p/op/f:v0","trace_id":"t","parent_id":null,"started_at":"","inputs":{}}"#;
        assert_eq!(name(&[call]), Some("weave"));
        assert_eq!(name(&[session]), Some("pi"));
        assert_eq!(name(&[br#"{"type":"session","harness":"h","id":"s"}"#]), Some("pi"), "STS");
        assert_eq!(
            name(&[br#"{"type":"message","message":{"role":"user"}}"#, called]),
            Some("pi"),
            "no first line"
        );
        let step: &[u8] = br#"{"id":0,"source":"agent","action":"run","args":{}}"#;
        let run: &[u8] =
            br#"{"instance_id":"i","history":[{"source":"user","observation":"run","extras":{}}]}"#;
        let event: &[u8] = br#"{"kind":"ActionEvent","source":"agent","timestamp":"2026-01-01T00:00:00"}"#;
        let state: &[u8] = br#"{"id":"c","stats":{"usage_to_metrics":{}}}"#;
        for record in [step, run, event, state] {
            assert_eq!(name(&[record]), Some("openhands"));
        }
        let header: &[u8] = br#"{"sessionId":"s","projectHash":"h","startTime":"2026-01-01T00:00:00Z"}"#;
        let answer: &[u8] = br#"{"id":"m","timestamp":"2026-01-01T00:00:00Z","type":"gemini","content":"x"}"#;
        let history: &[u8] = br#"{"history":[{"role":"user","parts":[{"text":"x"}]}],"meta":{"model":"m"}}"#;
        for record in [header, answer, history] {
            assert_eq!(name(&[record]), Some("gemini_cli"));
        }
        let started: &[u8] =
            br#"{"type":"session.start","data":{"sessionId":"s"},"id":"e","timestamp":"2026-01-01T00:00:00Z"}"#;
        assert_eq!(name(&[started]), Some("copilot"));
        let first: &[u8] = br#"{"type":"metadata","protocol_version":"1.4","created_at":1767225600000}"#;
        let state: &[u8] =
            br#"{"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z","agents":{"main":{"type":"main"}}}"#;
        let event: &[u8] =
            br#"{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"a"},"time":1767225600000}"#;
        for record in [first, state, event] {
            assert_eq!(name(&[record]), Some("kimi"));
        }
        for record in [
            r#"{"info":{"id":"s","directory":"/w","time":{"created":1}},"messages":[{"info":{},"parts":[]}]}"#,
            r#"{"id":"s","version":"1","projectID":"p","directory":"/w","time":{"created":1}}"#,
            r#"{"id":"m","sessionID":"s","role":"user","time":{"created":1}}"#,
            r#"{"id":"p","sessionID":"s","messageID":"m","type":"text","text":"x"}"#,
            r#"{"id":"e","type":"session.updated","properties":{"sessionID":"s"}}"#,
            r#"{"type":"step_start","timestamp":1,"sessionID":"s","part":{"type":"step-start"}}"#,
        ] {
            assert_eq!(name(&[record.as_bytes()]), Some("opencode"), "{record}");
        }
        assert_eq!(name(&[br#"{"role":"user","message":{"content":"x"}}"#]), Some("cursor"));
        let start: &[u8] = br#"{"type":"session_start","id":"s","title":"t","cwd":"/w"}"#;
        assert_eq!(name(&[start]), Some("droid"));
        for record in [
            r#"{"id":"s","source":"cli","started_at":1767225600.5,"messages":[]}"#,
            r#"{"session":{"id":"s","source":"tui"},"messages":[]}"#,
            r#"{"id":1,"session_id":"s","role":"user","content":"x","timestamp":1.5}"#,
        ] {
            assert_eq!(name(&[record.as_bytes()]), Some("hermes"), "{record}");
        }
        let line = r#"{"kind":"user","text":"x","captured_at":"2026-01-01T00:00:00Z","source_line_id":"l"}"#;
        assert_eq!(name(&[line.as_bytes()]), Some("letta_code"));
        assert_eq!(name(&[b"noise".as_slice(), native]), Some("native"));
        assert_eq!(name(&[b"noise"]), None);
        assert_eq!(unknown().info().name, "unknown");
    }

    #[test]
    fn an_odd_record_does_not_tell_the_format() {
        let native: &[u8] =
            br#"{"trace_id":"a","task_id":"b","events":[],"edges":[],"rewards":{},"costs":{}}"#;
        let labeled: &[u8] = br#"{"history":[],"question":"","mistake_agent":"x"}"#;
        assert_eq!(name(&[labeled, native, native]), Some("native"));
        assert_eq!(name(&[labeled, b"noise", native, b"{}", native]), Some("native"));
        assert_eq!(name(&[native, labeled, native, labeled]), Some("native"));
        assert_eq!(name(&[labeled, native]), Some("who_and_when"), "one against one");
    }

    #[test]
    fn long_records_are_told_by_what_is_left_of_them() {
        let text = "\u{e4}\\n".repeat(1 << 20);
        let list = vec![format!("{{\"a\":[\"{}\"]}}", "x".repeat(300)); 1 << 13].join(" ,");
        let record =
            format!("{{\"question\": \"{text}\", \"l\":[{list}], \"history\":[], \"mistake_agent\":\"x\"}}");
        assert_eq!(name(&[record.as_bytes()]), Some("who_and_when"));
        assert_eq!(name(&[&record.as_bytes()[..record.len() - 20]]), None, "what tells it is cut off");
        let short = shortened(record.as_bytes());
        assert!(short.len() < 10_000, "{}", short.len());
        let short: serde_json::Value = serde_json::from_slice(&short).unwrap();
        assert_eq!(short["l"].as_array().map(Vec::len), Some(16));
        // However it is cut inside of characters.
        for shift in 0..6 {
            let text = "y".repeat(shift) + &"\u{20ac}\u{1f600}".repeat(100);
            assert!(std::str::from_utf8(&shortened(format!("{{\"a\":\"{text}\"").as_bytes())).is_ok());
        }
        assert!(shortened(&vec![b'['; 1 << 21]).len() < 200, "no deeper than is read");
    }

    #[test]
    fn what_nobody_knows_is_said_with_what_is_nearest() {
        let text = b"{\"history\":[],\"answer\":1}\n{\"zzz\":1}\n{\"trace_id\":\"a\"}\n{}\nnoise\n";
        let store = read_bytes(unknown(), &[("a.jsonl", text)], &ReadOptions::default(), 1);
        let rows = store.combined("quarantine").unwrap();
        let code = rows.column(4).clone();
        let codes: Vec<String> = (0..rows.num_rows())
            .map(|row| crate::store::text_at(&code, row).unwrap_or_default().to_owned())
            .collect();
        assert_eq!(
            codes,
            ["format.unknown", "format.unknown", "field.missing", "field.missing", "json.syntax"]
        );
        let messages = crate::store::text_at(rows.column(6), 0).unwrap_or_default();
        assert!(
            messages.starts_with("looks most like who_and_when: has 'history', but lacks 'mistake_agent'"),
            "{messages}"
        );
        for row in [0, 1] {
            let message = crate::store::text_at(rows.column(6), row).unwrap_or_default();
            assert!(
                message
                    .contains("a format of your own needs a mapping file (docs/formats/mapping.md); found"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_no_importer_recognizes_is_not_called_native() {
        let good = br#"{"trace_id":"a","task_id":"b","events":[{"id":"e","t":0,"type":"message","agent":"x"}],"edges":[],"rewards":{"team":1},"costs":{"tokens":0,"wall_clock_s":0}}"#;
        // The first good record comes too late to detect the format.
        let text = [b"noise\n".repeat(20).as_slice(), good.as_slice(), b"\n"].concat();
        let store = read_bytes(unknown(), &[("a.jsonl", &text)], &ReadOptions::default(), 1);
        assert_eq!(column(&store, "traces", "importer"), ["native"]);
        assert!(column(&store, "quarantine", "importer").iter().all(|name| name == "unknown"));
        let rows = column(&store, "record_counts", "importer");
        let fates = column(&store, "record_counts", "status");
        let row_and_use: Vec<_> =
            rows.iter().zip(&fates).map(|(row, fate)| format!("{row} {fate}")).collect();
        assert_eq!(row_and_use, ["native used", "unknown quarantined"]);
    }
}
