"""Tables of the command: 80 columns show the answer, and options choose the rest."""

import csv
import io
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

import orchestrace as ot
from cli.commands import RUN, error_line, recordings, run
from cli.examples import MODULES, lay_out, tables_of, words
from orchestrace.base.terminal import Table, cell_text, flat, lay_out as lay_out_rows
from samples.examples import examples

# --- what a terminal of 80 columns shows ------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The samples have several tasks and no costs, the recordings costs."""
    made = {kind: tmp_path_factory.mktemp(kind) for kind in ("recordings", "samples")}
    for kind, folder in made.items():
        lay_out(folder, kind)
    return made


@pytest.mark.parametrize("name", [name for name, module in MODULES.items() if tables_of(module)])
def test_80_columns_show_the_answer(
    name: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a module declares of a table is of the frame that it gives, and its answer is there in full."""
    laid: list[tuple[list[str], pl.DataFrame, Table]] = []

    def spied(frame: pl.DataFrame, first: Sequence[str] = (), **options: Any) -> Table:
        laid.append((list(first), frame, lay_out_rows(frame, first, **options)))
        return laid[-1][2]

    monkeypatch.setattr("orchestrace.cli.tables.lay_out", spied)
    for kind, folder in folders.items():
        here = tmp_path / kind
        shutil.copytree(folder, here, symlinks=True)
        monkeypatch.chdir(here)
        for line in MODULES[name].EXAMPLES:
            before = len(laid)
            shown = run(*words(line, here)).stdout
            lines = [one for one in shown.splitlines() if not one.lstrip().startswith("$ ")]
            assert len(laid) == before or max(map(cell_len, lines)) <= 80, shown
    for columns in tables_of(MODULES[name]):
        tables = [(frame, table) for first, frame, table in laid if first == columns.names]
        assert len(set(columns.names)) == len(columns.names), columns
        assert set(columns.names) <= {column for frame, _ in tables for column in frame.columns}, columns
        answer, seen = set(columns.answer.split()), set()
        for frame, table in tables:
            there = {*table.header.split(), *table.constants}
            empty = {column for column in answer & {*frame.columns} if not frame[column].count()}
            assert (answer & {*frame.columns}) - empty <= there, (columns, frame.columns, table)
            seen |= there
        assert len(answer & seen) >= 3, columns


def test_the_summary_of_every_method_is_there_in_full() -> None:
    shown = run("methods", "--limit", "100").stdout
    words = " ".join(shown.split())
    for name, summary in ot.list_methods().select("name", "summary").rows():
        assert name in words
        assert all(word in shown for word in summary.split()), summary
    assert "more columns: --columns " in shown and "reference" in shown.partition("more columns")[2]


# --- options ----------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return recordings(tmp_path)


def rows_of(shown: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(shown)))


def test_columns_are_chosen_sorted_and_limited(path: Path) -> None:
    asked = ["metrics", path, "--by", "agent", "--columns", "agent,work,trace", "--sort", "-work,trace"]
    shown = run(*asked, "--limit", "2").stdout.splitlines()
    assert shown[0] == "metrics by agent: 6 rows" and shown[1].split() == ["agent", "work", "trace"]
    assert len([line for line in shown[2:4] if line]) == 2 and "4 more rows: --limit N or --csv" in shown[4]
    header, *rows = rows_of(run(*asked, "--csv").stdout)
    assert header == ["agent", "work", "trace"] and len(rows) == 6
    work = [float(row[1]) for row in rows if row[1]]
    assert work == sorted(work, reverse=True) and work[0] > work[-1]
    table = json.loads(run(*asked, "--limit", "1", "--json").stdout)
    assert table == [{"agent": rows[0][0], "work": work[0], "trace": int(rows[0][2])}]
    run(*asked, "-o", path.parent / "out.parquet")
    assert pl.read_parquet(path.parent / "out.parquet").columns == header


def test_csv_has_every_row_every_column_and_lists_as_json(path: Path) -> None:
    header, *rows = rows_of(run("taint", path, "--csv").stdout)
    frame = ot.taint(ot.read_traces(path))
    assert header == frame.columns and len(rows) == frame.height
    place = header.index("path")
    assert [json.loads(row[place]) if row[place] else None for row in rows] == frame["path"].to_list()
    header, *rows = rows_of(run("metrics", path, "--by", "agent", "--csv").stdout)
    reasons = [json.loads(row[header.index("reason")]) for row in rows]
    assert reasons == ot.metrics(ot.read_traces(path), by="agent")["reason"].to_list()


def test_from_an_untrusted_tool_to_a_privileged_one_is_one_question(tmp_path: Path) -> None:
    shell = {"id": "shell", "t": 6, "type": "tool_call", "agent": "w", "tool": "bash"}
    read = {"id": "read", "t": 4, "type": "tool_result", "agent": "w", "tool": "read", "trusted": False}
    edges = [("call", "found"), ("found", "shell"), ("read", "end"), ("shell", "end")]
    path = recordings(
        tmp_path,
        count=1,
        events=[*RUN["events"], shell, read],
        edges=[{"src": src, "dst": dst, "type": "causal"} for src, dst in edges],
    )
    ways = ["--untrusted-tool", "w?b", "--trusted-tool", "*", "--privileged-tool", "ba*"]
    shown = run("taint", path, *ways).stdout
    assert "n_tainted_privileged" in shown and "[found, shell]" in shown
    (row,) = json.loads(run("taint", path, *ways, "--json").stdout)
    assert (row["n_seeds"], row["n_tainted_privileged"], row["privileged_path"]) == (1, 1, ["found", "shell"])
    assert json.loads(run("taint", path, "--json").stdout)[0]["n_seeds"] == 2
    assert json.loads(run("taint", path, "--cut", "--trusted-tool", "*", "--json").stdout) == []
    for option in ("--untrusted-tool", "--trusted-tool", "--privileged-tool"):
        error = error_line(run("taint", path, option, "bask*", code=2))
        assert "unknown tool 'bask*'" in error and "(known: bash, read, web)" in error
    error = error_line(run("taint", path, "--cut", "--privileged-tool", "bash", code=2))
    assert error.startswith("--privileged-tool has no effect with --cut")


def test_lists_are_printed_as_lists(path: Path) -> None:
    shown = run("taint", path).stdout
    assert "[found, end]" in shown and "Series" not in shown and "shape" not in shown


def test_where_output_is_no_terminal_no_row_is_left_out(tmp_path: Path) -> None:
    path = recordings(tmp_path, count=60)
    lines = run("metrics", path, "--by", "trace", columns=None).stdout.splitlines()
    assert lines[0] == "metrics by trace: 60 rows"
    assert lines[1].split()[:4] == ["trace_id", "n_events", "n_agents", "tokens"]
    ids = ot.metrics(ot.read_traces(path))["trace_id"].to_list()
    assert [line.split()[0] for line in lines[2:62]] == ids
    on_terminal = run("metrics", path, "--by", "trace").stdout
    assert "10 more rows: --limit N or --csv" in on_terminal and ids[50] not in on_terminal


def test_columns_that_do_not_fit_are_named(path: Path) -> None:
    note = next(
        line for line in run("metrics", path, "--by", "agent").stdout.splitlines() if "more col" in line
    )
    assert note.endswith(",... or --csv") and len(note) <= 80
    named = note.partition("--columns ")[2].removesuffix(",... or --csv").split(",")
    assert named and set(named) <= set(ot.metrics(ot.read_traces(path), by="agent").columns)
    assert run("metrics", path, "--by", "agent", "--columns", ",".join(named)).stdout.splitlines()[1].split()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "agent,wrok"], "unknown column 'wrok'; did you mean 'work'? (known: trace, trace_id,"),
        (["--sort", "-wrok"], "unknown column 'wrok'; did you mean 'work'?"),
        (["--csv", "--json"], "--csv and --json are two forms of one output: give one of them"),
    ],
)
def test_options_of_tables_that_make_no_sense_are_said(path: Path, options: list[str], message: str) -> None:
    assert message in error_line(run("metrics", path, "--by", "agent", *options, code=2))


# --- layout -----------------------------------------------------------------------------------------------


def test_texts_are_cut_in_the_middle_folded_or_left_alone() -> None:
    frame = pl.DataFrame(
        {
            "id": ["toolu_014VdYw2bSSpVvX1aUqdJ1Yo", "call_0123456789abcdef"],
            "what": ["one two three four five six seven eight nine ten", "short"],
            "n": [1234567.891, 0.00012345],
            "same": ["x", "x"],
        }
    )
    table = lay_out_rows(frame, ["id", "what", "n", "same"], width=50)
    assert table.constants == {"same": "x"} and table.hidden == [] and table.empty == 0
    assert table.header.split() == ["id", "what", "n"]
    assert (
        table.rows[0].startswith("toolu_") and "…" in table.rows[0].split()[0] and "1234568" in table.rows[0]
    )
    assert " ".join(" ".join(row[14:40] for row in table.rows[:3]).split()).startswith("one two three")
    assert lay_out_rows(frame, width=None).rows[0].split()[0] == "toolu_014VdYw2bSSpVvX1aUqdJ1Yo"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.123456, "0.1235"),
        (1_674_900.25, "1674900"),
        (-4.1e-13, "-4.1e-13"),
        (float("inf"), "inf"),
        (12345678, "12345678"),
        (True, "true"),
        (["a", 1.23456, None], "[a, 1.235, ]"),
        (pl.Series(["a", "b"]), "[a, b]"),
        ({"tokens": "field.absent", "work": None}, "tokens: field.absent"),
        ("\x1b[31mred\n", "\\x1b[31mred\\n"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text


some_words = st.text(st.characters(codec="utf-8"), max_size=60)
values: dict[str, st.SearchStrategy[list[object]]] = {
    "text": st.lists(st.none() | some_words, min_size=3, max_size=3),
    "float": st.lists(st.none() | st.floats(), min_size=3, max_size=3),
    "list": st.lists(st.none() | st.lists(some_words, max_size=3), min_size=3, max_size=3),
}
some_columns = st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=12)


@examples(150)
@given(st.data(), some_columns, st.integers(30, 200))
def test_no_line_is_wider_than_the_terminal(data: st.DataObject, kinds: list[str], width: int) -> None:
    types = {"text": pl.String, "float": pl.Float64, "list": pl.List(pl.String)}
    frame = pl.DataFrame(
        [pl.Series(f"{kind}{n}", data.draw(values[kind]), types[kind]) for n, kind in enumerate(kinds)]
    )
    first = frame.columns[: data.draw(st.integers(0, len(kinds)))]
    table = lay_out_rows(frame, first, width=width)
    for line in (table.header, *table.rows):
        assert cell_len(line) <= width and line.isprintable()
    shown = {*table.header.split(), *table.constants, *table.hidden}
    constant = [
        name for name in frame.columns if frame[name].dtype != pl.List and frame[name].n_unique() == 1
    ]
    assert len(shown) + table.empty == frame.width
    assert set(table.constants) <= set(constant)


@examples(100)
@given(st.lists(st.tuples(some_words, st.lists(some_words, max_size=3)), max_size=5))
def test_csv_comes_back(rows: list[tuple[str, list[str]]]) -> None:
    frame = pl.DataFrame(
        {"id": [row[0] for row in rows], "path": [row[1] for row in rows]},
        schema={"id": pl.String, "path": pl.List(pl.String)},
    )
    written = flat(frame).write_csv()
    assert all(line.isprintable() for line in written.splitlines())
    _, *back = rows_of(written)
    assert [json.loads(row[1]) for row in back] == [row[1] for row in rows]


COMMANDS: list[Callable[[Path], list[object]]] = [
    lambda path: ["credit", path, "--unit", "agent"],
    lambda path: ["metrics", path],
    lambda path: ["replay", path, "--each", "agent"],
    lambda path: ["methods"],
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_forms_for_programs_hold_nothing_else(
    path: Path, command: Callable[[Path], list[object]], form: str
) -> None:
    result = run(*command(path), form)
    parsed = json.loads(result.stdout) if form == "--json" else rows_of(result.stdout)
    assert len(parsed) > 1 and result.stderr == ""
