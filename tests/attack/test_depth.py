"""Nesting at the most that `max_depth` allows, in every importer, on threads with the default stack."""

import subprocess
import sys
from pathlib import Path

import pytest

import orchestrace as ot

ROOT = Path(__file__).resolve().parents[2] / "data" / "importers"

FORMATS = [name for name in ot.importers()["name"].to_list() if name not in ("mapping", "unknown")]

#: Read in a process of its own: a stack that overflows ends it.
SCRIPT = """
import io, json, sys, warnings
import orchestrace as ot
warnings.simplefilter("ignore")
root = {root!r}
for line in open(root).read().splitlines()[:1] if root else ["{{}}"]:
    for brackets in ("[]", "{{}}"):
        opened, closed = ("[", "]") if brackets == "[]" else ('{{"a":', "}}")
        deep = opened * 997 + "1" + closed * 997
        record = json.loads(line)
        targets = list(record) or ["x"]
        for key in targets:
            text = json.dumps({{**record, key: "DEEP"}}).replace('"DEEP"', deep)
            for threads in (1, 2):
                corpus = ot.read_traces(io.BytesIO(text.encode()), format={name!r}, max_depth=1000,
                                        threads=threads)
                corpus.events.collect()
print("read")
"""


@pytest.mark.parametrize("name", FORMATS)
def test_the_deepest_record_overflows_no_stack(name: str) -> None:
    golden = ROOT / name / "input.jsonl"
    script = SCRIPT.format(root=str(golden) if golden.exists() else "", name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-500:]
