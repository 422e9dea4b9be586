"""Plans that somebody else has written, with an id that is right: nothing that they say is taken on trust."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import orchestrace as ot
from cli.commands import error_line, run
from orchestrace.cli import app
from orchestrace.distributed import work
from orchestrace.distributed.folder import part_file
from samples import divided

D = ot.distributed

Value = dict[str, Any]
Edit = Callable[[Value], object]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and honest plans of it."""
    place = tmp_path_factory.mktemp("plans")
    corpus = divided.corpus_on_disk(place)
    half = ot.read_corpus(corpus).filter(pl.col("trace") % 2 == 0)
    (place / "untouched").mkdir()
    D.plan(corpus, "credit", method="grpo", unit="agent", folder=place / "credit")
    D.plan(half, "credit", method="flow", unit="agent", folder=place / "half")
    D.plan(corpus, "replay", ot.interventions.drop(each="agent"), folder=place / "replay")
    D.plan(corpus, "taint", untrusted_tools=["web.*"], folder=place / "taint")
    D.plan(corpus, "metrics", by="task", folder=place / "metrics")
    D.plan(corpus, "costs.spawns", folder=place / "costs.spawns")
    D.plan(place / "runs.jsonl", "ingest", out=place / "untouched" / "out", folder=place / "ingest")
    return place


def forge(plans: Path, name: str, edit: Edit, folder: Path) -> Path:
    """A copy of a plan with something else in it, and the id that it then has."""
    shutil.copytree(plans / name, folder)
    value = json.loads((folder / "plan.json").read_text())
    edit(value)
    if isinstance(value.get("call"), dict) and "id" in value:
        call = {**value["call"], "corpus": ""}
        body = {"version": value.get("version"), "call": call, "tasks": value.get("tasks")}
        text = json.dumps(body, sort_keys=True)
        value["id"] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    (folder / "plan.json").write_text(json.dumps(value))
    return folder


def call(**values: Any) -> Edit:
    return lambda plan: plan["call"].update(values)


def task(**values: Any) -> Edit:
    return lambda plan: plan["tasks"][0].update(values)


def both(text: str) -> Edit:
    return call(arguments=text, asked=text)


def named(**values: Any) -> Edit:
    return both(json.dumps({"positional": [], "named": {name: values[name] for name in sorted(values)}}))


def positional(*values: Any) -> Edit:
    return both(json.dumps({"positional": list(values), "named": {}}))


def reading(**values: Any) -> Edit:
    """Settings of an ingest, and the arguments that go with them."""

    def edit(plan: Value) -> None:
        asked = {**json.loads(plan["call"]["asked"]), **values}
        given = {**asked["options"], "out": plan["call"]["corpus"], "partitions": asked["partitions"]}
        given = dict(sorted({**given, "group": asked["key"]}.items()))
        plan["call"].update(
            asked=json.dumps(asked),
            arguments=json.dumps({"positional": [], "named": given}),
            memory=asked["memory"],
        )

    return edit


def option(**values: Any) -> Edit:
    return lambda plan: reading(options={**json.loads(plan["call"]["asked"])["options"], **values})(plan)


def source(*values: Any) -> Edit:
    """The only input of an ingest."""
    return task(pieces=[[json.dumps(values), 0]])


DEEP = "[" * 100_000
FORGED: dict[str, tuple[str, Edit, str]] = {
    # modules
    "a module that is installed": ("credit", call(modules=["this"]), "call.modules"),
    "a module of the folder": ("credit", call(modules=["evil"]), "call.modules"),
    "a module of another verb": ("taint", call(modules=["evil"]), "call.modules"),
    "no name of a module": ("credit", call(modules=[""]), "call.modules[0]"),
    "a relative module": ("credit", call(modules=[".x"]), "call.modules[0]"),
    "a module with an end": ("credit", call(modules=["x."]), "call.modules[0]"),
    "a path as a module": ("credit", call(modules=["../evil"]), "call.modules[0]"),
    "a number as a module": ("credit", call(modules=[5]), "call.modules[0]"),
    "a text of modules": ("credit", call(modules="evil"), "call.modules"),
    "two modules": ("credit", call(modules=["evil", "this"]), "call.modules"),
    "a method of a module": (
        "credit",
        lambda plan: [named(method="mine", unit="agent")(plan), call(modules=["evil"])(plan)],
        "a plan imports nothing",
    ),
    "a module that exists of an unknown method": (
        "credit",
        lambda plan: [named(method="mine")(plan), call(modules=["this"])(plan)],
        "a plan imports nothing",
    ),
    "a method of a module, for sub-agents": (
        "costs.spawns",
        lambda plan: [named(method="mine")(plan), call(modules=["evil"])(plan)],
        "a plan imports nothing",
    ),
    # arguments
    "a sink": (
        "credit",
        named(method="grpo", sink="untouched/sink", unit="agent"),
        "call.arguments names 'sink'",
    ),
    "an engine": ("credit", named(engine="ray", method="grpo"), "call.arguments names 'engine'"),
    "threads": ("credit", named(method="grpo", threads=4), "call.arguments names 'threads'"),
    "progress": ("credit", named(method="grpo", progress=True), "call.arguments names 'progress'"),
    "resume": ("credit", named(method="grpo", resume=True), "call.arguments names 'resume'"),
    "a sink that only tasks see": (
        "credit",
        call(asked=json.dumps({"positional": [], "named": {"sink": "untouched/sink"}})),
        "call.asked names 'sink'",
    ),
    "arguments by place": ("credit", positional("grpo", "agent", "team", 0, "ray"), "call.arguments"),
    "a corpus by name": ("credit", named(corpus="elsewhere", method="grpo"), "call.arguments"),
    "an unknown argument": ("taint", named(folder="untouched"), "call.arguments"),
    "another method for tasks": (
        "credit",
        call(asked=json.dumps({"positional": [], "named": {"method": "flow", "unit": "agent"}})),
        "call.asked",
    ),
    "an argument more for tasks": (
        "taint",
        lambda plan: call(
            asked=json.dumps(
                {"positional": [], "named": {"carry": 1, **json.loads(plan["call"]["asked"])["named"]}}
            )
        )(plan),
        "call.asked",
    ),
    "no JSON": ("credit", both("{"), "call.arguments"),
    "a list": ("credit", call(asked="[1]"), "call.asked"),
    "a number": ("credit", both("5"), "call.arguments"),
    "nothing": ("credit", both("null"), "call.arguments"),
    "no fields": ("credit", both("{}"), "call.arguments"),
    "deep": ("credit", call(asked=DEEP), "call.asked"),
    "deep within": (
        "credit",
        both(f'{{"positional": [], "named": {{"unit": {"[" * 900}{"]" * 900}}}}}'),
        "call.",
    ),
    "arguments that are no text": ("credit", call(arguments={"positional": []}), "call.arguments"),
    "names that are a list": ("credit", both('{"positional": [], "named": []}'), "call.arguments"),
    "places that are an object": ("credit", both('{"positional": {}, "named": {}}'), "call.arguments"),
    "an unknown intervention": ("replay", positional({"$intervention": "Engine"}), "call.arguments"),
    "an intervention of a list": ("replay", positional({"$intervention": ["Drop"]}), "call.arguments"),
    "an intervention with a field more": (
        "replay",
        positional({"$intervention": "Drop", "to": 1}),
        "call.arguments",
    ),
    "a tuple of a number": ("taint", named(probabilistic={"$tuple": 5}), "call.arguments"),
    "a map of nothing": ("taint", named(probabilistic={"$map": [1]}), "call.arguments"),
    "a map with a list as a key": ("taint", named(probabilistic={"$map": [[[], 1]]}), "call.arguments"),
    "a scenario that is a number": ("replay", positional(5), "call.arguments"),
    "a value that the verb refuses": ("credit", named(method="grpo", unit="planet"), "call.asked"),
    "a type that the verb refuses": ("taint", named(carry={"a": 1}), "call.asked"),
    "a method that is fitted to all traces of some": (
        "half",
        named(method="rudder", unit="agent"),
        "call.arguments",
    ),
    "a method that compares all traces of some": ("half", named(method="reinforce_pp"), "call.arguments"),
    # the verb
    "an ingest of a corpus": ("credit", call(verb="ingest"), "plan.json"),
    "an unknown verb": ("credit", call(verb="__class__"), "call.verb"),
    "a verb of whole tables": ("credit", call(verb="compare"), "call.verb"),
    "a number as a verb": ("credit", call(verb=5), "call.verb"),
    "no verb": ("credit", call(verb=None), "call.verb"),
    # tasks
    "piece -1": ("credit", task(pieces=[["000", -1]]), "tasks[0].pieces[0][1]"),
    "piece 10^25": ("credit", task(pieces=[["000", 10**25]]), "tasks[0].pieces[0][1]"),
    "piece 1.5": ("credit", task(pieces=[["000", 1.5]]), "tasks[0].pieces[0][1]"),
    "piece true": ("credit", task(pieces=[["000", True]]), "tasks[0].pieces[0][1]"),
    "a piece that is not there": ("credit", task(pieces=[["000", 7]]), "tasks[0].pieces has piece 7"),
    "a partition that is not there": ("credit", task(pieces=[["00", 0]]), "tasks[0].pieces has piece 0"),
    "a partition elsewhere": ("credit", task(pieces=[["../../etc", 0]]), "tasks[0].pieces has piece 0"),
    "a piece of three": ("credit", task(pieces=[["000", 0, 0]]), "tasks[0].pieces[0]"),
    "no pieces": ("credit", task(pieces=[]), "tasks[0].pieces"),
    "pieces twice": ("credit", task(pieces=[["000", 0], ["000", 0]]), "tasks"),
    "pieces in another order": ("credit", task(pieces=[["001", 0], ["000", 0]]), "tasks"),
    "kept backwards": ("half", task(kept=[[9, 2]]), "tasks[0].kept[0]"),
    "kept twice": ("half", task(kept=[[2, 9], [4, 5]]), "tasks[0].kept[1]"),
    "kept beyond all": ("half", task(kept=[[0, 2**32 - 1]]), "tasks[0].kept"),
    "kept beyond the corpus": ("half", task(kept=[[0, 160]]), "tasks[0].kept"),
    "nothing kept": ("half", task(kept=[]), "tasks[0].kept"),
    "kept of other partitions": (
        "half",
        lambda plan: task(kept=plan["tasks"][1]["kept"])(plan),
        "tasks[0].pieces",
    ),
    "kept as a text": ("half", task(kept="0-9"), "tasks[0].kept"),
    "kept as flags": ("half", task(kept=[[False, True]]), "tasks[0].kept[0][0]"),
    "events -1": ("credit", task(events=-1), "tasks[0].events"),
    "events without end": ("credit", task(events=float("inf")), "tasks[0].events"),
    "a folder of its own": ("credit", task(folder="untouched"), "tasks[0] has an unknown field 'folder'"),
    "no fields of a task": ("credit", lambda plan: plan.update(tasks=[{}]), "tasks[0] has no field"),
    "no task": ("credit", lambda plan: plan.update(tasks=[None]), "tasks[0] is None"),
    "an object of tasks": ("credit", lambda plan: plan.update(tasks={}), "tasks is"),
    # the rest of the call
    "a sink of the call": ("credit", call(sink="untouched"), "call has an unknown field 'sink'"),
    "a field less": ("credit", lambda plan: plan["call"].pop("channels"), "call has no field 'channels'"),
    "no call": ("credit", lambda plan: plan.update(call=None), "call is None"),
    "a field beside the call": (
        "credit",
        lambda plan: plan.update(engine="ray"),
        "has an unknown field 'engine'",
    ),
    "no memory": ("credit", call(memory=0), "call.memory"),
    "memory without end": ("credit", call(memory=10**30), "call.memory"),
    "memory of a text": ("credit", call(memory="2GiB"), "call.memory"),
    "verify 1": ("credit", call(verify=1), "call.verify"),
    "a text of channels": ("credit", call(channels="team"), "call.channels"),
    "a number as the corpus": ("credit", call(corpus=5), "call.corpus"),
    "a corpus with NUL": ("credit", call(corpus="a\0b"), "call.corpus"),
    "a corpus that no file is called": ("credit", call(corpus="\ud800"), "call.corpus"),
    "a corpus with a password": ("credit", call(corpus="s3://key:word@bucket/corpus"), "call.corpus"),
    "version true": ("credit", lambda plan: plan.update(version=True), "version True"),
    "version 1.0": ("credit", lambda plan: plan.update(version=1.0), "version 1.0"),
    # an ingest
    "an ingest to elsewhere": ("ingest", call(corpus="/untouched"), "call.arguments"),
    "an ingest to a relative folder": ("ingest", call(corpus="untouched"), "call.corpus"),
    "an ingest to a bucket": ("ingest", call(corpus="s3://bucket/corpus"), "call.corpus"),
    "modules of an ingest": ("ingest", call(modules=["evil"]), "call.modules"),
    "traces of an ingest": ("ingest", task(kept=[[0, 1]]), "tasks keeps some traces only"),
    "a place to spill": ("ingest", option(spill_folder="untouched"), "spill_folder"),
    "a mapping of a file": ("ingest", option(mapping="mapping.toml"), "call.asked.options"),
    "an option that is unknown": ("ingest", option(sink="untouched"), "call.asked"),
    "a format that is unknown": ("ingest", option(format="pickle"), "call.asked"),
    "a mapping of one text": ("ingest", reading(mapping=["{}"]), "call.asked.mapping"),
    "a mapping that is none": ("ingest", reading(mapping=["{", "m.json"]), "call.asked"),
    "a column that is unknown": ("ingest", reading(key=["evil"]), "call.asked"),
    "no partitions": ("ingest", reading(partitions=0), "call.asked.partitions"),
    "partitions without end": ("ingest", reading(partitions=10**9), "call.asked"),
    "little memory": ("ingest", reading(memory=5), "call.asked"),
    "settings of a list": ("ingest", call(asked="[]"), "call.asked"),
    "deep settings": ("ingest", call(asked=DEEP), "call.asked"),
    "an input of a bucket": ("ingest", source("a", "s3://bucket/a.jsonl", 1, 1), "tasks.pieces[1]"),
    "an input of this folder": ("ingest", source("a", "a.jsonl", 1, 1), "tasks.pieces[1]"),
    "an input without a size": ("ingest", source("a", "/a.jsonl", None, 1), "tasks.pieces[2]"),
    "an input of two": ("ingest", source("a", "/a.jsonl"), "tasks.pieces"),
    "an input that is no JSON": ("ingest", task(pieces=[["/a.jsonl", 0]]), "tasks.pieces"),
    "an input numbered on": (
        "ingest",
        lambda plan: plan["tasks"][0]["pieces"][0].__setitem__(1, 3),
        "tasks does not",
    ),
}
"""The plan that is changed, how, and the place that the error names."""


def files(place: Path, forged: Path) -> set[Path]:
    """All that is below a folder, but for a forged plan; and of that plan what it was not born with."""
    return {path for path in place.rglob("*") if not path.is_relative_to(forged)} | set(
        path for path in forged.rglob("*") if path.name not in ("plan.json", "parts")
    )


def refused(result: Result, *parts: str) -> str:
    """The one line of an error of ours."""
    assert isinstance(result.exception, SystemExit), result.exception
    line = error_line(result)
    assert result.exit_code in (1, 2) and not result.stdout and len(line) < 1000, result.output
    assert all(part in line for part in parts), line
    return line


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_plan_is_refused_in_a_line_that_names_its_field(
    plans: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, edit, field = FORGED[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a plan's module would be found
    Path("evil.py").write_text("open('evil_ran', 'w')\n")
    forged = forge(plans, kind, edit, tmp_path / "forged")
    before, imported = files(tmp_path, forged), set(sys.modules)
    at_run = name in AT_RUN
    refused(CliRunner().invoke(app, ["run-task", "forged", "0"]), "plan.json", field)
    more = [
        "reduce",
        "forged",
        "-o",
        "t.parquet",
        *(["--corpus", str(plans / "x")] if kind == "ingest" else []),
    ]
    reduced = refused(CliRunner().invoke(app, more))
    assert at_run or "plan.json" in reduced
    if not at_run:
        refused(
            CliRunner().invoke(app, ["run-task", "forged", "--all", "--workers", "1"]), "plan.json", field
        )
    assert files(tmp_path, forged) == before and not list((forged / "parts").glob("*"))
    assert not {"evil", "this", "ray"} & (set(sys.modules) - imported)
    assert not list((plans / "untouched").iterdir())


AT_RUN = {
    "a value that the verb refuses",
    "a type that the verb refuses",
    "a piece that is not there",
    "a partition that is not there",
    "a partition elsewhere",
    "kept beyond all",
    "kept beyond the corpus",
    "kept of other partitions",
}
"""What only the verb or the corpus can say, when a task runs."""


def test_an_honest_plan_is_not_refused(plans: Path, tmp_path: Path) -> None:
    """So that the edits are what is refused; the id that they are given is the right one."""
    for name in ("credit", "half", "replay", "taint", "metrics", "ingest"):
        folder = forge(plans, name, lambda plan: None, tmp_path / name)
        assert (folder / "plan.json").read_text() != "" and D.status(folder).height
        run("run-task", folder, "0")


@pytest.mark.process
def test_workers_import_nothing_because_a_plan_says_so(
    plans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("open('evil_ran', 'w')\n")
    for name in ("a module of the folder", "a method of a module"):
        forged = forge(plans, "credit", FORGED[name][1], tmp_path / name)
        with pytest.raises(ot.OrchestraceError, match=r"plan\.json"):
            D.run(forged, workers=1)
    assert not Path("evil_ran").exists()


def test_the_reader_of_a_planned_ingest_names_the_folder_that_it_makes(plans: Path, tmp_path: Path) -> None:
    """The id leaves the place of a corpus out, and whoever writes the file writes it, too."""
    out = tmp_path / "elsewhere"
    forged = forge(
        plans, "ingest", lambda plan: [call(corpus=str(out))(plan), reading()(plan)], tmp_path / "forged"
    )
    run("run-task", forged, "0")
    line = refused(CliRunner().invoke(app, ["reduce", str(forged), "-o", str(tmp_path / "t.parquet")]))
    assert str(out) in line and "--corpus" in line and not out.exists()
    other = ["reduce", str(forged), "-o", str(tmp_path / "t.parquet"), "--corpus", str(tmp_path / "mine")]
    assert "makes a corpus in" in refused(CliRunner().invoke(app, other))
    assert not out.exists() and not (tmp_path / "mine").exists()
    run("reduce", forged, "-o", tmp_path / "t.parquet", "--corpus", out)
    assert len(ot.read_corpus(out)) == 160


@pytest.mark.parametrize("kind", ["credit", "metrics", "replay"])
def test_parts_of_other_rows_are_an_error_of_the_plan(plans: Path, tmp_path: Path, kind: str) -> None:
    """Their records are digests as well: who forges a part forges its record."""
    folder = forge(plans, kind, lambda plan: None, tmp_path / "plan")
    run("run-task", folder, "0-4")
    path = folder / part_file(0)
    pl.DataFrame({"evil": [1]}).write_parquet(path)
    record = path.with_suffix(".json")
    value = json.loads(record.read_text())
    size = path.stat().st_size
    value |= {"rows": 1, "size": size, "blake3": ot._core.fingerprint(str(path), size)}
    record.write_text(json.dumps(value))
    with pytest.raises(ot.InputError, match=r"the parts of the plan in .* are not those of"):
        D.reduce(folder)


def test_a_plan_that_is_replaced_while_its_tasks_run_is_refused(plans: Path, tmp_path: Path) -> None:
    """A worker runs the plan that was judged, and no other that lies there by then."""
    folder = forge(plans, "taint", lambda plan: None, tmp_path / "plan")
    work._planned.cache_clear()
    with pytest.raises(ot.SchemaError, match="was replaced"):
        work._planned(str(folder), "0" * 32)
