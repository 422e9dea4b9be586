"""Every method on random corpora, at every unit, against plain Python."""

import math
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

import orchestrace as ot
from reference.credit import METHODS, SHARES, VARIANTS, rolled_up, valued
from reference.trace import UNITS, Trace
from samples.examples import examples
from samples.hand_runs import GAMES, Credits, credited, read
from samples.random_runs import Document, corpora

QUICK = examples(12, derandomize=True)
#: They are fitted to a corpus, or sampled; their tests are beside them, of gdpo in test_trainer_rules.py,
#: of rae in test_role_baselines.py, of others in a file of their name.
#: Games have theirs in test_games_surrogate.py and test_games_on_traces.py.
WITHOUT_REFERENCE = {
    "gdpo",
    "rae",
    "hierarchical_grpo",
    "turn_credit",
    "igpo",
    "remax",
    "ccpo",
    "hca",
    "dae",
    "rudder",
    "vdn",
    "qmix",
    "sharp",
    *GAMES,
}

#: Fields without which a method says nothing; half of the corpora have them throughout.
NEEDED = {
    **dict.fromkeys(("gae", "sequential_gae", "eligibility", "dag_gae"), ("value",)),
    "aristocrat": ("action", "p_behavior", "prefix_key"),
    "coma": ("action", "p_behavior", "prefix_key", "value"),
}
CASES = [(name, params) for name, listed in VARIANTS.items() for params in [{}, *listed]]


def reference(
    documents: list[Document], method: str, reward: dict[str, float], **params: Any
) -> dict[str, Credits]:
    traces = [Trace(document) for document in documents]
    own_params = {name: value for name, value in params.items() if value != "tokens_out"}
    weight = "rows" if len(own_params) == len(params) else "tokens_out"
    rows = valued(traces, method, reward, own_params)
    return {
        unit: {
            (n, name): value
            for n, (trace, own) in enumerate(zip(traces, rows, strict=True))
            for name, value in rolled_up(trace, own, unit, method in SHARES, weight).items()
        }
        for unit in UNITS
    }


def assert_equal(found: Credits, wanted: Credits, place: object) -> None:
    assert found.keys() == wanted.keys(), place
    for key, (value, reason) in wanted.items():
        credit, said = found[key]
        assert (credit is None) == (value is None), (place, key, found[key], wanted[key])
        if credit is not None and value is not None:
            assert math.isclose(credit, value, rel_tol=1e-9, abs_tol=1e-9), (place, key, credit, value)
            assert reason != "group.degenerate" or credit == 0.0, (place, key, credit)
        assert said == reason, (place, key, found[key], wanted[key])


def label(value: object) -> str:
    return ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@pytest.mark.every_nth(4)
@pytest.mark.parametrize(("method", "params"), CASES, ids=label)
@QUICK
@given(data=st.data())
def test_credit_is_that_of_plain_python(method: str, params: dict[str, Any], data: st.DataObject) -> None:
    full = data.draw(st.sampled_from([(), NEEDED.get(method, ())]))
    documents = data.draw(corpora(full=full))
    # a metric that no trace has is a mistake, not a batch
    assume("batch" not in params or any(params["batch"] in one.get("metrics", {}) for one in documents))
    reward = data.draw(st.sampled_from([{"team": 1.0}, {"format": 0.5, "team": -2.0}]))
    wanted = reference(documents, method, reward, **params)
    corpus = read(documents)
    for unit in UNITS:
        assert_equal(credited(corpus, method, unit, reward, **params), wanted[unit], (method, unit, params))


def test_every_method_has_a_reference() -> None:
    assert set(ot.list_methods()["name"]) - WITHOUT_REFERENCE == METHODS.keys()
