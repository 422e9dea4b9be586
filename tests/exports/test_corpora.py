"""Exports of whole corpora: what is read back is what was written; nothing half-written has a name."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.disk.partitioned import PartitionedCorpus
from samples.random_runs import Document, jsonl

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"

HOSTILE = [
    'quote " and \\ backslash',
    "ends in a backslash \\",
    "line\nend\r\ttab",
    "] --> n1[evil]",
    "</script><script>alert(1)</script>",
    "\u202egnp.exe\u2066 turned",
    "&quot;&#34; entity &amp;",
    "\\N \\G \\l escapes of labels",
    "%%{init: {}}%% ;|}end",
    "nul \x00 bell \x07 escape \x1b[31m",
    "雪 ünïcode 🦉",
    "",
]


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.read_traces(SAMPLES)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> PartitionedCorpus:
    folder = tmp_path_factory.mktemp("corpus")
    ot.ingest(SAMPLES, folder / "corpus", memory="64MiB", partitions=3)
    return ot.read_corpus(folder / "corpus")


def hostile_run(names: list[str]) -> Document:
    events = [
        {"id": f"e{n} {name}", "t": n, "type": "tool_call", "agent": name or "none", "tool": name or "none"}
        for n, name in enumerate(names)
    ]
    edges = [{"src": u["id"], "dst": v["id"], "type": "causal"} for u, v in pairwise(events)]
    return {
        "trace_id": names[0],
        "task_id": "task",
        "events": events,
        "edges": edges,
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


@pytest.fixture
def hostile() -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl([hostile_run(HOSTILE)])))


def assert_same_tables(made: ot.Corpus, expected: ot.Corpus) -> None:
    for name in SCHEMAS:
        key = [
            one for one in ("trace", "seq", "file", "offset", "agent", "src", "kind") if one in SCHEMAS[name]
        ]
        a, b = (
            one._table(name)
            .with_columns(pl.col(pl.Categorical).cast(pl.String))
            .collect()
            .sort(key, maintain_order=True)
            for one in (made, expected)
        )
        assert_frame_equal(a, b)


def test_native_lines_read_back_as_they_were(corpus: ot.Corpus, on_disk: ot.Corpus, tmp_path: Path) -> None:
    for number, one in enumerate((corpus, on_disk)):
        written, again = tmp_path / f"out{number}.jsonl", tmp_path / f"again{number}.jsonl"
        ot.export(one, "jsonl", written)
        back = ot.read_traces(written)
        ot.export(back, "jsonl", again)
        assert again.read_bytes() == written.read_bytes()
        assert len(back) == len(one) and not back.quarantine.collect().height


def test_a_folder_of_parquet_is_a_corpus(corpus: ot.Corpus, on_disk: ot.Corpus, tmp_path: Path) -> None:
    for number, one in enumerate((corpus, on_disk)):
        folder = tmp_path / f"out{number}"
        size = ot.export(one, "parquet", folder)
        assert size == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        back = ot.read_corpus(folder)
        assert_same_tables(back, one)
        assert len(back) == len(one)
        expected = one.records
        assert back.records == {**expected, "duplicate": 0}
        credits = [
            ot.credit(each, method="grpo", unit="agent").sort("trace", "unit_id") for each in (back, one)
        ]
        assert (
            credits[0]
            .select("trace", "unit_id", "credit")
            .equals(credits[1].select("trace", "unit_id", "credit"))
        )
        with pytest.raises(ot.ParameterError, match="was written by export: ingest into another folder"):
            ot.ingest(SAMPLES, folder)
        with pytest.raises(ot.ParameterError, match="is not empty: choose another"):
            ot.export(one, "parquet", folder)


def test_what_was_changed_in_memory_is_written(on_disk: PartitionedCorpus, tmp_path: Path) -> None:
    """Filters, own measures and fields of a corpus on disk, and lifted columns of one in memory."""
    some = on_disk.filter(pl.col("trace") % 2 == 0)
    own = some.traces.select("trace", mine=pl.col("trace").cast(pl.Float64)).collect()
    some = some.with_measures(own).with_fields(
        some.events.filter(pl.col("seq") == 0).select("trace", "seq", score=0.25).collect()
    )
    ot.export(some, "parquet", tmp_path / "some", memory="256MiB")
    back = ot.read_corpus(tmp_path / "some")
    assert_same_tables(back, some)
    assert back.measures.filter(pl.col("name") == "mine").collect().height == len(some)
    lifted = ot.read_traces(
        io.BytesIO(
            jsonl([{**hostile_run(["a"]), "events": [{**hostile_run(["a"])["events"][0], "x_n": 7}]}])
        ),
        fields={"x_n": pl.Int64},
    )
    ot.export(lifted, "parquet", tmp_path / "lifted")
    assert ot.read_corpus(tmp_path / "lifted").events.select("x_n").collect().item() == 7


def test_a_corpus_without_traces(tmp_path: Path) -> None:
    none = ot.read_traces(io.BytesIO(b""))
    credits = ot.credit(ot.generate(traces=1, seed=0), method="grpo", unit="turn")
    for format in ("jsonl", "parquet", "perfetto", "ocel", "verl"):
        given: dict[str, Any] = {"format": format} | ({"credits": credits} if format == "verl" else {})
        ot.export(none, path=tmp_path / format, **given)
    assert len(ot.read_corpus(tmp_path / "parquet")) == 0
    assert json.loads((tmp_path / "ocel").read_text())["events"] == []
    assert json.loads((tmp_path / "perfetto").read_text())["traceEvents"] == []
    assert pl.read_parquet(tmp_path / "verl").height == 0


def test_hostile_names_stay_text_in_a_flowchart(hostile: ot.Corpus, tmp_path: Path) -> None:
    ot.export(hostile, "mermaid", tmp_path / "x.mmd")
    text = (tmp_path / "x.mmd").read_text(encoding="utf-8")
    lines = text.splitlines()
    nodes = lines[1 : 1 + len(HOSTILE)]
    # a label is letters, numbers of characters and our own line ends, and nothing else
    label = r'  n\d+\["(?:[^\W_]|[ _.\-]|#\d+;|<br/>)*"\](?::::critical)?'
    assert len(lines) == 2 + len(HOSTILE) + len(HOSTILE) - 1
    for line, name in zip(nodes, HOSTILE, strict=True):
        assert re.fullmatch(label, line), line
        shown = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), line.split('["')[1].split("<br/>")[0])
        expected = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in name or "none"
        )
        assert shown == f"{expected}: tool_call {expected}"
    assert not any(ord(c) in range(0x202A, 0x206F) for c in text)
    assert not re.search(r"#(8238|8294|0|7|27);", text)  # nor as the number of one


def test_hostile_names_stay_text_in_a_graph(hostile: ot.Corpus, tmp_path: Path) -> None:
    ot.export(hostile, "dot", tmp_path / "x.dot")
    text = (tmp_path / "x.dot").read_text(encoding="utf-8")
    strings = re.findall(r'"(?:[^"\\]|\\.)*"', text)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
    # outside of quotes there is nothing that we did not write
    assert not set(outside) - set("digraphsublcuterntoylmkxpwSenv_0123456789[]{}=,->; \n#.zfLR") - set("q")
    node = r"    n\d+ \[label=S(?:, color=S, penwidth=3)?\]"
    assert len(re.findall(node, outside)) == len(HOSTILE)
    assert (
        len(re.findall(r"  n\d+ -> n\d+ \[tooltip=S(?:, style=bold, color=S)?\]", outside))
        == len(HOSTILE) - 1
    )
    shown = {
        re.sub(r"\\(.)", r"\1", one[1:-1]).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        for one in strings
    }
    for name in HOSTILE:
        assert (
            "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name or "none")
            in shown
        )
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "<" not in text


@pytest.mark.filterwarnings("ignore")  # those of the reader are not ours
def test_a_graph_is_opened_by_readers_of_dot(hostile: ot.Corpus, corpus: ot.Corpus, tmp_path: Path) -> None:
    pydot = pytest.importorskip("pydot", reason="pydot is not installed, so nobody else reads the graph")
    name = corpus.traces.select("trace_id").collect()["trace_id"][0]
    for one, trace in ((hostile, None), (corpus, name)):
        ot.export(one, "dot", tmp_path / "x.dot", trace_id=trace)
        (graph,) = pydot.graph_from_dot_file(str(tmp_path / "x.dot"))
        read = nx.DiGraph(nx.nx_pydot.from_pydot(graph))
        kept = one if trace is None else one.filter(pl.col("trace_id") == trace)
        ends = kept.edges.select("src", "dst").unique().collect().rows()
        assert set(read.edges) == {(f"n{u}", f"n{v}") for u, v in ends}


def test_a_file_that_fails_leaves_the_one_that_was_there(corpus: ot.Corpus, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    cyclic = hostile_run(["a", "b"])
    cyclic["edges"].append({"src": "e1 b", "dst": "e0 a", "type": "causal"})
    broken = ot.read_traces(io.BytesIO(jsonl([cyclic])))
    with pytest.raises(ot.ParameterError, match=r"graph\.cycle"):
        ot.export(broken, "perfetto", target, overwrite=True)
    with pytest.raises(ot.InputError, match=r"out\.json' exists; pass overwrite=True to replace it"):
        ot.export(corpus, "jsonl", target)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["out.json"]
    with pytest.raises(ot.InputError, match="is a folder"):
        ot.export(corpus, "jsonl", tmp_path)
    with pytest.raises(ot.InputError, match="No such file or directory"):
        ot.export(corpus, "jsonl", tmp_path / "no" / "out.jsonl")
    with pytest.raises(ot.ParameterError, match="is a file, expected a folder"):
        ot.export(corpus, "parquet", target)
    with pytest.raises(ot.ParameterError, match="named like a file, and a folder is written"):
        ot.export(corpus, "parquet", tmp_path / "all.parquet")
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "real.jsonl")
    ot.export(corpus, "jsonl", link)
    assert link.is_symlink() and (tmp_path / "real.jsonl").stat().st_size > 0


def test_a_pipe_is_written_as_it_is(corpus: ot.Corpus, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    written = ot.export(corpus, "jsonl", pipe)
    reader.join(30)
    assert len(read[0]) == written and pipe.is_fifo()


@pytest.mark.process
@pytest.mark.parametrize("format", ["jsonl", "ocel", "perfetto", "parquet"])
def test_a_kill_leaves_nothing_half(tmp_path: Path, format: str) -> None:
    code = (
        "import orchestrace as ot, sys; corpus = ot.generate(events=60_000, seed=1)\n"
        f"print('go', flush=True)\nwhile True: ot.export(corpus, {format!r}, sys.argv[1], "
        "progress=lambda done, total: print(done, flush=True), max_bytes=2**40, overwrite=True)"
    )
    target = tmp_path / "out"
    child = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"go\n"
    deadline = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    left = list(tmp_path.iterdir())
    assert left  # it was killed while it wrote, or just after
    for path in left:
        if path == target and format == "parquet":
            assert len(ot.read_corpus(path)) > 0
        elif path == target:
            text = path.read_text()
            json.loads(text.splitlines()[-1] if format == "jsonl" else text)
        else:
            assert re.fullmatch(r"\.[0-9a-f]{16}\.out\.tmp", path.name)


def test_the_same_bytes_on_any_number_of_threads(tmp_path: Path) -> None:
    code = (
        "import orchestrace as ot, sys; corpus = ot.generate(traces=60, seed=4)\n"
        "credits = ot.credit(corpus, method='grpo', unit='turn')\n"
        "for name in ('jsonl', 'perfetto', 'ocel', 'verl'):\n"
        "    given = {'credits': credits} if name == 'verl' else {}\n"
        "    ot.export(corpus, name, f'{sys.argv[1]}/{name}', threads=int(sys.argv[2]), **given)"
    )
    made = []
    for threads in ("1", "2", "7"):
        folder = tmp_path / threads
        folder.mkdir()
        env = {**os.environ, "POLARS_MAX_THREADS": threads}
        subprocess.run([sys.executable, "-c", code, str(folder), threads], env=env, check=True)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(made[0]) == 4 and made[0] == made[1] == made[2]
