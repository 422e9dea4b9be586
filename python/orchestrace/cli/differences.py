"""Two runs by their names, and where they part, in sentences."""

import polars as pl

from ..base.errors import ParameterError
from ..base.text import counted, plain
from ..corpus.corpus import Corpus


def run_of(corpus: Corpus, name: str | None, flag: str) -> int | None:
    """The number of a run that is named, or of the only one."""
    traces = corpus.traces.select("trace", "trace_id").collect()
    if name is None:
        return int(traces["trace"][0]) if traces.height == 1 else None
    number = pl.lit(int(name) if name.isdecimal() and int(name) < 2**32 else None, pl.UInt32)
    by_id = traces.filter(pl.col("trace_id") == name)
    named = by_id if by_id.height else traces.filter(pl.col("trace") == number)
    if named.height != 1:
        problem = (
            "is no run" if not named.height else f"is the trace_id of {named.height} runs; give a number"
        )
        raise ParameterError(f"{flag} is '{plain(name)}', which {problem} of {counted(traces.height, 'run')}")
    return int(named["trace"][0])


def parting_story(sides: tuple[Corpus, Corpus], aligned: pl.DataFrame, script: pl.DataFrame) -> list[str]:
    """Where two runs part, in sentences."""
    first = aligned.row(0, named=True)
    if first["reason"] in ("support.absent", "field.absent"):
        why = {
            "support.absent": "no agent of either run takes a step",
            "field.absent": "more than a fifth of the steps have no hash of their texts; try --key shape",
        }
        return [f"not compared: {why[first['reason']]} ({first['reason']})"]
    lines = []
    parting = aligned.filter("first")
    if parting.is_empty():
        lines.append(f"the two runs take the same {int(aligned['n_a'].sum()):,} steps")
    else:
        row = parting.row(0, named=True)
        who = row["label"] or "the team"
        ways = [
            f"{at} has no such agent"
            if not row[f"n_{at}"]
            else f"{at} {_step(side, row[f'trace_{at}'], row[f'seq_{at}'])}"
            for at, side in zip(("a", "b"), sides, strict=True)
        ]
        lines.append(f"first they part at step {row['prefix'] + 1} of {who}: {'; '.join(ways)}")
        if row["reason"] == "budget.exceeded":
            lines.append("the rest of it is too long to align")
        else:
            lines.append(
                "they never rejoin for three steps"
                if row["sustained"]
                else f"they rejoin at event {row['rejoin_a']} of a, {row['rejoin_b']} of b"
            )
        lines.append(
            f"{int((script['edit'] != 'same').sum()):,} of {script.height:,} steps are of one run alone"
        )
    if first["outcome_delta"] is not None:
        lines.append(f"the reward of a less that of b is {first['outcome_delta']:g}")
    return lines


def _step(side: Corpus, trace: int, seq: int | None) -> str:
    if seq is None:
        return "ends"
    event = (
        side.events.filter((pl.col("trace") == trace) & (pl.col("seq") == seq))
        .select("type", "tool")
        .collect()
    )
    kind, tool = (str(value) if value is not None else None for value in event.row(0))
    return f"takes {kind}" + (f" {tool}" if tool else "") + f" (event {seq})"
