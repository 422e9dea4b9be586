"""Servers of object storage on this machine: moto's S3, and a proxy before it that does what networks do."""

import http.client
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
        self.stall = 3.0

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


def seeded(seed: int, rate: float, faults: tuple[str, ...] = FAULTS) -> Callable[[str, str], str | None]:
    """A plan that does one of the faults to a share of the requests."""
    draws, lock = random.Random(seed), threading.Lock()

    def plan(method: str, path: str) -> str | None:
        with lock:
            return draws.choice(faults) if draws.random() < rate else None

    return plan


@contextmanager
def proxied(target: str, plan: Callable[[str, str], str | None]) -> Iterator[Proxy]:
    """A proxy before a server."""
    proxy = Proxy(target, plan)
    proxy.thread.start()
    try:
        yield proxy
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()
