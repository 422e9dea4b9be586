//! The outermost members of a line, which place most lines.

use std::borrow::Cow;

use crate::error::RejectCode;
use crate::importers::LeftOut;
use crate::json::keys::{Keys, Meanings};
use crate::json::{Cursor, Fault, Kind, Limits, Parsed};

use super::content::{KEPT, TEAM};
use super::repeated::{self, Begun};

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
    /// Id of the message, and of the request that it answers.
    pub message_id: Option<Cow<'a, str>>,
    pub request: Option<Cow<'a, str>>,
    pub time: Option<Cow<'a, str>>,
    /// The session of a line that the program printed.
    pub printed: Option<Cow<'a, str>>,
    /// Whether it repeats a record of the conversation that this one was forked from, and the session of that.
    pub forked: bool,
    pub forked_from: Option<Cow<'a, str>>,
    /// Whether a hook kept the agent from going on.
    pub prevented: bool,
    pub agent_type: bool,
    pub key: bool,
    /// The team that the line, or the result in it, names.
    pub team: Option<Cow<'a, str>>,
}

/// An outermost member that some rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Kind,
    Subtype,
    Session,
    Agent,
    Uuid,
    Parent,
    ParentBefore,
    Carried,
    Message,
    Result,
    Prevented,
    AgentType,
    Key,
    Team,
    Request,
    Time,
    Forked,
    Printed,
    /// Read when its trace is made.
    Later,
}

static MEMBERS: Meanings<Member, 27> = Meanings::new([
    ("type", Member::Kind),
    ("subtype", Member::Subtype),
    ("sessionId", Member::Session),
    ("agentId", Member::Agent),
    ("uuid", Member::Uuid),
    ("parentUuid", Member::Parent),
    ("logicalParentUuid", Member::ParentBefore),
    ("data", Member::Carried),
    ("attachment", Member::Carried),
    ("message", Member::Message),
    ("toolUseResult", Member::Result),
    ("preventedContinuation", Member::Prevented),
    ("agentType", Member::AgentType),
    ("key", Member::Key),
    ("timestamp", Member::Time),
    ("requestId", Member::Request),
    ("request_id", Member::Request),
    ("forkedFrom", Member::Forked),
    ("session_id", Member::Printed),
    ("isMeta", Member::Later),
    ("isCompactSummary", Member::Later),
    ("costUSD", Member::Later),
    ("attributionAgent", Member::Later),
    ("isApiErrorMessage", Member::Later),
    ("isSidechain", Member::Later),
    ("teamName", Member::Team),
    ("agentName", Member::Later),
]);

/// Members of a content block that no rule reads, however long they are.
static THOUGHT: Keys<2> = Keys::new(["thinking", "signature"]);

/// Members of a message that its head is read from.
static MESSAGE: Keys<2> = Keys::new(["content", "id"]);

static ORIGIN: Keys<1> = Keys::new(["sessionId"]);

static TYPE: Keys<1> = Keys::new(["type"]);

/// How the program says that the user refused, in place of a result.
const REFUSED: &str = "\"User rejected";

impl<'a> Head<'a> {
    /// Reads a line to its end; what a broken one says before the break is kept. What no rule reads is noted. Long
    /// values: what a model thought, what the program keeps of a result beside its text. Whole members: where the program
    /// ran, its version.
    pub(super) fn read(&mut self, text: &'a str, limits: Limits, unread: &mut LeftOut) -> Parsed<()> {
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
        // Where members that no rule reads began, if such came last; a row that the next line may repeat; whether there
        // was one.
        let (mut others, mut row, mut was_row) = (None, None::<Begun>, false);
        while more {
            let start = cursor.pos();
            if !was_row
                && row.is_none()
                && let Some([session, agent]) = repeated::take(&mut cursor, limits, unread)
            {
                self.session = session.or(self.session.take());
                self.agent = agent.or(self.agent.take());
                was_row = true;
                continue;
            }
            let member = MEMBERS.read(&mut cursor)?;
            match (member, others) {
                (None, None) => others = Some(start),
                (Some(_), Some(from)) => {
                    unread.drop((from, start));
                    others = None;
                }
                _ => {}
            }
            if matches!(member, None | Some(Member::Session | Member::Agent | Member::Later)) {
                let unread = unread.len();
                let row = row.get_or_insert(Begun { start, unread, session: false, agent: false });
                row.session |= member == Some(Member::Session);
                row.agent |= member == Some(Member::Agent);
            } else if let Some(begun) = row.take()
                && !was_row
            {
                was_row =
                    repeated::remember(&cursor, start, &begun, limits, [&self.session, &self.agent], unread);
            }
            match member {
                Some(Member::Kind) => self.kind = string(&mut cursor)?,
                Some(Member::Subtype) => self.subtype = string(&mut cursor)?,
                Some(Member::Session) => self.session = string(&mut cursor)?,
                Some(Member::Agent) => self.agent = string(&mut cursor)?,
                Some(Member::Uuid) => self.uuid = string(&mut cursor)?,
                Some(Member::Parent) => self.parent = string(&mut cursor)?.or(self.parent.take()),
                Some(Member::ParentBefore) => self.parent = self.parent.take().or(string(&mut cursor)?),
                Some(Member::Carried) => {
                    let (start, end) = cursor.skip()?;
                    self.inner = inner_type(cursor.slice(start, end), limits);
                }
                Some(Member::Message) => {
                    self.message = Some(cursor.kind()?);
                    self.message_id = message(&mut cursor, unread)?;
                }
                Some(Member::Result) => result(&mut cursor, unread, &mut self.team)?,
                Some(Member::Team) => self.team = string(&mut cursor)?,
                Some(Member::Prevented) => {
                    let (start, end) = cursor.skip()?;
                    self.prevented = cursor.slice(start, end) == "true";
                }
                Some(Member::AgentType) => {
                    self.agent_type = true;
                    cursor.skip()?;
                }
                Some(Member::Key) => {
                    self.key = true;
                    cursor.skip()?;
                }
                Some(Member::Request) => self.request = string(&mut cursor)?,
                Some(Member::Time) => self.time = string(&mut cursor)?,
                Some(Member::Printed) => self.printed = string(&mut cursor)?,
                Some(Member::Forked) => {
                    self.forked = cursor.at(b'{');
                    self.forked_from = origin(&mut cursor)?;
                }
                Some(Member::Later) | None => {
                    cursor.skip()?;
                }
            }
            more = cursor.more_object()?;
            if let (false, Some(from)) = (more, others) {
                // The last member has no comma behind it, and stays.
                unread.drop((from, start));
            }
        }
        cursor.end()
    }
}

/// Goes over what a record says of the one that it repeats; the session of that.
fn origin<'a>(cursor: &mut Cursor<'a>) -> Parsed<Option<Cow<'a, str>>> {
    let mut session = None;
    if !cursor.at(b'{') {
        cursor.skip()?;
        return Ok(session);
    }
    let mut more = cursor.open_object()?;
    while more {
        match ORIGIN.read(cursor)? {
            Some(_) => session = string(cursor)?,
            None => drop(cursor.skip()?),
        }
        more = cursor.more_object()?;
    }
    Ok(session)
}

/// Goes over a message; its id.
fn message<'a>(cursor: &mut Cursor<'a>, unread: &mut LeftOut) -> Parsed<Option<Cow<'a, str>>> {
    let mut id = None;
    if !cursor.at(b'{') {
        cursor.skip()?;
        return Ok(id);
    }
    let mut more = cursor.open_object()?;
    while more {
        match MESSAGE.read(cursor)? {
            Some(0) if cursor.at(b'[') => {
                let mut another = cursor.open_array()?;
                while another {
                    members(cursor, unread, &THOUGHT)?;
                    another = cursor.more_array()?;
                }
            }
            Some(1) => id = string(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        more = cursor.more_object()?;
    }
    Ok(id)
}

fn result<'a>(cursor: &mut Cursor<'a>, unread: &mut LeftOut, team: &mut Option<Cow<'a, str>>) -> Parsed<()> {
    if cursor.at(b'{') {
        let mut more = cursor.open_object()?;
        while more {
            match KEPT.read(cursor)? {
                Some(TEAM) => *team = string(cursor)?,
                Some(_) => drop(cursor.skip()?),
                None => unread.hash(cursor.skip()?),
            }
            more = cursor.more_object()?;
        }
        return Ok(());
    }
    let (start, end) = cursor.skip()?;
    if !cursor.slice(start, end).starts_with(REFUSED) {
        unread.hash((start, end));
    }
    Ok(())
}

/// Goes over a value; if it is an object, its members with these keys are read by nobody.
fn members<const N: usize>(cursor: &mut Cursor<'_>, unread: &mut LeftOut, keys: &Keys<N>) -> Parsed<()> {
    if !cursor.at(b'{') {
        return cursor.skip().map(drop);
    }
    let mut more = cursor.open_object()?;
    while more {
        let is_unread = keys.read(cursor)?.is_some();
        let value = cursor.skip()?;
        if is_unread {
            unread.hash(value);
        }
        more = cursor.more_object()?;
    }
    Ok(())
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
        if TYPE.read(&mut cursor).ok()?.is_some() {
            return string(&mut cursor).ok()?;
        }
        cursor.skip().ok()?;
        more = cursor.more_object().ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::super::record::FIELDS;
    use super::*;

    const LIMITS: Limits = Limits { depth: 8, string: 200, lenient: true };

    fn read(line: &str, limits: Limits) -> String {
        let (mut head, mut unread) = (Head::default(), LeftOut::default());
        let judged = head.read(line, limits, &mut unread).map_err(Fault::into_reject);
        // Of a broken line nothing is kept.
        let (mut kept, mut at) = (String::new(), 0);
        for (from, to) in unread.since(0).filter(|_| judged.is_ok()) {
            kept.push_str(&line[at..from]);
            at = to;
        }
        kept.push_str(&line[at..]);
        format!("{judged:?} {head:?} {kept}")
    }

    /// Lines that share members, in places that differ, some of them broken.
    fn lines() -> impl Strategy<Value = Vec<String>> {
        let member = select(vec![
            r#""cwd":"/home/somebody/in/a/folder/with/a/long/name""#,
            r#""cwd":"/home/somebody/in/a/folder/with/a/long/other""#,
            r#""sessionId":"71849156-690d-4ce6-9df4-a3d57fb08f5f""#,
            r#""sessionId":"\u0061849156-690d-4ce6-9df4-a3d57fb08f5""#,
            r#""sessionId":null"#,
            r#""agentId": "a1""#,
            r#""isSidechain":true"#,
            r#""gitBranch":{"deep":[[["main"]]]}"#,
            r#""type":"user""#,
            r#""uuid":"u1""#,
            r#""toolUseResult":{"status":"ok","stdout":"x"}"#,
            r#""message":{"content":[{"type":"text","text":"y"}]}"#,
            r#""broken":"#,
        ]);
        let line =
            prop::collection::vec((member, select(vec![",", ",", ", ", " ,"])), 1..7).prop_map(|parts| {
                let inside: String = parts.iter().flat_map(|(member, comma)| [*member, *comma]).collect();
                format!("{{{}}}", inside.trim_end_matches([',', ' ']))
            });
        // A line is repeated whole, or with another end.
        let edit = (any::<Index>(), any::<bool>());
        prop::collection::vec((line, edit), 1..8).prop_map(|lines| {
            let mut out: Vec<String> = Vec::new();
            for (line, (cut, joined)) in lines {
                let begin = match out.last() {
                    Some(before) if joined => {
                        let commas: Vec<usize> = before.match_indices(',').map(|(at, _)| at).collect();
                        commas.get(cut.index(commas.len().max(1))).map_or("{", |at| &before[..=*at])
                    }
                    _ => "{",
                };
                let line = format!("{begin}{}", &line[1..]);
                out.push(line);
            }
            out
        })
    }

    proptest! {
        #[test]
        fn lines_are_read_alike_whatever_was_read_before(lines in lines(), strict in any::<Index>()) {
            let limits = |at: usize| Limits { depth: if at == strict.index(lines.len()) { 3 } else { 8 }, ..LIMITS };
            for (at, line) in lines.iter().enumerate() {
                let fresh = thread::scope(|scope| scope.spawn(|| read(line, limits(at))).join());
                prop_assert_eq!(read(line, limits(at)), fresh.unwrap());
            }
        }
    }

    #[test]
    fn what_a_line_repeats_is_taken_over() {
        let row =
            r#""isSidechain":false,"cwd":"/home/somebody/in/a/folder","sessionId":"s1","version":"2.1.40","#;
        let lines = ["user", "assistant"].map(|kind| format!("{{\"uuid\":\"u\",{row}\"type\":\"{kind}\"}}"));
        let (mut head, mut unread) = (Head::default(), LeftOut::default());
        assert!(head.read(&lines[0], LIMITS, &mut unread).is_ok());
        let mut cursor = Cursor::new(&lines[1][12..], LIMITS);
        let mut again = LeftOut::default();
        let [session, agent] = repeated::take(&mut cursor, LIMITS, &mut again).unwrap();
        assert_eq!((cursor.pos(), session.as_deref(), agent), (row.len(), Some("s1"), None));
        let text = |(from, to)| &lines[1][12..][from..to];
        let unread: Vec<&str> = again.since(0).map(text).collect();
        assert_eq!(unread, [r#""cwd":"/home/somebody/in/a/folder","#, r#""version":"2.1.40","#]);
        assert!(repeated::take(&mut cursor, LIMITS, &mut again).is_none());
    }

    #[test]
    fn what_is_read_later_is_kept() {
        for key in FIELDS.all() {
            assert!(MEMBERS.of(key).is_some(), "{key}");
        }
    }
}
