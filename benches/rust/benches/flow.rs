//! Graph and credit on a corpus in memory, one thread: adjacency alone, then `flow` and `grpo` from tables to
//! rows, the graph of every trace built anew.

use criterion::{BatchSize, Criterion, Throughput};
use orchestrace_benches::corpus::{mixed, store};
use orchestrace_core::credit::{Params, Request, Value, credit, find};
use orchestrace_core::error::Result;
use orchestrace_core::graph::{GraphOptions, TYPE_WEIGHTS, TraceGraph};
use orchestrace_core::run::Run;
use orchestrace_core::schema::Unit;
use orchestrace_core::store::Store;
use orchestrace_core::store::view::ChunkView;

const EVENTS: u64 = 200_000;

/// Builds the adjacency of every trace, successors if they are asked for; the number of edges after merging.
fn adjacency(store: &Store, graph: &mut TraceGraph, weighted: bool, successors: bool) -> usize {
    let options = GraphOptions { weights: weighted.then_some(&TYPE_WEIGHTS), ..GraphOptions::default() };
    let mut edges = 0;
    for chunk in store.chunks() {
        let view = ChunkView::new(store, chunk);
        for i in 0..view.len() {
            graph.begin();
            graph.build(&view.trace(i), options);
            if successors {
                graph.csr.build_successors();
            }
            edges += graph.csr.n_edges();
        }
    }
    edges
}

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let (corpus, counts) = mixed(EVENTS)?;
    let store = store(corpus)?;
    assert_eq!(store.n_events() as u64, counts.events);
    let mut graph = TraceGraph::default();

    let mut group = criterion.benchmark_group("csr");
    group.throughput(Throughput::Elements(counts.events));
    for (name, weighted, successors) in [
        ("predecessors", false, false),
        ("predecessors, weights", true, false),
        ("both ways, weights", true, true),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| adjacency(&store, &mut graph, weighted, successors));
        });
    }
    group.finish();

    let run = Run::new(Some(1))?;
    let rewards = [vec![("team".to_owned(), 1.0)]];
    let mut group = criterion.benchmark_group("credit");
    group.throughput(Throughput::Elements(counts.events));
    for (name, method, kernel, unit) in [
        ("flow, uniform", "flow", Some("uniform"), Unit::Event),
        ("flow, edge_type", "flow", Some("edge_type"), Unit::Event),
        ("flow, time_decay", "flow", Some("time_decay"), Unit::Event),
        ("flow, edge_type, by agent", "flow", Some("edge_type"), Unit::Agent),
        ("grpo", "grpo", None, Unit::Event),
    ] {
        let method = find(method)?;
        let given: Vec<_> = kernel.map(|word| ("kernel", Value::Text(word.into()))).into_iter().collect();
        let params = Params::check(method.info().params, &given)?;
        let request = Request { rewards: &rewards, elsewhere: &[], unit, params: &params };
        credit(&store, method, &request, &run)?;
        group.bench_function(name, |bencher| {
            // one result at a time, dropped outside the time taken
            bencher.iter_batched(|| (), |()| credit(&store, method, &request, &run), BatchSize::PerIteration);
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
