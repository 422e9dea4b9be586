"""Data sets as hubs hold them, a gigabyte each: ingest within 512 MiB, and whether all is found.

    python benches/python/hub_replicas.py [--megabytes 1000] [--folder TMP] [--json FILE] [names ...]

The replicas are those of the tests, `tests/samples/hub_replicas.py`, with texts of 200 words. Every ingest
has a process of its own, which notes its time and the peak of its resident set. What comes out is compared
with what was written: records, traces, outcomes that are known, their sum, and groups.
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

import orchestrace as ot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from samples.hub_replicas import REPLICAS, Texts  # the tests are no package: the line above says where it is

ROWS = 1_000
"""Rows that are made at a time, which are a row group."""


def write(name: str, path: Path, megabytes: float) -> dict[str, Any]:
    """Write at least so many megabytes, and say what a reader has to find."""
    texts = Texts(random.Random(name).getrandbits(32), words=200, vocabulary=5_000)
    found: dict[str, Any] = {"records": 0, "traces": 0, "known": 0, "sum": 0.0}
    groups: set[str] = set()
    writer = None
    while writer is None or path.stat().st_size < megabytes * 1e6:
        replica = REPLICAS[name](texts, range(found["traces"], found["traces"] + ROWS))
        writer = writer or pq.ParquetWriter(path, replica.table.schema, compression="zstd")
        writer.write_table(replica.table)
        known = [reward for reward in replica.rewards if reward is not None]
        groups.update(replica.groups)
        found["records"] += ROWS * replica.records
        found["traces"] += ROWS
        found["known"] += len(known)
        found["sum"] += sum(known)
    writer.close()
    return found | {"groups": len(groups)}


def read(path: Path, out: Path) -> dict[str, Any]:
    """Ingest the file, and say what is in the corpus."""
    start = time.perf_counter()
    ot.ingest(path, out, memory="512MiB")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    corpus = ot.read_corpus(out)
    counts = corpus.records
    if counts["read"] != counts["used"]:
        raise SystemExit(f"{path.name}: not all records were used: {counts}")
    rewards = corpus.measures.filter(kind="reward").select("value").collect()["value"]
    groups = corpus.traces.select(pl.col("group_id").n_unique()).collect().item()
    found = {"records": counts["read"], "traces": len(corpus), "known": rewards.len(), "sum": rewards.sum()}
    return {"seconds": seconds, "MiB": peak, "found": found | {"groups": groups}}


def main() -> None:
    """Write and read the replicas, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(REPLICAS))
    parser.add_argument("--megabytes", type=float, default=1_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, type=Path)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(read(*options.one)))
        return
    rows = []
    for name in options.names:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path, out = Path(folder) / f"{name}.parquet", Path(folder) / "corpus"
            written = write(name, path, options.megabytes)
            size = path.stat().st_size / 1e6
            command = [sys.executable, "-P", __file__, "--one", str(path), str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr}")
            one = json.loads(done.stdout)
            shutil.rmtree(out)
        is_equal = one["found"] == written
        rows.append({"replica": name, "MB": size, **written, **one, "equal": is_equal})
        speed = f"{one['seconds']:7.1f} s {size / one['seconds']:5.0f} MB/s {one['MiB']:6.0f} MiB"
        shown = "all found" if is_equal else f"FOUND {one['found']}, WRITTEN {written}"
        print(f"{name:24} {written['traces']:9,} rows {size:6.0f} MB {speed}  {shown}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
