"""Solutions of cooperative games of your own: a list of values, or a function of coalitions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from . import _core
from .base.arguments import Seed, Size, Threads
from .base.errors import ParameterError
from .base.verbs import verb

__all__ = ["values"]

Coalitions = NDArray[np.bool_]
Value = Callable[[Coalitions], ArrayLike]
Play = Callable[[bytearray, int], bytes]

NOBODY: Final = 2**32 - 1
"""In no union, spawned by nobody."""

_STRUCTURE: Final = {
    "owen": "unions",
    "winter": "unions",
    "myerson": "links",
    "precedence_shapley": "parents",
    "permission": "parents",
}


@verb
def values(
    value: Value | ArrayLike,
    n_players: Size,
    method: str = "shapley",
    *,
    samples: int | None = None,
    sampler: str | None = None,
    tolerance: float | None = None,
    seed: Seed = 0,
    unions: Iterable[Iterable[Any]] | None = None,
    links: Iterable[tuple[int, int]] | None = None,
    parents: Sequence[int | None] | None = None,
    threads: Threads = None,
) -> pl.DataFrame:
    """Solve a cooperative game: the value of each player, by any solution that `credit` has for traces.

    Parameters
    ----------
    value
        What coalitions are worth. Either an array of 2^n float64, in which bit p of an index says whether
        player p is in; or a function that gets coalitions as a bool array of shape (m, n) and gives m
        numbers, float64 of shape (m,). It is called from one thread at a time, not the calling one, with up
        to 64 coalitions, or with whole orders, up to 4,096 coalitions or one order. What it raises comes out
        as it is.
    n_players
        Number of players n, at least 1; they are called 0 to n - 1.
    method
        ``shapley``, ``banzhaf``, ``normalized_banzhaf``, ``owen``, ``winter``, ``myerson``,
        ``precedence_shapley``, ``permission``, ``difference``; see `methods` and docs/credit-games.md.
    samples
        Orders or coalitions to draw; None: exact, at most 2^20 evaluations. What would cost no more exactly
        is computed exactly.
    sampler, tolerance
        As in `credit` with method ``shapley``: how to draw, and where ``truncated`` stops.
    seed
        Of the draws; the same seed gives the same bits on any number of threads.
    unions
        For ``owen`` lists of players, for ``winter`` lists of players and of lists of players. Who is in none
        is a union of its own.
    links
        For ``myerson`` pairs of players who can cooperate.
    parents
        For ``precedence_shapley`` and ``permission`` who spawned each player, None for nobody.
    threads
        As in `credit`; a function is called by one of them only.

    Returns
    -------
    DataFrame
        A row per player: ``player value stderr n_samples residual method reason params``. ``stderr`` and
        ``n_samples``, the independent draws, are null where values are exact. ``residual`` is v(N) - v(∅)
        less all values, the same in each row: rounding where a solution is efficient. A value that does not
        exist is null with a ``reason``.

    Raises
    ------
    ParameterError
        Unknown method, a value of the wrong shape or not finite, a structure that does not fit, or an exact
        solution that would take more than 2^20 evaluations.

    Notes
    -----
    Exact: 2^n evaluations; ``owen`` and ``winter`` 2^(unions + players of a union) for each union,
    ``precedence_shapley`` one for every set that has the parents of all its members, ``difference`` n + 1.
    Sampled: n an order. Definitions and papers: docs/credit-games.md, docs/credit-games-structure.md.

    Examples
    --------
    One left glove and two right ones; a pair is worth 1.

    >>> import numpy as np, orchestrace as ot
    >>> def pairs(masks):
    ...     return np.minimum(masks[:, 0], masks[:, 1:].sum(axis=1)).astype(float)
    >>> ot.games.values(pairs, 3)["value"].round(4).to_list()
    [0.6667, 0.1667, 0.1667]
    >>> ot.games.values(pairs, 3, "owen", unions=[[1, 2]])["value"].round(4).to_list()
    [0.5, 0.25, 0.25]
    >>> sampled = ot.games.values(lambda masks: masks.sum(axis=1) ** 2.0, 30, samples=100)
    >>> round(sampled["value"].sum(), 6)
    900.0
    """
    n_players = int(n_players)
    structures = {"unions": unions, "links": links, "parents": parents}
    structure = _structure(method, n_players, structures)
    options = {"samples": samples, "sampler": sampler, "tolerance": tolerance}
    values, errors, n_samples, residual, reason, params = _core.solve_game(
        _played(value, n_players) if callable(value) else _listed(value, n_players),
        n_players=n_players,
        method=method,
        params={name: option for name, option in options.items() if option is not None},
        seed=seed,
        threads=threads,
        **structure,
    )
    numbers = pl.Series("value", values, dtype=pl.Float64) if reason is None else pl.lit(None, pl.Float64)
    frame = pl.DataFrame({"player": pl.Series(range(n_players), dtype=pl.UInt32)})
    return frame.with_columns(
        numbers.alias("value"),
        pl.Series("stderr", errors, dtype=pl.Float64).fill_nan(None),
        pl.lit(n_samples, pl.UInt64).alias("n_samples"),
        pl.lit(residual if reason is None else None, pl.Float64).alias("residual"),
        pl.lit(method, pl.String).alias("method"),
        pl.lit(reason, pl.String).alias("reason"),
        pl.lit(params, pl.String).alias("params"),
    )


@dataclass(frozen=True)
class TraceGame:
    """The trace whose coalitions an own outcome is asked about, and who plays."""

    trace_id: str
    players: list[str]


OutcomeFunction = Callable[[Coalitions, TraceGame], ArrayLike]


def outcome_function(
    options: Mapping[str, Any],
) -> tuple[tuple[str, Callable[[str, list[str]], Play]], Mapping[str, Any]]:
    """The parameter ``outcome`` of a call of `credit`, which is a function, and the call without it."""
    params = options["params"]
    outcome = params["outcome"]
    method = options["method"]
    names = set()
    for info in _core.methods():
        params_of = cast(list[dict[str, object]], info["params"])
        if any(param["name"] == "players" for param in params_of):
            names.add(info["name"])
    if method not in names:
        raise ParameterError(f"method '{method}' plays no game, so that outcome cannot be a function")
    for name in ("weights", "quorum", "program_order"):
        if name in params:
            raise ParameterError(f"outcome is a function and knows no {name}: leave it out")

    def begin(trace_id: str, players: list[str]) -> Play:
        game = TraceGame(trace_id, players)
        return _played(lambda masks: outcome(masks, game), len(players), "outcome")

    name = str(getattr(outcome, "__qualname__", type(outcome).__qualname__))
    rest = {key: value for key, value in params.items() if key != "outcome"}
    return (name, begin), {**options, "params": rest}


def _listed(value: object, n: int) -> bytes:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ParameterError(f"value is a {kind}, expected 2^n numbers or a function of coalitions") from None
    if n > 40 or numbers.shape != (1 << n,):
        size = f"{2**n}" if n <= 40 else f"2^{n}"
        raise ParameterError(
            f"value has the shape {numbers.shape}, expected ({size},), one for each coalition of {n}"
        )
    if not np.isfinite(numbers).all():
        first = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ParameterError(f"value is {numbers[first]} for the coalition {_members(first, n)}")
    return numbers.tobytes()


def _members(index: int, n: int) -> list[int]:
    return [p for p in range(n) if index >> p & 1]


def _played(value: Value, n: int, name: str = "value") -> Play:
    """The function as the core calls it: bytes of coalitions in, bytes of numbers out."""

    def play(masks: bytearray, count: int) -> bytes:
        # a trace may have no player, and NumPy refuses an empty buffer
        flat = np.frombuffer(masks, dtype=np.bool_) if n else np.zeros(0, dtype=np.bool_)
        coalitions = flat.reshape(count, n)
        answer = value(coalitions)
        try:
            numbers = np.asarray(answer)
            if numbers.dtype.kind not in "biuf":
                raise TypeError
        except (TypeError, ValueError):
            raise ParameterError(
                f"{name} gave a {type(answer).__name__}, expected {count} numbers as an array of float64"
            ) from None
        if numbers.shape != (count,):
            raise ParameterError(
                f"{name} gave an array of shape {numbers.shape} for {count} coalitions, expected ({count},)"
            )
        numbers = numbers.astype(np.float64, copy=False)
        if not np.isfinite(numbers).all():
            first = int(np.flatnonzero(~np.isfinite(numbers))[0])
            members = np.flatnonzero(coalitions[first]).tolist()
            raise ParameterError(f"{name} is {numbers[first]} for the coalition {members}")
        return numbers.tobytes()

    return play


def _structure(method: str, n: int, structures: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the core for unions, links and parents; those that the method ignores are refused."""
    wanted = _STRUCTURE.get(method)
    for name, value in structures.items():
        if value is not None and name != wanted:
            raise ParameterError(f"method '{method}' knows no {name}")
        if value is None and name == wanted:
            raise ParameterError(f"method '{method}' needs {name}")
    try:
        if wanted == "unions":
            unions, inner = _unions(structures["unions"], n, nested=method == "winter")
            return {"unions": unions, "agents": inner}
        if wanted == "links":
            return {
                "links": [(_player("links", a, n), _player("links", b, n)) for a, b in structures["links"]]
            }
        if wanted == "parents":
            parents = [NOBODY if p is None else _player("parents", p, n) for p in structures["parents"]]
            if len(parents) != n:
                raise ParameterError(f"parents has {len(parents)} players, the game has {n}")
            return {"parents": parents}
    except ParameterError:
        raise
    except (TypeError, ValueError):
        shapes = {
            "unions": "lists of players",
            "links": "pairs of players",
            "parents": "a player or None for each",
        }
        raise ParameterError(f"{wanted} must be {shapes[cast(str, wanted)]}") from None
    return {}


def _unions(unions: Iterable[Iterable[Any]], n: int, nested: bool) -> tuple[list[int], list[int]]:
    outer, inner = [NOBODY] * n, [NOBODY] * n
    named: set[int] = set()
    groups = 0
    for number, union in enumerate(unions):
        for part in union:
            is_player = not nested or isinstance(part, int | np.integer)
            members = [part] if is_player else list(part)
            groups += 1
            for member in members:
                player = _player("unions", member, n)
                if player in named:
                    raise ParameterError(f"player {player} is in two unions")
                named.add(player)
                outer[player] = number
                inner[player] = NOBODY if is_player else groups
    return outer, inner


def _player(name: str, player: object, n: int) -> int:
    if isinstance(player, bool) or not isinstance(player, int | np.integer):
        raise ParameterError(f"{name} has {player!r}, expected players from 0 to {n - 1}")
    if not 0 <= player < n:
        raise ParameterError(f"{name} names player {player}, the game has {n} players")
    return int(player)
