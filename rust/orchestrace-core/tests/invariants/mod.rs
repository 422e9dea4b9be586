//! What holds whatever the bytes. Proptest asks it of the bytes that it makes up (`properties.rs`), libFuzzer of
//! those that it searches for (`rust/fuzz`, which includes this file).

#![allow(dead_code)] // each of the fuzz targets asks for one of them
#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::io::{self, Read, Write};
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use orchestrace_core::error::{REJECT_CODES, RejectCode, printable};
use orchestrace_core::ingest::json::{Cursor, Kind, Limits, Parsed};
use orchestrace_core::ingest::{Input, LiftKind, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::TABLES;
use orchestrace_core::store::{Store, write_jsonl};
use serde_json::Value;
use serde_json::value::Number;

/// The options of a call that says nothing, and limits so low that short inputs reach them.
pub(crate) fn option_sets() -> [ReadOptions; 2] {
    let low = ReadOptions {
        max_record: 250,
        limits: Limits { depth: 5, string: 24, lenient: false },
        excerpt: 9,
        extras: false,
        fields: vec![
            ("x_f".into(), LiftKind::F64),
            ("x_i".into(), LiftKind::I64),
            ("x_note".into(), LiftKind::Text),
        ],
        ..ReadOptions::default()
    };
    [ReadOptions::default(), low]
}

/// Reads from a reader.
pub(crate) fn from_stream(bytes: &[u8], options: &ReadOptions, threads: usize) -> Store {
    let reader = Box::new(io::Cursor::new(bytes.to_vec()));
    let input = Input::Stream { name: "bytes".into(), reader };
    read(vec![input], options, &Run::new(Some(threads)).unwrap()).unwrap()
}

/// Reads from a file, of which workers take a range each if it is larger than a block.
pub(crate) fn from_file(file: &Scratch, options: &ReadOptions, threads: usize) -> Store {
    let input = Input::Path(file.path.clone());
    read(vec![input], options, &Run::new(Some(threads)).unwrap()).unwrap()
}

/// A file of this thread that is gone when it is dropped.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Holding the bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let thread = format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_digit(), "");
        let name = format!("orchestrace-{}-{thread}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// The bytes in a compressed form: 0 as they are, 1 gzip, 2 zstd.
pub(crate) fn compressed(bytes: &[u8], kind: u8) -> Vec<u8> {
    match kind {
        0 => bytes.to_vec(),
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::encode_all(bytes, 1).unwrap(),
    }
}

fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
        || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || matches!(bytes, [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50)
}

fn numbers(table: &RecordBatch, column: &str) -> Vec<u64> {
    let column = table.column_by_name(column).unwrap();
    match column.as_primitive_opt::<UInt64Type>() {
        Some(values) => values.values().to_vec(),
        None => column.as_primitive::<UInt32Type>().values().iter().map(|v| u64::from(*v)).collect(),
    }
}

/// Codes of the rejects in order.
pub(crate) fn rejects(store: &Store) -> Vec<&'static str> {
    let quarantine = store.combined("quarantine").unwrap();
    let codes = quarantine.column_by_name("code").unwrap().as_dictionary::<UInt8Type>();
    codes.keys().values().iter().map(|code| REJECT_CODES[*code as usize]).collect()
}

/// No record is lost, none is counted twice, every row lies within `length` bytes, rows point at rows that exist,
/// and what is told of rejects can be printed.
pub(crate) fn reconciles(store: &Store, length: u64) {
    let [traces, events, edges, quarantine, findings] =
        ["traces", "events", "edges", "quarantine", "findings"].map(|name| store.combined(name).unwrap());
    assert_eq!(store.records_read(), (traces.num_rows() + quarantine.num_rows()) as u64);
    assert_eq!((store.n_traces(), store.records_quarantined()), (traces.num_rows(), quarantine.num_rows()));
    assert_eq!(numbers(&traces, "n_events").iter().sum::<u64>(), events.num_rows() as u64);
    assert_eq!(numbers(&traces, "n_edges").iter().sum::<u64>(), edges.num_rows() as u64);
    let sizes = numbers(&traces, "n_events");
    for end in ["src", "dst"] {
        for (trace, seq) in numbers(&edges, "trace").into_iter().zip(numbers(&edges, end)) {
            assert!(seq < sizes[trace as usize]);
        }
    }
    for table in [&traces, &quarantine] {
        let mut last = None;
        for ((offset, size), line) in
            numbers(table, "offset").into_iter().zip(numbers(table, "length")).zip(numbers(table, "line"))
        {
            assert!(offset + size <= length, "{offset} + {size} is beyond {length}");
            assert!(line >= 1 && last <= Some((line, offset)), "line {line}, offset {offset} after {last:?}");
            last = Some((line, offset));
        }
    }
    for (table, column) in [(&quarantine, "message"), (&quarantine, "excerpt"), (&findings, "message")] {
        for text in table.column_by_name(column).unwrap().as_string_view().iter().flatten() {
            assert_eq!(printable(text), text);
        }
    }
}

/// Reading ends, settles every record, and what it accepted is read again after it was written.
pub(crate) fn records_are_settled(bytes: &[u8]) {
    // What is compressed has a size that only another property asks for.
    let length = if is_compressed(bytes) { u64::MAX } else { bytes.len() as u64 };
    let [plain, low] = option_sets();
    for (format, options) in [("auto", &plain), ("native", &low), ("who_and_when", &low)] {
        let options = ReadOptions { format: format.into(), ..options.clone() };
        let store = from_stream(bytes, &options, 1);
        reconciles(&store, length);
        if store.n_traces() > 0 {
            let mut text = Vec::new();
            write_jsonl(&store, &mut text, &Run::new(Some(1)).unwrap()).unwrap();
            let again =
                from_stream(&text, &ReadOptions { format: "native".into(), ..ReadOptions::default() }, 1);
            assert_eq!(rejects(&again), [""; 0], "{}", String::from_utf8_lossy(&text));
            assert_eq!((again.n_traces(), again.n_events()), (store.n_traces(), store.n_events()));
        }
    }
}

/// The tables do not depend on the size of blocks, on threads, or on who reads the file.
pub(crate) fn tables_do_not_depend_on_the_cut(bytes: &[u8]) {
    let file = Scratch::new(bytes);
    let [plain, low] = option_sets();
    // A few dozen blocks: of single bytes where there are few.
    let (short, long) = (1 + bytes.len() / 40, 1 + bytes.len() / 6);
    for (options, cuts) in [(plain, [(short, 2), (long, 1)]), (low, [(short, 1), (long, 2)])] {
        let wanted = (from_stream(bytes, &options, 1), from_file(&file, &options, 1));
        for (block_size, threads) in cuts {
            let options = ReadOptions { block_size, ..options.clone() };
            let found = (from_stream(bytes, &options, threads), from_file(&file, &options, threads));
            for table in TABLES {
                let [a, b, c, d] =
                    [&wanted.0, &found.0, &wanted.1, &found.1].map(|s| s.combined(table.name).unwrap());
                assert_eq!(a, b, "{} of a stream in blocks of {block_size}", table.name);
                assert_eq!(c, d, "{} of a file in blocks of {block_size}", table.name);
            }
        }
    }
}

/// Lower than that of `serde_json`, which is 127 and a constant.
const DEPTH: usize = 100;

const LIMITS: Limits = Limits { depth: DEPTH, string: usize::MAX, lenient: false };

/// Skipping accepts what `serde_json` accepts, with these differences:
///
/// - a number of any magnitude is well-formed, since nobody asked for its value;
/// - nesting has a limit that can be chosen;
/// - a key may occur twice, which is the importers' business: `serde_json` keeps the last one.
///
/// What both read has the same strings, numbers and shape.
pub(crate) fn syntax_is_that_of_serde_json(text: &str) {
    let skipped = skip(text);
    // Accepts lone surrogates and any depth or magnitude, and checks all else.
    let well_formed = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !well_formed {
        assert!(skipped.is_err(), "accepted what is not JSON: {text:?}");
        return;
    }
    let (small, depth) = without_numbers(text);
    if depth > DEPTH {
        let code = skipped.expect_err("nesting beyond the limit was accepted").code;
        assert!(matches!(code, RejectCode::JsonDepth | RejectCode::Utf8Invalid), "{code:?}");
        return;
    }
    // Refuses lone surrogates; numbers are out of its way.
    if serde_json::from_str::<Value>(&small).is_err() {
        assert_eq!(skipped.expect_err("a lone surrogate was accepted").code, RejectCode::Utf8Invalid);
        return;
    }
    let (start, end) = skipped.unwrap_or_else(|fault| panic!("refused {text:?}: {fault:?}"));
    let space = [' ', '\t', '\n', '\r'];
    assert_eq!(text[start..end].trim_matches(space), text.trim_matches(space));
    // Has no numbers beyond the range, and so can be compared.
    if let Ok(reference) = serde_json::from_str::<Value>(text) {
        let mut cursor = Cursor::new(text, LIMITS);
        cursor.ws();
        assert_eq!(tree(&mut cursor).unwrap(), as_floats(reference), "{text:?}");
    }
}

fn skip(text: &str) -> Parsed<(usize, usize)> {
    let mut cursor = Cursor::new(text, LIMITS);
    cursor.ws();
    let range = cursor.skip()?;
    cursor.end()?;
    Ok(range)
}

/// Well-formed JSON with 0 for every number, and how deep it is.
fn without_numbers(text: &str) -> (String, usize) {
    let (mut out, mut depth, mut deepest) = (String::with_capacity(text.len()), 0_usize, 0);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '-' | '0'..='9' => {
                out.push('0');
                while chars.next_if(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).is_some() {}
            }
            _ => {
                match c {
                    '[' | '{' => depth += 1,
                    ']' | '}' => depth -= 1,
                    _ => {}
                }
                deepest = deepest.max(depth);
                out.push(c);
            }
        }
    }
    (out, deepest)
}

/// What the parser reads, as a tree; the last of equal keys counts, as `serde_json` has it.
fn tree(cursor: &mut Cursor<'_>) -> Parsed<Value> {
    let mut scratch = String::new();
    Ok(match cursor.kind()? {
        Kind::Null => {
            cursor.null()?;
            Value::Null
        }
        Kind::Bool => Value::Bool(cursor.bool()?),
        Kind::String => Value::String(cursor.string()?.text(&mut scratch).to_owned()),
        Kind::Number => Value::Number(Number::from_f64(cursor.number()?.f64()?).unwrap()),
        Kind::Array => {
            let mut out = Vec::new();
            let mut more = cursor.open_array()?;
            while more {
                out.push(tree(cursor)?);
                more = cursor.more_array()?;
            }
            Value::Array(out)
        }
        Kind::Object => {
            let mut out = serde_json::Map::new();
            let mut more = cursor.open_object()?;
            while more {
                let key = cursor.key()?.text(&mut scratch).to_owned();
                out.insert(key, tree(cursor)?);
                more = cursor.more_object()?;
            }
            Value::Object(out)
        }
    })
}

/// The tree with the floats nearest to its numbers, in which the parser gives all of them.
fn as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            // Through the text: an integer beyond 2^53 is rounded once, as the parser does it.
            let float = number.to_string().parse::<f64>().unwrap();
            Value::Number(Number::from_f64(float).unwrap())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(as_floats).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(k, v)| (k, as_floats(v))).collect()),
        other => other,
    }
}

/// Most bytes that a stream may become in the property below.
const DECOMPRESSED: u64 = 1 << 16;

/// A compressed stream ends, within its limits; it holds what other decoders find in it; and where they give up
/// there is a reject that says so.
pub(crate) fn decompression_ends_within_its_limits(bytes: &[u8]) {
    let options =
        ReadOptions { max_decompressed: DECOMPRESSED, block_size: 1 << 12, ..ReadOptions::default() };
    let store = from_stream(bytes, &options, 1);
    if !is_compressed(bytes) {
        reconciles(&store, bytes.len() as u64);
        return;
    }
    reconciles(&store, DECOMPRESSED);
    let broke = rejects(&store).iter().any(|code| matches!(*code, "input.truncated" | "input.expansion"));
    // Of a frame that ends in an empty block, libzstd judges the size that it declares only if there is room for that.
    let decoded = reference(bytes, Vec::new());
    if decoded != reference(bytes, Vec::with_capacity(DECOMPRESSED as usize + 2)) {
        return;
    }
    match decoded {
        Some(decoded) if decoded.len() as u64 > DECOMPRESSED => assert!(broke, "the limit was passed"),
        // What is compressed twice is not looked into twice.
        Some(decoded) if !is_compressed(&decoded) => {
            let plain = from_stream(&decoded, &options, 1);
            for table in TABLES {
                let [a, b] = [&store, &plain].map(|store| store.combined(table.name).unwrap());
                assert_eq!(a, b, "{}", table.name);
            }
        }
        Some(_) => {}
        // Zeros behind the last member of a gzip file are padding, of which the other decoder does not know.
        None => assert!(broke || bytes.ends_with(&[0]), "a fault was not told"),
    }
}

/// What a decoder that is not ours finds, up to a byte beyond the limit. It gets the bytes in the pieces in which the
/// engine gets them: of a frame that ends in an empty block, libzstd judges the size that it declares only if all of
/// the frame comes at once.
fn reference(bytes: &[u8], mut out: Vec<u8>) -> Option<Vec<u8>> {
    let (magic, rest) = bytes.split_at(bytes.len().min(4));
    let pieces = io::Cursor::new(magic).chain(rest);
    let decoder: Box<dyn Read + '_> = if bytes.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(pieces))
    } else {
        Box::new(zstd::stream::read::Decoder::new(pieces).ok()?)
    };
    decoder.take(DECOMPRESSED + 1).read_to_end(&mut out).ok()?;
    Some(out)
}

/// The same of bytes that are made of what is to be read: the first two say how they are compressed, into how many
/// members, and what is wrong with it.
pub(crate) fn damaged_streams_end_within_their_limits(bytes: &[u8]) {
    let [how, place, payload @ ..] = bytes else { return };
    let kind = 1 + how % 2;
    let middle = payload.len() * usize::from(*place) / 256;
    let mut packed = compressed(&payload[..middle], kind);
    packed.extend(compressed(&payload[middle..], kind));
    let at = packed.len() * usize::from(*place) / 256;
    match how / 2 % 6 {
        0 => {}
        1 => packed.truncate(at),
        2 => packed.extend_from_slice(b"noise"),
        3 => packed.extend_from_slice(&[0; 40]),
        4 => packed[at] ^= 1 << (how >> 5),
        // A frame of zstd that is to be skipped, which in gzip is noise.
        _ => packed.extend_from_slice(b"\x50\x2a\x4d\x18\x03\0\0\0abc"),
    }
    decompression_ends_within_its_limits(&packed);
}
