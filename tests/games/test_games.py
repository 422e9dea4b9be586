"""Solutions of games against their definitions, against shapiq, and against values known by hand."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import orchestrace as ot
from reference import games as reference
from reference.games import Game, Tree
from samples.examples import examples

SLOW = examples(30, derandomize=True)

METHODS = ("shapley", "banzhaf", "normalized_banzhaf", "difference")
ORDERS = ("shapley", "owen", "winter", "myerson", "precedence_shapley", "permission")
SAMPLERS = ("permutation", "antithetic", "stratified", "kernel")


def values(game: Game, method: str = "shapley", **options: Any) -> list[float]:
    found = ot.games.values(game, reference.players_of(game), method, **options)
    assert found["reason"].null_count() == found.height
    listed: list[float] = found["value"].to_list()
    return listed


def assert_close(found: Sequence[float], wanted: Sequence[float], tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def random_game(n: int, seed: int) -> list[float]:
    listed: list[float] = np.random.default_rng(seed).normal(size=1 << n).tolist()
    return listed


def played(game: Game) -> Callable[[NDArray[np.bool_]], NDArray[np.float64]]:
    """The same game as a function of coalitions."""
    table, powers = np.asarray(game), 1 << np.arange(reference.players_of(game))
    return lambda masks: table[masks @ powers]


# --- known by hand -----------------------------------------------------------------------------------

GLOVE = reference.glove()
CHANCES = reference.noisy_or(0.5, 0.4, 0.2)
STAR = [None, 0, 0]
THIRD = 1 / 3


@pytest.mark.parametrize(
    ("game", "method", "options", "wanted"),
    [
        (reference.noisy_or(0.5, 0.4), "shapley", {}, [0.4, 0.3]),
        (CHANCES, "shapley", {}, [1.09 / 3, 0.82 / 3, 0.37 / 3]),
        (reference.majority(3), "shapley", {}, [THIRD] * 3),
        (GLOVE, "shapley", {}, [2 / 3, 1 / 6, 1 / 6]),
        (GLOVE, "owen", {"unions": [[0], [1, 2]]}, [1 / 2, 1 / 4, 1 / 4]),
        (GLOVE, "winter", {"unions": [[0], [1, 2]]}, [1 / 2, 1 / 4, 1 / 4]),
        (reference.majority(3), "banzhaf", {}, [1 / 2] * 3),
        (GLOVE, "banzhaf", {}, [3 / 4, 1 / 4, 1 / 4]),
        (GLOVE, "normalized_banzhaf", {}, [3 / 5, 1 / 5, 1 / 5]),
        (reference.unanimity(3, {0, 2}), "myerson", {"links": [(0, 1), (1, 2)]}, [THIRD] * 3),
        (
            reference.unanimity(3, {0, 2}),
            "myerson",
            {"links": [(0, 1), (1, 2), (0, 2)]},
            [1 / 2, 0, 1 / 2],
        ),
        (CHANCES, "precedence_shapley", {"parents": STAR}, [0.5, 0.18, 0.08]),
        (CHANCES, "permission", {"parents": STAR}, [1.91 / 3, 0.26 / 3, 0.11 / 3]),
        (GLOVE, "difference", {}, [1, 0, 0]),
    ],
)
def test_values_known_by_hand(game: Game, method: str, options: dict[str, Any], wanted: list[float]) -> None:
    assert_close(values(game, method, **options), wanted, 1e-12)


# --- definitions -------------------------------------------------------------------------------------


@st.composite
def games(draw: st.DrawFn, most: int = 6) -> list[float]:
    n = draw(st.integers(1, most))
    return random_game(n, draw(st.integers(0, 2**32)))


def groups(draw: st.DrawFn, members: list[Any]) -> list[list[Any]]:
    """The members, divided."""
    labels = [draw(st.integers(0, 2)) for _ in members]
    return [[m for m, own in zip(members, labels, strict=True) if own == k] for k in sorted(set(labels))]


@SLOW
@given(game=games())
def test_values_are_those_of_their_definitions(game: Game) -> None:
    assert_close(values(game), reference.shapley(game))
    assert_close(values(game), reference.kernel_shap(game), 1e-7)
    assert_close(values(game, "banzhaf"), reference.banzhaf(game))
    assert_close(values(game, "normalized_banzhaf"), reference.normalized_banzhaf(game), 1e-6)
    assert_close(values(game, "difference"), reference.sharp(game))


@SLOW
@given(game=games(), data=st.data())
def test_owen_is_that_of_its_definition(game: Game, data: st.DataObject) -> None:
    n = reference.players_of(game)
    unions = groups(data.draw, list(range(n)))
    found = values(game, "owen", unions=unions)
    assert_close(found, reference.owen(game, unions))
    # who is alone need not be named
    assert_close(found, values(game, "owen", unions=[union for union in unions if len(union) > 1]))
    # a union gets what it is worth among unions
    sums = [math.fsum(found[p] for p in union) for union in unions]
    assert_close(sums, reference.shapley(reference.quotient(game, unions)))
    assert_close(values(game, "owen", unions=[[p] for p in range(n)]), reference.shapley(game))
    assert_close(values(game, "owen", unions=[range(n)]), reference.shapley(game))


@SLOW
@given(game=games(5), data=st.data())
def test_winter_is_the_mean_over_nested_orders(game: Game, data: st.DataObject) -> None:
    n = reference.players_of(game)
    unions = [groups(data.draw, union) for union in groups(data.draw, list(range(n)))]
    tree: Tree = tuple(tuple(tuple(inner) for inner in union) for union in unions)
    found = values(game, "winter", unions=unions)
    assert_close(found, reference.winter(game, tree))
    # the middle level is an Owen value of the game that its unions play
    parts = [inner for union in unions for inner in union]
    outer = [[parts.index(inner) for inner in union] for union in unions]
    sums = [math.fsum(found[p] for p in part) for part in parts]
    assert_close(sums, reference.owen(reference.quotient(game, parts), outer))


@SLOW
@given(game=games(), data=st.data())
def test_myerson_is_that_of_its_definition(game: Game, data: st.DataObject) -> None:
    n = reference.players_of(game)
    pairs = [(a, b) for b in range(n) for a in range(b)]
    links = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    found = values(game, "myerson", links=links)
    assert_close(found, reference.myerson(game, links))
    for part in reference.components(frozenset(range(n)), links):
        earned = game[reference.index(sorted(part))] - game[0]
        assert_close([math.fsum(found[p] for p in part)], [earned])
    for a, b in links:
        fewer = values(game, "myerson", links=[link for link in links if link != (a, b)])
        assert_close([found[a] - fewer[a]], [found[b] - fewer[b]])
    assert_close(values(game, "myerson", links=pairs), reference.shapley(game))


@SLOW
@given(game=games(), data=st.data())
def test_forests_are_as_their_definitions(game: Game, data: st.DataObject) -> None:
    n = reference.players_of(game)
    order = data.draw(st.permutations(range(n)))
    parents: list[int | None] = [None] * n
    for k in range(1, n):
        parents[order[k]] = data.draw(st.sampled_from([None, *order[:k]]))
    extensions = reference.precedence_shapley(game, parents)
    assert_close(values(game, "precedence_shapley", parents=parents), extensions)
    assert_close(values(game, "permission", parents=parents), reference.permission(game, parents))
    for method in ("precedence_shapley", "permission"):
        assert_close(values(game, method, parents=[None] * n), reference.shapley(game))
        total = math.fsum(values(game, method, parents=parents))
        assert_close([total], [game[-1] - game[0]])


def test_the_reference_knows_the_extensions_of_a_forest() -> None:
    assert len(reference.extensions([None, 0, 0, 1, None])) == 15


def test_sharp_is_the_shapley_value_where_nobody_interacts_and_elsewhere_by_accident() -> None:
    additive = reference.table(4, lambda s: math.fsum(p + 1.5 for p in s))
    assert_close(values(additive, "difference"), values(additive))
    lost, shared = values(CHANCES, "difference"), values(CHANCES)
    assert all(a < b for a, b in zip(lost, shared, strict=True))
    # pairs are worth 1 more, the three of them 1.5 less
    accident = reference.table(3, lambda s: math.comb(len(s), 2) - 1.5 * (len(s) == 3))
    assert_close(values(accident, "difference"), values(accident))


# --- another implementation --------------------------------------------------------------------------


def test_exact_values_are_those_of_shapiq() -> None:
    shapiq = pytest.importorskip("shapiq")
    sizes = [12, 12, 11, 11, 11, *[10] * 5, *[9] * 10, *[k % 8 + 1 for k in range(182)]]
    assert len(sizes) >= 200
    for seed, n in enumerate(sizes):
        game = random_game(n, seed)
        exact = shapiq.ExactComputer(played(game), n_players=n)
        for method, index in (("shapley", "SV"), ("banzhaf", "BV")):
            theirs = exact(index).get_n_order_values(1)
            np.testing.assert_allclose(values(game, method), theirs, rtol=0, atol=1e-9)


# --- sampling ----------------------------------------------------------------------------------------


PLAYERS = 14


def structure(method: str) -> dict[str, Any]:
    """Something of each kind, so loose that exact values take more evaluations than the samples below."""
    spawned = {5: 0, 6: 1}
    structures: dict[str, dict[str, Any]] = {
        "owen": {"unions": [range(2), range(2, 5)]},
        "winter": {"unions": [[[0, 1], 2], [3, 4]]},
        "myerson": {"links": [(p, p + 1) for p in range(PLAYERS - 1)]},
        "precedence_shapley": {"parents": [spawned.get(p) for p in range(PLAYERS)]},
        "permission": {"parents": [spawned.get(p) for p in range(PLAYERS)]},
    }
    return structures.get(method, {})


SAMPLED = [
    *((method, {}) for method in ORDERS if method != "shapley"),
    *(("shapley", {"sampler": sampler}) for sampler in SAMPLERS),
    ("banzhaf", {}),
    ("normalized_banzhaf", {}),
]


@pytest.mark.parametrize(("method", "options"), SAMPLED)
def test_samples_are_near_the_exact_value_and_say_how_near(method: str, options: dict[str, Any]) -> None:
    n = PLAYERS
    game = [x + 2 * s.bit_count() ** 0.5 for s, x in enumerate(random_game(n, 3))]
    more = {**options, **structure(method)}
    exact = values(game, method, **structure(method))
    found = ot.games.values(game, n, method, samples=128, seed=1, **more)
    error = found["stderr"].to_numpy()
    away = np.abs(found["value"].to_numpy() - exact) / error
    assert (error > 0).all()
    assert away.max() < 4.5, away
    # more samples, smaller errors
    finer = ot.games.values(game, n, method, samples=400, seed=1, **more)
    assert finer["stderr"].mean() < 0.7 * error.mean()
    if method not in ("banzhaf",):
        assert_close([found["residual"][0]], [0.0], 1e-9)
    told = json.loads(found["params"][0])
    assert told["samples"] == 128
    assert told["seed"] == 1


@pytest.mark.parametrize(("method", "options"), SAMPLED)
def test_threads_and_functions_give_the_same_bits(method: str, options: dict[str, Any]) -> None:
    n = PLAYERS
    game = random_game(n, 4)
    more = {**options, **structure(method)}
    first = ot.games.values(game, n, method, samples=200, seed=7, threads=1, **more)
    for threads in (2, 7):
        again = ot.games.values(game, n, method, samples=200, seed=7, threads=threads, **more)
        assert again.equals(first)
    assert ot.games.values(played(game), n, method, samples=200, seed=7, **more).equals(first)
    other = ot.games.values(game, n, method, samples=200, seed=8, **more)
    assert not other["value"].equals(first["value"])


def test_truncation_is_biased_and_says_so() -> None:
    n = 14
    game = reference.table(n, lambda s: float(len(s)))
    options = {"sampler": "truncated", "samples": 50}
    assert_close(values(game, tolerance=0.5, **options), [1.0] * n)
    found = ot.games.values(game, n, tolerance=4.5, **options)
    # of 14 gains of 1 each order leaves out the last four
    assert_close([found["residual"][0]], [4.0])
    assert json.loads(found["params"][0])["tolerance"] == 4.5


def test_a_small_game_is_exact_whatever_the_samples() -> None:
    found = ot.games.values(GLOVE, 3, samples=1000)
    assert found["stderr"].null_count() == found["n_samples"].null_count() == 3
    assert_close(found["value"].to_list(), [2 / 3, 1 / 6, 1 / 6])


def test_a_function_gets_whole_orders_at_a_time() -> None:
    sizes: Counter[int] = Counter()

    def worth(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        assert masks.dtype == np.bool_
        assert masks.shape[1] == 30
        sizes[len(masks)] += 1
        return np.asarray(masks.sum(axis=1) ** 2.0)

    found = ot.games.values(worth, 30, samples=100)
    assert_close([found["value"].sum()], [900.0])
    # 132 orders of 31 coalitions are the most that fit into 4,096; 64 are drawn at a time
    assert sizes == {2: 1, 64 * 31: 1, 36 * 31: 1}


# --- mistakes ----------------------------------------------------------------------------------------


class Fault(Exception):
    pass


def test_what_a_function_raises_comes_out_as_it_is() -> None:
    def fails(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        raise Fault("of the caller")

    for options in ({}, {"samples": 10}):
        with pytest.raises(Fault, match="of the caller"):
            ot.games.values(fails, 12, **options)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda m: np.ones(3), r"value gave an array of shape \(3,\) for 2 coalitions, expected \(2,\)"),
        (lambda m: np.ones((len(m), 1)), r"shape \(2, 1\) for 2 coalitions"),
        (lambda m: 1.0, r"shape \(\) for 2 coalitions"),
        (lambda m: ["a"] * len(m), "value gave a list, expected 2 numbers"),
        (lambda m: None, "value gave a NoneType"),
        (lambda m: np.where(m.all(axis=1), np.nan, 1.0), r"value is nan for the coalition \[0, 1, 2\]"),
        (lambda m: np.full(len(m), np.inf), r"value is inf for the coalition \[\]"),
        ([1.0, 2.0], r"value has the shape \(2,\), expected \(8,\)"),
        ([[1.0] * 4] * 2, r"value has the shape \(2, 4\), expected \(8,\)"),
        ("no", "value is a str, expected 2.n numbers or a function"),
        ([0, 1, 2, math.nan, 0, 0, 0, 0], r"value is nan for the coalition \[0, 1\]"),
    ],
)
def test_values_that_are_none_are_told(value: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.games.values(value, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "shapely"}, "did you mean 'shapley'"),
        ({"method": "flow"}, "method 'flow' does not solve games"),
        ({"method": "owen"}, "method 'owen' needs unions"),
        ({"links": [(0, 1)]}, "method 'shapley' knows no links"),
        ({"method": "owen", "unions": [[0, 1], [1]]}, "player 1 is in two unions"),
        ({"method": "owen", "unions": [[0, 3]]}, "unions names player 3, the game has 3 players"),
        ({"method": "owen", "unions": 3}, "unions must be lists of players"),
        ({"method": "myerson", "links": [(0, 1, 2)]}, "links must be pairs of players"),
        ({"method": "myerson", "links": [(0, -1)]}, "links names player -1"),
        ({"method": "permission", "parents": [None, 0]}, "parents has 2 players, the game has 3"),
        ({"method": "permission", "parents": [1, 0, None]}, "parents form a cycle"),
        ({"method": "permission", "parents": [None, "0", 0]}, "parents has '0', expected players"),
        ({"samples": 1}, "samples must be a whole number from 2"),
        ({"method": "banzhaf", "samples": 10}, "samples must be a whole number from 64"),
        ({"sampler": "kernle", "samples": 10}, "did you mean 'kernel'"),
        ({"method": "banzhaf", "sampler": "kernel"}, "unknown parameter 'sampler'"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_that_do_not_fit_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.games.values(GLOVE, 3, **options)


def test_the_number_of_players_is_checked() -> None:
    for n in (0, -1, True, 2.0):
        with pytest.raises(ot.ParameterError, match="n_players is"):
            ot.games.values(GLOVE, n)  # type: ignore[arg-type]


def test_exact_values_beyond_the_limit_are_refused_before_any_work() -> None:
    def never(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        raise AssertionError

    with pytest.raises(ot.ParameterError, match=r"21 players takes 2097152 evaluations .* pass samples="):
        ot.games.values(never, 21)
    # unions of a few and a chain cost little, however many players there are
    game = ot.games.values(
        lambda m: m.sum(axis=1) ** 2.0, 40, "owen", unions=[range(k, k + 8) for k in range(0, 40, 8)]
    )
    assert_close(game["value"].to_list(), [40.0] * 40)
    chain = ot.games.values(
        lambda m: m.sum(axis=1) ** 2.0, 40, "precedence_shapley", parents=[None, *range(39)]
    )
    assert_close(chain["value"].to_list(), [2.0 * p + 1 for p in range(40)])


def test_a_value_that_does_not_exist_is_null_with_a_reason() -> None:
    game = [0.0, 1.0, -1.0, 2.0]
    assert ot.games.values(game, 2, "normalized_banzhaf")["value"].null_count() == 0
    # Banzhaf values of 2 and -2, which sum to nothing
    found = ot.games.values([0.0, 2.0, -2.0, 0.0], 2, "normalized_banzhaf")
    assert found["value"].null_count() == 2
    assert found["reason"].to_list() == ["result.range"] * 2
    assert values([5.0, 5.0, 5.0, 5.0], "normalized_banzhaf") == [0.0, 0.0]


def test_columns() -> None:
    found = ot.games.values(GLOVE, 3, "banzhaf")
    assert found.schema == {
        "player": pl.UInt32,
        "value": pl.Float64,
        "stderr": pl.Float64,
        "n_samples": pl.UInt64,
        "residual": pl.Float64,
        "method": pl.String,
        "reason": pl.String,
        "params": pl.String,
    }
    assert found["residual"].to_list() == [-0.25] * 3
    assert json.loads(found["params"][0]) == {"samples": None, "seed": 0}
