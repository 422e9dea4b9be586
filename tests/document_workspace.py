"""A home folder in which the paths of the documents exist, and what of the documents can be run there."""

import ast
import gzip
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot
from cli.commands import RUN, recordings
from samples.chat_runs import sums, write_chats
from samples.labelled_runs import write_labelled
from samples.paired_runs import write_sides

ROOT = Path(__file__).resolve().parents[1]
IMPORTERS = ROOT / "data" / "importers"

STUDY = """
methods = ["flow", "broadcast"]
units = ["agent"]
slots = [1, 2]
[[sizes]]
events = 10
agents = 2
traces = 48
[[sizes]]
events = 30
agents = 3
traces = 48
[presets.additive]
density = 1.0
"""
"""In place of the study in full, which takes hours."""

SURVEY = "category,is_rl,reward_type,credit_granularity,orchestration_form,scenario,is_core,verified"

FOLDERS = ("runs", "logs", "exports", "trajectories")
"""Folders of recordings: of the format that a page is about, else of the native one."""

PLACEHOLDERS = {"RUNS": "runs.jsonl", "FORMAT": "jsonl", "ID": str(RUN["trace_id"])}
"""Words in capitals that stand for something of the reader's own."""

PATH = {"export": "out.jsonl", "survey": "awesome-llm-mas-rl"}
"""The same for PATH, by command."""

READERS = {"read_traces", "read_corpus", "scan_events", "scan_traces", "ingest", "survey"}


def laid_out(home: Path, name: str) -> Path:
    """The folder from which the examples of a document are run."""
    here = home / "work"
    here.mkdir()
    (here / "data").symlink_to(ROOT / "data")
    (here / "docs").symlink_to(ROOT / "docs")
    (here / "examples").mkdir()
    (here / "examples" / "study.toml").write_text(STUDY)
    runs = recordings(here, count=1, trace_id=RUN["trace_id"])
    runs.write_text(runs.read_text() + recordings(home).read_text())
    (home / "runs.jsonl").unlink()
    ot.synthetic.gamed("serial_collapse", tasks=4, seed=0)[0].write_jsonl(here / "training.jsonl")
    write_chats(here / "chats.jsonl", sums())
    write_labelled(here / "labelled.jsonl", 40)
    write_labelled(here / "failed.jsonl", 4, seed=1)
    write_sides(here)
    ids = [json.loads(line)["trace_id"] for line in runs.read_text().splitlines()]
    pl.DataFrame({"trace_id": ids, "solved": [True, False, True, True]}).write_csv(here / "scores.csv")
    (here / "ours.csv").write_text("model,input,output\nours-70b,0.9,0.9\n")

    format = Path(name).stem if name.startswith("docs/formats/") else ""
    inputs = (
        sorted((IMPORTERS / format).glob("input*")) if (IMPORTERS / format).is_dir() and format else [runs]
    )
    for folder in FOLDERS:
        _copy(inputs, here / folder)
    for path in inputs:
        if path.is_file():
            shutil.copy(path, (here / "exports" / path.name).with_suffix(".json"))
    mapping = (ROOT / "docs" / "formats" / "mapping.md").read_text(encoding="utf-8")
    (here / "house.toml").write_text(_block(mapping, "toml"))
    (here / "log.jsonl").write_text(_block(mapping, "json"))
    shutil.copy(here / "log.jsonl", here / "logs")
    if format == "trl":
        (here / "completions").mkdir()
        lines = (IMPORTERS / "trl" / "input.jsonl").read_text().splitlines()
        tables = [pl.DataFrame([json.loads(line)]) for line in lines if line.endswith("}")]
        same = [one for one in tables if one.schema == tables[0].schema]
        pl.concat(same).write_parquet(here / "completions" / "completions_1.parquet")
    with gzip.open(here / "gpt-4o-airline.json.gz", "wb") as file:
        file.write((IMPORTERS / "tau_bench" / "input.json").read_bytes())

    _copy([IMPORTERS / "claude_code" / "input.jsonl"], home / ".claude" / "projects" / "my-project")
    _copy(sorted((IMPORTERS / "codex").glob("input*")), home / ".codex" / "sessions")
    _copy(sorted((IMPORTERS / "pi" / "input").iterdir()), home / ".pi" / "agent" / "sessions")
    _copy(sorted((IMPORTERS / "gemini_cli" / "input").iterdir()), home / ".gemini" / "tmp")
    qwen = IMPORTERS / "qwen_code" / "input"
    shutil.copytree(qwen, home / ".qwen" / "projects", dirs_exist_ok=True)
    _copy(sorted((IMPORTERS / "copilot" / "input").iterdir()), home / ".copilot" / "session-state")
    _copy(sorted((IMPORTERS / "cursor" / "input").iterdir()), home / ".cursor" / "projects")
    _copy(sorted((IMPORTERS / "droid" / "input").iterdir()), home / ".factory" / "sessions")
    _copy(sorted((IMPORTERS / "kimi" / "input").iterdir()), home / ".kimi-code" / "sessions" / "wd_project")
    _copy([IMPORTERS / "hermes" / "input.jsonl"], here / "hermes")
    shutil.copy(IMPORTERS / "hermes" / "input.jsonl", here / "sessions.jsonl")
    shutil.copy(IMPORTERS / "weave" / "input.jsonl", here / "calls.jsonl")
    letta = IMPORTERS / "letta_code" / "input"
    shutil.copytree(letta, home / ".letta" / "transcripts", dirs_exist_ok=True)
    _copy([IMPORTERS / "opencode" / "input" / "storage"], home / ".local" / "share" / "opencode" / "storage")
    _copy([IMPORTERS / "openhands" / "input.jsonl"], here / "evaluation_outputs")
    _copy([IMPORTERS / "openhands" / "input"], here / "conversations")
    survey = here / "awesome-llm-mas-rl"
    survey.mkdir()
    (survey / "papers.csv").write_text(f"key,{SURVEY}\na,m,yes,shared,agent,swarm,math,core,yes\n")
    (survey / "excluded.csv").write_text("record_id,stage,source,query_family\nE1,screen,arXiv,safety\n")
    return here


def _copy(inputs: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True)
    for path in inputs:
        if path.is_dir():
            shutil.copytree(path, folder, dirs_exist_ok=True)
        else:
            shutil.copy(path, folder)


def _block(page: str, language: str) -> str:
    return page.partition(f"```{language}\n")[2].partition("```")[0]


def commands(page: str) -> Iterator[list[str]]:
    """The words behind ``orchestrace`` of every whole command on a page.

    Commands stand in blocks for a shell, in indented blocks, and as code between words.
    """
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    lines += "\n".join(["", *re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE)])
    lines = lines.replace("\\\n", " ")
    inline = [" ".join(code.split()) for code in re.findall(r"`(orchestrace [^`]+)`", prose)]
    for line in [*lines.splitlines(), *inline]:
        for command in line.split("&&"):
            if command.split()[:1] == ["orchestrace"]:
                words = shlex.split(command, comments=True)[1:]
                known = PLACEHOLDERS | {"PATH": PATH.get(words[0], "")}
                yield [known.get(word, word) for word in words]


def calls(page: str) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Calls on a page that name what is read, outside of examples that are run with their output."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    inline = [code for code in re.findall(r"`([^`]+)`", prose) if re.search(r"\w\(", code)]
    for code in [*(block for block in blocks if ">>>" not in block), *inline]:
        try:
            tree = ast.parse(code)
        except SyntaxError:  # a signature with gaps, or another language
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            try:
                arguments = [ast.literal_eval(one) for one in node.args]
                options = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
            except ValueError:  # of a variable, which the page explains
                continue
            if name in READERS and arguments and isinstance(arguments[0], str):
                yield name, arguments, options
