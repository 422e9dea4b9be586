"""Rewards on the command line: what is said without any, and how a file brings some."""

import json
from pathlib import Path

import polars as pl
import pytest

from cli.commands import RUN, error_line, recordings, run

IMPORTERS = Path(__file__).resolve().parents[2] / "data" / "importers"

COMMANDS: dict[str, list[str]] = {
    "credit": ["credit", "RUNS", "--unit", "agent", "--json"],
    "compare": ["compare", "RUNS", "--method", "flow", "--json"],
    "explain": ["explain", "RUNS", "--id", "lead", "--trace", "0", "--json"],
    "export": ["export", "RUNS", "--to", "verl", "-o", "OUT"],
}
"""Every command that takes a reward."""


def call(name: str, path: Path, *more: object) -> list[object]:
    words: dict[str, object] = {"RUNS": path, "OUT": path.parent / "out.parquet"}
    return [*(words.get(word, word) for word in COMMANDS[name]), *more]


@pytest.fixture
def unpaid(tmp_path: Path) -> Path:
    return recordings(tmp_path, rewards={})


@pytest.mark.parametrize("name", COMMANDS)
def test_without_rewards_the_next_step_is_one_line(name: str, unpaid: Path) -> None:
    line = error_line(run(*call(name, unpaid), code=2))
    assert line == (
        "unknown reward channel 'team': this corpus has no rewards (its recordings, of native, carry none); "
        "give some by corpus.with_measures(frame) or orchestrace ... --rewards FILE; metrics() and replay() "
        "need none"
    )


def test_scores_are_named_with_the_option_that_reads_them() -> None:
    line = error_line(run("credit", IMPORTERS / "langfuse", code=2))
    assert line.startswith("unknown reward channel 'team': this corpus has no rewards")
    scores = line.partition("reading its scores (")[2].partition(") as rewards, --reward-score")[0]
    first = scores.split(", ")[0]
    asked = ["--reward-score", first, "--reward", first, "--unit", "team", "--json"]
    rows = json.loads(run("credit", IMPORTERS / "langfuse", *asked).stdout)
    assert any(row["credit"] is not None for row in rows)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_brings_rewards_to_every_command_that_takes_one(name: str, unpaid: Path) -> None:
    ids = [json.loads(line)["trace_id"] for line in unpaid.read_text().splitlines()]
    frame = pl.DataFrame({"trace_id": ids, "team": [1.0, 0.0, 0.5], "mine": [True, False, True]})
    frame.write_csv(unpaid.parent / "rewards.csv")
    for channel in ("team", "mine"):
        asked = call(name, unpaid, "--rewards", unpaid.parent / "rewards.csv", "--reward", channel)
        result = run(*asked, *(["--force"] if name == "export" else []))
        assert "error" not in result.stderr
        if name == "credit":
            paid: dict[str, float] = {}
            for row in json.loads(result.stdout):
                paid[row["trace_id"]] = paid.get(row["trace_id"], 0.0) + row["credit"]
            expected = frame.select(pl.col(channel).cast(pl.Float64)).to_series().to_list()
            assert [paid[one] for one in ids] == pytest.approx(expected)


def test_what_is_wrong_with_a_file_of_rewards_is_one_line(unpaid: Path) -> None:
    path = unpaid.parent / "r.csv"
    path.write_text("trace_id,team\nnobody,1\nno one,2\n")
    asked = ("credit", unpaid, "--rewards", path)
    assert error_line(run(*asked, code=2)) == "unknown trace: trace_id 'nobody'; trace_id 'no one'"
    path.write_text(f"trace_id,team\n{'00000000' + str(RUN['trace_id'])},good\n")
    assert "column 'team' is String (it has 'good'), expected numbers" in error_line(run(*asked, code=1))
    noise = unpaid.parent / "r.jsonl"
    noise.write_text("noise\n")
    assert error_line(run("credit", unpaid, "--rewards", noise, code=1)).startswith(
        f"{noise}: cannot be read as .jsonl ("
    )
    assert (
        error_line(run("credit", unpaid, "--rewards", "no.csv", code=1))
        == "no.csv: No such file or directory"
    )


def test_rewards_come_to_a_corpus_on_disk_too(unpaid: Path) -> None:
    folder = unpaid.parent / "corpus"
    run("ingest", unpaid, "-o", folder)
    ids = [json.loads(line)["trace_id"] for line in unpaid.read_text().splitlines()]
    pl.DataFrame({"trace_id": ids, "team": [1, 2, 3]}).write_ndjson(unpaid.parent / "r.jsonl")
    shown = run("credit", folder, "--rewards", unpaid.parent / "r.jsonl", "--unit", "team", "--json").stdout
    assert sorted(round(row["credit"], 9) for row in json.loads(shown)) == [1, 2, 3]
    settled = error_line(run("credit", folder, "--reward-score", "x", code=2))
    assert settled == "--reward-score applies when a corpus is made: give it to ingest"


def test_channels_that_are_not_the_team_are_named_with_their_option(tmp_path: Path) -> None:
    path = recordings(tmp_path, rewards={"form": 0.5, "style": 1.0})
    assert error_line(run("credit", path, code=2)) == (
        "unknown reward channel 'team' (known: form, style); give --reward form, or several with weights"
    )
    assert error_line(run("credit", path, "--reward", "form=1,style=0.5", code=2)) == (
        "--reward 'form=1,style=0.5', expected one CHANNEL=WEIGHT: repeat --reward for others"
    )
    run("credit", path, "--reward", "form=1", "--reward", "style=0.5")
