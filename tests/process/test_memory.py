"""The budget of `ingest` is a bound: what it adds to a process stays below it and a constant, or the call
says why not. Each case runs in a process of its own, whose memory nothing else has touched."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot

MIB = 1 << 20
CONSTANT = 192
"""MiB that `ingest` may add beyond its budget, as its docstring says."""

PROBE = """
import json, sys
import polars as pl
import orchestrace as ot

def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what + ":")) / 1024

pl.DataFrame({"a": [1]}).lazy().collect()
before = memory("VmRSS")
"""


def probe(code: str, *args: object) -> Any:
    """What a fresh process says of a piece of code; `before` is its size, `memory("VmHWM")` its peak."""
    made = subprocess.run(
        [sys.executable, "-c", PROBE + code, *map(str, args)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return json.loads(made.stdout.splitlines()[-1])


INGEST = """
path, out, budget, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
report = ot.ingest(path, out, memory=budget, **options)
print(json.dumps([memory("VmHWM") - before, report.records]))
"""


def ingested(path: Path, budget: int, **options: object) -> tuple[float, dict[str, int]]:
    """MiB that an ingest adds at its peak, and what became of the records."""
    added, records = probe(INGEST, path, path.parent / "out", f"{budget}MiB", json.dumps(options))
    return added, records


def event(number: int, **more: object) -> dict[str, object]:
    return {"id": f"e{number}", "t": number, "type": "message", "agent": "a", **more}


def trace(number: int, events: list[dict[str, object]]) -> str:
    return json.dumps(
        {
            "trace_id": f"t{number}",
            "task_id": "x",
            "events": events,
            "edges": [],
            "rewards": {"team": 1},
            "costs": {"tokens": 1, "wall_clock_s": 1},
        }
    )


def who_and_when(number: int) -> str:
    return json.dumps(
        {
            "history": [{"role": "human", "content": "q"}, {"role": "A (thought)", "content": "answer"}],
            "question": "q",
            "ground_truth": "1",
            "is_correct": False,
            "question_ID": f"q{number}",
            "mistake_agent": "A",
            "mistake_step": "1",
            "mistake_reason": "wrong",
        }
    )


def files(folder: Path, count: int, kind: str) -> Path:
    folder.mkdir()
    for number in range(count):
        text = trace(number, [event(0)]) if kind == "native" else who_and_when(number)
        (folder / f"{number:06}.json").write_text(text)
    return folder


NAMED = ("agent", "role", "from", "to", "tool", "model")


def names(path: Path, size: int) -> Path:
    """Traces in which every event has six names that nothing else has."""

    def lines() -> Iterator[str]:
        number, done = 0, 0
        while done < size:
            events = [
                event(i, **{name: f"{name}-{number}-{i}-{'x' * 30}" for name in NAMED}) for i in range(20)
            ]
            line = trace(number, events) + "\n"
            yield line
            number, done = number + 1, done + len(line)

    with path.open("w") as file:
        file.writelines(lines())
    return path


CHUNKS = """
read = ot.read_traces(sys.argv[1])
ot.metrics(read)
chunks = pl.DataFrame(read._store.table("traces")).n_chunks()
print(json.dumps([len(read), chunks, memory("VmHWM") - before]))
"""


@pytest.mark.parametrize("kind", ["native", "who_and_when"])
def test_small_files_become_large_chunks(tmp_path: Path, kind: str) -> None:
    # as many chunks of one trace each took 800 MiB
    traces, chunks, added = probe(CHUNKS, files(tmp_path / "in", 2_000, kind))
    assert traces == 2_000
    assert chunks <= 64
    assert added < 100


def test_small_files_are_the_same_traces_as_one_file(tmp_path: Path) -> None:
    texts = [trace(number, [event(0), event(1, note="n" * (number % 50))]) for number in range(300)]
    texts[7] = '{"trace_id": "broken"'
    texts[8] = ""
    texts[9] = trace(10, [event(0)])  # the id of another one
    folder = tmp_path / "in"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number:03}.json").write_text(text + "\n")
    (tmp_path / "one.jsonl").write_text("".join(text + "\n" for text in texts))
    one, many = ot.read_traces(tmp_path / "one.jsonl"), ot.read_traces(folder, format="native")
    assert many.records == one.records
    for name in ("events", "edges", "agents", "measures", "findings"):
        assert getattr(many, name).collect().equals(getattr(one, name).collect()), name
    place = ["file", "line", "offset", "length"]
    assert many.traces.collect().drop(place).equals(one.traces.collect().drop(place))
    read = many.traces.collect()
    assert [Path(name).name for name in read["file"].cast(str)] == [
        f"{number:03}.json" for number in range(300) if number not in (7, 8)
    ]
    assert set(read["line"]) == {1} and set(read["offset"]) == {0}
    assert [Path(name).name for name in many.quarantine.collect()["file"].cast(str)] == ["007.json"]
    for threads in (1, 3):
        again = ot.read_traces(folder, format="native", threads=threads)
        assert again.traces.collect().equals(read)


def test_no_name_outlives_the_call(tmp_path: Path) -> None:
    # Polars keeps the names of all categoricals as long as one is alive: the package must hold none.
    path = names(tmp_path / "names.jsonl", 200_000)
    left = probe(
        """
ot.ingest(sys.argv[1], sys.argv[2], memory="64MiB")
def code(name):
    return pl.Series([name]).cast(pl.Categorical).to_physical()[0]
print(json.dumps([code("one"), code("another")]))
""",
        path,
        tmp_path / "out",
    )
    assert left == [0, 0]


def test_a_record_beyond_the_budget_names_it(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    long = trace(1, [event(i, note="x" * 1_000_000) for i in range(18)])
    path.write_text(
        trace(0, [event(0)]) + "\n" + long + "\n" + trace(2, [event(0, note="x" * (9 * MIB))]) + "\n"
    )
    assert ot.ingest(path, tmp_path / "out", memory="64MiB").records["quarantined"] == 2
    rejected = ot.read_corpus(tmp_path / "out").quarantine.collect()
    assert [message.partition("(set by ")[2].partition(")")[0] for message in rejected["message"]] == [
        "memory='64MiB': raise memory"
    ] * 2
    # What the caller chose is named as it is.
    ot.ingest(path, tmp_path / "own", memory="64MiB", max_record=1_000)
    rejected = ot.read_corpus(tmp_path / "own").quarantine.collect()
    assert all("(option max_record)" in message for message in rejected["message"])


@pytest.mark.parametrize(("name", "needed"), [("max_record", "4096MiB"), ("max_string", "10240MiB")])
def test_a_limit_beyond_the_budget_is_refused(tmp_path: Path, name: str, needed: str) -> None:
    (tmp_path / "in.jsonl").write_text(trace(0, [event(0)]) + "\n")
    with pytest.raises(
        ot.ParameterError, match=f"{name} is 1073741824, and memory='256MiB'.*{needed}"
    ) as told:
        ot.ingest(tmp_path / "in.jsonl", tmp_path / "out", memory="256MiB", **{name: 1 << 30})  # type: ignore[arg-type]
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


def test_no_room_for_a_thread_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(trace(0, [event(0)]) + "\n")
    told = probe(
        """
import resource, threading
resource.setrlimit(resource.RLIMIT_AS, (int(memory("VmSize") + 1024) << 20, resource.RLIM_INFINITY))
threading.stack_size(2 << 30)
try:
    ot.ingest(sys.argv[1], sys.argv[2], memory="64MiB", threads=1)
except ot.OrchestraceError as error:
    print(json.dumps(str(error)))
""",
        tmp_path / "in.jsonl",
        tmp_path / "out",
    )
    assert "can't start new thread" in told and "ulimit" in told and "\n" not in told


@pytest.mark.nightly
@pytest.mark.parametrize("budget", [64, 256])
@pytest.mark.parametrize("size", [112 * 10**6, 450 * 10**6])
def test_unique_names_stay_within_the_budget(tmp_path: Path, size: int, budget: int) -> None:
    added, records = ingested(names(tmp_path / "in.jsonl", size), budget)
    assert records["quarantined"] == 0
    assert added <= budget + CONSTANT


@pytest.mark.nightly
@pytest.mark.parametrize("budget", [64, 256])
@pytest.mark.parametrize("kind", ["native", "who_and_when"])
def test_many_small_files_stay_within_the_budget(tmp_path: Path, kind: str, budget: int) -> None:
    added, records = ingested(files(tmp_path / "in", 20_000, kind), budget)
    assert records["used"] == 20_000
    assert added <= budget + CONSTANT


@pytest.mark.nightly
@pytest.mark.parametrize(("length", "budget"), [(8, 64), (25, 256), (200, 2048)])
def test_a_giant_string_stays_within_the_budget(tmp_path: Path, length: int, budget: int) -> None:
    path = tmp_path / "in.json"
    path.write_text(trace(0, [event(0, note="x" * (length * MIB - 1_000))]))
    added, records = ingested(path, budget, max_string=length * MIB)
    assert records["used"] == 1
    assert added <= budget + CONSTANT


@pytest.mark.nightly
@pytest.mark.parametrize(("events", "budget", "used"), [(10**6, 256, 0), (10**6, 1024, 1), (80_000, 64, 1)])
def test_a_giant_trace_stays_within_the_budget(tmp_path: Path, events: int, budget: int, used: int) -> None:
    path = tmp_path / "in.json"
    path.write_text(trace(0, [event(i, content_ref=f"ref-{i:090}") for i in range(events)]))
    added, records = ingested(path, budget)
    assert records["used"] == used
    assert added <= budget + CONSTANT


@pytest.mark.nightly
def test_two_hundred_thousand_files_can_be_read(tmp_path: Path) -> None:
    traces, _, added = probe(CHUNKS, files(tmp_path / "in", 200_000, "native"))
    assert traces == 200_000
    assert added < 700


REPORT = """
corpus = ot.read_corpus(sys.argv[1])
before = memory("VmRSS")
tables = ot.describe(corpus)
print(json.dumps([memory("VmHWM") - before, tables["formats"]["events"].sum()]))
"""


@pytest.mark.nightly
def test_a_report_holds_a_partition_at_a_time(tmp_path: Path) -> None:
    # the values of all traces at once took 170 MiB
    ot.generate(tmp_path / "runs.jsonl", events=1_500_000, seed=2)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", memory="128MiB")
    added, events = probe(REPORT, tmp_path / "corpus")
    assert events >= 1_500_000
    assert added < 110
