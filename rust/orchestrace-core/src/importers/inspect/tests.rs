use super::*;
use crate::importers::testing::{counts, documents, read_texts};

#[test]
fn dump() {
    let root = std::env::var("ORCHESTRACE_CORPORA").unwrap() + "/inspect-ai/";
    let Ok(list) = std::env::var("DUMP") else { return };
    for file in list.split(',') {
        let text = std::fs::read_to_string(format!("{root}{file}")).unwrap();
        let store = read_texts(&Inspect, &[(file, &text)]);
        println!("== {file} {:?}", counts(&store));
        for doc in documents(&store) {
            println!("{} {} {} {:?}", doc["trace_id"], doc["task_id"], doc["rewards"], doc["costs"]);
            println!("  {} {}", doc["metrics"], doc["events"][0]["x_trace"]);
            for e in doc["events"].as_array().unwrap() {
                println!("  {}", e);
            }
            for e in doc["edges"].as_array().unwrap() {
                println!("  {} -{}-> {}", e["src"], e["type"], e["dst"]);
            }
        }
    }
}
