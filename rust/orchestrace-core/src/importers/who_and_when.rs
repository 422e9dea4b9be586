//! Who&When (arXiv 2505.00212): runs that failed, with the agent and the turn that an annotator blames.
//!
//! Two shapes, distinguished by the entries of `history`. In a group chat they carry a `name`; everybody hears
//! everybody, and `Computer_terminal` executes code. In an orchestrated run they carry a `role`, to which the
//! orchestrator adds in parentheses what it does. A turn is an index into `history` and also the time; the k-th
//! event of turn n has the id `n:k`. Texts are hashed, never kept.

use sha2::{Digest, Sha256};

use super::native::{duplicate, empty_string, expect, missing};
use super::{Confidence, Importer, ImporterInfo, KnownBy, Record};
use crate::columns::block::Scratch;
use crate::columns::intern::Interner;
use crate::columns::writer::{Label, TraceWriter};
use crate::error::{FindingCode, Reject, RejectCode};
use crate::json::{Cursor, Fault, Kind, Parsed, Str, write_string};
use crate::schema::MeasureKind;

mod events;
#[cfg(test)]
mod tests;

/// The importer.
#[derive(Debug)]
pub struct WhoAndWhen;

static INFO: ImporterInfo = ImporterInfo {
    name: "who_and_when",
    summary: "Who&When failure attribution (arXiv 2505.00212): one labeled run per file, line or array element",
    evidence: &["history", "mistake_agent"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

impl Importer for WhoAndWhen {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn known_by(&self) -> KnownBy {
        KnownBy::Content
    }

    fn sniff(&self, keys: &[&str]) -> Confidence {
        match INFO.evidence.iter().filter(|k| keys.contains(*k)).count() {
            2 => Confidence::Yes,
            1 => Confidence::Maybe,
            _ => Confidence::No,
        }
    }

    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> Result<(), Reject> {
        let mut cursor = Cursor::new(record.text, out.options.limits);
        // The buffers leave the writer while the record is read, so that both can be borrowed.
        let mut scratch = std::mem::take(&mut out.block.scratch);
        let parsed = document(&mut cursor, out, &mut scratch).and_then(|run| write(&run, record, out));
        out.block.scratch = scratch;
        parsed.map_err(Fault::into_reject)
    }
}

/// What a run says, in the order of its `history`.
#[derive(Debug, Default)]
struct Run {
    file: Option<String>,
    question: Option<String>,
    succeeded: Option<bool>,
    blamed: Option<String>,
    blamed_turn: Option<u32>,
    turns: Vec<Turn>,
    /// Names and roles as written.
    words: Interner,
    /// Whether entries have names, as in a group chat.
    named: bool,
}

/// One entry of `history`; its text is reduced to what the mapping asks of it.
#[derive(Debug)]
struct Turn {
    name: Option<u32>,
    role: Option<u32>,
    content: [u8; 32],
    /// Hash of the call that executes the code blocks of the text, if it has any.
    call: Option<[u8; 32]>,
    /// Whether the executor says that there is nothing to execute.
    idle: bool,
    terminates: bool,
    /// Whether the text begins with an exit code, and whether that is 0.
    exit_ok: Option<bool>,
}

const KEYS: [&str; 7] =
    ["history", "_file", "question_ID", "mistake_agent", "mistake_step", "is_correct", "is_corrected"];

fn document(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<Run> {
    cursor.ws();
    let kind = cursor.kind()?;
    if kind != Kind::Object {
        cursor.skip()?;
        cursor.end()?;
        let message = format!("found {}, expected an object", kind.as_str());
        return Err(Fault::value(RejectCode::RecordNotObject, message));
    }
    let mut run = Run::default();
    let mut seen = 0_u8;
    let mut more = cursor.open_object()?;
    while more {
        let key = cursor.key()?;
        let position = KEYS.iter().position(|k| *k == key.text(&mut scratch.key));
        if let Some(which) = position {
            let name = KEYS[which];
            if seen & (1 << which) != 0 {
                return Err(duplicate(name));
            }
            seen |= 1 << which;
            match name {
                "history" => history(cursor, out, scratch, &mut run),
                "_file" => text(cursor, out, scratch, name).map(|v| run.file = v),
                "question_ID" => text(cursor, out, scratch, name).map(|v| run.question = v),
                "mistake_agent" => text(cursor, out, scratch, name).map(|v| run.blamed = v),
                "mistake_step" => step(cursor, out, scratch).map(|v| run.blamed_turn = v),
                _ => flag(cursor, out, name).map(|v| run.succeeded = run.succeeded.or(v)),
            }
            .map_err(|f| f.under(name))?;
        } else {
            cursor.skip()?;
        }
        more = cursor.more_object()?;
    }
    cursor.end()?;
    if seen & 1 == 0 { Err(missing("history")) } else { Ok(run) }
}

/// A string that can be absent; what is not a string counts as absent.
fn text(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    name: &str,
) -> Parsed<Option<String>> {
    match cursor.kind()? {
        Kind::String => {
            let text = cursor.string()?;
            let text = unescaped(text, scratch, out);
            Ok(Some(text.to_owned()).filter(|t| !t.is_empty()))
        }
        _ => ignored(cursor, out, name, "a string").map(|()| None),
    }
}

/// The blamed turn: the data set writes it as a string, a number is as good.
fn step(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<Option<u32>> {
    let start = cursor.pos();
    let turn = match cursor.kind()? {
        Kind::String => cursor.string()?.text(&mut scratch.text).trim().parse().ok(),
        Kind::Number => cursor.number()?.u63().and_then(|n| u32::try_from(n).ok()),
        _ => None,
    };
    if turn.is_none() {
        cursor.rewind(start);
        ignored(cursor, out, "mistake_step", "the index of a turn")?;
    }
    Ok(turn)
}

fn flag(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, name: &str) -> Parsed<Option<bool>> {
    match cursor.kind()? {
        Kind::Bool => cursor.bool().map(Some),
        _ => ignored(cursor, out, name, "a boolean").map(|()| None),
    }
}

/// Skips a value that the key cannot have; null is the same as no key.
fn ignored(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, name: &str, expected: &str) -> Parsed<()> {
    let kind = cursor.kind()?;
    let (start, end) = cursor.skip()?;
    if kind != Kind::Null {
        let shown: String = cursor.slice(start, end).chars().take(40).collect();
        out.finding(FindingCode::FieldIgnored, None, || {
            format!("'{name}' is {} ({}), expected {expected}", kind.as_str(), shown.escape_debug())
        });
    }
    Ok(())
}

fn history(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    run: &mut Run,
) -> Parsed<()> {
    expect(cursor, Kind::Array)?;
    let mut more = cursor.open_array()?;
    while more {
        let index = run.turns.len();
        let turn = entry(cursor, out, scratch, &mut run.words).map_err(|f| f.at_index(index))?;
        run.named |= turn.name.is_some();
        run.turns.push(turn);
        more = cursor.more_array()?;
    }
    if run.turns.is_empty() {
        return Err(Fault::value(RejectCode::FieldEmpty, "found an empty array, expected at least one turn"));
    }
    // Who speaks is known once it is known which of the two shapes this is.
    let lacks = |t: &Turn| if run.named { t.name.is_none() } else { t.role.is_none() };
    match run.turns.iter().position(lacks) {
        Some(index) => Err(missing(if run.named { "name" } else { "role" }).at_index(index)),
        None => Ok(()),
    }
}

fn entry(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    words: &mut Interner,
) -> Parsed<Turn> {
    const KEYS: [&str; 3] = ["content", "name", "role"];
    expect(cursor, Kind::Object)?;
    let mut seen = 0_u8;
    let mut turn = None;
    let (mut name, mut role) = (None, None);
    let mut more = cursor.open_object()?;
    while more {
        let key = cursor.key()?;
        let position = KEYS.iter().position(|k| *k == key.text(&mut scratch.key));
        let Some(which) = position else {
            cursor.skip()?;
            more = cursor.more_object()?;
            continue;
        };
        let key = KEYS[which];
        if seen & (1 << which) != 0 {
            return Err(duplicate(key));
        }
        seen |= 1 << which;
        if which > 0 && cursor.kind()? == Kind::Null {
            cursor.null()?;
        } else {
            expect(cursor, Kind::String).map_err(|f| f.under(key))?;
            let text = cursor.string().map_err(|f| f.under(key))?;
            let text = unescaped(text, scratch, out);
            match which {
                0 => turn = Some(turn_of_text(text)),
                _ if text.is_empty() => return Err(empty_string().under(key)),
                1 => name = Some(words.code(text)),
                _ => role = Some(words.code(text)),
            }
        }
        more = cursor.more_object()?;
    }
    turn.map(|turn| Turn { name, role, ..turn }).ok_or_else(|| missing("content"))
}

/// The text of a string; a surrogate without its other half has become U+FFFD, which is a finding.
fn unescaped<'s>(text: Str<'s>, scratch: &'s mut Scratch, out: &mut TraceWriter<'_>) -> &'s str {
    let raw = text.raw();
    let text = text.text(&mut scratch.text);
    if text.len() != raw.len() && text.contains('\u{FFFD}') {
        let count = |text: &str| text.matches('\u{FFFD}').count();
        let written = raw
            .match_indices("\\u")
            .filter(|(i, _)| raw.get(i + 2..i + 6).is_some_and(|hex| hex.eq_ignore_ascii_case("fffd")));
        if count(text) > count(raw) + written.count() {
            out.finding(FindingCode::Utf8Replaced, None, || "a lone surrogate was replaced by U+FFFD".into());
        }
    }
    text
}

/// What the mapping asks of a text.
fn turn_of_text(content: &str) -> Turn {
    let exit = content.strip_prefix("exitcode:").map(str::trim_start);
    Turn {
        name: None,
        role: None,
        content: Sha256::digest(content).into(),
        call: content.contains("```").then(|| call_hash(content)),
        idle: content.starts_with("There is no code"),
        terminates: content.contains("TERMINATE"),
        exit_ok: exit.map(|code| code.split(|c: char| c.is_whitespace()).next() == Some("0")),
    }
}

/// Hash of the call as canonical JSON; its argument is the code blocks, language tags left out.
fn call_hash(content: &str) -> [u8; 32] {
    let blocks = content.split("```").skip(1).step_by(2);
    let code: Vec<&str> = blocks.map(|b| b.split_once('\n').map_or(b, |(_, code)| code)).collect();
    let mut call = br#"{"arguments":{"code":"#.to_vec();
    write_string(&code.join("\n"), &mut call);
    call.extend_from_slice(br#"},"name":"python"}"#);
    Sha256::digest(&call).into()
}

/// The trace of a run.
fn write(run: &Run, record: &Record<'_>, out: &mut TraceWriter<'_>) -> Parsed<()> {
    let trace_id = trace_id(run, record.stem);
    out.ids(&trace_id, run.question.as_deref().unwrap_or(&trace_id));
    let (calls, messages) = events::write(run, out).map_err(|f| f.under("history"))?;
    if let Some(succeeded) = run.succeeded {
        out.measure(MeasureKind::Reward, "team", f64::from(u8::from(succeeded)));
    }
    out.measure(MeasureKind::Cost, "tool_calls", f64::from(calls));
    out.measure(MeasureKind::Cost, "messages", f64::from(messages));
    if run.blamed.is_some() || run.blamed_turn.is_some() {
        // All events of a turn are by who speaks in it, so that its first event is the one to name.
        let event =
            run.blamed_turn.filter(|turn| (*turn as usize) < run.turns.len()).map(|turn| format!("{turn}:0"));
        let agent = run.blamed.as_deref();
        let label = Label {
            annotator: INFO.name,
            event_id: event.as_deref(),
            turn: run.blamed_turn,
            agent,
            label: "mistake",
            weight: None,
        };
        out.label(&trace_id, &label);
    }
    Ok(())
}

/// The path that the data set's copies carry in `_file`; without it the file's own name, and the question's
/// because a file may hold many runs.
fn trace_id(run: &Run, stem: &str) -> String {
    match (&run.file, &run.question) {
        (Some(file), _) => file.strip_suffix(".json").unwrap_or(file).to_owned(),
        (None, Some(question)) if stem.is_empty() => question.clone(),
        (None, Some(question)) => format!("{stem}/{question}"),
        (None, None) if stem.is_empty() => "run".to_owned(),
        (None, None) => stem.to_owned(),
    }
}
