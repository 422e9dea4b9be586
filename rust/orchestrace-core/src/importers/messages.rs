//! Data sets of conversations: a row is a run, and a column has its messages (`messages`, `trajectory`, `conversations`).
//!
//! It is what the hubs hold most of, and what fine-tuning takes. Nobody has specified it: roles and texts are those of `OpenAI`
//! or of `ShareGPT`, and outcomes have half a dozen names (`docs/formats/messages.md`). There are no times and no usage.

use super::columns;
use super::hex::hex;
use super::parsed::tell_replaced;
use super::recording::{
    Agent, AgentInfo, Call, CallResult, Entry, Hash, Incoming, Party, Recording, Response, Saying, Text,
    call_hash, call_hash_of_text, hash,
};
use super::responses::text_of;
use super::shape::expect_object;
use super::{Confidence, Importer, ImporterInfo, KnownBy, Record, foreign};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject, RejectCode};
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Kind, Limits};

/// The importer.
#[derive(Debug)]
pub struct Messages;

static INFO: ImporterInfo = ImporterInfo {
    name: "messages",
    summary: "Data sets of conversations: a row with a list of messages (OpenAI's roles or ShareGPT's) is a run",
    evidence: &["messages"],
    suffixes: &[".jsonl", ".parquet"],
    lenient: true,
};

/// Columns of messages.
const MESSAGES: [&str; 3] = ["messages", "trajectory", "conversations"];

impl Importer for Messages {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn known_by(&self) -> KnownBy {
        KnownBy::IdAndContent
    }

    fn sniff(&self, keys: &[&str]) -> Confidence {
        if MESSAGES.iter().any(|name| keys.contains(name)) { Confidence::Maybe } else { Confidence::No }
    }

    fn recognizes(&self, record: Value<'_>, _keys: &[&str]) -> Confidence {
        let is_message = |message: Value<'_>| {
            let says = ["content", "tool_calls", "text"].iter().any(|key| !message.get(key).is_absent());
            let named = message.get("role").some_str().is_some() && says;
            named || (message.get("from").some_str().is_some() && !message.get("value").is_absent())
        };
        let (_, messages) = messages(record);
        // The first may be a prompt that stands elsewhere.
        if messages.elements().take(2).any(is_message) && foreign::of_record(record).is_none() {
            Confidence::Yes
        } else {
            Confidence::No
        }
    }

    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.options.limits).map_err(Fault::into_reject)?;
        let row = tree.root();
        expect_object(row, "")?;
        let (column, messages) = messages(row);
        if messages.kind() != Some(Kind::Array) {
            let kind = messages.kind().map_or("nothing", Kind::as_str);
            let code = if messages.exists() { RejectCode::FieldType } else { RejectCode::FieldMissing };
            let message = format!("found {kind}, expected the list of messages");
            return Err(Reject::new(code, format!("/{column}"), message));
        }
        let mut recording = Recording::default();
        if tree.is_replaced() {
            tell_replaced(&mut recording);
        }
        // Two rows of one id are two runs, a copy of a row is one; without an id a row is known by its place.
        recording.trace.trace_id = match columns::id(row) {
            Some(id) => recording.text(&id),
            None => recording.join(&[record.stem, ":", &record.offset.to_string()]),
        };
        describe(row, out.options.limits, &mut recording);
        if recording.write(out) {
            return Ok(());
        }
        let message = "found no message of a user, an agent or a tool, expected at least one";
        Err(Reject::new(RejectCode::FieldEmpty, format!("/{column}"), message))
    }
}

/// The column of messages, by the first of its names that has some, else that is a list, and the messages.
fn messages(row: Value<'_>) -> (&'static str, Value<'_>) {
    let named = MESSAGES.map(|name| (name, row.get(name)));
    let lists = named.into_iter().filter(|(_, messages)| messages.kind() == Some(Kind::Array));
    lists.clone().find(|(_, messages)| !messages.is_empty()).or(lists.clone().next()).unwrap_or(named[0])
}

fn describe(row: Value<'_>, limits: Limits, recording: &mut Recording) {
    let (_, messages) = messages(row);
    let name = recording.text("agent");
    let agent = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let model = recording.text(&columns::model(row).unwrap_or_default());
    let extras = columns::others(row, &MESSAGES, recording);
    let mut chat = Chat { agent, model, extras, open_calls: Vec::new(), question: None, limits, recording };
    for (index, message) in messages.elements().enumerate() {
        chat.message(index, message);
    }
    let question = chat.question;
    // Runs that were asked the same are compared.
    let first = question.map(|question| format!("sha256:{}", hex(&question)));
    columns::name_group(row, first.as_deref(), recording);
    columns::outcome(row, recording);
}

/// The conversation while it is described.
struct Chat<'r> {
    recording: &'r mut Recording,
    agent: Agent,
    model: Text,
    /// Short columns of the row, for the first event.
    extras: Text,
    /// Calls that have no result yet, in order.
    open_calls: Vec<Text>,
    /// What the user asked first.
    question: Option<Hash>,
    limits: Limits,
}

impl Chat<'_> {
    fn message(&mut self, index: usize, message: Value<'_>) {
        let content = message.first(&["content", "value", "text"]);
        match message.first(&["role", "from"]).str().unwrap_or_default() {
            // Prompts are no events: they are the same in all rows.
            "system" | "developer" => {}
            "user" | "human" => self.user(index, content),
            "assistant" | "gpt" | "model" | "ai" | "chatgpt" | "bot" | "function_call" => {
                self.answer(index, message, content);
            }
            "tool" | "function" | "observation" | "environment" | "ipython" => {
                self.result(index, message, content);
            }
            other => {
                let role: String = other.chars().take(40).collect();
                let message = format!("message {index} has the role '{role}', which nobody is known to have");
                self.recording.finding(FindingCode::FieldIgnored, None, message);
            }
        }
    }

    fn user(&mut self, index: usize, content: Value<'_>) {
        let content = Some(hash(&text_of(content)));
        self.question = self.question.or(content);
        let extras = std::mem::take(&mut self.extras);
        let id = self.place(index);
        let incoming = Incoming {
            id,
            from: Party::User,
            time: None,
            content,
            trusted: Some(true),
            intervenes: false,
            decides: Text::default(),
            extras,
        };
        self.recording.incoming(self.agent, incoming);
    }

    fn answer(&mut self, index: usize, message: Value<'_>, content: Value<'_>) {
        let id = self.place(index);
        let extras = std::mem::take(&mut self.extras);
        let turn = u32::try_from(index).ok();
        let response = Response { id, turn, model: self.model, extras, ..Response::default() };
        let response = self.recording.response(self.agent, response);
        // Some writers store the list as one text.
        let stored = message.get("tool_calls");
        let listed = stored.str().and_then(|text| Tree::parse(text, self.limits).ok());
        let calls = listed.as_ref().map_or(stored, Tree::root);
        for call in calls.elements() {
            let function = if call.get("function").exists() { call.get("function") } else { call };
            self.call(response, index, call.get("id").str(), function);
        }
        let single = message.get("function_call");
        if single.exists() {
            self.call(response, index, None, single);
        }
        let text = text_of(content);
        if !text.is_empty() {
            self.recording.say(response, Saying { content: Some(hash(&text)), ..Saying::default() });
        }
    }

    fn call(&mut self, response: Entry, index: usize, id: Option<&str>, function: Value<'_>) {
        let name = function.get("name").str().unwrap_or_default();
        let arguments = function.get("arguments");
        let content = match arguments.str() {
            Some(text) => call_hash_of_text(name, text, self.limits),
            None => call_hash(name, arguments),
        };
        let id = match id.filter(|id| !id.is_empty()) {
            Some(id) => self.recording.text(id),
            None => self.recording.text(&format!("{index}/{}", self.open_calls.len())),
        };
        let tool = self.recording.text(name);
        self.recording.call(response, Call { id, tool, content: Some(content), ..Call::default() });
        self.open_calls.push(id);
    }

    fn result(&mut self, index: usize, message: Value<'_>, content: Value<'_>) {
        let named = message.get("tool_call_id").some_str();
        let at = match named {
            Some(id) => self.open_calls.iter().position(|call| self.recording.read(*call) == id),
            // Without an id results come in the order of their calls.
            None => (!self.open_calls.is_empty()).then_some(0),
        };
        let call = match (at, named) {
            (Some(at), _) => self.open_calls.remove(at),
            (None, Some(id)) => self.recording.text(id),
            (None, None) => Text::default(),
        };
        let id = if call.is_none() { self.place(index) } else { Text::default() };
        let tool = self.recording.text(message.get("name").str().unwrap_or_default());
        let content = Some(hash(&text_of(content)));
        let result = CallResult { call, id, tool, content, trusted: Some(false), ..CallResult::default() };
        self.recording.result(self.agent, result);
    }

    fn place(&mut self, index: usize) -> Text {
        self.recording.text(&index.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::importers::Format;
    use crate::importers::testing::{column, content_ref, documents, event, only, read_bytes};
    use crate::ingest::ReadOptions;
    use crate::store::Store;

    const ROWS: &str = r#"{"id": "a", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "done"}]}
{"id": "b", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]}
"#;

    fn read(bytes: &[u8]) -> Store {
        read_bytes(Format::Whole(&Messages), &[("a.jsonl", bytes)], &ReadOptions::default(), 2)
    }

    #[test]
    fn any_prefix_gives_the_rows_that_it_has_whole() {
        let all = documents(&read(ROWS.as_bytes()));
        assert_eq!(all.len(), 2);
        for end in 0..ROWS.len() - 2 {
            let some = documents(&read(&ROWS.as_bytes()[..end]));
            assert!(some.len() < 2 && some[..] == all[..some.len()], "{end}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut bytes = ROWS.as_bytes().to_vec();
        let at = ROWS.find("done").unwrap();
        bytes[at + 1] = 0xff;
        let store = read(&bytes);
        assert_eq!((store.n_traces(), store.records_quarantined()), (2, 0));
        assert_eq!(column(&store, "findings", "code"), ["utf8.replaced"]);
    }

    #[test]
    fn a_line_of_five_megabytes() {
        let long = "x".repeat(5 << 20);
        let first = ROWS.lines().next().unwrap().replace("done", &long);
        assert_eq!(event(&only(&read(first.as_bytes())), "1")["content_ref"], content_ref(&long));
    }
}
