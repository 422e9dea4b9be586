"""What all exports share; timelines and flowcharts."""

import inspect
import io
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app
from samples.export_calls import TARGETS, file_for
from samples.random_runs import Document, jsonl

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
    times = ot.schedules.simulate(corpus).filter(trace=0)
    slices = by_phase["X"]
    assert [e["ts"] for e in slices] == (times["start"] * 1e6).to_list()
    assert sum(e["dur"] for e in slices) == pytest.approx(times["duration"].sum() * 1e6)
    assert sum("critical" in e["cat"].split(",") for e in slices) == times["critical"].sum()
    assert all(e["args"]["credit"] is not None for e in slices)
    (process,) = [e for e in by_phase["M"] if e["name"] == "process_name"]
    assert process["args"] == {"name": name} and "tid" not in process
    threads = {e["tid"] for e in by_phase["M"] if e["name"] == "thread_name"}
    drawn = [e for e in events if e["ph"] != "M"]
    assert all(e["tid"] in threads and e["pid"] == 1 and isinstance(e["name"], str) for e in drawn)
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
    assert {e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"} == {
        "run",
        HOSTILE,
        f"{HOSTILE} (2)",
    }
    assert "<" not in path.read_text()  # so that no page ends its script there
    assert document["otherData"] == {"time": "one second is one step"}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": "svg"}, "format is 'svg', expected"),
    ({"format": "mermaid"}, "has 3 traces, expected one"),
    ({"format": "mermaid", "trace_id": "nobody"}, "no trace has the trace_id 'nobody'"),
    ({"format": "mermaid", "trace_id": "trace-0000000"}, "did you mean 'trace-0000000"),
    ({"format": "mermaid", "trace_id": 3}, "trace_id is 3, expected the name of a trace"),
    (
        {"format": "mermaid", "trace_id": "trace-00000001", "effects": 3},
        "effects is 3, expected a frame",
    ),
    ({"format": "perfetto", "trace_id": ["trace-00000001", "nobody"]}, "no trace has the trace_id 'nobody'"),
    ({"format": "perfetto", "window": (2, 1)}, "window is from 2 to 1, expected the earlier time first"),
    ({"format": "perfetto", "window": (float("nan"), 1)}, "window is from nan to 1"),
    ({"format": "perfetto", "window": "all"}, "window is 'all', expected two times"),
    (
        {"format": "perfetto", "durations": "long"},
        "durations is 'long', expected 'auto',",
    ),
    ({"format": "jsonl", "window": (0, 1)}, "window means nothing to the export 'jsonl'"),
    ({"format": "ocel", "per": "token"}, "per means nothing to the export 'ocel'"),
    ({"format": "perfetto", "program_order": True, "memory": 1 << 30}, "memory means nothing"),
    ({"format": "verl"}, "the export 'verl' needs credits"),
    ({"format": "mermaid", "trace_id": "trace-00000001", "window": (1e9, 2e9)}, "no event of the trace"),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[said for _, said in WRONG])
def test_mistakes(corpus: ot.Corpus, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.export(corpus, path=tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()


def test_effects_are_told_with_what_they_rest_on(corpus: ot.Corpus, tmp_path: Path) -> None:
    name = first(corpus)
    effects = ot.replay(corpus, ot.interventions.drop(each="event"))
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


def names_of(corpus: ot.Corpus) -> list[str]:
    return corpus.traces.select("trace_id").collect()["trace_id"].to_list()


def test_several_traces_are_processes_of_one_file(corpus: ot.Corpus, tmp_path: Path) -> None:
    ot.export(corpus, "perfetto", tmp_path / "all.json")
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(titles.values()) == names_of(corpus)
    times = ot.schedules.simulate(corpus)
    slices = [(e["pid"] - 1, e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert [trace for trace, _, _ in slices] == times["trace"].to_list()
    assert [ts for _, ts, _ in slices] == (times["start"] * 1e6).to_list()
    arrows = [e["id"] for e in events if e["ph"] == "s"]  # an id joins two ends, wherever they are
    assert len(set(arrows)) == len(arrows) == corpus.edges.unique(["trace", "src", "dst"]).collect().height
    two = names_of(corpus)[:2]
    ot.export(corpus, "perfetto", tmp_path / "two.json", trace_id=two)
    some = json.loads((tmp_path / "two.json").read_text())["traceEvents"]
    assert some == [e for e in events if e["pid"] <= 2]


def test_a_trace_without_a_schedule_says_so_among_others(tmp_path: Path) -> None:
    documents = [run("a", [(0, 1), (1, 0)]), {**run("b", [(0, 1)]), "trace_id": "other"}]
    corpus = ot.read_traces(io.BytesIO(jsonl(documents)))
    ot.export(corpus, "perfetto", tmp_path / "x")
    events = json.loads((tmp_path / "x").read_text())["traceEvents"]
    labels = [(e["pid"], e["args"]) for e in events if e["name"] == "process_labels"]
    assert labels == [(1, {"labels": "no schedule: graph.cycle"})]
    assert {e["pid"] for e in events if e["ph"] == "X"} == {2}


@pytest.mark.parametrize("format", ["perfetto", "mermaid", "dot"])
def test_a_window_keeps_what_goes_on_in_it(corpus: ot.Corpus, tmp_path: Path, format: Any) -> None:
    times = ot.schedules.simulate(corpus).filter(trace=0)
    low, high = times["finish"].quantile(0.3), times["finish"].quantile(0.6)
    assert low is not None and high is not None
    kept = times.filter(pl.col("finish") >= low, pl.col("start") <= high)["seq"].to_list()
    assert 0 < len(kept) < times.height
    ends = corpus.edges.unique(["trace", "src", "dst"]).collect().filter(trace=0).select("src", "dst").rows()
    inside = {(u, v) for u, v in ends if u in kept and v in kept}
    ot.export(corpus, format, tmp_path / "x", trace_id=first(corpus), window=(low, high))
    text = (tmp_path / "x").read_text()
    if format == "perfetto":
        events = json.loads(text)["traceEvents"]
        assert len([e for e in events if e["ph"] == "X"]) == len(kept)
        assert len([e for e in events if e["ph"] == "s"]) == len(inside)
    else:
        nodes = re.findall(r"^ +n(\d+) ?\[", text, re.MULTILINE)
        assert sorted(map(int, nodes)) == kept
        arrows = re.findall(r"^  n(\d+) (?:-->|==>|->) n(\d+)", text, re.MULTILINE)
        assert {(int(u), int(v)) for u, v in arrows} == inside


@pytest.mark.parametrize("format", ["jsonl", "perfetto", "ocel", "verl"])
def test_the_size_is_told_before(tmp_path: Path, format: Any) -> None:
    corpus = ot.generate(traces=200, seed=2)
    options: dict[str, Any] = {}
    if format == "verl":
        options["credits"] = ot.credit(corpus, method="grpo", unit="turn")
    size = ot.export_size(corpus, format, **options)
    assert (size.traces, size.events) == (200, corpus.events.collect().height) and not size.exact
    written = ot.export(corpus, format, tmp_path / "x", **options)
    assert written == (tmp_path / "x").stat().st_size
    # a table of 32 traces compresses worse than one of 200
    assert written / 1.5 < size.bytes < written * (4 if format == "verl" else 1.5)
    few = corpus.filter(pl.col("trace") < 5)
    told = ot.export_size(few, format, **options)
    assert told.exact and told.bytes == ot.export(few, format, tmp_path / "y", **options)
    with pytest.raises(ot.ParameterError, match=r"would have about [\d,]+ bytes \(200 traces, [\d,]+ events"):
        ot.export(corpus, format, tmp_path / "z", max_bytes=1000, **options)
    assert not (tmp_path / "z").exists()


@pytest.mark.parametrize("format", ["jsonl", "perfetto", "ocel", "trl"])
def test_no_more_is_written_than_allowed(
    tmp_path: Path, format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the estimate was too small."""
    corpus = ot.generate(traces=50, seed=2)
    options: dict[str, Any] = {}
    if format == "trl":
        options["credits"] = ot.credit(corpus, method="grpo", unit="turn")
    monkeypatch.setattr(sys.modules["orchestrace.exports.verb"], "_check_size", lambda *_: None)
    with pytest.raises(ot.ParameterError, match="more than 2,000 bytes: raise max_bytes, or export less"):
        ot.export(corpus, format, tmp_path / "x", max_bytes=2000, **options)
    assert list(tmp_path.iterdir()) == []


def test_all_exports_are_listed() -> None:
    table = ot.list_exports()
    assert {"jsonl", "parquet", "verl", "trl"} <= set(table["name"]) and table["name"].is_sorted()
    assert table["name"].is_unique().all()
    assert table["summary"].str.len_chars().max() <= 80  # one line on a terminal
    known = set(inspect.signature(ot.export).parameters)
    assert {option for options in table["options"] for option in options} <= known


def test_the_command(corpus: ot.Corpus, tmp_path: Path) -> None:
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    common = [str(tmp_path / "runs.jsonl"), "--to", "mermaid", "-o", str(tmp_path / "out.mmd")]
    done = CliRunner().invoke(app, ["export", *common, "--trace", first(corpus)])
    assert done.exit_code == 0 and "out.mmd" in done.stdout.replace("\n", ""), done.output
    assert (tmp_path / "out.mmd").read_text().startswith("flowchart LR\n")
    again = CliRunner().invoke(app, ["export", *common, "--trace", first(corpus)])
    assert again.exit_code == 1 and again.stderr.endswith("out.mmd' exists; give --force to replace it\n")
    common.append("--force")
    effects = CliRunner().invoke(app, ["export", *common, "--trace", first(corpus), "--effects"])
    assert effects.exit_code == 0 and "surrogate" in (tmp_path / "out.mmd").read_text()
    wrong = CliRunner().invoke(app, ["export", *common, "--trace", "nobody", "--effects"])
    assert wrong.exit_code == 2 and "no trace has the trace_id 'nobody'" in wrong.stderr
    listed = CliRunner().invoke(app, ["export", "--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ot.list_exports()["name"].to_list()


@pytest.mark.parametrize("format", TARGETS)
def test_the_command_writes_every_format(corpus: ot.Corpus, tmp_path: Path, format: str) -> None:
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    runs = file_for(format)
    target = tmp_path / "out"
    call = ["export", str(runs or tmp_path / "runs.jsonl"), "--to", format, "-o", str(target)]
    call += ["--reward", "payoff"] if runs else []
    call += ["--trace", first(corpus)] if TARGETS[format]["scope"] == "trace" else []
    size = CliRunner().invoke(app, [*call, "--size"])
    assert size.exit_code == 0 and "bytes (" in size.stdout and not target.exists(), size.output
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0 and re.search(r"[\d,]+ bytes$", done.stdout.strip()), done.output
    assert target.is_dir() if format == "parquet" else target.is_file()
    wrong = CliRunner().invoke(app, [*call, "--force", "--window", "1"])
    assert wrong.exit_code == 2 and wrong.stderr.startswith("error: --window ")
    assert len(wrong.stderr.splitlines()) == 1


def test_the_command_names_a_file_that_nobody_named(
    corpus: ot.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    corpus.write_jsonl("runs.jsonl")
    for format, name in (("perfetto", "trace.json"), ("ocel", "corpus.json"), ("verl", "turns.parquet")):
        done = CliRunner().invoke(app, ["export", "runs.jsonl", "--to", format])
        assert done.exit_code == 0 and Path(name).is_file(), done.output
    wrong = CliRunner().invoke(app, ["export", "runs.jsonl", "--to", "svg"])
    assert wrong.exit_code == 2 and "unknown format 'svg'" in wrong.stderr
