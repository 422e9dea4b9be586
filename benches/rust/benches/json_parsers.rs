//! JSON parsers on trace records: one block of a generated corpus into the same columns, one thread.
//!
//! Every iteration gets its own copy of the block, made outside the time taken, because one of the parsers
//! unescapes in place. Before anything is timed all readers must give the same sums.

use criterion::{BatchSize, Criterion, Throughput};
use orchestrace_benches::{Block, Columns, mixed, readers};
use orchestrace_core::error::Result;

/// About 8 MB.
const EVENTS: u64 = 27_000;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let (corpus, counts) = mixed(EVENTS)?;
    let block = Block::new(corpus);
    let mut columns = Columns::default();
    let mut expected = None;
    let mut group = criterion.benchmark_group("json_parsers");
    group.throughput(Throughput::Bytes(counts.bytes));
    for mut reader in readers() {
        let name = reader.name();
        let outcome = reader.block(&mut block.clone(), &mut columns);
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
        let sums = columns.sums();
        assert_eq!(sums, *expected.get_or_insert(sums), "{name} reads something else");
        assert_eq!(sums.rows.map(|rows| rows as u64), [counts.traces, counts.events, counts.edges]);
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || block.clone(),
                |block| reader.block(block, &mut columns).is_ok(),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
