//! Games of all traces: players, values and rows.
//!
//! Workers take traces as they come; an idle one helps with the draws of another's. What is found depends on the trace
//! alone. Buffers stay with the worker: nothing is allocated per event or per draw once they are warm.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::circuit::{Circuit, CircuitGame, Compiler, Evaluation, Memory};
use super::players::Cast;
use super::{CustomOutcomes, Game, GameMethod, Setting, Solution, structure};
use crate::credit::params::Params;
use crate::credit::rollup::{Rows, refused};
use crate::credit::sum::pairwise;
use crate::credit::{Quantity, Scratch};
use crate::error::{Error, Result};
use crate::graph::{GraphOptions, Partition, TraceGraph};
use crate::run::Run;
use crate::schema::{Over, Reason, Unit};
use crate::store::Store;
use crate::store::view::{ChunkView, TraceView};
use crate::surrogate::Cost;
use crate::surrogate::Structure;
use crate::surrogate::cost::Bound;
use crate::surrogate::cost::EXACT_PLAYERS;

/// The solution of one trace.
#[derive(Debug)]
pub struct Solved {
    /// Value of each unit, NaN where the unit does not play; then that of the row without a unit, v(∅) included.
    pub value: Vec<f64>,
    /// Standard errors beside them, NaN where there is none; empty where all are.
    pub stderr: Vec<f64>,
    /// Draws; none where values are exact.
    pub n_samples: Option<u64>,
    /// v(∅).
    pub empty: f64,
    /// v(N).
    pub full: f64,
}

/// What became of a trace.
pub type Outcome = std::result::Result<Solved, Reason>;

/// A call, checked.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// How values are divided.
    pub method: &'a dyn GameMethod,
    /// Its parameters.
    pub params: &'a Params,
    /// Level of the report.
    pub unit: Unit,
    /// The user's seed.
    pub seed: u64,
    structure: Structure,
    root: bool,
    over: Over,
    evaluation: Evaluation,
    custom: Option<CustomOutcomes<'a>>,
}

impl<'a> Call<'a> {
    /// Checks what the list of parameters cannot.
    pub fn new(method: &'a dyn GameMethod, params: &'a Params, unit: Unit, seed: u64) -> Result<Self> {
        method.check(params)?;
        Ok(Self {
            method,
            params,
            unit,
            seed,
            structure: structure(params)?,
            root: params.text("players") != Some("no_root"),
            over: Over::All,
            evaluation: Evaluation::named(params.text("evaluation")),
            custom: None,
        })
    }

    /// The same with outcomes of the caller's own in place of the surrogate.
    #[must_use]
    pub fn with_outcomes(self, custom: Option<CustomOutcomes<'a>>) -> Self {
        Self { custom, ..self }
    }

    /// The same among those whom credit is over.
    #[must_use]
    pub fn over(self, over: Over) -> Self {
        Self { over, ..self }
    }

    /// Whether no number of samples says what the call may cost, so that limits do.
    fn is_limited(&self) -> bool {
        self.params.int("samples").is_none()
    }
}

/// A worker's buffers.
#[derive(Debug, Default)]
pub struct Stage {
    graph: TraceGraph,
    partition: Partition,
    cast: Cast,
    compiler: Compiler,
    circuit: Circuit,
    memory: Memory,
    solution: Solution,
}

impl Stage {
    /// Who plays on a trace.
    fn cast(&mut self, view: &TraceView<'_>, call: &Call<'_>) {
        self.graph.begin();
        self.partition.compute(call.unit, view, &mut self.graph);
        let Self { graph, partition, cast, .. } = self;
        cast.compute(view, call.unit, partition, graph, (call.root, call.over), call.method.needs());
    }

    fn is_acyclic(&mut self, view: &TraceView<'_>, call: &Call<'_>) -> bool {
        let program_order = call.params.bool("program_order");
        self.graph.build(view, GraphOptions { program_order, weights: None });
        self.graph.ordered().1.is_some()
    }

    /// Plays the game of one trace.
    pub fn solve(&mut self, view: &TraceView<'_>, call: &Call<'_>, run: &Run) -> Result<Outcome> {
        self.cast(view, call);
        if let Some(own) = call.custom {
            let mut game = own.game(view, &self.cast, &self.partition, self.graph.owners(view));
            return play(
                game.as_mut(),
                self.cast.players(),
                view.trace_id.as_bytes(),
                call,
                run,
                &mut self.solution,
            )
            .map(|solved| solved.map(|solved| without_fixed(solved, self.cast.fixed())));
        }
        let weights = Some(call.structure.weights.table());
        let program_order = call.params.bool("program_order");
        let outcome = match self.graph.outcome(view) {
            Ok(outcome) => outcome,
            Err(reason) => return Ok(Err(reason)),
        };
        self.graph.build(view, GraphOptions { program_order, weights });
        let Some((_, _, surrogate)) = self.graph.surrogate(view, outcome, &call.structure) else {
            return Ok(Err(Reason::GraphCycle));
        };
        let Self { cast, compiler, circuit, memory, solution, .. } = self;
        let players = cast.players();
        compiler.compile(surrogate, players.len(), |v| cast.player_of()[v], circuit);
        let mut game = CircuitGame::new(circuit, std::mem::take(memory), call.evaluation).until(run);
        let solved = play(&mut game, players, view.trace_id.as_bytes(), call, run, solution);
        *memory = game.into_memory();
        Ok(solved?.map(|solved| without_fixed(solved, cast.fixed())))
    }
}

/// Units that do not play have no value.
fn without_fixed(mut solved: Solved, fixed: &[bool]) -> Solved {
    for (value, _) in solved.value.iter_mut().zip(fixed).filter(|(_, fixed)| **fixed) {
        *value = f64::NAN;
    }
    solved
}

/// Divides the value of any game among the rows of its players.
pub fn play(
    game: &mut dyn Game,
    players: super::Players<'_>,
    id: &[u8],
    call: &Call<'_>,
    run: &Run,
    solution: &mut Solution,
) -> Result<Outcome> {
    let mut ends = [0.0; 2];
    let members = vec![0b10; players.len()];
    game.values(&members, &mut ends)?;
    let [empty, full] = ends;
    solution.clear(players.n_rows());
    let setting = Setting { players, empty, full, seed: call.seed, id, run };
    if let Err(reason) = call.method.solve(game, &setting, call.params, solution)? {
        return Ok(Err(reason));
    }
    if let Some(rest) = solution.value.last_mut() {
        *rest += empty;
    }
    let sampled = solution.stderr.iter().any(|x| !x.is_nan());
    Ok(Ok(Solved {
        value: solution.value.clone(),
        stderr: if sampled { solution.stderr.clone() } else { Vec::new() },
        n_samples: solution.n_samples,
        empty,
        full,
    }))
}

/// Plays the games of all traces, chunk by chunk.
pub fn solve_all(store: &Store, call: &Call<'_>, run: &Run) -> Result<Vec<Vec<Outcome>>> {
    let chunks: Vec<ChunkView<'_>> =
        store.chunks().iter().map(|chunk| ChunkView::new(store, chunk)).collect();
    let places: Vec<(usize, usize)> =
        chunks.iter().enumerate().flat_map(|(at, chunk)| (0..chunk.len()).map(move |i| (at, i))).collect();
    if call.is_limited() {
        refuse(&chunks, &places, call, run)?;
    }
    run.expect(places.len() as u64);
    let solutions = on_every_worker(&places, run, |stage, (chunk, i)| {
        let solved = stage.solve(&chunks[chunk].trace(i), call, run);
        run.advance(1);
        solved
    })?;
    let mut solutions = solutions.into_iter();
    Ok(chunks.iter().map(|chunk| solutions.by_ref().take(chunk.len()).collect()).collect())
}

/// Calls `work` for all places, each on whichever worker is free; results in the order of the places.
fn on_every_worker<T: Send>(
    places: &[(usize, usize)],
    run: &Run,
    work: impl Fn(&mut Stage, (usize, usize)) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let workers = run.pool().current_num_threads().min(places.len()).max(1);
    let parts = run.pool().install(|| {
        (0..workers)
            .into_par_iter()
            .with_max_len(1)
            .map(|_| {
                let (mut stage, mut own) = (Stage::default(), Vec::new());
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&place) = places.get(at) else { return Ok(own) };
                    run.check()?;
                    own.push((at, work(&mut stage, place)?));
                }
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let mut all: Vec<(usize, T)> = parts.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, found)| found).collect())
}

/// A trace whose game costs too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Beyond {
    bound: Bound,
    players: usize,
    /// Events, or events and edges.
    size: usize,
}

/// Fails if a solution without samples would be beyond a limit, before any coalition is evaluated.
fn refuse(chunks: &[ChunkView<'_>], places: &[(usize, usize)], call: &Call<'_>, run: &Run) -> Result<()> {
    let info = call.method.info();
    let beyond = on_every_worker(places, run, |stage, (chunk, i)| {
        let view = chunks[chunk].trace(i);
        // an outcome of the caller's own is asked about players, the surrogate goes through the trace
        let graph = if call.custom.is_some() { 0 } else { view.len() + view.src.len() };
        let most = graph.max(view.len());
        if !info.draws() && Cost::of(most).times(Cost::of(most)) <= Cost::MOST_VISITS {
            return Ok(None); // a few evaluations for each event: nobody has to know who plays
        }
        stage.cast(&view, call);
        let players = stage.cast.players();
        let size = graph.max(players.len());
        let Some(bound) = Bound::beyond(info.draws(), call.method.evaluations(&players), size) else {
            return Ok(None);
        };
        let players = players.len();
        // a cycle has no value by the surrogate, and costs nothing
        let costs = call.custom.is_some() || stage.is_acyclic(&view, call);
        Ok(costs.then_some(Beyond { bound, players, size: view.len() }))
    })?;
    let n = beyond.iter().flatten().count();
    let Some(Beyond { bound, players, size: events }) = beyond.iter().flatten().max() else { return Ok(()) };
    let (name, traces, unit) = (info.name, places.len(), call.unit.as_str());
    let instead = if info.draws() {
        "pass samples=1000 for estimates with standard errors, or choose a larger unit"
    } else {
        "choose a larger unit"
    };
    Err(Error::Parameter(match bound {
        Bound::Evaluations(cost) => format!(
            "method '{name}' is exact up to {EXACT_PLAYERS} players, {} evaluations per trace; {n} of {traces} traces \
             need more at unit '{unit}': up to {players} players, {cost} evaluations of {events} events; {instead}",
            Cost::MOST_EVALUATIONS
        ),
        Bound::Visits(evaluations, visits) => format!(
            "method '{name}' visits at most {} events and edges per trace; {n} of {traces} traces need more at unit \
             '{unit}': up to {players} players, {evaluations} evaluations of {events} events, {visits} visits; \
             {instead}",
            Cost::MOST_VISITS
        ),
    }))
}

/// Appends the rows of a trace. `reward` is what is divided if credit is scaled to it; the inner one is missing where the
/// trace has none.
#[allow(clippy::option_option)]
pub(in crate::credit) fn append_rows(
    view: &TraceView<'_>,
    outcome: &Outcome,
    reward: Option<Option<f64>>,
    unit: Unit,
    scratch: &mut Scratch,
    out: &mut Rows,
) {
    let partition = scratch.divide(view, unit);
    let scale = match (outcome, reward) {
        (_, Some(None)) => Err(Reason::RewardAbsent),
        (Err(reason), _) => Err(*reason),
        (Ok(solved), Some(Some(reward)))
            if !partition.is_empty() && solved.value[..partition.len()].iter().all(|x| x.is_nan()) =>
        {
            // Nobody plays: what is there always has earned all of it.
            out.name_units(partition);
            (0..partition.len()).for_each(|_| out.append(None, Some(Reason::PlayerFixed)));
            out.push_rest(Ok(reward));
            return out.end_trace(view, Some(0.0));
        }
        (Ok(solved), Some(Some(_))) if solved.full == solved.empty => Err(Reason::RewardNotPositive),
        (Ok(solved), Some(Some(reward))) => {
            Ok((solved, reward / (solved.full - solved.empty), solved.empty, reward))
        }
        (Ok(solved), None) => Ok((solved, 1.0, 0.0, solved.full)),
    };
    let (solved, scale, less, amount) = match scale {
        Ok(scaled) => scaled,
        Err(reason) => return refused(view, Quantity::Share, reason, partition, out),
    };
    let from = out.len();
    out.name_units(partition);
    let n_samples = solved.n_samples.map_or(0, |n| i64::try_from(n).unwrap_or(i64::MAX));
    let estimated = |row: usize, out: &mut Rows| {
        if let Some(stderr) =
            solved.stderr.get(row).map(|stderr| stderr * scale.abs()).filter(|x| x.is_finite())
        {
            out.estimated(stderr, n_samples);
        }
    };
    let units = partition.len();
    for (row, &value) in solved.value[..units].iter().enumerate() {
        let credit = value * scale;
        let reason = match (value.is_nan(), credit.is_finite()) {
            (true, _) => Some(Reason::PlayerFixed),
            (_, false) => Some(Reason::ResultRange),
            _ => None,
        };
        out.append(reason.is_none().then_some(credit), reason);
        estimated(row, out);
    }
    let rest = (solved.value[units] - less) * scale;
    if partition.has_rest() || rest != 0.0 || solved.stderr.get(units).is_some_and(|x| !x.is_nan()) {
        out.push_rest(if rest.is_finite() { Ok(rest) } else { Err(Reason::ResultRange) });
        estimated(units, out);
    }
    let residual = amount - pairwise(&out.credit[from..]);
    out.end_trace(view, Some(residual).filter(|residual| residual.is_finite()));
}
