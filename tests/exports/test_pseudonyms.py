"""Recordings under other names: results stay, and no name, text or date of the source is left."""

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.cli import app
from orchestrace.exports import pseudonyms
from orchestrace.exports.pseudonyms import Pseudonyms

DATA = Path(__file__).parents[2] / "data"
KEY = b"a secret of the tests"
NAMES = Pseudonyms(KEY)
FORMATS = sorted(path.name for path in (DATA / "importers").iterdir() if path.is_dir())
#: What verbs read as words, and words of the schema itself.
WORDS = {
    *("user", "scorer", "environment", "spawn", "no_spawn", "stop", "continue", "tool", "agent", "team"),
    *("sha256", "unknown", "seconds", "partial", "ordinal", "task_success", "train_step"),
}


def recorded(name: str) -> ot.Corpus:
    with warnings.catch_warnings(action="ignore"):
        return ot.read_traces(DATA / "importers" / name)


def exported(corpus: ot.Corpus, folder: Path) -> ot.Corpus:
    ot.export(corpus, "jsonl", folder / "other.jsonl", anonymize=KEY)
    with warnings.catch_warnings(action="ignore"):
        return ot.read_traces(folder / "other.jsonl")


@pytest.fixture(params=[*FORMATS, "samples", "generated"])
def corpus(request: pytest.FixtureRequest) -> ot.Corpus:
    if request.param == "generated":
        return ot.generate(traces=12, seed=5)
    return ot.read_traces(DATA / "samples") if request.param == "samples" else recorded(request.param)


def paid(corpus: ot.Corpus, other: ot.Corpus) -> Iterator[tuple[str, str]]:
    """Channels of rewards under both names."""
    for channel in corpus.reward_channels()[:2]:
        yield channel, channel if channel in pseudonyms._MEASURES else NAMES.of("measure", channel)
    assert len(corpus.reward_channels()) == len(other.reward_channels())


def numbers(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The numbers and reasons of a table, as a sorted list of rows."""
    kept = [name for name, kind in frame.schema.items() if kind.is_numeric() or name in ("reason", "tier")]
    rows = frame.select(pl.col(kept)).with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String)).rows()
    return sorted(rows, key=lambda row: [(value is None, str(type(value)), value) for value in row])


def assert_same(one: pl.DataFrame, other: pl.DataFrame) -> None:
    assert one.height == other.height
    for mine, theirs in zip(numbers(one), numbers(other), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            if isinstance(a, float) and isinstance(b, float):
                assert math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
            else:
                assert a == b


def answered(call: Callable[..., pl.DataFrame], *args: Any, **kwargs: Any) -> pl.DataFrame:
    """What a call gives; nothing where it has no answer."""
    try:
        return call(*args, **kwargs)
    except ot.ParameterError:
        return pl.DataFrame()


CREDITS = [
    *(("flow", "agent"), ("uniform", "event"), ("grpo", "turn"), ("rloo", "agent"), ("shapley", "agent")),
    *(("discounted", "event"), ("difference", "role"), ("broadcast", "message")),
]


def test_results_stay_what_they_are(corpus: ot.Corpus, tmp_path: Path) -> None:
    other = exported(corpus, tmp_path)
    assert len(other) == len(corpus)
    assert (
        other.traces.select("time_basis", "topology", "partial")
        .collect()
        .equals(corpus.traces.select("time_basis", "topology", "partial").collect())
    )
    metrics = [ot.metrics(one).select(pl.col(pl.Float64, pl.Int64, pl.UInt32)) for one in (corpus, other)]
    assert_same(*metrics)
    assert_same(*(ot.schedules.simulate(one) for one in (corpus, other)))
    for mine, theirs in paid(corpus, other):
        named = ((corpus, mine), (other, theirs))
        for method, unit in CREDITS:
            asked = {"method": method, "unit": unit}
            assert_same(*(answered(ot.credit, one, reward=channel, **asked) for one, channel in named))
        drop = ot.interventions.drop(each="agent")
        assert_same(*(answered(ot.replay, one, drop, outcome=channel) for one, channel in named))


def test_agents_get_their_credit_under_their_other_names(tmp_path: Path) -> None:
    corpus = ot.generate(traces=20, seed=3)
    other = exported(corpus, tmp_path)
    key = ["trace", "unit_id"]
    rows = [
        ot.credit(one, method="flow", unit="agent").select(*key, "credit").drop_nulls("unit_id")
        for one in (corpus, other)
    ]
    named = rows[0].with_columns(unit_id=pl.Series([NAMES.of("name", name) for name in rows[0]["unit_id"]]))
    joined = named.join(rows[1], on=key, how="full", suffix="_other")
    assert joined.select(pl.all_horizontal(pl.col("credit", "credit_other").is_not_null())).to_series().all()
    assert (joined["credit"] - joined["credit_other"]).abs().max() == 0.0


def texts(corpus: ot.Corpus) -> set[str]:
    """Every text of the tables but words of the schema."""
    found: set[str] = set()
    for name, schema in SCHEMAS.items():
        if name in ("record_counts", "quarantine"):
            continue
        table = corpus._table(name).collect()
        for column, kind in schema.items():
            if kind in (pl.String, pl.Categorical) and column not in ("importer", "code"):
                found |= set(table[column].cast(pl.String).drop_nulls())
    # Readers call a system as its format is called where the recording does not say it.
    return found - WORDS - set(ot.list_importers()["name"])


def test_nothing_of_the_source_is_left(corpus: ot.Corpus, tmp_path: Path) -> None:
    other = exported(corpus, tmp_path)
    written = (tmp_path / "other.jsonl").read_text("utf-8")
    costs = corpus.measures.filter(kind="cost").select(pl.col("name").cast(pl.String)).collect()["name"]
    enums = (kind for schema in SCHEMAS.values() for kind in schema.values() if isinstance(kind, pl.Enum))
    words = {*costs, *(word for kind in enums for word in kind.categories), *map(str, SCHEMAS["events"])}
    for text in texts(corpus):
        if len(text) >= 4 and not any(text in word for word in words):
            assert f'"{text}"' not in written and (len(text) < 8 or text not in written), text
    for name in ("traces", "events", "labels"):
        mine, theirs = (getattr(one, name).collect() for one in (corpus, other))
        for column in pseudonyms._NAMED:
            if column in mine.columns and column in theirs.columns:
                before, after = (set(table[column].cast(pl.String).drop_nulls()) for table in (mine, theirs))
                shared = (before & after) - WORDS - {""}
                assert not {text for text in shared if text not in pseudonyms._WORDS}, (name, column)
    assert other.events.select(pl.col("extras").drop_nulls().len()).collect().item() == 0
    assert KEY.decode() not in written
    assert other.traces.select("started_at").collect()["started_at"].null_count() == len(other)


def test_a_format_of_ones_own_has_a_name_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"run": "a", "said": "x"}\n')
    mapping = {
        "name": "acme_logs",
        "trace": {"id": "/run"},
        "step": {"kind": "=response", "agent": "=policy", "content": "/said"},
    }
    exported(ot.read_traces(tmp_path / "own.jsonl", mapping=mapping), tmp_path)
    assert "acme" not in (tmp_path / "other.jsonl").read_text()


def test_a_folder_and_a_file_say_the_same(tmp_path: Path) -> None:
    ot.ingest(DATA / "samples", tmp_path / "corpus", partitions=3)
    on_disk = ot.read_corpus(tmp_path / "corpus")
    ot.export(on_disk, "parquet", tmp_path / "folder", anonymize=KEY)
    back = ot.read_corpus(tmp_path / "folder")
    other = exported(on_disk, tmp_path)
    assert len(back) == len(other) == len(on_disk)
    assert back.records["read"] == len(back) and not back.quarantine.collect().height
    columns = "id", "t", "agent", "tool", "tokens_in"
    tables = [
        one.events.select(pl.col(columns).cast(pl.String)).sort(columns).collect() for one in (back, other)
    ]
    assert tables[0].equals(tables[1])


def test_keys_and_formats_that_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = ot.generate(traces=2, seed=0)
    out = tmp_path / "out"
    with pytest.raises(ot.ParameterError, match="anonymize has 5 bytes, expected a key of at least 16"):
        ot.export(corpus, "jsonl", out, anonymize=b"short")
    with pytest.raises(ot.ParameterError, match="anonymize means nothing to the export 'ocel'"):
        ot.export(corpus, "ocel", out, anonymize=KEY)
    names = [set(_ids(corpus, key, tmp_path)) for key in (KEY, KEY + b"!")]
    assert not names[0] & names[1], "another key, other names"
    monkeypatch.setattr(pseudonyms, "_DIGITS", 0)
    with pytest.raises(ot.ParameterError, match="would be one: use another key"):
        ot.export(corpus, "jsonl", out, anonymize=KEY)
    assert not out.exists()


def _ids(corpus: ot.Corpus, key: bytes, folder: Path) -> list[str]:
    ot.export(corpus, "jsonl", folder / "ids.jsonl", anonymize=key, overwrite=True)
    return ot.read_traces(folder / "ids.jsonl").traces.select("trace_id").collect()["trace_id"].to_list()


def test_the_command_reads_the_secret_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    ot.generate(tmp_path / "runs.jsonl", traces=3, seed=0)
    call = ["export", str(tmp_path / "runs.jsonl"), "--to", "jsonl", "-o", str(tmp_path / "out.jsonl")]
    done = CliRunner().invoke(app, [*call, "--anonymize", str(tmp_path / "key")])
    assert done.exit_code == 0, done.output
    ids = ot.read_traces(tmp_path / "runs.jsonl").traces.select("trace_id").collect()["trace_id"]
    back = ot.read_traces(tmp_path / "out.jsonl").traces.select("trace_id").collect()["trace_id"]
    assert back.to_list() == [NAMES.of("id", name) for name in ids]
    none = CliRunner().invoke(app, [*call, "--force", "--anonymize", str(tmp_path / "none")])
    assert none.exit_code == 1 and none.stderr.endswith("none: No such file or directory\n")
