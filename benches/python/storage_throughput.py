"""What reading from a bucket costs beside a plain copy of the same bytes by boto3.

    pip install '.[storage-tests]'
    python benches/python/storage_throughput.py --megabytes 400 --files 8 --rounds 5

The server is moto's, in a process of its own on this machine. Ways alternate, after one round that is not
counted; the figures are medians. "copied" is what every read begins with: objects to scratch files by ranges
side by side. The ratio is the throughput beside that of `download_file` of boto3, which copies the same
objects, several at a time, each by ranges side by side.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

import orchestrace as ot
from orchestrace.corpus.remote_inputs import remote_files
from orchestrace.storage.fetching import copies, fetch

BUCKET = "runs"
AT_ONCE = 4
"""Objects that boto3 copies at a time, each on up to ten threads of its own."""


def _server() -> tuple[subprocess.Popen[str], str]:
    """A server of S3, and where it is."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            break
    else:
        raise SystemExit("the server does not start")
    # What it says of each request is read, so that it never waits for us.
    ThreadPoolExecutor(1).submit(lambda: [None for _ in process.stderr or ()])
    return process, found[0]


def _written(megabytes: int, files: int, folder: Path) -> int:
    """Recordings in the bucket; their bytes."""
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    size = 0
    for number in range(files):
        path = folder / f"{number:03}.jsonl"
        ot.generate(path, events=max(megabytes * 4400 // files, 100), seed=number)
        data = path.read_bytes().replace(b'"trace-', f'"t{number}-'.encode())
        path.write_bytes(data)
        client.upload_file(str(path), BUCKET, f"rec/{path.name}")
        size += len(data)
    return size


def _plain_copy() -> None:
    client = boto3.client("s3")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        keys = [one["Key"] for one in client.list_objects_v2(Bucket=BUCKET, Prefix="rec/")["Contents"]]
        jobs = [pool.submit(client.download_file, BUCKET, key, f"{folder}/{Path(key).name}") for key in keys]
        for job in jobs:
            job.result()


def _copied() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fetch(copies(remote_files(f"s3://{BUCKET}/rec")[0], Path(folder)))


def _ingested(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ot.ingest(source, f"{folder}/corpus")


def _measure(size: int, rounds: int, local: Path) -> None:
    url = f"s3://{BUCKET}/rec"
    ways: dict[str, Callable[[], object]] = {
        "boto3, `download_file`": _plain_copy,
        "copied as reads do": _copied,
        "`read_traces`": lambda: ot.read_traces(url),
        "the same from disk": lambda: ot.read_traces(local),
        "`ingest` to disk": lambda: _ingested(url),
        "the same from disk ": lambda: _ingested(str(local)),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, run in ways.items():
            begin = time.perf_counter()
            run()
            if number:
                took[name].append(time.perf_counter() - begin)
    plain = statistics.median(took["boto3, `download_file`"])
    print("| way | s | MB/s | beside boto3 |")
    print("|---|---:|---:|---:|")
    for name, seconds in took.items():
        median = statistics.median(seconds)
        print(f"| {name.strip()} | {median:.2f} | {size / 1e6 / median:.0f} | {plain / median:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    process, url = _server()
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        with tempfile.TemporaryDirectory() as folder:
            size = _written(given.megabytes, given.files, Path(folder))
            print(f"{size / 1e6:.0f} MB in {given.files} objects, {os.cpu_count()} cores\n")
            _measure(size, given.rounds, Path(folder))
    finally:
        process.terminate()


if __name__ == "__main__":
    main()
