"""The process of its own that runs queries: one in, one answer out, a line of JSON each."""

import faulthandler
import json
import os
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ...base.children import answering
from ...base.errors import OrchestraceError
from ...disk.partitioned import PartitionedCorpus
from .answers import Answer, table
from .confinement import Root
from .queries import answer_of
from .recordings import Recordings


def queried(recordings: Recordings, path: str, query: str, rows: int) -> Answer:
    """The rows that a query gives over the tables of what a client names."""
    corpus = recordings.opened(path)
    # files that a plan may scan are those of a corpus on disk; of one in memory there are none
    folder = str(recordings.root.place(path)) if isinstance(corpus, PartitionedCorpus) else None
    frame, has_more = answer_of(corpus, query, rows, folder, recordings.root.folder)
    answer = {**table(frame, rows), "has_more": has_more}
    del answer["n_rows"]
    return answer


def main() -> None:
    """Serve until there is no more input."""
    answer = answering()
    recordings: Recordings | None = None
    with open(os.devnull, "w") as nowhere:
        for line in sys.stdin:
            sent = json.loads(line)
            # should the server be gone by then: a plan in the making holds up all threads of Python
            faulthandler.dump_traceback_later(sent["seconds"] + 5, exit=True, file=nowhere)
            recordings = recordings or Recordings(Root(Path(sent["root"])))
            answer(**_reply(recordings, sent))
            faulthandler.cancel_dump_traceback_later()


def _reply(recordings: Recordings, sent: Mapping[str, Any]) -> dict[str, object]:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            content = queried(recordings, sent["path"], sent["query"], sent["rows"])
        return {"content": content, "warnings": sorted({str(warning.message) for warning in caught})}
    except OrchestraceError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": error.strerror or str(error)}
    except (Exception, pl.exceptions.PanicException) as error:  # a bug, after which others may still ask
        traceback.print_exc()
        return {"error": f"query failed with {type(error).__name__}, which is a fault of orchestrace"}


if __name__ == "__main__":
    main()
