//! Items, and what is kept of a record that fails.

use super::*;
use crate::error::RejectCode;

const LIMITS: Limits = Limits { depth: 8, string: 1000, lenient: true };

fn record(text: &str) -> Record<'_> {
    Record { text, stem: "a", path: "x/a.jsonl", header: "", offset: 0, replaced: false }
}

#[test]
fn items_know_where_they_lie() {
    let record = record("[1,\n22,\n\n333]");
    let mut columns = ItemColumns::default();
    let at = Position { line: 5, offset: 100, length: 13 };
    let mut items = Items::new(&mut columns, LIMITS, &record, at, 0);
    items.item("k", &record.text[9..12], "ctx");
    items.item_beside("k", &record.text[4..6]);
    items.item("k", &record.text[4..6], "ctx");
    items.item("l", "elsewhere", "");
    assert!(!items.is_empty());
    let places: Vec<_> = columns.piece.rows.iter().map(|r| (r.position.line, r.position.offset)).collect();
    assert_eq!(places, [(8, 109), (6, 104), (6, 104), (5, 100)]);
    assert_eq!(columns.piece.contexts.len(), 1, "a context that follows itself is kept once");
    assert_eq!(columns.piece.rows.iter().map(|r| r.trace).collect::<Vec<_>>(), [0, 0, 0, 1]);
    let beside: Vec<&str> = columns.piece.rows.iter().map(|row| columns.piece.context(row)).collect();
    assert_eq!(beside, ["ctx", "ctx", "ctx", ""]);
}

#[test]
fn what_nobody_reads_is_kept_as_a_hash() {
    let long = |c: char| format!("\"{}\"", String::from(c).repeat(200));
    let text = format!("[{{\"a\":{},\"b\":\"x\"}},{{\"a\":{},\"b\":1}}]", long('y'), long('z'));
    let record = record(&text);
    let tree = Tree::parse(&text, LIMITS).unwrap();
    let mut columns = ItemColumns::default();
    let mut items = Items::new(&mut columns, LIMITS, &record, Position::default(), 0);
    for element in tree.root().elements() {
        items.leave_out(element.get("b").raw());
        items.leave_out(element.get("a").raw());
        items.item("k", element.raw(), "");
    }
    items.item("k", tree.root().raw(), "");
    let (from, to) = tree.root().at(1).span();
    let mut left_out = items.left_out();
    left_out.drop((from as usize + 1, to as usize - 6));
    left_out.hash((to as usize - LEAST_LEFT_OUT, to as usize));
    items.leave(left_out);
    items.item("k", tree.root().at(1).raw(), "");
    let mut left_out = items.left_out();
    left_out.drop((from as usize + 1, to as usize - 6));
    left_out.hash_only();
    items.leave(left_out);
    items.item("k", tree.root().at(1).raw(), "");
    let piece = &columns.piece;
    let texts: Vec<&str> = piece.rows.iter().map(|row| piece.text(row)).collect();
    let hashed = |c: char| format!("\"{:016x}\"", identity(&long(c)));
    assert_eq!(texts[0], format!("{{\"a\":{},\"b\":\"x\"}}", hashed('y')));
    assert_eq!(texts[1], format!("{{\"a\":{},\"b\":1}}", hashed('z')));
    assert_eq!(texts[2], text, "of the items before alone");
    assert_eq!(texts[3], "{\"b\":1}");
    assert_eq!(texts[4], tree.root().at(1).raw());
    assert_eq!(piece.rows[1].position.offset, tree.root().at(1).raw().as_ptr() as u64 - text.as_ptr() as u64);
    assert_eq!(piece.rows[1].position.length, tree.root().at(1).raw().len() as u64);
}

#[test]
fn a_record_that_fails_leaves_its_traces_without_it() {
    let record = record("{}");
    let mut columns = ItemColumns::default();
    let mut items = Items::new(&mut columns, LIMITS, &record, Position::default(), 0);
    items.item("k", record.text, "");
    items.ignored("x.a");
    let text_before = items.columns.piece.text.clone();
    let mut items = Items::new(&mut columns, LIMITS, &record, Position::default(), 1);
    items.item("l", record.text, "c");
    items.item("k", record.text, "c");
    items.item("l", record.text, "c");
    items.ignored("x.a");
    items.ignored("x.b");
    items.together("l", "o");
    items.reject_in("m", record.text, Reject::new(RejectCode::FieldType, "", "no"));
    items.rollback();
    let lost: Vec<bool> = columns.piece.rows.iter().map(|row| row.lost).collect();
    assert_eq!(
        (columns.piece.text, lost),
        (text_before, vec![false, true, true, true]),
        "their places are kept"
    );
    assert_eq!((columns.ignored, columns.kinds.len()), (vec![0], 1));
    assert!(columns.rejected.is_empty() && columns.together.is_empty());
    let lacking: Vec<&str> = columns.partial.iter().map(|code| columns.keys.name(*code)).collect();
    assert_eq!((lacking, columns.keys.len()), (vec!["k", "l", "m"], 3));
}

#[test]
fn fates_are_counted_by_input() {
    let item = TraceItem { text: "{}", context: "", path: "", line: 1, after_loss: false, identity: 0 };
    let all = [item; 5];
    let items = TraceItems::new("k", &all, false, LIMITS);
    items.duplicate(0);
    items.ignored(2, "x.http");
    let mut settled = Vec::new();
    items.ignored(4, "x.http");
    let kind = |item_use: ItemUse<'_>| match item_use {
        ItemUse::Used => "used".to_owned(),
        ItemUse::Duplicate => "duplicate".to_owned(),
        ItemUse::Ignored(kind) => kind.to_owned(),
    };
    items.settle(|i| usize::from(i == 4), |input, item_use, n| settled.push((input, kind(item_use), n)));
    let expected = [(0, "duplicate", 1), (0, "used", 2), (0, "x.http", 1), (1, "x.http", 1)];
    assert_eq!(settled, expected.map(|(input, kind, n)| (input, kind.to_owned(), n)));
}
