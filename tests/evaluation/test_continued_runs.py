"""Runs that another run begins with, against plain Python; without them each message counts once."""

import io
import json
from pathlib import Path

import polars as pl
from hypothesis import given, strategies as st

import orchestrace as ot
from samples.examples import examples
from samples.hand_runs import event, read, run

Contents = list[str | None]


def corpus_of(runs: list[tuple[str, Contents]]) -> ot.Corpus:
    documents = []
    for number, (task, contents) in enumerate(runs):
        events = [
            event(n) | ({} if content is None else {"content_ref": content})
            for n, content in enumerate(contents)
        ]
        documents.append(run(number, 1.0, events, task=task))
    return read(documents)


def expected(runs: list[tuple[str, Contents]]) -> list[tuple[int, int, int, int]]:
    known = [(task, [content for content in contents if content is not None]) for task, contents in runs]
    rows = []
    for number, (task, own) in enumerate(known):
        longer = [
            (-len(other), at)
            for at, (other_task, other) in enumerate(known)
            if own and task == other_task and len(other) > len(own) and other[: len(own)] == own
        ]
        if longer:
            length, at = min(longer)
            rows.append((number, len(own), at, -length - len(own)))
    return rows


@given(
    st.lists(
        st.tuples(st.sampled_from("tu"), st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=5)),
        min_size=1,
        max_size=8,
    )
)
@examples(100)
def test_runs_that_go_on_in_another(runs: list[tuple[str, Contents]]) -> None:
    found = ot.evaluation.continued_runs(corpus_of(runs))
    assert found.select("trace", "n_events", "continued_by", "n_more").rows() == expected(runs)


def test_order_and_place_of_contents_count() -> None:
    runs: list[tuple[str, Contents]] = [("t", ["a", "b"]), ("t", ["b", "a", "c"]), ("t", ["a", "a", "b"])]
    assert ot.evaluation.continued_runs(corpus_of(runs)).is_empty()


def test_a_row_per_episode_counts_once_without_those_that_go_on(tmp_path: Path) -> None:
    """In memory and on disk: the calls of the longest row are those of the run."""

    def turns(n: int) -> list[dict[str, object]]:
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"n": n})}}
        return [
            {"role": "assistant", "content": f"step {n}", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"result {n}"},
        ]

    rows = []
    for task in range(12):
        conversation: list[dict[str, object]] = [{"role": "user", "content": f"task {task}"}]
        for episode in range(1 + task % 4):
            conversation = [*conversation, *turns(10 * task + episode)]
            rows.append({"conversations": conversation, "task": f"t{task}", "episode": f"episode-{episode}"})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(lines)
    ot.ingest(tmp_path / "rows.jsonl", tmp_path / "corpus", partitions=3)
    for corpus in (ot.read_traces(io.BytesIO(lines.encode())), ot.read_corpus(tmp_path / "corpus")):
        continued = ot.evaluation.continued_runs(corpus)
        kept = corpus.filter(~pl.col("trace").is_in(continued["trace"].to_list()))
        assert (len(corpus), len(kept)) == (len(rows), 12)
        calls = kept.events.filter(pl.col("type").cast(pl.String) == "tool_call")
        assert calls.select(pl.len()).collect().item() == sum(1 + task % 4 for task in range(12))
        assert continued["continued_by"].is_in(kept.traces.collect()["trace"]).all()
