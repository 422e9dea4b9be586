"""Whether recordings make a benchmark by the survey's rules B1 to B5: verdicts and their counts."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import polars as pl

from ..base.arguments import Confidence, IntervalWidth, PositiveShare, Threads
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.progress import Progress
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from .benchmark_evidence import DECADES, FAMILY_PARTS, FIXES, PARTS, REPLAYABLE, TOPOLOGIES, evidence, fix_of

RULES: Final = {
    "B1": "report all of E1 to E4",
    "B2": "stratify by size: about 10, 100 and 1000 events",
    "B3": "vary the topology",
    "B4": "include adversarial controls",
    "B5": "open, replayable traces",
}
"""The rules and what each asks for, in their order."""

VERDICTS: Final = pl.Schema(
    {
        "rule": pl.Enum(list(RULES)),
        "verdict": pl.Enum(["pass", "fail", "inconclusive"]),
        "numbers": pl.String(),
        "reason": pl.String(),
        "asks": pl.String(),
    }
)
"""Columns and types of what `benchmark_verdict` returns."""

COUNTS: Final = pl.Schema(
    {
        "rule": VERDICTS["rule"],
        "part": pl.String(),
        "n_traces": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "share": pl.Float64(),
        "needed": pl.UInt64(),
        "lacks": pl.String(),
        "fix": pl.String(),
    }
)
"""Columns and types of what `benchmark_counts` returns."""


@dataclass(frozen=True)
class _Counts:
    """How many traces and tasks have each part, and what a verdict goes by."""

    traces: dict[str, int]
    tasks: dict[str, int]
    lacks: dict[str, str | None]
    n_traces: int
    n_tasks: int
    n_repeated: int
    """Tasks with two traces or more."""
    share: float
    needed: int
    license: str | None

    def of_traces(self, part: str, total: str | None = None) -> float:
        """The share of traces, or of those with another part, that have a part; 0 of none."""
        whole_number = self.n_traces if total is None else self.traces[total]
        return self.traces[part] / whole_number if whole_number else 0.0

    def rarest(self, parts: Iterable[str]) -> str:
        """Of some parts the one that the fewest traces have, the first of several."""
        return min(parts, key=self.traces.__getitem__)

    def is_missing(self, part: str) -> bool:
        """Whether a rule needs more of a part."""
        if part in DECADES:
            return self.tasks[part] < self.needed
        if part == "topology not known":
            return self.traces[part] > 0
        # not every trace is to be attacked, but each that is has to have a twin
        enough = {"attack": 1, "attack with a clean twin": self.traces["attack"]}
        return self.traces[part] < enough.get(part, self.n_traces)

    def fix(self, part: str) -> str | None:
        """What to record or to run, that there is more of a part."""
        parts = {"all of E1 to E4": FAMILY_PARTS.values(), "replayable": REPLAYABLE}.get(part)
        if parts is not None:
            return self.fix(self.rarest(parts))
        return fix_of(part, self.lacks.get(part))


_Verdict = tuple[str, str, str]
"""Verdict, numbers, reason."""


@verb
def benchmark_verdict(
    corpus: Corpus,
    *,
    share: PositiveShare = 0.9,
    width: IntervalWidth = 0.2,
    license: str | None = None,
    confidence: Confidence = 0.95,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Judge whether recordings make a benchmark by the survey's five rules, each with its numbers.

    Parameters
    ----------
    corpus
        The recordings.
    share
        The part of the traces, or of the tasks, that has to meet a rule.
    width
        How wide the interval of a success rate may be in each stratum of size.
    license
        The name of the license under which others may use the recordings. No recording says so.
    confidence
        Coverage of that interval.
    engine
        What computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per rule: ``rule`` (Enum: ``B1`` to ``B5``), ``verdict`` (Enum: ``pass``, ``fail``,
        ``inconclusive``), ``numbers reason asks`` (String). What a recording does not say is inconclusive.

        - ``B1``: `share` of the traces report all families E1 to E4 (docs/reference/definitions.md, D21; a
          ``team`` reward is task success, too). Fails if no trace reports some family.
        - ``B2``: each stratum has as many tasks as its interval needs. Fails if a stratum is empty.
        - ``B3``: two or more of six topologies, and `share` of the tasks under more than one. Fails if all
          traces say which they had, and that was one of the six at most.
        - ``B4``: attacks are recorded, and `share` of the attacked traces have a clean twin: a trace of the
          same task without an attack that says so. Fails if `share` of the traces say what was trusted or
          corrupted, untrusted content is nowhere, and nor is an attack.
        - ``B5``: `share` of the traces can be replayed, and you state a `license`. Fails if none can.

    Raises
    ------
    ParameterError
        An option out of range, a license that is blank, or an engine that is not known.

    Notes
    -----
    A stratum of c tasks has the interval of Wilson 1927, widest at a rate of one half: z/sqrt(c + z²). Traces
    of one task are no independent trials, and not counted twice. Sizes are events. A corpus without a trace
    is inconclusive. O(events + edges); memory grows with traces. Source: arXiv 2605.02801, rules B1 to B5.

    Examples
    --------
    >>> import orchestrace as ot
    >>> verdicts = ot.evaluation.benchmark_verdict(ot.generate(traces=8, seed=0))
    >>> verdicts.select("rule", "verdict").rows()[1]
    ('B2', 'fail')
    """
    if license is not None and not license.strip():
        raise ParameterError(f"license is {license!r}, expected its name")
    rows = evidence(corpus, engine=engine, threads=threads, progress=progress)
    counts = _counts(rows, share, tasks_for(width, confidence), license)
    judges: dict[str, Callable[[_Counts], _Verdict]] = {
        "B1": _families,
        "B2": _sizes,
        "B3": _topologies,
        "B4": _attacks,
        "B5": _replays,
    }
    none = ("inconclusive", "0 traces", "there is no trace")
    verdicts = [(judge(counts) if counts.n_traces else none) for judge in judges.values()]
    table = [(rule, *verdict, asks) for (rule, asks), verdict in zip(RULES.items(), verdicts, strict=True)]
    return pl.DataFrame(table, schema=VERDICTS, orient="row")


@verb
def benchmark_counts(
    corpus: Corpus,
    *,
    width: IntervalWidth = 0.2,
    confidence: Confidence = 0.95,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Count the traces and tasks behind each verdict of `benchmark_verdict`, part by part.

    Parameters
    ----------
    corpus
        The recordings.
    width, confidence, engine, threads, progress
        As in `benchmark_verdict`.

    Returns
    -------
    DataFrame
        A row per rule and part: ``rule`` (Enum), ``part`` (String), ``n_traces n_tasks`` (UInt32: traces with
        it, and tasks that have one), ``share`` (Float64: 0..1 of the traces, null without traces), ``needed``
        (UInt64: tasks that a stratum of size needs, else null), ``lacks`` (String: of a family the metrics
        that are null in most traces without it, and why), ``fix`` (String: what to record or to run; of a
        family what `lacks` asks for, of ``all of E1 to E4`` and ``replayable`` that of the rarest part; null
        where every trace has the part, or as many traces or tasks as the rule needs, and of parts that no
        rule needs: a topology, ``mixed``, untrusted content, sizes beyond the strata).

    Raises
    ------
    ParameterError
        An option out of range, or an engine that is not known.

    Notes
    -----
    As `benchmark_verdict`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> counts = ot.evaluation.benchmark_counts(ot.generate(traces=8, seed=0))
    >>> counts.filter(part="about 10").select("n_traces", "needed").row(0)
    (4, 93)
    """
    rows = evidence(corpus, engine=engine, threads=threads, progress=progress)
    needed = tasks_for(width, confidence)
    counts = _counts(rows, 1.0, needed, None)
    table = [
        {
            "rule": rule,
            "part": part,
            "n_traces": counts.traces[part],
            "n_tasks": counts.tasks[part],
            "share": counts.of_traces(part) if counts.n_traces else None,
            "needed": needed if part in DECADES else None,
            "lacks": counts.lacks.get(part),
            "fix": counts.fix(part) if counts.is_missing(part) else None,
        }
        for rule, parts in PARTS.items()
        for part in parts
    ]
    return pl.DataFrame(table, schema=COUNTS)


def tasks_for(width: float, confidence: float) -> int:
    """How many tasks Wilson's interval of a rate needs to be no wider than this, whatever the rate.

    Examples
    --------
    >>> from orchestrace.evaluation.benchmark import tasks_for
    >>> tasks_for(0.2, 0.95), tasks_for(1.0, 0.95)
    (93, 1)
    """
    z = NormalDist().inv_cdf((1.0 - confidence) / 2.0)  # of the lower tail: the upper may round to 1
    return max(math.ceil(z * z * (1.0 / (width * width) - 1.0)), 1)


def _counts(rows: pl.DataFrame, share: float, needed: int, license: str | None) -> _Counts:
    parts = [part for names in PARTS.values() for part in names]
    traces = rows.select(pl.col(*parts).sum()).row(0, named=True)
    tasks = rows.select(pl.col("task_id").filter(pl.col(part)).n_unique().alias(part) for part in parts).row(
        0, named=True
    )
    modes = rows.select(
        pl.col(f"lacks {family}").drop_nulls().mode().sort().first().alias(part)
        for family, part in FAMILY_PARTS.items()
    )
    lacks: dict[str, str | None] = modes.row(0, named=True)
    repeated = rows.group_by("task_id").len().filter(pl.col("len") > 1)
    n_tasks = rows["task_id"].n_unique()
    return _Counts(traces, tasks, lacks, rows.height, n_tasks, repeated.height, share, needed, license)


def _families(counts: _Counts) -> _Verdict:
    shares = {name.partition(" ")[0]: counts.of_traces(name) for name in FAMILY_PARTS.values()}
    whole_share = counts.of_traces("all of E1 to E4")
    numbers = ", ".join(f"{name} {_percent(part)}" for name, part in {**shares, "all": whole_share}.items())
    absent = [name for name in FAMILY_PARTS.values() if not counts.traces[name]]
    if absent:
        lacks = "; ".join(
            f"no trace has {name} ({counts.lacks[name]}): {counts.fix(name)}" for name in absent
        )
        return "fail", numbers, lacks
    if whole_share >= counts.share:
        return "pass", numbers, f"{_percent(whole_share)} of the traces report all four"
    least = counts.rarest(FAMILY_PARTS.values())
    n = counts.n_traces - counts.traces[least]
    return "inconclusive", numbers, f"{counted(n, 'trace')} without {least} ({counts.lacks[least]})"


def _sizes(counts: _Counts) -> _Verdict:
    filled = {name: counts.tasks[name] for name in DECADES}
    numbers = _listed(f"{name}: {counted(n, 'task')}" for name, n in filled.items())
    beyond = sum(counts.traces[part] for part in PARTS["B2"] if part not in DECADES)
    numbers += f"; {counted(beyond, 'trace')} in none" if beyond else ""
    if empty := [name for name, n in filled.items() if not n]:
        return "fail", numbers, f"no trace has {_listed(empty, 'or')} events"
    if thin := [name for name, n in filled.items() if n < counts.needed]:
        return "inconclusive", numbers, f"each needs {counted(counts.needed, 'task')}: more {_listed(thin)}"
    return "pass", numbers, f"each has {counted(counts.needed, 'task')} or more"


def _topologies(counts: _Counts) -> _Verdict:
    seen = [name for name in TOPOLOGIES if counts.traces[name]]
    unknown, several = counts.traces["topology not known"], counts.tasks["task under several"]
    names = f" ({', '.join(seen)})" if seen else ""
    numbers = f"{len(seen)} of 6{names}, {several:,} of {counted(counts.n_tasks, 'task')} under several"
    numbers += f", {counted(unknown, 'trace')} without" if unknown else ""
    if len(seen) < 2:
        if unknown:
            return "inconclusive", numbers, f"{counted(unknown, 'trace')} without a `topology`: set it"
        if not seen:
            return "fail", numbers, "all traces have a mixed topology"
        if mixed := counts.traces["mixed"]:
            return "fail", numbers, f"{counted(mixed, 'trace')} with a mixed topology, all others {seen[0]}"
        return "fail", numbers, f"all traces have {seen[0]}"
    if several / counts.n_tasks >= counts.share:  # a product may round above the number of tasks
        return "pass", numbers, "the same tasks ran under several topologies"
    if several:
        return "inconclusive", numbers, "few tasks ran under several: the others confound it with the task"
    repeats = "" if counts.n_repeated else ", and no task has two traces"
    return "inconclusive", numbers, f"topology is confounded with the task: none ran under two{repeats}"


def _attacks(counts: _Counts) -> _Verdict:
    attacks, untrusted = counts.traces["attack"], counts.traces["untrusted content"]
    recorded = counts.of_traces("safety recorded")
    twins = counts.of_traces("attack with a clean twin", "attack")
    numbers = f"attack {_percent(counts.of_traces('attack'))}"
    numbers += f", of these {_percent(twins)} with a clean twin" if attacks else ""
    numbers += f", untrusted content {_percent(counts.of_traces('untrusted content'))}"
    numbers += f", safety recorded {_percent(recorded)}"
    if attacks:
        if twins >= counts.share:
            return "pass", numbers, "attacked tasks ran without the attack, too"
        return "inconclusive", numbers, FIXES["attack with a clean twin"]
    if untrusted:
        return "inconclusive", numbers, f"untrusted content is no attack: {FIXES['attack']}"
    if recorded >= counts.share:
        return "fail", numbers, f"no attack, and nothing untrusted: {FIXES['attack']}"
    return "inconclusive", numbers, f"the recordings do not say: {FIXES['safety recorded']}"


def _replays(counts: _Counts) -> _Verdict:
    replayable = counts.of_traces("replayable")
    least = counts.rarest(REPLAYABLE)
    n = counts.n_traces - counts.traces[least]
    numbers = f"replayable {_percent(replayable)}"
    numbers += f", least: {least} {_percent(counts.of_traces(least))}" if n else ""
    if not counts.traces["replayable"]:
        return "fail", numbers, f"{counted(n, 'trace')} without '{least}': {FIXES[least]}"
    if replayable < counts.share:
        return "inconclusive", numbers, f"{counted(n, 'trace')} without '{least}': {FIXES[least]}"
    if counts.license is None:
        return "inconclusive", numbers, "no recording says its license: state it"
    return "pass", numbers, f"license as stated, not checked: {counts.license}"


def _percent(part: float) -> str:
    """A share in whole percent that is 0 or 100 only where it is."""
    rounded = round(100 * part)
    if 0 < part < 1 and rounded in (0, 100):
        return "<1 %" if rounded == 0 else ">99 %"
    return f"{rounded} %"


def _listed(names: Iterable[Any], word: str = "and") -> str:
    *first, last = map(str, names)
    return f"{', '.join(first)} {word} {last}" if first else last
