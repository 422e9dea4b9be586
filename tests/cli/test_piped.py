"""Output that goes to a pipe or a file: lines of 120 cells at most, and a word on what is left out."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

import orchestrace as ot
from cli.commands import RUN, recordings, run
from cli.examples import EXAMPLES, lay_out, words
from orchestrace.base.terminal import PIPED

LONG = "a name of an agent that somebody wrote as if it were a sentence of a novel, which ends only here"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {names: tmp_path_factory.mktemp(names) for names in ("long", "samples")}
    for names, folder in made.items():
        lay_out(folder, names)
    long_names(made["long"]).replace(made["long"] / "runs.jsonl")
    return made


def long_names(folder: Path) -> Path:
    """Recordings in which everything that has a name has a long one, ids of 120 cells included."""
    path = folder / "long.jsonl"
    name = {"lead": f"lead: {LONG}", "w": "w" * 120}
    events = [
        one
        | {"agent": name[str(one["agent"])], "id": f"{one['id']}-{'i' * 100}"}
        | ({"to": name["w"]} if "to" in one else {})
        | ({"tool": "mcp__" + "t" * 90} if "tool" in one else {})
        for one in RUN["events"]  # type: ignore[attr-defined]
    ]
    edges = [
        one | {"src": f"{one['src']}-{'i' * 100}", "dst": f"{one['dst']}-{'i' * 100}"}
        for one in RUN["edges"]  # type: ignore[attr-defined]
    ]
    runs = [
        RUN
        | {"trace_id": f"{n}-" + "x" * 130, "task_id": f"{n % 2} {LONG}", "system": LONG}
        | {"events": events, "edges": edges, "rewards": {"team": n % 2, LONG: 0.5}}
        for n in range(6)
    ]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


@pytest.mark.every_nth(2)
@pytest.mark.parametrize("names", ["long", "samples"])
@pytest.mark.parametrize("line", EXAMPLES)
def test_no_line_has_more_than_120_cells(
    line: str, names: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folders[names], tmp_path / "p", symlinks=True)
    monkeypatch.chdir(tmp_path / "p")
    broken = names == "samples" and line == "validate runs.jsonl"
    result = run(*words(line, Path()), columns=None, code=1 if broken else 0)
    # what repeats a path that somebody gave is a command to copy, or names a file: a word is never cut
    lines = [line for line in result.stdout.splitlines() if not line.lstrip().startswith(("$ ", "wrote "))]
    # a server writes answers alone
    assert lines or result.stdout or line.startswith("mcp ")
    assert max(map(cell_len, lines), default=0) <= PIPED, max(lines, key=cell_len)
    assert "params" not in {word for line in lines for word in line.split()}


def test_what_is_left_out_is_said_on_stderr_and_found_by_what_it_says(tmp_path: Path) -> None:
    path = recordings(tmp_path)
    result = run("credit", path, "--unit", "agent", columns=None)
    header = result.stdout.splitlines()[1].split()
    frame = ot.credit(ot.read_traces(path), unit="agent")
    assert {"params", "residual"} <= set(frame.columns) - set(header)
    (line,) = result.stderr.splitlines()
    assert line.endswith("more columns; for all: --csv, or --columns NAME,...")
    listed, *rows = csv.reader(
        io.StringIO(run("credit", path, "--unit", "agent", "--csv", columns=None).stdout)
    )
    assert listed == frame.columns and len(rows) == frame.height
    chosen = run("credit", path, "--unit", "agent", "--columns", "unit_id,params", columns=None)
    assert chosen.stderr == "" and chosen.stdout.splitlines()[1].split() == ["unit_id", "params"]
    assert frame["params"][0] in chosen.stdout
    tables = run("describe", path, columns=None)
    assert tables.stderr == "" or tables.stderr.splitlines()[-1].endswith("for all: --json")


def test_ids_of_44_cells_are_whole_and_longer_ones_that_are_cut_are_said(tmp_path: Path) -> None:
    whole = recordings(tmp_path)
    ids = ot.read_traces(whole).traces.select("trace_id").collect()["trace_id"].to_list()
    shown = run("taint", whole, columns=None)
    assert [line.split()[0] for line in shown.stdout.splitlines()[2:5]] == ids
    assert "cut" not in shown.stderr and len(ids[0]) == 44
    cut = run("taint", long_names(tmp_path), columns=None)
    assert "long values cut in trace_id" in cut.stderr and "…" in cut.stdout
