"""A credit method whose workers die or wait: registered where it is imported, as a module of a caller is."""

import os
import signal
import tempfile
import time
from pathlib import Path

import polars as pl

import orchestrace as ot

NAME = "of_dying_workers"


def marks_of(run: int) -> Path:
    """The folder of marks, which every process of this machine finds by its number."""
    return Path(tempfile.gettempdir()) / f"orchestrace-marks-{run}"


@ot.credit_method(
    NAME,
    summary="the same for each event, from workers that die",
    quantity="share",
    params=[
        ot.Param("run", 0, "number of a folder of marks, one for each piece whose worker died"),
        ot.Param("always", False, "whether every worker dies"),
        ot.Param("seconds", 0.0, "what a piece takes", low=0.0),
    ],
)
def credit(corpus, rewards, params, seed):
    """Kill the process at the first call for a piece, or wait."""
    traces = corpus.traces.select("trace").collect()["trace"]
    if len(traces):
        if params["always"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if params["run"]:
            mark = marks_of(params["run"]) / str(traces[0])
            if not mark.exists():
                mark.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(params["seconds"])
    events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
    return ot.EventValues(events.select(value=pl.col("amount") / pl.len().over("trace")).collect())
