"""A new verb needs an example in its docstring, and no entry in a list, to be in the tests of all verbs."""

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from contract import hostile_values, test_parameters, test_tiers, verbs
from example_calls import example_of, over_any_corpus, verbs_of_a_corpus
from namespaces import names
from orchestrace.base.division import Division
from orchestrace.base.verbs import verb
from samples import divided

EXAMPLE = """What a share of each run costs.

>>> import orchestrace as ot
>>> corpus = ot.generate(traces=2, seed=0)
>>> ot.costs.shares(corpus, 0.0)
Traceback (most recent call last):
ZeroDivisionError: division by zero
>>> ot.costs.shares(corpus, 0.25).height
2
"""


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A verb that is as new as can be, and fails where its share is 0."""

    @verb(rows="a trace", division=Division())
    def shares(corpus: ot.Corpus, share: float = 0.5, *, engine: Any = None) -> pl.DataFrame:
        columns = {"cost": pl.lit(1.0 / share), "tier": pl.lit("observed"), "reason": pl.lit(None, pl.String)}
        return corpus.traces.select("trace", **columns).collect()

    shares.__doc__, shares.__module__ = EXAMPLE, "orchestrace.costs.shares"
    monkeypatch.setattr(ot.costs, "shares", shares, raising=False)
    monkeypatch.setattr(ot.costs, "__all__", [*names(ot.costs), "shares"])
    return shares


def test_the_first_call_that_answers_is_the_example(shares: Any) -> None:
    call = example_of(shares)
    assert list(call.named) == ["corpus", "share"] and call.named["share"] == 0.25
    assert call.columns == ("trace", "cost", "tier", "reason")


def test_hostile_values_are_asked_of_a_new_verb(shares: Any, tmp_path: Path) -> None:
    call = hostile_values.examples()["costs.shares"]
    assert test_parameters.found(call, tmp_path, None) == [
        "share: zero: ZeroDivisionError: float division by zero"
    ]


def test_a_new_verb_is_asked_of_any_corpus_divided_and_judged_by_its_tiers(shares: Any) -> None:
    """`VERBS`, `CALLS` and the calls on large traces are made of these when their modules load."""
    empty = ot.read_traces(io.BytesIO(b""), format="native")
    assert over_any_corpus()["costs.shares"](empty).is_empty()
    assert divided.examples()["costs.shares"] == ("costs.shares", (), {"share": 0.25})
    assert "costs.shares" in test_tiers.with_tiers()


def test_every_verb_of_a_corpus_is_asked() -> None:
    """By its example, or, where it needs a frame or a path too, by a call in `verbs.py`."""
    asked = {name.split(" ")[0] for name in verbs.VERBS}
    assert {about.name for about in verbs_of_a_corpus()} - asked == set()


def test_an_example_without_a_call_is_refused(shares: Any) -> None:
    shares.__doc__ = "It has none.\n\n>>> 1\n1\n"
    with pytest.raises(LookupError, match=r"no call in the example of costs\.shares answers"):
        example_of(shares)
