"""House formats: what a mapping file is, how its mistakes are told, and that every reader takes one."""

import doctest
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs/formats/mapping.md").read_text(encoding="utf-8")

MAPPING: dict[str, Any] = {
    "trace": {"id": "/run", "reward": "/score"},
    "step": {
        "kind": {"at": "/k", "words": {"say": "return", "ask": "input"}},
        "content": "/text",
        "id": "/id",
    },
}
LOG = [
    {"run": "a", "k": "ask", "id": "1", "text": "?"},
    {"run": "b", "k": "say", "id": "1", "text": "yes", "score": 0},
    {"run": "a", "k": "say", "id": "2", "text": "no", "score": 0.5},
    {"run": "a", "k": "hum"},
    {"k": "say"},
]


def block(language: str) -> str:
    (found,) = (
        b for b in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S) if "ot.read" not in b[:20]
    )
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in LOG))
    (tmp_path / "house.json").write_text(json.dumps(MAPPING))
    return tmp_path


def test_the_example_of_the_page_gives_what_it_says(here: Path) -> None:
    (here / "log.jsonl").write_text(block("json"))
    (here / "house.toml").write_text(block("toml"))
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(block("python"), {}, "mapping.md", "mapping.md", 0)
    assert len(test.examples) > 5
    results = doctest.DocTestRunner().run(test, out=told.append)
    assert not results.failed, "".join(told)


def test_every_reader_takes_a_mapping(here: Path) -> None:
    corpus = ot.read_traces("log.jsonl", mapping="house.json")
    assert corpus.records == {"read": 5, "used": 3, "ignored": 1, "duplicate": 0, "quarantined": 1}
    assert corpus.traces.collect()["importer"].unique().to_list() == ["mapping"]
    again = ot.read_traces("log.jsonl", mapping=MAPPING, format="mapping")
    assert_frame_equal(corpus.events.collect(), again.events.collect())
    with pytest.warns(UserWarning, match="1 of 5 records"):
        assert ot.scan_traces("log.jsonl", mapping="house.json").collect().height == 2
    with pytest.warns(UserWarning, match="1 of 5 records"):
        events = ot.scan_events("log.jsonl", mapping="house.json").select("type").collect()
    assert events.height == 3
    ot.ingest("log.jsonl", "corpus", mapping="house.json")
    stored = ot.read_corpus("corpus")
    assert stored.records == corpus.records
    rewards = corpus.measures.filter(kind="reward").select("name", "value").sort("value").collect()
    assert rewards.rows() == [("team", 0.0), ("team", 0.5)]


def test_the_command_line_takes_a_mapping(here: Path) -> None:
    run = CliRunner().invoke
    done = run(app, ["report", "log.jsonl", "--mapping", "house.json", "--json"])
    assert done.exit_code == 0 and '"mapping.hum"' in done.output
    done = run(app, ["validate", "log.jsonl", "--mapping", "house.json"])
    assert done.exit_code == 1 and "log.jsonl:5: field.missing /run: found nothing" in done.output
    done = run(app, ["ingest", "log.jsonl", "-o", "corpus", "--mapping", "house.json"])
    assert done.exit_code == 0, done.output
    done = run(app, ["credit", "log.jsonl", "--mapping", "house.json", "--unit", "agent", "--json"])
    assert done.exit_code == 0, done.output
    (here / "house.json").write_text("{}")
    done = run(app, ["report", "log.jsonl", "--mapping", "house.json"])
    assert (done.exit_code, done.output) == (
        2,
        "error: house.json: trace.id: found nothing, expected where it lies\n",
    )


def test_commands_with_a_format_take_a_mapping() -> None:
    import typer

    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--format" in options) == ("--mapping" in options), name


def test_a_corpus_keeps_its_mapping(here: Path) -> None:
    ot.ingest("log.jsonl", "corpus", mapping=MAPPING)
    # The same words in another order and spelling are the same mapping.
    (here / "house.toml").write_text(
        '[step]\nid = "/id"\ncontent = "/text"\nkind = {words = {ask = "input", say = "return"}, at = "/k"}\n'
        '[trace]\nreward = "/score"\nid = "/run"\n'
    )
    done = ot.ingest("log.jsonl", "corpus", mapping="house.toml")
    assert done.inputs["status"].to_list() == ["unchanged"]
    other = {**MAPPING, "name": "acme"}
    with pytest.raises(
        ot.ParameterError, match="is not the mapping that the corpus in 'corpus' was begun with"
    ):
        ot.ingest("log.jsonl", "corpus", mapping=other)
    # Another format comes: what the mapping tells is read again by a call that has none.
    runs = [
        {"role": "user", "content": "?", "agent": "main"},
        {"role": "assistant", "content": "!", "agent": "main"},
    ]
    (here / "run.traj").write_text(json.dumps({"history": runs, "trajectory": [], "environment": "x"}))
    done = ot.ingest(["run.traj"], "corpus")
    assert done.inputs["importer"].to_list() == ["swe_agent"]
    stored = ot.read_corpus("corpus")
    systems = stored.traces.select("trace_id", "importer").collect().sort("trace_id")
    assert systems["importer"].cast(pl.String).to_list().count("mapping") == 2
    # More of the same log, by a call that names it.
    with open("log.jsonl", "a") as file:
        file.write(json.dumps({"run": "c", "k": "say", "id": "1", "text": "maybe"}) + "\n")
    ot.ingest("log.jsonl", "corpus", mapping="house.toml")
    assert ot.read_corpus("corpus").traces.filter(pl.col("importer") == "mapping").collect().height == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"trace": {"id": "/a"}, "step": {"kind": "/k", "agnet": "/x"}},
            "mapping: step: unknown key 'agnet'; did",
        ),
        (
            {"trace": {"id": {1}}},
            "mapping: trace.id is of type set, expected a text, a number, a flag or a table",
        ),
        ({"trace": {"id": float("nan")}}, "mapping: found a number that is not finite, expected none"),
        ({}, "mapping: trace.id: found nothing, expected where it lies"),
        (7, "mapping is of type int, expected the path of a TOML or JSON file, or a dict"),
        ("house.yaml", "mapping 'house.yaml' ends in '.yaml', expected .toml or .json"),
        ("broken.toml", "broken.toml: "),
        ("broken.json", "broken.json: "),
        ("latin.json", "latin.json: found bytes that are not UTF-8, expected a text"),
        ("dated.toml", "dated.toml: trace.id is of type date, expected a text"),
    ],
)
def test_mistakes_are_one_line(here: Path, given: Any, message: str) -> None:
    (here / "broken.toml").write_text("trace = [\n")
    (here / "broken.json").write_text("{")
    (here / "latin.json").write_bytes(b'{"name": "\xe9"}')
    (here / "dated.toml").write_text("[trace]\nid = 2026-01-01\n")
    with pytest.raises(ot.ParameterError) as error:
        ot.read_traces("log.jsonl", mapping=given)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_what_cannot_be_meant(here: Path) -> None:
    with pytest.raises(ot.InputError, match=r"gone\.toml: No such file"):
        ot.read_traces("log.jsonl", mapping="gone.toml")
    with pytest.raises(ot.ParameterError, match="and format is 'otel': leave one out"):
        ot.read_traces("log.jsonl", mapping=MAPPING, format="otel")
    with pytest.raises(ot.ParameterError, match="format 'mapping' needs the file"):
        ot.read_traces("log.jsonl", format="mapping")
    with pytest.raises(ot.ParameterError, match="unknown key 'stpe'"):
        ot.scan_traces("log.jsonl", mapping={"stpe": {}})
