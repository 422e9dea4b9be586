//! Prefixes of files, threads and blocks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::importers::testing::documents;

/// Everything that later lines cannot change: not of what stands at the end of an open stream or waits for its
/// result, and not what is known only from the whole (roles, what was taken back, totals). Turns and times are
/// counted over the trace: they change if another file of it has more.
fn settled(trace: &Json, open: &BTreeSet<String>, others: bool) -> BTreeMap<String, Json> {
    let list = trace["events"].as_array().unwrap().iter();
    let closed = list.filter(|event| !open.contains(event["id"].as_str().unwrap()));
    closed
        .map(|event| {
            let mut event = event.as_object().unwrap().clone();
            for late in ["role", "x_trace", "x_abandoned", "x_aborted"] {
                event.remove(late);
            }
            if others {
                event.remove("turn");
                event.remove("t");
            }
            (event["id"].as_str().unwrap().to_owned(), Json::Object(event))
        })
        .collect()
}

/// Ids of the events of the last response of each agent, and of what came after it.
fn unsettled(trace: &Json) -> BTreeSet<String> {
    let mut last: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut turns: BTreeMap<String, Json> = BTreeMap::new();
    for event in trace["events"].as_array().unwrap() {
        let agent = event["agent"].as_str().unwrap().to_owned();
        let id = event["id"].as_str().unwrap().to_owned();
        if turns.get(&agent) != Some(&event["turn"]) {
            last.insert(agent.clone(), Vec::new());
            turns.insert(agent.clone(), event["turn"].clone());
        }
        last.entry(agent).or_default().push(id);
    }
    let waiting =
        trace["events"].as_array().unwrap().iter().filter(|event| event["x_partial"] == json!(true));
    let waiting = waiting.map(|event| event["id"].as_str().unwrap().to_owned());
    last.into_values().flatten().chain(waiting).collect()
}

fn prefixes_hold(file: &File, others: &[&File], cut: usize) {
    let full_text = file.text();
    let texts: Vec<String> = others.iter().map(|file| file.text()).collect();
    let read = |text: &str| {
        let mut inputs = vec![(file.path.as_str(), text)];
        inputs.extend(others.iter().zip(&texts).map(|(file, text)| (file.path.as_str(), text.as_str())));
        traces(&read_texts(&Codex, &inputs))
    };
    let full = read(&full_text);
    let all: BTreeMap<String, Json> =
        full.iter().flat_map(|trace| settled(trace, &BTreeSet::new(), !others.is_empty())).collect();
    let mut at = cut % (full_text.len() + 1);
    while !full_text.is_char_boundary(at) {
        at -= 1;
    }
    for trace in read(&full_text[..at]) {
        for (id, event) in settled(&trace, &unsettled(&trace), !others.is_empty()) {
            assert_eq!(all.get(&id), Some(&event), "{id} of the first {at} bytes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn prefixes_tell_what_the_whole_tells(cut in any::<usize>(), which in 0_usize..4) {
        let [root, kid, deep] = team();
        match which {
            0 => prefixes_hold(&session(), &[], cut),
            1 => prefixes_hold(&root, &[&kid, &deep], cut),
            2 => prefixes_hold(&kid, &[&root, &deep], cut),
            _ => prefixes_hold(&deep, &[&root, &kid], cut),
        }
    }

    #[test]
    fn threads_change_nothing(threads in 1_usize..8, size in 200_usize..4000) {
        let files = team();
        let texts: Vec<String> = files.iter().map(File::text).collect();
        let inputs: Vec<(&str, &[u8])> =
            files.iter().zip(&texts).map(|(file, text)| (file.path.as_str(), text.as_bytes())).collect();
        let options = ReadOptions { block_size: size, ..ReadOptions::default() };
        let store = read_bytes(Format::Spread(&Codex), &inputs, &options, threads);
        let single = read_files(&files.each_ref());
        prop_assert_eq!(documents(&store), documents(&single));
        prop_assert_eq!(fates(&store), fates(&single));
    }
}
