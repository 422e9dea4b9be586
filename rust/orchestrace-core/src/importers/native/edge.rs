//! Edges: a fast path for the usual spelling, a complete path for everything else.

use super::checked::{duplicate, empty_string, expect, forbidden, missing, not_a_word, string};
use crate::columns::block::Scratch;
use crate::columns::writer::TraceWriter;
use crate::error::RejectCode;
use crate::json::{Cursor, Fault, Kind, Parsed, Pattern, Str, Words};
use crate::schema::{EDGE_TYPES, EdgeType};

static EDGE_TYPE_WORDS: Words = Words::new(EDGE_TYPES);

/// Reads all edges of a trace, whose events are read.
pub(super) fn edges(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<()> {
    expect(cursor, Kind::Array)?;
    let mut index = 0;
    let mut more = cursor.open_array()?;
    while more {
        if !usual_edge(cursor, out, scratch) {
            edge(cursor, out, scratch).map_err(|f| f.at_index(index))?;
        }
        index += 1;
        more = cursor.more_array()?;
    }
    Ok(())
}

/// Reads an edge with its keys in the usual order and nothing wrong with it; whatever else stands here is left
/// to [`edge`], from its start.
#[inline(always)]
fn usual_edge(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> bool {
    #[inline(always)]
    fn value<'a>(cursor: &mut Cursor<'a>, opening: u8, key: &Pattern) -> Option<Str<'a>> {
        match cursor.member(opening, key)? {
            Some(text) => Some(text),
            None if cursor.at(b'"') => longer(cursor),
            None => None,
        }
    }
    #[inline(never)]
    fn longer<'a>(cursor: &mut Cursor<'a>) -> Option<Str<'a>> {
        cursor.string().ok()
    }
    const SRC: Pattern = Pattern::new(b"\"src\":");
    const DST: Pattern = Pattern::new(b"\"dst\":");
    const TYPE: Pattern = Pattern::new(b"\"type\":");
    let start = cursor.pos();
    let mut read = || -> Option<()> {
        let src = out.resolve_str(&value(cursor, b'{', &SRC)?, &mut scratch.text)?;
        let dst = out.resolve_str(&value(cursor, b',', &DST)?, &mut scratch.text)?;
        let edge_type = cursor.member(b',', &TYPE)??;
        let edge_type = EdgeType::from_code(EDGE_TYPE_WORDS.find(&edge_type)?)?;
        if !cursor.take_byte(b'}') {
            return None;
        }
        out.edge(src, dst, edge_type);
        Some(())
    };
    let usual = read().is_some();
    if !usual {
        cursor.rewind(start);
    }
    usual
}

fn edge(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<()> {
    const KEYS: [&str; 3] = ["src", "dst", "type"];
    expect(cursor, Kind::Object)?;
    let mut seen = 0_u8;
    let mut ends = [0_u32; 2];
    let mut edge_type = EdgeType::Temporal;
    let mut more = cursor.open_object()?;
    while more {
        let key = cursor.key()?;
        let name = key.text(&mut scratch.key);
        let which = KEYS.iter().position(|k| *k == name).ok_or_else(|| forbidden(name, &KEYS, "an edge"))?;
        if seen & (1 << which) != 0 {
            return Err(duplicate(KEYS[which]));
        }
        seen |= 1 << which;
        let text = string(cursor).map_err(|f| f.under(KEYS[which]))?;
        let text = text.text(&mut scratch.text);
        if which == 2 {
            edge_type = EdgeType::parse(text).ok_or_else(|| not_a_word(text, EDGE_TYPES).under("type"))?;
        } else if let Some(seq) = out.resolve(text) {
            ends[which] = seq;
        } else if text.is_empty() {
            return Err(empty_string().under(KEYS[which]));
        } else {
            return Err(Fault::value(
                RejectCode::EdgeUnknown,
                format!("found '{}', expected the id of an event of this trace", text.escape_debug()),
            )
            .under(KEYS[which]));
        }
        more = cursor.more_object()?;
    }
    if let Some(which) = (0..3).find(|w| seen & (1 << w) == 0) {
        return Err(missing(KEYS[which]));
    }
    out.edge(ends[0], ends[1], edge_type);
    Ok(())
}
