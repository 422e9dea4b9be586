//! Errors at three levels: a record ([`Reject`]), an oddity ([`Finding`]), a call ([`Error`]). Codes are closed and
//! stable; messages say what was found and what was expected and may change.

use std::borrow::Cow;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident, $list:ident, [$($variant:ident = $code:literal => $meaning:literal),+ $(,)?]) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $(#[doc = $meaning] $variant),+ }

        /// The dotted spellings, in code order.
        pub const $list: &[&str] = &[$($code),+];

        impl $name {
            /// All codes in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The dotted spelling.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                $list[self as usize]
            }

            /// One line about the code, for documentation.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $($name::$variant => $meaning),+ }
            }
        }
    };
}

codes!(
    /// Why a record was quarantined.
    RejectCode, REJECT_CODES, [
        JsonSyntax = "json.syntax" => "The bytes are not JSON.",
        JsonDuplicateKey = "json.duplicate_key" => "An object that is read contains a key twice.",
        JsonDepth = "json.depth" => "Nesting is deeper than the limit.",
        JsonTrailing = "json.trailing" => "Text other than white space follows the document.",
        Utf8Invalid = "utf8.invalid" => "Not UTF-8, or an escaped surrogate without its other half.",
        NumberNan = "number.nan" => "NaN or Infinity, which JSON does not allow.",
        NumberRange = "number.range" => "A number beyond the range of a 64-bit float.",
        RecordNotObject = "record.not_object" => "The record is JSON but not an object.",
        RecordTooLarge = "record.too_large" => "The record, or a string in it, is longer than the limit.",
        FieldMissing = "field.missing" => "A required key is absent.",
        FieldForbidden = "field.forbidden" => "A key that the schema does not allow.",
        FieldType = "field.type" => "A value of the wrong type.",
        FieldEnum = "field.enum" => "A word outside the closed vocabulary.",
        FieldMinimum = "field.minimum" => "A number below its minimum.",
        FieldEmpty = "field.empty" => "An empty string or list where at least one element is needed.",
        IdDuplicate = "id.duplicate" => "Two events of the trace have the same id.",
        EdgeUnknown = "edge.unknown" => "An edge names an event that the trace does not have.",
        InputTruncated = "input.truncated" => "The compressed stream or the document ends early.",
        InputExpansion = "input.expansion" => "Decompression exceeds the limit of its ratio or size.",
        RowsDamaged = "rows.damaged" => "Rows or columns of a Parquet or Arrow file cannot be read.",
        ArchiveEntry = "archive.entry" => "An archive or one of its entries is damaged, encrypted or of an unknown \
                                           kind.",
        FormatUnknown = "format.unknown" => "A record that no importer recognizes.",
    ]
);

codes!(
    /// What is odd about an accepted trace.
    FindingCode, FINDING_CODES, [
        GraphCycle = "graph.cycle" => "The edges close a cycle; results that need an order are null.",
        TimeReversed = "time.reversed" => "An edge leads to an earlier time.",
        NumberRounded = "number.rounded" => "An integer that a 64-bit float cannot hold exactly.",
        FieldIgnored = "field.ignored" => "A known extension field of the wrong type; it stays in extras.",
        GroupConflict = "group.conflict" => "Events name more than one group; the first by (t, seq) is used.",
        TraceIdReused = "trace.id_reused" => "Another trace of the corpus has the same `trace_id`.",
        TracePartial = "trace.partial" => "The recording ends before the run did.",
        TraceSetAside = "trace.set_aside" => "The run is recorded more than once; the recording that shows more is used, with what another alone states.",
        ClockSkew = "clock.skew" => "Clocks of different hosts disagree.",
        UsageRepeated = "usage.repeated" => "Token usage is reported at several levels; that of the leaves is used.",
        UsageInherited = "usage.inherited" => "Responses repeat those of another trace, where their usage counts.",
        Utf8Replaced = "utf8.replaced" => "Invalid UTF-8 or a lone surrogate of a foreign format was replaced.",
        IdRepeated = "id.repeated" => "Two records of the source have the same id; the later event gets a suffix.",
        SafetyConservative = "safety.conservative" => "Taint edges follow contexts, an upper bound.",
        OutcomeAmbiguous = "outcome.ambiguous" => "Several agents could have answered; results about the outcome are null.",
        MappingUnused = "mapping.unused" => "Some keys of the mapping never had a value in any record.",
        UsageUnsplit = "usage.unsplit" => "The source states tokens in all, but not how many were read and written.",
        UsageConflict = "usage.conflict" => "Token counts contradict each other; the parts are used.",
        ValueImpossible = "value.impossible" => "An impossible value, such as a negative cost, was dropped.",
        UsageUnknown = "usage.unknown" => "A count of usage has a name that no rule knows; it is in no sum.",
        AgentMerged = "agent.merged" => "Spans of different names are taken for one agent, by an id alone.",
        UsageIncomplete = "usage.incomplete" => "Some tokens are not recorded, or not counted; the sums are a floor.",
        RewardUnscored = "reward.unscored" => "The record names a reward and has no value of it.",
        TraceJoined = "trace.joined" => "Another id of the source leads to this trace, too.",
        TraceConflict = "trace.conflict" => "Records of one trace disagree about its task or a reward; the message says which is used.",
        SourceIncomplete = "source.incomplete" => "The source states more of something than it holds; no number has what is missing.",
        SourceRunsMissing = "source.runs_missing" => "The source states more runs than are here, `count` of them; means leave them out.",
        SourceConflict = "source.conflict" => "Parts of the source state different totals; none is compared with what is there.",
        RewardUnreliable = "reward.unreliable" => "Infrastructure broke the run, so its reward says nothing about the agent; it is kept as a metric.",
        SourceRetried = "source.retried" => "The source repeated attempts that broke and deleted them; what is left is not a random sample.",
        SourceSurplus = "source.surplus" => "The source holds more of something than it states.",
        TimeHarness = "time.harness" => "The source states time of its harness that no event has.",
    ]
);

impl FindingCode {
    /// Whether it follows from the tables of the corpus, so that nobody has to record it.
    #[must_use]
    pub fn is_derived(self) -> bool {
        matches!(self, Self::GraphCycle | Self::TimeReversed | Self::TraceIdReused | Self::OutcomeAmbiguous)
    }

    /// Whether reading a native document finds it. Where its trace is written again, a number that was rounded stands
    /// as the float that it became, and nothing is odd about that.
    #[must_use]
    pub fn is_native(self) -> bool {
        matches!(self, Self::NumberRounded | Self::FieldIgnored | Self::GroupConflict)
    }

    /// How much it matters: `warning` where a result may be null or not what one expects, `note` where nothing
    /// is lost.
    #[must_use]
    pub fn severity(self) -> &'static str {
        match self {
            Self::GraphCycle
            | Self::TimeReversed
            | Self::NumberRounded
            | Self::GroupConflict
            | Self::TraceIdReused
            | Self::ClockSkew
            | Self::IdRepeated
            | Self::Utf8Replaced
            | Self::OutcomeAmbiguous
            | Self::MappingUnused
            | Self::UsageConflict
            | Self::ValueImpossible
            | Self::UsageUnknown
            | Self::AgentMerged
            | Self::UsageIncomplete
            | Self::SourceIncomplete
            | Self::SourceRunsMissing
            | Self::SourceConflict
            | Self::SourceSurplus
            | Self::SourceRetried
            | Self::RewardUnreliable
            | Self::TraceConflict => "warning",
            Self::FieldIgnored
            | Self::TracePartial
            | Self::UsageRepeated
            | Self::UsageUnsplit
            | Self::UsageInherited
            | Self::TraceSetAside
            | Self::SafetyConservative
            | Self::RewardUnscored
            | Self::TraceJoined
            | Self::TimeHarness => "note",
        }
    }
}

codes!(
    /// Why a credit or metric is null, or a credit exactly zero.
    Reason, REASONS, [
        GraphCycle = "graph.cycle" => "The method needs an order, but the edges close a cycle.",
        FieldAbsent = "field.absent" => "The trace lacks a field that the method reads.",
        RewardAbsent = "reward.absent" => "The trace lacks a requested reward channel.",
        OutcomeAbsent = "outcome.absent" => "The trace has no outcome event.",
        OutcomeSeed = "outcome.seed" => "The outcome is itself a seed of taint.",
        UnitNone = "unit.none" => "Events that belong to no unit have no advantage.",
        BudgetExceeded = "budget.exceeded" => "The exact value would cost more than the budget.",
        GroupDegenerate = "group.degenerate" => "The group has one rollout or no spread: a credit is exactly 0, an interval null.",
        SupportAbsent = "support.absent" => "The recordings lack the data that the method compares with.",
        SignalAbsent = "signal.absent" => "The outcomes say nothing about the choices that chance does not say as well.",
        RewardNotBinary = "reward.not_binary" => "The rewards of the group are not all 0 or 1, and the method says nothing of others.",
        RewardNotPositive = "reward.not_positive" => "The amount to divide is not above 0.",
        AgentFrozen = "agent.frozen" => "Nothing says that the policy of the agent is trained, and credit is over trained agents.",
        PlayerFixed = "player.fixed" => "The unit is not a player: it is always present and gets no credit.",
        ResultRange = "result.range" => "The result is beyond the range of a 64-bit float.",
        GateUnstable = "gate.unstable" => "Another family of gates reverses the sign of the effect or makes it 0.",
        SelectionEmpty = "selection.empty" => "The intervention would change nothing in the trace.",
        TimeSteps = "time.steps" => "The times of the recording are steps, not seconds, and so is the result.",
        OverlapAbsent = "overlap.absent" => "The information before the choice made it almost certain.",
        RangeUnknown = "range.unknown" => "Bounds need the lowest and highest possible reward.",
        RatioEmpty = "ratio.empty" => "The metric is a share or mean of something that the trace lacks.",
        SiblingsAbsent = "siblings.absent" => "No run chose otherwise there; a replay may help.",
        OutcomeAmbiguous = "outcome.ambiguous" => "Several agents could have answered, and the recording does not say \
                                                   which one did.",
        TracePartial = "trace.partial" => "The recording ends before the data that the question needs.",
        PriceAbsent = "price.absent" => "The price list has no price of the model then, or none of a kind of its tokens.",
    ]
);

codes!(
    /// Why an entry of an archive is ignored. What importers ignore has a kind of its own: the name of the format, a
    /// dot, and the word that the format has for such records.
    IgnoredCode, IGNORED_CODES, [
        ArchiveNotJson = "archive.not_json" => "An entry of an archive whose name and first lines show no recording.",
        ArchiveNested = "archive.nested" => "An archive inside an archive, or an entry that is compressed twice.",
        ArchiveEmpty = "archive.empty" => "An entry of an archive that holds nothing but white space.",
        ArchiveHidden = "archive.hidden" => "A hidden entry of an archive, such as of `.git`, without records in its first lines.",
    ]
);

impl IgnoredCode {
    /// Whether recordings may be lost with such an entry, so that somebody should look at it.
    #[must_use]
    pub fn may_lose(self) -> bool {
        matches!(self, Self::ArchiveNotJson | Self::ArchiveNested)
    }
}

/// One record fails; reading continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// Stable code.
    pub code: RejectCode,
    /// JSON pointer of the offending place; empty for the record as a whole.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl Reject {
    /// A reject at a JSON pointer.
    #[must_use]
    pub fn new(code: RejectCode, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into() }
    }
}

/// Odd but valid; reading continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable code.
    pub code: FindingCode,
    /// How often in the trace.
    pub count: u32,
    /// First event concerned.
    pub seq: Option<u32>,
    /// What was found.
    pub message: String,
}

impl Finding {
    /// Whether this and another one of a trace are one row: of a code there is one, but for the ids that lead to the trace.
    pub(crate) fn is_row_of(&self, other: &Self) -> bool {
        self.code == other.code && (self.code != FindingCode::TraceJoined || self.message == other.message)
    }
}

/// The whole call fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input cannot be found or read.
    #[error("{0}")]
    Input(String),
    /// Tables do not match the schema.
    #[error("{0}")]
    Schema(String),
    /// An option, method, unit or channel is not one that exists.
    #[error("{0}")]
    Parameter(String),
    /// A store outgrew its 32-bit row numbers.
    #[error("{0}")]
    TooLarge(String),
    /// The user interrupted the call.
    #[error("interrupted")]
    Cancelled,
    /// The operating system refused a read or a write.
    #[error("{path}: {source}")]
    Io {
        /// File concerned.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Arrow refused what we built: a bug of ours.
    #[error("internal error, please report it: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
}

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The valid name nearest to a misspelt one, if one is near (restricted Damerau-Levenshtein distance of at
/// most a third of the length, at least one).
///
/// ```
/// assert_eq!(orchestrace_core::error::nearest("flwo", ["flow", "grpo"]), Some("flow"));
/// assert_eq!(orchestrace_core::error::nearest("xyz", ["flow", "grpo"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(1) + 1;
    // The difference of the lengths is a lower bound. It keeps a word of megabytes from making a table of as many
    // rows.
    let close = names.into_iter().filter(|k| k.chars().count().abs_diff(length) <= limit);
    close.map(|k| (edit_distance(word, k), k)).filter(|(d, _)| *d <= limit).min().map(|(_, k)| k)
}

/// A message or path at a length that a table can show: what it quotes may be as long as a record.
#[must_use]
pub fn capped(mut text: String) -> String {
    const LONGEST: usize = 400;
    if text.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

/// The text with every character spelt as an escape that could act on a terminal or change how the text around it
/// is shown: controls, line and paragraph separators, directions of writing, what has no width. Names come out of
/// recordings, and messages quote names.
///
/// ```
/// use orchestrace_core::error::printable;
///
/// assert_eq!(printable("it's \"é\" 🤖"), "it's \"é\" 🤖");
/// assert_eq!(printable("\u{1b}[2J\u{9b}1m\u{202e}x\n"), "\\u{1b}[2J\\u{9b}1m\\u{202e}x\\n");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// "unknown … 'x'; did you mean 'y'? Known: …", the one wording for every misspelt option. Of names that come out
/// of a recording there may be any number.
#[must_use]
pub fn unknown_name(kind: &str, word: &str, names: &[&str]) -> String {
    const LISTED: usize = 40;
    let hint =
        nearest(word, names.iter().copied()).map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    let listed = names[..names.len().min(LISTED)].join(", ");
    let more = names.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    printable(&format!("unknown {kind} '{word}'{hint} (known: {listed}{more})")).into_owned()
}

fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_megabytes_has_no_near_name() {
        // Its table of edit distances would have 16 million rows.
        assert_eq!(nearest(&"x".repeat(16 << 20), ["trace_id", "x"]), None);
        assert_eq!(nearest("trace_ids", ["trace_id", "x"]), Some("trace_id"));
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names: Vec<String> = (0..10_000).map(|i| format!("channel {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = unknown_name("reward channel", "teem", &names);
        assert!(message.len() < 1_000 && message.ends_with("channel 39 and 9960 more)"), "{message}");
    }
}
