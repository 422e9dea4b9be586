"""What every verb costs in two or more builds of the package: time of the processor, and their ratios.

    python benches/python/verb_table.py --python OLD/bin/python --python NEW/bin/python \\
        --corpus kit=mixed_1M.jsonl --corpus ours=generated.jsonl \\
        --otel otlp.jsonl --claude-code sessions/ [--only flow report] [--json verbs.json]

Each Python is an environment with one build. It runs a worker process, which reads a corpus once and then
runs a verb as often as it is asked. The workers take turns: a round of a verb is a call in each of them, on
one thread. The first round is not counted; the table has the least of the other rounds (`--rounds`, 5), in
milliseconds, and its ratio to the first Python. A short verb is called several times a round, as often in
each. What takes seconds on a million events is run on the first part of a file, `few` in the table.

Names of before the namespaces are tried where the present ones are missing, so that builds of either time
can be compared. A verb that a build does not have, or that refuses the corpus, has its error in place of a
time.
"""

import argparse
import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

Verb = Callable[[], Any]
#: At least so long is a round of calls, so that the clock and the first lines of a call do not count.
ROUND = 0.03
#: The part of a file that costly verbs are run on.
FEW = 8
#: Credit on the whole corpus, by method; `event` is the unit where none is named.
CREDIT = {
    "uniform": ("event", "role"),
    "broadcast": ("event", "agent"),
    "discounted": ("event", "agent"),
    "return_to_go": ("turn",),
    "flow": ("event", "agent", "turn", "message"),
    "flow_discounted": ("event", "agent"),
    "grpo": ("event", "agent"),
    "dr_grpo": ("agent",),
    "rloo": ("agent",),
    "opo": ("agent",),
    "pass_k": ("agent",),
    "reinforce_pp": ("team",),
    "shape_normalized": ("agent",),
    "dr_mas": ("agent",),
    "at_grpo": ("turn",),
    "magrpo": ("turn",),
    "gigpo": ("turn",),
    "c3": ("turn",),
    "spectrum": ("event",),
}
#: Credit on a part of the corpus: games, and what is fitted.
CREDIT_OF_FEW: dict[str, tuple[str, dict[str, Any]]] = {
    "difference": ("agent", {}),
    "shapley": ("agent", {"samples": 16}),
    "banzhaf": ("agent", {"samples": 64}),
    "owen": ("agent", {"samples": 16}),
    "myerson": ("agent", {"samples": 16}),
    "permission": ("agent", {"samples": 16}),
    "sharp": ("agent", {}),
    "rudder": ("event", {}),
}
GROUPS = (
    *("scale", "span", "stages", "time", "usage", "protocol", "delegation", "quality", "utilization"),
    *("drag", "dominators", "taint", "cut", "diversity", "conformance", "errors", "steering", "utility"),
)
TABLES = ("traces", "events", "edges", "agents", "measures")


def called(package: Any, *names: str) -> Any:
    """What one of these names means in a build: the first that is there."""
    for name in names:
        value = package
        try:
            for part in name.split("."):
                value = getattr(value, part)
        except AttributeError:
            continue
        return value
    raise LookupError(f"no {' or '.join(names)}")


def few_of(path: Path) -> io.BytesIO:
    """The first part of a file of JSON lines."""
    with path.open("rb") as file:
        return io.BytesIO(file.read(path.stat().st_size // FEW) + file.readline())


class Verbs:
    """The verbs of one build on one corpus; each name of `names` gives a call."""

    def __init__(self, path: Path, format: str) -> None:
        import orchestrace as ot

        self.ot: Any = ot  # of any build: what it has is asked, not known
        self.path = path
        self.calls: dict[str, Verb] = {}
        if format == "native":
            self.corpus = ot.read_traces(path, threads=1)
            self.few = ot.read_traces(few_of(path), threads=1)
            self.folder = tempfile.TemporaryDirectory()
            self.prepared: dict[str, Any] = {}
            self._native()
        else:
            self.calls[f"read {format}"] = self._read

    def _read(self) -> None:
        corpus = self.ot.read_traces(self.path, threads=1)
        for table in TABLES:
            getattr(corpus, table).collect()

    def _credits(self, unit: str) -> Any:
        """Credits by flow, made once: what other verbs begin with."""
        if unit not in self.prepared:
            self.prepared[unit] = self.ot.credit(self.few, method="flow", unit=unit, threads=1)
        return self.prepared[unit]

    def _ask(self, names: str, *given: Any, **options: Any) -> Any:
        """A call of what one of these names, apart by spaces, means in the build."""
        return called(self.ot, *names.split())(*given, **options)

    def _native(self) -> None:
        self._tables()
        self._credit()
        self._measuring()
        self._what_if()
        self._judging()

    def _tables(self) -> None:
        ot, corpus, out = self.ot, self.corpus, Path(self.folder.name)
        self.calls["read native"] = lambda: ot.read_traces(self.path, threads=1)
        self.calls["read native, tables"] = self._read
        self.calls["scan_events"] = lambda: ot.scan_events(self.path, threads=1).select("type").collect()
        self.calls["scan_traces"] = lambda: ot.scan_traces(self.path, threads=1).collect()
        self.calls["generate"] = lambda: ot.generate(preset="mixed", events=50_000, seed=1, threads=1)
        for table in TABLES:
            self.calls[f"table {table}"] = partial(self._table, table)
        self.calls["to_arrow"] = lambda: corpus.to_arrow("events")
        self.calls["to_numpy"] = lambda: corpus.to_numpy("events")
        self.calls["filter"] = lambda: corpus.filter(pl.col("trace") % 2 == 0)
        self.calls["from_arrow"] = lambda: ot.Corpus.from_arrow(**self._arrow())
        self.calls["write_jsonl"] = lambda: corpus.write_jsonl(io.BytesIO())
        self.calls["export parquet, few"] = lambda: ot.export(self.few, "parquet", fresh(out))
        self.calls["export perfetto, few"] = lambda: ot.export(self.few, "perfetto", fresh(out))
        self.calls["ingest"] = lambda: ot.ingest(self.path, fresh(out), threads=1)
        self.calls["read_corpus, credit flow"] = lambda: ot.credit(self._on_disk(), method="flow", threads=1)

    def _table(self, name: str) -> pl.DataFrame:
        table: pl.DataFrame = getattr(self.corpus, name).collect()
        return table

    def _arrow(self) -> dict[str, Any]:
        if "arrow" not in self.prepared:
            self.prepared["arrow"] = {name: self._table(name) for name in TABLES[:3]}
        arrow: dict[str, Any] = self.prepared["arrow"]
        return arrow

    def _on_disk(self) -> Any:
        if "disk" not in self.prepared:
            folder = fresh(Path(self.folder.name))
            self.ot.ingest(self.path, folder, threads=1)
            self.prepared["disk"] = self.ot.read_corpus(folder)
        return self.prepared["disk"]

    def _credit(self) -> None:
        ot, corpus, few = self.ot, self.corpus, self.few
        for method, units in CREDIT.items():
            for unit in units:
                call = partial(ot.credit, corpus, method=method, unit=unit, threads=1)
                self.calls[f"credit {method} by {unit}"] = call
        for kernel in ("time_decay", "lrp"):
            call = partial(ot.credit, corpus, method="flow", kernel=kernel, threads=1)
            self.calls[f"credit flow, {kernel}"] = call
        for method, (unit, params) in CREDIT_OF_FEW.items():
            call = partial(ot.credit, few, method=method, unit=unit, threads=1, **params)
            self.calls[f"credit {method} by {unit}, few"] = call

    def _measuring(self) -> None:
        ot, corpus, ask = self.ot, self.corpus, self._ask
        self.calls["metrics"] = lambda: ot.metrics(corpus, threads=1)
        self.calls["metrics by task, few"] = lambda: ot.metrics(self.few, by="task", threads=1)
        self.calls["metrics by agent"] = lambda: ot.metrics(corpus, by="agent", threads=1)
        for group in GROUPS:
            self.calls[f"metrics {group}"] = partial(ot.metrics, corpus, groups=[group], threads=1)
        self.calls["report"] = lambda: ot.describe(corpus)
        self.calls["report_checklist"] = partial(ask, "evaluation.report_checklist report_checklist", corpus)
        self.calls["contexts"] = partial(ask, "decisions.contexts contexts", corpus, threads=1)
        self.calls["story"] = partial(ask, "story", corpus)
        self.calls["rewards.compute"] = partial(ask, "rewards.compute", corpus, ["split"], threads=1)
        self.calls["gap"] = partial(ask, "scaling.distance_to_published gap", corpus)

    def _what_if(self) -> None:
        ot, corpus, few, ask = self.ot, self.corpus, self.few, self._ask
        drop, speed_up = "interventions.drop drop", "interventions.speed_up speed_up"
        self.calls["replay drop agents, few"] = lambda: ot.replay(few, ask(drop, each="agent"), threads=1)
        self.calls["replay drop tool calls"] = lambda: ot.replay(
            corpus, ask(drop, type="tool_call"), threads=1
        )
        self.calls["replay speed_up"] = lambda: ot.replay(
            corpus, ask(speed_up, 2.0, type="tool_call"), threads=1
        )
        for verb in (
            "schedule",
            "scaling_curve",
            "critical_path",
            "drag",
            "dominators",
            "concurrency_profile",
        ):
            self.calls[verb] = partial(ask, f"schedules.{verb} {verb}", corpus, threads=1)
        self.calls["schedule, 2 slots"] = partial(
            ask, "schedules.simulate schedule", corpus, slots=2, threads=1
        )
        for verb in ("taint", "tainted_events", "sanitizer_cut"):
            self.calls[verb] = partial(ask, f"safety.{verb} {verb}", corpus, threads=1)

    def _judging(self) -> None:
        ot, corpus, few, ask = self.ot, self.corpus, self.few, self._ask
        for effect in ("message", "delegation", "aggregation"):
            self.calls[f"effects.{effect}"] = partial(ask, f"effects.{effect} {effect}_effects", corpus)
        self.calls["effects.spawn, few"] = partial(ask, "effects.spawn spawn_effect", few)
        judges = {"ledger": "event", "faithfulness": "event", "credit_snr": "event"}
        judges |= {"trainer_table": "turn", "token_credits": "token"}
        for judge, unit in judges.items():
            names = f"evaluation.{judge} scaling.{judge} trainers.{judge} {judge}"
            self.calls[f"{judge}, few"] = partial(self._judged, names, unit)
        self.calls["agreement, few"] = lambda: ask(
            "evaluation.agreement agreement", few, self._credits("agent"), self._credits("agent"), n_boot=20
        )
        self.calls["free_ride, few"] = lambda: ask("evaluation.free_ride free_ride", self._credits("agent"))
        self.calls["place_labels"] = partial(ask, "evaluation.place_labels place_labels", corpus)
        siblings = "evaluation.sibling_diagnostics sibling_diagnostics"
        self.calls["sibling_diagnostics, few"] = partial(ask, siblings, few)
        self.calls["compare, few"] = lambda: ot.compare(few, ["flow", "uniform", "grpo"], threads=1)
        self.calls["explain"] = self._explained

    def _judged(self, names: str, unit: str) -> Any:
        return self._ask(names, self.few, self._credits(unit))

    def _explained(self) -> Any:
        credits = self._credits("event")
        row = credits.row(credits.height // 2, named=True)
        return self.ot.explain(self.few, credits, row["unit_id"], trace=row["trace"])


def fresh(folder: Path) -> Path:
    """A path in a folder that nothing has yet."""
    return Path(tempfile.mkdtemp(dir=folder)) / "out"


def work() -> None:
    """The worker: requests from standard input, an answer to each on standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a verb prints is no answer
    verbs: Verbs | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if "path" in request:
                verbs = None
                gc.collect()
                verbs = Verbs(Path(request["path"]), request["format"])
                answer["verbs"] = list(verbs.calls)
            elif verbs is not None:
                answer["seconds"] = timed(verbs.calls[request["verb"]], request["calls"])
        except Exception as error:  # a refusal is an answer of the build, shown in the table
            answer["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(json.dumps(answer), file=answers, flush=True)


def timed(verb: Verb, calls: int) -> float:
    """Seconds of the processor that a call takes, mean of so many."""
    gc.collect()
    begun = time.process_time()
    for _ in range(calls):
        verb()
    return (time.process_time() - begun) / calls


class Worker:
    """A process of one Python."""

    def __init__(self, python: str) -> None:
        one = dict.fromkeys(("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        self.python = python
        command = [python, __file__, "--work"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | one,
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.python}: ended with {self.process.wait()} at {request}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured(workers: list[Worker], verb: str, rounds: int) -> dict[str, Any]:
    """The least time of a verb in each worker, rounds in turn; or what a worker refuses it with."""
    first = [worker.ask(verb=verb, calls=1) for worker in workers]
    if errors := [answer.get("error") for answer in first if "error" in answer]:
        return {
            "ms": [None if "error" in answer else 1e3 * answer["seconds"] for answer in first],
            "error": errors[0],
        }
    calls = max(1, round(ROUND / max(1e-6, min(answer["seconds"] for answer in first))))
    times = [[worker.ask(verb=verb, calls=calls)["seconds"] for worker in workers] for _ in range(rounds)]
    return {"ms": [1e3 * min(column) for column in zip(*times, strict=True)]}


def rows(asked: argparse.Namespace, workers: list[Worker]) -> Iterator[dict[str, Any]]:
    corpora = [(name, path, "native") for name, path in (named.split("=", 1) for named in asked.corpus)]
    corpora += [("otel", path, "otel") for path in asked.otel]
    corpora += [("claude_code", path, "claude_code") for path in asked.claude_code]
    for corpus, path, format in corpora:
        answers = [worker.ask(path=path, format=format) for worker in workers]
        for answer in answers:
            if "error" in answer:
                raise SystemExit(f"{path}: {answer['error']}")
        for verb in answers[0]["verbs"]:
            if not asked.only or any(part in verb for part in asked.only):
                yield {"corpus": corpus, "verb": verb} | measured(workers, verb, asked.rounds)


def shown(row: dict[str, Any]) -> str:
    """A row of the table: milliseconds in each Python, ratios to the first."""
    cells = [row["corpus"], row["verb"]]
    cells += ["" if ms is None else f"{ms:.2f}" for ms in row["ms"]]
    if "error" in row:
        return "| " + " | ".join([*cells, row["error"]]) + " |"
    return "| " + " | ".join(cells + [f"{ms / row['ms'][0]:.3f}" for ms in row["ms"][1:]]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", action="append", default=[], help="an environment's Python; the first is the base"
    )
    parser.add_argument(
        "--corpus", action="append", default=[], metavar="NAME=PATH", help="native JSON lines"
    )
    parser.add_argument("--otel", action="append", default=[], help="a file of OTLP lines")
    parser.add_argument("--claude-code", action="append", default=[], help="a folder of sessions")
    parser.add_argument("--only", nargs="+", default=[], help="only verbs with one of these in their name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where the table goes as JSON")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work()
        return
    if not asked.python:
        parser.error("no --python: name two environments, the one to compare with first")
    with contextlib.ExitStack() as stack:
        workers = [Worker(python) for python in asked.python]
        for worker in workers:
            stack.callback(worker.end)
        table = []
        names = [f"{place} ms" for place in "ABCDEFGH"[: len(workers)]]
        ratios = [f"{name[0]}/A" for name in names[1:]]
        print("| " + " | ".join(["corpus", "verb", *names, *ratios]) + " |")
        print("|---|---|" + "---:|" * (len(names) + len(ratios)))
        for row in rows(asked, workers):
            table.append(row)
            print(shown(row), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps({"pythons": asked.python, "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
