//! However a reading is cut into batches, and wherever it is taken up again, the rows are those of one reading.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};

use arrow_array::Array;
use orchestrace_core::error::Error;
use orchestrace_core::generate::{self, Preset, Spec};
use orchestrace_core::ingest::{
    Batch, IndexRow, Input, ReadOptions, ReadPosition, TraceIndex, TraceReader, read,
};
use orchestrace_core::run::Run;
use orchestrace_core::store::Store;

const TABLES: [&str; 7] = ["traces", "events", "edges", "agents", "measures", "labels", "quarantine"];
const WHOLE: usize = usize::MAX;
const BROKEN: &[u8] = b"noise\n\n{\"trace_id\":1}\n   \n";

fn generated(traces: u64, seed: u64) -> Vec<u8> {
    let spec = Spec { preset: Preset::Academic, events: None, traces: Some(traces), seed };
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    generate::write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
    out
}

fn document(id: &str, more: &str) -> String {
    format!(
        r#"{{"trace_id":"{id}","task_id":"k","events":[{{"id":"e","t":0,"type":"message","agent":"x"{more}}}],"edges":[],"rewards":{{"team":1}},"costs":{{"tokens":0,"wall_clock_s":0}}}}"#
    )
}

/// Several records with damage between them.
fn damaged(traces: u64, seed: u64) -> Vec<u8> {
    let bytes = generated(traces, seed);
    let mut out = Vec::new();
    for (n, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        out.extend_from_slice(line);
        if n % 7 == 3 {
            out.extend_from_slice(BROKEN);
        }
    }
    out
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn array(bytes: &[u8]) -> Vec<u8> {
    let lines: Vec<&str> = std::str::from_utf8(bytes).unwrap().lines().collect();
    format!(" [\n{}\n]\n", lines.join(",\n\n")).into_bytes()
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("orchestrace-batches-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Every kind of input, the order chosen so that each is once before and once after a compressed one.
    fn fill(&self) -> Vec<PathBuf> {
        let long = document("long", &format!(r#","content":"{}""#, "y".repeat(20_000)));
        let unclosed = document("last", "");
        let truncated = gz(&damaged(40, 8));
        let files: [(&str, Vec<u8>); 13] = [
            (
                "a-large.jsonl",
                [damaged(120, 1), long.into_bytes(), b"\n".to_vec(), generated(30, 2)].concat(),
            ),
            ("b-small.jsonl", generated(2, 3)),
            ("c-packed.jsonl.gz", gz(&damaged(90, 4))),
            ("d-packed.jsonl.zst", zst(&damaged(60, 5))),
            ("e-array.json", array(&generated(70, 6))),
            ("f-empty.jsonl", Vec::new()),
            ("g-document.json", document("single", "").replacen('{', "{\n ", 1).into_bytes()),
            ("h-large.jsonl", [damaged(60, 7), unclosed.into_bytes()].concat()),
            ("i-truncated.jsonl.gz", truncated[..truncated.len() / 2].to_vec()),
            ("j-trailing.json", [array(&generated(30, 9)), b"  x y\n".to_vec()].concat()),
            // Blank to its end, so that its last blocks have no record.
            ("k-blank.jsonl", [generated(40, 10), b"\n".repeat(30_000)].concat()),
            ("l-packed.jsonl.gz", gz(&[generated(30, 11), b"\n".repeat(30_000)].concat())),
            ("m-cut.json", {
                let all = array(&generated(30, 12));
                all[..all.len() - 200].to_vec()
            }),
        ];
        files
            .into_iter()
            .map(|(name, bytes)| {
                let path = self.0.join(name);
                std::fs::write(&path, bytes).unwrap();
                path
            })
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn run(threads: usize) -> Run {
    Run::new(Some(threads)).unwrap()
}

fn from(paths: &[PathBuf], places: &[ReadPosition]) -> Vec<(Input, ReadPosition)> {
    paths.iter().map(|path| Input::Path(path.clone())).zip(places.iter().copied()).collect()
}

/// All batches of a reading, with an index if there is one.
fn batches(
    inputs: Vec<(Input, ReadPosition)>,
    options: &ReadOptions,
    (limit, threads): (usize, usize),
    mut index: Option<&mut TraceIndex>,
) -> Vec<Batch> {
    let mut reader = TraceReader::new(inputs, options.clone()).unwrap();
    let run = run(threads);
    let mut out = Vec::new();
    while let Some(batch) = reader.next(limit, index.as_deref_mut(), &run).unwrap() {
        out.push(batch);
    }
    assert!(reader.next(limit, index, &run).unwrap().is_none(), "nothing comes after the end");
    out
}

/// The rows of the batches are those of `whole`, the first `skip` of each table left out.
fn assert_rows(single: &Store, skip: &[usize], batches: &[Batch], tables: &[&str], case: &str) {
    for (table, skip) in tables.iter().zip(skip) {
        let want = single.combined(table).unwrap();
        let mut at = *skip;
        for batch in batches {
            let got = batch.store.combined(table).unwrap();
            assert!(at + got.num_rows() <= want.num_rows(), "{case}: {table} has too many rows");
            for field in got.schema().fields() {
                assert!(want.schema().column_with_name(field.name()).is_some(), "{case}: {field}");
            }
            for (field, column) in want.schema().fields().iter().zip(want.columns()) {
                let column = column.slice(at, got.num_rows());
                match got.column_by_name(field.name()) {
                    Some(found) => assert_eq!(found, &column, "{case}: {table}.{}", field.name()),
                    // A batch has the columns that are in use in it.
                    None => assert_eq!(column.logical_null_count(), column.len(), "{case}: {field}"),
                }
            }
            at += got.num_rows();
        }
        assert_eq!(at, want.num_rows(), "{case}: rows of {table}");
    }
}

fn rows_of(batches: &[Batch], tables: &[&str]) -> Vec<usize> {
    let rows = |table: &&str| batches.iter().map(|b| b.store.combined(table).unwrap().num_rows()).sum();
    tables.iter().map(rows).collect()
}

/// Counts of all batches reconcile with each other and, at the end, every input was read to its end.
fn assert_counts(batches: &[Batch], case: &str) {
    let last = batches.last().unwrap();
    for (number, end) in last.parts.iter().enumerate() {
        assert!(end.position.done, "{case}: input {number} is at its end");
    }
    for batch in batches {
        let sum =
            |f: fn(&orchestrace_core::ingest::SourcePart) -> u64| batch.parts.iter().map(f).sum::<u64>();
        assert_eq!(sum(|p| p.records), sum(|p| p.used + p.quarantined + p.duplicates), "{case}");
        assert_eq!(sum(|p| p.used), batch.store.n_traces() as u64, "{case}");
        assert_eq!(sum(|p| p.quarantined), batch.store.records_quarantined() as u64, "{case}");
    }
}

fn rest_of_index(batches: &[Batch]) -> Vec<IndexRow> {
    batches.iter().flat_map(|batch| batch.index.iter().copied()).collect()
}

#[test]
fn batches_together_are_the_single_read() {
    let folder = Folder::new("together");
    let paths = folder.fill();
    let begin = vec![ReadPosition::default(); paths.len()];
    let single =
        read(paths.iter().cloned().map(Input::Path).collect(), &ReadOptions::default(), &run(1)).unwrap();
    assert!(single.n_traces() > 500 && single.records_quarantined() > 60);
    for block_size in [700, 8 << 10, 64 << 10, 4 << 20] {
        let options = ReadOptions { block_size, ..ReadOptions::default() };
        for threads in [1, 2, 7] {
            for limit in [1, 30_000, 400_000, WHOLE] {
                if block_size < 8000 && (limit < 30_000 || threads > 1) {
                    continue; // a batch for each of some thousand blocks: once is enough
                }
                let case = format!("limit {limit}, {threads} threads, blocks of {block_size}");
                let parts_read = batches(from(&paths, &begin), &options, (limit, threads), None);
                assert_rows(&single, &[0; TABLES.len()], &parts_read, &TABLES, &case);
                assert_counts(&parts_read, &case);
                let read: u64 = parts_read.iter().flat_map(|b| &b.parts).map(|p| p.records).sum();
                assert_eq!(read, single.records_read(), "{case}");
                if limit == WHOLE {
                    assert_eq!(parts_read.len(), 1, "{case}: without a limit there is one batch");
                } else if block_size <= 64 << 10 && limit <= 30_000 {
                    assert!(parts_read.len() > 5, "{case}: {} batches", parts_read.len());
                }
            }
        }
    }
}

#[test]
fn every_position_is_one_to_go_on_from() {
    let folder = Folder::new("positions");
    let mut paths = folder.fill();
    // Repeated exports and reused ids before and after every place where reading may be taken up.
    let again = folder.0.join("z-again.jsonl");
    std::fs::write(
        &again,
        [generated(2, 3), generated(30, 2), document("single", r#","content":"other""#).into()].concat(),
    )
    .unwrap();
    paths.insert(1, again.clone());
    paths.push(again);
    let begin = vec![ReadPosition::default(); paths.len()];
    let with_findings: Vec<&str> = TABLES.into_iter().chain(["findings"]).collect();
    for (block_size, limit) in [(700, 150_000), (8 << 10, 1), (64 << 10, 200_000), (4 << 20, 1)] {
        let options = ReadOptions { block_size, ..ReadOptions::default() };
        let mut index = TraceIndex::default();
        let single_batch = batches(from(&paths, &begin), &options, (WHOLE, 1), Some(&mut index));
        let single = &single_batch[0].store;
        assert!(
            single_batch[0].parts[1].duplicates >= 30,
            "the second input repeats the end of the first one"
        );
        assert_eq!(single_batch[0].parts.last().unwrap().used, 0, "and the last one is the second one");
        let parts_read =
            batches(from(&paths, &begin), &options, (limit, 2), Some(&mut TraceIndex::default()));
        assert_rows(single, &[0; 8], &parts_read, &with_findings, "with an index");
        assert_eq!(rest_of_index(&parts_read), single_batch[0].index);
        assert_counts(&parts_read, "with an index");
        let step = parts_read.len().div_ceil(12);
        for (n, batch) in parts_read.iter().enumerate().step_by(step) {
            let case = format!("from batch {n} of {}, blocks of {block_size}", parts_read.len());
            let places: Vec<ReadPosition> = batch.parts.iter().map(|part| part.position).collect();
            let mut index = TraceIndex::default();
            for row in rest_of_index(&parts_read[..=n]) {
                index.insert(row);
            }
            let shape = ([WHOLE, 100_000][n % 2], 1 + n % 3);
            let rest = batches(from(&paths, &places), &options, shape, Some(&mut index));
            let skip = rows_of(&parts_read[..=n], &with_findings);
            assert_rows(single, &skip, &rest, &with_findings, &case);
            assert_eq!(
                rest_of_index(&rest),
                single_batch[0].index[rest_of_index(&parts_read[..=n]).len()..],
                "{case}"
            );
            if let Some(end) = rest.last() {
                assert!(end.parts.iter().all(|part| part.position.done), "{case}");
            } else {
                assert!(places.iter().all(|place| place.done), "{case}");
            }
        }
    }
}

#[test]
fn an_input_without_a_record_is_read_to_its_end() {
    let folder = Folder::new("nothing");
    for (name, bytes) in [("a", Vec::new()), ("b", b"\n \n".to_vec()), ("c", gz(b"")), ("d", b"[]".to_vec())]
    {
        let path = folder.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        let parts_read =
            batches(from(&[path], &[ReadPosition::default()]), &ReadOptions::default(), (1, 1), None);
        assert!(parts_read.last().is_some_and(|batch| batch.parts[0].position.done), "{name}");
        assert_eq!(parts_read.iter().map(|batch| batch.store.n_traces()).sum::<usize>(), 0, "{name}");
    }
    let nothing = batches(Vec::new(), &ReadOptions::default(), (1, 1), None);
    assert!(nothing.is_empty());
}

#[test]
fn a_place_that_other_options_do_not_have_is_refused() {
    let folder = Folder::new("options");
    let path: &Path = &folder.0.join("runs.jsonl.gz");
    let long = document("long", &format!(r#","content":"{}""#, "y".repeat(4_000_000)));
    let short = |n: u32| document(&format!("t{n}"), "") + "\n";
    let lines: String = (0..10_000).map(short).collect();
    std::fs::write(path, gz(format!("{lines}{long}\n{lines}").as_bytes())).unwrap();
    let options = ReadOptions { block_size: 8 << 10, ..ReadOptions::default() };
    let begin = || from(&[path.to_owned()], &[ReadPosition::default()]);
    let parts_read = batches(begin(), &options, (1, 1), None);
    let place = parts_read[parts_read.len() - 2].parts[0].position;
    // A record that is cut out as too long shifts the blocks after it.
    let other = ReadOptions { max_record: 1_500_000, ..options.clone() };
    let mut reader = TraceReader::new(from(&[path.to_owned()], &[place]), other.clone()).unwrap();
    let other_blocks = batches(begin(), &other, (1, 1), None).iter().all(|b| b.parts[0].position != place);
    assert!(other_blocks, "the example shows what it is to show");
    assert!(matches!(reader.next(WHOLE, None, &run(1)), Err(Error::Io { .. })));
}
