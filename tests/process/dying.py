"""An ingest that is killed, or waits, at a chosen moment. A script: `python dying.py <json>`.

The moment is a stage and how often it was reached before. Without one the script prints how often every stage
is reached.
"""

import collections
import json
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot
from orchestrace import _core
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.disk import batches, merging, work as ingest_work
from samples import on_disk


class Moments:
    """Counts the stages; at the chosen one it does what is to be done there."""

    def __init__(self, chosen: list[Any] | None, act: Callable[[], object]) -> None:
        self.reached: collections.Counter[str] = collections.Counter()
        self.merging = False
        self._chosen = chosen
        self._act = act

    def is_next(self, stage: str) -> bool:
        """Whether the chosen moment comes when this stage is reached now."""
        stage = f"merging, {stage}" if self.merging else stage
        here = [stage, self.reached[stage]] == self._chosen
        self.reached[stage] += 1
        return here

    def reach(self, stage: str) -> None:
        if self.is_next(stage):
            self._act()

    def around(self, module: Any, name: str, stage: str) -> None:
        """Let a function be a stage: before it and after it."""
        original = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.reach(f"{stage}: before")
            made = original(*args, **kwargs)
            self.reach(f"{stage}: after")
            return made

        setattr(module, name, call)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait() -> None:
    """Tell the parent, and go on when it says so."""
    print("reached", flush=True)
    sys.stdin.readline()


def hook(moments: Moments, act: Callable[[], object]) -> None:
    """Let every step of an ingest be a stage."""
    write_parquet, write_text, replace = pl.DataFrame.write_parquet, Path.write_text, os.replace

    class Reader:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._reader = _core.TraceReader(*args, **kwargs)

        def next(self, *args: Any, **kwargs: Any) -> Any:
            moments.reach("parsing: before")
            if moments.is_next("parsing: inside"):
                threading.Thread(target=lambda: (time.sleep(0.001), act()), daemon=True).start()
            made = self._reader.next(*args, **kwargs)
            moments.reach("parsing: after")
            return made

    ingest_work._core = types.SimpleNamespace(**{**vars(_core), "TraceReader": Reader})  # type: ignore[attr-defined]
    moments.around(ingest_work._core, "fingerprint", "hashing")  # type: ignore[attr-defined]

    def parquet(frame: pl.DataFrame, file: Any, **kwargs: Any) -> None:
        moments.reach("writing: before")
        write_parquet(frame, file, **kwargs)
        if moments.is_next("writing: inside"):
            file.flush()
            place = file._file.fileno()
            os.ftruncate(place, os.fstat(place).st_size // 2)
            act()
        moments.reach("writing: after")

    def text(path: Path, data: str, **kwargs: Any) -> int:
        moments.reach("manifest, writing: before")
        if moments.is_next("manifest, writing: inside"):
            write_text(path, data[: len(data) // 2], **kwargs)
            act()
        made = write_text(path, data, **kwargs)
        moments.reach("manifest, writing: after")
        return made

    def renamed(old: Any, new: Any) -> None:
        stage = "manifest, renaming" if Path(new).name == MANIFEST else "renaming"
        moments.reach(f"{stage}: before")
        replace(old, new)
        moments.reach(f"{stage}: after")

    pl.DataFrame.write_parquet, Path.write_text, os.replace = parquet, text, renamed  # type: ignore[method-assign]
    moments.around(Path, "unlink", "removing")
    moments.around(batches, "_encoded", "piece")
    moments.around(merging, "_merged", "partition")
    moments.around(merging, "_merge_side", "side table")

    merge = ingest_work.merge  # type: ignore[attr-defined]

    def watched(*args: Any) -> None:
        moments.merging = True
        merge(*args)
        moments.merging = False

    ingest_work.merge = watched  # type: ignore[attr-defined]


def main(spec: dict[str, Any]) -> None:
    """Ingest as the specification says."""
    on_disk.make_small(setattr, **spec["small"])
    act = {"kill": kill, "wait": wait}[spec.get("act", "kill")]
    moments = Moments(spec.get("moment"), act)
    hook(moments, act)
    print("begun", flush=True)
    ot.ingest(spec["source"], spec["out"], fields=on_disk.FIELDS, **spec["options"])
    print(json.dumps(moments.reached))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
