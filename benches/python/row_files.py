"""A data set of conversations in Parquet: reading and ingest beside Polars and plain Python.

    python benches/python/row_files.py [--megabytes 1000] [--rounds 5] [--row-group 1000]

Runs of twelve messages with calls of a tool are made of seeded words, at zstd, in row groups of as many rows
as is said. The peer reads batches of rows with Polars and makes the same events in plain Python: their run,
type, turn and the SHA-256 of their content, which must be equal. Every reading has a process of its own and
notes its time and the peak of its resident set; rounds go through all peers in turn, medians are printed.
"""

import argparse
import hashlib
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

BATCH = 1_000
"""Rows that are made, and that the peer reads, at a time."""
COLUMNS = ("trace_id", "type", "turn", "content_ref")


def _run(number: int, texts: list[str], rng: random.Random) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": texts[0]}]
    for step in range(6):
        told = {"role": "user"} if step == 0 else {"role": "tool", "tool_call_id": f"c{step - 1}"}
        messages.append({**told, "content": rng.choice(texts)})
        call = {"name": "bash", "arguments": json.dumps({"cmd": rng.choice(texts)[:80]})}
        calls = [{"id": f"c{step}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "content": rng.choice(texts), "tool_calls": calls})
    verdict = rng.choice((-1, 0, 1))
    return {
        "instance_id": f"t{number // 4}",
        "trajectory_id": f"r{number}",
        "messages": [{"tool_calls": None, "tool_call_id": None} | message for message in messages],
        "resolved": verdict,
        "model": "m",
    }


def write(path: Path, megabytes: float, row_group: int) -> int:
    """Write a file of at least so many megabytes; how many rows it has."""
    rng = random.Random(0)
    words = [f"w{number}" for number in range(5_000)]
    texts = [" ".join(rng.choices(words, k=400)) for _ in range(3_000)]
    rows, writer, held = 0, None, []
    while rows == 0 or path.stat().st_size < megabytes * 1e6:
        table = pa.Table.from_pylist([_run(rows + at, texts, rng) for at in range(BATCH)])
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        held.append(table)
        rows += BATCH
        if BATCH * len(held) >= row_group:
            writer.write_table(pa.concat_tables(held), row_group_size=row_group)
            held = []
    if writer is not None:
        writer.write_table(pa.concat_tables(held)) if held else None
        writer.close()
    return rows


def _orchestrace(path: Path) -> pl.DataFrame:
    import orchestrace as ot

    corpus = ot.read_traces(path)
    ids = corpus.traces.select("trace", "trace_id")
    return (
        corpus.events.join(ids, on="trace")
        .select(COLUMNS)
        .with_columns(pl.col("type").cast(pl.String))
        .collect()
    )


def _python(path: Path) -> pl.DataFrame:
    def ref(text: str) -> str:
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    frame = pl.scan_parquet(path)
    events: list[tuple[str, str, int | None, str]] = []
    for start in range(0, frame.select(pl.len()).collect().item(), BATCH):
        for row in frame.slice(start, BATCH).collect().iter_rows(named=True):
            messages, run, turn = row["messages"], row["trajectory_id"], None
            for index, message in enumerate(messages):
                if message["role"] == "user":
                    events.append((run, "message", None, ref(message["content"])))
                elif message["role"] == "tool":
                    events.append((run, "tool_result", turn, ref(message["content"])))
                elif message["role"] == "assistant":
                    turn = index
                    for call in message["tool_calls"]:
                        named = call["function"]
                        made = {"arguments": json.loads(named["arguments"]), "name": named["name"]}
                        text = json.dumps(made, sort_keys=True, separators=(",", ":"))
                        events.append((run, "tool_call", turn, ref(text)))
                    kind = "return" if index == len(messages) - 1 else "message"
                    events.append((run, kind, turn, ref(message["content"])))
    kinds = {"trace_id": pl.String, "type": pl.String, "turn": pl.UInt32, "content_ref": pl.String}
    return pl.DataFrame(events, schema=kinds, orient="row")


def _ingest(path: Path) -> pl.DataFrame:
    import orchestrace as ot

    with tempfile.TemporaryDirectory() as folder:
        ot.ingest(path, f"{folder}/corpus", memory="512MiB")
    return pl.DataFrame()


PEERS = {"orchestrace": _orchestrace, "Polars + Python": _python, "ingest, memory=512MiB": _ingest}


def main() -> None:
    """Run the peers, or one of them for its parent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--row-group", type=int, default=1_000)
    parser.add_argument("--one", nargs=2)
    options = parser.parse_args()
    if options.one:
        path, peer = options.one
        start = time.perf_counter()
        frame = PEERS[peer](Path(path))
        seconds = time.perf_counter() - start
        digest = hashlib.sha256(repr(sorted(frame.hash_rows())).encode() if frame.width else b"").hexdigest()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "MiB": peak, "events": frame.height, "digest": digest}))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        rows = write(path, options.megabytes, options.row_group)
        size = path.stat().st_size / 1e6
        print(f"{rows:,} rows, {size:,.0f} MB, row groups of {options.row_group:,}")
        found = defaultdict(list)
        for _ in range(options.rounds):
            for peer in PEERS:
                command = [sys.executable, "-P", __file__, "--one", str(path), peer]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[peer].append(json.loads(done.stdout))
        answers = {one["digest"] for peer in ("orchestrace", "Polars + Python") for one in found[peer]}
        print("events are equal" if len(answers) == 1 else "EVENTS DIFFER")
        for peer, runs in found.items():
            seconds = statistics.median(run["seconds"] for run in runs)
            peak = max(run["MiB"] for run in runs)
            rates = f"{rows / seconds:9,.0f} rows/s {size / seconds:6.0f} MB/s"
            print(f"{peer:24} {seconds:7.2f} s {rates} {peak:7.0f} MiB")


if __name__ == "__main__":
    main()
