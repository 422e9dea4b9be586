//! What the outermost members of a line say about where it belongs: all that is asked of most lines.

use std::borrow::Cow;

use crate::error::RejectCode;
use crate::ingest::json::{Cursor, Fault, Kind, Limits, Parsed};

use super::record::FIELDS;

/// Outermost members of a line, as far as they were read.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // members that count by being there
pub(super) struct Head<'a> {
    pub kind: Option<Cow<'a, str>>,
    pub subtype: Option<Cow<'a, str>>,
    pub session: Option<Cow<'a, str>>,
    pub agent: Option<Cow<'a, str>>,
    pub uuid: Option<Cow<'a, str>>,
    /// The record before it; where the context was compacted, the one before that.
    pub parent: Option<Cow<'a, str>>,
    /// Type of what a progress or attachment record carries.
    pub inner: Option<Cow<'a, str>>,
    pub message: Option<Kind>,
    /// Whether a hook kept the agent from going on.
    pub prevented: bool,
    pub agent_type: bool,
    pub key: bool,
    /// Long values that no rule reads: what a model thought, and what the program keeps of a result beside its text.
    pub unread: Vec<&'a str>,
    /// Members that no rule reads, each with the comma behind it: where the program ran, its version, whose session.
    pub unused: Vec<&'a str>,
}

/// What is read of what the program keeps of a result.
const KEPT: [&str; 8] = [
    "agentId",
    "agentType",
    "durationMs",
    "runId",
    "status",
    "totalDurationMs",
    "totalTokens",
    "totalToolUseCount",
];

/// How the program says that the user refused, in place of a result.
const REFUSED: &str = "\"User rejected";

impl<'a> Head<'a> {
    /// Reads a line to its end; what a broken one says before the break is kept.
    pub(super) fn read(&mut self, text: &'a str, limits: Limits) -> Parsed<()> {
        let mut cursor = Cursor::new(text, limits);
        cursor.ws();
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            cursor.skip()?;
            cursor.end()?;
            let message = format!("found {}, expected an object", kind.as_str());
            return Err(Fault::value(RejectCode::RecordNotObject, message));
        }
        let mut more = cursor.open_object()?;
        // Where what is not used began, if that is what came last.
        let mut unused = None;
        while more {
            let start = cursor.pos();
            let key = cursor.key_text()?;
            match key {
                "type" => self.kind = string(&mut cursor)?,
                "subtype" => self.subtype = string(&mut cursor)?,
                "sessionId" => self.session = string(&mut cursor)?,
                "agentId" => self.agent = string(&mut cursor)?,
                "uuid" => self.uuid = string(&mut cursor)?,
                "parentUuid" => self.parent = string(&mut cursor)?.or(self.parent.take()),
                "logicalParentUuid" => self.parent = self.parent.take().or(string(&mut cursor)?),
                "data" | "attachment" => {
                    let (start, end) = cursor.skip()?;
                    self.inner = inner_type(cursor.slice(start, end), limits);
                }
                "message" => {
                    self.message = Some(cursor.kind()?);
                    self.message(&mut cursor)?;
                }
                "toolUseResult" => self.result(&mut cursor)?,
                "preventedContinuation" => {
                    let (start, end) = cursor.skip()?;
                    self.prevented = cursor.slice(start, end) == "true";
                }
                "agentType" => {
                    self.agent_type = true;
                    cursor.skip()?;
                }
                "key" => {
                    self.key = true;
                    cursor.skip()?;
                }
                _ => {
                    cursor.skip()?;
                }
            }
            more = cursor.more_object()?;
            // A key with an escape may be any.
            match (FIELDS.contains(key) || key.contains('\\'), unused) {
                (false, None) if more => unused = Some(start),
                (true, Some(from)) => {
                    self.unused.push(cursor.slice(from, start));
                    unused = None;
                }
                _ => {}
            }
            if let (false, Some(from)) = (more, unused) {
                // The last member has no comma behind it, and stays.
                self.unused.push(cursor.slice(from, start));
            }
        }
        cursor.end()
    }

    fn message(&mut self, cursor: &mut Cursor<'a>) -> Parsed<()> {
        if !cursor.at(b'{') {
            return cursor.skip().map(drop);
        }
        let mut more = cursor.open_object()?;
        while more {
            if cursor.key_text()? == "content" && cursor.at(b'[') {
                let mut another = cursor.open_array()?;
                while another {
                    self.unread_of(cursor, |key| matches!(key, "thinking" | "signature"))?;
                    another = cursor.more_array()?;
                }
            } else {
                cursor.skip()?;
            }
            more = cursor.more_object()?;
        }
        Ok(())
    }

    fn result(&mut self, cursor: &mut Cursor<'a>) -> Parsed<()> {
        if cursor.at(b'{') {
            return self.unread_of(cursor, |key| !KEPT.contains(&key));
        }
        let (start, end) = cursor.skip()?;
        let value = cursor.slice(start, end);
        if !value.starts_with(REFUSED) {
            self.unread.push(value);
        }
        Ok(())
    }

    /// Goes over a value; if it is an object, the members that nobody reads are noted.
    fn unread_of(&mut self, cursor: &mut Cursor<'a>, nobody: impl Fn(&str) -> bool) -> Parsed<()> {
        if !cursor.at(b'{') {
            return cursor.skip().map(drop);
        }
        let mut more = cursor.open_object()?;
        while more {
            let unread = nobody(cursor.key_text()?);
            let (start, end) = cursor.skip()?;
            if unread {
                self.unread.push(cursor.slice(start, end));
            }
            more = cursor.more_object()?;
        }
        Ok(())
    }
}

/// A string; anything else counts as nothing.
fn string<'a>(cursor: &mut Cursor<'a>) -> Parsed<Option<Cow<'a, str>>> {
    if let Some(text) = cursor.plain_text() {
        return Ok(Some(Cow::Borrowed(text)));
    }
    if cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(None);
    }
    let string = cursor.string()?;
    if string.is_escaped() {
        let mut text = String::new();
        return Ok(Some(Cow::Owned(string.text(&mut text).to_owned())));
    }
    Ok(Some(Cow::Borrowed(string.raw())))
}

/// The `type` of an object.
fn inner_type(text: &str, limits: Limits) -> Option<Cow<'_, str>> {
    let mut cursor = Cursor::new(text, limits);
    if cursor.kind().ok()? != Kind::Object {
        return None;
    }
    let mut more = cursor.open_object().ok()?;
    while more {
        if cursor.key().ok()?.raw() == "type" {
            return string(&mut cursor).ok()?;
        }
        cursor.skip().ok()?;
        more = cursor.more_object().ok()?;
    }
    None
}
