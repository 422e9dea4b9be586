"""Nesting at the most that `max_depth` allows, in every importer, on threads with the default stack."""

import json
import subprocess
import sys
from pathlib import Path

import orchestrace as ot

ROOT = Path(__file__).resolve().parents[2] / "data" / "importers"

FORMATS = [name for name in ot.list_importers()["name"].to_list() if name not in ("mapping", "unknown")]

#: Read in a process of its own: a stack that overflows ends it, after the name of the format at fault.
SCRIPT = """
import io, json, sys, warnings
import orchestrace as ot
warnings.simplefilter("ignore")
for name, line in json.loads(sys.argv[1]):
    print(name, flush=True)
    for brackets in ("[]", "{}"):
        opened, closed = ("[", "]") if brackets == "[]" else ('{"a":', "}")
        deep = opened * 997 + "1" + closed * 997
        record = json.loads(line)
        targets = list(record) or ["x"]
        for key in targets:
            text = json.dumps({**record, key: "DEEP"}).replace('"DEEP"', deep)
            for threads in (1, 2):
                corpus = ot.read_traces(io.BytesIO(text.encode()), format=name, max_depth=1000,
                                        threads=threads)
                corpus.events.collect()
print("read")
"""


def first_line(name: str) -> str:
    golden = ROOT / name / "input.jsonl"
    return golden.read_text().splitlines()[0] if golden.exists() else "{}"


def test_the_deepest_record_overflows_no_stack() -> None:
    asked = json.dumps([(name, first_line(name)) for name in FORMATS])
    done = subprocess.run([sys.executable, "-c", SCRIPT, asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-500:])
    assert done.stdout.splitlines() == [*FORMATS, "read"]
