"""Servers of object storage on this machine: moto's S3, and a proxy before it that does what networks do."""

import http.client
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

FAULTS = ("refuse", "lose", "truncate", "stall", "slow", "drop")
"""What a proxy does with a request: answer 503 without passing it on, pass it on and answer 500, break off in
the middle of the answer, answer too late, answer in small pieces, close the connection without an answer."""


@contextmanager
def s3(patch: Any) -> Iterator[str]:
    """A server of S3 with one bucket, ``runs``; the environment says where it is and who may use it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    patch.setenv("AWS_ENDPOINT_URL", url)
    patch.setenv("AWS_ACCESS_KEY_ID", "AKIDTHATNOBODYMAYSEE")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "a secret that nobody may see")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        boto3.client("s3").create_bucket(Bucket="runs")
        yield url
    finally:
        server.stop()


class Proxy:
    """Passes requests on, and does to some of them what its plan says."""

    def __init__(self, target: str, plan: Callable[[str, str], str | None]) -> None:
        self.target = target.removeprefix("http://")
        self.plan = plan
        self.done: list[tuple[str, str, str | None]] = []
        self.stall = 1.0

        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy.handle(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def handle(self, request: Any) -> None:
        """One request, as the plan says."""
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length) if length else None
        fault = self.plan(request.command, request.path)
        self.done.append((request.command, request.path, fault))
        if fault == "drop":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault == "deny":
            return self.answer(request, 403, [], b"AccessDenied for AKIDTHATNOBODYMAYSEE")
        if fault == "refuse":
            return self.answer(request, 503, [], b"busy")
        upstream = http.client.HTTPConnection(self.target, timeout=60)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in ("connection",)}
        upstream.request(request.command, request.path, body, headers)
        answer = upstream.getresponse()
        data = answer.read()
        known = [
            (k, v) for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection")
        ]
        upstream.close()
        if fault == "lose":
            return self.answer(request, 500, [], b"lost")
        if fault == "stall":
            time.sleep(self.stall)
        self.answer(request, answer.status, known, data, fault)

    def answer(
        self, request: Any, status: int, headers: list[tuple[str, str]], data: bytes, fault: str | None = None
    ) -> None:
        """Send an answer, or what of it the fault leaves."""
        try:
            request.send_response_only(status)
            told = {name.lower() for name, _ in headers}
            for name, value in headers:
                request.send_header(name, value)
            if "content-length" not in told:
                request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            if request.command == "HEAD":
                return
            if fault == "truncate" and len(data) > 1:
                request.wfile.write(data[: len(data) // 2])
                request.wfile.flush()
                request.close_connection = True
                request.connection.shutdown(socket.SHUT_RDWR)
            elif fault == "slow":
                step = max(len(data) // 5, 1)
                for at in range(0, len(data), step):
                    request.wfile.write(data[at : at + step])
                    request.wfile.flush()
                    time.sleep(0.05)
            else:
                request.wfile.write(data)
        except OSError:
            request.close_connection = True  # who asked has given up


def rotating(start: int, every: int = 4) -> Callable[[str, str], str | None]:
    """A plan that does one fault after the other, each to one request in so many."""
    numbers, lock = itertools.count(start), threading.Lock()

    def plan(method: str, path: str) -> str | None:
        with lock:
            turn, left = divmod(next(numbers), every)
        return None if left else FAULTS[turn % len(FAULTS)]

    return plan


@contextmanager
def proxied(target: str, plan: Callable[[str, str], str | None]) -> Iterator[Proxy]:
    """A proxy before a server, to which the environment leads meanwhile."""
    proxy = Proxy(target, plan)
    proxy.thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", proxy.url)
            yield proxy
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()


class Bucket:
    """The bucket `runs` as another client sees it."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        self.client = boto3.client("s3", endpoint_url=endpoint)

    def clear(self) -> None:
        """Remove all objects."""
        for key in self.keys():
            self.client.delete_object(Bucket="runs", Key=key)

    def keys(self, prefix: str = "") -> list[str]:
        """Keys of all objects below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="runs", Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self.client.put_object(Bucket="runs", Key=key, Body=data)

    def get(self, key: str) -> bytes:
        """Read an object."""
        data: bytes = self.client.get_object(Bucket="runs", Key=key)["Body"].read()
        return data

    def put_folder(self, folder: Path, prefix: str) -> None:
        """Write the files of a folder below a prefix."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def quick_backoff() -> dict[str, Any]:
    """Waits between repetitions that a test has time for."""
    return {
        "init_backoff": timedelta(milliseconds=5),
        "max_backoff": timedelta(milliseconds=20),
        "base": 2,
    }


def named_as(tables: dict[str, pl.DataFrame], folder: Path, url: str) -> dict[str, pl.DataFrame]:
    """Tables of recordings on disk with the names that they have below an address."""
    return {
        table: frame.with_columns(pl.col("file").str.replace(str(folder), url, literal=True))
        if "file" in frame.columns
        else frame
        for table, frame in tables.items()
    }


@contextmanager
def plain_files(folder: Path) -> Iterator[str]:
    """The files of a folder, served by Python's own server, which gives no ranges."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def started(source: Path, out: str, cache: Path, endpoint: str) -> subprocess.Popen[str]:
    """An ingest in a process of its own, at its begin."""
    process = subprocess.Popen(
        [sys.executable, "-m", "storage.dying", json.dumps({"source": str(source), "out": out})],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "AWS_ENDPOINT_URL": endpoint, "ORCHESTRACE_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n", process.communicate()[1]
    return process


def ingest_elsewhere(source: Path, out: str, cache: Path) -> Callable[[str], None]:
    """The same ingest on another machine, from its beginning to its end."""

    def run(endpoint: str) -> None:
        process = started(source, out, cache, endpoint)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors

    return run
