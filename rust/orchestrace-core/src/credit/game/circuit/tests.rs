//! Tests of compiled games against the surrogate that they were compiled from.

use proptest::prelude::*;

use super::*;
use crate::graph::test_trace::{TestTrace, random_trace};
use crate::graph::{GraphOptions, NO_UNIT, Outcome, TraceGraph};
use crate::rng::Stream;
use crate::run::Run;
use crate::surrogate::{Aggregation, Model, Structure, Weights};

/// The surrogate's values of coalitions, event by event, and the compiled game's.
fn both(
    t: &TestTrace,
    structure: &Structure,
    players: usize,
    player_of: &[u32],
    members: &[Vec<u64>],
    (compiler, circuit): (&mut Compiler, &mut Circuit),
) -> (Vec<f64>, Vec<f64>) {
    let mut graph = TraceGraph::default();
    graph.begin();
    let outcome = graph.outcome(&t.view()).unwrap_or(Outcome::VirtualSink);
    graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(structure.weights.table()) });
    let surrogate = graph.surrogate(&t.view(), outcome, structure).unwrap().2;
    compiler.compile(surrogate, players, |v| player_of[v], circuit);
    let mut game = CircuitGame::new(circuit, Memory::default(), Evaluation::Auto);
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    for members in members {
        let present: Vec<u64> =
            player_of.iter().map(|&p| members.get(p as usize).copied().unwrap_or(u64::MAX)).collect();
        let mut out = [0.0; COALITIONS];
        surrogate.values(&present, &mut out);
        wanted.extend(out);
        game.values(members, &mut out).unwrap();
        found.extend(out);
    }
    (wanted, found)
}

fn structures() -> impl Strategy<Value = Structure> {
    let weights = prop_oneof![
        Just(Weights::Normalized),
        prop::array::uniform8(prop_oneof![Just(0.0), 0.05..1.2_f64]).prop_map(Weights::Given),
    ];
    let aggregate = prop::option::weighted(0.2, prop::sample::select(Aggregation::ALL));
    (prop::sample::select(Model::ALL), weights, aggregate).prop_map(|(model, weights, aggregate)| Structure {
        weights,
        aggregate,
        ..Structure::of(model)
    })
}

/// A trace, the player of each event, and coalitions that differ from the ones before in few players or in all.
fn played() -> impl Strategy<Value = (TestTrace, usize, Vec<u32>, Vec<Vec<u64>>)> {
    (random_trace(40, true), 1_usize..9, any::<u64>()).prop_map(|(t, players, seed)| {
        let mut stream = Stream::numbered(seed, "players", 0);
        let player_of = (0..t.t.len()).map(|_| {
            let player = stream.below(players as u64 + 1) as u32;
            if player == players as u32 { NO_UNIT } else { player }
        });
        let player_of = player_of.collect();
        let mut members = vec![vec![u64::MAX; players], vec![0; players]];
        for _ in 0..4 {
            members.push((0..players).map(|_| stream.bits64()).collect());
            let mut next = members[members.len() - 1].clone();
            let moved = stream.below(players as u64) as usize;
            next[moved] = !next[moved];
            members.push(next);
        }
        (t, players, player_of, members)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn compiled_games_are_the_surrogate(some in prop::collection::vec((played(), structures()), 1..3)) {
        let (mut compiler, mut circuit) = (Compiler::default(), Circuit::default());
        for ((t, players, player_of, members), structure) in &some {
            let (wanted, found) =
                both(t, structure, *players, player_of, members, (&mut compiler, &mut circuit));
            for (wanted, found) in wanted.iter().zip(&found) {
                prop_assert!((wanted - found).abs() < 1e-12, "{} {} {:?}", wanted, found, structure);
            }
            if structure.model == Model::NoisyOr && structure.aggregate.is_none()
                && structure.weights == Weights::Normalized {
                prop_assert!(found[0] == 1.0, "everything there is exactly 1");
            }
        }
    }

    /// The build for processors with wide registers and that for any, whatever was evaluated before.
    #[test]
    fn registers_do_not_show(((t, players, player_of, members), structure) in (played(), structures())) {
        let (mut compiler, mut circuit) = (Compiler::default(), Circuit::default());
        let (_, wide) = both(&t, &structure, players, &player_of, &members, (&mut compiler, &mut circuit));
        let mut game = CircuitGame::new(&circuit, Memory::default(), Evaluation::Auto);
        let mut out = [0.0; COALITIONS];
        for (members, wide) in members.iter().zip(wide.chunks(COALITIONS)) {
            game.block_values(members, &mut out).unwrap();
            prop_assert_eq!(&out[..], wide);
        }
    }

    /// However the gains are found, at whatever place among others, they are the same bits, and those of the values.
    #[test]
    fn evaluations_give_the_same_bits(((t, players, player_of, _), structure) in (played(), structures()), seed: u64) {
        let (mut compiler, mut circuit) = (Compiler::default(), Circuit::default());
        both(&t, &structure, players, &player_of, &[], (&mut compiler, &mut circuit));
        let mut stream = Stream::numbered(seed, "orders", 0);
        let mut orders: Vec<u32> = (0..40).flat_map(|_| 0..players as u32).collect();
        orders.chunks_mut(players).for_each(|order| stream.shuffle(order));
        let mut wanted = vec![0.0; orders.len()];
        Plain(CircuitGame::new(&circuit, Memory::default(), Evaluation::Auto)).walks(&orders, &mut wanted).unwrap();
        let mut memory = Memory::default();
        for evaluation in [Evaluation::Full, Evaluation::Incremental, Evaluation::Auto] {
            let mut game = CircuitGame::new(&circuit, memory, evaluation);
            let mut values_found = vec![f64::NAN; orders.len()];
            let cut = 7 * players;
            game.walks(&orders[..cut], &mut values_found[..cut]).unwrap();
            game.walks(&orders[cut..], &mut values_found[cut..]).unwrap();
            prop_assert_eq!(&values_found, &wanted);
            game.block_walks(&orders, &mut values_found).unwrap(); // as built for any processor
            prop_assert_eq!(&values_found, &wanted);
            let mut forked = vec![f64::NAN; orders.len()];
            game.fork().unwrap().walks(&orders, &mut forked).unwrap();
            prop_assert_eq!(&forked, &wanted);
            memory = game.into_memory();
        }
    }
}

/// A game whose gains are found by the definition.
struct Plain<'a>(CircuitGame<'a>);

impl Game for Plain<'_> {
    fn players(&self) -> usize {
        self.0.players()
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        self.0.values(members, out)
    }
}

#[test]
fn what_no_player_changes_is_not_there() {
    use crate::schema::{EdgeType, EventType};
    // a chain of one agent under a root that is always there, into an aggregate: nothing but the agent is left
    let mut t = TestTrace::default();
    t.event(EventType::OrchestratorDecision, "boss");
    for _ in 0..30 {
        t.event(EventType::Message, "a");
    }
    t.event(EventType::Aggregate, "boss");
    for v in 0..31 {
        t.edge(v, v + 1, EdgeType::Causal);
    }
    let player_of: Vec<u32> = (0..32).map(|v| if (1..31).contains(&v) { 0 } else { NO_UNIT }).collect();
    let (mut compiler, mut circuit) = (Compiler::default(), Circuit::default());
    let structure = Structure { weights: Weights::Given([0.5; 8]), ..Structure::default() };
    let (wanted, found) = both(&t, &structure, 2, &player_of, &[vec![2, 0]], (&mut compiler, &mut circuit));
    assert_eq!(circuit.size(), (1, 1));
    assert!((wanted[1] - 0.5_f64.powi(31)).abs() < 1e-24 && (found[1] - wanted[1]).abs() < 1e-24);
    let game = CircuitGame::new(&circuit, Memory::default(), Evaluation::Auto);
    assert!(!game.is_null(0) && game.is_null(1));
}

/// Two traces without players, one after the other in the same buffers.
#[test]
fn nobody_plays() {
    use crate::schema::EventType;
    let mut memory = Memory::default();
    for (kind, wanted) in [(EventType::Message, 1.0), (EventType::SafetyEvent, 0.0)] {
        let mut t = TestTrace::default();
        t.event(kind, "a").ok(false);
        let mut graph = TraceGraph::default();
        graph.begin();
        let outcome = graph.outcome(&t.view()).unwrap_or(Outcome::VirtualSink);
        let structure = Structure::of(Model::Typed);
        graph.build(
            &t.view(),
            GraphOptions { program_order: false, weights: Some(structure.weights.table()) },
        );
        let mut circuit = Circuit::default();
        let surrogate = graph.surrogate(&t.view(), outcome, &structure).unwrap().2;
        Compiler::default().compile(surrogate, 0, |_| NO_UNIT, &mut circuit);
        let mut game = CircuitGame::new(&circuit, memory, Evaluation::Auto);
        let mut out = [f64::NAN];
        game.values(&[], &mut out).unwrap();
        assert_eq!(out, [wanted]);
        memory = game.into_memory();
    }
}

#[test]
fn many_inputs_become_a_tree() {
    use crate::schema::{EdgeType, EventType};
    let mut t = TestTrace::default();
    for _ in 0..300 {
        t.event(EventType::Message, "a");
    }
    t.event(EventType::Aggregate, "boss");
    for v in 0..300 {
        t.edge(v, 300, EdgeType::Aggregate);
    }
    let player_of: Vec<u32> = (0..300).chain([NO_UNIT]).collect();
    let (mut compiler, mut circuit) = (Compiler::default(), Circuit::default());
    let some = vec![u64::MAX, 0x5555_5555_5555_5555].into_iter().cycle().take(300).collect::<Vec<_>>();
    let (wanted, found) = both(
        &t,
        &Structure::default(),
        300,
        &player_of,
        &[some, vec![u64::MAX; 300]],
        (&mut compiler, &mut circuit),
    );
    assert!(circuit.size().0 > 40 && circuit.inputs.len() < 360);
    assert!(wanted.iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-12));
    assert_eq!(found[64..], [1.0; 64]);
}

/// Five hundred players at the head of a chain of a thousand events: an order evaluates many gates.
#[test]
fn an_order_ends_where_the_run_is_cancelled() {
    use crate::error::Error;
    use crate::schema::{EdgeType, EventType};
    const N: u32 = 500;
    let mut t = TestTrace::default();
    for v in 0..3 * N {
        t.event(if v + 1 == 3 * N { EventType::Aggregate } else { EventType::Message }, "a");
        if v < N {
            t.edge(v, N, EdgeType::Causal).edge(v, N + 1, EdgeType::Causal);
        } else if v > N + 1 {
            t.edge(v - 1, v, EdgeType::Causal).edge(v - 2, v, EdgeType::Causal);
        }
    }
    let mut graph = TraceGraph::default();
    graph.begin();
    let outcome = graph.outcome(&t.view()).unwrap_or(Outcome::VirtualSink);
    graph.build(&t.view(), GraphOptions { program_order: false, weights: None });
    let surrogate = graph.surrogate(&t.view(), outcome, &Structure::default()).unwrap().2;
    let mut circuit = Circuit::default();
    let player = |v: usize| Some(v as u32).filter(|&v| v < N).unwrap_or(NO_UNIT);
    Compiler::default().compile(surrogate, N as usize, player, &mut circuit);
    let orders: Vec<u32> = (0..N).collect();
    let mut gains = vec![0.0; N as usize];
    for evaluation in [Evaluation::Full, Evaluation::Incremental] {
        let run = Run::new(Some(1)).unwrap();
        let mut game = CircuitGame::new(&circuit, Memory::default(), evaluation).until(&run);
        game.walks(&orders, &mut gains).unwrap();
        run.cancel();
        // some walk soon after the flag is set looks at it
        let ends = |game: &mut dyn Game| {
            (0..3000)
                .any(|_| matches!(game.walks(&orders, &mut vec![0.0; N as usize]), Err(Error::Cancelled)))
        };
        assert!(ends(&mut game), "{evaluation:?} {:?}", circuit.size());
        assert!(ends(game.fork().unwrap().as_mut()), "{evaluation:?}");
        let some = |_| game.values(&[u64::MAX; N as usize], &mut [0.0; 64]);
        assert!((0..3000).map(some).any(|found| matches!(found, Err(Error::Cancelled))));
    }
}
