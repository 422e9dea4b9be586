"""What a mapping finds in records: counted key by key, told after every reading and by a command."""

import gzip
import io
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

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/formats/mapping.md").read_text(encoding="utf-8")
LOG, HOUSE = (re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S)[1] for kind in ("json", "toml"))  # type: ignore[index]  # they are there
TYPO = HOUSE.replace('tokens_in = "/in"', 'tokens_in = "/tokns/in"')


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text(LOG)
    (tmp_path / "house.toml").write_text(HOUSE)
    (tmp_path / "typo.toml").write_text(TYPO)
    return tmp_path


def unused(corpus: ot.Corpus) -> list[tuple[Any, ...]]:
    found = corpus.findings.filter(pl.col("code") == "mapping.unused")
    return found.select("trace", "count", "message").collect().rows()


def row(keys: pl.DataFrame, key: str) -> tuple[Any, ...]:
    return keys.filter(key=key).row(0)


def test_every_key_says_how_often_it_found_a_value(here: Path) -> None:
    found = ot.mapping.check("house.toml", "log.jsonl")
    assert list(found) == ["keys", "unread", "records", "quarantine"]
    keys = found["keys"]
    assert row(keys, "trace.id") == ("trace.id", "/run", 12, 13, "string")
    # Of each step of a trace, those that mean nothing among them.
    assert row(keys, "step.kind") == ("step.kind", "/ev", 12, 12, "string")
    # Of each answer, whether it was recorded or a call shows that there was one.
    assert row(keys, "step.tokens_in") == ("step.tokens_in", "/in", 4, 7, "number")
    assert row(keys, "step.arguments") == ("step.arguments", "/args", 1, 2, "object")
    # What a constant says is found nowhere.
    assert found["unread"].height == 0 and "=agent" not in keys["pointer"]
    assert found["records"].rows() == [
        ("used", None, 11),
        ("ignored", "mapping.beat", 1),
        ("quarantined", None, 1),
    ]
    assert found["quarantine"].rows() == [
        ("field.missing", "/run", "found nothing, expected the id of a trace", 1)
    ]


def test_a_pointer_that_is_misspelt_is_told(here: Path) -> None:
    found = ot.mapping.check("typo.toml", "log.jsonl")
    assert row(found["keys"], "step.tokens_in")[2:] == (0, 7, "")
    assert found["unread"].rows() == [("/in", "number", 4, 4)]
    corpus = ot.read_traces("log.jsonl", mapping="typo.toml")
    assert_frame_equal(corpus.mapping_counts, found["keys"])
    told = "keys of the mapping without any value: step.tokens_in at /tokns/in (0 of 7)"
    assert unused(corpus) == [(1, 1, told)]
    summary = ot.describe(corpus)["findings"].filter(code="mapping.unused").row(0, named=True)
    assert (summary["severity"], summary["message"]) == ("warning", told)
    good = ot.read_traces("log.jsonl", mapping="house.toml")
    assert unused(good) == [] and good.mapping_counts["matched"].min() == 1


def test_counts_are_about_the_reading_and_stay_with_the_corpus(here: Path) -> None:
    corpus = ot.read_traces("log.jsonl", mapping="typo.toml")
    first = corpus.filter(pl.col("trace_id") == "r1")
    assert_frame_equal(first.mapping_counts, corpus.mapping_counts)
    measured = corpus.with_measures(pl.DataFrame({"trace": [0], "mine": [1.0]}))
    assert_frame_equal(measured.mapping_counts, corpus.mapping_counts)
    assert unused(first) == [] and unused(measured) == unused(corpus)
    # The finding travels with its trace, as all do.
    buffer = io.BytesIO()
    corpus.write_jsonl(buffer)
    again = ot.read_traces(io.BytesIO(buffer.getvalue()))
    assert unused(again) == unused(corpus) and again.mapping_counts.height == 0


def test_a_corpus_on_disk_says_the_same(here: Path) -> None:
    ot.ingest("log.jsonl", "corpus", mapping="typo.toml")
    whole = ot.read_traces("log.jsonl", mapping="typo.toml")
    stored = ot.read_corpus("corpus")
    assert_frame_equal(stored.mapping_counts, whole.mapping_counts)
    assert unused(stored) == unused(whole)
    # What comes later changes what is known of all of it: then every key has a value.
    more = [{"run": "r3", "ev": "llm", "who": "lead", "tokns": {"in": 5}, "text": "x"}]
    (here / "more.jsonl").write_text("".join(json.dumps(record) + "\n" for record in more))
    ot.ingest(["log.jsonl", "more.jsonl"], "corpus", mapping="typo.toml")
    stored = ot.read_corpus("corpus")
    assert unused(stored) == []
    assert row(stored.mapping_counts, "step.tokens_in")[2:] == (1, 8, "number")
    other = ot.read_traces(["log.jsonl", "more.jsonl"], mapping="typo.toml")
    assert_frame_equal(stored.mapping_counts, other.mapping_counts)
    assert_frame_equal(stored.filter(pl.col("trace_id") == "r1").mapping_counts, other.mapping_counts)


def test_batches_and_threads_do_not_show(here: Path) -> None:
    records = [json.loads(line) for line in LOG.splitlines()]
    with open("long.jsonl", "w") as file:
        for run in range(3_000):
            for record in records[:11]:
                file.write(json.dumps(record | {"run": f"r{run}"}) + "\n")
    whole = ot.read_traces("long.jsonl", mapping="typo.toml", threads=1)
    assert_frame_equal(whole.mapping_counts, ot.read_traces("long.jsonl", mapping="typo.toml").mapping_counts)
    assert unused(whole)[0][0] == len(whole) - 1 == 2_999
    ot.ingest("long.jsonl", "corpus", mapping="typo.toml", memory="64MiB", threads=2)
    stored = ot.read_corpus("corpus")
    assert_frame_equal(stored.mapping_counts, whole.mapping_counts)
    assert [told[1:] for told in unused(stored)] == [told[1:] for told in unused(whole)]


MAPPED = sorted(
    path.parent.name for path in (ROOT / "rust/orchestrace-core/src/importers").glob("*/mapping.json")
)
"""Formats that a mapping of ours reads."""


@pytest.mark.parametrize("name", MAPPED)
def test_mappings_of_ours_stay_quiet(name: str) -> None:
    corpus = ot.read_traces(ROOT / "data" / "importers" / name)
    assert len(corpus) and unused(corpus) == [] and corpus.mapping_counts.height == 0


def test_keys_with_several_ways() -> None:
    mapping = {
        "trace": {"id": "/run", "task": {"join": ["/job", "/part"]}},
        "step": {
            "kind": "=response",
            "agent": ["/name", "/who", "=nobody"],
            "role": ["/rank", "=member"],
            "content": "/text",
        },
    }
    log = [{"run": 1, "who": "ann", "text": "x", "job": "j"}, {"run": 1, "name": "bob", "text": "y"}]
    text = "\n".join(map(json.dumps, log)).encode()
    keys = ot.mapping.check(mapping, io.BytesIO(text))["keys"]
    ways = [row[1:4] for row in keys.filter(key="step.agent").rows()]
    # The second way is tried where the first one has nothing.
    assert ways == [("/name", 1, 2), ("/who", 1, 1)]
    ((_, count, message),) = unused(ot.read_traces(io.BytesIO(text), mapping=mapping))
    # A constant that stands in, and one part of two, are no value on the way.
    assert count == 2 and "trace.task at /part" in message and "step.role at /rank" in message


def test_fields_are_told_wherever_they_lie() -> None:
    mapping = {
        "steps": "/messages",
        "trace": {"id": "/run"},
        "step": {"kind": "=response", "content": "/body", "tokens_in": "/usage/in"},
    }
    step = {"body": [{"text": "secret words"}], "usage": {"in": 1, "out": 2}, "a/b": {}}
    record = {"run": 1, "host": "secret host", "messages": [step, step, {"body": "secret"}], "none": None}
    packed = gzip.compress(json.dumps(record).encode())
    found = ot.mapping.check(mapping, io.BytesIO(packed))
    assert found["unread"].rows() == [
        ("/messages/*/a~1b", "object", 1, 2),
        ("/messages/*/usage/out", "number", 1, 2),
        ("/host", "string", 1, 1),
    ]
    assert row(found["keys"], "step.content")[2:] == (3, 3, "string, list")
    assert row(found["keys"], "steps") == ("steps", "/messages", 1, 1, "list")
    assert "secret" not in "".join(frame.write_json() for frame in found.values())


def run(*args: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, list(map(str, args)), env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_the_command_prints_keys_and_fields(here: Path) -> None:
    said = run("mapping", "check", "typo.toml", "log.jsonl").stdout
    assert re.search(r"step\.tokens_in +/tokns/in +0 of 7 .*no value", said)
    assert re.search(r"step\.tokens_out +/out +4 of 7 +number", said)
    assert "fields that no key reads" in said and re.search(r"/in +number +4 +4", said)
    assert "13 records: 11 used, 1 ignored (mapping.beat), 1 quarantined" in said
    assert "1 quarantined: field.missing /run: found nothing, expected the id of a trace" in said
    assert "find the leak" not in said
    good = run("mapping", "check", "house.toml", "log.jsonl").stdout
    assert "no value" not in good and "fields that no key reads" not in good


def test_the_command_gives_frames_and_exit_codes(here: Path) -> None:
    told = json.loads(run("mapping", "check", "typo.toml", "log.jsonl", "--json").stdout)
    assert [one["key"] for one in told["keys"] if one["matched"] == 0] == ["step.tokens_in"]
    assert told["unread"] == [{"field": "/in", "type": "number", "records": 4, "values": 4}]
    run("mapping", "check", "typo.toml", "log.jsonl", "--strict", code=3)
    (here / "good.jsonl").write_text("\n".join(LOG.splitlines()[:11]))
    run("mapping", "check", "house.toml", "good.jsonl", "--strict")
    run("mapping", "check", "typo.toml", "good.jsonl", "--strict", code=3)
    # What leaves nothing to read is an error.
    (here / "none.toml").write_text(HOUSE.replace('id = "/run"', 'id = "/runn"'))
    said = run("mapping", "check", "none.toml", "log.jsonl", code=1).stdout
    assert "0 of 13" in said and "13 quarantined: field.missing /runn" in said
    (here / "bad.toml").write_text("[trace]\n")
    result = run("mapping", "check", "bad.toml", "log.jsonl", code=2)
    assert result.stderr == "error: bad.toml: trace.id: found nothing, expected a JSON pointer\n"
    assert run("mapping", "check", "house.toml", "gone.jsonl", code=1).stderr.count("\n") == 1


def test_other_commands_say_on_stderr_what_found_nothing(here: Path) -> None:
    said = run("describe", "log.jsonl", "--mapping", "typo.toml").stderr
    assert said.splitlines()[0] == (
        "typo.toml: keys of the mapping without any value: step.tokens_in at /tokns/in (0 of 7);"
        " to see all keys: orchestrace mapping check typo.toml log.jsonl"
    )
    assert "without any value" not in run("describe", "log.jsonl", "--mapping", "house.toml").stderr


def test_an_unknown_format_is_told_of_mapping_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"steps": [], "agent": 1}\n{"zzz": 1}\n')
    corpus = ot.read_traces(tmp_path / "a.jsonl")
    likely, unlike = corpus.quarantine.collect()["message"]
    assert likely.startswith("looks most like atif") and unlike.startswith("it matches no known format")
    for message in (likely, unlike):
        assert "a format of your own needs a mapping file (docs/formats/mapping.md)" in message
    assert (
        "docs/formats/mapping.md" in run("validate", tmp_path / "a.jsonl", "--format", "auto", code=1).stdout
    )
    assert (ROOT / "docs/formats/mapping.md").is_file()


def test_where_nothing_could_be_used_the_check_is_named(here: Path) -> None:
    (here / "typo.toml").write_text(HOUSE.replace("[trace]", 'steps = "/*/stps"\n[trace]'))
    said = run("summary", "log.jsonl", "--mapping", "typo.toml", code=1).stderr
    assert said.endswith(
        "(mapping.no_steps); to see what each key finds: orchestrace mapping check typo.toml log.jsonl\n"
    )
    shown = run("mapping", "check", "typo.toml", "log.jsonl", code=1).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("steps ")]
    assert "/*/stps" in line and "no value" in line
