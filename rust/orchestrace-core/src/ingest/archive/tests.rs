//! Archives written here byte by byte, so that they can be as odd as files are.

use std::io::{Cursor, Write};

use super::*;
use crate::importers::testing::counts;
use crate::ingest::{Input, read};
use crate::store::{Store, text_at};

const TRACE: &str = r#"{"trace_id":"ID","task_id":"b","events":[{"id":"e","t":0,"type":"message","agent":"x"}],"edges":[],"rewards":{},"costs":{"tokens":0,"wall_clock_s":0}}"#;

fn trace(id: &str) -> String {
    TRACE.replace("ID", id)
}

/// One entry of a ZIP file to be.
struct Packed<'a> {
    name: &'a str,
    text: Vec<u8>,
    method: u16,
    encrypted: bool,
    /// Added to the sum that is noted.
    wrong: u32,
}

fn packed(name: &str, text: impl Into<Vec<u8>>, method: u16) -> Packed<'_> {
    Packed { name, text: text.into(), method, encrypted: false, wrong: 0 }
}

fn zip_file(entries: &[Packed<'_>]) -> Vec<u8> {
    let (mut out, mut list) = (Vec::new(), Vec::new());
    for entry in entries {
        let body = match entry.method {
            8 => {
                let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                deflate.write_all(&entry.text).unwrap();
                deflate.finish().unwrap()
            }
            93 => zstd::stream::encode_all(&entry.text[..], 1).unwrap(),
            _ => entry.text.clone(),
        };
        let mut crc = flate2::Crc::new();
        crc.update(&entry.text);
        let mut fields = Vec::new();
        for field in [20, u16::from(entry.encrypted), entry.method, 0, 0] {
            fields.extend(field.to_le_bytes());
        }
        for field in [crc.sum() + entry.wrong, body.len() as u32, entry.text.len() as u32] {
            fields.extend(field.to_le_bytes());
        }
        for field in [entry.name.len() as u16, 0] {
            fields.extend(field.to_le_bytes());
        }
        list.extend(b"PK\x01\x02\x14\x00");
        list.extend(&fields);
        list.extend([0; 10]);
        list.extend((out.len() as u32).to_le_bytes());
        list.extend(entry.name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(entry.name.as_bytes());
        out.extend(body);
    }
    let (at, size) = (out.len() as u32, list.len() as u32);
    out.extend(list);
    out.extend(b"PK\x05\x06\0\0\0\0");
    for field in [entries.len() as u16; 2] {
        out.extend(field.to_le_bytes());
    }
    for field in [size, at] {
        out.extend(field.to_le_bytes());
    }
    out.extend([0; 2]);
    out
}

/// A header and what follows it.
fn tar_entry(name: &str, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len().min(100)].copy_from_slice(&name.as_bytes()[..name.len().min(100)]);
    header[124..135].copy_from_slice(format!("{:011o}", body.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = header.iter().map(|b| u64::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header.extend(body);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

fn tar_file(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out: Vec<u8> = entries.iter().flat_map(|(name, body)| tar_entry(name, b'0', body)).collect();
    out.extend([0; 1024]);
    out
}

fn stream(bytes: &[u8], options: &ReadOptions) -> Store {
    let input = Input::Stream { name: "in/a".into(), reader: Box::new(Cursor::new(bytes.to_vec())) };
    read(vec![input], options, &Run::new(Some(2)).unwrap()).unwrap()
}

/// File and a column of a table's rows.
fn column(store: &Store, table: &str, name: &str) -> Vec<(String, String)> {
    let batch = store.combined(table).unwrap();
    let of =
        |name: &str, row| text_at(batch.column_by_name(name).unwrap(), row).unwrap_or_default().to_owned();
    (0..batch.num_rows()).map(|row| (of("file", row), of(name, row))).collect()
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn entries_of_a_zip_file_are_read_like_files() {
    let mut encrypted = packed("secret.json", trace("s"), 8);
    encrypted.encrypted = true;
    let mut damaged = packed("damaged.json", trace("d"), 8);
    damaged.wrong = 1;
    let bytes = zip_file(&[
        packed("README", "not a recording", 0),
        packed("a/lines.jsonl", format!("{}\n{}\n", trace("1"), trace("2")), 8),
        packed("a/", "", 0),
        encrypted,
        packed("array.json", format!("[{},\n{}]", trace("3"), trace("4")), 93),
        damaged,
        packed("odd.json", "{}", 12),
        packed("last.json", format!("{{\n{}", &trace("5")[1..]), 0),
    ]);
    let store = stream(&bytes, &ReadOptions::default());
    assert_eq!(
        column(&store, "traces", "trace_id"),
        [
            pair("in/a/a/lines.jsonl", "1"),
            pair("in/a/a/lines.jsonl", "2"),
            pair("in/a/array.json", "3"),
            pair("in/a/array.json", "4"),
            pair("in/a/last.json", "5")
        ]
    );
    assert_eq!(
        column(&store, "quarantine", "code"),
        [
            pair("in/a/secret.json", "archive.entry"),
            pair("in/a/damaged.json", "input.truncated"),
            pair("in/a/odd.json", "archive.entry")
        ]
    );
    let row = |file: &str, status: &str, kind: &str, n| (file.into(), status.into(), kind.into(), n);
    assert_eq!(
        counts(&store),
        [
            row("in/a", "used", "", 5),
            row("in/a", "quarantined", "", 3),
            row("in/a/README", "ignored", "archive.not_json", 1)
        ]
    );
}

#[test]
fn a_zip_file_is_read_wherever_it_begins_and_rejected_without_its_end() {
    let packed_file = zip_file(&[packed("a.json", trace("1"), 8)]);
    let shifted = [b"PK\x03\x04 something that unpacks".as_slice(), &packed_file].concat();
    assert_eq!(stream(&shifted, &ReadOptions::default()).n_traces(), 1);
    let cut = stream(&packed_file[..packed_file.len() - 10], &ReadOptions::default());
    assert_eq!(column(&cut, "quarantine", "code"), [pair("in/a", "archive.entry")]);
    // Any prefix is judged.
    for end in (4..packed_file.len()).step_by(5) {
        let store = stream(&packed_file[..end], &ReadOptions::default());
        assert_eq!(store.records_read(), (store.n_traces() + store.records_quarantined()) as u64);
    }
}

#[test]
fn what_comes_out_of_all_entries_together_is_bounded() {
    let blanks = vec![b' '; 9 << 20];
    let text = [b"{".as_slice(), &blanks].concat();
    let bytes = zip_file(&[packed("a.json", text.clone(), 8), packed("b.json", text.clone(), 8)]);
    let options = ReadOptions { max_expansion: 100, ..ReadOptions::default() };
    let store = stream(&bytes, &options);
    let codes = column(&store, "quarantine", "code");
    assert_eq!(codes, [pair("in/a/a.json", "input.truncated"), pair("in/a/b.json", "input.expansion")]);
    let few = ReadOptions { max_decompressed: 1 << 20, ..ReadOptions::default() };
    let codes = column(&stream(&bytes, &few), "quarantine", "code");
    assert_eq!(codes, [pair("in/a/a.json", "input.expansion"), pair("in/a/b.json", "input.expansion")]);
}

#[test]
fn entries_of_a_tar_file_are_read_like_files() {
    let long = format!("{}/runs.jsonl", "folder".repeat(30));
    let pax = format!("path={long}\n");
    let pax = format!("{} {pax}", pax.len() + 4);
    let both = format!("{}\n{}\n", trace("2"), trace("3"));
    let bytes = [
        tar_entry("folder/", b'5', b""),
        tar_entry("one.json", b'0', trace("1").as_bytes()),
        tar_entry("pax", b'x', pax.as_bytes()),
        tar_entry("short", b'0', both.as_bytes()),
        tar_entry("link", b'2', b""),
        tar_entry("././@LongLink", b'L', format!("{long}\0").as_bytes()),
        tar_entry("short", b'0', trace("4").as_bytes()),
        tar_entry("picture.png", b'0', b"\x89PNG"),
        tar_entry("empty.json", b'0', b""),
        vec![0; 1024],
    ]
    .concat();
    let named = format!("in/a/{long}");
    let expected = [pair("in/a/one.json", "1"), pair(&named, "2"), pair(&named, "3"), pair(&named, "4")];
    let zipped = zstd::stream::encode_all(&bytes[..], 1).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let folder = std::env::temp_dir().join(format!("orchestrace-tar-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for bytes in [bytes, zipped, gzip.finish().unwrap()] {
        let store = stream(&bytes, &ReadOptions::default());
        assert_eq!(column(&store, "traces", "trace_id"), expected);
        assert_eq!(store.records_quarantined(), 0);
        let ignored: Vec<_> = counts(&store)[1..].iter().map(|row| (row.2.clone(), row.3)).collect();
        assert_eq!(ignored, [("archive.empty".to_owned(), 1), ("archive.not_json".to_owned(), 1)]);
        // From a file, which is opened a second time.
        let path = folder.join("a");
        std::fs::write(&path, &bytes).unwrap();
        let input = Input::Named { name: "in/a".into(), path };
        let options = ReadOptions { block_size: 100, ..ReadOptions::default() };
        let store = read(vec![input], &options, &Run::new(Some(7)).unwrap()).unwrap();
        assert_eq!(column(&store, "traces", "trace_id"), expected);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_tar_file_that_ends_early_is_told_once() {
    let bytes = tar_file(&[("a.json", trace("1").as_bytes()), ("b.json", trace("2").as_bytes())]);
    let ends = (512..bytes.len()).step_by(61).chain([511 + trace("1").len(), 512 + trace("1").len()]);
    for end in ends {
        let store = stream(&bytes[..end], &ReadOptions::default());
        let rejects = column(&store, "quarantine", "code");
        assert!(rejects.len() <= 1, "{end}: {rejects:?}");
        // Whole from where its last byte is; each has a header and lies in blocks of 512 bytes.
        let n_whole = [512, 3 * 512].iter().filter(|start| end >= *start + trace("1").len()).count();
        assert_eq!(store.n_traces(), n_whole, "{end}");
    }
    let zipped = zstd::stream::encode_all(&bytes[..], 1).unwrap();
    for end in (8..zipped.len()).step_by(7) {
        let store = stream(&zipped[..end], &ReadOptions::default());
        assert!(store.records_quarantined() <= 2, "{end}");
    }
}

#[test]
fn a_reading_goes_on_between_two_blocks_of_an_archive() {
    use crate::ingest::{ReadPosition, TraceReader};
    let lines = |from: usize| (from..from + 4).map(|i| trace(&i.to_string()) + "\n").collect::<String>();
    let bytes =
        zip_file(&[packed("x", "no", 0), packed("a.jsonl", lines(0), 8), packed("b.jsonl", lines(4), 93)]);
    let options = ReadOptions { block_size: 200, ..ReadOptions::default() };
    let run = Run::new(Some(2)).unwrap();
    let mut at = ReadPosition::default();
    let mut trace_ids = Vec::new();
    let mut records = 0;
    while !at.done {
        let path = std::env::temp_dir().join(format!("orchestrace-zip-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let input = Input::Named { name: "a".into(), path: path.clone() };
        let mut reader = TraceReader::new(vec![(input, at)], options.clone()).unwrap();
        let batch = reader.next(1, None, &run).unwrap().unwrap();
        trace_ids.extend(column(&batch.store, "traces", "trace_id"));
        records += batch.parts[0].records;
        at = batch.parts[0].position;
        std::fs::remove_file(&path).unwrap();
    }
    let expected: Vec<_> =
        (0..8).map(|i| pair(if i < 4 { "a/a.jsonl" } else { "a/b.jsonl" }, &i.to_string())).collect();
    assert_eq!((trace_ids, records), (expected, 9));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn compressed_entries_are_read_like_compressed_files() {
    let both = format!("{}\n{}\n", trace("1"), trace("2"));
    let packed_twice = gzip(&gzip(both.as_bytes()));
    let mut broken = gzip(trace("5").as_bytes());
    broken.truncate(broken.len() - 9);
    let (zipped, zstd) = (gzip(both.as_bytes()), zstd::stream::encode_all(trace("3").as_bytes(), 1).unwrap());
    let inner = zip_file(&[packed("x.json", trace("6"), 8)]);
    let entries: Vec<(&str, Vec<u8>)> = vec![
        ("a.jsonl.gz", zipped.clone()),
        ("no suffix", zstd),
        ("plain.json.gz", trace("4").into_bytes()),
        ("cut.json.gz", broken),
        ("twice.json.gz.gz", packed_twice),
        ("inner.zip", inner.clone()),
        ("inner.zip.gz", gzip(&inner)),
        ("inner.tar.gz", gzip(&tar_file(&[("x.json", trace("7").as_bytes())]))),
        ("README.gz", gzip(b"read me")),
    ];
    let borrowed: Vec<(&str, &[u8])> = entries.iter().map(|(name, body)| (*name, &body[..])).collect();
    let listed = |method| entries.iter().map(|(n, b)| packed(n, b.clone(), method)).collect::<Vec<_>>();
    let tar = tar_file(&borrowed);
    for bytes in [zip_file(&listed(0)), zip_file(&listed(8)), zip_file(&listed(93)), gzip(&tar), tar] {
        let store = stream(&bytes, &ReadOptions::default());
        assert_eq!(
            column(&store, "traces", "trace_id"),
            [
                pair("in/a/a.jsonl.gz", "1"),
                pair("in/a/a.jsonl.gz", "2"),
                pair("in/a/no suffix", "3"),
                pair("in/a/plain.json.gz", "4")
            ]
        );
        assert_eq!(column(&store, "quarantine", "code"), [pair("in/a/cut.json.gz", "input.truncated")]);
        let kinds = column(&store, "record_counts", "kind");
        let ignored: Vec<_> = kinds.iter().filter(|(_, kind)| !kind.is_empty()).cloned().collect();
        assert_eq!(
            ignored,
            [
                pair("in/a/twice.json.gz.gz", "archive.nested"),
                pair("in/a/inner.zip", "archive.nested"),
                pair("in/a/inner.zip.gz", "archive.nested"),
                pair("in/a/inner.tar.gz", "archive.nested"),
                pair("in/a/README.gz", "archive.not_json")
            ]
        );
    }
}

#[test]
fn what_comes_out_of_compressed_entries_is_bounded() {
    let text = [b"{\"a\":".to_vec(), vec![b' '; 40 << 20]].concat();
    let bomb = gzip(&text);
    let codes = |bytes: &[u8], options: &ReadOptions| -> Vec<String> {
        column(&stream(bytes, options), "quarantine", "code").into_iter().map(|(_, code)| code).collect()
    };
    let few = ReadOptions { max_expansion: 100, ..ReadOptions::default() };
    for bytes in [
        zip_file(&[packed("a.json.gz", bomb.clone(), 0)]),
        zip_file(&[packed("a.json.gz", bomb.clone(), 8)]),
        tar_file(&[("a.json.gz", &bomb)]),
        gzip(&tar_file(&[("a.json.gz", &bomb)])),
    ] {
        assert_eq!(codes(&bytes, &few), ["input.expansion"]);
        let little = ReadOptions { max_decompressed: 1 << 20, ..ReadOptions::default() };
        assert_eq!(codes(&bytes, &little), ["input.expansion"]);
        let many = ReadOptions { max_expansion: 1 << 20, ..ReadOptions::default() };
        assert_eq!(codes(&bytes, &many), ["format.unknown"], "as outside: it is no JSON");
    }
    // Many of them share the limit of the archive.
    let names: Vec<String> = (0..8).map(|i| format!("{i}.json.gz")).collect();
    let small = gzip(&text[..9 << 20]);
    let entries: Vec<_> = names.iter().map(|name| packed(name, small.clone(), 0)).collect();
    let codes = codes(&zip_file(&entries), &few);
    assert!(codes.contains(&"input.expansion".to_owned()), "{codes:?}");
}

#[test]
fn a_few_entries_that_are_not_read_have_their_names() {
    let names: Vec<String> = (0..NAMED + 4).map(|i| format!("{i}.txt")).collect();
    let mut entries: Vec<_> = names.iter().map(|name| packed(name, "words", 0)).collect();
    entries.push(packed("b/.DS_Store", "\0\0", 0));
    entries.push(packed("__MACOSX/._a.json", "\0\x05\x16\x07", 0));
    entries.push(packed("a.json", trace("1"), 0));
    let store = stream(&zip_file(&entries), &ReadOptions::default());
    let kinds = column(&store, "record_counts", "kind");
    let of =
        |file: &str| kinds.iter().filter(|row| row.0 == file).map(|row| row.1.as_str()).collect::<Vec<_>>();
    assert_eq!(of("in/a"), ["", "archive.hidden", "archive.not_json"]);
    assert_eq!((of("in/a/0.txt"), of("in/a/16.txt")), (vec!["archive.not_json"], vec![]));
    let ignored: u64 = counts(&store).iter().filter(|row| row.1 == "ignored").map(|row| row.3).sum();
    assert_eq!((ignored, store.records_read()), (NAMED as u64 + 6, NAMED as u64 + 7));
}

#[test]
fn sparse_entries_are_told() {
    let pax = b"22 GNU.sparse.major=1\n".to_vec();
    let bytes = [
        tar_entry("a.json", b'S', trace("1").as_bytes()),
        tar_entry("pax", b'x', &pax),
        tar_entry("b.json", b'0', trace("2").as_bytes()),
        tar_entry("c.json", b'M', trace("3").as_bytes()),
        tar_entry("d.json", b'0', trace("4").as_bytes()),
        vec![0; 1024],
    ]
    .concat();
    let store = stream(&bytes, &ReadOptions::default());
    assert_eq!(column(&store, "traces", "trace_id"), [pair("in/a/d.json", "4")]);
    let rejects = column(&store, "quarantine", "code");
    let expected = ["a", "b", "c"].map(|name| pair(&format!("in/a/{name}.json"), "archive.entry"));
    assert_eq!(rejects, expected);
}
