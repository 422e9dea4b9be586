"""Output that goes to a pipe or a file: lines of 120 cells at most, and a word on what is left out."""

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

import orchestrace as ot
from cli.commands import RUN, recordings, run
from cli.test_stopping import scored
from cli.test_tables import ANSWERS
from orchestrace.base.terminal import PIPED
from orchestrace.cli import app
from orchestrace.corpus.samples import samples_path
from scaling.test_survey import log_text, pool_text

OF_ATTEMPTS = ["ATTEMPTS", "--source", "attempt"]
COMMANDS: dict[str, list[str]] = {
    **{name: words for name, (words, _) in ANSWERS.items()},
    "credit of events": ["credit", "RUNS"],
    "credit of a sum": ["credit", "RUNS", "--unit", "turn", "--method", "discounted", "-P", "gamma=0.97"],
    "credit to a folder": ["credit", "RUNS", "--sink", "sink"],
    "compare all": ["compare", "RUNS"],
    "codes of one": ["codes", "graph.cycle"],
    "demo": ["demo", "-o", "demo"],
    "export": ["export", "RUNS", "--to", "jsonl", "-o", "out.jsonl"],
    "list of exports": ["export", "--list"],
    "generate": ["generate", "made.jsonl", "--traces", "3"],
    "ingest": ["ingest", "RUNS", "-o", "corpus"],
    "mapping check": ["mapping", "check", "map.json", "house.jsonl"],
    "plan": ["plan", "CORPUS", "taint", "-o", "another"],
    "run-task": ["run-task", "PLAN", "0"],
    "reduce": ["reduce", "PLAN"],
    "quarantined": ["quarantined", "BROKEN", "-o", "rejects.jsonl"],
    "validate": ["validate", "RUNS"],
    "report of broken lines": ["report", "BROKEN"],
    "slots": ["replay", "RUNS", "--each", "agent", "--slots", "1,2,none"],
    "story": ["story", "RUNS"],
    "stopping epochs": ["stopping", "epochs", "STOPS"],
    "stopping evaluate": ["stopping", "evaluate", *OF_ATTEMPTS],
    "stopping frontier": ["stopping", "frontier", *OF_ATTEMPTS, "--price", "0", "--price", "0.1"],
    "stopping regret": ["stopping", "regret", *OF_ATTEMPTS],
    "stopping abort": ["stopping", "abort", "STOPS"],
    "survey": ["survey", "SURVEY"],
    "view": ["view", "RUNS", "-o", "page.html"],
}
APART = {
    "study run": "tests/cli/test_cli_study.py",
    "study report": "prints a path a line",
    "study downscale": "prints a path a line",
}
"""Commands that are tried elsewhere, or print what is never folded."""
LONG = "a name of an agent that somebody wrote as if it were a sentence of a novel, which ends only here"


def named() -> set[str]:
    """All commands, those of groups with the name of the group."""
    found = set()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {name} if inner is None else {f"{name} {one}" for one in inner}
    return found


def test_every_command_is_tried() -> None:
    tried = {
        " ".join(words[: 2 if words[0] in ("stopping", "mapping") else 1]) for words in COMMANDS.values()
    }
    assert named() - tried - APART.keys() == set()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("p")
    broken = recordings(folder)
    broken.write_text(broken.read_text() + '{"trace_id": 3}\n{"trace_id": "y", "events": [{}]}\nnoise\n')
    stops = scored(folder / "stops.jsonl", 80)
    ot.generate(folder / "attempts.jsonl", traces=64, seed=0)
    ot.ingest(samples_path(), folder / "corpus")
    ot.distributed.plan(folder / "corpus", "taint", folder=folder / "plan")
    survey = folder / "survey"
    survey.mkdir()
    (survey / "papers.csv").write_text(pool_text())
    (survey / "excluded.csv").write_text(log_text())
    return {
        "BROKEN": str(broken),
        "STOPS": str(stops),
        "ATTEMPTS": str(folder / "attempts.jsonl"),
        "CORPUS": str(folder / "corpus"),
        "PLAN": str(folder / "plan"),
        "SURVEY": str(survey),
    }


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
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_has_more_than_120_cells(
    name: str, names: str, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {**places, "RUNS": "runs.jsonl"}
    (long_names(tmp_path) if names == "long" else recordings(tmp_path, count=1)).rename("runs.jsonl")
    if names == "samples":
        words["RUNS"] = "samples"
        Path("samples").symlink_to(samples_path())
    Path("map.json").write_text(
        '{"trace": {"id": "/run"}, "steps": "/steps", "step": {"id": "/id", "kind": "/k"}}'
    )
    step = {"id": "s" * 200, "k": "message", "what is " * 30: 1}
    Path("house.jsonl").write_text(json.dumps({"run": "r", "steps": [step], "more": {LONG: 1}}) + "\n")
    asked = [words.get(word, word) for word in COMMANDS[name]]
    if names == "long" and name == "explain":
        asked = ["explain", "runs.jsonl", "--id", "w" * 120, "--trace", "0"]
    result = run(*asked, columns=None, code=1 if name == "validate" and names == "samples" else 0)
    # what repeats a path that somebody gave is a command to copy, or names a file: a word is never cut
    lines = [line for line in result.stdout.splitlines() if not line.lstrip().startswith(("$ ", "wrote "))]
    assert lines or result.stdout
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
    tables = run("report", path, columns=None)
    assert tables.stderr == "" or tables.stderr.splitlines()[-1].endswith("for all: --json")


def test_ids_of_44_cells_are_whole_and_longer_ones_that_are_cut_are_said(tmp_path: Path) -> None:
    whole = recordings(tmp_path)
    ids = ot.read_traces(whole).traces.select("trace_id").collect()["trace_id"].to_list()
    shown = run("taint", whole, columns=None)
    assert [line.split()[0] for line in shown.stdout.splitlines()[2:5]] == ids
    assert "cut" not in shown.stderr and len(ids[0]) == 44
    cut = run("taint", long_names(tmp_path), columns=None)
    assert "long values cut in trace_id" in cut.stderr and "…" in cut.stdout
