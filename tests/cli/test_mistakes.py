"""Mistakes at the command: one line each, which names what was wrong by words that the command knows."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import orchestrace as ot
from cli.commands import error_line, recordings, run
from cli.examples import commands
from cli.test_stopping import scored
from orchestrace.cli import app
from orchestrace.cli.options import StrictOptions
from orchestrace.cli.tables import TableOptions

MISTAKES: list[tuple[str, int, str]] = [
    ("diff runs.jsonl", 2, "name two of them with --run-a and --run-b, or give other recordings"),
    ("diff runs.jsonl --run-a 0 --run-b nobody", 2, "--run-b is 'nobody', which is no run of"),
    ("diff runs.jsonl many.jsonl --run-a 0", 2, "one run is named and the other is not"),
    (
        "diff runs.jsonl --run-a 0 --run-b 1 --key forms",
        2,
        "unknown word for --key 'forms' (known: shape, exact)",
    ),
    ("diff runs.jsonl many.jsonl --page two.html", 2, "--page shows two runs of one input"),
    ("branches runs.jsonl --alpha 2", 2, "alpha"),
    ("blame runs.jsonl --calibrate many.jsonl", 2, "calibration has no labels of its runs"),
    ("blame runs.jsonl --calibrate many.jsonl --level turn", 2, "unknown word for --level 'turn'"),
    ("blame runs.jsonl --calibrate many.jsonl --by colour", 2, "by is 'colour', expected 'length'"),
    ("gate runs.jsonl runs.jsonl --margin success=abc", 4, "--margin has 'abc', expected a number"),
    ("grep ( runs.jsonl", 2, 'pattern is "(", expected a regular expression'),
    ("grep a* runs.jsonl", 2, "it matches the empty text"),
    ("grep a runs.jsonl -m 0", 2, "invalid value for '--max-count'"),
    ("grep a runs.jsonl -c --csv", 2, "--count prints one number"),
    ("grep a runs.jsonl -c -m 2", 2, "--max-count has no effect with --count"),
    ("grep a corpus --format native", 2, "--format and --mapping apply when a corpus is made"),
    ("grep a nothing.jsonl", 1, "no such file or folder: 'nothing.jsonl'"),
    # what is read
    ("credit nothing.jsonl", 1, "no such file or folder: 'nothing.jsonl'"),
    ("credit runs.json", 1, "did you mean 'runs.jsonl'?"),
    ("credit none/*.jsonl", 1, "no file matches 'none/*.jsonl'"),
    ("metrics empty", 1, "no recording (.eval, .json, .jsonl"),
    ("metrics notes", 1, "it has 1 file of other kinds, 'notes/a.txt' for one"),
    ("taint runs.jsonl --format natif", 2, "unknown format 'natif'; did you mean 'atif'?"),
    ("credit runs.jsonl --null-value score", 2, "--null-value 'score', expected NAME=NUMBER, as in"),
    ("credit runs.jsonl --null-value =1", 2, "--null-value '=1', expected NAME=NUMBER, as in 'score=-1'"),
    (
        "credit corpus --null-value score=-1",
        2,
        "--null-value applies when a corpus is made: give it to ingest",
    ),
    ("summary corpus --format native", 2, "--format applies when a corpus is made: give it to ingest"),
    ("credit runs.jsonl --mapping none.toml", 1, "none.toml: No such file or directory"),
    ("credit runs.jsonl --mapping bad.toml", 2, "bad.toml: Expected ']' at the end of a table declaration"),
    ("credit runs.jsonl --mapping runs.jsonl", 2, "mapping 'runs.jsonl' ends in '.jsonl', expected .toml or"),
    ("mapping check none.toml runs.jsonl", 1, "none.toml: No such file or directory"),
    ("survey notes", 1, "'notes' has no papers.csv"),
    ("study run study.toml -o out", 2, "study.toml: unknown key 'x'"),
    ("study report notes", 1, "folder 'notes' has no study: it lacks study.json"),
    # what is divided
    ("credit runs.jsonl --reward tema", 2, "unknown reward channel 'tema'; did you mean 'team'?"),
    ("credit runs.jsonl --reward team=x", 2, "reward 'team=x': 'x' is not a number"),
    ("credit runs.jsonl --reward team=1,form=1", 2, "repeat --reward for others"),
    ("credit runs.jsonl --rewards none.csv", 1, "none.csv: No such file or directory"),
    ("credit runs.jsonl --rewards bad.csv", 2, "bad.csv: found neither a column 'trace' nor 'trace_id'"),
    ("credit runs.jsonl --method flwo", 2, "unknown method 'flwo'; did you mean 'flow'?"),
    ("credit runs.jsonl --unit agnet", 2, "or 'token'; did you mean 'agent'?"),
    ("credit runs.jsonl -P retention", 2, "parameter 'retention', expected NAME=VALUE"),
    ("credit runs.jsonl -P retention=2", 2, "retention must be a number from 0.0 to 1.0, found 2"),
    ("credit runs.jsonl -P retantion=0", 2, "unknown parameter 'retantion'; did you mean 'retention'?"),
    ("credit runs.jsonl -P weights=[1,", 2, "weights"),
    ("credit runs.jsonl -P seed=3", 2, "'seed' is an option of its own"),
    ("compare runs.jsonl --method flow:ret=1", 2, "no method could be asked; flow: unknown parameter 'ret'"),
    ("explain runs.jsonl --id nobody", 2, "unknown unit 'nobody' (known: lead, w)"),
    ("explain runs.jsonl --id lead", 2, "3 traces have unit 'lead': give --trace, one of"),
    ("explain runs.jsonl", 2, "missing option '--id'; see root explain --help"),
    ("costs runs.jsonl --by colour", 2, "unknown word for --by 'colour' (known: model"),
    ("costs runs.jsonl --prices none.csv", 1, "'none.csv': No such file or directory"),
    ("costs runs.jsonl --prices runs.jsonl", 1, "'runs.jsonl'"),
    ("agents runs.jsonl --method colour", 2, "unknown method 'colour'"),
    ("agents runs.jsonl --reward colour", 2, "unknown reward channel 'colour'"),
    ("agents runs.jsonl --max-gap soon", 2, "--max-gap is 'soon'"),
    # numbers
    ("credit runs.jsonl --seed -1", 2, "invalid value for '--seed'"),
    ("credit runs.jsonl --seed x", 2, "invalid value for '--seed'"),
    ("credit runs.jsonl --threads 0", 2, "invalid value for '--threads'"),
    ("credit runs.jsonl --limit -1", 2, "invalid value for '--limit'"),
    ("view runs.jsonl --runs -1", 2, "invalid value for '--runs'"),
    ("generate new.jsonl --traces -3", 2, "invalid value for '--traces'"),
    ("generate new.jsonl --traces 3 --events 9", 2, "give --traces or --events, not both"),
    ("metrics runs.jsonl --max-gap soon", 2, "--max-gap is 'soon', expected a number, one with a unit"),
    ("metrics runs.jsonl --max-gap 5y", 2, "(30s, 5m, 1h, 2d)"),
    ("metrics runs.jsonl --max-gap -5m", 2, "--max-gap is '-5m'"),
    ("replay runs.jsonl --each agent --max-gap nan", 2, "--max-gap is 'nan'"),
    ("replay runs.jsonl --each agent --quorum 2", 2, "--quorum is 2.0, expected a number from 0 to below 1"),
    ("replay runs.jsonl --truncate -5", 2, "--truncate is -5.0, expected a number from 0"),
    ("replay runs.jsonl --truncate soon", 2, "--truncate: 'soon' is not a number"),
    ("replay runs.jsonl --speed-up tool=web:-2", 2, "--speed-up is -2, expected a number above 0"),
    ("replay runs.jsonl --speed-up tool=web:fast", 2, "'fast' is not a number"),
    ("replay runs.jsonl --slots 0", 2, "--slots has 0, expected a whole number from 1"),
    ("replay runs.jsonl --slots two", 2, "--slots 'two', expected whole numbers and none"),
    ("decisions runs.jsonl --bounds 0", 2, "--bounds '0', expected two numbers"),
    ("decisions runs.jsonl --bounds 1,0", 2, "--bounds is (1.0, 0.0), expected two numbers, the least first"),
    ("export runs.jsonl --window 5", 2, "--window is ['5'], expected two times"),
    ("ingest runs.jsonl -o new --memory lots", 2, "--memory is 'lots', expected a number of bytes"),
    ("ingest runs.jsonl -o new --max-error-ratio 2", 2, "--max-error-ratio is 2.0, expected a number from"),
    ("stopping abort stops.jsonl --alpha 2", 2, "--alpha is 2.0, expected a number between 0 and 1"),
    ("stopping abort stops.jsonl --success nan", 2, "--success is nan, expected a finite number"),
    ("stopping abort stops.jsonl --seed -1", 2, "--seed is -1, expected a whole number from 0"),
    ("stopping evaluate many.jsonl --price -1", 2, "invalid value for '--price'"),
    # words
    ("metrics runs.jsonl --by agents", 2, "unknown word for --by 'agents'; did you mean 'agent'?"),
    ("metrics runs.jsonl --group collab", 2, "unknown group of metrics 'collab'"),
    ("metrics runs.jsonl --by agent --group usage", 2, "groups cannot be chosen with --by agent"),
    ("rewards runs.jsonl --rule parll", 2, "unknown reward 'parll'; did you mean 'parl'?"),
    ("rewards runs.jsonl -P nope=1", 2, "--param applies to one rule: name it with --rule"),
    ("rewards runs.jsonl --channel outcome", 2, "--channel 'outcome', expected something like outcome=team"),
    ("decisions runs.jsonl --kind spwan", 2, "--kind is 'spwan', expected 'spawn', 'delegate',"),
    ("decisions runs.jsonl --source draft", 2, "--source is 'draft', but --kind is 'spawn'"),
    ("replay runs.jsonl", 2, "nothing to replay: give --drop, --each"),
    ("replay runs.jsonl --each agnet", 2, "--each is 'agnet', expected 'event', 'agent', 'role',"),
    ("replay runs.jsonl --drop lead", 2, "--drop 'lead', expected something like agent=NAME"),
    ("replay runs.jsonl --drop agent=nobody", 2, "unknown agent 'nobody' (known: lead, w)"),
    ("replay runs.jsonl --aggregate meen", 2, "'confidence'; did you mean 'mean'?"),
    ("replay runs.jsonl --drop agent=w --mode tree", 2, "--mode is 'tree', expected 'subtree' or 'node'"),
    ("audit dump.csv --group prompt", 2, "advantage: unknown column 'advantage'"),
    ("audit dump.csv --group prompt --advantage adv --reward prompt", 2, "column 'prompt' has type String"),
    ("audit none.csv", 1, "none.csv: No such file or directory"),
    ("audit runs.txt", 2, "expected a file of advantages: .csv, .parquet, .jsonl, .ndjson"),
    ("training runs.jsonl", 2, "no trace has the metric train_step: expected recordings that say"),
    ("training runs.jsonl --alpha 2", 2, "--alpha is 2.0, expected a number"),
    (
        "select runs.jsonl --for sftt",
        2,
        "unknown word for --for 'sftt'; did you mean 'sft'?",
    ),
    ("gate runs.jsonl runs.jsonl --metric sucess", 4, "unknown metric 'sucess'; did you mean 'success'?"),
    ("gate runs.jsonl runs.jsonl --broken drop", 4, "unknown word for --broken 'drop'"),
    ("gate runs.jsonl runs.jsonl --allow modl", 4, "unknown check 'modl'; did you mean 'model'?"),
    ("gate runs.jsonl runs.jsonl --looks 2 --look 3", 4, "--look is 3, expected a whole number from 1 to 2"),
    ("gate runs.jsonl runs.jsonl", 4, "are the same; to compare all the same, give --allow copies"),
    ("gate runs.jsonl none.jsonl", 4, "no such file or folder: 'none.jsonl'"),
    ("gate runs.jsonl", 4, "missing argument 'NEW'; see root gate --help"),
    ("mcp runs.jsonl", 1, "'runs.jsonl' is not a folder, expected one with recordings or corpora"),
    ("mcp", 2, "missing argument 'ROOT'; see root mcp --help"),
    ("sql corpus --dialect duckbd", 2, "unknown word for --dialect 'duckbd'; did you mean 'duckdb'?"),
    ("sql runs.jsonl", 1, "'runs.jsonl' is a file, expected the folder of a corpus; make one"),
    ("sql notes", 1, "no corpus in 'notes': it has no manifest.json; make one with ingest"),
    ("sql corpus -o there.html", 1, "'there.html' exists; give --force to replace it"),
    ("sql corpus -o no/such/out.sql", 1, "no/such/out.sql: No such file or directory; make the folder"),
    ("waste runs.jsonl --by tol", 2, "unknown word for --by 'tol'; did you mean 'tool'?"),
    ("waste runs.jsonl --reading-tool serch", 2, "unknown tool 'serch'"),
    ("failures runs.jsonl --all", 2, "--all has no effect without --each"),
    ("failures runs.jsonl --success nan", 2, "--success is nan, expected a finite number"),
    ("checklist runs.jsonl --share 0.5", 2, "--share has no effect without --benchmark"),
    ("checklist runs.jsonl --engine processes", 2, "--engine has no effect without --benchmark"),
    ("checklist runs.jsonl --benchmark --each --license MIT", 2, "--license has no effect on the counts"),
    ("checklist runs.jsonl --benchmark --share 2", 2, "--share is 2.0, expected a number"),
    ("checklist runs.jsonl --benchmark --width 0", 2, "--width is 0.0, expected a number"),
    ("select runs.jsonl --validation 2", 2, "--validation is 2.0, expected a number from 0 to 1"),
    ("select runs.jsonl --for rl --to runs.jsonl", 2, "'runs.jsonl' is a file, expected a folder"),
    ("taint runs.jsonl --vectors --cut", 2, "--cut and --vectors are two tables: drop one of them"),
    ("taint runs.jsonl --memory-tool web", 2, "--memory-tool has no effect without --vectors"),
    ("taint runs.jsonl --verifier lead", 2, "--verifier has no effect without --vectors"),
    ("checklist runs.jsonl --benchmark --width 1e-160", 2, "--width is 1e-160, expected a number"),
    ("checklist runs.jsonl --benchmark --license=", 2, "license is ''"),
    (
        "taint runs.jsonl --vectors --memory-tool wbe",
        2,
        "--memory-tool: unknown tool 'wbe'; did you mean 'web'?",
    ),
    ("taint runs.jsonl --carry everything", 2, "--carry is 'everything', expected 'all',"),
    ("taint runs.jsonl --untrusted-tool wbe", 2, "--untrusted-tool: unknown tool 'wbe'; did you mean 'web'?"),
    ("stopping abort stops.jsonl --source drft", 2, "--source is 'drft', expected 'draft', 'decision',"),
    ("stopping abort runs.jsonl", 2, "no run has a score at each point where it could be given up: name"),
    ("stopping abort many.jsonl --source turn", 2, "no run has a score at each point where it could be"),
    ("stopping evaluate runs.jsonl", 1, "ask --problem abort, or take epochs of a source with drafts"),
    ("stopping evaluate many.jsonl --source draft", 2, "no run has a point to stop at of --source draft"),
    ("stopping frontier many.jsonl", 2, "no price is given: --price 0 --price 0.05"),
    ("export runs.jsonl --to perfeto", 2, "unknown format 'perfeto'; did you mean 'perfetto'?"),
    ("export runs.jsonl --to mermaid", 2, "the corpus has 3 traces, expected one: give --trace"),
    ("export runs.jsonl --trace nope", 2, "no trace has the trace_id 'nope'"),
    ("codes graph.cycel", 2, "unknown code 'graph.cycel'; did you mean 'graph.cycle'?"),
    ("ingest runs.jsonl -o new --group nope", 2, "unknown grouping column of traces 'nope'"),
    ("view runs.jsonl --reward tema", 2, "unknown reward channel 'tema'; did you mean 'team'?"),
    ("view runs.jsonl --reward team=x", 2, "reward 'team=x': 'x' is not a number"),
    ("view runs.jsonl --trace nope", 2, "unknown trace_id 'nope'"),
    # tables
    ("credit runs.jsonl --columns untit", 2, "unknown column 'untit'; did you mean 'unit'?"),
    ("credit runs.jsonl --sort -untit", 2, "unknown column 'untit'; did you mean 'unit'?"),
    ("credit runs.jsonl --csv --json", 2, "--csv and --json are two forms of one output: give one of them"),
    # what is written
    ("credit runs.jsonl -o out.csv", 2, "output 'out.csv' must end in .parquet"),
    ("credit runs.jsonl -o there.parquet", 1, "'there.parquet' exists; give --force to replace it"),
    ("credit runs.jsonl -o no/such/out.parquet", 1, "no/such/out.parquet: No such file or directory; make"),
    ("credit runs.jsonl --sink notes --no-resume", 2, "folder 'notes' is not empty: choose another, or give"),
    ("credit runs.jsonl --sink notes", 2, "folder 'notes' is not empty, it has"),
    ("credit runs.jsonl --no-resume", 2, "--no-resume is of --sink: name the folder that has to be new"),
    ("ingest runs.jsonl -o notes", 2, "folder 'notes' is not empty and is not a corpus"),
    ("ingest runs.jsonl -o there.html", 1, "'there.html' is a file, expected a folder for the corpus"),
    ("view runs.jsonl -o there.html", 1, "'there.html' exists; give --force to replace it"),
    ("demo -o notes", 1, "the demo did not make folder 'notes'; give --force to write into it"),
    ("stopping frontier many.jsonl --price 0 --plot a.pdf", 2, "plot 'a.pdf' must end in one of .svg,"),
    # who computes
    ("credit runs.jsonl --engine spark", 2, "unknown engine 'spark' (known: processes, ray)"),
    ("credit runs.jsonl --engine processes", 2, "--engine processes divides a corpus on disk"),
    ("credit runs.jsonl --workers 2", 2, "--workers and --address are of --engine: name processes or ray"),
    ("plan runs.jsonl taint -o new", 1, "'runs.jsonl' is a file, expected the folder of a corpus; make one"),
    ("plan corpus tiant -o new", 2, "unknown verb of a plan 'tiant'; did you mean 'taint'?"),
    ("plan corpus taint -o new -O cary=all", 2, "has no argument 'cary'; did you mean 'carry'?"),
    ("plan corpus taint -o new -O carry=[", 2, "carry is '[', expected 'all', 'context' or"),
    ("run-task notes 0", 1, "it has no plan.json; make one with plan"),
    ("run-task plan 99", 2, "task 99 is not in the plan, which has 1 task from 0"),
    ("run-task plan x", 2, "task 'x', expected a number, or a range like 0-7"),
    ("reduce plan -o new.parquet", 1, "1 of 1 tasks of the plan in"),
    # commands
    ("creditt runs.jsonl", 2, "no such command 'creditt'. Did you mean 'credit'?; see root --help"),
    ("stopping epoch runs.jsonl", 2, "no such command 'epoch'. Did you mean 'epochs'?"),
    ("credit runs.jsonl --nope", 2, "no such option: --nope"),
    ("credit", 2, "missing argument 'PATH...'; see root credit --help"),
    ("importers nope", 2, "got unexpected extra argument(s) (nope); see root importers --help"),
    ("--nope", 2, "no such option: --nope"),
]
"""Words of a command, its exit code, and what its one line says."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    recordings(folder)
    scored(folder / "stops.jsonl", 40)
    ot.generate(folder / "many.jsonl", traces=12, seed=0)
    ot.ingest(folder / "runs.jsonl", folder / "corpus")
    ot.distributed.plan(folder / "corpus", "taint", folder=folder / "plan")
    (folder / "empty").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("hello")
    for name in ("there.parquet", "there.html"):
        (folder / name).write_text("mine")
    (folder / "bad.toml").write_text("[trace\n")
    (folder / "bad.csv").write_text("a,b\n1,2\n")
    (folder / "study.toml").write_text("x = 1\n")
    (folder / "dump.csv").write_text("prompt,reward,adv\na,1,0.5\na,0,-0.5\n")
    return folder


def command_of(words: list[str]) -> Any:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return command


@pytest.mark.parametrize(("line", "code", "message"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_is_one_line(
    line: str, code: int, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(Path().rglob("*.*"))
    result = run(*line.split(), code=code)
    said = error_line(result)
    assert message in said and result.stdout == ""
    assert sorted(Path().rglob("*.*")) == before
    # words of Python are not those of the command: neither its arguments, nor options of other commands
    own = re.sub(r"'[^']*'|something like \S+", "", said)
    command = command_of(line.split())
    options = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {
        "--help",
        "--nope",
    }
    assert set(re.findall(r"--[a-z][a-z-]*", own)) <= options | ({"--force"} if "force" in own else set())
    if "-O" not in line:  # which names arguments of a verb
        assert not re.search(r"\b(?!NAME|CHANNEL)[A-Za-z_]+=", own), own
    snake = {one.name for one in command.params if "_" in (one.name or "")}
    assert not {name for name in snake if re.search(rf"\b{name}\b", own)} or "trace_id" in own


def test_there_are_mistakes_of_every_command() -> None:
    tried = {next((word for word in line.split() if not word.startswith("-")), "") for line, _, _ in MISTAKES}
    # some take no value that could be wrong but those of all recordings and tables, which others try
    shared = {one.name for options in (StrictOptions, TableOptions) for one in fields(options)}
    asked = {
        name.split()[0]
        for name, command in commands().items()
        if any(not getattr(one, "is_flag", False) and one.name not in shared for one in command.params)
    }
    assert len(asked) > 20 and asked <= tried
