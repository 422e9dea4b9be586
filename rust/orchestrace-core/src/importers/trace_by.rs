//! The choice of the unit that becomes one trace, for formats with traces and conversations.

/// What becomes one trace if a format records both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceBy {
    /// What the source calls a trace: one request, one turn.
    #[default]
    Trace,
    /// All traces of one conversation or session.
    Conversation,
}

/// Names of [`TraceBy`].
pub const TRACE_BY: &[&str] = &["trace", "conversation"];

impl TraceBy {
    /// By its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "trace" => Some(Self::Trace),
            "conversation" => Some(Self::Conversation),
            _ => None,
        }
    }
}
