"""Options that make no sense, and file objects that misbehave: one clear line, and never a hang."""

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

RECORD = (
    b'{"trace_id": "%s", "task_id": "q", "edges": [], "rewards": {"team": 1},'
    b' "costs": {"tokens": 9, "wall_clock_s": 2},'
    b' "events": [{"id": "e1", "t": 0, "type": "return", "agent": "solo"}]}\n'
)


def recording(n: int = 1) -> bytes:
    return b"".join(RECORD % str(i).encode() for i in range(n))


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.read_traces(io.BytesIO(recording(2)))


@pytest.mark.parametrize("value", [-1, 2**70, 2**5000, "x", 1.5])
@pytest.mark.parametrize(
    "name",
    ["threads", "max_record", "max_depth", "max_string", "max_expansion", "max_decompressed", "excerpt"],
)
def test_numbers_of_reading(name, value) -> None:
    with pytest.raises(ot.ParameterError, match=f"^{name} is [^\n]*$"):
        ot.read_traces(io.BytesIO(recording()), **{name: value})


@pytest.mark.parametrize("threads", [0, 1025])
def test_numbers_of_threads(corpus, threads) -> None:
    calls = [
        lambda: ot.read_traces(io.BytesIO(recording()), threads=threads),
        lambda: ot.credit(corpus, threads=threads),
        lambda: ot.generate(traces=1, threads=threads),
        lambda: corpus.write_jsonl(io.BytesIO(), threads=threads),
    ]
    for call in calls:
        with pytest.raises(ot.ParameterError, match="threads is"):
            call()


@pytest.mark.parametrize("value", [-1, 2**70, "x"])
def test_numbers_of_credit_and_generate(corpus, value) -> None:
    with pytest.raises(ot.ParameterError, match="seed is"):
        ot.credit(corpus, seed=value)
    for name in ("seed", "traces", "events"):
        with pytest.raises(ot.ParameterError, match=f"{name} is"):
            ot.generate(**{name: value})


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (3, "reward is of type int"),
        ({"team": "x"}, "weight of reward 'team'"),
        ({"team": None}, "weight of reward 'team'"),
        ({"team": 10**400}, "weight of reward 'team'"),
        ({"team": float("inf")}, "weight of reward 'team'"),
        ({3: 1.0}, "channel 3 is not text"),
    ],
)
def test_rewards(corpus, reward, message) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.credit(corpus, reward=reward)


def test_targets(corpus) -> None:
    for target, message in [(None, "NoneType"), (3, "int"), (io.StringIO(), "binary mode")]:
        with pytest.raises(ot.ParameterError, match=message):
            corpus.write_jsonl(target)
    with pytest.raises(ot.ParameterError, match="int"):
        ot.generate(3, traces=1)


def test_a_reward_beyond_the_float_range_is_none() -> None:
    text = recording(2).replace(b'"team": 1}', b'"team": 1e308, "b": -1e308}')
    corpus = ot.read_traces(io.BytesIO(text))
    for method in ("uniform", "flow", "discounted", "grpo"):
        for reward in ({"team": 10.0}, {"team": 10.0, "b": 10.0}):
            frame = ot.credit(corpus, method=method, reward=reward)
            assert frame["credit"].null_count() == frame.height > 0
            assert set(frame["reason"]) == {"reward.absent"}
        assert ot.credit(corpus, method=method)["credit"].is_finite().all()


def test_advantages_of_extreme_rewards_are_numbers() -> None:
    wide = (
        recording(2).replace(b'"team": 1}', b'"team": 1e308}', 1).replace(b'"team": 1}', b'"team": -1e308}')
    )
    for text in (wide, wide.replace(b"e308", b"e-200")):
        credit = ot.credit(ot.read_traces(io.BytesIO(text)), method="grpo", epsilon=0.0)["credit"]
        assert credit.to_list() == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_lifted_columns_keep_their_order() -> None:
    names = [f"x{i}" for i in range(12)]
    text = recording().replace(b'"agent"', b", ".join(f'"{n}": 1'.encode() for n in names) + b', "agent"')
    corpus = ot.read_traces(io.BytesIO(text), fields=dict.fromkeys(reversed(names), pl.Int64()))
    assert list(corpus._store.lifted) == sorted(names)
    assert corpus.events.collect_schema().names()[-12:] == sorted(names)


class Stream:
    """A file object of the given pieces; an exception among them is raised."""

    def __init__(self, *pieces: object) -> None:
        self.pieces = list(pieces)

    def read(self, size: int) -> object:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, BaseException):
            raise piece
        if isinstance(piece, str | int):
            return piece
        piece = type(piece)(piece)  # type: ignore[call-arg]
        self.pieces.insert(0, piece[size:])
        if not self.pieces[0]:
            del self.pieces[0]
        return piece[:size]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_anything_like_bytes_is_read(kind) -> None:
    assert ot.read_traces(Stream(kind(recording(3)))).records["used"] == 3


@pytest.mark.parametrize(("piece", "message"), [("{}", "binary mode"), (5, "returned int, expected bytes")])
def test_what_is_not_bytes_is_refused(piece, message) -> None:
    with pytest.raises(ot.InputError, match=message):
        ot.read_traces(Stream(piece))


@pytest.mark.parametrize("before", [b"", recording(), b"\x1f\x8b\x08\x00\x00\x00\x00\x00"])
def test_what_a_reader_raises_is_the_cause(before) -> None:
    pieces = [before] if before else []
    error = ValueError("gone")
    with pytest.raises(ot.InputError, match="gone") as caught:
        ot.read_traces(Stream(*pieces, error))
    assert caught.value.__cause__ is error
    for stop in (KeyboardInterrupt("now"), SystemExit(3)):
        with pytest.raises(type(stop)) as stopped:
            ot.read_traces(Stream(*pieces, stop))
        assert stopped.value is stop


def test_what_a_writer_raises_is_the_cause(corpus) -> None:
    class Full:
        def write(self, data: bytes) -> int:
            raise error

    error = OSError(28, "No space left on device")
    for call in (corpus.write_jsonl, lambda target: ot.generate(target, traces=1)):
        with pytest.raises(ot.InputError, match="No space left") as caught:
            call(Full())
        assert caught.value.__cause__ is error


def test_a_raw_writer_that_takes_nothing_fails(corpus) -> None:
    class Raw(io.RawIOBase):
        def write(self, data: object, /) -> None:
            return None

    class Silent:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> None:
            self.data += data

    with pytest.raises(ot.InputError, match="accepts no data"):
        corpus.write_jsonl(Raw())
    silent = Silent()
    assert corpus.write_jsonl(silent) == silent.data.count(b"\n") == 2


def test_standard_input_may_be_closed(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ot.InputError, match="standard input is closed"):
        ot.read_traces("-")


def test_named_pipes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    feeder = threading.Thread(target=lambda: path.write_bytes(recording(2_000)))
    feeder.start()
    assert ot.read_traces(path).records["used"] == 2_000
    feeder.join()


@pytest.mark.process
@pytest.mark.parametrize("where", ["stdin", "half", "fifo"])
def test_a_wait_for_data_can_be_interrupted(tmp_path: Path, where: str) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    source = str(path) if where == "fifo" else "-"
    program = f"import orchestrace as ot; print('ready', flush=True); ot.read_traces({source!r})"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.readline()
        if where == "half":
            process.stdin.write(recording()[:-20])
            process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        finally:
            process.kill()
        assert b"KeyboardInterrupt" in process.stderr.read()


def test_words_that_are_misspelt_get_the_one_that_was_meant(tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=1, seed=0)
    with pytest.raises(ot.InputError, match=r"rnus.jsonl'; did you mean '.*runs.jsonl'\?"):
        ot.read_traces(tmp_path / "rnus.jsonl")
    with pytest.raises(ot.InputError, match=r"no such file or folder: '[^;]*' "):
        ot.read_traces(tmp_path / "nothing like it")
    (tmp_path / os.fsdecode(b"r\xffns.jsonl")).touch()
    for odd in ("r\0ns", os.fsdecode(b"r\xff")):
        with pytest.raises((ot.InputError, ot.ParameterError)):
            ot.read_traces(tmp_path / odd)
    with pytest.raises(TypeError, match=r"drop\(\) has no argument 'roel'; did you mean 'role'\?"):
        ot.interventions.drop(roel="x")  # type: ignore[call-arg]  # the mistake
    with pytest.raises(
        TypeError, match=r"credit\(\) takes its arguments after corpus by name \(method=, unit="
    ):
        ot.credit(ot.generate(traces=1, seed=0), "flow")  # type: ignore[call-arg, misc]  # the mistake
    with pytest.raises(AttributeError, match=r"has no 'drop'; did you mean ot.interventions.drop\?"):
        ot.drop  # type: ignore[attr-defined]  # the mistake  # noqa: B018
