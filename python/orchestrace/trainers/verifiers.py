"""Credit in verifiers and prime-rl: advantages of messages, on live episodes.

The same function as writing files back: episodes are written as their own records, read, credited, and
stamped (docs/how-to/write-advantages-back.md). Nothing else of them changes.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.errors import ParameterError
from ..corpus.reading import read_traces
from ..credit.verb import credit
from .batches import check_method
from .episodes import stamp


def assign(episodes: Sequence[Any], method: str, **params: Any) -> int:
    """Give the sampled messages of live episodes their advantages.

    Parameters
    ----------
    episodes
        Of the package ``verifiers``: each has ``traces`` of ``nodes`` and ``model_dump_json()``.
    method
        One of `list_methods`.
    **params
        As of `credit`, the reward among them.

    Returns
    -------
    int
        Messages that have advantages now. Others have None, which is not 0.

    Raises
    ------
    ParameterError
        Two episodes share an id, one could not be read, the baseline of the method goes on from batch to
        batch (``rae``), or as of `credit`.
    """
    check_method(method)
    if not episodes:
        return 0
    names = [episode.id for episode in episodes]
    if len(set(names)) < len(names):
        raise ParameterError("two episodes share an id, so their advantages cannot be told apart")
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "traces.jsonl", Path(folder) / "stamped.jsonl"
        path.write_text("".join(episode.model_dump_json() + "\n" for episode in episodes), encoding="utf-8")
        corpus = read_traces(path, format="verifiers")
        if (refused := corpus.quarantine.collect()).height:
            first = refused.row(0, named=True)
            raise ParameterError(f"episode {first['line']}: {first['message']}")
        credits = credit(corpus, method=method, unit="turn", **params)
        with out.open("wb") as sink:
            stamp(corpus, sink, credits)
        with out.open(encoding="utf-8") as lines:
            stamped = {record["id"]: record for record in map(json.loads, lines)}
    count = 0
    for episode in episodes:
        record = stamped.get(episode.id)
        for place, live in enumerate(episode.traces):
            # an episode that nobody acted in is no trace of the corpus
            nodes = [{}] * len(live.nodes) if record is None else record["traces"][place]["nodes"]
            for node, written in zip(live.nodes, nodes, strict=True):
                node.advantages = written.get("advantages")
                count += node.advantages is not None
    return count
