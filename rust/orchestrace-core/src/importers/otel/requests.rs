//! Export requests of collectors, cut into spans without a tree, since most of their bytes are model inputs that no
//! rule reads.
//!
//! What is written in another order, or in any other way than collectors do, is left to [`super::otlp`], which gives the
//! same items of it, and the faults of what is broken.

use memchr::memmem;

use super::attributes::claude_code::REQUEST;
use super::attributes::is_unread;
use super::{ids, otlp};
use crate::importers::Items;
use crate::json::{Cursor, Limits, Pattern};

static KEY: Pattern = Pattern::new(b"\"key\":");
static VALUE: Pattern = Pattern::new(b"\"value\":");

/// Cuts a request into items; puts nothing and returns false if it is not written in the usual way.
pub(super) fn cut(text: &str, out: &mut Items<'_>) -> bool {
    // Both need the tree.
    if out.by_conversation() || memmem::find(text.as_bytes(), REQUEST.as_bytes()).is_some() {
        return false;
    }
    let mut request = Request::new(text, out.limits());
    if request.read().is_none() {
        return false;
    }
    let Request { contexts, spans, unread, .. } = request;
    let mut from = 0;
    let mut before = None;
    for span in spans {
        unread[from..span.unread].iter().for_each(|value| out.leave_out(value));
        from = span.unread;
        if before.replace(span.context) == Some(span.context) {
            out.item_beside(&span.trace, span.text);
        } else {
            out.item(&span.trace, span.text, &contexts[span.context]);
        }
    }
    true
}

/// A span of a request.
struct SpanText<'a> {
    trace: String,
    text: &'a str,
    /// Number of its context.
    context: usize,
    /// Values that are left out of it and of the spans before it.
    unread: usize,
}

/// A request while it is read.
struct Request<'a> {
    cursor: Cursor<'a>,
    contexts: Vec<String>,
    spans: Vec<SpanText<'a>>,
    unread: Vec<&'a str>,
}

impl<'a> Request<'a> {
    fn new(text: &'a str, limits: Limits) -> Self {
        Self {
            cursor: Cursor::new(text, limits),
            contexts: Vec::new(),
            spans: Vec::new(),
            unread: Vec::new(),
        }
    }

    fn read(&mut self) -> Option<()> {
        self.cursor.ws();
        if !self.cursor.open_object().ok()? || self.key()? != "resourceSpans" {
            return None;
        }
        self.elements(Self::resource)?;
        if self.cursor.more_object().ok()? {
            return None;
        }
        self.cursor.end().ok()
    }

    /// Reads each element of an array.
    fn elements(&mut self, read: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        let mut more = self.cursor.open_array().ok()?;
        while more {
            read(self)?;
            more = self.cursor.more_array().ok()?;
        }
        Some(())
    }

    /// A key. One with an escape may be any.
    #[inline]
    fn key(&mut self) -> Option<&'a str> {
        if let Some(key) = self.cursor.plain_key_text() {
            return Some(key);
        }
        self.cursor.key().ok().filter(|key| !key.is_escaped()).map(|key| key.raw())
    }

    /// Goes over a value.
    fn skip(&mut self) -> Option<&'a str> {
        let (start, end) = self.cursor.skip().ok()?;
        Some(self.cursor.slice(start, end))
    }

    fn resource(&mut self) -> Option<()> {
        let mut resource = None;
        let mut has_scopes = false;
        let mut more = self.cursor.open_object().ok()?;
        while more {
            match self.key()? {
                "resource" if resource.is_none() && !has_scopes => resource = Some(self.skip()?),
                "scopeSpans" if !has_scopes => {
                    has_scopes = true;
                    self.elements(|request| request.scope(resource.unwrap_or("null")))?;
                }
                "schemaUrl" => drop(self.skip()?),
                _ => return None,
            }
            more = self.cursor.more_object().ok()?;
        }
        has_scopes.then_some(())
    }

    fn scope(&mut self, resource: &str) -> Option<()> {
        let mut scope = None;
        let mut has_spans = false;
        let mut more = self.cursor.open_object().ok()?;
        while more {
            match self.key()? {
                "scope" if scope.is_none() && !has_spans => scope = Some(self.skip()?),
                "spans" if !has_spans => {
                    has_spans = true;
                    self.contexts.push(otlp::context(resource, scope.unwrap_or("null")));
                    self.elements(Self::span)?;
                }
                "schemaUrl" => drop(self.skip()?),
                _ => return None,
            }
            more = self.cursor.more_object().ok()?;
        }
        Some(())
    }

    fn span(&mut self) -> Option<()> {
        let start = self.cursor.pos();
        let (mut trace, mut id, mut attributes, mut events) = (None, None, false, false);
        let mut more = self.cursor.open_object().ok()?;
        while more {
            match self.key()? {
                "traceId" if trace.is_none() => trace = Some(self.plain()?),
                "spanId" if id.is_none() => id = Some(self.plain()?),
                "attributes" if !attributes => {
                    attributes = true;
                    self.elements(Self::attribute)?;
                }
                "events" if !events => {
                    events = true;
                    self.elements(Self::event)?;
                }
                "traceId" | "spanId" | "attributes" | "events" | "trace_id" | "span_id" => return None,
                _ => drop(self.skip()?),
            }
            more = self.cursor.more_object().ok()?;
        }
        if id?.is_empty() {
            return None;
        }
        let text = self.cursor.slice(start, self.cursor.pos());
        let trace = ids::trace_id(trace?)?;
        let (context, unread) = (self.contexts.len() - 1, self.unread.len());
        self.spans.push(SpanText { trace, text, context, unread });
        Some(())
    }

    /// A string without escapes.
    fn plain(&mut self) -> Option<&'a str> {
        if let Some(text) = self.cursor.plain_text() {
            return Some(text);
        }
        self.cursor.at(b'"').then_some(())?;
        self.cursor.string().ok().filter(|string| !string.is_escaped()).map(|string| string.raw())
    }

    fn event(&mut self) -> Option<()> {
        let mut has_attributes = false;
        let mut more = self.cursor.open_object().ok()?;
        while more {
            match self.key()? {
                "attributes" if !has_attributes => {
                    has_attributes = true;
                    self.elements(Self::attribute)?;
                }
                // Of repeated keys the last one would count.
                "attributes" => return None,
                _ => drop(self.skip()?),
            }
            more = self.cursor.more_object().ok()?;
        }
        Some(())
    }

    /// A key and its value, in this order.
    fn attribute(&mut self) -> Option<()> {
        if !self.cursor.open_object().ok()? || !(self.cursor.take(&KEY) || self.key()? == "key") {
            return None;
        }
        let key = self.plain()?;
        if !self.cursor.more_object().ok()? || !(self.cursor.take(&VALUE) || self.key()? == "value") {
            return None;
        }
        let value = self.skip()?;
        if is_unread(key) {
            self.unread.push(value);
        }
        if self.cursor.more_object().ok()? { None } else { Some(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cut as by_tree;
    use super::*;
    use crate::columns::quarantine::Position;
    use crate::importers::Record;
    use crate::importers::items::{ItemColumns, ItemRow};
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { depth: 64, string: 1 << 20, lenient: true };

    /// Items with their traces, texts and contexts.
    type RowFacts = Vec<(String, String, String, u64)>;

    fn rows_of(text: &str, cut: impl FnOnce(&Record<'_>, &mut Items<'_>) -> bool) -> Option<RowFacts> {
        let record = Record { text, stem: "a", path: "a.jsonl", header: "", offset: 0, replaced: false };
        let mut columns = ItemColumns::default();
        let position = Position { line: 1, offset: 0, length: text.len() as u64 };
        let mut items = Items::new(&mut columns, LIMITS, &record, position, 0);
        cut(&record, &mut items).then_some(())?;
        let piece = &columns.piece;
        let row_facts = |row: &ItemRow| {
            let trace = columns.keys.name(row.trace).to_owned();
            (trace, piece.text(row).to_owned(), piece.context(row).to_owned(), row.position.offset)
        };
        Some(piece.rows.iter().map(row_facts).collect())
    }

    fn usual(text: &str) -> Option<RowFacts> {
        rows_of(text, |record, items| cut(record.text, items))
    }

    fn any_way(text: &str) -> Option<RowFacts> {
        rows_of(text, |record, items| items.cut(record.text, by_tree).is_ok())
    }

    const SPAN: &str =
        r#"{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"chat"}"#;

    fn request(spans: &str) -> String {
        format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":[]}},"scopeSpans":[{{"scope":{{"name":"s"}},"spans":[{spans}]}}]}}]}}"#
        )
    }

    #[test]
    fn requests_give_what_a_tree_gives() {
        let long = "x".repeat(300);
        let attribute = |key: &str| format!(r#"{{"key":"{key}","value":{{"stringValue":"{long}"}}}}"#);
        let attributes = ["gen_ai.input.messages", "gen_ai.output.messages", "llm.tools.0"].map(attribute);
        let with = SPAN.replace(
            "\"name\"",
            &format!(
                r#""attributes":[{}],"events":[{{"name":"e","attributes":[{}]}},{{}}],"name""#,
                attributes.join(","),
                attributes[0]
            ),
        );
        let text = request(&format!("{SPAN}, {with},{SPAN}"));
        let rows_of_text = usual(&text).unwrap();
        assert_eq!(Some(&rows_of_text), any_way(&text).as_ref());
        assert_eq!(rows_of_text.len(), 3);
        assert!(
            rows_of_text[1].1.len() < with.len() - 800,
            "three long values are left out: {}",
            rows_of_text[1].1
        );
        assert_eq!(usual(r#"{"resourceSpans":[]}"#), Some(Vec::new()));
    }

    #[test]
    fn what_is_written_in_another_way_is_left_alone() {
        let escaped = SPAN.replace("b7ad", r"\u0062");
        let twice = SPAN.replace("\"name\"", "\"spanId\":\"b7ad6b7169203332\",\"name\"");
        let disguised = SPAN.replace("\"name\":\"chat\"", r#""trace\u0049d":"f""#);
        let nameless = SPAN.replace("spanId", "id");
        let snake = SPAN.replace("traceId", "trace_id");
        for text in [
            request(&escaped),
            request(&twice),
            request(&disguised),
            request(&nameless),
            request(&snake),
            request(SPAN)
                .replace("\"resource\":{\"attributes\":[]},", "")
                .replace("]}]}]}", "]}],\"resource\":{}}]}"),
            request(SPAN).replace("scopeSpans", "instrumentationLibrarySpans"),
            request(SPAN).replace("resourceSpans", "batches"),
            format!("{} x", request(SPAN)),
            request(SPAN)[..150].to_owned(),
            SPAN.to_owned(),
            "[]".to_owned(),
        ] {
            assert_eq!(usual(&text), None, "{text}");
        }
    }

    proptest! {
        /// However members are ordered, repeated or broken: if the quick way gives items, so does the tree, the same.
        #[test]
        fn the_quick_way_never_differs(
            order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle(),
            keys in proptest::collection::vec(0..6_usize, 1..7),
            cut in any::<prop::sample::Index>(),
            whole in any::<bool>(),
        ) {
            let id = [
                r#""0af7651916cd43dd8448eb211c80319c""#,
                r#""0af7651916cd43dd8448eb211c80319d""#,
                r#""b7ad6b7169203331""#,
                "7",
                r#""\u0061""#,
            ];
            let value = r#"[{"key":"gen_ai.prompt.0","value":{"stringValue":"a"}},{"value":1,"key":"b"}]"#;
            let names = ["traceId", "spanId", "attributes", "events", "name", "trace\\u0049d"];
            let members = keys.iter().enumerate().map(|(at, key)| {
                let value = match key {
                    2 if at % 2 == 0 => value,
                    2 => "[]",
                    3 => r#"[{"attributes":[]}]"#,
                    _ => id[order[at % 5]],
                };
                format!("\"{}\":{value}", names[*key])
            });
            let span = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
            let text = request(&format!("{SPAN},{span}"));
            let text = if whole { text } else { text[..cut.index(text.len())].to_owned() };
            if let Some(found) = usual(&text) {
                prop_assert_eq!(Some(found), any_way(&text));
            }
        }
    }
}
