"""Custom formats: what a mapping file is, how its mistakes are told, and that every reader takes one."""

import doctest
import io
import json
import re
import types
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
    done = run(app, ["describe", "log.jsonl", "--mapping", "house.json", "--json"])
    assert done.exit_code == 0 and '"mapping.hum"' in done.output
    done = run(app, ["validate", "log.jsonl", "--mapping", "house.json"])
    assert done.exit_code == 1 and "log.jsonl:5: field.missing /run: found nothing" in done.output
    done = run(app, ["ingest", "log.jsonl", "-o", "corpus", "--mapping", "house.json"])
    assert done.exit_code == 0, done.output
    done = run(app, ["credit", "log.jsonl", "--mapping", "house.json", "--unit", "agent", "--json"])
    assert done.exit_code == 0, done.output
    (here / "house.json").write_text("{}")
    done = run(app, ["describe", "log.jsonl", "--mapping", "house.json"])
    assert (done.exit_code, done.output) == (
        2,
        "error: house.json: trace.id: found nothing, expected a JSON pointer\n",
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
        ot.ParameterError, match="is not the mapping that the corpus in 'corpus' was made with"
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
    # What the mapping told once is its own, whether the call names the mapping again or not.
    rejected = ot.read_corpus("corpus").records["quarantined"]
    with open("log.jsonl", "a") as file:
        file.write(json.dumps({"run": "d", "k": "say", "id": "1", "text": "perhaps"}) + "\n")
    ot.ingest("log.jsonl", "corpus")
    stored = ot.read_corpus("corpus")
    assert stored.traces.filter(pl.col("importer") == "mapping").collect().height == 4
    assert stored.records["quarantined"] == rejected


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
        (
            {"trace": {"id": float("nan")}},
            "mapping: trace.id is nan, which is not finite, expected a text, a number, a flag or a table",
        ),
        ({}, "mapping: trace.id: found nothing, expected a JSON pointer"),
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
    with pytest.raises(ot.ParameterError, match="format 'mapping' needs a file"):
        ot.read_traces("log.jsonl", format="mapping")
    with pytest.raises(ot.ParameterError, match="unknown key 'stpe'"):
        ot.scan_traces("log.jsonl", mapping={"stpe": {}})


def told(log: list[dict[str, Any]], mapping: dict[str, Any], **options: Any) -> ot.Corpus:
    lines = "\n".join(json.dumps(record) for record in log)
    return ot.read_traces(io.BytesIO(lines.encode()), mapping=mapping, **options)


def test_a_record_as_deep_as_may_be_stands_beside_its_steps() -> None:
    mapping = {
        "steps": "/m",
        "trace": {"id": "/run", "metrics": {"*": ""}},
        "step": {"kind": "=response", "content": ""},
    }
    corpus = told([{"run": 1, "m": ["x"], "n": 2}, {"run": 2, "m": ["y"], "n": 3}], mapping, max_depth=2)
    metrics = corpus.measures.filter(kind="metric").select("trace", "name", "value").collect().rows()
    assert metrics == [(0, "n", 2.0), (1, "n", 3.0)]


def test_a_reward_beside_others_that_are_null_is_not_that_of_the_team() -> None:
    mapping = {
        "trace": {"id": "/run", "rewards": {"*": "/r"}},
        "step": {"kind": "=response", "content": "/t"},
    }
    rewards = [{"right": 1, "tidy": 1}, {"right": None, "tidy": 0.2}, {"right": 0.5}]
    corpus = told([{"run": i, "t": "x", "r": r} for i, r in enumerate(rewards)], mapping)
    found = corpus.measures.filter(kind="reward").select("trace", "name", "value").collect().rows()
    assert found == [(0, "right", 1), (0, "tidy", 1), (1, "tidy", 0.2), (2, "team", 0.5), (2, "right", 0.5)]


def test_who_breaks_in_and_who_only_starts_a_run() -> None:
    words = {"start": "trace", "ask": "input", "stop": "intervention", "say": "response"}
    step = {
        "kind": {"at": "/ev", "words": words},
        "agent": "/who",
        "to": "/to",
        "content": "/ev",
        "error": "/errors",
        "cost": "/usd",
        "order": "/n",
    }
    log = [
        {"n": 0, "ev": "start", "who": "runner"},
        {"n": 1, "ev": "ask", "who": "user"},
        {"n": 2, "ev": "say", "who": "ann", "to": "ann", "errors": [], "usd": True},
        {"n": 3, "ev": "stop", "who": "user", "to": "bob"},
        {"n": 4, "ev": "say", "who": "bob", "errors": ["late"]},
        {"ev": "beat"},
    ]
    corpus = told([{"run": "a", **record} for record in log], {"trace": {"id": "/run"}, "step": step})
    rows = corpus.events.select("type", "agent", "to", "ok", "cost_usd").collect()
    assert rows.cast({"type": pl.String, "agent": pl.String, "to": pl.String}).rows() == [
        ("message", "user", "ann", None, None),
        ("return", "ann", "user", True, None),
        ("human_intervention", "user", "bob", None, None),
        ("return", "bob", "user", False, None),
    ]
    assert corpus.records == {"read": 6, "used": 5, "ignored": 1, "duplicate": 0, "quarantined": 0}
    assert (
        corpus.findings.filter(code="field.ignored").select("message").collect().item().startswith("cost at")
    )


def test_dicts_that_are_no_mapping() -> None:
    endless: dict[str, Any] = {"trace": {"id": "/run"}}
    endless["step"] = endless
    for given, message in (
        (endless, "without end"),
        ({"name": "\ud800", **MAPPING}, "half a surrogate pair"),
        ({"trace": None, "step": MAPPING["step"]}, "trace.id: found nothing"),
        ({**MAPPING, "trace": {"id": "/r", "metrics": {"*": {"at": "", "except": "x"}}}}, "a list of names"),
    ):
        with pytest.raises(ot.ParameterError, match=message) as caught:
            ot.read_traces(io.BytesIO(b""), mapping=given)
        assert "\n" not in str(caught.value)
    frozen = types.MappingProxyType({**MAPPING, "trace": types.MappingProxyType(MAPPING["trace"])})
    assert ot.read_traces(io.BytesIO(b""), mapping=frozen).records["read"] == 0
    with pytest.raises(ot.InputError):
        ot.read_traces(io.BytesIO(b""), mapping="a\0.toml")


def test_a_message_may_hold_the_results_of_several_calls() -> None:
    """Each is a result of its own: of the call that it names, else of the oldest without one."""
    mapping = {
        "trace": {"id": "/nr"},
        "steps": "/log",
        "step": {
            "agent": "/who",
            "time": "/at",
            "content": "/txt",
            "extras": {"shard": "/shard"},
            "kind": {"at": "/form", "words": {"says": "response", "hears": "result"}},
            "calls": {"each": "/requests", "tool": "/device", "call": "/ticket"},
            "results": {
                "each": "/answers",
                "call": "/ticket",
                "content": "/out",
                "ok": "/fine",
                "time": "/at",
            },
        },
    }
    calls = [{"ticket": name, "device": tool} for name, tool in (("a", "grep"), ("b", "web"), ("c", "web"))]
    answers = [
        {"ticket": "b", "out": "y", "fine": False, "at": "2026-01-05T09:00:03Z"},
        {"ticket": "a", "out": "x", "fine": True},
        None,
    ]
    log = [
        {"form": "says", "at": "2026-01-05T09:00:01Z", "who": "alpha", "requests": calls},
        {"form": "hears", "at": "2026-01-05T09:00:04Z", "who": "alpha", "shard": 3, "answers": answers},
        # what lists nothing is one result itself, and an empty list is none
        {"form": "hears", "at": "2026-01-05T09:00:05Z", "who": "alpha", "txt": "z"},
        {"form": "hears", "at": "2026-01-05T09:00:06Z", "who": "alpha", "answers": []},
        {"form": "says", "at": "2026-01-05T09:00:07Z", "who": "alpha", "txt": "done"},
    ]
    source = io.BytesIO(json.dumps({"nr": "r1", "log": log}).encode())
    corpus = ot.read_traces(source, mapping=mapping)
    results = corpus.events.filter(type="tool_result").select("id", "tool", "ok", "t").collect()
    assert results.rows() == [
        ("b:r", "web", False, 2.0),
        ("a:r", "grep", True, 3.0),
        ("c:r", "web", None, 4.0),
    ]
    assert ot.metrics(corpus).select("n_tool_calls", "n_tool_errors").row(0) == (3, 1)
    assert not corpus.findings.select("code").collect().height
