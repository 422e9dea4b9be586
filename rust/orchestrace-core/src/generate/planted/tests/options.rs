//! Ties of effects, lengths that vary, planted decisions to spawn: what each says it does.

use super::*;

const TIES: [Effects; 3] = [Effects::Action, Effects::Role, Effects::Tool];

/// Mean of what groups of rollouts give, in its standard errors; groups are independent.
fn deviation(values: &[f64], group: usize) -> f64 {
    let sums = values.chunks(group).map(|g| g.iter().sum::<f64>()).collect::<Vec<_>>();
    let n = sums.len() as f64;
    let mean = sums.iter().sum::<f64>() / n;
    let square = sums.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    mean / (square / n).sqrt()
}

#[test]
fn values_stay_expected_outcomes_under_ties_and_varying_lengths() {
    for (outcome, spread) in [(Outcome::Linear, 0.0), (Outcome::Mixed, 0.0), (Outcome::Mixed, 0.6)] {
        for effects in TIES {
            let spec = Spec {
                traces: 2400,
                outcome,
                effects,
                spread,
                agents: 4,
                events: 10,
                density: 0.6,
                group_size: 2,
                seed: 11,
                ..Spec::default()
            };
            let (docs, truth) = planted(&spec);
            let outcomes = floats(&truth["outcomes"], "outcome");
            for seq in [0, 3, 9, 15] {
                let errors = docs.iter().zip(outcomes).map(|(doc, y)| {
                    events(doc).get(seq).map_or(0.0, |event| y - event["value"].as_f64().unwrap())
                });
                let off = deviation(&errors.collect::<Vec<_>>(), 2);
                assert!(off.abs() < 4.0, "{outcome:?} {effects:?} {spread} {seq}: {off}");
            }
            assert!(close(outcomes, &sums(&truth["contributions"], "contribution", 2400)));
        }
    }
}

#[test]
fn tied_effects_can_be_read_off_the_recording() {
    for effects in TIES {
        let spec =
            Spec { traces: 200, effects, density: 1.0, decisive: 0.0, group_size: 1, ..Spec::default() };
        let (docs, truth) = planted(&spec);
        let mut earned = floats(&truth["contributions"], "contribution").iter();
        let mut cells = BTreeMap::<String, (f64, f64, f64)>::new();
        for event in docs.iter().flat_map(events) {
            let value = *earned.next().unwrap();
            let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
            let key = match effects {
                Effects::Tool if event["type"] == "tool_call" => text("tool"),
                Effects::Action if event.get("action").is_some() => text("action"),
                Effects::Role if event.get("action").is_some() => text("role") + &text("action"),
                _ => continue,
            };
            let cell = cells.entry(key).or_default();
            *cell = (cell.0 + 1.0, cell.1 + value, cell.2 + value * value);
        }
        // The share of the variance of effects that the tie explains: all of it but what centering adds.
        let (n, sum, square) = cells.values().fold((0.0, 0.0, 0.0), |s, c| (s.0 + c.0, s.1 + c.1, s.2 + c.2));
        let between = cells.values().map(|c| c.1 * c.1 / c.0).sum::<f64>() - sum * sum / n;
        let share = between / (square - sum * sum / n);
        // A tool has one effect; an action is compared with the others of its context.
        assert!(share > if effects == Effects::Tool { 1.0 - 1e-12 } else { 0.5 }, "{effects:?}: {share}");
    }
}

#[test]
fn lengths_vary_between_tasks_only() {
    let spec = Spec { traces: 400, spread: 0.5, group_size: 4, ..Spec::default() };
    let (docs, truth) = planted(&spec);
    let lengths = docs.iter().map(events_of).collect::<Vec<_>>();
    assert!(lengths.chunks(4).all(|group| group.iter().all(|&n| n == group[0])));
    let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
    assert!((50..57).contains(least) && (143..=150).contains(most), "{least} {most}");
    assert_eq!(truth["contributions"].num_rows() as u64, lengths.iter().sum::<u64>());
    let places = numbers(&truth["contributions"], "seq").iter().filter(|&&seq| seq == 0).count();
    assert_eq!(places, 400);
}

#[test]
fn a_length_of_its_own_is_exact_whatever_the_team() {
    let spec = Spec { traces: 24, agents: 7, length: Some(100), ..Spec::default() };
    let (docs, _) = planted(&spec);
    assert!(docs.iter().all(|doc| events_of(doc) == 100));
    // Only the length counts: the same runs as with a team that divides it.
    let divided = Spec { agents: 5, events: 20, ..spec.clone() };
    assert_eq!(planted(&Spec { length: None, ..divided.clone() }), planted(&divided));
    let spread = planted(&Spec { spread: 0.5, ..spec }).0.iter().map(events_of).collect::<Vec<_>>();
    assert!(spread.iter().any(|&n| n != 100) && spread.iter().all(|n| (50..=150).contains(n)));
}

fn spawned(doc: &Value) -> bool {
    events(doc).iter().any(|event| event["type"] == "spawn")
}

#[test]
fn the_decision_to_spawn_has_the_probability_and_the_effect_that_are_told() {
    for overlap in [0.2, 0.0] {
        let spec = Spec {
            traces: 6000,
            agents: 3,
            events: 4,
            decisive: 0.2,
            seed: 21,
            spawning: Some(Spawning { effect: 1.5, overlap, confounding: 1.0 }),
            ..Spec::default()
        };
        let (docs, truth) = planted(&spec);
        let (table, outcomes) = (&truth["decisions"], floats(&truth["outcomes"], "outcome"));
        assert_eq!(table.num_rows(), 6000);
        let (states, p) = (numbers(table, "state"), floats(table, "p"));
        let (effects, without) = (floats(table, "effect"), floats(table, "without"));
        let action = table.column_by_name("action").unwrap().as_string_view();
        let mut draws = vec![Vec::new(); 4];
        let mut errors = vec![Vec::new(); 4];
        for (i, doc) in docs.iter().enumerate() {
            let (first, taken) = (&events(doc)[0], spawned(doc));
            assert_eq!(first["type"], "orchestrator_decision");
            assert_eq!((action.value(i), taken), (if taken { "spawn" } else { "no_spawn" }, taken));
            assert_eq!(first["action"], action.value(i));
            let shares = first["p_actions"].as_array().unwrap();
            assert_eq!((shares.len(), shares[1].as_f64().unwrap()), (2, p[i]));
            assert_eq!(first["p_behavior"], shares[usize::from(taken)]);
            let state = states[i] as usize;
            assert_eq!(first["state_key"], format!("lead:state_{state}"));
            let place = state as f64 / 3.0;
            assert!((p[i] - (overlap + (1.0 - 2.0 * overlap) * place)).abs() < 5.1e-4);
            assert!((effects[i] - 1.5 * (0.5 + place)).abs() < 1e-12);
            assert!((without[i] - (2.0 * place - 1.0 - 2.0 * 0.2)).abs() < 1e-12);
            draws[state].push(f64::from(u8::from(taken)) - p[i]);
            errors[state].push(outcomes[i] - without[i] - if taken { effects[i] } else { 0.0 });
            let expected = floats(&truth["outcomes"], "expected")[i];
            assert!((expected - (without[i] + p[i] * effects[i])).abs() < 1e-12);
            assert_eq!(first["value"].as_f64().unwrap(), expected);
        }
        for state in 0..4 {
            assert!(errors[state].len() > 1000);
            // Given state and choice, all else has mean 0. A state may have no draw at all.
            assert!(deviation(&errors[state], 8).abs() < 4.0, "{overlap} {state}");
            let certain = draws[state].iter().all(|&d| d == 0.0);
            assert_eq!(certain, overlap == 0.0 && (state == 0 || state == 3));
            assert!(certain || deviation(&draws[state], 8).abs() < 4.0, "{overlap} {state}");
        }
    }
}

#[test]
fn rollouts_of_a_group_part_at_the_decision_to_spawn() {
    let spawning = Some(Spawning { effect: 1.0, overlap: 0.4, confounding: 0.0 });
    for branches in [1, 2] {
        let (docs, _) = planted(&Spec { traces: 160, spawning, branches, seed: 2, ..Spec::default() });
        let key = |doc: &Value, at: usize| events(doc)[at]["prefix_key"].as_str().unwrap().to_owned();
        let mut both = 0;
        for group in docs.chunks(8) {
            assert!(group.iter().all(|doc| key(doc, 0) == key(&group[0], 0)));
            let taken = group.iter().filter(|doc| spawned(doc)).count();
            both += usize::from(taken > 0 && taken < 8);
            for doc in group {
                // One choice, one text: who chose alike has one context up to there.
                let like = group.iter().filter(|other| spawned(other) == spawned(doc));
                assert!(
                    like.clone()
                        .all(|other| events(other)[0]["content_hash"] == events(doc)[0]["content_hash"])
                );
            }
        }
        assert!(both >= if branches == 1 { 15 } else { 5 }, "{both}");
    }
    // Who did not spawn works alone.
    let (docs, truth) = planted(&Spec { traces: 40, spawning, ..Spec::default() });
    let alone = docs.iter().filter(|doc| !spawned(doc)).count();
    let agents = numbers(&truth["agents"], "trace");
    let single = (0..40).filter(|t| agents.iter().filter(|&&trace| trace == *t).count() == 1).count();
    assert!(alone > 5 && alone == single);
}

#[test]
fn options_that_cannot_be_planted_are_refused() {
    let plan = |effect, overlap| Some(Spawning { effect, overlap, confounding: 1.0 });
    for (spec, word) in [
        (Spec { spread: 1.5, ..Spec::default() }, "length_spread is 1.5, expected 0 to 1"),
        (Spec { agents: 1000, events: 150, spread: 0.5, ..Spec::default() }, "(1 + length_spread) is 225000"),
        (Spec { length: Some(0), ..Spec::default() }, "length is 0, expected 1 to 200000"),
        (
            Spec { length: Some(150_000), spread: 0.5, ..Spec::default() },
            "length * (1 + length_spread) is 225000",
        ),
        (Spec { spawning: plan(1.0, 0.6), ..Spec::default() }, "spawn_overlap is 0.6, expected 0 to 0.5"),
        (Spec { spawning: plan(f64::NAN, 0.2), ..Spec::default() }, "the size of spawn_effect is NaN"),
        (Spec { spawning: plan(1.0, 0.2), agents: 1, ..Spec::default() }, "at least 2 agents"),
        (
            Spec { spawning: plan(1.0, 0.2), outcome: Outcome::Mixed, ..Spec::default() },
            "spawn_effect needs outcome 'linear'",
        ),
    ] {
        let message = spec.check().unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn options_do_not_let_threads_show() {
    let spawning = Some(Spawning { effect: 1.0, overlap: 0.1, confounding: 0.5 });
    for effects in TIES {
        let spec = Spec { traces: 500, spread: 0.7, effects, spawning, branches: 2, ..Spec::default() };
        let single = made_on(&spec, 1);
        for threads in [2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| made_on(&spec, threads)) == single, "{effects:?} {threads}");
        }
        let shorter = made_on(&Spec { traces: 100, ..spec }, 1);
        assert!(single.0.starts_with(&shorter.0));
    }
}
