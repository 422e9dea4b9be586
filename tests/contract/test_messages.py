"""Messages that misled: each names the flag, the file or the words that the user has to do with."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app


def said(*arguments: str) -> str:
    """The line that a command which fails ends with."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code in (1, 2), done.output
    assert "Traceback" not in done.output
    lines = [line for line in done.output.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.output
    return lines[0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    ot.generate(folder / "runs.jsonl", traces=8, seed=0)
    ot.ingest(folder / "runs.jsonl", folder / "corpus")
    return folder


def test_the_words_of_by_are_all_listed(runs: Path) -> None:
    line = said("metrics", str(runs / "runs.jsonl"), "--by", "nope")
    assert "--by 'nope'" in line and "trace" in line and "topology" in line


def test_a_file_in_place_of_the_folder_of_the_demo(runs: Path) -> None:
    line = said("demo", "-o", str(runs / "runs.jsonl"))
    assert "Errno" not in line and line.endswith("is a file, expected a folder")


@pytest.mark.parametrize("flag", ["--format", "--mapping"])
def test_a_corpus_on_disk_has_its_format_already(runs: Path, flag: str) -> None:
    line = said("summary", str(runs / "corpus"), flag, "native")
    assert line == f"error: {flag} applies when a corpus is made: give it to ingest"


@pytest.mark.parametrize("what", ["untrusted", "trusted", "privileged"])
def test_an_unknown_tool_names_the_flag(runs: Path, what: str) -> None:
    line = said("taint", str(runs / "runs.jsonl"), f"--{what}-tool", "nope")
    assert line.startswith(f"error: --{what}-tool: unknown tool 'nope'")


def test_prefixes_of_traces_with_cycles(tmp_path: Path) -> None:
    events = [
        {"id": f"e{seq}", "t": float(seq), "type": "message", "agent": "ab"[seq % 2]} for seq in range(4)
    ]
    ring = [{"src": f"e{seq}", "dst": f"e{(seq + 1) % 4}", "type": "causal"} for seq in range(4)]
    base = {"task_id": "t", "events": events, "rewards": {"team": 1}}
    base["costs"] = {"tokens": 1, "wall_clock_s": 1}
    lines = [
        json.dumps({"trace_id": "ring", "edges": ring, **base}),
        json.dumps({"trace_id": "line", "edges": ring[:-1], **base}),
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    corpus = ot.read_traces(tmp_path / "runs.jsonl")
    assert len(corpus) == 2, corpus.quarantine.collect()
    half = ot.study.prefixes(corpus, 0.5)
    assert half.traces.select("trace_id").collect()["trace_id"].to_list() == ["line"]
    assert ot.study.prefixes(corpus, 1.0).traces.collect().height == 2
    only = corpus.filter(pl.col("trace_id") == "ring")
    assert len(ot.study.prefixes(only, 0.5)) == 0
    table = ot.study.downscale(corpus, ["flow"], shares=[0.5], min_events=1)
    assert table.filter(share=0.5)["mean_events"].unique().to_list() == [1.0]
