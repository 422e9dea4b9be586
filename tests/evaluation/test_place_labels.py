"""Labels that name tasks, put to the traces that they are about."""

from typing import Any

import polars as pl
import pytest

import orchestrace as ot

Row = tuple[str, str, int | None, str | None, str | None]


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    """Two recordings of the task q-1 by different agents, two rollouts of x/2, one of y/3."""
    said = [
        [("Planner", 0), ("Coder", 1), ("Coder", 2)],
        [("Lead", 0), ("user_simulator", 1), ("Coder", 1)],
        [("Coder", 0)],
        [("Coder", 0)],
        [("assistant", 0), ("assistant_2", 1), ("assistant_2", 1)],
    ]
    rows = [
        {"trace": trace, "id": f"e{n}", "t": float(n), "turn": turn, "type": "message", "agent": agent}
        for trace, own in enumerate(said)
        for n, (agent, turn) in enumerate(own)
    ]
    traces = {"trace_id": ["a", "b", "c", "d", "e"], "task_id": ["q-1", "q-1", "x/2", "x/2", "y/3"]}
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": range(5), **traces}),
        events=pl.DataFrame(rows, schema_overrides={"turn": pl.UInt32}),
    )


def labels(*rows: tuple[str, int | None, str | None]) -> pl.DataFrame:
    schema = {"trace_id": pl.String, "turn": pl.UInt32, "agent": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(
        event_id=pl.lit(None, pl.String)
    )


def placed(corpus: ot.Corpus, *rows: tuple[str, int | None, str | None]) -> list[tuple[Any, ...]]:
    return ot.evaluation.place_labels(corpus, labels(*rows)).rows()


def test_a_trace_is_found_by_its_own_name_first(corpus: ot.Corpus) -> None:
    assert placed(corpus, ("a", 1, "coder")) == [("a", 1, "Coder", "e1")]


def test_of_several_recordings_it_is_the_one_where_all_who_are_blamed_act(corpus: ot.Corpus) -> None:
    rows = [("q-1", 2, "Coder"), ("q-1", 0, "Planner"), ("q-1", None, None)]
    assert placed(corpus, *rows) == [
        ("a", 2, "Coder", "e2"),
        ("a", 0, "Planner", "e0"),
        ("a", None, None, None),
    ]
    assert placed(corpus, ("q-1", 0, "LEAD")) == [("b", 0, "Lead", "e0")]
    # Coder acts in both.
    assert placed(corpus, ("q-1", 1, "Coder")) == [("q-1", 1, "Coder", None)]
    assert placed(corpus, ("q-1", 1, None)) == [("q-1", 1, None, None)]
    assert placed(corpus, ("q-1", 1, "Nobody")) == [("q-1", 1, "Nobody", None)]


def test_a_task_may_be_named_by_its_last_part(corpus: ot.Corpus) -> None:
    assert placed(corpus, ("3", 1, "assistant")) == [("e", 1, "assistant", "e1")]
    assert placed(corpus, ("y/3", 1, None)) == [("e", 1, None, "e1")]
    assert placed(corpus, ("2", 0, "Coder"), ("x/2", 0, "Coder")) == [
        ("2", 0, "Coder", None),
        ("x/2", 0, "Coder", None),
    ], "rollouts of a task are not told apart"
    assert placed(corpus, ("y", 0, None)) == [("y", 0, None, None)]


def test_a_name_may_be_the_beginning_of_one_name_only(corpus: ot.Corpus) -> None:
    assert placed(corpus, ("b", 1, "User")) == [("b", 1, "user_simulator", "e1")]
    assert placed(corpus, ("e", 1, "Assist")) == [("e", 1, "Assist", "e1")]


def test_what_is_known_stays(corpus: ot.Corpus) -> None:
    given = labels(("e", 1, "assistant")).with_columns(event_id=pl.lit("mine"), note=pl.lit(7))
    found = ot.evaluation.place_labels(corpus, given.lazy())
    assert found.rows() == [("e", 1, "assistant", "mine", 7)]
    assert found.schema == given.schema
    names = ot.evaluation.place_labels(corpus, given.select("trace_id"))
    assert names.rows() == [("e",)]
    assert ot.evaluation.place_labels(corpus).rows() == []
    categories = ot.evaluation.place_labels(
        corpus, labels(("3", 0, None)).with_columns(pl.col("trace_id").cast(pl.Categorical))
    )
    assert (categories["trace_id"].to_list(), categories.schema["trace_id"]) == (["e"], pl.Categorical())


def test_mistakes_are_named(corpus: ot.Corpus) -> None:
    with pytest.raises(ot.ParameterError, match="labels has no column 'trace_id'"):
        ot.evaluation.place_labels(corpus, pl.DataFrame({"task": ["q-1"]}))
    with pytest.raises(ot.ParameterError, match="expected a frame"):
        ot.evaluation.place_labels(corpus, [("q-1",)])  # type: ignore[arg-type]  # the mistake
