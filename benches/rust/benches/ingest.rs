//! `ingest::read`: a plain file to the store, validation and edge resolution included.

use std::path::Path;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use orchestrace_benches::mixed;
use orchestrace_core::error::{Error, Result};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;

/// About 30 MB: eight blocks.
const EVENTS: u64 = 100_000;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ingest.jsonl");
    let (corpus, counts) = mixed(EVENTS)?;
    std::fs::write(&path, &corpus)
        .map_err(|source| Error::Io { path: path.to_string_lossy().into_owned(), source })?;
    drop(corpus);
    let options = ReadOptions::default();
    let mut group = criterion.benchmark_group("ingest");
    group.sample_size(20);
    group.throughput(Throughput::Bytes(counts.bytes));
    for threads in [1, 2] {
        let run = Run::new(Some(threads))?;
        let store = read(vec![Input::Path(path.clone())], &options, &run)?;
        assert_eq!((store.n_events() as u64, store.n_edges() as u64), (counts.events, counts.edges));
        group.bench_function(BenchmarkId::new("read, threads", threads), |bencher| {
            // one store at a time, dropped outside the time taken
            bencher.iter_batched(
                || vec![Input::Path(path.clone())],
                |inputs| read(inputs, &options, &run),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
