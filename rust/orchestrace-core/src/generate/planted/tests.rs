use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::generate::tests::check;

mod options;

const ALL: [Outcome; 4] = [Outcome::Linear, Outcome::NoisyOr, Outcome::Majority, Outcome::Mixed];

fn made_on(spec: &Spec, threads: usize) -> (Vec<u8>, Counts, HashMap<&'static str, RecordBatch>) {
    let mut out = Vec::new();
    let progress = AtomicU64::new(0);
    let mut sink = |chunk: &[u8]| {
        out.extend_from_slice(chunk);
        Ok(())
    };
    let (counts, truth) = write(spec, &mut sink, threads, &AtomicBool::new(false), &progress).unwrap();
    assert_eq!(progress.into_inner(), counts.events);
    let tables =
        truth.tables().map(|(name, batches, schema)| (name, concat_batches(&schema, &batches).unwrap()));
    (out, counts, tables.collect())
}

fn planted(spec: &Spec) -> (Vec<Value>, HashMap<&'static str, RecordBatch>) {
    let (bytes, counts, truth) = made_on(spec, 1);
    assert_eq!(check(&bytes).events, counts.events);
    (documents(&bytes), truth)
}

fn documents(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn floats<'a>(table: &'a RecordBatch, name: &str) -> &'a [f64] {
    table.column_by_name(name).unwrap().as_primitive::<Float64Type>().values()
}

fn numbers<'a>(table: &'a RecordBatch, name: &str) -> &'a [u32] {
    table.column_by_name(name).unwrap().as_primitive::<UInt32Type>().values()
}

/// Sums of a column by trace.
fn sums(table: &RecordBatch, name: &str, traces: usize) -> Vec<f64> {
    let mut sums = vec![0.0; traces];
    for (&trace, x) in numbers(table, "trace").iter().zip(floats(table, name)) {
        sums[trace as usize] += x;
    }
    sums
}

fn events(doc: &Value) -> &[Value] {
    doc["events"].as_array().unwrap()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
}

#[test]
fn bits_do_not_depend_on_threads() {
    for outcome in ALL {
        let spec =
            Spec { traces: 700, outcome, interaction: 0.5, branches: 2, dense: true, ..Spec::default() };
        let single = made_on(&spec, 1);
        assert_eq!(single.1.events, 70_000);
        for threads in [2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| made_on(&spec, threads)) == single, "{threads} threads");
            assert!(pool.install(|| made_on(&spec, 0)) == single, "the pool's threads");
        }
        let shorter = made_on(&Spec { traces: 300, ..spec.clone() }, 1);
        assert!(single.0.starts_with(&shorter.0));
        for name in ["contributions", "agents", "decisive", "stopping", "outcomes", "effects", "pairs"] {
            let table = &shorter.2[name];
            assert_eq!(table, &single.2[name].slice(0, table.num_rows()));
        }
        assert_ne!(made_on(&Spec { traces: 300, seed: 1, ..spec }, 1).0, shorter.0);
    }
}

#[test]
fn the_reward_is_the_sum_of_what_was_planted() {
    for outcome in ALL {
        for interaction in [0.0, 0.7] {
            let spec = Spec { traces: 96, outcome, interaction, seed: 3, ..Spec::default() };
            let (docs, truth) = planted(&spec);
            let team = docs.iter().map(|d| d["rewards"]["team"].as_f64().unwrap());
            let quiet = team.zip(floats(&truth["outcomes"], "noise")).map(|(r, z)| r - z).collect::<Vec<_>>();
            assert!(close(&quiet, floats(&truth["outcomes"], "outcome")));
            assert!(close(&quiet, &sums(&truth["contributions"], "contribution", 96)), "{outcome:?}");
            assert!(close(&quiet, &sums(&truth["agents"], "contribution", 96)));
            assert!(close(&quiet, &sums(&truth["agents"], "shapley", 96)), "{outcome:?}");
            let agents = &truth["agents"];
            let additive = close(floats(agents, "contribution"), floats(agents, "shapley"));
            assert_eq!(additive, outcome == Outcome::Linear);
            let table = &truth["contributions"];
            let zeros = floats(table, "contribution").iter().filter(|&&c| c == 0.0).count() as f64;
            let share = zeros / table.num_rows() as f64;
            assert!((0.75..0.85).contains(&share) || interaction > 0.0, "{share}");
        }
    }
}

#[test]
fn contributions_belong_to_the_owner_of_the_event() {
    let (docs, truth) = planted(&Spec { traces: 16, ..Spec::default() });
    let table = &truth["contributions"];
    let mut at = 0;
    let mut earned = BTreeMap::<(u32, String), f64>::new();
    for (trace, doc) in docs.iter().enumerate() {
        let caller = |event: &Value| {
            let edges = doc["edges"].as_array().unwrap();
            let back = edges.iter().find(|e| e["dst"] == event["id"] && e["type"] == "return").unwrap();
            events(doc).iter().find(|e| e["id"] == back["src"]).unwrap()["agent"].clone()
        };
        for (seq, event) in events(doc).iter().enumerate() {
            let result = event["type"] == "tool_result";
            let owner = if result { caller(event) } else { event["agent"].clone() };
            assert_eq!((numbers(table, "trace")[at], numbers(table, "seq")[at]), (trace as u32, seq as u32));
            *earned.entry((trace as u32, owner.as_str().unwrap().to_owned())).or_default() +=
                floats(table, "contribution")[at];
            at += 1;
        }
    }
    let agents = &truth["agents"];
    let names = agents.column_by_name("agent").unwrap().as_string_view();
    assert_eq!(agents.num_rows(), earned.len());
    for row in 0..agents.num_rows() {
        let sum = earned[&(numbers(agents, "trace")[row], names.value(row).to_owned())];
        assert!((sum - floats(agents, "contribution")[row]).abs() < 1e-12);
    }
}

#[test]
fn siblings_share_what_is_before_the_fork() {
    for (branches, group_size) in [(1, 8), (2, 9), (3, 5)] {
        let spec = Spec { traces: 12 * group_size, group_size, branches, seed: 5, ..Spec::default() };
        let (docs, truth) = planted(&spec);
        let contributions = floats(&truth["contributions"], "contribution");
        let (mut parted, mut forked, mut differ, mut identical, mut longest) = (0, 0, 0, 0, BTreeSet::new());
        for a in 0..docs.len() {
            for b in 0..a {
                let same_task = a as u64 / group_size == b as u64 / group_size;
                assert_eq!(docs[a]["task_id"] == docs[b]["task_id"], same_task);
                assert_eq!(events(&docs[a])[0]["group_id"] == events(&docs[b])[0]["group_id"], same_task);
                let (one, two) = (events(&docs[a]), events(&docs[b]));
                let shared = one.iter().zip(two).take_while(|(x, y)| x == y).count();
                let keys = |x: &Value| x["prefix_key"].as_str().unwrap().to_owned();
                let first = one.iter().map(keys).zip(two.iter().map(keys)).position(|(x, y)| x != y);
                if !same_task {
                    assert_eq!(first, Some(0));
                    continue;
                }
                if shared == 100 {
                    // No decision of theirs mattered but the answer, and that was the same.
                    identical += 1;
                    continue;
                }
                longest.insert(shared);
                assert!(shared >= 12, "shared up to {shared}");
                assert_eq!(
                    contributions[a * 100..a * 100 + shared],
                    contributions[b * 100..b * 100 + shared]
                );
                // A key is that of everything before the event: shared up to the first that differs, no
                // longer.
                assert_eq!(first, (shared < 99).then_some(shared + 1));
                let (x, y) = (&one[shared], &two[shared]);
                assert_eq!(x["value"], y["value"]);
                parted += 1;
                if ["type", "agent", "t", "to", "tool"].iter().any(|key| x[key] != y[key]) {
                    continue; // they went the same way at the fork, and what happened next differs
                }
                assert_eq!((&x["p_actions"], &x["role"]), (&y["p_actions"], &y["role"]));
                if x["action"].is_string() {
                    let content =
                        |event: &Value| event.get("args_hash").unwrap_or(&event["content_hash"]).clone();
                    assert!(x["action"] != y["action"] && content(x) != content(y), "{x} {y}");
                    let (c, d) = (contributions[a * 100 + shared], contributions[b * 100 + shared]);
                    forked += 1;
                    differ += usize::from(c != d);
                }
            }
        }
        assert!(forked * 2 > parted && differ * 10 > forked * 8, "{parted} {forked} {differ}");
        assert!(parted > 100 && identical * 20 < parted, "{parted} {identical}");
        assert!(longest.len() > 5, "{longest:?}");
    }
}

#[test]
fn actions_come_up_as_often_as_recorded() {
    let spec = Spec { traces: 600, actions: 4, group_size: 1, seed: 8, ..Spec::default() };
    let (docs, _) = planted(&spec);
    // Standardized by probability: the count of hits among decisions whose action has that probability.
    let mut cells = BTreeMap::<(usize, u64), (f64, f64, f64)>::new();
    for event in docs.iter().flat_map(events) {
        let Some(shares) = event.get("p_actions") else {
            assert!(event.get("action").is_none() && event.get("p_behavior").is_none());
            continue;
        };
        let shares = shares.as_array().unwrap();
        let chosen: usize =
            event["action"].as_str().unwrap().strip_prefix("option_").unwrap().parse().unwrap();
        assert_eq!(shares[chosen], event["p_behavior"]);
        for (action, p) in shares.iter().enumerate() {
            let p = p.as_f64().unwrap();
            let cell = cells.entry((action, (p * 10.0) as u64)).or_default();
            cell.0 += f64::from(u8::from(action == chosen));
            cell.1 += p;
            cell.2 += p * (1.0 - p);
        }
    }
    assert!(cells.len() > 8);
    for (cell, (hits, expected, variance)) in cells {
        // Five standard deviations of a sum of independent Bernoulli variates, and one for the grid.
        assert!((hits - expected).abs() < 5.0 * variance.sqrt() + 1.0, "{cell:?}: {hits} of {expected}");
    }
}

#[test]
fn values_are_expected_outcomes() {
    for outcome in ALL {
        let spec = Spec {
            traces: 2400,
            outcome,
            agents: 4,
            events: 10,
            interaction: 0.3,
            decisive: 0.4,
            density: 0.5,
            group_size: 2,
            dense: true,
            seed: 2,
            ..Spec::default()
        };
        let (docs, truth) = planted(&spec);
        let outcomes = floats(&truth["outcomes"], "outcome");
        let expected = floats(&truth["outcomes"], "expected");
        for seq in [0, 3, 9, 15, 25, 39] {
            let value = |i: usize| events(&docs[i])[seq]["value"].as_f64().unwrap();
            // Groups are independent, the two rollouts of one are not.
            let half = |weight: &dyn Fn(usize) -> f64| {
                let groups = (0..1200).map(|g| {
                    (0..2).map(|r| weight(2 * g + r) * (outcomes[2 * g + r] - value(2 * g + r))).sum::<f64>()
                });
                let groups = groups.collect::<Vec<_>>();
                let mean = groups.iter().sum::<f64>() / 1200.0;
                let square = groups.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 1199.0;
                mean / (square / 1200.0).sqrt()
            };
            // The error has mean 0, and it is uncorrelated with the value itself.
            assert!(half(&|_| 1.0).abs() < 4.0, "{outcome:?} {seq}: {}", half(&|_| 1.0));
            assert!(half(&|i| value(i) - expected[0]).abs() < 4.0 || seq == 0, "{outcome:?} {seq}");
        }
        for (i, doc) in docs.iter().enumerate() {
            let change: f64 = events(doc).iter().map(|e| e["reward"].as_f64().unwrap()).sum();
            assert!((change - (outcomes[i] - expected[i])).abs() < 1e-9);
            assert_eq!(events(doc)[0]["value"].as_f64().unwrap(), expected[i]);
        }
    }
}

#[test]
fn noise_has_the_deviation_asked_for() {
    let (_, truth) = planted(&Spec { traces: 2000, agents: 2, events: 3, noise: 2.5, ..Spec::default() });
    let noise = floats(&truth["outcomes"], "noise");
    let mean = noise.iter().sum::<f64>() / 2000.0;
    let sd = (noise.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / 1999.0).sqrt();
    // Five standard errors.
    assert!(mean.abs() < 5.0 * 2.5 / 2000f64.sqrt() && (sd - 2.5).abs() < 5.0 * 2.5 / 4000f64.sqrt());
    let plain = Spec { traces: 8, noise: 0.0, ..Spec::default() };
    assert!(floats(&planted(&plain).1["outcomes"], "noise").iter().all(|&z| z == 0.0));
    let value = |doc: &Value, at: usize| events(doc)[at]["value"].as_f64().unwrap();
    let (clear, _) = planted(&plain);
    let (blurred, _) = planted(&Spec { value_noise: 0.5, ..plain });
    let errors = (0..800).map(|i| value(&blurred[i / 100], i % 100) - value(&clear[i / 100], i % 100));
    let square = errors.map(|e| e * e).sum::<f64>() / 800.0;
    // Rollouts share beginnings, so fewer than 800 are independent.
    assert!((0.15..0.36).contains(&square), "{square}");
}

#[test]
fn the_decisive_error_is_the_worst_event_in_its_share_of_traces() {
    let spec = Spec { traces: 800, group_size: 1, agents: 3, decisive: 0.3, seed: 4, ..Spec::default() };
    let (docs, truth) = planted(&spec);
    let table = &truth["decisive"];
    let seqs = table.column_by_name("seq").unwrap().as_primitive::<UInt32Type>();
    let agents = table.column_by_name("agent").unwrap().as_string_view();
    let contributions = floats(&truth["contributions"], "contribution");
    let with = 800 - seqs.null_count();
    // Five standard deviations of a binomial count.
    assert!((with as f64 - 240.0).abs() < 5.0 * (800.0_f64 * 0.3 * 0.7).sqrt(), "{with}");
    let mut octants = [0; 4];
    for (trace, doc) in docs.iter().enumerate().filter(|(trace, _)| seqs.is_valid(*trace)) {
        let seq = seqs.value(trace) as usize;
        octants[seq / 15] += 1;
        let of_trace = &contributions[trace * 60..trace * 60 + 60];
        // A large effect of the same event may hide it, another event cannot be as bad as that.
        assert!(of_trace[seq] < -2.0 + 1.67);
        let event = &events(doc)[seq];
        if event["type"] != "tool_result" {
            assert_eq!(event["agent"], agents.value(trace));
        }
        assert_eq!(event["turn"], numbers(table, "turn")[trace]);
    }
    assert!(octants.iter().all(|&n| n > with / 4 - 35 && n < with / 4 + 35), "{octants:?}");
    let none = planted(&Spec { decisive: 0.0, traces: 40, ..Spec::default() }).1;
    assert_eq!(none["decisive"].column_by_name("seq").unwrap().null_count(), 40);
    let all = planted(&Spec { decisive: 1.0, traces: 40, ..Spec::default() }).1;
    assert_eq!(all["decisive"].column_by_name("seq").unwrap().null_count(), 0);
}

#[test]
fn the_best_stop_is_the_first_of_the_highest_payoff() {
    let mut early = [0; 2];
    for (which, stop_cost) in [0.0, 3e-6].into_iter().enumerate() {
        let (docs, truth) = planted(&Spec { traces: 200, stop_cost, seed: 6, ..Spec::default() });
        let table = &truth["stopping"];
        for (trace, doc) in docs.iter().enumerate() {
            let (mut tokens, mut payoffs) = (0.0, Vec::new());
            for event in events(doc) {
                for key in ["tokens_in", "tokens_out"] {
                    tokens += event.get(key).map_or(0.0, |t| t.as_f64().unwrap());
                }
                let epoch = event["type"] == "orchestrator_decision" || event["type"] == "aggregate";
                assert_eq!(epoch, event.get("draft_score").is_some());
                if epoch {
                    payoffs.push(event["draft_score"].as_f64().unwrap() - stop_cost * tokens);
                }
            }
            let best = payoffs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let first = payoffs.iter().position(|&p| p == best).unwrap();
            assert_eq!(numbers(table, "epoch")[trace] as usize, first + 1);
            assert_eq!(floats(table, "payoff")[trace], best);
            assert_eq!(numbers(table, "recorded")[trace] as usize, payoffs.len());
            assert_eq!(floats(table, "recorded_payoff")[trace], payoffs[payoffs.len() - 1]);
            early[which] += first + 1;
        }
    }
    assert!(early[1] < early[0], "a price on tokens stops earlier: {early:?}");
    // A lone agent neither decides nor aggregates.
    let alone = planted(&Spec { agents: 1, traces: 4, ..Spec::default() }).1;
    assert_eq!(alone["stopping"].column_by_name("epoch").unwrap().null_count(), 4);
}

#[test]
fn forests_keep_depth_width_and_topology() {
    let mut deepest = BTreeMap::new();
    for depth in 1..=3 {
        for topology in [None, Some(Topology::Debate)] {
            let spec = Spec { traces: 64, agents: 16, depth, branching: 2, topology, ..Spec::default() };
            let (docs, _) = planted(&spec);
            let seen = docs.iter().map(|d| d["topology"].as_str().unwrap()).collect::<BTreeSet<_>>();
            assert_eq!(seen.len(), if topology.is_none() { 8 } else { 1 });
            assert!(topology.is_none() || seen.contains("debate"));
            for doc in &docs {
                let mut depths = HashMap::from([("orchestrator", 0)]);
                let mut width = 0;
                for event in events(doc) {
                    width = if event["type"] == "spawn" { width + 1 } else { 0 };
                    assert!(width <= 2, "more than two spawns of one decision");
                    if event["type"] == "spawn" {
                        let below = depths[event["agent"].as_str().unwrap()] + 1;
                        depths.insert(event["to"].as_str().unwrap(), below);
                    }
                }
                assert!(depths.len() <= 16 && depths.values().all(|&d| d <= depth));
                let most = deepest.entry(depth).or_insert(0);
                *most = depths.values().copied().fold(*most, u32::max);
            }
        }
    }
    assert_eq!(deepest, BTreeMap::from([(1, 1), (2, 2), (3, 3)]));
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let default = Spec::default;
    for (spec, word) in [
        (Spec { traces: 0, ..default() }, "traces is 0"),
        (Spec { agents: 0, ..default() }, "agents is 0"),
        (Spec { events: 0, ..default() }, "events is 0"),
        (Spec { agents: 1000, events: 1000, ..default() }, "agents * events is 1000000"),
        (Spec { actions: 6, ..default() }, "actions is 6, expected 2 to 5"),
        (Spec { group_size: 0, ..default() }, "group_size is 0"),
        (Spec { branches: 0, ..default() }, "branches is 0"),
        (Spec { density: 1.5, ..default() }, "density is 1.5, expected 0 to 1"),
        (Spec { decisive: f64::NAN, ..default() }, "decisive is NaN"),
        (Spec { noise: -1.0, ..default() }, "noise is -1"),
        (Spec { stop_cost: f64::INFINITY, ..default() }, "stop_cost is inf"),
    ] {
        let message = spec.check().unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
    let cancelled = write(&default(), &mut |_| Ok(()), 1, &AtomicBool::new(true), &AtomicU64::new(0));
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    let full = |_: &[u8]| Err(io::Error::other("full"));
    let result = write(&default(), &mut { full }, 1, &AtomicBool::new(false), &AtomicU64::new(0));
    assert!(matches!(result, Err(Error::Io { .. })));
    assert!(Outcome::parse("noisyor").unwrap_err().to_string().contains("did you mean 'noisy_or'"));
}

#[test]
fn bytes_are_fixed_for_ever() {
    let hashes = ALL.map(|outcome| {
        let (bytes, counts, truth) =
            made_on(&Spec { outcome, interaction: 0.5, seed: 7, ..Spec::default() }, 1);
        let earned = floats(&truth["agents"], "contribution").iter().flat_map(|x| x.to_le_bytes());
        (counts.edges, xxh3_64(&bytes), xxh3_64(&earned.collect::<Vec<_>>()))
    });
    assert_eq!(hashes, GOLDEN);
}

const GOLDEN: [(u64, u64, u64); 4] = [
    (23_806, 11_747_049_721_343_567_416, 15_346_256_839_423_325_154),
    (23_806, 11_807_127_363_469_784_904, 6_462_488_674_595_625_339),
    (23_806, 4_353_456_826_059_399_055, 10_237_684_851_856_758_020),
    (23_806, 16_081_199_437_916_591_910, 12_384_762_160_224_602_515),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_small_corpus_is_valid_and_closes(
        seed: u64, agents in 1u32..14, events in 1u32..12, depth in 1u32..4, branching in 1u32..5,
        outcome in 0usize..4, group_size in 1u64..6, branches in 1u64..4, density in 0.0..=1.0_f64,
        decisive in 0.0..=1.0_f64, interaction in 0.0..1.0_f64, spread in 0.0..=1.0_f64, effects in 0usize..4,
        effect in -2.0..2.0_f64, overlap in 0.0..=0.5_f64, plants: bool,
    ) {
        let outcome = ALL[outcome];
        let effects = [Effects::Context, Effects::Action, Effects::Role, Effects::Tool][effects];
        let spawns = plants && outcome == Outcome::Linear && agents > 1 && events > 3 && spread < 0.5;
        let spawning = spawns.then_some(Spawning { effect, overlap, confounding: 1.0 });
        let spec = Spec {
            traces: 7, seed, agents, events, depth, branching, outcome, group_size, branches, density,
            decisive, interaction, spread, effects, spawning, ..Spec::default()
        };
        let (docs, truth) = planted(&spec);
        for (i, doc) in docs.iter().enumerate() {
            prop_assert_eq!(events_of(doc), spec.length_of(i as u64 / group_size));
        }
        let outcomes = floats(&truth["outcomes"], "outcome");
        prop_assert!(close(outcomes, &sums(&truth["contributions"], "contribution", 7)));
        prop_assert!(close(outcomes, &sums(&truth["agents"], "contribution", 7)));
        let shapley = truth["agents"].column_by_name("shapley").unwrap();
        if shapley.null_count() == 0 {
            prop_assert!(close(outcomes, &sums(&truth["agents"], "shapley", 7)));
        } else {
            prop_assert!(outcome != Outcome::Linear && agents > 12);
        }
    }
}

fn events_of(doc: &Value) -> u64 {
    events(doc).len() as u64
}
