"""A credit method whose workers die, wait or find a full disk: registered as a module of a caller is."""

import os
import resource
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import polars as pl

import orchestrace as ot

NAME = "of_dying_workers"


def marks_of(run: int) -> Path:
    """The folder of marks, which every process of this machine finds by its number."""
    return Path(tempfile.gettempdir()) / f"orchestrace-marks-{run}"


def _fill_disk(mark: Path, room: int) -> None:
    """Let this process write no file of more than some bytes, if it is the first one that tries."""
    with suppress(FileExistsError):
        mark.touch(exist_ok=False)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@ot.credit_method(
    NAME,
    summary="the same for each event, from workers that die",
    quantity="share",
    params=[
        ot.Param("run", 0, "number of a folder of marks, one for each piece whose worker died"),
        ot.Param("always", False, "whether every worker dies"),
        ot.Param("seconds", 0.0, "what a piece takes, and how far into it a worker dies", low=0.0),
        ot.Param("room", 0, "bytes that the disk has for a file of the first worker, in place of its death"),
    ],
)
def credit(corpus, rewards, params, seed):
    """Wait, then kill the process at the first call for a piece, or leave it a disk with hardly any room."""
    traces = corpus.traces.select("trace").collect()["trace"]
    if len(traces):
        time.sleep(params["seconds"])
        if params["always"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if params["room"]:
            _fill_disk(marks_of(params["run"]) / "full", params["room"])
        elif params["run"]:
            mark = marks_of(params["run"]) / str(traces[0])
            if not mark.exists():
                mark.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
    events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
    return ot.EventValues(events.select(value=pl.col("amount") / pl.len().over("trace")).collect())
