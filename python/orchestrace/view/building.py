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
from ..summaries.narrative import Story
from .answers import EVENTS, effects_of
from .details import agents_of, findings_of, kept_edges, most_telling, timed_events
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
    """What a page is made of."""

    rows: pl.DataFrame
    order: list[int]
    """All traces, those first that are most worth opening."""
    chosen: list[int]
    """Traces in detail."""
    story: Story
    spending: pl.DataFrame
    no_reward: str | None
    credits: list[dict[str, Any]]
    tools: dict[str, Any]
    options: dict[str, Any]
    text: bool


@dataclass(frozen=True)
class Facts:
    """What is known of one run in detail, before its events are fitted to the page."""

    trace: int
    events: pl.DataFrame
    edges: pl.DataFrame
    places: dict[str, Any]
    texts: Callable[[int, list[int]], tuple[list[str], str | None]]
    said: dict[str, Any]
    """What does not depend on how many events are shown."""


@dataclass
class Made:
    """How much of it is in the page."""

    listed: int = 0
    detailed: int = 0
    left_out: list[str] = field(default_factory=list)


def built(
    corpus: Corpus, parts: Parts, limit: int, progress: Callable[[int, int], object] | None
) -> tuple[bytes, Made]:
    """The page and how much is in it.

    Raises
    ------
    ParameterError
        An empty page is larger than the limit.
    """
    made = Made()
    head = {
        "version": _core.VERSION,
        "records": parts.story.records,
        "story": [list(one) for one in parts.story.sentences()],
        "first": [list(one) for one in parts.story.runs.select("trace", "why").iter_rows()],
        "time": {
            "seconds": {name: value for name, value in parts.story.seconds.items() if name != "idle"},
            "idle": parts.story.seconds["idle"],
            "n_timed": parts.story.n_timed,
        },
        "spending": packed(parts.spending),
        "no_reward": parts.no_reward,
        "methods": [
            {name: one[name] for name in ("method", "quantity", "tier", "summary", "reason")}
            for one in parts.credits
        ],
        "quarantine": {name: packed(frame) for name, frame in quarantine(corpus, QUARANTINED).items()},
        "findings": packed(findings(corpus)),
        "text": parts.text,
        "n_runs": parts.rows.height,
    }
    spent = empty_size() + len(packed_json(head).encode()) + 2_000  # the sentences on what is left out
    if spent > limit:
        raise ParameterError(
            f"max_bytes: a page without any run has {spent:,} bytes, more than the limit of {limit:,}"
        )
    rows, taken = _listed(parts, int((limit - spent) * LISTED))
    made.listed = rows.height
    if rows.height < parts.rows.height:
        left = parts.rows.height - rows.height
        made.left_out.append(
            f"The list lacks {counted(left, 'run')} of {parts.rows.height:,}: those with fewest events."
        )
    runs, told = _detailed(corpus, parts, rows["trace"].to_list(), limit - spent - taken, progress)
    made.detailed = len(runs)
    made.left_out += told
    shown = rows.with_columns(detail=pl.col("trace").is_in([trace for trace, _ in runs]))
    page = page_of(
        {**head, "left_out": made.left_out, "opening": runs[0][0] if runs else None, "runs": packed(shown)},
        runs,
    )
    return page, made


def _listed(parts: Parts, room: int) -> tuple[pl.DataFrame, int]:
    """As many rows of the list as there is room for, in the order of the corpus, and the bytes they take."""
    count = parts.rows.height
    while True:
        kept = (
            parts.rows.filter(pl.col("trace").is_in(parts.order[:count]))
            if count < parts.rows.height
            else parts.rows
        )
        size = len(packed_json(packed(kept.with_columns(detail=pl.lit(False)))).encode())
        if size <= room or not count:
            return kept, size
        count = min(count - 1, int(count * room / size * 0.95))


def _detailed(
    corpus: Corpus,
    parts: Parts,
    listed: list[int],
    room: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[list[tuple[int, str]], list[str]]:
    """The runs in detail that there is room for, and sentences on those that there is none for."""
    sources = Sources(corpus, parts.text)
    known = set(listed)
    chosen = [trace for trace in parts.chosen if trace in known]
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
    told = []
    if without:
        told.append(f"{counted(without, 'run')} more did not fit in detail into the size of the page.")
    if rest := parts.rows.height - len(chosen):
        told.append(f"{rest:,} of {counted(parts.rows.height, 'run')} are in the list only.")
    if cut:
        told.append(f"Of {counted(cut, 'run')} some events are left out: the run says how many.")
    return runs, told


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
    one = next(piece for piece in corpus.filter(pl.col("trace") == trace).slices() if len(piece))
    events = timed_events(one, parts.tools, parts.options)
    effects, no_effects = effects_of(one, events, parts.options)
    path = critical_path(one, by="agent", **parts.options)
    return Facts(
        trace=trace,
        events=events,
        edges=one.edges.select("src", "dst", pl.col("type").cast(pl.String)).collect(),
        places=sources.places(trace),
        texts=sources.texts,
        said={
            **one.traces.select("trace_id", pl.col("file").cast(pl.String), "line")
            .collect()
            .row(0, named=True),
            "trace": trace,
            "n_events": events.height,
            "agents": packed(agents_of(one, parts.options)),
            "critical": packed(path.select("agent", "critical", "share", "n_critical", "n_events")),
            "effects": packed(effects.head(EFFECTS)),
            "n_effects": effects.height,
            "no_effects": no_effects,
            "findings": packed(findings_of(one)),
        },
    )


def _data(parts: Parts, facts: Facts, most: int) -> dict[str, Any]:
    """What a page knows of one run, with at most so many events."""
    whole = facts.events
    events = most_telling(whole, most)
    kept = events["seq"].to_list()
    places = facts.places
    if places["file"]:
        places = places | {name: [places[name][seq] for seq in kept] for name in ("file", "line")}
    texts, no_texts = facts.texts(facts.trace, kept)
    refused = whole["finish"].null_count() > 0
    return {
        **facts.said,
        "unit": whole["unit"][0],
        "no_schedule": next(iter(whole["reason"].drop_nulls()), None) if refused else None,
        "events": packed(events.drop("reason", "unit")),
        "edges": packed(kept_edges(facts.edges, events)),
        "places": places,
        "texts": packed(pl.DataFrame({"text": texts}, schema={"text": pl.String})),
        "no_texts": no_texts,
        "credits": [_credit(one, facts.trace, events) for one in parts.credits],
    }


def _credit(told: dict[str, Any], trace: int, events: pl.DataFrame) -> dict[str, Any]:
    """What one method says of one run: rows by agent, and a number for every event that is shown."""
    agents, by_event = told["agents"], told["events"]
    own = None if agents is None else agents.filter(pl.col("trace") == trace).drop("trace")
    of_events = None
    if by_event is not None:
        rows = by_event.filter(pl.col("trace") == trace, pl.col("seq").is_not_null())
        of_events = events.select("seq").join(rows, on="seq", how="left", maintain_order="left")["credit"]
    return {
        "method": told["method"],
        "agents": None if own is None else packed(own),
        "events": None if of_events is None or not of_events.count() else of_events.to_list(),
    }
