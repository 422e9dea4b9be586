"""Off-policy evaluation against plain Python, published numbers, the package obp and its own algebra."""

import importlib
import importlib.util
import json
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, strategies as st
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from sklearn.linear_model import Ridge

import orchestrace as ot
from orchestrace.effects.off_policy import ESTIMATORS, VALUES
from orchestrace.statistics.folds import folds_over
from orchestrace.statistics.resampling import draws, percentiles
from reference.policies import Step, values
from samples.examples import examples

OPEN: dict[str, Any] = {"min_ess": 0.0, "max_share": 1.0, "max_unsupported": 1.0, "n_boot": 20}
"""Nothing is refused, and little is resampled."""

GOLDEN = pl.DataFrame(
    {
        "trace": [0, 1, 2, 3],
        "task_id": ["a", "b", "c", "d"],
        "action": ["1", "0", "1", "0"],
        "p_behavior": [0.5, 0.5, 0.8, 0.2],
        "outcome": [1.0, 0.0, 1.0, 1.0],
    }
)
TARGET, MODEL = {"1": 0.9, "0": 0.1}, {"1": 0.8, "0": 0.4}


def by_name(table: pl.DataFrame, column: str = "value") -> dict[str, Any]:
    return dict(table.select(pl.col("estimator").cast(pl.String), column).iter_rows())


def row(table: pl.DataFrame, estimator: str) -> dict[str, Any]:
    return table.row(by_predicate=pl.col("estimator") == estimator, named=True)


def evaluated(decisions: pl.DataFrame, policy: Any, **options: Any) -> pl.DataFrame:
    return ot.effects.policy_values(decisions, policy, **(OPEN | options))


# --- published numbers ----------------------------------------------------------------------------------


def test_the_numbers_of_the_definition() -> None:
    table = evaluated(GOLDEN, TARGET, outcome_model=MODEL, tau=1.0, bounds=(0.0, 1.0))
    assert by_name(table) == pytest.approx(
        {"ips": 0.85625, "snips": 0.944828, "direct": 0.76, "dr": 0.96125, "switch": 0.815, "bounds": None},
        abs=5e-7,
    )
    first = table.row(0, named=True)
    assert first["ess"] == pytest.approx(2.740128, abs=5e-7)
    assert first["mean_weight"] == pytest.approx(0.90625, abs=1e-12)
    assert first["max_weight_share"] == pytest.approx(1.8 / 3.625, abs=1e-12)
    bounds = row(table, "bounds")
    assert (bounds["lower"], bounds["upper"]) == pytest.approx((0.475, 0.975), abs=1e-12)
    assert dict(table.schema) == {name: pl.Schema(VALUES)[name] for name in VALUES}
    tiers = dict.fromkeys(("direct", "switch"), "surrogate")
    assert all(one["tier"] == tiers.get(one["estimator"], "observed") for one in table.iter_rows(named=True))


def test_clipping_cuts_weights_and_says_so() -> None:
    table = evaluated(GOLDEN, TARGET, outcome_model=MODEL, clip=1.0)
    assert by_name(table)["ips"] == pytest.approx((1.0 + 1.0 + 0.5) / 4)
    assert set(table["clipped_share"]) == {0.5}  # 1.8 and 1.125
    assert table["mean_weight"][0] == pytest.approx((1.0 + 0.2 + 1.0 + 0.5) / 4)


# --- plain Python ---------------------------------------------------------------------------------------


@st.composite
def logs(draw: st.DrawFn, longest: int = 1) -> list[list[Step]]:
    """Runs of up to `longest` decisions among two to four actions."""
    names = ["a", "b", "c", "d"][: draw(st.integers(2, 4))]
    share = st.floats(0.05, 1.0)
    runs = []
    for _ in range(draw(st.integers(1, 8))):
        run = []
        for _ in range(draw(st.integers(1, longest))):
            target = [draw(st.one_of(st.just(0.0), share)) for _ in names]
            whole = sum(target)
            if whole == 0.0:
                target, whole = [1.0] + [0.0] * (len(names) - 1), 1.0
            run.append(
                Step(
                    draw(st.sampled_from(names)),
                    draw(share),
                    {name: p / whole for name, p in zip(names, target, strict=True)},
                    {name: draw(st.floats(-2.0, 2.0)) for name in names},
                    draw(st.floats(-2.0, 2.0)),
                )
            )
        runs.append(run)
    return runs


def frame(runs: list[list[Step]]) -> pl.DataFrame:
    """The same as a frame; policy and model are columns."""
    return pl.DataFrame(
        [
            {
                "trace": number,
                "task_id": f"task {number // 2}",
                "seq": at,
                "action": step.action,
                "p_behavior": step.p,
                "reward": step.reward,
                "outcome": run[-1].reward,
                "pi": step.target,
                "q": step.q,
            }
            for number, run in enumerate(runs)
            for at, step in enumerate(run)
        ]
    )


@examples(100)
@given(logs(), st.floats(0.0, 3.0), st.none() | st.floats(0.2, 3.0))
def test_decisions_are_those_of_plain_python(runs: list[list[Step]], tau: float, clip: float | None) -> None:
    table = evaluated(frame(runs), "pi", outcome_model="q", tau=tau, clip=clip, bounds=(-2.0, 2.0))
    want = values(runs, tau=tau, clip=clip or math.inf, bounds=(-2.0, 2.0))
    got = by_name(table)
    weighted = {"ips": "is", "direct": "direct", "switch": "switch"}
    if clip is None:
        weighted |= {"dr": "dr"}
    if want["mean_weight"] > 0.0:
        weighted |= {"snips": "wis"}
        first = table.row(0, named=True)
        for name in ("ess", "mean_weight", "max_weight_share"):
            assert first[name] == pytest.approx(want[name], rel=1e-9)
        assert [got[name] for name in weighted] == pytest.approx(
            [want[name] for name in weighted.values()], abs=1e-9
        )
    bounds = row(table, "bounds")
    assert (bounds["lower"], bounds["upper"]) == pytest.approx((want["lower"], want["upper"]), abs=1e-9)


@examples(100)
@given(logs(longest=5), st.sampled_from([1.0, 0.9, 0.5]), st.none() | st.floats(0.2, 3.0))
def test_sequences_are_those_of_plain_python(
    runs: list[list[Step]], discount: float, clip: float | None
) -> None:
    want = values(runs, discount=discount, clip=clip or math.inf, bounds=(-12.0, 12.0))
    assume(want["mean_weight"] > 0.0)
    options: dict[str, Any] = {"unit": "sequence", "reward": "reward", "discount": discount, "clip": clip}
    table = evaluated(frame(runs), "pi", outcome_model="q", bounds=(-12.0, 12.0), **options)
    got = by_name(table)
    names = {"is": "is", "wis": "wis", "pdis": "pdis", "fqe": "direct"} | ({"dr": "dr"} if not clip else {})
    assert [got[name] for name in names] == pytest.approx([want[name] for name in names.values()], abs=1e-9)
    bounds = row(table, "bounds")
    assert (bounds["lower"], bounds["upper"]) == pytest.approx((want["lower"], want["upper"]), abs=1e-9)


def design(rows: pl.DataFrame, place: bool) -> tuple[np.ndarray, np.ndarray]:
    """Columns of state and indicators of the two actions, of rows with ``x_load`` and ``x_kind``."""
    load = rows["x_load"].to_numpy()
    columns = [load]
    columns += [(rows["x_kind"] == word).to_numpy().astype(float) for word in ("new", "old")]
    if place:
        columns += [(rows["seq"] == at).to_numpy().astype(float) for at in range(3)]
    actions = np.stack([(rows["action"] == name).to_numpy().astype(float) for name in ("go", "stay")], axis=1)
    return np.stack(columns, axis=1), actions


@pytest.mark.parametrize("steps", [1, 3])
def test_the_regression_is_that_of_scikit_learn(steps: int) -> None:
    """One fold after the other, with one repetition for each decision of a run."""
    rng = np.random.default_rng(5)
    n = 40 * steps
    rows = pl.DataFrame(
        {
            "trace": np.repeat(np.arange(40), steps),
            "task_id": [f"t{number // 4}" for number in np.repeat(np.arange(40), steps)],
            "seq": np.tile(np.arange(steps), 40),
            "x_load": rng.normal(size=n),
            "x_kind": rng.choice(["new", "old"], n),
            "action": rng.choice(["go", "stay"], n),
            "p_behavior": 0.5,
            "reward": rng.normal(size=n),
        }
    ).sort("task_id", "trace", "seq")
    share = 0.3 + 0.4 * (rows["x_load"] > 0).cast(pl.Float64)
    rows = rows.with_columns(outcome=pl.col("reward"), pi=pl.struct(go=share, stay=1.0 - share))
    fold = folds_over(rows["task_id"].to_list(), 5, 7)
    state, taken = design(rows, steps > 1)
    target = np.stack([share.to_numpy(), 1.0 - share.to_numpy()], axis=1)
    q = np.zeros((n, 2))
    for own in range(5):
        learn, judge = fold != own, fold == own
        center, spread = state[learn, 0].mean(), state[learn, 0].std(ddof=1)
        x = state.copy()
        x[:, 0] = (x[:, 0] - center) / spread
        model = Ridge(alpha=2.0)
        reward, later = rows["reward"].to_numpy()[learn], np.zeros(int(learn.sum()))
        for _ in range(steps):
            model.fit(np.hstack([x, taken])[learn], reward + 0.9 * later)
            both = np.stack(
                [model.predict(np.hstack([x, np.tile(np.eye(2)[a], (n, 1))])) for a in (0, 1)], axis=1
            )
            v = (target * both).sum(axis=1)
            after = np.append(v[1:], 0.0)
            after[rows["seq"].to_numpy() == steps - 1] = 0.0
            later = after[learn]
        q[judge] = both[judge]
    options: dict[str, Any] = {"seed": 7, "penalty": 2.0}
    if steps > 1:
        options |= {"unit": "sequence", "reward": "reward", "discount": 0.9}
    table = evaluated(rows, "pi", **options)
    first = rows["seq"].to_numpy() == 0
    name = "fqe" if steps > 1 else "direct"
    assert by_name(table)[name] == pytest.approx((target * q).sum(axis=1)[first].mean(), abs=1e-9)
    told = rows.with_columns(q=pl.struct(go=pl.Series(q[:, 0]), stay=pl.Series(q[:, 1])))
    again = evaluated(told, "pi", outcome_model="q", **options)
    assert_allclose(table["value"].drop_nulls(), again["value"].drop_nulls(), atol=1e-9)


def test_intervals_are_percentiles_over_tasks() -> None:
    decisions, _ = ot.synthetic.choices(runs=300, runs_per_task=4, seed=3)
    table = ot.effects.policy_values(decisions, {"spawn": 0.6, "no_spawn": 0.4}, n_boot=300, seed=5)
    p = decisions["p_behavior"].to_numpy()
    w = np.where(decisions["action"] == "spawn", 0.6, 0.4) / p
    tasks, code = np.unique(decisions["task_id"].to_numpy(), return_inverse=True)
    weighted, plain = np.bincount(code, w * decisions["outcome"].to_numpy()), np.bincount(code, w)
    for name, below in (("ips", np.bincount(code).astype(float)), ("snips", plain)):
        drawn = np.concatenate(
            [[(t * weighted).sum() / (t * below).sum() for t in block] for block in draws(len(tasks), 300, 5)]
        )
        one = row(table, name)
        assert one["stderr"] == pytest.approx(drawn.std(ddof=1), rel=1e-9)
        assert (one["lower"], one["upper"]) == pytest.approx(percentiles(drawn, len(tasks), 0.95), rel=1e-9)


def test_what_has_no_interval_says_why() -> None:
    few = evaluated(GOLDEN, TARGET, outcome_model=MODEL)
    assert few["lower"].null_count() == few.height and set(few["reason"]) == {
        "support.absent",
        "range.unknown",
    }
    # the policy and the model know no state: the model's mean does not vary, which says nothing of its error
    decisions, _ = ot.synthetic.choices(runs=200, seed=0)
    policy, model = {"spawn": 0.5, "no_spawn": 0.5}, {"spawn": 0.6, "no_spawn": 0.4}
    table = ot.effects.policy_values(decisions, policy, outcome_model=model, n_boot=50)
    direct = row(table, "direct")
    assert (direct["value"], direct["stderr"], direct["lower"]) == (0.5, 0.0, None)
    assert direct["reason"] == "group.degenerate" and row(table, "dr")["reason"] is None
    once = ot.effects.policy_values(decisions, policy, n_boot=1)
    assert once["stderr"].null_count() == once.height


# --- the package obp ------------------------------------------------------------------------------------


@pytest.fixture
def obp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The estimators of obp 0.4.1; its other modules, and torch, are not loaded."""
    spec = importlib.util.find_spec("obp")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("obp is not installed: pip install --no-deps obp==0.4.1 scikit-learn pandas pyyaml")
    folder = next(iter(spec.submodule_search_locations))
    torch, package, ope = (types.ModuleType(name) for name in ("torch", "obp", "obp.ope"))
    torch.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    package.__path__, ope.__path__ = [folder], [f"{folder}/ope"]
    for name, module in (("torch", torch), ("obp", package), ("obp.ope", ope)):
        monkeypatch.setitem(sys.modules, name, module)
    yield importlib.import_module("obp.ope.estimators")
    for name in [name for name in sys.modules if name.startswith("obp.")]:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("seed", range(5))
def test_estimates_are_those_of_obp(obp: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, names = 500, ["a", "b", "c"]
    target, q = rng.dirichlet(np.ones(3), n), rng.normal(size=(n, 3))
    behavior = rng.dirichlet(np.full(3, 4.0), n)
    action = np.array([rng.choice(3, p=p) for p in behavior])
    reward = rng.normal(size=n)
    p = behavior[np.arange(n), action]
    decisions = pl.DataFrame(
        {
            "trace": np.arange(n),
            "task_id": [f"t{i // 5}" for i in range(n)],
            "action": np.array(names)[action],
            "p_behavior": p,
            "outcome": reward,
            "pi": target,
            "q": q,
        }
    )
    table = evaluated(decisions, "pi", outcome_model="q", actions=names, tau=1.5)
    # its trace of numbers sorts as text, ours is compared in any order
    given_ = {
        "reward": reward,
        "action": action,
        "pscore": p,
        "action_dist": target[:, :, None],
        "estimated_rewards_by_reg_model": q[:, :, None],
        "position": np.zeros(n, int),
    }
    theirs = {
        "ips": obp.InverseProbabilityWeighting(),
        "snips": obp.SelfNormalizedInverseProbabilityWeighting(),
        "direct": obp.DirectMethod(),
        "dr": obp.DoublyRobust(),
        "switch": obp.SwitchDoublyRobust(tau=1.5),
    }
    got = by_name(table)
    for name, estimator in theirs.items():
        assert got[name] == pytest.approx(estimator.estimate_policy_value(**given_), abs=1e-9), name


# --- algebra --------------------------------------------------------------------------------------------


@examples(60)
@given(logs(longest=4))
def test_the_recorded_policy_is_worth_what_was_paid(runs: list[list[Step]]) -> None:
    """Weights are exactly 1, so that whatever is weighted is the plain mean, and everybody counts."""
    decided = pl.col("p_behavior")
    rows = frame(runs).with_columns(q=pl.struct(a=0.0, b=0.0, c=0.0, d=0.0))
    # the logged action keeps its probability, and some other gets the rest
    rest = {name: pl.when(pl.col("action") == name).then(decided) for name in "abcd"}
    other = pl.when(pl.col("action") == "a").then(pl.lit("b")).otherwise(pl.lit("a"))
    policy = {
        name: one.otherwise(pl.when(other == name).then(1.0 - decided).otherwise(0.0))
        for name, one in rest.items()
    }
    paid = [sum(step.reward for step in run) for run in runs]
    table = evaluated(rows, policy, unit="sequence", reward="reward", outcome_model="q")
    got = by_name(table)
    for name in ("is", "wis", "pdis", "dr"):
        assert got[name] == pytest.approx(np.mean(paid), abs=1e-12)
    assert table["ess"][0] == pytest.approx(len(runs)) and table["mean_weight"][0] == 1.0
    assert "propensity.suspect" not in table["params"][0]


@examples(60)
@given(logs(longest=4), st.sampled_from([1.0, 0.8]))
def test_how_estimators_of_sequences_are_related(runs: list[list[Step]], discount: float) -> None:
    assume(values(runs)["mean_weight"] > 0.0)
    options: dict[str, Any] = {"unit": "sequence", "discount": discount}
    rows = frame(runs)
    # a reward at the end alone: per-decision weights change nothing
    at_the_end = by_name(evaluated(rows, "pi", outcome_model="q", **options))
    assert at_the_end["pdis"] == pytest.approx(at_the_end["is"], abs=1e-9)
    # a model that says nothing: nothing is corrected
    zero = dict.fromkeys("abcd", 0.0)
    without = by_name(evaluated(rows, "pi", outcome_model=zero, reward="reward", **options))
    assert without["dr"] == pytest.approx(without["pdis"], abs=1e-12)
    assert without["fqe"] == 0.0


@examples(60)
@given(logs(), st.floats(-3.0, 3.0))
def test_what_a_shift_of_the_outcome_does(runs: list[list[Step]], by: float) -> None:
    assume(values(runs)["mean_weight"] > 0.0)
    rows = frame(runs)
    fields = rows.schema["q"].fields  # type: ignore[attr-defined]
    moved = rows.with_columns(
        pl.col("outcome") + by,
        q=pl.struct((pl.col("q").struct.field(field.name) + by).alias(field.name) for field in fields),
    )
    before = evaluated(rows, "pi", outcome_model="q", bounds=(-2.0, 2.0))
    after = evaluated(moved, "pi", outcome_model="q", bounds=(-2.0 + by - 1e-9, 2.0 + by + 1e-9))
    was, now = by_name(before), by_name(after)
    for name in ("snips", "direct", "dr", "switch"):
        assert now[name] - was[name] == pytest.approx(by, abs=1e-9)
    assert now["ips"] - was["ips"] == pytest.approx(by * before["mean_weight"][0], abs=1e-9)
    for end in ("lower", "upper"):
        assert row(after, "bounds")[end] - row(before, "bounds")[end] == pytest.approx(by, abs=1e-8)


@examples(60)
@given(logs())
def test_switches_lead_from_the_model_to_doubly_robust(runs: list[list[Step]]) -> None:
    rows = frame(runs)
    assume(values(runs)["mean_weight"] > 0.0)
    never = by_name(evaluated(rows, "pi", outcome_model="q", tau=0.0))
    always = by_name(evaluated(rows, "pi", outcome_model="q", tau=math.inf))
    assert never["switch"] == never["direct"] and always["switch"] == always["dr"]
    params = json.loads(evaluated(rows, "pi", outcome_model="q", tau=math.inf)["params"][0])
    assert params["tau"] == "inf"
    zero = by_name(evaluated(rows, "pi", outcome_model=dict.fromkeys("abcd", 0.0)))
    assert zero["dr"] == pytest.approx(zero["ips"], abs=1e-12)


@examples(40)
@given(logs(), st.floats(-2.0, 2.0), st.floats(0.1, 4.0))
def test_the_bounds_are_as_wide_as_what_was_not_seen(
    runs: list[list[Step]], low: float, width: float
) -> None:
    rows = frame(runs).with_columns(pl.col("outcome").clip(low, low + width))
    bounds = row(evaluated(rows, "pi", outcome_model="q", bounds=(low, low + width)), "bounds")
    seen = np.mean([run[0].target.get(run[0].action, 0.0) for run in runs])
    assert bounds["upper"] - bounds["lower"] == pytest.approx(width * (1.0 - seen), abs=1e-9)


def test_an_exact_model_of_a_world_without_chance_gives_the_true_value() -> None:
    """Whatever was logged: the correction is of what the model got wrong, which is nothing."""
    rng = np.random.default_rng(2)
    runs, steps = 50, 4
    spawn = rng.random((runs, steps)) < 0.5
    # each spawn adds 1, and 2 if the one before it was none; the state is what was done before
    before = np.hstack([np.zeros((runs, 1), bool), spawn[:, :-1]])
    reward = spawn * np.where(before, 1.0, 2.0)
    p = 0.7  # of the policy: it spawns with this chance, in each state
    later = np.zeros((steps + 1, 2))
    for at in range(steps - 1, -1, -1):
        for state in (0, 1):
            paid = 1.0 if state else 2.0
            later[at, state] = p * (paid + later[at + 1, 1]) + (1 - p) * later[at + 1, 0]
    place = np.tile(np.arange(steps), runs)
    state = before.ravel().astype(int)
    rows = pl.DataFrame(
        {
            "trace": np.repeat(np.arange(runs), steps),
            "task_id": [f"t{i}" for i in np.repeat(np.arange(runs), steps)],
            "seq": place,
            "action": np.where(spawn.ravel(), "spawn", "wait"),
            "p_behavior": 0.5,
            "reward": reward.ravel(),
            "q": np.stack(
                [np.where(state == 1, 1.0, 2.0) + later[place + 1, 1], later[place + 1, 0]], axis=1
            ),
        }
    )
    table = evaluated(
        rows,
        {"spawn": p, "wait": 1 - p},
        unit="sequence",
        reward="reward",
        outcome_model="q",
        actions=["spawn", "wait"],
    )
    assert by_name(table)["dr"] == pytest.approx(later[0, 0], abs=1e-9)
    assert by_name(table)["fqe"] == pytest.approx(later[0, 0], abs=1e-9)


# --- how a policy is given ------------------------------------------------------------------------------

SHARE = {"easy": 0.2, "hard": 0.8}


def test_every_way_to_give_a_policy_says_the_same() -> None:
    decisions, _ = ot.synthetic.choices(runs=200, seed=1)
    spawn = pl.col("x_state").replace_strict(SHARE, return_dtype=pl.Float64)
    told = pl.DataFrame(
        [
            {"x_state": state, "action": action, "p": p, "q": p / 2}
            for state, share in SHARE.items()
            for action, p in (("spawn", share), ("no_spawn", 1.0 - share))
        ]
    )
    decisions = decisions.with_columns(
        fields=pl.struct(spawn=spawn, no_spawn=1.0 - spawn), lists=pl.concat_list(1.0 - spawn, spawn)
    ).with_columns(array=pl.col("lists").list.to_array(2))
    names = ["no_spawn", "spawn"]
    ways: list[tuple[Any, dict[str, Any]]] = [
        ({"spawn": spawn, "no_spawn": 1.0 - spawn}, {}),
        (told.drop("q"), {}),
        ("fields", {"buckets": ["x_state"]}),
        ("lists", {"buckets": ["x_state"], "actions": names}),
        ("array", {"buckets": ["x_state"], "actions": names}),
    ]
    halves = told.drop("p")
    first, *others = [
        evaluated(decisions, policy, outcome_model=halves, bounds=(0, 1), **more).drop("params")
        for policy, more in ways
    ]
    for other in others:
        assert_frame_equal(first, other, check_exact=False, rel_tol=1e-12)


def test_an_action_without_a_row_in_the_policy_is_never_taken() -> None:
    decisions, _ = ot.synthetic.choices(runs=200, seed=1)
    only = evaluated(decisions, pl.DataFrame({"action": ["spawn"], "p": [1.0]}))
    both = evaluated(decisions, {"spawn": 1.0, "no_spawn": 0.0})
    assert_frame_equal(only.drop("params"), both.drop("params"))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"1": 0.5}, "sum to 0.5 in a row, expected 1"),
        ({"1": 1.5, "0": -0.5}, "action '1' the probability 1.5"),
        ({"1": math.nan, "0": 1.0}, "the probability nan"),
        ({}, "names no action"),
        ({"1": "x"}, "policy"),
        ({"1": True, "0": 0.0}, "expected a number or expression"),
        ({"1": pl.col("nope")}, "unknown column 'nope'"),
        ({"1": pl.col("action")}, "gives String"),
        ("nope", "unknown column 'nope'"),
        ("outcome", "expected a struct with a field for each action"),
        (pl.DataFrame({"p": [1.0]}), "no column 'action'"),
        (pl.DataFrame({"action": ["1"]}), "no column 'p'"),
        (pl.DataFrame({"action": ["1", "1"], "p": [0.5, 0.5]}), "two rows of one action in one state"),
        (pl.DataFrame({"action": ["1"], "p": ["x"]}), "other values than numbers"),
        (pl.DataFrame({"action": ["1"], "p": [1.0], "x_no": [1]}), "unknown column 'x_no'"),
        (
            pl.DataFrame({"action": ["1"], "p": [1.0], "task_id": ["a"]}),
            "state of 3 decisions, such as task_id",
        ),
        (3, "policy"),
        ({str(i): 1 / 300 for i in range(300)}, "300 actions, expected at most 256"),
    ],
)
def test_policies_that_are_none(policy: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        evaluated(GOLDEN, policy)


def test_lists_need_the_names_of_their_actions() -> None:
    rows = GOLDEN.with_columns(pi=pl.concat_list(pl.lit(0.5), pl.lit(0.5)))
    with pytest.raises(ot.ParameterError, match="do not name actions"):
        evaluated(rows, "pi")
    with pytest.raises(ot.ParameterError, match="not lists of 3 numbers"):
        evaluated(rows, "pi", actions=["0", "1", "2"])
    assert evaluated(rows, "pi", actions=["0", "1"])["value"].count() == 5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"1": 0.5}, "no value for action '0'"),
        ({"1": 0.5, "0": math.inf}, "has inf for action '0'"),
        (pl.DataFrame({"action": ["1", "0"], "q": [0.5, None]}), "other values than numbers"),
        (pl.DataFrame({"action": ["1", "0"], "p": [0.5, 0.5]}), "no column 'q'"),
    ],
)
def test_models_that_are_none(model: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        evaluated(GOLDEN, TARGET, outcome_model=model)


# --- refusals -------------------------------------------------------------------------------------------

WEIGHTED = ["ips", "snips", "dr", "switch"]


def refused(table: pl.DataFrame) -> set[str]:
    """Why estimates by weights are null; the model's is given, as a surrogate."""
    weighted = table.filter(pl.col("estimator").is_in([*WEIGHTED, "is", "wis", "pdis"]))
    assert (
        weighted["value"].null_count() == weighted.height and weighted["tier"].null_count() == weighted.height
    )
    model = table.filter(pl.col("estimator").is_in(["direct", "fqe"])).row(0, named=True)
    assert model["value"] is not None and model["tier"] == "surrogate"
    return set(weighted["reason"])


def test_a_small_effective_sample_is_refused() -> None:
    decisions, _ = ot.synthetic.choices(runs=60, seed=0)
    policy = {"spawn": 1.0, "no_spawn": 0.0}
    table = ot.effects.policy_values(decisions, policy, n_boot=20)
    assert table["ess"][0] < 30.0
    assert refused(table) == {"overlap.absent"}
    assert ot.effects.policy_values(decisions, policy, n_boot=20, min_ess=5.0)["value"][0] is not None


def test_a_small_share_of_a_large_sample_is_refused() -> None:
    n = 4000
    weights = np.where(np.arange(n) < 80, 0.001, 1.0)  # eighty runs did what the policy would do
    rows = pl.DataFrame(
        {
            "trace": np.arange(n),
            "task_id": [f"t{i // 4}" for i in range(n)],
            "action": np.where(np.arange(n) < 80, "rare", "usual"),
            "p_behavior": weights,
            "outcome": 1.0,
        }
    )
    table = ot.effects.policy_values(rows, {"rare": 1.0, "usual": 0.0}, n_boot=20)
    assert 30.0 < table["ess"][0] < 0.05 * n and refused(table) == {"overlap.absent"}
    assert json.loads(table["params"][0])["findings"] == ["propensity.suspect"]


def test_one_run_that_decides_all_is_refused() -> None:
    decisions, _ = ot.synthetic.choices(runs=200, seed=0)
    first = pl.int_range(pl.len()) == 0
    rows = decisions.with_columns(p_behavior=pl.when(first).then(0.01).otherwise("p_behavior"))
    policy = {"spawn": 0.4, "no_spawn": 0.6}
    table = ot.effects.policy_values(rows, policy, n_boot=20, min_ess=1.0, max_share=0.15)
    assert table["max_weight_share"][0] > 0.15 and refused(table) == {"overlap.absent"}
    assert ot.effects.policy_values(rows, policy, n_boot=20, min_ess=1.0, max_share=0.5)["value"][0]


def test_a_policy_that_goes_where_nobody_went_is_refused() -> None:
    decisions, _ = ot.synthetic.choices(runs=400, seed=0)
    new = {"spawn": 0.4, "no_spawn": 0.5, "delegate": 0.1}
    table = ot.effects.policy_values(decisions, new, n_boot=20)
    assert table["no_support_share"][0] == pytest.approx(0.1) and refused(table) == {"overlap.absent"}
    # nobody spawned where it was easy, and the policy looks at that
    rows = decisions.filter((pl.col("x_state") == "hard") | (pl.col("action") == "no_spawn"))
    state = pl.col("x_state") == "hard"
    policy = {
        "spawn": pl.when(state).then(0.5).otherwise(0.4),
        "no_spawn": pl.when(state).then(0.5).otherwise(0.6),
    }
    table = ot.effects.policy_values(rows, policy, n_boot=20)
    easy = (rows["x_state"] == "easy").mean()
    assert isinstance(easy, float)
    assert table["no_support_share"][0] == pytest.approx(0.4 * easy) and refused(table) == {"overlap.absent"}
    alike = ot.effects.policy_values(rows, policy, n_boot=20, buckets=[])
    assert alike["no_support_share"][0] == 0.0


def test_states_of_many_numbers_are_cut_into_parts() -> None:
    decisions, _ = ot.synthetic.choices(runs=1000, seed=0)
    load = np.random.default_rng(0).normal(size=1000)
    load[:20] = np.nan
    rows = decisions.with_columns(x_load=pl.Series(load).fill_nan(None))
    policy = {"spawn": 0.4, "no_spawn": 0.6}
    table = ot.effects.policy_values(rows, policy, n_boot=20, buckets=["x_load"])
    assert table["no_support_share"][0] == 0.0 and table["value"][0] is not None


def test_without_probabilities_there_are_bounds_only() -> None:
    for rows, reason in (
        (GOLDEN.drop("p_behavior"), "field.absent"),
        (GOLDEN.with_columns(p_behavior=pl.lit(None, pl.Float64)), "field.absent"),
        (GOLDEN.with_columns(p_behavior=pl.when(pl.col("trace") > 0).then("p_behavior")), "field.absent"),
        *(
            (
                GOLDEN.with_columns(p_behavior=pl.when(pl.col("trace") > 0).then("p_behavior").otherwise(p)),
                code,
            )
            for p, code in ((0.0, "result.range"), (1.5, "result.range"), (-0.1, "result.range"))
        ),
        (GOLDEN.with_columns(p_behavior=pl.lit(math.nan)), "result.range"),
        (GOLDEN.with_columns(p_behavior=pl.lit(math.inf)), "result.range"),
    ):
        table = evaluated(rows, TARGET, outcome_model=MODEL, bounds=(0.0, 1.0))
        estimates = table.filter(pl.col("estimator") != "bounds")
        assert estimates["value"].null_count() == 5 and set(estimates["reason"]) == {reason}
        assert estimates["ess"].null_count() == 5 and estimates["tier"].null_count() == 5
        bounds = row(table, "bounds")
        assert (bounds["lower"], bounds["upper"]) == pytest.approx((0.475, 0.975))
        assert bounds["reason"] is None and bounds["tier"] == "observed"


def test_weights_beyond_the_floats_are_refused() -> None:
    rows = GOLDEN.with_columns(p_behavior=pl.lit(5e-324))
    table = evaluated(rows, TARGET, outcome_model=MODEL)
    assert refused(table) == {"result.range"}
    runs = pl.DataFrame({"trace": [0] * 3, "seq": [0, 1, 2], "task_id": "a", "action": "x", "outcome": 1.0})
    runs = runs.with_columns(p_behavior=pl.lit(1e-200))
    assert refused(evaluated(runs, {"x": 1.0}, unit="sequence")) == {"result.range"}


def test_a_policy_that_never_repeats_the_log_has_no_weight() -> None:
    table = evaluated(GOLDEN, {"2": 1.0}, outcome_model={"0": 0.1, "1": 0.2, "2": 0.3}, bounds=(0.0, 1.0))
    assert refused(table) == {"overlap.absent"}
    assert by_name(table)["direct"] == pytest.approx(0.3)
    assert table["no_support_share"][0] == 1.0 and table["ess"][0] == 0.0
    bounds = row(table, "bounds")
    assert (bounds["lower"], bounds["upper"]) == (0.0, 1.0)  # nothing is known


def test_bounds_need_a_range() -> None:
    table = evaluated(GOLDEN, TARGET)
    bounds = row(table, "bounds")
    assert bounds["reason"] == "range.unknown" and bounds["lower"] is None and bounds["tier"] is None
    for given_, message in (
        ((0.5, 1.0), "returns are from 0 to 1, beyond bounds"),
        ((1.0, 0.0), "two numbers, the least first"),
        ((0.0, math.inf), "finite"),
        (3, "bounds is 3"),
    ):
        with pytest.raises(ot.ParameterError, match=message):
            evaluated(GOLDEN, TARGET, bounds=given_)


def test_an_estimate_outside_of_its_bounds_is_flagged() -> None:
    table = evaluated(GOLDEN, TARGET, outcome_model={"1": 5.0, "0": 0.4}, bounds=(0.0, 1.0))
    found = {one["estimator"]: json.loads(one["params"])["findings"] for one in table.iter_rows(named=True)}
    assert "bounds.outside" in found["direct"]
    assert "bounds.outside" not in found["ips"] and "bounds.outside" not in found["bounds"]


def test_probabilities_that_did_not_act_are_suspect() -> None:
    decisions, _ = ot.synthetic.choices(runs=2000, seed=0)
    policy = {"spawn": 0.5, "no_spawn": 0.5}
    honest = ot.effects.policy_values(decisions, policy, n_boot=20)
    assert json.loads(honest["params"][0])["findings"] == []
    # the log says 0.3, while temperature made it 0.15
    wrong = decisions.with_columns(pl.col("p_behavior") / 2)
    suspect = ot.effects.policy_values(wrong, policy, n_boot=20)
    assert json.loads(suspect["params"][0])["findings"] == ["propensity.suspect"]


# --- frames that are none -------------------------------------------------------------------------------


def test_what_is_left_out_is_told() -> None:
    rows = GOLDEN.with_columns(
        outcome=pl.when(pl.col("trace") != 1).then("outcome"),
        action=pl.when(pl.col("trace") != 2).then("action"),
    )
    table = evaluated(rows, TARGET, outcome_model=MODEL)
    assert set(table["n"]) == {2} and json.loads(table["params"][0])["left_out"] == 2
    assert by_name(table)["ips"] == pytest.approx((1.8 + 0.5) / 2)
    none = evaluated(GOLDEN.clear(), TARGET, bounds=(0.0, 1.0))
    assert set(none["reason"]) == {"support.absent"} and none["value"].null_count() == none.height == 6
    lost = GOLDEN.with_columns(outcome=pl.lit(None, pl.Float64))
    assert set(evaluated(lost, TARGET)["reason"]) == {"support.absent"}


def test_one_decision_of_each_run_counts() -> None:
    decisions, _ = ot.synthetic.choices(runs=300, steps=3, seed=2)
    decisions = decisions.with_columns(outcome=pl.col("outcome"))
    policy = {"spawn": 0.5, "no_spawn": 0.5}
    for at in (1, 2, 3):
        own = decisions.filter(pl.col("seq") == at - 1)
        want = evaluated(own, policy)
        got = evaluated(decisions.reverse(), policy, at=at)
        assert_frame_equal(want.drop("params"), got.drop("params"))
        assert json.loads(got["params"][0])["left_out"] == 300 - own.height


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (GOLDEN.drop("action"), {}, "no column 'action'"),
        (GOLDEN.drop("outcome"), {}, "no column 'outcome'"),
        (GOLDEN.with_columns(outcome=pl.lit(math.nan)), {}, "the value nan"),
        (GOLDEN.with_columns(outcome=pl.lit(1e200)), {}, "at most 1e\\+100 in size"),
        (GOLDEN.with_columns(outcome=pl.lit("x")), {}, "expected numbers"),
        (GOLDEN.with_columns(task_id=pl.lit(None, pl.String)), {}, "'task_id' of decisions has nulls"),
        (GOLDEN.with_columns(trace=pl.lit(0), task_id=pl.lit("a")), {}, "no column 'seq' that orders them"),
        (GOLDEN.with_columns(trace=pl.lit(0)), {}, "several values of task_id"),
        (
            GOLDEN.with_columns(trace=pl.lit(0), task_id=pl.lit("a"), seq=pl.lit(1)),
            {},
            "two rows with one seq",
        ),
        (GOLDEN.with_columns(kind=pl.Series(["O1", "O1", "O2", "O2"])), {}, "of several kinds"),
        (GOLDEN.with_columns(x_load=pl.lit(math.inf)), {}, "'x_load' of decisions has NaN or infinity"),
        (
            GOLDEN.with_columns(trace=pl.lit(0), task_id=pl.lit("a"), seq=pl.Series([1, 2, 3, 4])),
            {"unit": "sequence"},
            "several outcomes",
        ),
    ],
)
def test_frames_that_are_refused(rows: pl.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.SchemaError, match=message):
        evaluated(rows, TARGET, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "run"}, "unit is 'run', expected"),
        ({"at": 0}, "at is 0"),
        ({"at": 2, "unit": "sequence"}, "sequences have all decisions"),
        ({"reward": "outcome"}, "reward is for sequences"),
        ({"discount": 0.5}, "discount is for sequences"),
        ({"discount": 2.0, "unit": "sequence"}, "from 0 to 1"),
        ({"reward": "nope", "unit": "sequence"}, "unknown column 'nope'"),
        ({"clip": 0.0}, "clip is 0.0, expected a number above 0"),
        ({"tau": -1.0}, "tau is -1.0"),
        ({"tau": math.nan}, "tau is nan"),
        ({"min_ess": math.inf}, "min_ess is inf"),
        ({"folds": 1}, "folds is 1"),
        ({"penalty": 0.0}, "penalty is 0.0"),
        ({"features": ["nope"]}, "features: unknown column"),
        ({"buckets": ["nope"]}, "buckets: unknown column"),
        ({"confidence": 1.0}, "confidence is 1.0"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.effects.policy_values(GOLDEN, TARGET, **options)


# --- the same bits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["decision", "sequence"])
def test_nothing_hangs_on_the_order_of_rows_or_the_numbers_of_traces(unit: Any) -> None:
    decisions, _ = ot.synthetic.choices(runs=150, steps=3, seed=4)
    policy = {"spawn": 0.5, "no_spawn": 0.5}
    first = ot.effects.policy_values(decisions, policy, unit=unit, bounds=(0.0, 3.0), n_boot=50)
    # other files first: traces have other numbers
    others = decisions.sample(fraction=1.0, shuffle=True, seed=1).with_columns(
        trace=999 - pl.col("trace").cast(pl.Int64)
    )
    assert_frame_equal(
        first,
        ot.effects.policy_values(others, policy, unit=unit, bounds=(0.0, 3.0), n_boot=50),
        check_exact=True,
    )
    again = ot.effects.policy_values(decisions, policy, unit=unit, bounds=(0.0, 3.0), n_boot=50, seed=1)
    assert again["value"][0] == first["value"][0] and again["lower"][0] != first["lower"][0]


# --- planted choices ------------------------------------------------------------------------------------


def test_the_planted_truth_is_that_of_drawn_runs() -> None:
    """Exact by recursion; the recorded policy by drawing it."""
    for steps in (1, 5):
        decisions, truth = ot.synthetic.choices(runs=40_000, steps=steps, seed=1)
        paid = decisions.filter(pl.col("seq") == 0)["outcome"]
        mean, deviation = paid.mean(), paid.std()
        assert isinstance(mean, float) and isinstance(deviation, float)
        assert abs(mean - truth.recorded) < 4.0 * deviation / 200.0
    one = truth.value({"easy": 0.0, "hard": 0.0}, discount=0.0)
    assert one == pytest.approx(0.6 * 0.7 + 0.4 * 0.2, abs=1e-12)
    with pytest.raises(ot.ParameterError, match="for the state 'hard', expected a chance"):
        truth.value({"easy": 0.5})


def test_two_states_that_go_on_for_ever_are_worth_their_closed_form() -> None:
    """v = (I - (1 - end) P)^-1 r, and all estimators are near it, each within its own interval."""
    end, share = 0.4, np.array([0.4, 0.6])
    _, truth = ot.synthetic.choices(runs=1, steps=200, end=end)
    reward = np.array([0.6 * 0.7 + 0.4 * 0.6, 0.4 * 0.2 + 0.6 * 0.6])
    hard = np.array([0.6 * 0.2 + 0.4 * 0.3, 0.4 * 0.8 + 0.6 * 0.4])
    moves = np.stack([1.0 - hard, hard], axis=1)
    worth = np.array([0.6, 0.4]) @ np.linalg.solve(np.eye(2) - (1.0 - end) * moves, reward)
    assert truth.value({"easy": 0.4, "hard": 0.6}) == pytest.approx(worth, abs=1e-9)
    decisions, _ = ot.synthetic.choices(runs=8000, steps=60, end=end, seed=7)
    policy = pl.DataFrame(
        {
            "x_state": ["easy", "easy", "hard", "hard"],
            "action": ["spawn", "no_spawn"] * 2,
            "p": [share[0], 1 - share[0], share[1], 1 - share[1]],
        }
    )
    table = ot.effects.policy_values(
        decisions, policy, unit="sequence", reward="reward", confidence=0.999, n_boot=500
    )
    for name in ("is", "wis", "pdis", "dr"):
        one = row(table, name)
        assert one["lower"] < worth < one["upper"], name
        assert one["upper"] - one["lower"] < 0.25


def test_policies_of_planted_runs_differ_by_the_planted_effect() -> None:
    """Always spawning less never spawning, from recordings: the mean of the planted effects."""
    corpus, truth = ot.synthetic.planted(
        traces=2400, agents=3, events=4, seed=5, spawn_effect=1.0, spawn_overlap=0.3, decisive=0.0
    )
    own = corpus.events.filter(pl.col("action").cast(pl.String).is_in(["spawn", "no_spawn"]))
    paid = corpus.measures.filter(pl.col("kind") == "reward", pl.col("name") == "team")
    names = ("trace", "trace_id", "task_id", "seq", "action", "p_behavior", "outcome")
    rows = own.join(corpus.traces, on="trace").join(paid.select("trace", outcome="value"), on="trace")
    decisions = rows.select(*names, x_state="state_key").collect()
    sides = [
        row(ot.effects.policy_values(decisions, {"spawn": p, "no_spawn": 1.0 - p}, n_boot=300), "dr")
        for p in (1.0, 0.0)
    ]
    effect = truth.decisions["effect"].mean()
    assert isinstance(effect, float)
    error = math.hypot(sides[0]["stderr"], sides[1]["stderr"])
    assert abs(sides[0]["value"] - sides[1]["value"] - effect) < 3.5 * error < 1.5


# --- rates ----------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.parametrize("unit", ["decision", "sequence"])
def test_intervals_cover_at_the_rate_that_they_claim(unit: Any) -> None:
    """Over 200 seeds. At 95 % a rate below 0.905 has a chance of 0.003."""
    steps = 1 if unit == "decision" else 3
    options: dict[str, Any] = {} if unit == "decision" else {"reward": "reward"}
    share = {"easy": 0.5, "hard": 0.7}
    policy = pl.DataFrame(
        [
            {"x_state": state, "action": action, "p": p}
            for state, spawn in share.items()
            for action, p in (("spawn", spawn), ("no_spawn", 1.0 - spawn))
        ]
    )
    inside: dict[str, int] = {}
    for seed in range(200):
        decisions, truth = ot.synthetic.choices(runs=400, steps=steps, seed=seed)
        exact = truth.value(share)
        table = ot.effects.policy_values(
            decisions, policy, unit=unit, bounds=(0.0, float(steps)), n_boot=400, seed=seed, **options
        )
        for one in table.iter_rows(named=True):
            if one["estimator"] in ("direct", "fqe"):
                continue  # a model that is wrong has no rate
            covered = one["lower"] <= exact <= one["upper"]
            inside[one["estimator"]] = inside.get(one["estimator"], 0) + covered
    assert inside.pop("bounds") == 200
    for name, count in inside.items():
        assert 0.905 <= count / 200 <= 0.99, (name, count)


def test_estimators_are_those_that_are_listed() -> None:
    decisions, _ = ot.synthetic.choices(runs=50, seed=0)
    found = set()
    for unit in ("decision", "sequence"):
        for spawn in (0.5, 1.0):  # mrdr is for a policy without chance
            policy = {"spawn": spawn, "no_spawn": 1.0 - spawn}
            found |= set(evaluated(decisions, policy, unit=unit)["estimator"])
    assert found == set(ESTIMATORS)


@pytest.mark.parametrize(("bounds", "known"), [((-1e308, 1e308), ()), ((0.0, 1.7e308), ("lower",))])
def test_bounds_beyond_the_floats_are_null(bounds: tuple[float, float], known: tuple[str, ...]) -> None:
    decisions, _ = ot.synthetic.choices(runs=60, seed=0)
    policy = {"spawn": 0.9, "no_spawn": 0.1}
    table = ot.effects.policy_values(decisions, policy, bounds=bounds, n_boot=10)
    [row] = table.filter(estimator="bounds").rows(named=True)
    assert row["reason"] == "result.range" and row["tier"] == ("observed" if known else None)
    assert tuple(end for end in ("lower", "upper") if row[end] is not None) == known
    assert all(table[name].drop_nulls().is_finite().all() for name in ("value", "lower", "upper"))
    assert json.loads(row["params"])["stderr_upper"] is None
