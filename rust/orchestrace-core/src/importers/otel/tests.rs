use super::*;
use crate::importers::Format;
use crate::importers::testing::{counts, documents, read_bytes};
use crate::ingest::ReadOptions;

#[test]
#[ignore]
fn look() {
    for files in std::env::var("LOOK").unwrap().split(';') {
        let inputs: Vec<(String, Vec<u8>)> =
            files.split(',').map(|f| (f.to_owned(), std::fs::read(f).unwrap())).collect();
        let inputs: Vec<(&str, &[u8])> = inputs.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
        let start = std::time::Instant::now();
        let store = read_bytes(Format::Spread(&Otel), &inputs, &ReadOptions::default(), 1);
        println!("{:?}", start.elapsed());
        for c in counts(&store) {
            println!("COUNT {c:?}");
        }
        for d in documents(&store) {
            println!("DOC {d}");
        }
    }
}
