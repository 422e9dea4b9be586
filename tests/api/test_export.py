"""One trace as a trace file and as a flowchart."""

import io
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app
from property.random_runs import Document, jsonl

HOSTILE = 'a"]<script>\n|end %%{init}'


@pytest.fixture
def corpus() -> ot.Corpus:
    return ot.generate(traces=3, seed=1)


def first(corpus: ot.Corpus) -> str:
    return corpus.traces.select("trace_id").collect()["trace_id"][0]


def run(agent: str, edges: list[tuple[int, int]]) -> Document:
    events = [{"id": f"e{n}", "t": n, "type": "message", "agent": agent} for n in range(3)]
    return {
        "trace_id": "run",
        "task_id": "task",
        "events": events,
        "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": "causal"} for u, v in edges],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def read(document: Document) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl([document])))


def test_the_trace_file_follows_the_format(corpus: ot.Corpus, tmp_path: Path) -> None:
    name, path = first(corpus), tmp_path / "trace.json"
    credits = ot.credit(corpus, method="uniform")
    assert ot.export(corpus, "perfetto", path, trace_id=name, credits=credits) == path.stat().st_size
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "MXsf"}
    assert sum(map(len, by_phase.values())) == len(events)
    times = ot.schedule(corpus).filter(trace=0)
    slices = by_phase["X"]
    assert [e["ts"] for e in slices] == (times["start"] * 1e6).to_list()
    assert sum(e["dur"] for e in slices) == pytest.approx(times["duration"].sum() * 1e6)
    assert sum("critical" in e["cat"].split(",") for e in slices) == times["critical"].sum()
    assert all(e["args"]["credit"] is not None for e in slices)
    threads = {e["tid"] for e in by_phase["M"]}
    assert all(e["tid"] in threads and e["pid"] == 1 and isinstance(e["name"], str) for e in events)
    assert {e["id"] for e in by_phase["s"]} == {e["id"] for e in by_phase["f"]}
    n_edges = corpus.edges.select("trace", "src", "dst").unique().collect().filter(trace=0).height
    assert len(by_phase["s"]) == n_edges and all(e["bp"] == "e" for e in by_phase["f"])
    for tid in threads:  # nothing overlaps in a row of the timeline
        own = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if e["tid"] == tid)
        assert all(end <= start + 1e-3 for (_, end), (start, _) in pairwise(own))


def test_the_flowchart_marks_the_path_and_escapes_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.mmd"
    ot.export(read(run(HOSTILE, [(0, 1), (1, 2), (0, 2)])), "mermaid", path)
    lines = path.read_text().splitlines()
    assert lines[0] == "flowchart LR" and len(lines) == 1 + 3 + 3 + 1
    assert all(re.fullmatch(r'  n\d+\["[\w #;.<br/>-]*"\](:::critical)?', line) for line in lines[1:4])
    assert "script>" not in path.read_text() and "1 steps" in lines[2]
    assert lines[4:7] == ["  n0 ==> n1", "  n1 ==> n2", "  n0 --> n2"]


def test_names_of_a_trace_file_are_json(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ot.export(read(run(HOSTILE, [(0, 1)])), "perfetto", path)
    document = json.loads(path.read_text())
    assert document["traceEvents"][0]["args"]["name"] == HOSTILE
    assert document["otherData"] == {"time": "one second is one step"}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": "svg"}, "unknown format 'svg'"),
    ({"format": "mermaid"}, "has 3 traces, expected one"),
    ({"format": "mermaid", "trace_id": "nobody"}, "no trace has the trace_id 'nobody'"),
    ({"format": "mermaid", "trace_id": "trace-0000000"}, "did you mean 'trace-0000000"),
    ({"format": "mermaid", "trace_id": 3}, "trace_id is 3, expected the name of a trace"),
    ({"format": "mermaid", "trace_id": "trace-00000001", "effects": 3}, "effects is of type int"),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[said for _, said in WRONG])
def test_mistakes(corpus: ot.Corpus, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.export(corpus, path=tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()


def test_effects_are_told_with_what_they_rest_on(corpus: ot.Corpus, tmp_path: Path) -> None:
    name = first(corpus)
    effects = ot.replay(corpus, ot.drop(each="event"))
    ot.export(corpus, "perfetto", tmp_path / "trace.json", trace_id=name, effects=effects.lazy())
    document = json.loads((tmp_path / "trace.json").read_text())
    slices = {e["args"]["id"]: e["args"] for e in document["traceEvents"] if e["ph"] == "X"}
    for row in effects.filter(trace_id=name).iter_rows(named=True):
        told = slices[row["unit_id"]]
        assert [told[key] for key in ("effect", "lower", "upper", "tier")] == [
            row[key] for key in ("effect", "lower", "upper", "tier")
        ]
    ot.export(corpus, "mermaid", tmp_path / "trace.mmd", trace_id=name, effects=effects)
    nodes = re.findall(r"^  n\d+\[.*$", (tmp_path / "trace.mmd").read_text(), re.MULTILINE)
    assert len(nodes) == len(slices) and all("surrogate" in line for line in nodes)
    twice = pl.concat([effects, effects])
    with pytest.raises(ot.ParameterError, match="an event has two effects"):
        ot.export(corpus, "mermaid", tmp_path / "x", trace_id=name, effects=twice)


def test_what_cannot_be_written(corpus: ot.Corpus, tmp_path: Path) -> None:
    name = first(corpus)
    with pytest.raises(ot.ParameterError, match=r"would have [\d,]+ bytes"):
        ot.export(corpus, "mermaid", tmp_path / "x", trace_id=name, max_bytes=10)
    assert not (tmp_path / "x").exists()
    with pytest.raises(ot.ParameterError, match=r"graph\.cycle"):
        ot.export(read(run("a", [(0, 1), (1, 0)])), "mermaid", tmp_path / "x")
    with pytest.raises(ot.InputError):
        ot.export(corpus, "mermaid", tmp_path / "no" / "x", trace_id=name)


def test_the_command(corpus: ot.Corpus, tmp_path: Path) -> None:
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    common = [str(tmp_path / "runs.jsonl"), "--to", "mermaid", "-o", str(tmp_path / "out.mmd")]
    done = CliRunner().invoke(app, ["export", *common, "--trace", first(corpus)])
    assert done.exit_code == 0 and "out.mmd" in done.stdout.replace("\n", ""), done.output
    assert (tmp_path / "out.mmd").read_text().startswith("flowchart LR\n")
    effects = CliRunner().invoke(app, ["export", *common, "--trace", first(corpus), "--effects"])
    assert effects.exit_code == 0 and "surrogate" in (tmp_path / "out.mmd").read_text()
    wrong = CliRunner().invoke(app, ["export", *common, "--trace", "nobody", "--effects"])
    assert wrong.exit_code == 2 and "no trace has the trace_id 'nobody'" in wrong.stderr
