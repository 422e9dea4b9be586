use super::ClaudeCode;
use crate::importers::Format;
use crate::importers::testing::{counts, read_bytes};
use crate::ingest::ReadOptions;

#[test]
fn zz_corpora() {
    let root = std::env::var("HF_ROOT").unwrap();
    let mut inputs = Vec::new();
    let mut stack = vec![std::path::PathBuf::from(&root)];
    while let Some(d) = stack.pop() {
        for e in std::fs::read_dir(&d).unwrap() {
            let p = e.unwrap().path();
            if p.is_dir() {
                stack.push(p)
            } else if p.to_str().unwrap().contains(".json") {
                inputs.push((p.to_str().unwrap().to_owned(), std::fs::read(&p).unwrap()));
            }
        }
    }
    inputs.sort();
    if std::env::var("HF_REV").is_ok() {
        inputs.reverse();
    }
    let list: Vec<(&str, &[u8])> = inputs.iter().map(|(p, b)| (p.as_str(), b.as_slice())).collect();
    let store = read_bytes(Format::Spread(&ClaudeCode), &list, &ReadOptions::default(), 2);
    let mut out = Vec::new();
    crate::store::write_jsonl(&store, &mut out, &crate::run::Run::new(Some(1)).unwrap()).unwrap();
    std::fs::write(std::env::var("HF_OUT").unwrap(), out).unwrap();
    let mut sums = std::collections::BTreeMap::new();
    for (_, status, kind, n) in counts(&store) {
        *sums.entry((status, kind)).or_insert(0) += n;
    }
    for ((s, k), n) in sums {
        println!("{s:12} {k:50} {n}");
    }
    println!("quarantined {} traces {}", store.records_quarantined(), store.n_traces());
}
