"""A corpus on disk is the corpus in memory: table by table, verb by verb, however it was filled."""

import errno
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.disk import manifest
from orchestrace.disk.ingesting import IngestReport
from orchestrace.disk.partitioned import PartitionedCorpus
from samples import on_disk
from samples.on_disk import (
    FIELDS,
    assert_content,
    assert_rows,
    assert_tidy,
    document,
    files,
    generated,
    lines,
    reconcile,
    rows,
    touch,
)
from samples.verdict_cases import BASE, text

pytestmark = pytest.mark.every_nth(3)

METHODS = ot.list_methods()["name"].to_list()
SCOPE = dict(ot.list_methods().select("name", "scope").iter_rows())
LEVELS = dict(ot.list_methods().select("name", "units").iter_rows())
#: Exact values of games end at twenty players.
DRAWN = {
    name: {"samples": 64}
    for name, params in ot.list_methods().select("name", "params").iter_rows()
    if "samples" in {param["name"] for param in params}
}
# compares all traces, by values of rollouts that are computed first
IN_TWO_PASSES = ["reinforce_pp"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small batches, several slices to a partition."""
    on_disk.make_small(monkeypatch.setattr)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    on_disk.write_recordings(folder)
    return folder


@pytest.fixture(scope="module")
def memory(recordings: Path) -> ot.Corpus:
    return ot.read_traces(recordings, fields=FIELDS)


@pytest.fixture(scope="module")
def folder(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus on disk of the same recordings, made of many small batches."""
    out = tmp_path_factory.mktemp("corpus") / "made" / "corpus"
    with pytest.MonkeyPatch.context() as patch:
        on_disk.make_small(patch.setattr)
        ot.ingest(recordings, out, partitions=3, fields=FIELDS)
    return out


@pytest.fixture
def disk(folder: Path) -> PartitionedCorpus:
    return ot.read_corpus(folder)


@pytest.fixture
def sliced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionedCorpus:
    """The same in slices of a few hundred events, the largest group being one of them."""
    corpus = ot.read_corpus(folder)
    sizes = corpus.traces.group_by("group_id").agg(pl.col("n_events").sum()).collect()["n_events"]
    on_disk.slice_rows(monkeypatch.setattr, corpus, int(sizes.max()))
    assert sum(1 for _ in corpus.pieces()) > 6
    return corpus


def ingested(data: dict[str, bytes], folder: Path, **options: object) -> Path:
    """A corpus of the files that are given by name."""
    source = folder / "in"
    source.mkdir(exist_ok=True)
    for name, content in data.items():
        touch(source / name, content)
    ot.ingest([source / name for name in data], folder / "out", **options)
    return folder / "out"


def status(report: IngestReport) -> dict[str, str]:
    return {Path(name).name: word for name, word in report.inputs.select("input", "status").iter_rows()}


def numbers(corpus: ot.Corpus) -> dict[str, list[int]]:
    """Numbers of the traces of each id, ascending."""
    traces = corpus.traces.select("trace_id", "trace").sort("trace").collect()
    return {str(k[0]): g["trace"].to_list() for k, g in traces.group_by("trace_id", maintain_order=True)}


# the rows


def test_every_table_is_that_of_read_traces(memory: ot.Corpus, folder: Path) -> None:
    disk = ot.read_corpus(folder)
    expected = rows(memory)
    assert expected["labels"].height == 8 and expected["quarantine"].height > 10
    assert expected["events"]["remark"].drop_nulls().to_list() == ["a remark"]
    assert expected["findings"].filter(pl.col("code") == "trace.id_reused").height == 2
    assert_rows(disk, expected)
    for table in on_disk.TABLES:
        assert getattr(disk, table).collect_schema() == getattr(memory, table).collect_schema(), table
    assert disk.records == {**memory.records, "duplicate": 0}
    assert len(disk) == len(memory)
    assert_tidy(folder)
    made = manifest.load(folder)
    assert made is not None and made.next_shard > 8, "the recordings came in several batches"
    assert any(len(parts) > 1 for parts in made.parts.values()), "partitions have several windows"


def test_defaults_give_the_same_rows(recordings: Path, memory: ot.Corpus, tmp_path: Path) -> None:
    report = ot.ingest(recordings, tmp_path / "out", fields=FIELDS, memory="64 MiB", threads=1)
    assert_rows(ot.read_corpus(tmp_path / "out"), rows(memory))
    assert set(status(report).values()) == {"new"}
    assert report.inputs["records"].sum() == report.records["read"] == memory.records["read"]
    assert "6 new" in repr(report)


def test_options_of_reading_are_those_of_read_traces(recordings: Path, tmp_path: Path) -> None:
    options = {"format": "native", "extras": False, "excerpt": 7, "time_basis": "ordinal", "max_depth": 4}
    ot.ingest(recordings, tmp_path / "out", **options)
    assert_rows(ot.read_corpus(tmp_path / "out"), rows(ot.read_traces(recordings, **options)))


def test_counts_of_every_input_reconcile(small: None, recordings: Path, tmp_path: Path) -> None:
    paths = sorted(path for path in recordings.rglob("*") if path.is_file())
    report = ot.ingest(paths, tmp_path / "out", partitions=2)
    for row in report.inputs.iter_rows(named=True):
        alone = ot.read_traces(row["input"]).records
        kinds = ("used", "ignored", "duplicate", "quarantined")
        assert {name: row[name] for name in kinds} | {"read": row["records"]} == alone
        assert row["duplicate"] == 0 and row["size"] == os.path.getsize(row["input"])


# again, and more


def test_a_second_ingest_touches_nothing(small: None, recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = ot.ingest(recordings, out, partitions=2, fields=FIELDS)
    before = files(out)
    for options in ({}, {"partitions": 2, "group": "group_id", "fields": FIELDS}):
        again = ot.ingest(recordings, out, **options)
        assert set(status(again).values()) == {"unchanged"}
        assert again.records == first.records
        assert files(out) == before


def test_an_input_of_the_same_content_is_not_read_again(tmp_path: Path) -> None:
    out = ingested({"a.jsonl": lines(document("x"))}, tmp_path)
    before = rows(ot.read_corpus(out))
    path = tmp_path / "in" / "a.jsonl"
    touch(path, path.read_bytes())
    assert status(ot.ingest(path, out)) == {"a.jsonl": "unchanged"}
    touch(path, path.read_bytes().replace(b'"x"', b'"y"'))
    assert status(ot.ingest(path, out)) == {"a.jsonl": "replaced"}
    assert numbers(ot.read_corpus(out)) == {"y": [1]}, "a number is never given to another trace"
    touch(path, path.read_bytes().replace(b'"y"', b'"x"'))
    ot.ingest(path, out)
    assert rows(ot.read_corpus(out))["events"].drop("trace").equals(before["events"].drop("trace"))


@pytest.mark.every_nth(4)
def test_new_inputs_are_added(small: None, recordings: Path, memory: ot.Corpus, tmp_path: Path) -> None:
    paths = sorted(path for path in recordings.rglob("*") if path.is_file())
    for n in (1, 3, 6):
        report = ot.ingest(paths[:n], tmp_path / "out", partitions=3, fields=FIELDS)
        assert sorted(status(report).values(), reverse=True)[: n // 2] == ["unchanged"] * (n // 2)
        assert_tidy(tmp_path / "out")
    assert_content(ot.read_corpus(tmp_path / "out"), memory)


@pytest.mark.nightly
@pytest.mark.process
def test_twenty_ingests_are_as_one(small: None, tmp_path: Path) -> None:
    data = [
        generated(f"g{n}", 120, n) + (b"noise\n" if n % 3 else b"") + lines(document(f"r{n % 7}", 2 + n % 2))
        for n in range(20)
    ]
    paths = [tmp_path / f"{n:02}.jsonl" for n in range(20)]
    for path, content in zip(paths, data, strict=True):
        path.write_bytes(content)
    one = ot.ingest(paths, tmp_path / "one", partitions=4)
    assert one.records["duplicate"] > 0
    for n in range(20):
        many = ot.ingest(paths[: n + 1], tmp_path / "many", partitions=4)
    assert many.records == one.records
    assert_rows(ot.read_corpus(tmp_path / "many"), rows(ot.read_corpus(tmp_path / "one")))
    assert_tidy(tmp_path / "many")


# inputs that changed


def test_an_input_that_grew_keeps_the_numbers_of_its_traces(small: None, tmp_path: Path) -> None:
    first = [document("p"), document("q"), document("p", 4)]
    out = ingested({"a.jsonl": lines(*first), "b.jsonl": lines(document("z"), b"{}\n")}, tmp_path)
    assert numbers(ot.read_corpus(out)) == {"p": [0, 2], "q": [1], "z": [3]}
    grown = [document("new"), document("p"), document("p", 5), b"noise\n", document("q"), document("p", 6)]
    touch(tmp_path / "in" / "a.jsonl", lines(*grown))
    report = ot.ingest(tmp_path / "in", out)
    assert status(report) == {"a.jsonl": "replaced", "b.jsonl": "unchanged"}
    assert report.records == {"read": 8, "used": 6, "ignored": 0, "duplicate": 0, "quarantined": 2}
    corpus = ot.read_corpus(out)
    assert numbers(corpus) == {"p": [0, 2, 5], "q": [1], "z": [3], "new": [4]}
    sizes = dict(corpus.traces.select("trace", "n_events").collect().iter_rows())
    assert (sizes[0], sizes[2], sizes[5]) == (3, 5, 6), "the k-th trace of an id has the k-th number"
    assert_content(corpus, ot.read_traces(tmp_path / "in"))
    assert_tidy(out)


def test_an_input_may_shrink_to_nothing(small: None, tmp_path: Path) -> None:
    out = ingested(
        {"a.jsonl": generated("a", 900, 1) + b"noise\n", "b.jsonl": generated("b", 300, 2)},
        tmp_path,
        partitions=2,
    )
    for content in (b"", b"\n\n", gzip.compress(b""), b"[]"):
        touch(tmp_path / "in" / "a.jsonl", content)
        report = ot.ingest(tmp_path / "in", out)
        assert status(report) == {"a.jsonl": "replaced", "b.jsonl": "unchanged"}
        assert_content(ot.read_corpus(out), ot.read_traces(tmp_path / "in" / "b.jsonl"))
        assert_tidy(out)
    before = files(out)
    assert set(status(ot.ingest(tmp_path / "in", out)).values()) == {"unchanged"}
    assert files(out) == before
    touch(tmp_path / "in" / "b.jsonl", b"")
    ot.ingest(tmp_path / "in", out)
    empty = ot.read_corpus(out)
    assert (len(empty), empty.records["read"]) == (0, 0)
    assert ot.credit(empty, method="flow").height == 0
    assert_tidy(out)


def test_numbers_of_traces_that_are_gone_are_not_given_again(tmp_path: Path) -> None:
    out = ingested({"a.jsonl": lines(document("p"), document("q"))}, tmp_path)
    touch(tmp_path / "in" / "a.jsonl", lines(document("p")))
    ot.ingest(tmp_path / "in", out)
    touch(tmp_path / "in" / "b.jsonl", lines(document("r")))
    ot.ingest(tmp_path / "in", out)
    assert numbers(ot.read_corpus(out)) == {"p": [0], "r": [2]}


@pytest.mark.parametrize("instead", [lines(document("other")), lines(document("x", 9)), b""])
def test_a_repeat_comes_back_when_its_original_is_gone(small: None, tmp_path: Path, instead: bytes) -> None:
    out = ingested(
        {
            "a.jsonl": lines(document("x"), document("y")),
            "b.jsonl": lines(document("w"), document("x"), document("y"), b"noise\n"),
            "c.jsonl": lines(document("x")),
            "d.jsonl": lines(document("v")),
        },
        tmp_path,
    )
    before = numbers(ot.read_corpus(out))
    assert before == {"x": [0], "y": [1], "w": [2], "v": [3]}
    touch(tmp_path / "in" / "a.jsonl", instead + lines(document("y")))
    report = ot.ingest(tmp_path / "in" / "a.jsonl", out)
    assert status(report) == {"a.jsonl": "replaced", "b.jsonl": "replaced"} | (
        {"c.jsonl": "replaced"} if "c.jsonl" in status(report) else {}
    )
    corpus = ot.read_corpus(out)
    after = numbers(corpus)
    assert {name: after[name] for name in ("y", "w", "v")} == {name: before[name] for name in "ywv"}
    assert corpus.records["duplicate"] == 2
    sizes = corpus.traces.filter(pl.col("trace_id") == "x").select("n_events").collect()["n_events"]
    assert sorted(sizes) == ([3, 9] if b'"e8"' in instead else [3])
    assert_tidy(out)


def test_a_repeat_whose_input_is_gone_is_said(tmp_path: Path) -> None:
    data = {"a.jsonl": lines(document("x")), "b.jsonl": lines(document("x"))}
    out = ingested(data, tmp_path)
    touch(tmp_path / "in" / "a.jsonl", lines(document("y")))
    (tmp_path / "in" / "b.jsonl").unlink()
    assert status(ot.ingest(tmp_path / "in", out)) == {"a.jsonl": "replaced", "b.jsonl": "missing"}
    assert set(numbers(ot.read_corpus(out))) == {"y"}
    (tmp_path / "in" / "b.jsonl").write_bytes(data["b.jsonl"])
    assert status(ot.ingest(tmp_path / "in", out)) == {"a.jsonl": "unchanged", "b.jsonl": "replaced"}
    assert set(numbers(ot.read_corpus(out))) == {"x", "y"}
    assert_tidy(out)


def test_an_input_that_was_removed_stays_in_the_corpus(tmp_path: Path) -> None:
    out = ingested({"a.jsonl": lines(document("x")), "b.jsonl": lines(document("y"))}, tmp_path)
    (tmp_path / "in" / "a.jsonl").unlink()
    assert status(ot.ingest(tmp_path / "in", out)) == {"b.jsonl": "unchanged"}
    assert set(numbers(ot.read_corpus(out))) == {"x", "y"}


def in_trouble(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the system refuse to say anything of files of these names."""
    sound = os.stat

    def refused(path: Any, *args: Any, **more: Any) -> os.stat_result:
        if isinstance(path, str | Path) and Path(path).name in names:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return sound(path, *args, **more)

    patch.setattr(os, "stat", refused)


def test_an_input_that_the_system_says_nothing_of_is_not_missing(tmp_path: Path) -> None:
    """Named, or the origin of what is there: an error, or no word, but never a file that is gone."""
    data = {"a.jsonl": lines(document("x")), "b.jsonl": lines(document("y"))}
    out, source = ingested(data, tmp_path), tmp_path / "in"
    on_disk.touch(source / "b.jsonl", lines(document("z")))
    before = on_disk.files(out)
    for named in (source, source / "b.jsonl", str(source / "*.jsonl")):
        with pytest.MonkeyPatch.context() as patch:
            in_trouble(patch, "b.jsonl")
            with pytest.raises(ot.InputError, match=r"b\.jsonl: Input/output error") as refused:
                ot.ingest(named, out)
        assert "\n" not in str(refused.value) and on_disk.files(out) == before
    with pytest.MonkeyPatch.context() as patch:
        in_trouble(patch, "b.jsonl")
        report = ot.ingest(source / "a.jsonl", out)
    assert report.gone.is_empty()
    with pytest.MonkeyPatch.context() as patch:
        in_trouble(patch, "b.jsonl")
        with pytest.raises(ot.InputError, match=r"b\.jsonl: Input/output error"):
            ot.read_traces(str(source / "*.jsonl"))
    assert status(ot.ingest(source, out)) == {"a.jsonl": "unchanged", "b.jsonl": "replaced"}
    assert set(numbers(ot.read_corpus(out))) == {"x", "z"}


def test_the_report_counts_what_came_of_files_that_are_gone(tmp_path: Path) -> None:
    data = {"a.jsonl": lines(document("x"), document("z")), "b.jsonl": lines(document("y"), document("z"))}
    out = ingested(data, tmp_path)
    report = ot.ingest(tmp_path / "in", out)
    assert report.gone.is_empty() and report.gone.columns == ["input", "used", "traces"]
    assert report.gone_line == "" and "gone" not in repr(report)
    source = tmp_path / "in"
    (source / "a.jsonl").unlink()
    other = tmp_path / "c.jsonl"
    other.write_bytes(lines(document("w")))
    report = ot.ingest([source, other], out)
    assert report.gone.select(pl.col("input").str.split("/").list.last(), "used", "traces").rows() == [
        ("a.jsonl", 2, 2)
    ]
    line = "1 file of earlier calls is gone, the corpus keeps what was in there: 2 traces"
    assert report.gone_line == line and repr(report).endswith(f"\n{line}")
    other.unlink()
    report = ot.ingest(source, out)
    line = "2 files of earlier calls are gone, the corpus keeps what was in there: 3 traces"
    assert report.gone_line == line and len(ot.read_corpus(out)) == 4
    (source / "a.jsonl").write_bytes(data["a.jsonl"])
    assert ot.ingest(source, out).gone.height == 1


def test_traces_that_are_put_together_are_no_traces_of_a_file_that_is_gone(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "runs.jsonl").write_bytes(lines(document("x")))
    session = Path(__file__).parents[2] / "data" / "importers" / "claude_code" / "input.jsonl"
    (source / "session.jsonl").write_bytes(session.read_bytes())
    ot.ingest(source, out)
    (source / "session.jsonl").unlink()
    report = ot.ingest(source, out)
    [(used, traces)] = report.gone.select("used", "traces").rows()
    assert used > 0 and traces is None
    assert report.gone_line.endswith(f": {used:,} records of traces that are put together")


def test_inputs_of_one_name_are_told_apart(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.jsonl").write_bytes(lines(document(name)) + b"noise\n" * (number + 1))
        monkeypatch.chdir(tmp_path / name)
        ot.ingest("runs.jsonl", out)
    assert ot.read_corpus(out).quarantine.select(pl.col("file").n_unique()).collect().item() == 2
    touch(tmp_path / "two" / "runs.jsonl", lines(document("two")))
    ot.ingest("runs.jsonl", out)
    assert ot.read_corpus(out).records["quarantined"] == 1
    assert_tidy(out)


# repeats and reused ids


def test_repeats_are_counted_and_reused_ids_are_found(small: None, tmp_path: Path) -> None:
    first, second = generated("g", 600, 1), generated("g", 600, 2)
    n = len(first.splitlines())
    out = ingested({"a.jsonl": first, "b.jsonl.gz": gzip.compress(first), "c.jsonl": second}, tmp_path)
    corpus = ot.read_corpus(out)
    assert corpus.records["duplicate"] == n
    assert "duplicate" in repr(corpus)
    findings = corpus.findings.filter(pl.col("code") == "trace.id_reused").collect().sort("trace")
    ids = [json.loads(line)["trace_id"] for line in second.splitlines()]
    reused = [name for name in ids if name in {json.loads(line)["trace_id"] for line in first.splitlines()}]
    assert findings.height == len(reused) > 0
    first_numbers = {name: found[0] for name, found in numbers(corpus).items()}
    for name, message in zip(reused, findings["message"], strict=True):
        assert f"trace {first_numbers[name]} already has the trace_id '{name}';" in message
    assert_tidy(out)


def test_within_one_file_too(tmp_path: Path) -> None:
    out = ingested(
        {"a.jsonl": lines(document("x"), document("x"), document("x", 4), document("x"))}, tmp_path
    )
    corpus = ot.read_corpus(out)
    assert corpus.records == {"read": 4, "used": 2, "ignored": 0, "duplicate": 2, "quarantined": 0}
    assert numbers(corpus) == {"x": [0, 1]}
    assert corpus.findings.select("trace", "code").collect().rows() == [(1, "trace.id_reused")]


# verbs


@pytest.mark.every_nth(13)
@pytest.mark.parametrize("unit", ["event", "agent", "team", "turn", "tool"])
@pytest.mark.parametrize("method", METHODS)
def test_credit_is_that_of_memory(
    memory: ot.Corpus, sliced: PartitionedCorpus, method: str, unit: str
) -> None:
    if unit not in LEVELS[method]:
        with pytest.raises(ot.ParameterError, match="unknown unit"):
            ot.credit(memory, method=method, unit=unit)
        return

    def credits(corpus: ot.Corpus) -> pl.DataFrame:
        made = ot.credit(corpus, method=method, unit=unit, seed=3, **DRAWN.get(method, {}))
        return made.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort("trace", maintain_order=True)

    expected = credits(memory)
    assert expected.height > 100
    if SCOPE[method] != "corpus" or method in IN_TWO_PASSES:
        assert_frame_equal(credits(sliced), expected, check_exact=True)
    else:
        # sums over the corpus are summed piece by piece there
        fitted = credits(sliced)
        assert_frame_equal(
            fitted.drop("params", "residual"), expected.drop("params", "residual"), rel_tol=1e-6
        )


def test_credit_to_a_folder_goes_on(
    sliced: PartitionedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"method": "grpo", "unit": "agent"}
    expected = ot.credit(sliced, **options)
    sink = tmp_path / "credits"
    made = ot.credit(sliced, **options, sink=sink)
    assert isinstance(made, pl.LazyFrame)
    assert_frame_equal(made.collect(), expected, categorical_as_str=True, check_exact=True)
    before = files(sink)
    assert len([name for name in before if name.endswith(".parquet")]) == sum(1 for _ in sliced.pieces())
    with pytest.raises(ot.ParameterError, match="not empty"):
        ot.credit(sliced, **options, sink=sink, resume=False)
    removed = sorted(name for name in before if name.endswith(".parquet"))[1]
    (sink / removed).unlink()
    again = ot.credit(sliced, **options, sink=sink, resume=True)
    assert_frame_equal(again.collect(), expected, categorical_as_str=True, check_exact=True)
    after = files(sink)
    assert {name: one for name, one in after.items() if name != removed} == {
        name: one for name, one in before.items() if name != removed
    }
    assert after[removed][2] == before[removed][2]
    nothing = ot.credit(sliced.filter(pl.lit(False)), **options, sink=tmp_path / "none")
    assert nothing.collect().height == 0 and nothing.collect_schema() == expected.schema


FILTERS = [
    (pl.col("n_events") > 20,),
    (pl.col("trace_id").str.starts_with("array"), pl.col("n_agents") > 2),
    (pl.col("importer") == "who_and_when",),
    (pl.lit(False),),
    (pl.lit(True),),
]


@pytest.mark.parametrize("predicates", FILTERS, ids=range(len(FILTERS)))
def test_filter(memory: ot.Corpus, sliced: PartitionedCorpus, predicates: tuple[pl.Expr, ...]) -> None:
    expected, found = memory.filter(*predicates), sliced.filter(*predicates)
    assert_rows(found, {**rows(expected), "quarantine": rows(memory)["quarantine"]})
    assert len(found) == len(expected)
    assert found.records == {**expected.records, "duplicate": 0}
    assert (
        ot.credit(found, unit="agent")
        .sort("trace", maintain_order=True)
        .equals(ot.credit(expected, unit="agent"))
    )


def test_own_measures_and_fields(
    memory: ot.Corpus, sliced: PartitionedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slice that is changed has half of the room.
    largest = sliced.traces.group_by("group_id").agg(pl.col("n_events").sum()).collect()["n_events"].max()
    on_disk.slice_rows(monkeypatch.setattr, sliced, 2 * int(largest))
    traces = memory.traces.select("trace").collect()["trace"]
    measures = pl.DataFrame({"trace": traces, "mine": [float(n % 5) for n in range(traces.len())]}).sample(
        fraction=0.8, seed=1
    )
    events = memory.events.select("trace", "seq").collect().sample(fraction=0.3, seed=2, shuffle=True)
    scored = events.with_columns(score=pl.int_range(pl.len()).cast(pl.Float64), turn=pl.lit(7))

    def changed(corpus: ot.Corpus) -> ot.Corpus:
        return (
            corpus.with_measures(measures)
            .filter(pl.col("n_events") < 60)
            .with_fields(scored)
            .with_measures(measures.filter(pl.col("trace") < 40).with_columns(mine=pl.lit(0.5)))
        )

    # The later frames name traces that the filter left out.
    measures = measures.join(
        memory.traces.filter(pl.col("n_events") < 60).select("trace").collect(), on="trace"
    )
    scored = scored.join(measures.select("trace"), on="trace", how="semi")
    expected, found = changed(memory), changed(sliced)
    assert_rows(found, {**rows(expected), "quarantine": rows(memory)["quarantine"]})
    assert found._sizes() == {**expected._sizes(), "quarantine": memory._sizes()["quarantine"]}
    credits = [
        ot.credit(corpus, reward="mine", unit="turn").sort("trace", maintain_order=True)
        for corpus in (expected, found)
    ]
    assert_frame_equal(credits[1], credits[0], categorical_as_str=True, check_exact=True)
    whole, mine = found.measures.collect(), pl.col("name") == "mine"
    for n in (1, 7, 50, whole.height):
        for query in (
            lambda frame, n=n: frame.filter(mine).head(n),
            lambda frame, n=n: frame.head(n).filter(mine),
            lambda frame, n=n: frame.slice(2, n).filter(mine).select("value"),
        ):
            assert query(found.measures).collect().equals(query(whole)), n
    scores = [
        c.events.select("score").filter(pl.col("score") >= 50).collect()["score"] for c in (expected, found)
    ]
    assert scores[0].len() > 0 and scores[1].sort().equals(scores[0].sort())


def test_what_does_not_fit_is_said_at_once(sliced: PartitionedCorpus) -> None:
    wrong = [
        ("with_measures", {"trace": [10**6], "m": [1.0]}, "unknown trace"),
        ("with_measures", {"trace": [0], "m": [float("nan")]}, "finite"),
        ("with_measures", {"trace_id": ["noted"], "m": [1.0]}, "not unique"),
        ("with_fields", {"trace": [10**6], "seq": [0], "score": [1.0]}, "unknown trace"),
        ("with_fields", {"trace": [0], "seq": [0], "group_id": ["g"]}, "divided by group"),
    ]
    for verb, given, message in wrong:
        with pytest.raises(ot.ParameterError, match=message):
            getattr(sliced, verb)(pl.DataFrame(given))


def test_write_jsonl(memory: ot.Corpus, sliced: PartitionedCorpus, tmp_path: Path) -> None:
    def documents(corpus: ot.Corpus) -> list[str]:
        target = io.BytesIO()
        assert corpus.write_jsonl(target) == len(memory)
        return sorted(json.dumps(json.loads(line), sort_keys=True) for line in target.getvalue().splitlines())

    assert documents(sliced) == documents(memory)
    calls: list[tuple[int, int]] = []
    sliced.write_jsonl(tmp_path / "out.jsonl", progress=lambda *call: calls.append(call))
    again = ot.read_traces(tmp_path / "out.jsonl")
    assert len(again) == len(memory) and calls


def test_report_and_display(memory: ot.Corpus, disk: PartitionedCorpus) -> None:
    for name, expected in ot.describe(memory).items():
        found = ot.describe(disk)[name]
        # The first case is that which comes first, on disk by partition.
        cases = [c for c in ("trace_id", "seq", "message", "path", "file", "line") if c in expected.columns]
        assert_frame_equal(found.drop(cases), expected.drop(cases), categorical_as_str=True), name
    text = repr(disk)
    assert f"{len(memory)} traces" in text and "0 duplicates" not in text
    for table, height in memory._sizes().items():
        assert any(line.split() == [table, f"{height:,}"] for line in text.splitlines()), (table, text)
    assert f"{memory._sizes()['events']:,}" in disk._repr_html_()


def test_localization(memory: ot.Corpus, sliced: PartitionedCorpus) -> None:
    def judged(corpus: ot.Corpus) -> pl.DataFrame:
        corpus = corpus.filter(pl.col("importer") == "who_and_when")
        traces = corpus.traces.select("trace").collect()
        corpus = corpus.with_measures(traces.with_columns(fault=pl.lit(1.0)))
        return ot.evaluation.failure_attribution(
            ot.credit(corpus, reward="fault", unit="turn"), corpus.labels
        )

    assert_frame_equal(judged(sliced), judged(memory))


# slices


@pytest.mark.parametrize("most", [1, 3])
def test_groups_are_never_divided(folder: Path, memory: ot.Corpus, monkeypatch, most: int) -> None:
    corpus = ot.read_corpus(folder)
    sizes = corpus.traces.group_by("group_id").agg(pl.col("n_events").sum()).collect()
    on_disk.slice_rows(monkeypatch.setattr, corpus, most * int(sizes["n_events"].max()))
    home: dict[str, int] = {}
    seen: list[int] = []
    largest = 0
    for number, piece in enumerate(corpus.slices()):
        traces = piece.traces.select("trace", "group_id", "n_events").collect()
        assert traces["trace"].is_sorted()
        for group in traces["group_id"].unique():
            assert home.setdefault(group, number) == number, group
        seen += traces["trace"].to_list()
        largest = max(largest, traces["n_events"].sum())
    assert sorted(seen) == list(range(len(memory)))
    assert largest <= corpus._memory // on_disk.partitioned.EVENT_BYTES  # type: ignore[attr-defined]
    names = [name for name, _ in corpus.pieces()]
    assert len(names) == len(set(names)) == number + 1


def test_a_group_that_has_no_room_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = ot.read_corpus(folder)
    on_disk.slice_rows(monkeypatch.setattr, corpus, 2)
    with pytest.raises(ot.InputError, match=r"the group with group_id '.+' has .* events.*memory") as caught:
        ot.credit(corpus)
    assert "\n" not in str(caught.value)
    # What scans the tables does not need the room.
    assert corpus.events.select(pl.len()).collect().item() > 2


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("group", ["trace_id", ["system", "task_id"], ("group_id",)])
def test_own_groups(recordings: Path, memory: ot.Corpus, tmp_path: Path, small: None, group: object) -> None:
    out = tmp_path / "out"
    ot.ingest(recordings, out, group=group, partitions=4, fields=FIELDS)
    corpus = ot.read_corpus(out, memory="64MiB")
    assert_rows(corpus, rows(memory))
    for method in METHODS:
        if SCOPE[method] == "corpus":
            continue  # seen above
        compares = SCOPE[method] == "group"
        if group == "trace_id" and compares:
            with pytest.raises(ot.SchemaError, match=r"group '.+' is divided.*group=\[trace_id\]"):
                ot.credit(corpus, method=method, unit="team")
        elif group != ["system", "task_id"] or not compares:
            drawn = DRAWN.get(method, {})
            made = ot.credit(corpus, method=method, unit="team", **drawn).sort("trace")
            expected = ot.credit(memory, method=method, unit="team", **drawn)
            assert_frame_equal(made, expected, categorical_as_str=True, check_exact=True)


def test_groups_that_slices_divide_are_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ingested({"a.jsonl": lines(*(document(f"t{n}") for n in range(8)))}, tmp_path, group="trace_id")
    corpus = ot.read_corpus(out)
    assert ot.credit(corpus, method="grpo", unit="team").height == 8  # one partition, one slice
    on_disk.slice_rows(monkeypatch.setattr, corpus, 6)
    with pytest.raises(ot.SchemaError, match="group 'task' is divided"):
        ot.credit(corpus, method="grpo", unit="team")
    assert ot.credit(corpus, method="flow", unit="team").height == 8


# what is refused


def test_the_folder_may_lie_among_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(document("x")))
    out = tmp_path / "corpus"
    for _ in range(2):
        report = ot.ingest(tmp_path, out)
        assert report.inputs["input"].to_list() == [str(tmp_path / "a.jsonl")]
    with pytest.raises(ot.InputError, match="is a corpus that ingest made"):
        ot.ingest(out, out)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(document("x")))
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("all of it")
    with pytest.raises(ot.ParameterError, match=r"not empty and is not a corpus: it has 'thesis\.txt'"):
        ot.ingest(tmp_path / "a.jsonl", out)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    with pytest.raises(ot.InputError, match="no corpus in"):
        ot.read_corpus(out)
    with pytest.raises(ot.InputError, match="no corpus in"):
        ot.read_corpus(tmp_path / "absent")
    with pytest.raises(ot.InputError, match=r"thesis\.txt' is a file, expected a folder for the corpus"):
        ot.ingest(tmp_path / "a.jsonl", out / "thesis.txt")


def test_files_of_others_in_the_folder_stay(small: None, tmp_path: Path) -> None:
    out = ingested({"a.jsonl": lines(document("x"))}, tmp_path)
    for name in ("notes.md", "index/readme.txt", "part=000/my.csv", ".hidden"):
        (out / name).write_text("mine")
    (out / "part=000" / "events" / "999999.parquet").write_bytes(b"left over")
    ingested({"b.jsonl": lines(document("y"))}, tmp_path)
    found = files(out)
    assert {"notes.md", "index/readme.txt", "part=000/my.csv", ".hidden"} <= set(found)
    assert "part=000/events/999999.parquet" not in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": False}, "is a corpus already"),
        ({"group": "system"}, r"group is \['system'\], but .* made with \['group_id'\]"),
        ({"partitions": 7}, "partitions is 7, but .* made with 2"),
        ({"fields": {"remark": pl.Int64()}}, "fields is"),
        ({"on_error": "raise", "max_errors": 3}, "have no use"),
        ({"memory": "1 MiB"}, "memory is 1MiB, expected at least 64MiB"),
        ({"memory": "9" * 400 + "GiB"}, "memory is"),
        ({"memory": "plenty"}, "memory is 'plenty'"),
        ({"memory": 1e9}, "expected a whole number"),
        ({"threads": 0}, "threads is 0"),
        ({"partitions": 0}, "partitions is 0"),
        ({"max_depht": 3}, "did you mean 'max_depth'"),
        ({"format": "nativ"}, "did you mean 'native'"),
    ],
)
def test_options_that_contradict_are_said(tmp_path: Path, options: dict, message: str) -> None:
    out = ingested({"a.jsonl": lines(document("x"))}, tmp_path, partitions=2)
    before = files(out)
    touch(tmp_path / "in" / "b.jsonl", lines(document("y")))
    with pytest.raises(ot.ParameterError, match=message):
        ot.ingest(tmp_path / "in", out, **options)
    assert files(out) == before


@pytest.mark.parametrize("group", ["line", "nothing", [], [1], 5])
def test_groups_that_do_not_exist_are_said(tmp_path: Path, group: object) -> None:
    with pytest.raises(ot.ParameterError):
        ingested({"a.jsonl": lines(document("x"))}, tmp_path, group=group)
    assert not list(tmp_path.glob("out/**/*"))


def test_streams_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(document("x")))
    os.mkfifo(tmp_path / "pipe")
    for source in (io.BytesIO(b"{}"), [tmp_path / "a.jsonl", io.BytesIO(b"{}")], str(tmp_path / "pipe")):
        with pytest.raises(ot.ParameterError, match="read_traces takes streams"):
            ot.ingest(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for source in ([], tmp_path / "absent", str(tmp_path / "*.gz")):
        with pytest.raises(ot.InputError):
            ot.ingest(source, tmp_path / "out")


def test_no_record_is_a_corpus_too(tmp_path: Path) -> None:
    out = ingested({"a.jsonl": b"", "b.json": b"[]", "c.jsonl.gz": gzip.compress(b"\n")}, tmp_path)
    corpus = ot.read_corpus(out)
    assert len(corpus) == 0 and corpus.records == dict.fromkeys(corpus.records, 0)
    for table, frame in rows(corpus).items():
        assert frame.height == 0, table
    assert ot.credit(corpus).height == 0 and ot.describe(corpus)["tables"]["rows"].sum() == 0
    assert corpus.write_jsonl(io.BytesIO()) == 0
    assert "0 traces" in repr(corpus)
    before = files(out)
    assert set(status(ot.ingest(tmp_path / "in", out)).values()) == {"unchanged"}
    assert files(out) == before
    assert_tidy(out)


NAMES = [b"two words.jsonl", "ünï ☃ 日本.jsonl".encode(), b"back\xff\xfe.jsonl", b"back\xff\xfd.jsonl"]


def test_file_names_of_any_kind(small: None, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/s p \xc3\xbc \xff"
    os.mkdir(odd)
    for n, name in enumerate(NAMES):
        with open(odd + b"/" + name, "wb") as file:
            file.write(lines(document(f"t{n}")) + b"noise\n" * (n + 1))
    out = tmp_path / "two words ü ☃"
    report = ot.ingest(os.fsdecode(odd), out)
    assert report.inputs["input"].n_unique() == 4
    with pytest.warns(UserWarning, match="10 of 14 records"):
        assert ot.scan_traces(os.fsdecode(odd)).select("trace_id").collect().height == 4
    corpus = ot.read_corpus(out)
    assert sorted(numbers(corpus)) == ["t0", "t1", "t2", "t3"]
    found = corpus.quarantine.group_by("file").len().collect()["len"]
    assert sorted(found) == [1, 2, 3, 4], "files are told apart by name"
    assert set(status(ot.ingest(os.fsdecode(odd), out)).values()) == {"unchanged"}
    with open(odd + b"/" + NAMES[2], "wb") as file:
        file.write(lines(document("t2", 4)))
    ot.ingest(os.fsdecode(odd), out)
    again = ot.read_corpus(out)
    assert sorted(again.quarantine.group_by("file").len().collect()["len"]) == [1, 2, 4]
    assert again.events.select(pl.len()).collect().item() == 13
    assert_tidy(out)


def test_a_folder_that_parquet_files_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(document("x")))
    with pytest.raises(ot.ParameterError, match="is not UTF-8"):
        ot.ingest(tmp_path / "a.jsonl", os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


# bounds on rejects


@pytest.mark.process
def test_errors_stop_the_call_and_what_was_published_stays(small: None, tmp_path: Path) -> None:
    data = {
        "a.jsonl": generated("a", 1500, 1),
        "b.jsonl": b"noise\n" * 20 + generated("b", 600, 2),
        "c.jsonl": generated("c", 300, 3),
    }
    for options in ({"on_error": "raise"}, {"max_errors": 10}, {"max_error_ratio": 0.1}):
        with pytest.raises(ot.QuarantineError) as caught:
            ingested(data, tmp_path, **options)
        assert caught.value.frame.height == 20
        corpus = ot.read_corpus(tmp_path / "out")
        assert corpus.records["quarantined"] == 0 and len(corpus) > 0
        reconcile(tmp_path / "out")
    report = ot.ingest(tmp_path / "in", tmp_path / "out", max_errors=20)
    assert report.records["quarantined"] == 20
    assert_content(ot.read_corpus(tmp_path / "out"), ot.read_traces(tmp_path / "in"))
    assert_tidy(tmp_path / "out")


def test_another_budget_goes_on_from_where_the_first_one_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jsonl").write_bytes(generated("a", 3000, 1) + b"noise\n" + generated("b", 500, 2))
    on_disk.make_small(monkeypatch.setattr)
    with pytest.raises(ot.QuarantineError):
        ot.ingest(source, tmp_path / "out", on_error="raise", partitions=2)
    monkeypatch.undo()
    on_disk.make_small(monkeypatch.setattr, room=128 << 20)
    report = ot.ingest(source, tmp_path / "out", threads=1)
    assert status(report) == {"a.jsonl": "resumed"}
    assert_rows(ot.read_corpus(tmp_path / "out"), rows(ot.read_traces(source)))
    assert_tidy(tmp_path / "out")


def test_progress_reaches_its_end(small: None, recordings: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    ot.ingest(recordings, tmp_path / "out", progress=lambda *call: calls.append(call))
    done, total = zip(*calls, strict=True)
    size = sum(path.stat().st_size for path in recordings.rglob("*") if path.is_file())
    assert list(done) == sorted(done) and set(total) == {size} and done[-1] == size


def test_an_input_that_nobody_recognizes_is_read_again_as_it_was(tmp_path: Path) -> None:
    """It has a trace that another input had too, which is gone there now."""
    first, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    good = [text(BASE | {"trace_id": name}) + b"\n" for name in ("x", "y")]
    first.write_bytes(b"".join(good))
    other.write_bytes(b"noise\n" * 20 + good[0])
    report = ot.ingest([first, other], tmp_path / "out")
    assert report.inputs.select("importer", "duplicate").rows() == [("native", 0), ("unknown", 1)]
    first.write_bytes(good[1])
    again = ot.ingest(first, tmp_path / "out")
    assert again.records == {"read": 22, "used": 2, "ignored": 0, "duplicate": 0, "quarantined": 20}
    corpus = ot.read_corpus(tmp_path / "out")
    assert sorted(corpus.traces.collect()["trace_id"]) == ["x", "y"]
    assert set(corpus.quarantine.collect()["importer"]) == {"unknown"}
