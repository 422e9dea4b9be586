"""The data of a page, fitted to its size."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.errors import ParameterError
from ..base.text import counted
from ..corpus.corpus import Corpus
from ..schedules.bottlenecks import critical_path
from ..summaries.narrative import Summary
from .answers import EVENTS, effects_of
from .beside import of_run
from .details import agents_of, findings_of, inner_edges, most_telling, timed_events
from .packing import packed, packed_json
from .page import block_size, empty_size, page_of
from .runs import findings, quarantine
from .sources import Sources

EFFECTS: Final = 400
"""Interventions of one run that a page shows."""
QUARANTINED: Final = 200
"""Rejected records that a page lists."""
LISTED: Final = 0.4
"""Share of the size that the list of runs may take."""


@dataclass(frozen=True)
class Parts:
    """The parts of a page."""

    rows: pl.DataFrame
    order: list[int]
    """All traces, those first that are most worth opening."""
    chosen: list[int]
    """Traces in detail."""
    story: Summary
    spending: pl.DataFrame
    no_reward: str | None
    credits: list[dict[str, Any]]
    tools: dict[str, Any]
    options: dict[str, Any]
    text: bool
    beside: pl.DataFrame | None = None
    """Steps of two runs side by side, of pairs of these runs."""


@dataclass(frozen=True)
class Facts:
    """The details of one run, before its events are fitted to the page."""

    trace: int
    events: pl.DataFrame
    edges: pl.DataFrame
    places: dict[str, Any]
    texts: Callable[[int, list[int]], tuple[list[str], str | None]]
    fixed: dict[str, Any]
    """The entries that do not depend on how many events are shown."""


@dataclass
class Extent:
    """How many runs the page lists and shows in detail, and sentences on what it leaves out."""

    listed: int = 0
    detailed: int = 0
    left_out: list[str] = field(default_factory=list)


def built(
    corpus: Corpus, parts: Parts, limit: int, progress: Callable[[int, int], object] | None
) -> tuple[bytes, Extent]:
    """The page and how much is in it.

    Raises
    ------
    ParameterError
        An empty page is larger than the limit.
    """
    extent = Extent()
    head = {
        "version": _core.VERSION,
        "records": parts.story.records,
        "story": [list(sentence) for sentence in parts.story.sentences()],
        "first": [list(run) for run in parts.story.runs.select("trace", "why").iter_rows()],
        "time": {
            "seconds": {name: value for name, value in parts.story.seconds.items() if name != "idle"},
            "idle": parts.story.seconds["idle"],
            "n_timed": parts.story.n_timed,
        },
        "spending": packed(parts.spending),
        "no_reward": parts.no_reward,
        "methods": [
            {name: answer[name] for name in ("method", "quantity", "tier", "summary", "reason")}
            for answer in parts.credits
        ],
        "quarantine": {name: packed(frame) for name, frame in quarantine(corpus, QUARANTINED).items()},
        "findings": packed(findings(corpus)),
        "text": parts.text,
        "beside": parts.beside is not None,
        "n_runs": parts.rows.height,
    }
    spent = empty_size() + len(packed_json(head).encode()) + 2_000  # the sentences on what is left out
    if spent > limit:
        raise ParameterError(
            f"max_bytes: a page without any run has {spent:,} bytes, more than the limit of {limit:,}"
        )
    rows, taken = _listed(parts, int((limit - spent) * LISTED))
    extent.listed = rows.height
    if rows.height < parts.rows.height:
        left = parts.rows.height - rows.height
        extent.left_out.append(
            f"The list lacks {counted(left, 'run')} of {parts.rows.height:,}: those with fewest events."
        )
    runs, omissions = _detailed(corpus, parts, rows["trace"].to_list(), limit - spent - taken, progress)
    extent.detailed = len(runs)
    extent.left_out += omissions
    shown = rows.with_columns(detail=pl.col("trace").is_in([trace for trace, _ in runs]))
    page = page_of(
        {**head, "left_out": extent.left_out, "opening": runs[0][0] if runs else None, "runs": packed(shown)},
        runs,
    )
    return page, extent


def _listed(parts: Parts, room: int) -> tuple[pl.DataFrame, int]:
    """As many rows of the list as there is room for, in the order of the corpus, and the bytes they take."""
    count = parts.rows.height
    while True:
        rows = (
            parts.rows.filter(pl.col("trace").is_in(parts.order[:count]))
            if count < parts.rows.height
            else parts.rows
        )
        size = len(packed_json(packed(rows.with_columns(detail=pl.lit(False)))).encode())
        if size <= room or not count:
            return rows, size
        count = min(count - 1, int(count * room / size * 0.95))


def _detailed(
    corpus: Corpus,
    parts: Parts,
    listed: list[int],
    room: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[list[tuple[int, str]], list[str]]:
    """The runs in detail that fit, and sentences on those that do not."""
    sources = Sources(corpus, parts.text)
    rows_shown = set(listed)
    chosen = [trace for trace in parts.chosen if trace in rows_shown]
    runs: list[tuple[int, str]] = []
    without, cut = 0, 0
    for done, trace in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen))
        facts = _facts(corpus, parts, trace, sources)
        data, text = _fitted(parts, facts, None if runs else room)
        if block_size(trace, text) > room:  # those after it are no more worth opening
            without = len(chosen) - done
            break
        room -= block_size(trace, text)
        runs.append((trace, text))
        cut += data["n_events"] > data["events"]["height"]
    if progress is not None and chosen:
        progress(len(chosen), len(chosen))
    omissions = []
    if without:
        omissions.append(f"{counted(without, 'run')} more did not fit in detail into the size of the page.")
    if rest := parts.rows.height - len(chosen):
        omissions.append(f"{rest:,} of {counted(parts.rows.height, 'run')} are in the list only.")
    if cut:
        omissions.append(f"Of {counted(cut, 'run')} some events are left out: the run says how many.")
    return runs, omissions


def _fitted(parts: Parts, facts: Facts, room: int | None) -> tuple[dict[str, Any], str]:
    """The data of a run, and its JSON; with a room, with as many events as fit, but at least one."""
    most = EVENTS
    while True:
        data = _data(parts, facts, most)
        text = packed_json(data)
        size = block_size(facts.trace, text)
        if room is None or size <= room or most <= 1:
            return data, text
        most = max(1, min(most - 1, data["events"]["height"] * room // size * 9 // 10))


def _facts(corpus: Corpus, parts: Parts, trace: int, sources: Sources) -> Facts:
    run = next(piece for piece in corpus.filter(pl.col("trace") == trace).slices() if len(piece))
    events = timed_events(run, parts.tools, parts.options)
    effects, no_effects = effects_of(run, events, parts.options)
    path = critical_path(run, by="agent", **parts.options)
    return Facts(
        trace=trace,
        events=events,
        edges=run.edges.select("src", "dst", pl.col("type").cast(pl.String)).collect(),
        places=sources.places(trace),
        texts=sources.texts,
        fixed={
            **run.traces.select("trace_id", pl.col("file").cast(pl.String), "line")
            .collect()
            .row(0, named=True),
            "trace": trace,
            "n_events": events.height,
            "agents": packed(agents_of(run, parts.options)),
            "critical": packed(path.select("agent", "critical", "share", "n_critical", "n_events")),
            "effects": packed(effects.head(EFFECTS)),
            "n_effects": effects.height,
            "no_effects": no_effects,
            "findings": packed(findings_of(run)),
            **({} if parts.beside is None else {"beside": of_run(parts.beside, trace)}),
        },
    )


def _data(parts: Parts, facts: Facts, most: int) -> dict[str, Any]:
    """The data of one run in a page, with at most so many events."""
    recorded = facts.events
    events = most_telling(recorded, most)
    seqs = events["seq"].to_list()
    places = facts.places
    if places["file"]:
        places = places | {name: [places[name][seq] for seq in seqs] for name in ("file", "line")}
    texts, no_texts = facts.texts(facts.trace, seqs)
    refused = recorded["finish"].null_count() > 0
    return {
        **facts.fixed,
        "unit": recorded["unit"][0],
        "no_schedule": next(iter(recorded["reason"].drop_nulls()), None) if refused else None,
        "events": packed(events.drop("reason", "unit")),
        "edges": packed(inner_edges(facts.edges, events)),
        "places": places,
        "texts": packed(pl.DataFrame({"text": texts}, schema={"text": pl.String})),
        "no_texts": no_texts,
        "credits": [_credit(answer, facts.trace, events) for answer in parts.credits],
    }


def _credit(answer: dict[str, Any], trace: int, events: pl.DataFrame) -> dict[str, Any]:
    """The credit of one run by one method: rows by agent, and a number for every event that is shown."""
    agents, by_event = answer["agents"], answer["events"]
    of_agents = None if agents is None else agents.filter(pl.col("trace") == trace).drop("trace")
    of_events = None
    if by_event is not None:
        rows = by_event.filter(pl.col("trace") == trace, pl.col("seq").is_not_null())
        of_events = events.select("seq").join(rows, on="seq", how="left", maintain_order="left")["credit"]
    return {
        "method": answer["method"],
        "agents": None if of_agents is None else packed(of_agents),
        "events": None if of_events is None or not of_events.count() else of_events.to_list(),
    }
