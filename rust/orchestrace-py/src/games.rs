//! Custom games: a list of values, or a Python function of coalitions.

use std::sync::{Arc, Mutex, PoisonError};

use orchestrace_core::credit::game::single::{Structure, solve_single};
use orchestrace_core::credit::game::table::TableGame;
use orchestrace_core::credit::game::{Game, Outcomes};
use orchestrace_core::credit::{self as methods, Method, Params, Value};
use orchestrace_core::error::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict};

use crate::call::{request, run_detached};
use crate::credit::checked_params;
use crate::error::{bad_parameter, to_python};
use crate::files::Exchange;

/// Coalitions that a function gets at a time at most.
const AT_ONCE: usize = 4096;

/// A game that a Python function plays: a byte array of coalitions in, one byte per player, their values out as
/// 64-bit floats in bytes.
struct CallableGame {
    play: Py<PyAny>,
    players: usize,
    /// What the function raised, here or on another trace: the core only knows that it has to stop.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl CallableGame {
    fn call(&self, masks: &[u8], out: &mut [f64]) -> Result<()> {
        if self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Err(Error::Cancelled);
        }
        let played = Python::attach(|py| -> PyResult<()> {
            let found = self.play.bind(py).call1((PyByteArray::new(py, masks), out.len()))?;
            let found = found.cast::<PyBytes>()?;
            for (out, bytes) in out.iter_mut().zip(found.as_bytes().chunks_exact(8)) {
                *out = f64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            }
            Ok(())
        });
        played.map_err(|error| {
            // The first one counts: others may fail for it.
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            Error::Cancelled
        })
    }
}

impl Game for CallableGame {
    fn players(&self) -> usize {
        self.players
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        let of_lane = |lane: usize| members.iter().map(move |word| (word >> lane & 1) as u8);
        let masks: Vec<u8> = (0..out.len()).flat_map(of_lane).collect();
        self.call(&masks, out)
    }

    fn walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
        // no orders either, if nobody plays
        let n = self.players.max(1);
        let some = (AT_ONCE / (n + 1)).max(1) * n;
        let mut values = Vec::new();
        for (orders, out) in orders.chunks(some).zip(out.chunks_mut(some)) {
            let count = orders.len() / n;
            let mut masks = vec![0_u8; count * (n + 1) * n];
            for (order, masks) in orders.chunks_exact(n).zip(masks.chunks_exact_mut((n + 1) * n)) {
                for (k, &player) in order.iter().enumerate() {
                    masks[(k + 1) * n..].chunks_exact_mut(n).for_each(|mask| mask[player as usize] = 1);
                }
            }
            values.resize(count * (n + 1), 0.0);
            self.call(&masks, &mut values)?;
            for (values, out) in values.chunks_exact(n + 1).zip(out.chunks_exact_mut(n)) {
                values.windows(2).zip(out).for_each(|(two, out)| *out = two[1] - two[0]);
            }
        }
        Ok(())
    }
}

/// Outcomes that a Python function knows: it gets a trace and its players, and gives what plays their game.
#[derive(Debug)]
pub(crate) struct OwnOutcomes {
    begin: Py<PyAny>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

/// The game of a trace whose function could not be had.
struct Unplayable(usize);

impl Game for Unplayable {
    fn players(&self) -> usize {
        self.0
    }

    fn values(&mut self, _: &[u64], _: &mut [f64]) -> Result<()> {
        Err(Error::Cancelled)
    }
}

impl OwnOutcomes {
    /// Outcomes that `begin` knows.
    pub(crate) fn new(begin: Py<PyAny>) -> Self {
        Self { begin, raised: Arc::default() }
    }

    /// What the function raised, or the result.
    pub(crate) fn or_raised<T>(&self, found: PyResult<T>) -> PyResult<T> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(found, Err)
    }
}

impl Outcomes for OwnOutcomes {
    fn game<'a>(&'a self, trace_id: &str, players: Vec<String>) -> Box<dyn Game + 'a> {
        let n = players.len();
        match Python::attach(|py| self.begin.call1(py, (trace_id, players))) {
            Ok(play) => Box::new(CallableGame { play, players: n, raised: Arc::clone(&self.raised) }),
            Err(error) => {
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                Box::new(Unplayable(n))
            }
        }
    }
}

/// What is solved, and by which method; unions and parents are numbers per player, `u32::MAX` for none.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GameRequest<'py> {
    n_players: usize,
    method: String,
    params: Bound<'py, PyDict>,
    seed: u64,
    #[pyo3(default)]
    unions: Option<Vec<u32>>,
    #[pyo3(default)]
    agents: Option<Vec<u32>>,
    #[pyo3(default)]
    links: Option<Vec<(u32, u32)>>,
    #[pyo3(default)]
    parents: Option<Vec<u32>>,
}

/// Value, standard error, number of draws, residual, reason and parameters of a game.
type Solved = (Vec<f64>, Vec<f64>, Option<u64>, f64, Option<&'static str>, String);

/// Solves a game; `value` is bytes of 2^n floats or a function as `CallableGame` says.
#[pyfunction]
#[pyo3(signature = (value, *, threads = None, **options))]
pub(crate) fn solve_game<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyAny>,
    threads: Option<usize>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Solved> {
    let fail = |error: Error| to_python(py, &error);
    let GameRequest { n_players, method, params, seed, unions, agents, links, parents } =
        request(py, options)?;
    let Method::PerGame(method) = methods::find(&method).map_err(fail)? else {
        let known: Vec<_> = methods::METHODS.iter().filter(|m| matches!(m, Method::PerGame(_))).collect();
        let known: Vec<_> = known.iter().map(|m| m.info().name).collect();
        let message = format!("method '{method}' does not solve games (known: {})", known.join(", "));
        return Err(bad_parameter(py, message));
    };
    let params = checked_params(py, method.info().params, &params)?;
    let structure = Structure {
        unions: unions.unwrap_or_default(),
        agents: agents.unwrap_or_default(),
        links: links.unwrap_or_default(),
        parents: parents.unwrap_or_default(),
    };
    let raised = Arc::default();
    let solved = if let Ok(bytes) = value.cast::<PyBytes>() {
        let floats = bytes.as_bytes().chunks_exact(8);
        let table: Vec<f64> =
            floats.map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap_or_default())).collect();
        run_detached(py, threads, None, &Exchange::default(), |run| {
            solve_single(&mut TableGame::new(&table)?, *method, &params, &structure, seed, run)
        })
    } else {
        let play = value.clone().unbind();
        let mut game = CallableGame { play, players: n_players, raised: Arc::clone(&raised) };
        run_detached(py, threads, None, &Exchange::default(), |run| {
            solve_single(&mut game, *method, &params, &structure, seed, run)
        })
    };
    // What the function raised comes out as it is.
    let solved = match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => solved,
    }?;
    // Of the parameters those that mean something without a trace.
    let of_games = ["samples", "sampler", "tolerance"];
    let known = method.info().params.iter().map(|param| param.name).filter(|name| of_games.contains(name));
    let mut told: Vec<(&str, Value)> = known.map(|name| (name, params.get(name).clone())).collect();
    told.push(("seed", Value::Int(i64::try_from(seed).unwrap_or(i64::MAX))));
    let told = Params::defaults(&[]).json(&told);
    let solution = solved.solution;
    let reason = solved.reason.map(orchestrace_core::error::Reason::as_str);
    Ok((solution.value, solution.stderr, solution.n_samples, solved.residual, reason, told))
}
