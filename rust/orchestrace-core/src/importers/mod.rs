//! Formats. One file and one entry in [`IMPORTERS`] add one.

use crate::columns::writer::TraceWriter;
use crate::error::{Error, Reject, Result, unknown_name};
use crate::json::Limits;
use crate::json::tree::Value;

mod agent_lightning;
mod agentdojo;
mod agentrx;
mod atif;
mod claude_code;
mod codex;
mod columns;
mod copilot;
mod cursor;
mod detect;
mod droid;
mod entry_tree;
pub(crate) mod extent;
mod file_key;
mod foreign;
mod gemini_cli;
mod gemini_parts;
mod hermes;
pub(crate) mod hex;
mod inspect;
pub(crate) mod items;
mod kimi;
mod kind;
mod langfuse;
mod langsmith;
mod letta_code;
pub mod mapping;
mod messages;
mod native;
mod nemo_gym;
mod object_text;
mod openai_agents;
mod opencode;
mod openhands;
mod opik;
mod otel;
mod parsed;
mod path;
mod pi;
mod qwen_code;
pub mod recording;
mod responses;
mod rllm;
pub(crate) mod run_result;
mod shape;
pub mod spans;
mod swe_agent;
mod talk;
mod tau_bench;
#[cfg(test)]
pub(crate) mod testing;
mod trace_by;
mod trl;
mod usage;
mod verifiers;
mod verl;
mod weave;
mod who_and_when;

pub use agent_lightning::AgentLightning;
pub use agentdojo::AgentDojo;
pub use agentrx::AgentRx;
pub use atif::Atif;
pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use copilot::Copilot;
pub use cursor::Cursor;
pub use detect::{UNKNOWN, detect, unknown};
pub(crate) use detect::{detect_sure, outer_keys};
pub use droid::Droid;
pub use gemini_cli::GeminiCli;
pub use hermes::Hermes;
pub use inspect::Inspect;
pub(crate) use items::LeftOut;
pub use items::{Items, TraceItem, TraceItems};
pub use kimi::Kimi;
pub use langfuse::Langfuse;
pub use langsmith::LangSmith;
pub use letta_code::LettaCode;
pub use mapping::Mapping;
pub use messages::Messages;
pub use native::Native;
pub use nemo_gym::NemoGym;
pub use openai_agents::OpenAiAgents;
pub use opencode::OpenCode;
pub use openhands::OpenHands;
pub use opik::Opik;
pub use otel::Otel;
pub use pi::Pi;
pub use qwen_code::QwenCode;
pub use rllm::RLLM;
pub use swe_agent::SweAgent;
pub use tau_bench::TauBench;
pub use trace_by::{TRACE_BY, TraceBy};
pub use trl::TRL;
pub use verifiers::{Stamped, StampedLines, Verifiers};
pub use verl::VERL;
pub use weave::Weave;
pub use who_and_when::WhoAndWhen;

/// All formats in the order in which they are looked for. An input that none of them is sure of is [`unknown`].
pub static IMPORTERS: &[Format] = &[
    Format::Whole(&Native),
    Format::Spread(&AgentLightning),
    Format::Spread(&Otel),
    Format::Spread(&OpenAiAgents),
    Format::Spread(&Langfuse),
    Format::Spread(&LangSmith),
    Format::Spread(&Opik),
    Format::Spread(&Weave),
    Format::Spread(&Atif),
    Format::Spread(&Codex),
    Format::Spread(&QwenCode),
    Format::Spread(&ClaudeCode),
    Format::Spread(&Pi),
    Format::Spread(&GeminiCli),
    Format::Spread(&Copilot),
    Format::Spread(&Kimi),
    Format::Spread(&OpenCode),
    Format::Spread(&Cursor),
    Format::Spread(&Droid),
    Format::Spread(&Hermes),
    Format::Spread(&LettaCode),
    Format::Spread(&Inspect),
    Format::Spread(&AgentDojo),
    Format::Whole(&WhoAndWhen),
    Format::Spread(&AgentRx),
    Format::Spread(&TauBench),
    Format::Spread(&OpenHands),
    Format::Spread(&SweAgent),
    Format::Spread(&Verifiers),
    Format::Spread(&NemoGym),
    Format::Spread(&VERL),
    Format::Spread(&RLLM),
    Format::Spread(&TRL),
    Format::Whole(&Messages),
    Format::Spread(&mapping::Unmapped),
];

/// A format, by how its traces lie in records.
#[derive(Clone, Copy)]
pub enum Format {
    /// One record is one trace.
    Whole(&'static dyn Importer),
    /// A trace is spread over records, and perhaps over files.
    Spread(&'static dyn SpreadImporter),
}

impl Format {
    /// What is known of it.
    #[must_use]
    pub fn info(self) -> &'static ImporterInfo {
        match self {
            Self::Whole(importer) => importer.info(),
            Self::Spread(importer) => importer.info(),
        }
    }

    /// Whether no importer was sure of the input.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        self.info().name == UNKNOWN
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info().name)
    }
}

/// How sure an importer is that a record is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Nothing speaks for it.
    No,
    /// Some of the evidence is there.
    Maybe,
    /// All of the evidence is there.
    Yes,
}

/// What is known of a format.
#[derive(Debug)]
pub struct ImporterInfo {
    /// Name, as `format=` and `traces.importer` spell it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Keys of the outermost object that give the format away.
    pub evidence: &'static [&'static str],
    /// Usual file names.
    pub suffixes: &'static [&'static str],
    /// Whether invalid text is replaced, with a finding, rather than rejected.
    pub lenient: bool,
}

/// One record of an input.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its text.
    pub text: &'a str,
    /// Name of its file without folders and extensions; empty for streams.
    pub stem: &'a str,
    /// Name of its input as it was given, with `/` between folders; of an entry of an archive that of the archive,
    /// `/`, and that of the entry.
    pub path: &'a str,
    /// Text of the entry that describes all others of its archive (`header.json`, `_journal/start.json`), else
    /// empty.
    pub header: &'a str,
    /// Its first byte in the decompressed input.
    pub offset: u64,
    /// Whether bytes of it were replaced to make it UTF-8.
    pub replaced: bool,
}

/// What makes a record, which is a whole trace, the copy of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// It has the same id, and the same bytes.
    IdAndBytes,
    /// It has the same id, and says the same in whatever spelling.
    IdAndContent,
    /// It says the same: the trace is named after its file.
    Content,
}

/// A format whose record is a whole trace.
pub trait Importer: Sync {
    /// What is known of it.
    fn info(&self) -> &'static ImporterInfo;

    /// The format that traces it accepts are counted as.
    fn accepted_as(&self) -> &'static str {
        self.info().name
    }

    /// Whether a record whose outermost object begins with these keys is of this format.
    fn sniff(&self, keys: &[&str]) -> Confidence;

    /// The same of a record that begins so, for formats whose keys do not give them away.
    fn recognizes(&self, _record: Value<'_>, keys: &[&str]) -> Confidence {
        self.sniff(keys)
    }

    /// What makes a record the copy of another.
    fn known_by(&self) -> KnownBy {
        KnownBy::IdAndBytes
    }

    /// Where each event lies in a record that was read; nothing where an event is no part of its own.
    fn events(&self, _record: &Record<'_>, _limits: Limits) -> Vec<std::ops::Range<usize>> {
        Vec::new()
    }

    /// Reads one record into one trace.
    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> std::result::Result<(), Reject>;
}

/// A format whose traces are spread over records.
///
/// Each record is cut into *items*: a line of a session, a span, a run. Items carry the key of their trace, normally
/// its `trace_id`. The driver gathers them over all inputs of a call, leaves out those that repeat others word for
/// word, and hands all items of a key to [`Self::trace`], in order of first appearance of the keys.
///
/// Records read are items: used, ignored, duplicates or quarantined.
pub trait SpreadImporter: Sync {
    /// What is known of it. It is lenient: invalid text is replaced, with a finding.
    fn info(&self) -> &'static ImporterInfo;

    /// Whether a record at the start of an input is of this format; the end of a long record may be missing. The
    /// path is a hint only. Unless a format knows better, its evidence decides: all keys, or all but one, are present.
    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        shape::sure_by_keys(record, self.info().evidence)
    }

    /// Cuts one record into items. What is wrong with an item is found here; an error rejects the whole record, what
    /// was put for it is taken back, and the traces that it was put for go on as partial. A record for which nothing
    /// is put counts as ignored, with the kind `<importer>.empty`.
    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> std::result::Result<(), Reject>;

    /// The session that a key stands for, if its recordings in several formats have one id, and how this format records
    /// it: where several are read, the one that records most is used, and the others are set aside.
    fn session<'k>(&self, _key: &'k str) -> Option<(&'k str, Recorded)> {
        None
    }

    /// Makes one trace of all items of its key: ids, events, edges, measures, labels, findings. One that writes no
    /// event is taken back, and its items count as ignored with the kind `<importer>.no_events`, unless it wrote
    /// labels: those stand for themselves.
    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>);
}

/// How a session is recorded, from what shows the least of it to what shows the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// By a document that was made of it later.
    Later,
    /// By what the program printed.
    Printed,
    /// By the program, in files of its own.
    Itself,
}

impl Recorded {
    /// What findings call such a recording.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Later => "a document made of the run",
            Self::Printed => "what the program printed",
            Self::Itself => "the session's own record",
        }
    }
}

/// The format of a name.
pub fn find(name: &str) -> Result<Format> {
    IMPORTERS.iter().find(|i| i.info().name == name).copied().ok_or_else(|| {
        let names: Vec<&str> =
            std::iter::once("auto").chain(IMPORTERS.iter().map(|i| i.info().name)).collect();
        Error::Parameter(unknown_name("format", name, &names))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for importer in IMPORTERS {
            assert_eq!(find(importer.info().name).unwrap().info().name, importer.info().name);
        }
        let error = find("nativ").err().unwrap().to_string();
        assert!(error.contains("did you mean 'native'"), "{error}");
    }
}
