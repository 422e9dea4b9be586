"""What becomes of the engine where a process forks, asks for many threads or has several interpreters.

Everything happens in processes of its own with a limit, since what is asked is whether they hang.
"""

import copy
import importlib.util
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

LIMIT = 60
"""Seconds after which a process is said to hang; a verb here takes milliseconds."""

FORK = """
import os, signal, sys
import polars as pl

def children(calls):
    "What calls say in a child after fork: a value, a refusal, or that one hangs, which is the last."
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        for name, call in calls.items():
            signal.alarm(10)
            os.write(write, f"{name}\\t".encode())
            try:
                said = f"works {call()!r}"
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write, (said[:500].replace("\\n", " ") + "\\n").encode())
        os._exit(0)
    os.close(write)
    lines = [line.split("\\t", 1) for line in os.fdopen(read).read().split("\\n") if line]
    os.waitpid(pid, 0)
    return {name: said or "hangs" for name, said in lines}

def child(call):
    return children({"": call})[""]
"""


def run(script: str, *arguments: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_process_is_told_what_to_do_instead_of_hanging() -> None:
    said = run(
        """
        import orchestrace as ot
        corpus = ot.generate(traces=4, seed=0)
        frames = {name: getattr(corpus, name) for name in ("traces", "events")}
        frames["traces"].collect()
        print(child(lambda: ot.credit(corpus, unit="agent").height))
        """
    )
    assert said.startswith("OrchestraceError: ") and said.count("\n") == 1, said
    assert "forked" in said and "get_context('spawn')" in said and "DataLoader" in said


def test_no_verb_hangs_in_a_forked_process(tmp_path: Path) -> None:
    said = run(
        """
        from operator import attrgetter
        import orchestrace as ot
        folder = sys.argv[1]
        ot.generate(f"{folder}/runs.jsonl", traces=8, seed=0)
        ot.ingest(f"{folder}/runs.jsonl", f"{folder}/corpus")
        corpus, disk = ot.read_traces(f"{folder}/runs.jsonl"), ot.read_corpus(f"{folder}/corpus")
        credits = ot.credit(corpus, method="grpo", unit="event")
        table, curve = ot.metrics(corpus), ot.schedules.scaling_curve(corpus, slots=[1, 2])
        frame = pl.DataFrame({"trace": [0], "mine": [1.0]})
        study = {
            "sizes": [{"events": 10, "agents": 2, "traces": 40}],
            "presets": {"additive": {"outcome": "linear"}},
            "methods": ["flow"],
        }
        ot.study.run(study, f"{folder}/study", workers=0)
        calls = {
            "read_traces": lambda: ot.read_traces(f"{folder}/runs.jsonl").traces.collect(),
            "read_corpus": lambda: ot.read_corpus(f"{folder}/corpus").traces.collect(),
            "ingest": lambda: ot.ingest(f"{folder}/runs.jsonl", f"{folder}/again"),
            "scan_events": lambda: ot.scan_events(f"{folder}/runs.jsonl").collect(),
            "generate": lambda: ot.generate(traces=2),
            "from_arrow": lambda: ot.Corpus.from_arrow(traces=frame, events=frame),
            "with_measures": lambda: corpus.with_measures(frame),
            "filter": lambda: len(corpus.filter(pl.col("trace") < 2)),
            "to_arrow": lambda: corpus.to_arrow("traces"),
            "to_numpy": lambda: corpus.to_numpy("events"),
            "write_jsonl": lambda: corpus.write_jsonl(f"{folder}/out.jsonl"),
            "repr": lambda: repr(corpus),
            "records": lambda: corpus.records,
            "fit_scaling": lambda: ot.schedules.fit_scaling(curve),
            "compare_metrics": lambda: ot.evaluation.compare_metrics(table, table),
            "against_single_agent": lambda: ot.evaluation.against_single_agent(table, table),
            "plot.scaling": lambda: ot.plot.scaling(curve),
            "localization": lambda: ot.evaluation.failure_attribution(credits, corpus),
            "token_credits": lambda: ot.trainers.token_credits(corpus, credits),
            "study": lambda: ot.study.run(study, f"{folder}/other", workers=0),
            "load": lambda: ot.study.load(f"{folder}/study"),
            "agreement": lambda: ot.evaluation.agreement(corpus, credits, credits),
            "fit_law": lambda: ot.scaling.fit_law(table, x="n_events", y="work"),
            "grpo": lambda: ot.trainers.advantages.grpo(table["work"], table["trace_id"]),
            "game_values": lambda: ot.games.values(2, [0.0, 1.0, 1.0, 2.0]),
            "envelopes": lambda: ot.scaling.distance_to_published(corpus),
            **{name: (lambda name=name: attrgetter(name)(ot)()) for name in (
                "list_methods", "list_importers", "list_exports", "list_metrics", "scaling.list_envelopes",
                "outcomes.list_models")},
        }
        verbs = (
            "compare", "schedules.concurrency_profile", "decisions.contexts", "credit",
            "schedules.critical_path", "schedules.dominators", "schedules.drag", "explain", "export_size",
            "evaluation.faithfulness", "outcomes.fit", "evaluation.free_ride", "evaluation.reward_accounting",
            "metrics", "describe", "evaluation.report_checklist", "schedules.scaling_curve",
            "schedules.simulate", "evaluation.sibling_diagnostics", "effects.spawn", "summary", "taint",
            "safety.tainted_events", "trainers.trainer_table",
        )
        for name in verbs:
            for kind, one in (("memory", corpus), ("disk", disk)):
                calls[f"{name} {kind}"] = lambda name=name, one=one: attrgetter(name)(ot)(one)
        said = children(calls)
        print([name for name, one in said.items() if one == "hangs"])
        print(len(said) == len(calls), sum("get_context('spawn')" in one for one in said.values()))
        """,
        str(tmp_path),
    )
    hanging, refused = said.splitlines()
    assert hanging == "[]"
    every, count = refused.split()
    assert every == "True" and int(count) > 50


def test_a_process_that_forks_before_polars_has_threads_has_children_that_work() -> None:
    said = run(
        """
        import orchestrace as ot
        print(child(lambda: ot.credit(ot.generate(traces=4, seed=0), unit="agent").height > 0))
        pl.DataFrame({"a": [2, 1]}).sort("a")
        print(child(lambda: ot.credit(ot.generate(traces=4, seed=0), unit="agent").height > 0))
        print(ot.credit(ot.generate(traces=4, seed=0), unit="agent").height > 0)
        """
    )
    before, after, parent = said.splitlines()
    assert before == "works True"
    assert after.startswith("OrchestraceError: ")
    assert parent == "True"


def test_what_a_killed_child_left_is_in_no_way_of_another(tmp_path: Path) -> None:
    said = run(
        """
        import signal
        from pathlib import Path
        import orchestrace as ot
        folder = Path(sys.argv[1])
        (folder / "runs.jsonl").write_text("noise")
        ingest = ot.ingest  # loaded before any process forks

        def ingested():
            return ingest(folder / "runs.jsonl", folder / "corpus").records["read"]

        def killed():
            os.replace = lambda old, new: os.kill(os.getpid(), signal.SIGKILL)
            ingested()

        if (pid := os.fork()) == 0:
            killed()
        os.waitpid(pid, 0)
        print(len(list((folder / "corpus").iterdir())))
        print(child(ingested))
        """,
        str(tmp_path),
    )
    assert said.splitlines() == ["1", "works 1"]


POOL = """
import multiprocessing
import sys
import orchestrace as ot

def credited(corpus):
    return ot.credit(corpus, method="grpo", unit="agent")["credit"].sum()

if __name__ == "__main__":
    corpus = {"memory": lambda: ot.read_traces(sys.argv[2]), "disk": lambda: ot.read_corpus(sys.argv[3])}
    corpus = corpus[sys.argv[4]]()
    corpus.traces.collect()
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        try:
            print(pool.map(credited, [corpus, corpus]) == [credited(corpus)] * 2)
        except ot.OrchestraceError as error:
            print(error)
"""


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_pool_of_processes_takes_a_corpus(tmp_path: Path, where: str) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=16, seed=0)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    (tmp_path / "pool.py").write_text(POOL)
    for context, expected in (("spawn", "True"), ("fork", "get_context('spawn')")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "pool.py", context, "runs.jsonl", "corpus", where],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_a_corpus_is_copied_and_pickled(tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=6, seed=1)
    corpus = ot.read_traces(tmp_path / "runs.jsonl", fields={"note": pl.String})
    assert copy.copy(corpus) is corpus and copy.deepcopy(corpus) is corpus
    again = pickle.loads(pickle.dumps(corpus))
    for name in ("traces", "events", "edges", "agents", "measures", "labels", "findings", "quarantine"):
        assert getattr(again, name).collect().equals(getattr(corpus, name).collect()), name
    assert again.records == corpus.records
    assert again.source(1, 0) == corpus.source(1, 0)
    assert again.events.collect_schema() == corpus.events.collect_schema()


def test_a_corpus_on_disk_is_pickled_as_what_was_opened(tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=6, seed=1)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    disk = ot.read_corpus(tmp_path / "corpus")
    assert copy.deepcopy(disk) is disk
    kept = pickle.loads(pickle.dumps(disk.filter(pl.col("trace") < 3)))
    assert len(kept) == 3 and kept.events.collect().height > 0
    changed = disk.with_measures(pl.DataFrame({"trace": [0], "mine": [1.0]}))
    with pytest.raises(TypeError, match=r"with_measures.*read_corpus.*other process"):
        pickle.dumps(changed)


def test_threads_of_many_sizes_are_not_all_kept() -> None:
    said = run(
        """
        import time
        import orchestrace as ot

        def threads():
            names = []
            for one in os.listdir("/proc/self/task"):
                try:
                    names.append(open(f"/proc/self/task/{one}/comm").read())
                except OSError:
                    pass
            return sum(name.startswith("orchestrace") for name in names)

        corpus = ot.generate(traces=40, seed=0)
        found = [ot.credit(corpus, unit="agent", threads=n)["credit"].sum() for n in range(1, 41)]
        for _ in range(100):  # a thread that is told to end takes its time
            if threads() <= 40 + os.cpu_count():
                break
            time.sleep(0.1)
        print(threads() <= 40 + os.cpu_count(), len(set(found)))
        """
    )
    assert said.split() == ["True", "1"]


INTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if sys.argv[1] == "first":
    import orchestrace
one = interpreters.create()
run = getattr(interpreters, "run_string", None) or interpreters.exec
run(one, '''
import sys
sys.path[:0] = %r
try:
    import orchestrace
    print("imported")
except BaseException as error:
    print(f"{type(error).__name__}: {error}")
''' % (sys.path,))
"""


@pytest.mark.parametrize("order", ["first", "alone"])
def test_a_second_interpreter_is_refused_in_one_line(order: str) -> None:
    there = [importlib.util.find_spec(name) for name in ("_interpreters", "_xxsubinterpreters")]
    if sys.version_info[:2] != (3, 11) and not any(there):
        pytest.skip("this Python has no module for interpreters")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETER, order],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ImportError: orchestrace works in the main interpreter only"), done.stdout
    assert done.stdout.count("\n") == 1
