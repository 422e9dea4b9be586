"""Equal runs under one id, told apart by what no column has: to JSON lines and back."""

import io
import json
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

import orchestrace as ot


def read(text: str) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(text.encode()), format="native")


def written(corpus: ot.Corpus) -> str:
    sink = io.BytesIO()
    assert corpus.write_jsonl(sink) == len(corpus)
    return sink.getvalue().decode()


def simulations() -> ot.Corpus:
    """Trial 0 of task 5 on three hosts, which are in no column, beside another run of each."""
    inputs = []
    for name in ("a", "b", "c"):
        runs = [
            {
                "task_id": task,
                "trial": 0,
                "reward": 1.0,
                "info": {"host": name},
                "traj": [{"role": "user", "content": said}, {"role": "assistant", "content": "done"}],
            }
            for task, said in ((5, "book a flight"), (6, f"asked of {name}"))
        ]
        inputs.append(io.BytesIO(json.dumps(runs).encode()))
    return ot.read_traces(inputs, format="tau_bench")


def test_equal_runs_of_several_files_come_back() -> None:
    corpus = simulations()
    assert sorted(corpus.traces.collect()["trace_id"]) == ["5/0", "5/0", "5/0", "6/0", "6/0", "6/0"]
    text = written(corpus)
    copies = [json.loads(line)["events"][0]["x_trace"].get("copy") for line in text.splitlines()]
    assert sorted(copies, key=str) == [2, 3, None, None, None, None]
    back = read(text)
    assert back.records == {"read": 6, "used": 6, "ignored": 0, "duplicate": 0, "quarantined": 0}
    places = ["file", "line", "offset", "length"]
    for name in ("traces", "events", "edges", "measures"):
        left, right = (getattr(one, name).drop(places, strict=False) for one in (corpus, back))
        text_columns = pl.col(pl.Categorical).cast(pl.String)
        assert_frame_equal(left.with_columns(text_columns), right.with_columns(text_columns))
    assert written(back) == text


def test_native_runs_that_only_white_space_tells_apart_come_back() -> None:
    line = written(ot.generate(traces=1, seed=3)).rstrip()
    corpus = read(line + "\n" + line + " \n" + line.replace("{", "{ ", 1) + "\n")
    text = written(corpus)
    assert len(read(text)) == len(corpus) == 2
    assert written(read(text)) == text


def test_equal_runs_come_back_from_a_disk(tmp_path: Path) -> None:
    text = written(simulations())
    (tmp_path / "runs.jsonl").write_text(text)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    on_disk = ot.read_corpus(tmp_path / "corpus")
    assert len(on_disk) == 6
    assert sorted(written(on_disk).splitlines()) == sorted(text.splitlines())


def test_a_copy_of_a_written_run_is_still_a_copy() -> None:
    text = written(simulations())
    back = read(text + text)
    assert (len(back), back.records["duplicate"]) == (6, 6)
