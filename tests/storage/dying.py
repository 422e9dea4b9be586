"""An ingest into a bucket, in a process of its own that may be killed: `python -m storage.dying <json>`."""

import json
import sys
from typing import Any

import orchestrace as ot
from orchestrace.storage import repeating, stores
from samples import on_disk
from storage.servers import quick_backoff


def main(spec: dict[str, Any]) -> None:
    """Ingest as the specification says."""
    on_disk.make_small(setattr, slice_rows=700)
    stores.RETRIES["backoff"] = quick_backoff()
    repeating.FIRST_WAIT = 0.01  # type: ignore[misc]
    print("begun", flush=True)
    ot.ingest(spec["source"], spec["out"], partitions=3, threads=2, fields=on_disk.FIELDS)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
