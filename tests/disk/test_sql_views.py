"""Views in SQL have the rows of the tables, in both engines, whatever a corpus went through or is called."""

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.disk import work
from orchestrace.disk.sql_views import SEPARATOR
from samples import on_disk

DIALECTS = ("duckdb", "polars")


def run(views: str, dialect: str, query: str) -> pl.DataFrame:
    """What a query over the views gives."""
    if dialect == "duckdb":
        with duckdb.connect() as connection:
            connection.execute(views)
            found = connection.execute(query)
            columns = [column[0] for column in found.description or ()]
            return pl.DataFrame(found.fetchall(), schema=columns, orient="row", infer_schema_length=None)
    context = pl.SQLContext()
    for statement in filter(None, views.split(SEPARATOR)):
        context.execute(statement)
    return context.execute(query, eager=True)


def rows(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows in an order of their own: words as text, times without zones to microseconds."""
    shown = frame.with_columns(
        pl.col(name).cast(pl.String)
        for name, kind in frame.schema.items()
        if kind in (pl.Enum, pl.Categorical)
    ).with_columns(
        pl.col(name).dt.cast_time_unit("us").dt.convert_time_zone("UTC")
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Datetime) and kind.time_zone is not None
    )
    return sorted(shown.rows(), key=repr)


def check(folder: Path) -> None:
    """Every table of a corpus has the same rows as a view."""
    corpus = ot.read_corpus(folder)
    for dialect in DIALECTS:
        views = ot.disk.sql_views(corpus, dialect=dialect)
        for name in SCHEMAS:
            table = getattr(corpus, name).collect()
            found = run(views, dialect, f'SELECT * FROM "{name}"')
            assert found.columns == table.columns, (dialect, name)
            assert rows(found) == rows(table), (dialect, name)


def write(path: Path, *documents: dict[str, Any], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents) + tail)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    ot.generate(tmp_path / "runs.jsonl", traces=24, seed=0)
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('noise\n{"trace_id": 3}\n')
    return tmp_path / "runs.jsonl"


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    ot.ingest(runs, tmp_path / "corpus", partitions=3)
    return tmp_path / "corpus"


def test_views_are_the_tables(folder: Path) -> None:
    check(folder)
    assert ot.read_corpus(folder).quarantine.collect().height == 2


def test_tables_without_rows_have_the_types_of_the_tables(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    ot.ingest(tmp_path / "none.jsonl", tmp_path / "empty", partitions=1)
    corpus = ot.read_corpus(tmp_path / "empty")
    views = ot.disk.sql_views(corpus, dialect="polars")
    for name in SCHEMAS:
        found = run(views, "polars", f'SELECT * FROM "{name}"')
        expected = {
            column: pl.String() if isinstance(kind, pl.Enum | pl.Categorical) else kind
            for column, kind in getattr(corpus, name).collect_schema().items()
        }
        assert found.height == 0 and dict(found.schema) == expected
    check(tmp_path / "empty")


def test_files_with_other_columns_make_one_view(runs: Path, folder: Path, tmp_path: Path) -> None:
    event = {"t": 1, "agent": "a", "type": "message", "t_end": 2.5, "draft_score": 0.5, "privileged": True}
    document = on_disk.document("late", 2)
    document["events"][0] |= event
    ot.ingest([runs, write(tmp_path / "more.jsonl", document)], folder)
    views = ot.disk.sql_views(ot.read_corpus(folder))
    assert views.count("UNION ALL") > 0 and 'CAST(NULL AS DOUBLE) AS "draft_score"' in views
    check(folder)


def test_lifted_fields_are_columns(tmp_path: Path) -> None:
    document = on_disk.document("one", 3)
    document["events"][1]['the "remark"'] = "it's; fine"
    document["events"][2] |= {"task_id": "of the event", "part": "not of the path"}
    path = write(tmp_path / "runs.jsonl", document, on_disk.document("two", 3))
    fields = {'the "remark"': pl.String(), "task_id": pl.String(), "part": pl.String()}
    ot.ingest(path, tmp_path / "corpus", fields=fields)
    check(tmp_path / "corpus")
    for dialect in DIALECTS:
        views = ot.disk.sql_views(ot.read_corpus(tmp_path / "corpus"), dialect=dialect)
        query = (
            'SELECT "the ""remark""" AS r, task_id FROM named_events WHERE trace_id = \'one\' ORDER BY seq'
        )
        found = run(views, dialect, query)
        assert found["r"].to_list() == [None, "it's; fine", None]
        assert found["task_id"].to_list() == ["task"] * 3, "that of the trace"


def test_fields_that_differ_in_case_are_refused_where_the_engine_does_not_see_it(tmp_path: Path) -> None:
    document = on_disk.document("one", 2)
    document["events"][0] |= {"Agent": "x"}
    path = write(tmp_path / "runs.jsonl", document)
    ot.ingest(path, tmp_path / "corpus", fields={"Agent": pl.String()})
    corpus = ot.read_corpus(tmp_path / "corpus")
    with pytest.raises(ot.ParameterError, match="'agent' and 'Agent' differ in case alone"):
        ot.disk.sql_views(corpus)
    found = run(ot.disk.sql_views(corpus, dialect="polars"), "polars", 'SELECT "Agent" FROM events')
    assert sorted(map(str, found["Agent"])) == ["None", "x"]


def test_rows_that_a_later_ingest_replaced_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "a.jsonl", *(on_disk.document(f"a{n}", 3) for n in range(6)), tail="noise\n")
    other = write(tmp_path / "b.jsonl", *(on_disk.document(f"b{n}", 2) for n in range(4)), tail="noise\n")
    blamed = write(tmp_path / "c.jsonl", *(on_disk.blamed(f"c{n}", n % 4) for n in range(5)))
    inputs = [first, other, blamed]
    monkeypatch.setattr(work, "merge", lambda *_arguments, **_options: None)
    ot.ingest(inputs, tmp_path / "corpus", partitions=2)
    write(first, *(on_disk.document(f"a{n}", 4) for n in (0, 2, 5)), tail="other noise\n" * 2)
    write(blamed, *(on_disk.blamed(f"c{n}", 3) for n in (1, 3)))
    ot.ingest(inputs, tmp_path / "corpus")
    corpus = ot.read_corpus(tmp_path / "corpus")
    manifest = corpus._manifest  # type: ignore[attr-defined]
    outdated = [part for parts in manifest.parts.values() for part in parts if manifest.outdated(part)]
    assert outdated and len(corpus) == 9, "otherwise this shows nothing"
    assert any("labels" in part.rows for part in outdated)
    assert any(manifest.outdated(part) for part in manifest.quarantine)
    assert "BETWEEN" in ot.disk.sql_views(corpus) and "NOT IN" in ot.disk.sql_views(corpus)
    check(tmp_path / "corpus")


def test_recordings_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    on_disk.write_recordings(tmp_path / "in", 900)
    ot.ingest(tmp_path / "in", tmp_path / "corpus", fields=on_disk.FIELDS, partitions=4)
    check(tmp_path / "corpus")
    for table in ("labels", "findings", "quarantine"):
        assert getattr(ot.read_corpus(tmp_path / "corpus"), table).collect().height, table


def test_a_corpus_without_rows_has_all_views(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text("noise\n")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    check(tmp_path / "corpus")


NAMES = (
    *("it's", 'say "hi"', "50% of %20 %s", "läuft ✓", "a b", "semi;colon", "semi;\ncolon\n;\n", "-- x", "*x"),
    *("all*", "[1]", "[!a]?", "{a,b}", "back\\slash", "~", "$HOME", "part=9", "trace=5", "tab\there", "**"),
)


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora that names would find if they were patterns."""
    folder = tmp_path_factory.mktemp("names")
    runs = write(folder / "theirs.jsonl", on_disk.document("theirs", 2))
    for name in ("allies", "1", "bx", "a", "b", "50", "xx"):
        ot.ingest(runs, folder / name)
    write(folder / "mine.jsonl", on_disk.document("mine", 3))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_names_of_folders_stand_for_themselves(name: str, neighbours: Path) -> None:
    ot.ingest(neighbours / "mine.jsonl", neighbours / name)
    corpus = ot.read_corpus(neighbours / name)
    for dialect in DIALECTS:
        views = ot.disk.sql_views(corpus, dialect=dialect)
        assert run(views, dialect, "SELECT trace_id FROM named_events")["trace_id"].to_list() == ["mine"] * 3


def test_what_a_dialect_cannot_name_is_refused(tmp_path: Path) -> None:
    runs = write(tmp_path / "runs.jsonl", on_disk.document("mine", 3))
    ot.ingest(runs, tmp_path / "both\\of[them]")
    corpus = ot.read_corpus(tmp_path / "both\\of[them]")
    with pytest.raises(
        ot.ParameterError, match=r"a backslash beside one of \[\*\?, which DuckDB cannot name"
    ):
        ot.disk.sql_views(corpus)
    found = run(ot.disk.sql_views(corpus, dialect="polars"), "polars", "SELECT COUNT(*) AS n FROM events")
    assert found.item() == 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_joined_views_against_plain_python(folder: Path, dialect: str) -> None:
    corpus = ot.read_corpus(folder)
    views = ot.disk.sql_views(corpus, dialect=dialect)
    traces = {row["trace"]: row for row in corpus.traces.collect().iter_rows(named=True)}
    events = list(corpus.events.collect().iter_rows(named=True))
    by_place = {(one["trace"], one["seq"]): one for one in events}

    shown = run(
        views, dialect, "SELECT trace_id, task_id, importer, trace, seq, agent, tool FROM named_events"
    )
    assert sorted(map(repr, shown.rows())) == sorted(
        repr(
            (
                *(traces[one["trace"]][name] for name in ("trace_id", "task_id", "importer")),
                *(one[name] for name in ("trace", "seq", "agent", "tool")),
            )
        )
        for one in events
    )

    shown = run(
        views, dialect, "SELECT trace_id, type, src_id, src_agent, dst_id, dst_agent FROM named_edges"
    )
    assert sorted(map(repr, shown.rows())) == sorted(
        repr(
            (
                *(traces[one["trace"]]["trace_id"], one["type"]),
                *(by_place[one["trace"], one["src"]][name] for name in ("id", "agent")),
                *(by_place[one["trace"], one["dst"]][name] for name in ("id", "agent")),
            )
        )
        for one in corpus.edges.collect().iter_rows(named=True)
    )

    rewards = [
        (traces[one["trace"]]["trace_id"], one["name"], one["value"])
        for one in corpus.measures.collect().iter_rows(named=True)
        if one["kind"] == "reward"
    ]
    shown = run(views, dialect, "SELECT trace_id, channel, value FROM rewards")
    assert sorted(shown.rows()) == sorted(rewards)
    failed = sorted((trace_id, value) for trace_id, name, value in rewards if name == "team" and value < 1.0)
    shown = run(views, dialect, "SELECT trace_id, reward FROM failed_traces")
    assert failed and sorted(shown.rows()) == failed

    usage: dict[tuple[str, str], list[Any]] = {}
    for one in events:
        spent = usage.setdefault((traces[one["trace"]]["trace_id"], one["agent"]), [0, None, None])
        spent[0] += 1
        for place, name in ((1, "tokens"), (2, "cost_usd")):
            if one[name] is not None:
                spent[place] = (spent[place] or 0) + one[name]
    shown = run(views, dialect, "SELECT trace_id, agent, n_events, tokens, cost_usd FROM agent_usage")
    expected = pl.DataFrame(
        [(*key, *spent) for key, spent in usage.items()], schema=shown.schema, orient="row"
    )
    assert_frame_equal(shown, expected, check_row_order=False, check_dtypes=False)
    assert expected["tokens"].null_count() and expected["cost_usd"].null_count() < expected.height


def test_only_a_corpus_on_disk_as_it_lies_there_has_views(folder: Path) -> None:
    with pytest.raises(ot.ParameterError, match="corpus is in memory, expected one on disk"):
        ot.disk.sql_views(ot.generate(traces=2, seed=0))
    corpus = ot.read_corpus(folder)
    scores = corpus.traces.select("trace", score=pl.lit(1.0)).collect()
    for changed in (corpus.filter(pl.col("trace") < 3), corpus.with_measures(scores)):
        with pytest.raises(ot.ParameterError, match="the corpus is filtered, or changed by"):
            ot.disk.sql_views(changed)
    with pytest.raises(ot.ParameterError, match="dialect is 'sqlite', expected 'duckdb' or 'polars'"):
        ot.disk.sql_views(corpus, dialect="sqlite")
    corpus._manifest.schema_version = "1.0"  # type: ignore[attr-defined]
    with pytest.raises(ot.SchemaError, match=r"schema version '1\.0', expected 1\.1 or a later one"):
        ot.disk.sql_views(corpus)


def test_a_file_that_is_gone_is_one_line(folder: Path) -> None:
    next(folder.glob("part=*/events/*.parquet")).unlink()
    with pytest.raises(ot.InputError, match=r"is damaged \(events of partition \d+\): it is gone"):
        ot.disk.sql_views(ot.read_corpus(folder))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_views_work_from_any_folder(
    folder: Path, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    views = ot.disk.sql_views(ot.read_corpus("corpus"), dialect=dialect)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(views, dialect, "SELECT COUNT(*) AS n FROM traces").item() == 24
