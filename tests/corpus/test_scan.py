"""Lazy frames over recordings: the rows of a read, whatever the query; traps of sources that feed Polars."""

import json
import warnings
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.corpus import scanning as scan

ENGINES = ["in-memory", "streaming"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few blocks of recordings, and a file beside them."""
    folder = tmp_path_factory.mktemp("scan")
    ot.generate(folder / "a.jsonl", preset="mixed", events=120_000, seed=3)
    ot.generate(folder / "b.jsonl", preset="academic", events=2_000, seed=4)
    assert (folder / "a.jsonl").stat().st_size > 20 << 20
    return folder


@pytest.fixture(scope="module")
def whole(runs: Path) -> ot.Corpus:
    return ot.read_traces(runs)


@pytest.fixture(scope="module")
def events(whole: ot.Corpus) -> pl.DataFrame:
    ids = whole.traces.select("trace", "trace_id")
    frame = whole.events.join(ids, on="trace", how="left", maintain_order="left")
    return frame.select("trace", "trace_id", pl.exclude("trace", "trace_id")).collect()


def same(a: pl.DataFrame, b: pl.DataFrame) -> None:
    assert_frame_equal(a, b, categorical_as_str=True)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_all_rows_are_those_of_a_read(
    runs: Path, whole: ot.Corpus, events: pl.DataFrame, threads: int
) -> None:
    same(ot.scan_events(runs, threads=threads).collect(), events)
    same(ot.scan_traces(runs, threads=threads).collect(), whole.traces.collect())


def test_the_schema_is_known_without_reading(runs: Path, events: pl.DataFrame) -> None:
    assert ot.scan_events(runs).collect_schema() == events.schema
    lifted = ot.scan_events(runs, fields={"own": pl.Int64})
    assert lifted.collect_schema()["own"] == pl.Int64
    assert lifted.select(pl.col("own").null_count() == pl.len()).collect().item()


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("name", ot.scan_events(__file__).collect_schema().names())
def test_each_column_alone(runs: Path, events: pl.DataFrame, name: str) -> None:
    same(ot.scan_events(runs).select(name).collect(), events.select(name))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "query",
    [
        lambda f: f.filter(pl.col("type") == "spawn").select("agent"),
        lambda f: f.filter(pl.col("agent") == "orchestrator").select("seq", "id"),
        lambda f: f.filter(pl.col("trace_id").str.ends_with("7")).select("type"),
        lambda f: f.filter(pl.col("t") > 100).head(7),
        lambda f: f.head(1_000).filter(pl.col("type") == "spawn"),
        lambda f: f.slice(50_000, 20).select("trace", "seq"),
        lambda f: f.select(pl.len()),
        lambda f: f.group_by("type").len().sort("type"),
        lambda f: f.with_row_index().filter(pl.col("index") % 10_007 == 0),
        lambda f: f.tail(3),
    ],
)
def test_queries_give_the_rows_of_the_frame(runs: Path, events: pl.DataFrame, query, engine: str) -> None:
    wanted = query(events.lazy()).collect()
    assert wanted.height
    same(query(ot.scan_events(runs)).collect(engine=engine), wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_sort_and_head(runs: Path, events: pl.DataFrame, engine: str) -> None:
    query = ot.scan_events(runs).sort("t", "trace", "seq", descending=True).head(5)
    same(query.collect(engine=engine), events.sort("t", "trace", "seq", descending=True).head(5))


@pytest.mark.parametrize("engine", ENGINES)
def test_many_plans_at_once_and_again(runs: Path, events: pl.DataFrame, engine: str) -> None:
    scanned = ot.scan_events(runs)
    plans = [
        scanned.select("type"),
        scanned.head(4),
        scanned.filter(pl.col("type") == "return"),
        scanned.select(pl.len()),
        ot.scan_traces(runs).select("n_events"),
    ]
    wanted = [events.select("type"), events.head(4), events.filter(pl.col("type") == "return")]
    for _ in range(2):
        made = pl.collect_all(plans, engine=engine)
        for a, b in zip(made, wanted, strict=False):
            same(a, b)
        assert made[3].item() == events.height == made[4]["n_events"].sum()


def test_a_predicate_on_a_column_that_is_not_asked_for(runs: Path, events: pl.DataFrame) -> None:
    few = events["trace_id"].unique().sort().head(3).to_list()
    query = ot.scan_events(runs).filter(pl.col("trace_id").is_in(few), pl.col("seq") < 2).select("id")
    same(query.collect(), events.filter(pl.col("trace_id").is_in(few), pl.col("seq") < 2).select("id"))


def test_a_join_of_two_scans(runs: Path, whole: ot.Corpus) -> None:
    joined = ot.scan_events(runs).join(ot.scan_traces(runs).select("trace", "system"), on="trace")
    counted = joined.group_by("system").len().sort("len", "system").collect()
    other = whole.events.join(whole.traces.select("trace", "system"), on="trace")
    same(counted, other.group_by("system").len().sort("len", "system").collect())


def test_a_few_rows_read_one_block(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by the records of the batches that were taken, not by the clock."""
    taken = []

    class Counting:
        def __init__(self, *args, **options) -> None:
            self._reader = scan_reader(*args, **options)

        def next(self, *args, **options):
            batch = self._reader.next(*args, **options)
            taken.append(0 if batch is None else sum(part[0] for part in batch[1]))
            return batch

    scan_reader = scan._core.TraceReader  # type: ignore[attr-defined]

    class Core:
        TraceReader = Counting

        def __getattr__(self, name: str) -> object:
            return getattr(ot._core, name)

    monkeypatch.setattr(scan, "_core", Core())
    total = len((runs / "a.jsonl").read_bytes().splitlines())
    assert ot.scan_events(runs / "a.jsonl").head(10).collect().height == 10
    assert len(taken) == 1
    assert 0 < taken[0] < total / 3
    taken.clear()
    ot.scan_events(runs / "a.jsonl").collect()
    assert sum(taken) == total


def broken(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    ot.generate(path, traces=20, seed=0)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:5], b"{", *lines[5:], b"[1]"]))
    return path


@pytest.mark.parametrize("columns", [["type"], ["trace", "seq", "id"], None])
def test_rejected_records_are_told_whatever_is_asked_for(tmp_path: Path, columns: list[str] | None) -> None:
    path = broken(tmp_path)
    query = ot.scan_events(path)
    query = query if columns is None else query.select(columns)
    with pytest.warns(UserWarning, match="2 of 22 records were rejected"):
        made = query.collect()
    assert made.height == ot.read_traces(path).events.collect().height


def test_errors_can_stop_a_scan(tmp_path: Path) -> None:
    path = broken(tmp_path)
    with pytest.raises(ot.QuarantineError, match=r"json\.syntax"):
        ot.scan_events(path, on_error="raise").collect()
    with pytest.raises(ot.QuarantineError):
        ot.scan_events(path, max_errors=1, max_error_ratio=0.05).collect()
    with pytest.warns(UserWarning):
        ot.scan_events(path, max_errors=1, max_error_ratio=0.5).collect()
    with pytest.warns(UserWarning):
        ot.scan_events(path, max_errors=2).collect()


def test_a_head_that_ends_before_the_errors_says_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ot.scan_traces(broken(tmp_path)).head(3).collect().height == 3


def test_what_cannot_be_scanned(tmp_path: Path) -> None:
    with pytest.raises(ot.InputError, match="no such file"):
        ot.scan_events(tmp_path / "none.jsonl")
    with (tmp_path / "file.jsonl").open("wb+") as file, pytest.raises(ot.ParameterError, match="read_traces"):
        ot.scan_events(file)
    with pytest.raises(ot.ParameterError, match="unknown option 'formt'"):
        ot.scan_events(tmp_path, formt="native")  # type: ignore[call-arg]
    path = tmp_path / "gone.jsonl"
    ot.generate(path, traces=2, seed=0)
    query = ot.scan_traces(path)
    path.unlink()
    with pytest.raises(ot.InputError, match="gone"):
        query.collect()


def test_an_empty_file_has_the_schema(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert ot.scan_events(tmp_path).collect().shape == (0, ot.scan_events(tmp_path).collect_schema().len())


def test_columns_that_only_later_batches_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"id": "e", "t": 0, "type": "message", "agent": "x"}
    record = {"task_id": "q", "edges": [], "rewards": {}, "costs": {"tokens": 0, "wall_clock_s": 0}}
    lines = [
        json.dumps(
            {"trace_id": f"t{n}", "events": [{**event, "score": n / 7} if n > 60_000 else event], **record}
        )
        for n in range(60_010)
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr(scan, "_LARGEST_BATCH", 1)
    query = ot.scan_events(tmp_path).select("score")
    assert query.collect()["score"].drop_nulls().len() == 9
    assert ot.scan_events(tmp_path).select("value").collect()["value"].null_count() == len(lines)
