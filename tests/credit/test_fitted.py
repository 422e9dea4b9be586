"""Fitted credit: what holds whatever the data, and what it finds where the truth is known."""

import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.extras import install
from orchestrace.corpus.reward import amounts
from orchestrace.statistics import learners
from samples.planted_teams import ROLES, WORTH, Planted, corpus_of, correlation, decisions, fit_of, teams

ROOT = Path(__file__).resolve().parents[2]
SHARES = ("rudder", "vdn", "qmix")
FITTED = ("hca", "dae", *SHARES)
UNITS = ot.list_methods()["units"][0]


# --- what holds whatever the data -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted() -> Planted:
    return teams(120, seed=11)


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("method", SHARES)
def test_shares_sum_to_the_reward(method: str, unit: str) -> None:
    corpus = ot.generate(traces=60, seed=3)
    weights = {"team": 1.0, "tool": 0.5}
    credits = ot.credit(corpus, method=method, unit=unit, reward=weights)
    rewards = amounts(corpus, weights).select("trace", amount="reward")
    sums = credits.group_by("trace").agg(pl.col("credit").sum(), nulls=pl.col("credit").null_count())
    both = sums.join(rewards, on="trace")
    absent = both.filter(pl.col("amount").is_null())
    given = both.filter(pl.col("amount").is_not_null())
    assert absent.height and (absent["nulls"] > 0).all() and (given["nulls"] == 0).all()
    assert_allclose(given["credit"], given["amount"], atol=1e-9)
    reasons = credits.filter(pl.col("credit").is_null())["reason"].cast(pl.String)
    assert reasons.unique().to_list() == ["reward.absent"]


@pytest.mark.parametrize("method", FITTED)
def test_no_run_is_scored_by_its_own_task(method: str, planted: Planted) -> None:
    """Rewards of a task change its credit through the residual only."""
    corpus = planted.corpus
    own = corpus.traces.filter(pl.col("task_id") == "task-3").select("trace").collect()["trace"]
    # Of `dae` some that leave the other tasks enough to say: it is silent on a corpus of noise.
    rewards = [1.0, -1.0] if method == "dae" else [9.0, -50.0]
    changed = corpus.with_measures(pl.DataFrame({"trace": own, "team": rewards * (len(own) // 2)}))
    if method == "hca":  # counts are those of the whole corpus; its quality is told on unseen tasks
        noise = teams(120, seed=11, noise=1e6).corpus
        fit = fit_of(ot.credit(noise, method="hca"))
        assert fit["r2"] > 0 > fit["r2_cv"]
        return
    options = {"residual": "last"} if method == "rudder" else {}
    before = ot.credit(corpus, method=method, **options)
    after = ot.credit(changed, method=method, **options)
    here = pl.col("trace").is_in(own.implode())
    # The row without a unit holds the residual, of rudder its last event does.
    last = pl.col("seq") == pl.col("seq").max().over("trace")
    kept = ~last if method == "rudder" else pl.col("seq").is_not_null()
    pair = [frame.filter(here & kept)["credit"].to_list() for frame in (before, after)]
    assert len(pair[0]) > 50 and pair[0] == pair[1]
    others = [frame.filter(~here)["credit"].to_list() for frame in (before, after)]
    assert others[0] != others[1]


@pytest.mark.parametrize("method", FITTED)
def test_the_order_of_runs_does_not_matter(method: str) -> None:
    order = np.random.default_rng(12).permutation(60)
    key = ["trace_id", "seq"]
    columns = [*key, "credit", "reason"]
    one, two = (teams(60, seed=13, order=order_).corpus for order_ in (None, order))
    credits = [ot.credit(corpus, method=method).select(columns).sort(key) for corpus in (one, two)]
    assert_frame_equal(*credits, abs_tol=1e-9)
    assert credits[0]["credit"].null_count() < credits[0].height / 2


@pytest.mark.process
def test_bits_do_not_depend_on_threads_of_blas() -> None:
    """Sums over tens of thousands of rows are those that BLAS divides among threads."""
    code = f"""
import hashlib
import orchestrace as ot
corpus = ot.generate(events=50_000)
for method in {SHARES}:
    values = ot.credit(corpus, method=method)["credit"].fill_null(0.0).to_numpy()
    print(method, hashlib.md5(values.tobytes()).hexdigest())
"""
    said = []
    for threads in ("1", "4"):
        held = {name: threads for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        run = [sys.executable, "-c", code]
        said.append(subprocess.run(run, env=os.environ | held, capture_output=True, check=True).stdout)
    assert said[0] == said[1] and said[0].count(b"\n") == len(SHARES)


@pytest.mark.parametrize("method", FITTED)
def test_a_corpus_on_disk_is_fitted_as_a_whole(method: str, planted: Planted, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    planted.corpus.write_jsonl(str(path))
    ot.ingest(path, tmp_path / "corpus", partitions=3)
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert sum(1 for _ in corpus.pieces()) == 3
    key = ["trace_id", "seq"]
    columns = [*key, "credit", "residual", "reason"]
    there = ot.credit(corpus, method=method)
    here = ot.credit(planted.corpus, method=method)
    assert fit_of(there) == pytest.approx(fit_of(here), abs=1e-6)
    pair = [frame.select(columns).sort(key) for frame in (there, here)]
    assert_frame_equal(*pair, abs_tol=1e-9)


@pytest.mark.parametrize("method", FITTED)
def test_runs_without_a_reward_are_left_out_of_the_fit(method: str, planted: Planted) -> None:
    corpus = planted.corpus
    kept = corpus.traces.select("trace").collect()["trace"].to_list()[:90]
    measures = corpus.measures.filter(pl.col("trace").is_in(kept)).collect()
    part = ot.Corpus.from_arrow(
        traces=corpus.traces.collect(), events=corpus.events.collect(), measures=measures
    )
    alone = ot.credit(corpus.filter(pl.col("trace").is_in(kept)), method=method)
    among = ot.credit(part, method=method)
    columns = ["trace", "seq", "credit", "reason"]
    assert_frame_equal(
        among.filter(pl.col("trace").is_in(kept)).select(columns), alone.select(columns), abs_tol=1e-9
    )
    rest = among.filter(~pl.col("trace").is_in(kept))
    assert rest["credit"].null_count() == rest.height > 0
    assert rest["reason"].cast(pl.String).unique().to_list() == ["reward.absent"]


@pytest.mark.parametrize("method", FITTED)
@pytest.mark.parametrize("rewards", [(2.0,), (2.0, 2.0, 2.0), (2.0, None)])
def test_a_corpus_that_says_nothing_gives_zeros(method: str, rewards: tuple[float | None, ...]) -> None:
    decision = {"action": "x", "p_behavior": 1.0}
    corpus = corpus_of([(f"task {n}", reward, [decision] * 2) for n, reward in enumerate(rewards)])
    credits = ot.credit(corpus, method=method).with_columns(pl.col("reason").cast(pl.String).fill_null(""))
    credits = credits.filter(pl.col("reason") != "reward.absent")
    events, rest = (credits.filter(pl.col("seq").is_null() == is_rest) for is_rest in (False, True))
    assert events.select("credit", "reason").unique().rows() == [(0.0, "group.degenerate")]
    if method in SHARES:
        # It holds the reward, which is not zero.
        assert rest.select("credit", "reason").unique().rows() == [(2.0, "")]
    assert fit_of(credits)["folds"] == 0


@pytest.mark.parametrize(
    ("method", "options"), [("rudder", {}), ("rudder", {"fit": "boosting"}), ("vdn", {}), ("qmix", {})]
)
def test_what_is_too_large_to_be_squared_is_refused(method: str, options: dict[str, str]) -> None:
    def runs(reward: float, score: float) -> ot.Corpus:
        events: list[list[dict[str, object]]] = [
            [{"action": "ab"[n % 2], "score": score * n}] * 3 for n in range(12)
        ]
        return corpus_of([(f"task {n}", reward * (-1) ** n, own) for n, own in enumerate(events)])

    huge = runs(1.7e308, 1.0)
    with pytest.raises(
        ot.ParameterError, match=r"^the reward of trace \d+ is -?1.7e\+308, too large for .*$"
    ):
        ot.credit(huge, method=method, **options)
    weighted = ot.credit(huge, method=method, reward={"team": 1e-308}, **options)
    assert weighted["residual"].abs().max() < 1e-9 and fit_of(weighted)["r2"] > 0.5
    with pytest.raises(
        ot.ParameterError, match=r"^the score of event 0 of trace 1 is 1e\+300, too large for .*$"
    ):
        ot.credit(runs(1.0, 1e300), method=method, **options)
    credits = ot.credit(runs(1e29, 1e28), method=method, **options)
    assert credits["credit"].is_finite().all() and fit_of(credits)["r2"] > 0.5


@pytest.mark.parametrize("method", FITTED)
def test_nothing_cycles_and_single_events(method: str) -> None:
    nothing = ot.generate(traces=2, seed=0).filter(pl.lit(False))
    assert ot.credit(nothing, method=method).height == 0
    runs: list[tuple[str, float | None, list[dict[str, object]]]] = [
        (f"task {n}", float(n % 3), [{"agent": "user"}] if n % 2 else [{}]) for n in range(8)
    ]
    corpus = corpus_of(runs)
    loops = pl.DataFrame({"trace": [0, 1], "src": [0, 0], "dst": [0, 0], "type": ["causal", "causal"]})
    cyclic = ot.Corpus.from_arrow(
        traces=corpus.traces.collect(),
        events=corpus.events.collect(),
        measures=corpus.measures.collect(),
        edges=loops,
    )
    plain, looped = (ot.credit(one, method=method).drop("params") for one in (corpus, cyclic))
    assert_frame_equal(plain, looped)
    assert plain.height >= 8 and (plain["credit"].null_count() == 0) == (method in SHARES)


@pytest.mark.parametrize("method", FITTED)
def test_rewards_stay_with_their_traces_in_whatever_order_a_join_comes(
    method: str, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polars promises no order of a left join unless it is asked to."""
    expected = ot.credit(planted.corpus, method=method)
    real = pl.DataFrame.join

    def join(self: pl.DataFrame, *arguments: object, **options: object) -> pl.DataFrame:
        found = real(self, *arguments, **options)  # type: ignore[arg-type]  # passed on
        return found if options.get("maintain_order") else found.reverse()

    monkeypatch.setattr(pl.DataFrame, "join", join)
    assert_frame_equal(ot.credit(planted.corpus, method=method), expected, abs_tol=1e-9)


# --- planted truth ----------------------------------------------------------------------------------------


def test_a_perfect_prediction_gives_all_to_the_key_event() -> None:
    rng = np.random.default_rng(14)
    runs = []
    for n in range(60):
        events: list[dict[str, object]] = [
            {"action": "ab"[int(rng.integers(2))], "agent": f"x{int(rng.integers(3))}"}
            for _ in range(6 + n % 5)
        ]
        if n % 2:
            events[int(rng.integers(6))]["action"] = "key"
        runs.append((f"task {n % 6}", 3.0 if n % 2 else 0.0, events))
    credits = ot.credit(corpus_of(runs), method="rudder", train="runs", alpha=0.0)
    actions = [event["action"] for _, _, events in runs for event in events]
    events = credits.drop_nulls("seq").with_columns(action=pl.Series(actions))
    assert_allclose(events["credit"], np.where(events["action"] == "key", 3.0, 0.0), atol=1e-9)
    assert fit_of(credits)["r2_cv"] == 1.0
    # Learnt from prefixes, g knows that the key may still come: it is credited with the surprise.
    credits = ot.credit(corpus_of(runs), method="rudder")
    events = credits.drop_nulls("seq").with_columns(action=pl.Series(actions))
    means = events.group_by("action").agg(pl.col("credit").mean())  # type: ignore[attr-defined]
    of = dict(means.iter_rows())
    assert of["key"] > 1.5 and max(abs(of["a"]), abs(of["b"])) < 0.3


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "unit", "options", "bound"),
    [
        ("rudder", "event", {"train": "runs"}, 0.99),
        ("rudder", "event", {}, 0.95),
        ("vdn", "agent", {}, 0.995),
        ("qmix", "agent", {}, 0.99),
        ("hca", "event", {}, 0.95),
    ],
)
def test_truth_is_approached_as_data_grow(
    method: str, unit: str, options: dict[str, str], bound: float
) -> None:
    few, many = (correlation(teams(n), unit, method, **options) for n in (50, 800))
    assert few < many and many > bound


@pytest.mark.nightly
@pytest.mark.statistical
def test_the_error_of_vdn_falls_with_the_root_of_the_runs() -> None:
    """Four times the data, half the error, on average over seeds."""

    def error(n: int, seed: int) -> float:
        planted = teams(n, seed=seed, noise=3.0)
        credits = ot.credit(planted.corpus, method="vdn", unit="agent", alpha=0.0).drop_nulls("unit_id")
        truth = planted.truth.group_by("trace", "agent").agg(pl.col("worth").sum())
        both = credits.join(truth, left_on=["trace", "unit_id"], right_on=["trace", "agent"])
        apart = both["credit"] - (both["worth"] - both["worth"].mean())
        return float(np.square(apart.to_numpy()).mean())

    small, large = (np.mean([error(n, seed) for seed in range(8)]) for n in (150, 600))
    assert 1.5 < math.sqrt(small / large) < 2.7


@pytest.mark.nightly
@pytest.mark.statistical
def test_shuffled_rewards_earn_nothing(planted: Planted) -> None:
    values = amounts(planted.corpus, "team")["reward"].to_numpy()
    found = defaultdict(list)
    for seed in range(20):
        mixed = np.random.default_rng(seed).permutation(values)
        corpus = planted.corpus.with_measures(pl.DataFrame({"trace": range(len(mixed)), "team": mixed}))
        for method in ("vdn", "qmix", "rudder"):
            unit = "event" if method == "rudder" else "agent"
            options = {"residual": "last"} if method == "rudder" else {}
            credits = Planted(corpus, planted.truth)
            found[method].append(correlation(credits, unit, method, **options))
    for method, values_ in found.items():
        spread = np.std(values_, ddof=1)
        assert abs(np.mean(values_)) < 3 * spread / math.sqrt(20) + 0.02, method


def test_weights_of_qmix_are_the_slopes_of_roles() -> None:
    planted = teams(800, seed=15, slopes=(2.0, 0.5, 0.0))
    fit = fit_of(ot.credit(planted.corpus, method="qmix"))
    weights = [fit[f"weight {role}"] for role in ROLES]
    assert_allclose(weights[1] / weights[0], 0.25, atol=0.2)
    assert weights[2] < 0.15
    assert correlation(planted, "agent", "qmix") > correlation(planted, "agent", "vdn") + 0.1
    # A role that does harm is beyond a monotone mix: it gets no weight, and nothing says that it does harm.
    harm = fit_of(ot.credit(teams(800, seed=15, slopes=(1.0, 1.0, -1.0)).corpus, method="qmix"))
    assert harm["weight critic"] == 0.0


# --- regressions of scikit-learn --------------------------------------------------------------------------


def test_boosting_finds_what_is_not_linear() -> None:
    rng = np.random.default_rng(16)
    runs = []
    for n in range(120):
        events: list[dict[str, object]] = [{"action": "c"} for _ in range(4)]
        one, two = rng.integers(2, size=2)
        events[1]["action"], events[2]["action"] = "na"[one], "nb"[two]
        runs.append((f"task {n % 8}", float(one != two), events))
    corpus = corpus_of(runs)
    linear = ot.credit(corpus, method="rudder")
    boosted = ot.credit(corpus, method="rudder", fit="boosting")
    assert fit_of(linear)["r2_cv"] < 0.1 < 0.9 < fit_of(boosted)["r2_cv"]
    assert boosted["residual"].abs().max() < 1e-9
    assert boosted.equals(ot.credit(corpus, method="rudder", fit="boosting", threads=1))


def test_the_logistic_h_is_that_of_the_model_it_assumes() -> None:
    # logit P(a|x,z) = s_x + z: additive, so that the regression is right, and counts are exact.
    rows = []
    for x, shift in (("u", -0.5), ("v", 0.7)):
        for z in (0.0, 1.0):
            chance = 1 / (1 + math.exp(-shift - z))
            rows += [(x, "a", 0.5, z)] * round(2000 * chance)
            rows += [(x, "b", 0.5, z)] * round(2000 * (1 - chance))
    counted, fitted = (
        ot.credit(decisions(rows), method="hca", fit=fit, **more)["credit"].to_numpy()
        for fit, more in (("count", {}), ("logistic", {"penalty": 1e-6}))
    )
    assert_allclose(fitted, counted, atol=2e-3)
    single = ot.credit(decisions([("u", "a", 1.0, z) for z in (0.0, 1.0)]), method="hca", fit="logistic")
    assert_allclose(single["credit"], 0.0, atol=1e-12)


@pytest.mark.parametrize(("method", "fit"), [("rudder", "boosting"), ("hca", "logistic")])
def test_without_scikit_learn_it_says_what_to_install(
    method: str, fit: str, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(learners.importlib, "import_module", absent)  # type: ignore[attr-defined]
    with pytest.raises(ot.ParameterError) as caught:
        ot.credit(planted.corpus, method=method, fit=fit)
    assert str(caught.value) == f"fit='{fit}' needs scikit-learn: {install('fit')}"


# --- the page ---------------------------------------------------------------------------------------------


def tables(page: str) -> list[list[list[str]]]:
    """Rows of every table of a page, without the header."""
    found = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    cells = [[[c.strip() for c in line.strip("|").split("|")] for line in one.splitlines()] for one in found]
    return [one[2:] for one in cells]


@pytest.mark.statistical
def test_the_page_says_what_comes_out() -> None:
    growing, lying = tables((ROOT / "docs/credit-fitted.md").read_text(encoding="utf-8"))[-2:]
    sizes = (50, 200, 800)
    grown = [teams(n) for n in sizes]
    for call, unit, *written in growing:
        method, *options = call.strip("`").split()
        params = dict(option.split("=") for option in options)
        found = [correlation(planted, unit, method, **params) for planted in grown]
        assert [float(number) for number in written] == pytest.approx(found, abs=0.006)
    worlds = {
        "harm": {"slopes": (1.0, 1.0, -1.0)},
        "slopes": {"slopes": (2.0, 0.5, 0.0)},
        "tasks": {"difficulty": 3.0},
    }
    for world, *written in lying:
        planted = teams(800, **worlds[world.split(":")[0]])
        found = [correlation(planted, "agent", method) for method in ("vdn", "qmix", "rudder")]
        assert [float(number) for number in written] == pytest.approx(found, abs=0.006)


def test_a_hard_task_makes_its_habits_look_bad() -> None:
    """What the page warns of: retries cause nothing, but hard tasks have more of them."""
    planted = teams(800, difficulty=3.0)
    credits = ot.credit(planted.corpus, method="rudder").drop_nulls("seq")
    actions = planted.corpus.events.select(pl.col("action").cast(pl.String)).collect()["action"]
    of = dict(
        credits.with_columns(action=actions).group_by("action").agg(pl.col("credit").mean()).iter_rows()
    )
    assert WORTH[2] == 0.0 and of["retry"] < of["write"] - 0.1
    assert correlation(planted, "event", "dae") == pytest.approx(0.995, abs=0.003)
