//! Times reading a file.
use orchestrace_core::{ingest::{Input, ReadOptions, read}, run::Run};
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let th: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    for _ in 0..7 {
        let t = std::time::Instant::now();
        let s = read(vec![Input::Path(path.clone().into())], &ReadOptions::default(), &Run::new(Some(th)).unwrap()).unwrap();
        println!("{} traces {} events {} edges {} quarantined {} bytes {:.3}s", s.n_traces(), s.n_events(), s.n_edges(), s.records_quarantined(), s.nbytes(), t.elapsed().as_secs_f64());
    }
}
