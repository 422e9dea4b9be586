use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::schema::{EDGE_TYPES, EVENT_TYPES, TOPOLOGIES};

fn spec(preset: Preset, events: Option<u64>, traces: Option<u64>, seed: u64) -> Spec {
    Spec { preset, events, traces, seed }
}

fn corpus_on(spec: &Spec, threads: usize) -> (Vec<u8>, Counts) {
    let mut out = Vec::new();
    let progress = AtomicU64::new(0);
    let mut sink = |chunk: &[u8]| {
        out.extend_from_slice(chunk);
        Ok(())
    };
    let counts = write(spec, &mut sink, threads, &AtomicBool::new(false), &progress).unwrap();
    assert_eq!(progress.into_inner(), counts.events);
    (out, counts)
}

fn corpus(spec: &Spec) -> (Vec<u8>, Counts) {
    corpus_on(spec, 1)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().filter(|s| !s.is_empty()).unwrap_or_else(|| panic!("{key} in {value}"))
}

/// What a corpus was seen to contain.
#[derive(Default)]
pub(super) struct Seen {
    words: BTreeSet<String>,
    keys: BTreeMap<String, u64>,
    pub(super) traces: u64,
    pub(super) events: u64,
    edges: u64,
    unordered: u64,
    ordinal: u64,
}

const OPTIONAL: [&str; 25] = [
    "duration_s",
    "tokens_in",
    "tokens_out",
    "tokens",
    "model",
    "turn",
    "cost_usd",
    "ok",
    "score",
    "reward",
    "draft_score",
    "value",
    "p_behavior",
    "action",
    "p_actions",
    "state_key",
    "prefix_key",
    "subtask_id",
    "content_hash",
    "args_hash",
    "group_id",
    "harness_hash",
    "corrupted",
    "sanitizer",
    "privileged",
];

/// The schema and the promises of the generator, checked on every document.
pub(super) fn check(bytes: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut ids = BTreeSet::new();
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        assert_eq!(line.last(), Some(&b'\n'));
        let doc: Value = serde_json::from_slice(line).unwrap();
        assert!(ids.insert(text(&doc, "trace_id").to_owned()));
        check_trace(&doc, &mut seen);
    }
    seen
}

fn check_trace(doc: &Value, seen: &mut Seen) {
    let allowed =
        ["trace_id", "task_id", "system", "topology", "events", "edges", "rewards", "costs", "metrics"];
    assert!(doc.as_object().unwrap().keys().all(|k| allowed.contains(&k.as_str())));
    text(doc, "task_id");
    if let Some(topology) = doc.get("topology") {
        assert!(TOPOLOGIES.contains(&topology.as_str().unwrap()));
        seen.words.insert(format!("topology {}", topology.as_str().unwrap()));
    }
    let events = doc["events"].as_array().unwrap();
    assert!(!events.is_empty());
    let mut times = HashMap::new();
    let (mut tokens, mut dollars, mut calls, mut messages, mut last) = (0, 0.0, 0, 0, f64::NEG_INFINITY);
    let mut ordered = true;
    for event in events {
        let t = event["t"].as_f64().unwrap();
        assert!(t >= 0.0);
        ordered &= t >= last;
        last = t;
        assert!(times.insert(text(event, "id"), t).is_none(), "{event}");
        let kind = text(event, "type");
        assert!(EVENT_TYPES.contains(&kind));
        seen.words.insert(format!("event {kind}"));
        text(event, "agent");
        for key in ["role", "from", "to", "tool", "content_ref"] {
            assert!(event.get(key).is_none_or(Value::is_string));
        }
        assert!(event.get("trusted").is_none_or(Value::is_boolean));
        assert_eq!(event.get("tool").is_some(), kind.starts_with("tool_"));
        assert!(event.get("tool").is_none() || event["trusted"].is_boolean());
        for key in event.as_object().unwrap().keys() {
            *seen.keys.entry(key.clone()).or_default() += 1;
        }
        if let Some(p) = event.get("p_actions") {
            let sum = p.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).sum::<f64>();
            assert!((sum - 1.0).abs() < 1e-9);
            assert!(event["p_behavior"].as_f64().unwrap() > 0.0);
        }
        let count = |key: &str| event.get(key).map_or(0, |n| n.as_i64().unwrap());
        assert!(count("tokens") >= 0 && count("tokens_in") >= 0 && count("tokens_out") >= 0);
        tokens += count("tokens") + count("tokens_in") + count("tokens_out");
        dollars += event.get("cost_usd").map_or(0.0, |n| n.as_f64().unwrap());
        calls += i64::from(kind == "tool_call");
        messages += i64::from(kind == "message");
    }
    let costs = &doc["costs"];
    assert_eq!(costs["tokens"].as_i64(), Some(tokens));
    assert_eq!(costs["tool_calls"].as_i64(), Some(calls));
    assert_eq!(costs["messages"].as_i64(), Some(messages));
    assert!(costs.get("usd").is_none_or(|usd| (usd.as_f64().unwrap() - dollars).abs() < 1e-6));
    let spread = times.values().fold(0.0, |a: f64, &b| a.max(b));
    assert!(times.values().any(|&t| t == 0.0));
    let wall = costs["wall_clock_s"].as_f64().unwrap();
    let ordinal = events.len() > 1 && events.iter().all(|e| e["t"].is_u64());
    assert!(ordinal && (wall - spread).abs() > 0.05 * spread || wall == spread, "{wall} {spread}");
    for map in ["rewards", "metrics"] {
        assert!(doc.get(map).is_none_or(|m| m.as_object().unwrap().values().all(Value::is_number)));
    }
    assert!(doc["rewards"].is_object());
    assert!(costs.as_object().unwrap().values().all(|c| c.as_f64().unwrap() >= 0.0));
    check_edges(doc, events, &times, seen);
    seen.traces += 1;
    seen.events += events.len() as u64;
    seen.unordered += u64::from(!ordered);
    seen.ordinal += u64::from(ordinal);
}

fn check_edges(doc: &Value, events: &[Value], times: &HashMap<&str, f64>, seen: &mut Seen) {
    let place = events.iter().enumerate().map(|(i, e)| (text(e, "id"), i)).collect::<HashMap<_, _>>();
    let kind_of = |id: &str| text(&events[place[id]], "type");
    let mut graph = petgraph::Graph::<(), ()>::new();
    let nodes = events.iter().map(|_| graph.add_node(())).collect::<Vec<_>>();
    let mut unique = BTreeSet::new();
    let mut answered = BTreeSet::new();
    for edge in doc["edges"].as_array().unwrap() {
        assert_eq!(edge.as_object().unwrap().len(), 3);
        let (src, dst, kind) = (text(edge, "src"), text(edge, "dst"), text(edge, "type"));
        assert!(times[src] <= times[dst], "{edge}");
        assert!(EDGE_TYPES.contains(&kind));
        assert!(unique.insert((src, dst, kind)), "twice: {edge}");
        seen.words.insert(format!("edge {kind}"));
        if kind == "aggregate" {
            assert_eq!((kind_of(src), kind_of(dst)), ("return", "aggregate"));
        }
        if kind == "return" && kind_of(src) == "tool_call" {
            assert_eq!(kind_of(dst), "tool_result");
            assert_eq!(events[place[src]]["tool"], events[place[dst]]["tool"]);
            assert!(answered.insert(src) & answered.insert(dst));
        }
        graph.add_edge(nodes[place[src]], nodes[place[dst]], ());
    }
    seen.edges += unique.len() as u64;
    assert!(!petgraph::algo::is_cyclic_directed(&graph));
    // Every call has one result, and every event but the first has a past.
    assert_eq!(answered.len(), events.iter().filter(|e| text(e, "type").starts_with("tool_")).count());
    assert_eq!(graph.externals(petgraph::Direction::Incoming).count(), 1);
    let answer = |e: &&Value| matches!(text(e, "type"), "aggregate" | "return");
    let last = events.iter().max_by(|a, b| times[text(a, "id")].total_cmp(&times[text(b, "id")])).unwrap();
    assert!(answer(&last), "{last}");
}

#[test]
fn everything_appears() {
    let (bytes, counts) = corpus(&spec(Preset::Academic, Some(20_000), None, 1));
    let seen = check(&bytes);
    assert_eq!((seen.traces, seen.events, seen.edges), (counts.traces, counts.events, counts.edges));
    assert_eq!(counts.events, 20_000);
    for (kind, words) in [("event", EVENT_TYPES), ("edge", EDGE_TYPES), ("topology", TOPOLOGIES)] {
        for word in words {
            assert!(seen.words.contains(&format!("{kind} {word}")), "no {kind} {word}");
        }
    }
    for key in OPTIONAL.iter().chain(&["sandbox_id", "note", "x_span", "x_retry"]) {
        assert!(seen.keys.contains_key(*key), "no {key}");
    }
    let share = |n: u64| n as f64 / seen.traces as f64;
    assert!((0.01..0.08).contains(&share(seen.ordinal)), "{}", seen.ordinal);
    assert!((0.01..0.08).contains(&share(seen.unordered)), "{}", seen.unordered);
    let size = counts.bytes as f64 / counts.events as f64;
    assert!((190.0..290.0).contains(&size), "{size}");
}

#[test]
fn all_presets_are_valid() {
    for (preset, events) in [(Preset::Mixed, 30_000), (Preset::Deploy, 9000), (Preset::Tail, 12_000)] {
        let (bytes, counts) = corpus(&spec(preset, Some(events), None, 11));
        assert_eq!(counts.events, events);
        assert_eq!(check(&bytes).events, events);
    }
}

#[test]
fn deployed_teams_are_large_and_nested() {
    let (bytes, _) = corpus(&spec(Preset::Deploy, None, Some(1), 2));
    let doc: Value = serde_json::from_slice(&bytes).unwrap();
    let spawns =
        doc["events"].as_array().unwrap().iter().filter(|e| e["type"] == "spawn").collect::<Vec<_>>();
    assert!(spawns.len() >= 90, "{}", spawns.len());
    let parents = spawns.iter().map(|e| text(e, "agent")).collect::<BTreeSet<_>>();
    assert!(parents.len() > 1);
}

#[test]
fn small_totals_are_exact() {
    for events in 1..=50 {
        for preset in presets() {
            let (bytes, counts) = corpus(&spec(preset.preset, Some(events), None, events));
            assert_eq!((counts.events, counts.bytes), (events, bytes.len() as u64));
            assert_eq!(check(&bytes).events, events);
        }
    }
    let (bytes, counts) = corpus(&spec(Preset::Academic, Some(1), None, 0));
    assert_eq!(counts, Counts { traces: 1, events: 1, edges: 0, bytes: bytes.len() as u64 });
}

#[test]
fn bytes_do_not_depend_on_threads() {
    for preset in [Preset::Mixed, Preset::Academic] {
        let spec_of_corpus = spec(preset, Some(120_000), None, 5);
        let single = corpus_on(&spec_of_corpus, 1);
        assert_eq!(single.1.events, 120_000);
        for threads in [2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| corpus_on(&spec_of_corpus, threads)) == single, "{threads} threads");
            assert!(pool.install(|| corpus_on(&spec_of_corpus, 0)) == single, "the pool's threads");
        }
    }
}

#[test]
fn a_corpus_is_a_prefix_of_a_longer_one() {
    let short = corpus(&spec(Preset::Mixed, None, Some(40), 3));
    let long = corpus(&spec(Preset::Mixed, None, Some(60), 3));
    assert_eq!((short.1.traces, long.1.traces), (40, 60));
    assert!(long.0.starts_with(&short.0));
    assert!(!corpus(&spec(Preset::Mixed, None, Some(40), 4)).0.starts_with(&short.0[..200]));
}

#[test]
fn rollouts_share_their_task() {
    let (bytes, _) = corpus(&spec(Preset::Academic, None, Some(32), 3));
    let mut tasks = BTreeMap::<String, u64>::new();
    for line in bytes.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
        let doc: Value = serde_json::from_slice(line).unwrap();
        *tasks.entry(text(&doc, "task_id").to_owned()).or_default() += 1;
    }
    assert_eq!(tasks.into_values().collect::<Vec<_>>(), [8; 4]);
}

#[test]
fn reward_follows_from_the_run() {
    // Over many runs, those with a corrupted answer must fail more often than the others.
    let (bytes, _) = corpus(&spec(Preset::Academic, None, Some(3000), 8));
    let (mut spoilt, mut clean) = ((0.0, 0.0), (0.0, 0.0));
    for line in bytes.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
        let doc: Value = serde_json::from_slice(line).unwrap();
        let (Some(team), Some(last)) =
            (doc["rewards"]["team"].as_f64(), doc["events"].as_array().unwrap().last())
        else {
            continue;
        };
        let sum = if last["corrupted"] == true { &mut spoilt } else { &mut clean };
        *sum = (sum.0 + team, sum.1 + 1.0);
    }
    let (bad, good) = (spoilt.0 / spoilt.1, clean.0 / clean.1);
    assert!(spoilt.1 > 20.0 && bad + 0.2 < good && (0.35..0.85).contains(&good), "{bad} {good} {spoilt:?}");
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let error = |events, traces| {
        let spec = spec(Preset::Mixed, events, traces, 0);
        write(&spec, &mut |_| Ok(()), 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_err()
    };
    for (events, traces) in [(Some(1), Some(1)), (Some(0), None), (None, Some(0))] {
        assert!(matches!(error(events, traces), Error::Parameter(_)));
    }
    let spec_of_corpus = spec(Preset::Academic, None, None, 0);
    let full = |_: &[u8]| Err(io::Error::other("full"));
    let result = write(&spec_of_corpus, &mut { full }, 1, &AtomicBool::new(false), &AtomicU64::new(0));
    assert!(matches!(result, Err(Error::Io { .. })));
    let result = write(&spec_of_corpus, &mut |_| Ok(()), 1, &AtomicBool::new(true), &AtomicU64::new(0));
    assert!(matches!(result, Err(Error::Cancelled)));
}

#[test]
fn bytes_are_fixed_for_ever() {
    let hashes = presets().iter().map(|p| {
        let (bytes, counts) = corpus(&spec(p.preset, Some(25_000), None, 7));
        (p.name, counts.traces, counts.edges, xxh3_64(&bytes))
    });
    assert_eq!(hashes.collect::<Vec<_>>(), GOLDEN);
}

const GOLDEN: [(&str, u64, u64, u64); 4] = [
    ("mixed", 345, 35_678, 5_899_987_366_625_567_253),
    ("academic", 713, 34_810, 8_285_467_999_516_293_567),
    ("deploy", 6, 31_952, 693_287_293_487_412_608),
    ("tail", 62, 36_045, 17_777_682_249_844_086_447),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_small_corpus_is_valid(seed: u64, events in 1u64..400, preset in 0usize..4) {
        let (bytes, counts) = corpus(&spec(presets()[preset].preset, Some(events), None, seed));
        prop_assert_eq!(counts.events, events);
        prop_assert_eq!(check(&bytes).events, events);
    }
}
