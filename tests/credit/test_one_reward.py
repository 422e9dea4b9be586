"""One reward: every verb agrees on which traces have one, in memory and on disk."""

import json
from collections.abc import Callable

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.credit import registry
from orchestrace.decisions.rows import decision_rows

REWARD = {"team": 0.1, "bonus": 10.0}
PAID = {"both": 0.3, "again": 0.4, "beyond": None, "team only": None}
"""What `REWARD` pays each trace below: nothing for a sum beyond a float, nor where a channel is absent."""

REWARDS = {
    "both": {"team": 1.0, "bonus": 0.02},
    "again": {"team": 2.0, "bonus": 0.02},
    "beyond": {"team": 1.0, "bonus": 1.7e308},
    "team only": {"team": 1.0},
}


@pytest.fixture(autouse=True)
def _registered_here_only(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.registered()
    monkeypatch.setattr(registry, "_METHODS", registry.registered())


@pytest.fixture(scope="module", params=["in memory", "on disk"])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ot.Corpus:
    """Traces of one task each, so that partitions lack what others have."""
    folder = tmp_path_factory.mktemp("rewards")
    runs = [
        {
            "trace_id": name,
            "task_id": f"task of {name}",
            "events": [
                {"id": f"e{n}", "t": n, "type": kind, "agent": agent, "value": 0.5, "content_hash": f"h{n}"}
                for n, (kind, agent) in enumerate([("message", "a"), ("message", "b"), ("aggregate", "a")])
            ],
            "edges": [
                {"src": "e0", "dst": "e2", "type": "causal"},
                {"src": "e1", "dst": "e2", "type": "message"},
            ],
            "rewards": rewards,
            "costs": {"tokens": 0, "wall_clock_s": 0},
        }
        for name, rewards in REWARDS.items()
    ]
    source = folder / "runs.jsonl"
    source.write_text("".join(json.dumps(run) + "\n" for run in runs))
    if request.param == "in memory":
        return ot.read_traces(source)
    ot.ingest(source, folder / "corpus", partitions=4)
    return ot.read_corpus(folder / "corpus")


def by_credit(corpus: ot.Corpus) -> pl.DataFrame:
    return ot.credit(corpus, method="uniform", unit="team", reward=REWARD).select("trace_id", "credit")


def by_own_method(corpus: ot.Corpus) -> pl.DataFrame:
    def even(corpus: ot.Corpus, rewards: pl.DataFrame, params: object, seed: int) -> ot.EventValues:
        events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
        return ot.EventValues(events.select(value=pl.col("amount") / pl.len().over("trace")).collect())

    ot.credit_method("even", summary="", quantity="share")(even)
    return ot.credit(corpus, method="even", unit="team", reward=REWARD).select("trace_id", "credit")


def by_fitted_method(corpus: ot.Corpus) -> pl.DataFrame:
    credits = ot.credit(corpus, method="vdn", unit="team", reward=REWARD)
    return credits.select("trace_id", "credit")


def by_ledger(corpus: ot.Corpus) -> pl.DataFrame:
    credits = ot.credit(corpus, method="uniform", unit="event", reward=REWARD)
    return ot.evaluation.reward_accounting(corpus, credits, reward=REWARD).select("trace_id", "reward")


def by_siblings(corpus: ot.Corpus) -> pl.DataFrame:
    with pytest.warns(UserWarning, match="one rollout"):
        buckets = ot.evaluation.sibling_diagnostics(corpus, reward=REWARD).unique("group_id")
    return buckets.select(pl.col("group_id").cast(pl.String).str.strip_prefix("task of "), "mean_outcome")


def by_decisions(corpus: ot.Corpus) -> pl.DataFrame:
    rows = decision_rows(corpus, REWARD).unique("trace")
    return rows.join(ids(corpus), on="trace").select("trace_id", "reward")


def by_trainer_table(corpus: ot.Corpus) -> pl.DataFrame:
    credits = ot.credit(corpus, method="uniform", unit="turn", reward=REWARD)
    rows = ot.trainers.trainer_table(corpus, credits)
    last = rows.group_by("trajectory_id", maintain_order=True).agg(pl.col("reward").last())
    return last


def ids(corpus: ot.Corpus) -> pl.DataFrame:
    return corpus.traces.select(pl.col("trace").cast(pl.Int64), "trace_id").collect()


@pytest.mark.parametrize(
    "asked",
    [by_credit, by_own_method, by_fitted_method, by_ledger, by_siblings, by_decisions, by_trainer_table],
)
def test_verbs_agree_on_what_was_paid(corpus: ot.Corpus, asked: Callable[[ot.Corpus], pl.DataFrame]) -> None:
    found = dict(asked(corpus).iter_rows())
    assert found == {name: None if paid is None else pytest.approx(paid) for name, paid in PAID.items()}


def test_an_outcome_model_is_fitted_to_what_was_paid(corpus: ot.Corpus) -> None:
    fitted = ot.outcomes.fit(corpus, targets="outcome", reward=REWARD)
    assert fitted.n_targets == sum(paid is not None for paid in PAID.values())
